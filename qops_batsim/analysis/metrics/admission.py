"""Metrics of deadline admission: what a scheduler refused, and what that cost.

The metrics of Islam et al. (2003), section 5. Jobs are of type ``delay``, so the
work of a job that was refused is known from the workload.

Notation: a job asks for ``q`` processors for ``p`` seconds; it is a *deadline job* if
its user set the deadline (``qos.has_user_deadline`` is not false). All other jobs,
those with an artificial deadline included, are *jobs without user deadline*.

A job that was killed and run again (``15``, then ``15#1``) is one job: what counts is its
last run. The runs before it are lost work.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

import msgspec
import numpy as np

from qops_batsim.analysis.metrics.run_metrics import BOUNDED_SLOWDOWN_THRESHOLD, bounded_slowdown
from qops_batsim.analysis.results.restarts import RunOfJob, runs_by_job
from qops_batsim.analysis.results.run import RunResult
from qops_batsim.analysis.results.tables import Booleans, Floats
from qops_batsim.errors import InputError, shown
from qops_batsim.jobs import REJECTED, Job
from qops_batsim.timing import PLAN_TOLERANCE
from qops_batsim.workload.delay_jobs import run_times_until_killed
from qops_batsim.workload.model import Workload


class AdmissionMetrics(msgspec.Struct, frozen=True, kw_only=True):
    """What admission control did in one run; None where there is no such job.

    Attributes
    ----------
    jobs, deadline_jobs
        Numbers of submitted jobs: all, and those with a user's deadline.
    offered_load
        Σ q p of all jobs / (hosts × time from first to last submission).
    unadmitted_jobs, unadmitted_work
        Refused jobs and their processor-seconds, in % of all jobs and of Σ q p.
    unadmitted_deadline_jobs, unadmitted_deadline_work
        The same among deadline jobs only.
    missed_deadlines
        Jobs that ended after the deadline of their user, in % of the deadline jobs.
        Refused jobs are not among them.
    utilization
        Share of the hosts' time that ran jobs, lost runs included, in %, from the first
        submission to the last completion: the window of ``qops-batsim metrics``.
    utilization_during_submissions
        The same from the first to the last submission, so without the time in which the
        machine only drains.
    response_time, slowdown, bounded_slowdown
        Means over the jobs without user deadline that ran: completion - submission
        (seconds), that divided by the run time (jobs with run time 0 left out), and
        max(1, response time / max(run time, 10 s)).
    kills
        Runs that were killed for another job, and repeated.
    wasted_work
        Processor-seconds of these, in % of Σ q p.
    """

    jobs: int
    deadline_jobs: int
    offered_load: float | None
    unadmitted_jobs: float
    unadmitted_work: float | None
    unadmitted_deadline_jobs: float | None
    unadmitted_deadline_work: float | None
    missed_deadlines: float | None
    utilization: float | None
    utilization_during_submissions: float | None
    response_time: float | None
    slowdown: float | None
    bounded_slowdown: float | None
    kills: int
    wasted_work: float | None


@dataclass(frozen=True)
class JobOutcomes:
    """What became of each job: arrays of shape (jobs,), in the order of the workload.

    Attributes
    ----------
    source
        Where this comes from, for messages.
    ids
        Identifiers within the workload.
    submission, start, finish
        Dates (seconds); start and finish are NaN for a job that was refused.
    processors
        Processors asked for.
    run_time
        Seconds the job runs, or would have run: to its end or its walltime.
    deadline
        Date (seconds), NaN for none.
    of_user
        Whether the deadline is the user's own.
    refused
        Whether the job was rejected.
    lost
        Runs that were killed before the last one of the same job: array of shape (runs, 3)
        of start and finish (seconds) and processors.
    """

    source: str
    ids: list[str]
    submission: Floats
    start: Floats
    finish: Floats
    processors: Floats
    run_time: Floats
    deadline: Floats
    of_user: Booleans
    refused: Booleans
    lost: Floats


class Ended(Protocol):
    """What is needed of a job that ended; the engine's records have it."""

    state: str
    start: float
    finish: float

    @property
    def local_id(self) -> str:
        """Identifier within the workload."""


def has_user_deadline(job: Job) -> bool:
    """Return whether a job has a deadline that its user set."""
    qos = job.qos
    return qos is not None and qos.deadline is not None and qos.has_user_deadline is not False


def outcomes_of_simulation(ended: Iterable[Ended], workload: Workload) -> JobOutcomes:
    """Return what became of each job of a workload in a simulation.

    Parameters
    ----------
    ended
        The jobs at the end of the simulation (``Simulation.ended``).
    workload
        What was simulated.

    Raises
    ------
    InputError
        A job is none of type ``delay``, or did not end.
    """
    rows = ((each.local_id, RunOfJob(each.state, each.start, each.finish)) for each in ended)
    return _outcomes(rows, workload, workload.source)


def outcomes_of_run(result: RunResult, workload: Workload) -> JobOutcomes:
    """Return what became of each job of a workload, from a run's files.

    Raises
    ------
    InputError
        A job is none of type ``delay``, or is not in the run.
    """
    names = (str(full).partition("!")[2] for full in result.jobs["id"])
    runs = map(
        RunOfJob,
        map(str, result.jobs["final_state"]),
        result.column("starting_time").tolist(),
        result.column("finish_time").tolist(),
    )
    return _outcomes(zip(names, runs, strict=True), workload, result.source)


def admission_metrics(outcomes: JobOutcomes, hosts: int) -> AdmissionMetrics:
    """Compute the metrics of a run; O(jobs).

    Parameters
    ----------
    outcomes
        What became of each job.
    hosts
        Hosts of the machine.

    Raises
    ------
    InputError
        ``hosts`` is below 1.
    """
    if hosts < 1:
        raise InputError(f"number of hosts is {hosts}; at least 1 is expected")
    ran = ~outcomes.refused
    work = outcomes.processors * outcomes.run_time
    of_user = outcomes.of_user
    late = ran & of_user & (outcomes.finish > outcomes.deadline + PLAN_TOLERANCE)
    begin = float(outcomes.submission.min())
    last_submission = float(outcomes.submission.max())
    end = float(outcomes.finish[ran].max(initial=begin))
    others = ran & ~of_user
    response = (outcomes.finish - outcomes.submission)[others]
    run_time = (outcomes.finish - outcomes.start)[others]
    long_enough = run_time > 0
    stretches = response[long_enough] / run_time[long_enough]
    offered = hosts * (last_submission - begin)
    return AdmissionMetrics(
        jobs=len(outcomes.ids),
        deadline_jobs=int(of_user.sum()),
        offered_load=float(work.sum()) / offered if offered > 0 else None,
        unadmitted_jobs=100.0 * float(outcomes.refused.mean()),
        unadmitted_work=_percent(work[outcomes.refused].sum(), work.sum()),
        unadmitted_deadline_jobs=_percent((outcomes.refused & of_user).sum(), of_user.sum()),
        unadmitted_deadline_work=_percent(
            work[outcomes.refused & of_user].sum(), work[of_user].sum()
        ),
        missed_deadlines=_percent(late.sum(), of_user.sum()),
        utilization=_utilization(outcomes, hosts, begin, end),
        utilization_during_submissions=_utilization(outcomes, hosts, begin, last_submission),
        response_time=_mean(response),
        slowdown=_mean(stretches),
        bounded_slowdown=_mean(bounded_slowdown(response, run_time, BOUNDED_SLOWDOWN_THRESHOLD)),
        kills=len(outcomes.lost),
        wasted_work=_percent(
            ((outcomes.lost[:, 1] - outcomes.lost[:, 0]) * outcomes.lost[:, 2]).sum(), work.sum()
        ),
    )


def broken_rule(
    outcomes: JobOutcomes, hosts: int, promised: Mapping[str, float] | None = None
) -> str | None:
    """Return the first rule that a schedule breaks, as a sentence, or None; O(n log n).

    The rules of ``qops-batsim verify`` that need no hosts by name: every job starts after
    its submission, runs for its run time and, if it was admitted with a deadline,
    ends by it; never do more processors compute than there are.

    Parameters
    ----------
    outcomes
        What became of each job of exact estimates.
    hosts
        Hosts of the machine.
    promised
        Deadlines that the scheduler promised (seconds) by job id.
    """
    o = outcomes
    ran = ~o.refused
    kept = np.array([(promised or {}).get(job_id, math.inf) for job_id in o.ids])
    checks = (
        ("starts at", ran & (o.start < o.submission - PLAN_TOLERANCE), "before its submission"),
        (
            "starts at",
            ran & (np.abs(o.finish - o.start - o.run_time) > PLAN_TOLERANCE),
            "and does not run for its run time",
        ),
        (
            "ends after its promised deadline, starting at",
            ran & (o.finish > kept + PLAN_TOLERANCE),
            "although it was admitted",
        ),
        (
            "was promised a deadline, submitted at",
            o.refused & np.isfinite(kept),
            "but is refused",
        ),
    )
    for words, broken, rest in checks:
        if broken.any():
            row = int(np.flatnonzero(broken)[0])
            date = o.submission[row] if math.isnan(o.start[row]) else o.start[row]
            return f"job {shown(o.ids[row])} {words} {date:.6f} s {rest}"
    spans = _spans(o)
    start, finish, processors = spans[spans[:, 1] > spans[:, 0]].T
    dates = np.concatenate([start, finish])
    changes = np.concatenate([processors, -processors])
    # At one date, ends come before starts.
    order = np.lexsort((changes, dates))
    busy = np.cumsum(changes[order])
    if len(busy) and busy.max() > hosts:
        date = dates[order][int(np.argmax(busy > hosts))]
        return f"{busy.max():g} processors compute at {date:.6f} s, but there are {hosts}"
    return None


def _outcomes(rows: Iterable[tuple[str, RunOfJob]], workload: Workload, source: str) -> JobOutcomes:
    lasting = run_times_until_killed(workload)
    runs = runs_by_job(rows, {job.id for job in workload.jobs})
    ends: list[RunOfJob] = []
    lost: list[tuple[float, float, int]] = []
    for job in workload.jobs:
        if job.id not in runs:
            raise InputError(
                f"{source}: job {shown(job.id)} of {workload.source} is not in the run; "
                "the workload that was run is expected"
            )
        *killed, last = runs[job.id]
        ends.append(last)
        lost += ((run.start, run.finish, job.processors) for run in killed)
    deadlines = [None if job.qos is None else job.qos.deadline for job in workload.jobs]
    return JobOutcomes(
        source=source,
        ids=[job.id for job in workload.jobs],
        submission=np.maximum([job.submission_time for job in workload.jobs], 0.0),
        start=np.array([start for _, start, _ in ends], dtype=np.float64),
        finish=np.array([finish for _, _, finish in ends], dtype=np.float64),
        processors=np.array([job.processors for job in workload.jobs], dtype=np.float64),
        run_time=np.array(lasting, dtype=np.float64),
        deadline=np.array(
            [math.nan if each is None else each for each in deadlines], dtype=np.float64
        ),
        of_user=np.array([has_user_deadline(job) for job in workload.jobs], dtype=np.bool_),
        refused=np.array([state == REJECTED for state, _, _ in ends], dtype=np.bool_),
        lost=np.array(lost, dtype=np.float64).reshape(-1, 3),
    )


def _utilization(outcomes: JobOutcomes, hosts: int, begin: float, end: float) -> float | None:
    """Return the share (%) of the hosts' time between two dates that ran jobs."""
    if not end > begin:
        return None
    start, finish, processors = _spans(outcomes).T
    inside = np.minimum(finish, end) - np.maximum(start, begin)
    used = float((processors * np.maximum(inside, 0.0)).sum())
    return 100.0 * used / (hosts * (end - begin))


def _spans(outcomes: JobOutcomes) -> Floats:
    """Return start, finish and processors of every run: array of shape (runs, 3)."""
    ran = ~outcomes.refused
    last = np.column_stack([outcomes.start, outcomes.finish, outcomes.processors])[ran]
    return np.concatenate([last, outcomes.lost])


def _percent(part: float, whole: float) -> float | None:
    return 100.0 * float(part) / float(whole) if whole > 0 else None


def _mean(values: Floats) -> float | None:
    return float(values.mean()) if len(values) else None
