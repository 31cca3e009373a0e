"""Simulations in which jobs only sleep, in columns: their input and output.

Where every job of the one workload is a ``delay`` with a host of its own for each processor,
a simulation is a few arrays. A loop over them need not know jobs as objects, nor have any of
the machinery of :mod:`~qops_batsim.engine.world`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple, TypeVar

import numpy as np

from qops_batsim.engine.ended_jobs import STATE_CODES, EndedJobs, HostChanges
from qops_batsim.engine.execution import STOPPED_DELAY_RETURN_CODE, plain_delay
from qops_batsim.engine.records import JobRecord
from qops_batsim.engine.world import World
from qops_batsim.jobs import (
    COMPLETED_FAILED,
    COMPLETED_KILLED,
    COMPLETED_SUCCESSFULLY,
    COMPLETED_WALLTIME_REACHED,
    FINAL_STATES,
    REJECTED,
    SUBMITTED,
    Job,
)
from qops_batsim.platform.host_intervals import HostIntervals
from qops_batsim.tables import Words
from qops_batsim.workload.workload_model import JobColumns

_Asked = TypeVar("_Asked")


class DelayJobs(NamedTuple):
    """The jobs of a workload, and how each would end; then those registered in the run.

    Attributes
    ----------
    workloads, columns
        Each job's workload, and the jobs themselves in the order of submission.
    places
        Where those that were not registered stand in their workload.
    run_times, states
        How long each of these runs (seconds), until its end or its walltime, and how it ends then:
        positions in :data:`~qops_batsim.jobs.FINAL_STATES`.
    registered
        Records of the last of the jobs, which the scheduler has registered.
    arrivals
        The jobs in the order in which they came, if that is another one.
    """

    workloads: Words
    columns: JobColumns
    places: np.ndarray
    run_times: np.ndarray
    states: np.ndarray
    registered: Sequence[JobRecord] = ()
    arrivals: np.ndarray | None = None

    @property
    def name(self) -> str:
        """The name of the workload."""
        return self.workloads.words[0]

    def full_id(self, index: int) -> str:
        """Return a job's identifier with the workload's name: ``WORKLOAD!NAME``."""
        workload = self.workloads.words[self.workloads.which[index]]
        return f"{workload}!{self.columns.ids[index]}"

    def full_ids(self) -> list[str]:
        """Return the jobs' identifiers with their workloads' names."""
        pairs = zip(self.workloads.texts(), self.columns.ids, strict=True)
        return [f"{workload}!{local_id}" for workload, local_id in pairs]


class Outcome(NamedTuple):
    """What happened to each job of a run: starts, ends and final states, in columns.

    Attributes
    ----------
    jobs
        What went in. Jobs are known by their positions in it.
    ended
        The jobs that ended or were rejected, in the order in which that was noted.
    starts, finishes
        Dates by job (seconds), NaN where there is none.
    states
        How each job that started has ended: positions in FINAL_STATES.
    hosts
        The hosts of the jobs of ``ended``, in that order.
    change_dates, computing
        Date of each start and end (seconds), and how many hosts compute from then on.
    idle
        How many hosts idle from then on, None if all others do.
    metadata
        Those of jobs that have any.
    """

    jobs: DelayJobs
    ended: np.ndarray
    starts: np.ndarray
    finishes: np.ndarray
    states: np.ndarray
    hosts: HostIntervals
    change_dates: np.ndarray
    computing: np.ndarray
    metadata: Mapping[int, str] = MappingProxyType({})
    idle: np.ndarray | None = None

    def host_changes(self, hosts: int) -> HostChanges:
        """Return the numbers of computing and idle hosts over time, given the total."""
        idle = hosts - self.computing if self.idle is None else self.idle
        return HostChanges(self.change_dates, self.computing, idle)


def check_profiles(world: World, name: str) -> np.ndarray:
    """Check that the engine can run all jobs; return the delays of their profiles.

    They are by position among their names (seconds), NaN where a profile is no plain delay, or
    not used. InputError if one cannot be run.
    """
    workload = world.workloads[name]
    columns = world.columns[name]
    delays = workload.plain_delays(columns.profile_names)
    is_used = np.bincount(columns.profiles, minlength=len(delays)) > 0
    delays[~is_used] = np.nan
    for place in np.flatnonzero(is_used & np.isnan(delays)).tolist():
        delay = plain_delay(workload.profiles.get(columns.profile_names[place]))
        delays[place] = np.nan if delay is None else delay
    others = np.flatnonzero(np.isnan(delays)[columns.profiles])
    pairs = zip(columns.profiles[others].tolist(), columns.processors[others].tolist(), strict=True)
    for index, processors in dict.fromkeys(pairs):
        profile = columns.profile_names[index]
        world.execution(name, profile, processors, where=workload.source)
    return delays


def delay_jobs_in(
    world: World, name: str, delays: np.ndarray, *, registering: bool = False
) -> DelayJobs | None:
    """Return a simulation's jobs if they only sleep on hosts of their own, else None.

    ``delays`` are those of :func:`check_profiles`; ``registering`` says that such jobs may be
    registered.
    """
    options = world.options
    if options.energy or options.forward_profiles:
        return None
    if options.compute_sharing and world.shared is None:
        return None

    workload = world.workloads[name]
    columns = world.columns[name]
    codes = np.zeros(len(delays), np.int64)
    delays = delays.copy()
    others = np.flatnonzero(np.isnan(delays)[columns.profiles])

    for place in others.tolist():
        index = int(columns.profiles[place])
        processors = int(columns.processors[place])
        profile = columns.profile_names[index]
        steps = world.execution(name, profile, processors, where=workload.source).steps
        if len(steps) > 1 or steps[0].delay is None:
            return None
        delays[index] = steps[0].delay
        codes[index] = steps[0].return_code

    if not (columns.ids or registering):
        return None
    return delay_jobs_of(name, columns, delays, codes, submission_order(columns))


def delay_jobs_of(
    name: str, columns: JobColumns, delays: np.ndarray, codes: np.ndarray, places: np.ndarray
) -> DelayJobs:
    """Return the jobs of a workload in the order of ``places``.

    ``delays`` (seconds) and return ``codes`` are by profile.
    """
    columns = in_order(columns, places)
    delays = delays[columns.profiles]
    walltimes = columns.walltimes
    success = STATE_CODES[COMPLETED_SUCCESSFULLY]
    failure = STATE_CODES[COMPLETED_FAILED]
    by_itself = np.where(codes[columns.profiles] == 0, success, failure)
    return DelayJobs(
        workloads=Words.one(name, len(places)),
        columns=columns,
        places=places,
        run_times=np.minimum(delays, walltimes),
        states=np.where(delays < walltimes, by_itself, STATE_CODES[COMPLETED_WALLTIME_REACHED]),
    )


def with_registered(
    jobs: DelayJobs, records: Sequence[JobRecord], arrived: Sequence[int]
) -> DelayJobs:
    """Return the jobs of a run with those that its scheduler has registered behind them.

    Before each of these, so many of the jobs had ``arrived``.
    """
    columns = jobs.columns
    count = len(jobs.places)
    workloads = {name: code for code, name in enumerate(jobs.workloads.words)}
    owners = (record.job.id.partition("!")[0] for record in records)
    owned = [workloads.setdefault(name, len(workloads)) for name in owners]
    listed = [record.job.renamed(record.local_id) for record in records]
    added = JobColumns.of(listed, columns.profile_names)

    requests = _joined(columns.requests, count, added.requests, len(records))
    # Stable: a job comes behind those that had arrived.
    turns = np.append(np.arange(count), np.array(arrived, np.float64) - 0.5)
    owners_of_all = np.append(jobs.workloads.which, np.array(owned, np.int64))
    return jobs._replace(
        workloads=Words(list(workloads), owners_of_all),
        columns=JobColumns(
            ids=[*columns.ids, *added.ids],
            submission_times=np.append(columns.submission_times, added.submission_times),
            processors=np.append(columns.processors, added.processors),
            walltimes=np.append(columns.walltimes, added.walltimes),
            estimates=np.append(columns.estimates, added.estimates),
            profiles=np.append(columns.profiles, added.profiles),
            profile_names=added.profile_names,
            requests=requests,
            hosts_asked=_joined(columns.hosts_asked, count, added.hosts_asked, len(records)),
        ),
        registered=records,
        arrivals=np.argsort(turns, kind="stable"),
    )


def _joined(
    first: list[_Asked | None] | None, count: int, then: list[_Asked | None] | None, more: int
) -> list[_Asked | None] | None:
    """Return a column of what ``count`` jobs and ``more`` jobs ask for; None where none does."""
    if first is None and then is None:
        return None
    return [*(first or [None] * count), *(then or [None] * more)]


def submission_order(columns: JobColumns) -> np.ndarray:
    """Return the jobs' indices in order of submission, ties by identifier."""
    places: np.ndarray = np.argsort(columns.submission_times, kind="stable")
    dates = columns.submission_times[places]
    borders = np.flatnonzero(np.diff(dates, prepend=-np.inf, append=np.inf))
    several = np.flatnonzero(np.diff(borders) > 1)
    for first, end in zip(borders[several].tolist(), borders[several + 1].tolist(), strict=True):
        places[first:end] = sorted(places[first:end].tolist(), key=columns.ids.__getitem__)
    return places


def in_order(columns: JobColumns, places: np.ndarray) -> JobColumns:
    """Return the columns of the jobs at these indices, in this order."""
    if np.array_equal(places, np.arange(len(columns.ids))):
        return columns

    listed = places.tolist()
    requests = columns.requests
    hosts_asked = columns.hosts_asked
    return JobColumns(
        ids=[columns.ids[place] for place in listed],
        submission_times=columns.submission_times[places],
        processors=columns.processors[places],
        walltimes=columns.walltimes[places],
        estimates=columns.estimates[places],
        profiles=columns.profiles[places],
        profile_names=columns.profile_names,
        requests=requests and [requests[place] for place in listed],
        hosts_asked=hosts_asked and [hosts_asked[place] for place in listed],
    )


def ended_jobs_of_outcome(outcome: Outcome) -> EndedJobs:
    """Return the jobs that have ended, in the columns of output files, from a run's outcome."""
    jobs = outcome.jobs
    columns = outcome.jobs.columns
    ended = outcome.ended
    starts = outcome.starts[ended]
    walltimes = columns.walltimes[ended]
    states = np.where(np.isnan(starts), STATE_CODES[REJECTED], outcome.states[ended])

    return EndedJobs(
        names=Words(columns.ids, ended),
        workloads=jobs.workloads.at(ended),
        profiles=Words(columns.profile_names, columns.profiles[ended]),
        submission_times=columns.submission_times[ended],
        processors=columns.processors[ended],
        walltimes=np.where(walltimes == np.inf, -1.0, walltimes),
        states=states.astype(np.int8),
        starts=starts,
        finishes=outcome.finishes[ended],
        hosts=outcome.hosts,
        energy=np.full(len(ended), -1.0),
        metadata=[outcome.metadata.get(job, "") for job in ended.tolist()]
        if outcome.metadata
        else None,
    )


def told_jobs(jobs: DelayJobs, listed: Sequence[Job]) -> Iterator[Job]:
    """Yield the jobs as they came, with full identifiers (``w0!1``), as messages name them."""
    ids = jobs.full_ids()
    places = jobs.places.tolist()
    count = len(places)
    order = range(len(ids)) if jobs.arrivals is None else jobs.arrivals.tolist()
    for index in order:
        if index < count:
            yield listed[places[index]].renamed(ids[index])
        else:
            yield jobs.registered[index - count].job


def remember(outcome: Outcome, world: World) -> None:
    """Make job records in a world from the loop's outcomes."""
    jobs = outcome.jobs
    registered = {record.job.id: record for record in jobs.registered}
    world.records.clear()
    for job in told_jobs(jobs, world.workloads[jobs.name].jobs):
        record = registered.get(job.id)
        if record is None:
            record = world.new_record(job.id.partition("!")[0], job)
        world.records[job.id] = record
        record.state = SUBMITTED
    records = [world.records[job_id] for job_id in jobs.full_ids()]
    ended = outcome.ended
    columns = outcome.starts, outcome.finishes, outcome.states
    rows = zip(*(column[ended].tolist() for column in columns), outcome.hosts.sets(), strict=True)
    for place, (start, finish, state, hosts) in zip(ended.tolist(), rows, strict=True):
        record = records[place]
        world.ended.append(record)
        record.metadata = outcome.metadata.get(place, "")
        if start != start:
            record.state = REJECTED
            continue

        record.state = FINAL_STATES[state]
        record.kill_asked = record.state == COMPLETED_KILLED
        if record.finish != record.finish:  # Else the world has executed it.
            is_stopped = record.state in (COMPLETED_WALLTIME_REACHED, COMPLETED_KILLED)
            code = record.execution.steps[0].return_code
            record.return_code = STOPPED_DELAY_RETURN_CODE if is_stopped else code
        record.start = start
        record.finish = finish
        record.hosts = hosts

    dates, computing, idle, _ = outcome.host_changes(len(world.hosts))
    changes = zip(dates.tolist(), computing.tolist(), idle.tolist(), strict=True)
    world.computing_changes.extend(changes)
