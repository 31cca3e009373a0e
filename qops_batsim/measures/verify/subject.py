"""A run in the form that the verifier's rules use."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from qops_batsim.core.machine import Machine
from qops_batsim.jobs import COMPLETED_KILLED
from qops_batsim.measures.results.allocations import Stays
from qops_batsim.measures.results.host_amounts import RequestsOfRun, requests_of_run
from qops_batsim.measures.results.result_tables import (
    Booleans,
    Floats,
    Integers,
    first_run_id,
    real_ends,
    tolerance,
)
from qops_batsim.measures.results.run_result import RunResult
from qops_batsim.measures.verify.predictions import EndedRun, PastRuns
from qops_batsim.tables import AnyTexts
from qops_batsim.timing import least_grace
from qops_batsim.workload.workload_model import JobColumns, Workload


class JobNumbers:
    """Consecutive numbers for all jobs that occur in a run's files, so that arrays can be indexed
    by job.

    Every full identifier has a number: jobs of the workloads from 0 on, in their order, what else
    the files name after them.

    Attributes
    ----------
    known
        How many jobs the workloads have.
    rows
        The number of each row of ``_jobs.csv``.
    owners
        The number of the job that each row is a run of: ``15`` for ``15#1`` as for ``15``.
    qos
        The number of each row of ``_qos.csv``.
    """

    def __init__(self, result: RunResult, ids: Mapping[str, Sequence[str]]) -> None:
        self._result = result
        self._ids = ids
        """Identifiers of the jobs of each workload, by its name."""
        self.known = sum(map(len, ids.values()))
        self._others: dict[str, int] = {}
        self.rows: Integers = self._of_rows(result)
        self.owners: Integers = self._owners()
        self.qos: Integers = self._of_decisions(result)

    def __len__(self) -> int:
        return self.known + len(self._others)

    def number(self, full_id: str) -> int | None:
        """Return the number of the job with this full identifier; None if neither files nor
        workloads have the job.
        """
        number = self._numbers.get(full_id)
        return self._others.get(full_id) if number is None else number

    @cached_property
    def _numbers(self) -> dict[str, int]:
        """Number of each job of the workloads, by full identifier."""
        full_ids = (f"{name}!{local_id}" for name, ids in self._ids.items() for local_id in ids)
        return {full_id: number for number, full_id in enumerate(full_ids)}

    def name(self, number: int) -> str:
        """Return the full identifier of the job with a number."""
        for name, ids in self._ids.items():
            if number < len(ids):
                return f"{name}!{ids[number]}"
            number -= len(ids)
        return list(self._others)[number]

    def _of_rows(self, result: RunResult) -> Integers:
        return self._numbered(result.text("workload_name"), result.text("job_id"))

    def _of_decisions(self, result: RunResult) -> Integers:
        if result.decisions is None:
            return np.zeros(0, np.int64)
        columns = result.decisions.columns
        return self._numbered(columns["workload_name"], columns["job_id"])

    def _numbered(self, workloads: AnyTexts, ids: AnyTexts) -> Integers:
        """Return the number of the job of each row; jobs that no workload has get new numbers.

        Where there is one workload, many are found at once.
        """
        found: Integers = np.full(len(ids), -1)
        if len(self._ids) == 1 and workloads.are_all(next(iter(self._ids))):
            (known,) = self._ids.values()
            found = ids.places(known)
        for row in np.flatnonzero(found < 0).tolist():
            full_id = f"{workloads[row]}!{ids[row]}"
            number = self._numbers.get(full_id)
            if number is None:
                number = self._others.setdefault(full_id, self.known + len(self._others))
            found[row] = number
        return found

    def _owners(self) -> Integers:
        owners = self.rows.copy()
        # Only what no workload has can be a later run.
        owner_of = {
            number: owner
            for full_id, number in self._others.items()
            if (owner := self._origin(full_id)) is not None
        }
        if owner_of:
            for row in np.flatnonzero(owners >= self.known).tolist():
                number = int(owners[row])
                owners[row] = owner_of.get(number, number)
        return owners

    def _origin(self, full_id: str) -> int | None:
        """Return the number of the job that an identifier like ``15#1`` is a later run of; None if
        there is none.
        """
        origin = first_run_id(full_id)
        if origin is None:
            return None
        number = self.number(origin)
        if self._ids:
            return number if number is not None and number < self.known else None
        # Without a workload, whatever is no later run of another row is a job.
        before = first_run_id(origin)
        return None if before is not None and before in self._others else number

    @cached_property
    def first(self) -> Booleans:
        """Whether each row of ``_jobs.csv`` is the first row with its identifier."""
        first: Booleans = self._named[self.rows] == np.arange(len(self.rows))
        return first

    @cached_property
    def _named(self) -> Integers:
        """First row of each identifier, by number; arbitrary for identifiers without a row."""
        named = np.zeros(len(self), np.int64)
        named[self.rows[::-1]] = np.arange(len(self.rows))[::-1]
        return named

    @cached_property
    def latest(self) -> Booleans:
        """Whether each row of ``_jobs.csv`` is the last row with its identifier."""
        place = np.empty(len(self), np.int64)
        rows = np.arange(len(self.rows))
        place[self.rows] = rows
        latest: Booleans = place[self.rows] == rows
        return latest

    @cached_property
    def several(self) -> Booleans:
        """Whether each job, by number, has several runs in ``_jobs.csv``."""
        several: Booleans = np.bincount(self.owners[self.latest], minlength=len(self)) > 1
        return several

    @cached_property
    def last_runs(self) -> Booleans:
        """Whether each row of ``_jobs.csv`` is the last run of its job."""
        last = self.latest & ~self.several[self.owners]
        for rows in self.runs(self.several):
            last[rows[-1]] = True
        return last

    def runs(self, wanted: Booleans) -> Iterator[list[int]]:
        """Yield, for each of the ``wanted`` jobs (a mask by number), the rows of its runs, sorted
        by start.

        Jobs in the order in which the file first names one of their runs.
        """
        rows = np.flatnonzero(wanted[self.owners] & self.latest)
        if not len(rows):
            return
        first = np.full(len(self), len(self.rows))
        np.minimum.at(first, self.owners[rows], self._named[self.rows[rows]])
        start: Floats = np.nan_to_num(self._result.column("starting_time")[rows], nan=np.inf)
        rows = rows[np.lexsort((rows, start, first[self.owners[rows]]))]
        for runs_of_job in np.split(rows, np.flatnonzero(np.diff(self.owners[rows])) + 1):
            yield runs_of_job.tolist()


def stays_by_host(result: RunResult, hosts: Integers | None = None) -> Stays:
    """Return all pairs of an executed job and one of its hosts, sorted by host, start and finish; a
    job that ran for 0 s ends at its start.

    With ``hosts``, only pairs on these hosts are returned.
    """
    stays = result.stays(hosts)
    stays = stays._replace(finish=real_ends(stays.start, stays.finish))
    return stays.where(np.lexsort((stays.finish, stays.start, stays.hosts)))


def most_at_once(result: RunResult) -> Integers:
    """Return for each job the greatest number of jobs, itself included, that ran at the same time
    on one of its hosts.

    1 for a job that was alone all the time, 0 for one that never ran. A job that
    starts when another one ends does not meet it. O(n log n) in the number of pairs of
    job and host, plus the pairs of jobs that meet.
    """
    stays = result.stays()
    most: Integers = np.zeros(len(result.executed), np.int64)
    for rows, _, begins, ends in stays.where(np.argsort(stays.hosts, kind="stable")).of_each_host():
        changes = np.repeat([-1, 1], len(rows))
        # Ends come first: the sort is stable.
        order = np.argsort(np.concatenate([ends, begins]), kind="stable")
        present = np.cumsum(changes[order])
        place = np.empty_like(order)
        place[order] = np.arange(len(order))

        for index, row in enumerate(rows.tolist()):
            since = place[len(rows) + index]
            until = place[index]
            highest = int(present[since:until].max()) if until > since else 1
            most[row] = max(most[row], highest)

    return most


Numbers = npt.NDArray[np.float64 | np.int64]

PREDICTED = "predicted"
"""Value of the option ``run_times`` of schedulers that plan with predictions."""

KILLED_TOO_LATE = 6
"""Number of a user's last runs whose kill may have come after they had ended by themselves."""

SAME_SPEED = 1e-6
"""Speeds computed from rounded estimates that differ by this part of them are one."""


@dataclass(frozen=True)
class Subject:
    """A run with its workloads and options, as the verifier's rules check it."""

    result: RunResult
    workloads: dict[str, Workload]
    compute_sharing: bool
    any_allocation_size: bool

    @property
    def executed(self) -> Booleans:
        return self.result.executed

    @property
    def machine(self) -> Machine | None:
        """What hosts have for jobs that share them; None if they have no such amounts."""
        return self.result.machine

    @cached_property
    def asks_of_hosts(self) -> bool:
        """Whether any job asks for more than a number of hosts."""
        return any(columns.hosts_asked is not None for columns in self.columns)

    @cached_property
    def requests(self) -> RequestsOfRun | None:
        """What jobs ask of hosts that they share by amounts; None on other hosts."""
        return requests_of_run(self.result, self.workloads)

    @property
    def slows_down(self) -> bool:
        """Whether estimates stretch by the neighbours of a job: where it shares whole hosts."""
        return self.compute_sharing and self.machine is None

    @cached_property
    def grace(self) -> float:
        """Lateness (seconds) up to which a promise counts as kept, from ``_run.json``."""
        return self.result.grace

    @cached_property
    def ends(self) -> Floats:
        """Earliest possible end of each job (seconds), as :func:`real_ends` computes it."""
        return real_ends(*self.result.columns("starting_time", "finish_time"))

    @cached_property
    def job_numbers(self) -> JobNumbers:
        """Numbers of the jobs in the files."""
        ids = {
            name: columns.ids for name, columns in zip(self.workloads, self.columns, strict=True)
        }
        return JobNumbers(self.result, ids)

    @cached_property
    def columns(self) -> list[JobColumns]:
        """The jobs of each workload in columns."""
        return [workload.columns for workload in self.workloads.values()]

    @cached_property
    def most_at_once(self) -> Integers:
        """For each job, the most jobs that any of its hosts ran at once while it ran."""
        return most_at_once(self.result)

    def asked(self, name: str) -> Floats:
        """Return what the jobs of the workloads ask for in one column, by job number; NaN for jobs
        that no workload has.
        """
        return self.by_number(getattr(columns, name) for columns in self.columns)

    @cached_property
    def checkpoints(self) -> Floats:
        """Checkpoint interval of each job (seconds), by number; NaN without."""
        return self.asked("checkpoints")

    @cached_property
    def delays(self) -> Floats:
        """Run time of each ``delay`` job (seconds), by number; NaN for others."""
        return self.by_number(workload.delays for workload in self.workloads.values())

    @cached_property
    def understated(self) -> Booleans:
        """Whether each job, by number, may run longer than its ``qos.estimated_runtime``.

        A ``delay`` job may if the delay is longer. A computation may if it has more operations for
        each second of its estimate than another one of the run, since no file tells for which speed
        users estimate. Of other profiles nothing is known, so they may.
        """
        speeds_by_workload = []
        for workload, columns in zip(self.workloads.values(), self.columns, strict=True):
            profiles = [workload.profiles.get(name, {}) for name in columns.profile_names]
            operations = [
                float(profile["cpu"]) if profile.get("type") == "parallel_homogeneous" else math.inf
                for profile in profiles
            ]
            estimates = [
                math.nan if qos is None or qos.estimated_runtime is None else qos.estimated_runtime
                for qos in columns.requests or [None] * len(columns.ids)
            ]
            of_jobs = np.array(operations, np.float64)[columns.profiles]
            speeds_by_workload.append(of_jobs / np.array(estimates, np.float64))

        # Operations for each second of the estimate.
        speeds = self.by_number(speeds_by_workload)
        slowest = speeds[~np.isnan(speeds)].min(initial=math.inf)
        computes_more = (speeds > slowest * (1 + SAME_SPEED)) | np.isinf(speeds)
        sleeps = np.isfinite(self.delays)
        return np.where(sleeps, self.delays > self.asked("estimates"), computes_more)

    @cached_property
    def rated_by_speed(self) -> bool:
        """Whether estimates are seconds on a host of reference speed rather than on the job's own
        hosts, as with shared hosts.
        """
        info = self.result.info
        return self.slows_down or (info is not None and info.scheduler == "aroma")

    @cached_property
    def recorded_predictions(self) -> Floats:
        """Predicted run times (seconds) that the scheduler recorded in ``_qos.csv``, by job number.

        NaN if nothing was recorded, or nothing shorter than the estimate.
        """
        told = np.full(len(self.job_numbers), np.nan)
        qos = self.result.decisions
        if qos is not None:
            told[self.job_numbers.qos] = qos.numbers("predicted_run_time")
        estimates = self.asked("estimates")
        told[told >= estimates - tolerance(np.nan_to_num(told))] = np.nan
        return told

    @cached_property
    def predictions(self) -> Floats:
        """Recorded predictions of run times (seconds), by job number, that the run's options and
        users' earlier runs confirm; NaN for all others.

        Where no file has the options or the users, all recorded predictions are kept.
        """
        told = self.recorded_predictions
        info = self.result.info
        options = None if info is None else info.options
        if options is not None and options.get("run_times") != PREDICTED:
            return np.full(len(told), np.nan)

        numbers = np.flatnonzero(~np.isnan(told))
        if not self.workloads or not len(numbers):
            return told

        past = self._past_runs()
        confirmed = np.full(len(told), np.nan)
        arrivals = self.asked("submission_times")
        margins = tolerance(np.nan_to_num(arrivals))

        for number in numbers.tolist():
            runs = past.get(self.users[number])
            dates = float(arrivals[number]), float(margins[number])
            if runs is not None and runs.can_predict(float(told[number]), *dates):
                confirmed[number] = told[number]

        return confirmed

    @cached_property
    def users(self) -> list[str | None]:
        """The user of each job by number; None for jobs of no workload."""
        of_jobs = [job.user for each in self.workloads.values() for job in each.jobs]
        return of_jobs + [None] * (len(self.job_numbers) - self.job_numbers.known)

    def _past_runs(self) -> dict[str | None, PastRuns]:
        """Return the ended runs of each user's jobs."""
        info = self.result.info
        numbers = self.job_numbers.owners
        takes_time = info is None or info.message_delays is not False
        delay = least_grace(0.0 if info is None else info.round_trip) if takes_time else 0.0
        kills = takes_time and (info is None or (info.options or {}).get("kill_and_restart"))
        start, finish = self.result.columns("starting_time", "finish_time")
        certain = ~self.result.ended_as(COMPLETED_KILLED)
        runs: dict[str, list[EndedRun]] = {}

        for row in np.flatnonzero(self.executed).tolist():
            user = self.users[numbers[row]]
            if user is not None:
                seconds = float(finish[row] - start[row])
                run = EndedRun(float(finish[row]), seconds, bool(certain[row]))
                runs.setdefault(user, []).append(run)

        needed = 2 + KILLED_TOO_LATE if kills else 2
        return {user: PastRuns(each, delay, needed) for user, each in runs.items()}

    def by_number(self, columns: Iterable[Numbers]) -> Floats:
        """Return columns of the workloads joined to one array by job number; NaN for jobs that no
        workload has.
        """
        further = np.full(len(self.job_numbers) - self.job_numbers.known, np.nan)
        return np.concatenate([*columns, further])
