"""Outcomes of the jobs of a workload, all runs of a job taken together, and of deadlines.

A job that was killed and run again (``15``, then ``15#1``) is one job: its last run counts,
and the runs before it are lost work.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple, Protocol

import msgspec
import numpy as np

from qops_batsim.analysis.results.message_drift import message_drift
from qops_batsim.analysis.results.run import RunResult
from qops_batsim.analysis.results.tables import Booleans, Decisions, Floats, Integers, original_id
from qops_batsim.errors import InputError, shown
from qops_batsim.jobs import (
    COMPLETED_FAILED,
    COMPLETED_SUCCESSFULLY,
    COMPLETED_WALLTIME_REACHED,
    FINAL_STATES,
    REJECTED,
    Job,
    QosRequest,
)
from qops_batsim.tables import Choices
from qops_batsim.timing import PLAN_TOLERANCE
from qops_batsim.workload.delay_jobs import run_times_until_killed
from qops_batsim.workload.model import JobColumns, Workload

_ENDED_BY_ITSELF = (COMPLETED_SUCCESSFULLY, COMPLETED_FAILED, COMPLETED_WALLTIME_REACHED)
_ONCE = [FINAL_STATES.index(state) for state in (*_ENDED_BY_ITSELF, REJECTED)]


@dataclass(frozen=True)
class JobOutcomes:
    """Outcomes of jobs: arrays of shape (jobs,), in the order of the workloads.

    Identifiers have the workload's name in front (``"w0!15"``) where they come from files. Dates
    are in seconds; start and finish are NaN for a job that was refused, ``charged_time`` are the
    seconds of the last run if that ended by itself, else NaN. ``deadline`` and ``promised`` are
    what was asked for and what the scheduler promised, NaN for none; ``of_user`` tells whether the
    deadline is the user's own. ``wasted`` are the processor-seconds of the runs that the scheduler
    killed; ``lost`` are the runs killed before the last one of the same job: start, finish and
    processors, shape (runs, 3). ``source`` is for messages. ``latest_start`` are the starts that
    were promised, as by slack-based backfilling, NaN for none; None where that was not asked.
    ``predicted`` are run times that were planned with in place of estimates, likewise.
    ``drift`` is what the delays of messages added up to while a job waited whose promise would be
    broken without (seconds; see :mod:`~qops_batsim.analysis.results.message_drift`).
    """

    source: str
    workloads: tuple[Workload, ...]
    ids: list[str]
    submission: Floats
    start: Floats
    finish: Floats
    charged_time: Floats
    processors: Floats
    deadline: Floats
    promised: Floats
    of_user: Booleans
    refused: Booleans
    killed_runs: Integers
    wasted: Floats
    lost: Floats
    latest_start: Floats | None = None
    predicted: Floats | None = None
    drift: Floats | float = 0.0

    def is_late(self, came: Floats, promised: Floats, grace: float) -> Booleans:
        """Return which dates are later than promised by more than ``grace`` and drift explain."""
        late: Booleans = came > promised + np.maximum(grace + self.drift, PLAN_TOLERANCE)
        return late

    def with_deadlines_of(self, workload: Workload) -> JobOutcomes:
        """Return the same outcomes of a workload that differs in deadlines only."""
        deadline, of_user = _deadlines(workload.columns)
        return replace(self, workloads=(workload,), deadline=deadline, of_user=of_user)

    @cached_property
    def run_time(self) -> Floats:
        """Seconds each job runs, or would have run: to its end or its walltime.

        Only for jobs of type ``delay``; others are an :class:`~qops_batsim.errors.InputError`.
        """
        return np.concatenate([run_times_until_killed(each) for each in self.workloads])


class EndedJob(Protocol):
    """A job that ended, as the engine's records have it."""

    state: str
    start: float
    finish: float

    @property
    def local_id(self) -> str:
        """Identifier within the workload."""


class EndedColumns(Protocol):
    """The same of all jobs in columns; the engine's have it."""

    @property
    def ids(self) -> list[str]:
        """Identifiers within the workload."""

    @property
    def states(self) -> np.ndarray:
        """Positions in :data:`~qops_batsim.jobs.FINAL_STATES`."""

    @property
    def starts(self) -> np.ndarray:
        """Dates (seconds), NaN for what was rejected."""

    @property
    def finishes(self) -> np.ndarray:
        """Dates (seconds), likewise."""


class _RunOfJob(NamedTuple):
    """Final state, dates and duration (seconds; NaN if it was rejected) of one run of a job."""

    state: str
    start: float
    finish: float
    seconds: float


def has_user_deadline(job: Job) -> bool:
    """Return whether a job has a deadline that its user set."""
    return _is_of_user(job.qos)


def _is_of_user(qos: QosRequest | None) -> bool:
    return qos is not None and qos.deadline is not None and qos.has_user_deadline is not False


def outcomes_of_simulation(
    ended: Iterable[EndedJob], workload: Workload, promised: Mapping[str, float] | None = None
) -> JobOutcomes:
    """Return the outcome of each job of a workload in a simulation; O(jobs).

    ``ended`` are the jobs of ``Simulation.ended``, of which those of other workloads are left out;
    ``promised`` are the scheduler's deadlines (seconds) by job id within the workload.
    """
    runs = (
        (each.local_id, _RunOfJob(each.state, each.start, each.finish, each.finish - each.start))
        for each in ended
    )
    given = (promised or {}).items()
    return _outcomes(workload.source, {"": workload}, runs, given, only_known=False)


def outcomes_of_columns(
    ended: EndedColumns, workload: Workload, promised: Mapping[str, float]
) -> JobOutcomes | None:
    """Return :func:`outcomes_of_simulation` where each job ran once and ended by itself, else None.

    O(jobs), and for less than a tenth of the time.
    """
    columns = workload.columns
    places = {job_id: place for place, job_id in enumerate(columns.ids)}
    found = [places.get(job_id, -1) for job_id in ended.ids]
    if sorted(found) != list(range(len(places))) or not np.isin(ended.states, _ONCE).all():
        return None
    order = np.array(found)
    start, finish = np.empty((2, len(order)))
    start[order], finish[order] = ended.starts, ended.finishes
    deadline, of_user = _deadlines(columns)
    promises = np.full(len(order), math.nan)
    for job_id, date in promised.items():
        promises[places[job_id]] = date
    nothing = np.zeros(len(order))
    return JobOutcomes(
        source=workload.source,
        workloads=(workload,),
        ids=columns.ids,
        submission=np.maximum(columns.submission_times, 0.0),
        start=start,
        finish=finish,
        charged_time=finish - start,
        processors=columns.processors.astype(np.float64),
        deadline=deadline,
        promised=promises,
        of_user=of_user,
        refused=np.isnan(start),
        killed_runs=nothing.astype(np.int64),
        wasted=nothing,
        lost=np.empty((0, 3)),
    )


def _deadlines(columns: JobColumns) -> tuple[Floats, Booleans]:
    """Return the deadlines of jobs (NaN without), and whether they are their users' own."""
    deadline, of_user = np.full(len(columns.ids), math.nan), np.zeros(len(columns.ids), np.bool_)
    for place, qos in enumerate(columns.requests or ()):
        if qos is not None and qos.deadline is not None:
            deadline[place], of_user[place] = qos.deadline, _is_of_user(qos)
    return deadline, of_user


def outcomes_of_run(result: RunResult, workloads: Mapping[str, Workload]) -> JobOutcomes:
    """Return the outcome of each job, from a run's files; O(jobs).

    The run needs its ``_qos.csv``; ``workloads`` are all that was run, by name (``"w0"``, …).
    """
    if result.decisions is None:
        raise InputError(
            f"{result.source}: the run has no _qos.csv, which says what was promised; "
            "a run with one is expected"
        )
    columns = result.columns("starting_time", "finish_time", "execution_time")
    runs = map(_RunOfJob, result.text("final_state"), *(column.tolist() for column in columns))
    qos = result.decisions
    promised = zip(qos.ids, qos.admitted_deadlines.tolist(), strict=True)
    found = _outcomes(
        result.source,
        {f"{name}!": workload for name, workload in workloads.items()},
        zip(result.ids, runs, strict=True),
        ((job_id, deadline) for job_id, deadline in promised if not math.isnan(deadline)),
        only_known=True,
    )
    return _without_cancelled(_with_drift(found, result, ""), list(result.cancelled))


def _outcomes(
    source: str,
    workloads: Mapping[str, Workload],
    runs: Iterable[tuple[str, _RunOfJob]],
    promised: Iterable[tuple[str, float]],
    *,
    only_known: bool,
) -> JobOutcomes:
    """Put together what is known of the jobs of workloads, by the prefix of their identifiers."""
    jobs = {prefix + job.id: job for prefix, each in workloads.items() for job in each.jobs}
    runs_of: dict[str, list[_RunOfJob]] = {job_id: [] for job_id in jobs}
    for job_id, run in runs:
        origin = original_id(job_id, jobs)
        if origin is not None:
            runs_of[origin].append(run)
        elif only_known:
            raise InputError(
                f"{source}: job {shown(job_id)} is in no workload given; the workloads that were "
                "run are expected"
            )
    for prefix, workload in workloads.items():
        for job in workload.jobs:
            if not runs_of[prefix + job.id]:
                raise InputError(
                    f"{source}: job {shown(job.id)} of {workload.source} is not in the run; "
                    "the workload that was run is expected"
                )
    promises = dict.fromkeys(jobs, math.nan)
    for job_id, deadline in promised:
        origin = original_id(job_id, jobs)
        if origin is not None:
            promises[origin] = deadline
    return _columns(source, workloads, jobs, runs_of, promises)


def _columns(
    source: str,
    workloads: Mapping[str, Workload],
    jobs: Mapping[str, Job],
    runs_of: Mapping[str, list[_RunOfJob]],
    promises: Mapping[str, float],
) -> JobOutcomes:
    last: list[_RunOfJob] = []
    lost: list[tuple[float, float, int]] = []
    killed_runs, wasted = [], []
    for job_id, job in jobs.items():
        runs = sorted(runs_of[job_id], key=lambda run: run.start)
        last.append(runs[-1])
        lost += ((run.start, run.finish, job.processors) for run in runs[:-1])
        # A rejected job has run no time.
        killed = [
            job.processors * run.seconds
            for run in runs
            if run.state not in _ENDED_BY_ITSELF and not math.isnan(run.seconds)
        ]
        killed_runs.append(len(killed))
        wasted.append(sum(killed))
    deadlines = (None if job.qos is None else job.qos.deadline for job in jobs.values())
    return JobOutcomes(
        source=source,
        workloads=tuple(workloads.values()),
        ids=list(jobs),
        submission=np.maximum([job.submission_time for job in jobs.values()], 0.0),
        start=np.array([run.start for run in last], np.float64),
        finish=np.array([run.finish for run in last], np.float64),
        charged_time=np.array(
            [run.seconds if run.state in _ENDED_BY_ITSELF else math.nan for run in last]
        ),
        processors=np.array([job.processors for job in jobs.values()], np.float64),
        deadline=np.array([math.nan if each is None else each for each in deadlines], np.float64),
        promised=np.array(list(promises.values()), np.float64),
        of_user=np.array([has_user_deadline(job) for job in jobs.values()], np.bool_),
        refused=np.array([run.state == REJECTED for run in last], np.bool_),
        killed_runs=np.array(killed_runs, np.int64),
        wasted=np.array(wasted, np.float64),
        lost=np.array(lost, np.float64).reshape(-1, 3),
    )


class Tally(msgspec.Struct, frozen=True):
    """Number of jobs, and their work (processor-seconds), None unless all are of type delay."""

    jobs: int
    work: float | None


class DeadlineMetrics(msgspec.Struct, frozen=True, kw_only=True):
    """The deadlines of users in one run.

    ``asked`` is the sum of ``refused``, ``met`` and ``missed``: the jobs that were rejected, that
    ended by the deadline asked for, and that did not. The scheduler ``promised`` a deadline, the
    one asked for or a later one, which was ``kept`` or ``broken``; ``renewed`` are the jobs that
    were promised another one when hosts had left.
    """

    asked: Tally
    promised: Tally
    kept: Tally
    broken: Tally
    met: Tally
    missed: Tally
    refused: Tally
    renewed: int


class Fates(NamedTuple):
    """Fates of deadlines: jobs that were refused one, met or missed it, and promises kept."""

    refused: Booleans
    met: Booleans
    missed: Booleans
    promised: Booleans
    kept: Booleans


def fates(outcomes: JobOutcomes, grace: float = 0.0) -> Fates:
    """Return the fate of each job's deadline; ``grace`` in seconds. O(jobs)."""
    ended = ~outcomes.refused & ~np.isnan(outcomes.charged_time)
    met = outcomes.of_user & ended & ~outcomes.is_late(outcomes.finish, outcomes.deadline, grace)
    promised = outcomes.of_user & ~outcomes.refused & np.isfinite(outcomes.promised)
    return Fates(
        refused=outcomes.of_user & outcomes.refused,
        met=met,
        missed=outcomes.of_user & ~outcomes.refused & ~met,
        promised=promised,
        kept=promised & ended & ~outcomes.is_late(outcomes.finish, outcomes.promised, grace),
    )


def deadline_metrics(
    outcomes: JobOutcomes, *, grace: float = 0.0, renewed: int = 0
) -> DeadlineMetrics:
    """Count the deadlines of users; O(jobs)."""
    work, found = job_work(outcomes), fates(outcomes, grace)

    def tally(which: Booleans) -> Tally:
        return Tally(int(which.sum()), None if work is None else float(work[which].sum()))

    return DeadlineMetrics(
        asked=tally(outcomes.of_user),
        promised=tally(found.promised),
        kept=tally(found.kept),
        broken=tally(found.promised & ~found.kept),
        met=tally(found.met),
        missed=tally(found.missed),
        refused=tally(found.refused),
        renewed=renewed,
    )


def deadlines_of_run(
    result: RunResult, workloads: Mapping[str, Workload]
) -> DeadlineMetrics | None:
    """Count the deadlines of users in a run of these workloads, by name; None if there is none."""
    if not any(map(has_user_deadlines, workloads.values())):
        return None
    renewed = 0 if result.decisions is None else int((result.decisions.new_promises > 0).sum())
    grace = result.grace
    return deadline_metrics(
        outcomes_with_deadlines(result, workloads), grace=grace, renewed=renewed
    )


def has_user_deadlines(workload: Workload) -> bool:
    """Tell whether any job's user set a deadline; O(jobs)."""
    return any(map(_is_of_user, workload.columns.requests or ()))


def outcomes_with_deadlines(result: RunResult, workloads: Mapping[str, Workload]) -> JobOutcomes:
    """Return the outcome of each job, also in runs of schedulers without a ``_qos.csv``."""
    if result.decisions is None:
        none: Floats = np.empty(0)
        nobody = np.empty(0, np.bool_)
        no_decisions = Decisions([], np.empty(0, np.int8), none, none, none, none, none, nobody)
        result = replace(result, decisions=no_decisions)
    if len(workloads) == 1 and not result.earlier_runs:
        ((name, workload),) = workloads.items()
        found = outcomes_of_columns(_ColumnsOfRun(result), workload, _promised(result, name))
        if found is not None:
            ids = [job_id.removeprefix(f"{name}!") for job_id in result.cancelled]
            return _without_cancelled(_with_drift(found, result, f"{name}!"), ids)
    return outcomes_of_run(result, workloads)


def _with_drift(outcomes: JobOutcomes, result: RunResult, prefix: str) -> JobOutcomes:
    """Return outcomes with the drift of promises that the grace of a run alone does not excuse.

    The ids of the result are those of the outcomes with a ``prefix``.
    """
    late = np.flatnonzero(outcomes.is_late(outcomes.finish, outcomes.promised, result.grace))
    if not (len(late) and result.grace) or (result.info and result.info.compute_sharing):
        return outcomes
    places = {prefix + outcomes.ids[place]: place for place in late.tolist()}
    drift = np.zeros(len(outcomes.ids))
    ids = result.ids
    rows = [
        (row, places[origin])
        for row in np.flatnonzero(result.last_runs).tolist()
        if (origin := original_id(ids[row], places)) is not None
    ]
    drift[[place for _, place in rows]] = message_drift(result, np.array([row for row, _ in rows]))
    return replace(outcomes, drift=drift)


def _without_cancelled(outcomes: JobOutcomes, cancelled: list[str]) -> JobOutcomes:
    """Count no deadline of the jobs that their users cancelled, by id: none was met or refused."""
    if cancelled:
        outcomes.of_user[np.isin(outcomes.ids, cancelled)] = False
    return outcomes


class _ColumnsOfRun:
    """The jobs of a run, each of which ran once, in columns."""

    def __init__(self, result: RunResult) -> None:
        self.ids = list(result.text("job_id"))
        self.states: Choices = result.table.states
        ran = result.executed
        self.starts = np.where(ran, result.column("starting_time"), np.nan)
        self.finishes = np.where(ran, result.column("finish_time"), np.nan)


def _promised(result: RunResult, name: str) -> dict[str, float]:
    qos = result.decisions
    if qos is None:
        return {}
    rows = np.flatnonzero(~np.isnan(qos.admitted_deadlines))
    begin = len(name) + 1
    return {qos.ids[row][begin:]: float(qos.admitted_deadlines[row]) for row in rows.tolist()}


def job_work(outcomes: JobOutcomes) -> Floats | None:
    """Return the processor-seconds of each job, None unless all are of type delay. O(jobs)."""
    work: Floats = outcomes.processors * np.concatenate(
        [_run_times(each) for each in outcomes.workloads]
    )
    return None if np.isnan(work).any() else work


def _run_times(workload: Workload) -> Floats:
    """Return the run time of each delay job, up to its walltime (seconds); NaN for others."""
    columns, profiles = workload.columns, workload.profiles
    used = (profiles.get(name, {}) for name in columns.profile_names)
    delays = [each["delay"] if each.get("type") == "delay" else np.nan for each in used]
    run_times: Floats = np.minimum(
        np.array(delays, np.float64)[columns.profiles], columns.walltimes
    )
    return run_times
