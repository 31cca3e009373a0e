"""What became of a workload's jobs and of their deadlines; all runs of a job count together.

A job that was killed and run again (``15``, then ``15#1``) is one job: its last run counts,
and the runs before it are lost work, but for what was saved (``qos.checkpoint``).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import msgspec
import numpy as np

from qops_batsim.core.machine import Machine
from qops_batsim.engine.ended_jobs import EndedJobs
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
from qops_batsim.measures.results.host_amounts import sizes_of
from qops_batsim.measures.results.message_drift import message_drift
from qops_batsim.measures.results.result_tables import (
    Booleans,
    Decisions,
    Floats,
    Integers,
    is_continuation,
    original_id,
    rows_before,
    saved_times,
)
from qops_batsim.measures.results.run_result import RunResult
from qops_batsim.timing import PLAN_TOLERANCE
from qops_batsim.workload.delay_jobs import run_times_until_killed
from qops_batsim.workload.workload_model import JobColumns, Workload

_ENDED_BY_ITSELF = [
    FINAL_STATES.index(state)
    for state in (COMPLETED_SUCCESSFULLY, COMPLETED_FAILED, COMPLETED_WALLTIME_REACHED)
]


@dataclass(frozen=True)
class JobOutcomes:
    """What became of each job of a run (dates, promise, kills): arrays with one element a job, in
    the order of the workloads.

    Identifiers have the workload's name in front (``"w0!15"``) where they come from files. Dates
    are in seconds; start and finish are NaN for a job that was refused, ``charged_time`` are the
    seconds of the last run, and of what was ``saved`` of those before it, if it ended by itself,
    else NaN. ``processors`` are dominant shares, in hosts, of jobs that share hosts by amounts.
    ``deadline`` and ``promised`` are
    what was asked for and what the scheduler promised, NaN for none; ``of_user`` tells whether the
    deadline is the user's own. ``wasted`` are the processor-seconds lost in runs that the scheduler
    killed; ``lost`` are the runs killed before the last one of the same job: start, finish and
    processors, shape (runs, 3). ``source`` is for messages. ``latest_start`` are the starts that
    were promised, as by slack-based backfilling, NaN for none.
    ``predicted`` are run times that were planned with in place of estimates, likewise.
    ``queues`` and ``prices`` are those of a scheduler with priced queues, each price a multiple of
    the usual charge (1 for a job in no queue); other schedulers have neither.
    ``given_back`` tells which promises of deadlines their users gave back: they cancelled the job.
    ``at_walltime`` tells which jobs were killed at their walltime: their last run ended in state
    ``COMPLETED_WALLTIME_REACHED``. ``began`` are the starts from which a job that was stopped and
    went on without a loss, as under AROMA, has run; None where all starts are those.
    ``drift`` is what the delays of messages added up to while a job waited whose promise would be
    broken without (seconds; see :mod:`~qops_batsim.measures.results.message_drift`).
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
    saved: Floats | float = 0.0
    latest_start: Floats | float = math.nan
    predicted: Floats | float = math.nan
    queues: Sequence[str] = ()
    prices: Floats | float = 1.0
    drift: Floats | float = 0.0
    given_back: Booleans | bool = False
    at_walltime: Booleans | bool = False
    began: Floats | None = None

    def is_late(self, actual: Floats, promised: Floats | float, grace: float) -> Booleans:
        """Return which ``actual`` dates are later than the ``promised`` ones by more than the grace
        plus the job's ``drift`` (message delays), all in seconds.
        """
        late: Booleans = is_late(actual, promised, grace + self.drift)
        return late

    def late(self, grace: float) -> Booleans:
        """Return which jobs ended after their promised deadline, or started after their promised
        latest start, by more than the grace (seconds) and the drift.
        """
        ends_late = self.is_late(self.finish, self.promised, grace)
        return ends_late | self.is_late(self.start, self.latest_start, grace)

    def with_deadlines_of(self, workload: Workload) -> JobOutcomes:
        """Return the outcomes with the deadlines of a workload that differs only in deadlines."""
        deadline, of_user = _deadlines(workload.columns)
        return replace(self, workloads=(workload,), deadline=deadline, of_user=of_user)

    @property
    def lasted(self) -> Floats:
        """Time that each job ran (seconds): its last run, plus what checkpoints saved of earlier,
        killed runs.
        """
        return self.finish - self.start + self.saved

    @property
    def wait(self) -> Floats:
        """Time that each job waited (seconds), until its last run, or until the first of those that
        went on without a loss.
        """
        return (self.start if self.began is None else self.began) - self.submission

    @property
    def estimates(self) -> Floats:
        """Estimated run time of each job (seconds)."""
        return np.concatenate([each.columns.estimates for each in self.workloads])

    @property
    def spans(self) -> Floats:
        """Start, finish and processors of every run, killed ones included: shape (runs, 3)."""
        last = np.column_stack([self.start, self.finish, self.processors])[~self.refused]
        return np.concatenate([last, self.lost])

    @property
    def lost_work(self) -> float:
        """Work of killed runs that no checkpoint saved (processor-seconds)."""
        begin, end, processors = self.lost.T
        return float(((end - begin) * processors).sum() - (self.saved * self.processors).sum())

    @cached_property
    def cut_short(self) -> Booleans:
        """Which jobs were killed at their walltime before their work was done.

        The work of a ``delay`` job that lasts as long as its walltime is done, although Batsim
        calls it killed.
        """
        needed = np.concatenate([each.delays for each in self.workloads])
        limits = np.concatenate([each.columns.walltimes for each in self.workloads])
        cut: Booleans = self.at_walltime & ~(needed <= limits + PLAN_TOLERANCE)
        return cut

    @property
    def work_done(self) -> Booleans:
        """Which jobs ran until their work was done, or until they failed."""
        done: Booleans = ~self.refused & ~np.isnan(self.charged_time) & ~self.cut_short
        return done

    @cached_property
    def run_time(self) -> Floats:
        """Run time of each job (seconds), up to its walltime, by its ``delay`` profile; refused
        jobs have one, too.

        Only for jobs of type ``delay``; others are an :class:`~qops_batsim.errors.InputError`.
        """
        return np.concatenate([run_times_until_killed(each) for each in self.workloads])


def is_late(actual: Any, promised: Any, grace: Any) -> Any:
    """Return whether the date ``actual`` is later than ``promised`` by more than ``grace``
    (seconds; numbers or arrays).
    """
    return actual > promised + np.maximum(grace, PLAN_TOLERANCE)


class _Runs(NamedTuple):
    """Runs of jobs as columns; ``states`` are positions in ``FINAL_STATES``, ``seconds`` run times
    (NaN if rejected).
    """

    ids: Sequence[str]
    states: np.ndarray
    starts: Floats
    finishes: Floats
    seconds: Floats


def has_user_deadline(job: Job) -> bool:
    """Return whether a job has a deadline that its user set."""
    return _is_of_user(job.qos)


def _is_of_user(qos: QosRequest | None) -> bool:
    return qos is not None and qos.deadline is not None and qos.has_user_deadline is not False


def outcomes_of_simulation(
    ended: EndedJobs,
    workload: Workload,
    promised: Mapping[str, float] | None = None,
    machine: Machine | None = None,
) -> JobOutcomes:
    """Return what became of each job of a workload in a simulation; O(n log n).

    Parameters
    ----------
    ended
        ``Simulation.ended_jobs``; jobs of other workloads are left out.
    workload
        The workload that was simulated.
    promised
        The scheduler's deadlines (seconds) by job id within the workload.
    machine
        What hosts have for jobs that share them, if they have amounts.

    Returns
    -------
    JobOutcomes
        One row a job.
    """
    seconds = ended.finishes - ended.starts
    runs = _Runs(ended.ids, ended.states, ended.starts, ended.finishes, seconds)
    return _outcomes(
        workload.source, {"": workload}, runs, promised or {}, machine, only_known=False
    )


def outcomes_of_run(result: RunResult, workloads: Mapping[str, Workload]) -> JobOutcomes:
    """Return what became of each job of a run, from its files, ``_qos.csv`` included; O(n log n).

    The run needs its ``_qos.csv``; ``workloads`` are all that was run, by name (``"w0"``, …).
    """
    if result.decisions is None:
        raise InputError(
            f"{result.source}: the run has no _qos.csv, the file with the scheduler's promises; "
            "a run by qops-batsim, which writes this file, is expected"
        )
    return outcomes_with_deadlines(result, workloads)


def outcomes_with_deadlines(result: RunResult, workloads: Mapping[str, Workload]) -> JobOutcomes:
    """Return what became of each job of a run, from its files; without a ``_qos.csv``, no job has a
    promise.
    """
    decisions = result.decisions
    columns = result.columns("starting_time", "finish_time", "execution_time")
    runs = _Runs(result.ids, result.table.states, *columns)
    promised = {} if decisions is None else decisions.by_id("admitted_deadline")
    named = {f"{name}!": workload for name, workload in workloads.items()}
    outcomes = _outcomes(result.source, named, runs, promised, result.machine, only_known=True)

    info = result.info
    shares_whole = info is not None and info.compute_sharing and result.machine is None
    if shares_whole:
        profiles = result.text("profile")
        outcomes = with_parts(outcomes, runs.ids, runs.starts, runs.seconds, profiles)
    if decisions is not None and (latest := decisions.by_id("latest_start")):
        dates = [latest.get(job_id, math.nan) for job_id in outcomes.ids]
        outcomes = replace(outcomes, latest_start=np.array(dates))
    outcomes = outcomes if shares_whole else _with_drift(outcomes, result)
    if decisions is not None and "queue" in decisions.columns:
        outcomes = _with_queues(outcomes, decisions)

    if info is not None and (judged := info.judged) is not None:
        # Of a live journal only the promises count with which it goes on.
        outcomes.of_user[~np.isin(outcomes.ids, list(judged))] = False
        promises = [judged.get(job_id) for job_id in outcomes.ids]
        outcomes = replace(outcomes, promised=np.array(promises, np.float64), drift=0.0)

    if result.cancelled:
        # Of these no deadline was met or refused.
        cancelled = np.isin(outcomes.ids, list(result.cancelled))
        given_back = cancelled & outcomes.of_user
        kept = np.where(cancelled & ~given_back, math.nan, outcomes.promised)
        latest_start = np.where(cancelled, math.nan, outcomes.latest_start)
        outcomes.of_user[cancelled] = False
        outcomes = replace(
            outcomes, given_back=given_back, promised=kept, latest_start=latest_start
        )
    return outcomes


def _outcomes(
    source: str,
    workloads: Mapping[str, Workload],
    runs: _Runs,
    promised: Mapping[str, float],
    machine: Machine | None,
    *,
    only_known: bool,
) -> JobOutcomes:
    """Combine the runs and the promise of each job to its outcome; ``workloads`` are given by the
    prefix of their job ids (``"w0!"``).
    """
    columns = [workload.columns for workload in workloads.values()]
    ids = [
        prefix + job_id for prefix, workload in workloads.items() for job_id in workload.columns.ids
    ]
    places = {job_id: place for place, job_id in enumerate(ids)}

    # The job that each run belongs to; -1 for those of other workloads.
    origins = [original_id(job_id, places) for job_id in runs.ids]
    if only_known and None in origins:
        raise InputError(
            f"{source}: job {shown(runs.ids[origins.index(None)])} is in none of the given "
            "workloads; all workloads of the run are expected"
        )
    of_job = np.array([-1 if job is None else places[job] for job in origins], np.int64)

    # The runs of each job, in the order of their starts.
    order = np.lexsort((runs.starts, of_job))
    order = order[of_job[order] >= 0]
    jobs = of_job[order]
    missing = np.bincount(jobs, minlength=len(ids)) == 0
    if missing.any():
        of_place = [(each.source, job) for each in workloads.values() for job in each.columns.ids]
        file, job_id = of_place[int(missing.argmax())]
        raise InputError(
            f"{source}: job {shown(job_id)} of {file} is not in the run; "
            "the workload with which the run was made is expected"
        )
    is_last = np.diff(jobs, append=len(ids)) > 0
    last = order[is_last]
    before = order[~is_last]

    promises = np.full(len(ids), math.nan)
    for job_id, deadline in promised.items():
        origin = original_id(job_id, places)
        if origin is not None:
            promises[places[origin]] = deadline
    deadlines, of_user = map(np.concatenate, zip(*map(_deadlines, columns), strict=True))

    # Killed runs lose their work, but for what was saved of those that others followed.
    processors = np.concatenate([sizes_of(each, machine) for each in workloads.values()])
    by_itself = np.isin(runs.states, _ENDED_BY_ITSELF)
    killed = order[~by_itself[order] & ~np.isnan(runs.seconds[order])]
    victims = of_job[killed]
    killed_work = processors[victims] * runs.seconds[killed]
    owners = of_job[before]
    intervals = np.concatenate([each.checkpoints for each in columns])
    done = saved_times(runs.seconds[before], intervals[owners])
    saved = np.bincount(owners, done, len(ids)).astype(np.float64)

    submitted = np.concatenate([each.submission_times for each in columns])
    return JobOutcomes(
        source=source,
        workloads=tuple(workloads.values()),
        ids=ids,
        submission=np.maximum(submitted, 0.0),
        start=runs.starts[last],
        finish=runs.finishes[last],
        charged_time=np.where(by_itself[last], runs.seconds[last] + saved, np.nan),
        processors=processors,
        deadline=deadlines,
        promised=promises,
        of_user=of_user,
        refused=runs.states[last] == FINAL_STATES.index(REJECTED),
        at_walltime=runs.states[last] == FINAL_STATES.index(COMPLETED_WALLTIME_REACHED),
        killed_runs=np.bincount(victims, minlength=len(ids)),
        wasted=np.bincount(victims, killed_work, len(ids)) - saved * processors,
        lost=np.column_stack([runs.starts[before], runs.finishes[before], processors[owners]]),
        saved=saved,
    )


def with_parts(
    outcomes: JobOutcomes,
    ids: Sequence[str],
    starts: Floats,
    seconds: Floats,
    profiles: Sequence[str],
) -> JobOutcomes:
    """Return the outcomes with all runs of a job that went on as one: where jobs share hosts they
    are stopped without a loss, and their last profile is the rest (``work#15#1``).

    The others are columns of the runs: job ids, starts and run times (seconds), profiles.
    """
    before = rows_before(ids)
    rests = [row for row in before.keys() - set(before.values()) if is_continuation(profiles[row])]
    if not rests:
        return outcomes

    places = {job_id: place for place, job_id in enumerate(outcomes.ids)}
    began = outcomes.start.copy()
    saved = np.zeros(len(places)) + outcomes.saved
    charged = outcomes.charged_time.copy()
    wasted = outcomes.wasted.copy()

    for row in rests:
        origin = original_id(ids[row], places)
        if origin is None:
            continue

        place = places[origin]
        done = 0.0
        first = row
        while first in before and is_continuation(profiles[first]):
            first = before[first]
            done += float(seconds[first])

        began[place] = starts[first]
        more = done - saved[place]
        saved[place] = done
        charged[place] += more
        wasted[place] -= more * outcomes.processors[place]

    return replace(outcomes, began=began, saved=saved, charged_time=charged, wasted=wasted)


def _deadlines(columns: JobColumns) -> tuple[Floats, Booleans]:
    """Return the jobs' deadlines (NaN without), and whether users set them."""
    deadline = np.full(len(columns.ids), math.nan)
    of_user = np.zeros(len(columns.ids), np.bool_)
    for place, qos in enumerate(columns.requests or ()):
        if qos is not None and qos.deadline is not None:
            deadline[place] = qos.deadline
            of_user[place] = _is_of_user(qos)
    return deadline, of_user


class JobsAndWork(msgspec.Struct, frozen=True):
    """A number of jobs and the sum of their work (processor-seconds), which is None unless all jobs
    are of type ``delay``.
    """

    jobs: int
    work: float | None


class DeadlineMetrics(msgspec.Struct, frozen=True, kw_only=True):
    """How many of the deadlines that users set in one run were met, missed, refused or promised,
    and how many promises were kept; :class:`Fates` defines each.

    ``asked`` is the sum of ``refused``, ``met`` and ``missed``, ``promised`` that of ``kept`` and
    ``broken``; ``renewed`` are the jobs that were promised another deadline when hosts had left.
    """

    asked: JobsAndWork
    promised: JobsAndWork
    kept: JobsAndWork
    broken: JobsAndWork
    met: JobsAndWork
    missed: JobsAndWork
    refused: JobsAndWork
    renewed: int


class PromiseCounts(msgspec.Struct, frozen=True, kw_only=True):
    """How many jobs were promised something in one run, and how many of these promises were broken
    (:func:`promises`).
    """

    given: int
    broken: int


class Fates(NamedTuple):
    """What became of the deadlines that users set: masks over the jobs.

    A deadline is *refused* if its job was rejected, *met* if the job ended by the deadline asked
    for, whatever was promised, and else *missed*; one that the scheduler killed for good met
    nothing. It was *promised* if the scheduler admitted the job with a deadline, this one or a
    later one; the promise is *kept* unless it is broken (:func:`promises`). *Failed* are the
    deadlines for which the centre is to blame: promises that were broken and, where nothing was
    promised, deadlines that were missed.
    """

    refused: Booleans
    met: Booleans
    missed: Booleans
    promised: Booleans
    kept: Booleans
    failed: Booleans

    @property
    def broken(self) -> Booleans:
        """Those whose promise was broken."""
        return self.promised & ~self.kept


def fates(outcomes: JobOutcomes, grace: float = 0.0) -> Fates:
    """Return, as masks over the jobs, what became of the deadlines that users set; lateness up to
    ``grace`` (seconds) does not count. O(jobs).
    """
    of_user = outcomes.of_user
    refused = outcomes.refused
    ended = ~refused & ~np.isnan(outcomes.charged_time)
    met = of_user & ended & ~outcomes.is_late(outcomes.finish, outcomes.deadline, grace)
    missed = of_user & ~refused & ~met
    promised, broken = (of_user & each for each in _deadline_promises(outcomes, grace))

    return Fates(
        refused=of_user & refused,
        met=met,
        missed=missed,
        promised=promised,
        kept=promised & ~broken,
        failed=broken | (missed & ~promised),
    )


def promises(outcomes: JobOutcomes, grace: float = 0.0) -> tuple[Booleans, Booleans]:
    """Return two masks: the jobs that were promised a deadline or a latest start, and those whose
    promise was broken. O(jobs).

    A promise is broken if the job ended after the promised deadline, was refused or killed (also at
    its walltime, before its work was done), or started after the promised latest start. Lateness up
    to ``grace`` (seconds), and by the ``drift`` of message delays, does not count, nor does a
    promise that its user gave back. It is that of the last promise to a job that counts.
    """
    promised, broken = _deadline_promises(outcomes, grace)
    has_latest_start = np.isfinite(outcomes.latest_start)
    late = outcomes.is_late(outcomes.start, outcomes.latest_start, grace)
    broken = broken | late | (has_latest_start & outcomes.refused)
    return promised | has_latest_start, broken


def _deadline_promises(outcomes: JobOutcomes, grace: float) -> tuple[Booleans, Booleans]:
    """Return which jobs were promised a deadline, and which of these promises were broken."""
    promised: Booleans = np.isfinite(outcomes.promised) & ~np.asarray(outcomes.given_back)
    late = outcomes.is_late(outcomes.finish, outcomes.promised, grace)
    return promised, promised & (late | ~outcomes.work_done)


def deadline_metrics(
    outcomes: JobOutcomes, *, grace: float = 0.0, renewed: int = 0
) -> DeadlineMetrics:
    """Count the deadlines that users set, by what became of them; O(jobs).

    Lateness up to ``grace`` (seconds) does not count; ``renewed`` is the number of jobs that were
    promised another deadline when hosts had left.
    """
    work = job_work(outcomes)
    fate = fates(outcomes, grace)
    groups = {
        "asked": outcomes.of_user,
        "promised": fate.promised,
        "kept": fate.kept,
        "broken": fate.broken,
        "met": fate.met,
        "missed": fate.missed,
        "refused": fate.refused,
    }
    counts = {
        name: JobsAndWork(int(jobs.sum()), None if work is None else float(work[jobs].sum()))
        for name, jobs in groups.items()
    }
    return DeadlineMetrics(**counts, renewed=renewed)


def promise_counts(outcomes: JobOutcomes, grace: float = 0.0) -> PromiseCounts | None:
    """Count the promises to any job that were given, and those that were broken; None without any.
    O(jobs).
    """
    given, broken = (int(each.sum()) for each in promises(outcomes, grace))
    return PromiseCounts(given=given, broken=broken) if given else None


def has_user_deadlines(workload: Workload) -> bool:
    """Return whether any job's user set a deadline; O(jobs)."""
    return any(map(_is_of_user, workload.columns.requests or ()))


def _with_drift(outcomes: JobOutcomes, result: RunResult) -> JobOutcomes:
    """Return the outcomes with the ``drift`` (summed message delays, seconds) of each job that
    ended, or started, later than promised plus grace.
    """
    late = np.flatnonzero(outcomes.late(result.grace))
    if not (len(late) and result.grace):
        return outcomes
    runs = np.flatnonzero(result.last_runs)
    return with_drift(outcomes, late, result.ids, runs, lambda rows: message_drift(result, rows))


def with_drift(
    outcomes: JobOutcomes,
    late: Integers,
    ids: Sequence[str],
    runs: Integers,
    drift_of: Callable[[Integers], Floats],
) -> JobOutcomes:
    """Return the outcomes with the ``drift`` of the late jobs filled in: the message delays
    (seconds) that added up before their start.

    ``late`` are positions of jobs in the outcomes, ``runs`` positions of runs in ``ids``; the last
    run of a job counts. ``drift_of`` returns the drift of the runs at some positions (seconds).
    """
    places = {outcomes.ids[place]: place for place in late.tolist()}
    last = {
        places[origin]: run
        for run in runs.tolist()
        if (origin := original_id(ids[run], places)) is not None
    }
    drift = np.zeros(len(outcomes.ids))
    drift[list(last)] = drift_of(np.array(list(last.values()), np.int64))
    return replace(outcomes, drift=drift)


def _with_queues(outcomes: JobOutcomes, decisions: Decisions) -> JobOutcomes:
    """Return the outcomes with the priced queue of each job (``""`` for none) and that queue's
    price filled in.
    """
    columns = decisions.ids, decisions.columns["queue"], decisions.numbers("price").tolist()
    entered = {job: (queue, price) for job, queue, price in zip(*columns, strict=True) if queue}
    pairs = [entered.get(job_id, ("", 1.0)) for job_id in outcomes.ids]
    queues, prices = zip(*pairs, strict=True)
    return replace(outcomes, queues=queues, prices=np.array(prices))


def job_work(outcomes: JobOutcomes) -> Floats | None:
    """Return each job's work, processors × run time (processor-seconds), or None unless all jobs
    are of type ``delay``. O(jobs).
    """
    lasts = [np.minimum(each.delays, each.columns.walltimes) for each in outcomes.workloads]
    work: Floats = outcomes.processors * np.concatenate(lasts)
    return None if np.isnan(work).any() else work
