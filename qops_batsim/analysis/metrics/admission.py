"""Metrics of deadline admission: what a scheduler refused, and what that cost.

The metrics of Islam et al. (2003), section 5. Jobs are of type ``delay``, so the
work of a job that was refused is known from the workload.

Notation: a job asks for ``q`` processors for ``p`` seconds; it is a *deadline job* if
its user set the deadline (``qos.has_user_deadline`` is not false). All other jobs,
those with an artificial deadline included, are *jobs without user deadline*.
"""

from __future__ import annotations

import math

import msgspec
import numpy as np

from qops_batsim.analysis.metrics.outcomes import JobOutcomes, is_late
from qops_batsim.analysis.metrics.run_metrics import BOUNDED_SLOWDOWN_THRESHOLD, bounded_slowdown
from qops_batsim.analysis.results.tables import Booleans, Floats, mean
from qops_batsim.errors import InputError, shown
from qops_batsim.timing import PLAN_TOLERANCE


class AdmissionMetrics(msgspec.Struct, frozen=True, kw_only=True):
    """What admission control did in one run; None where there is no such job.

    The *offered load* is Σ q p of all jobs / (hosts × time from first to last submission).
    *Unadmitted* jobs and work (processor-seconds) are in % of all jobs and of Σ q p, or of those of
    the deadline jobs only. *Missed deadlines* are jobs that ended after the deadline of their user,
    in % of the deadline jobs; refused jobs are not among them.

    The *utilization* is the share of the hosts' time that ran jobs, lost runs included, in %, from
    the first submission to the last completion (the window of ``qops-batsim metrics``), or to the
    last submission: without the time in which the machine only drains.

    Response time, slowdown and bounded slowdown are means over the jobs without user deadline that
    ran: completion - submission (seconds), that divided by the run time (jobs with run time 0 left
    out), and max(1, response time / max(run time, 10 s)). *Kills* are runs that were killed for
    another job, and repeated; the *wasted work* are their processor-seconds, in % of Σ q p.
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

    @property
    def met_deadlines(self) -> float | None:
        """Deadline jobs that ended by the deadline of their user (%): neither refused nor late."""
        refused, missed = self.unadmitted_deadline_jobs, self.missed_deadlines
        return None if refused is None or missed is None else 100.0 - refused - missed


def admission_metrics(outcomes: JobOutcomes, hosts: int) -> AdmissionMetrics:
    """Compute the metrics of a run; O(jobs)."""
    if hosts < 1:
        raise InputError(f"number of hosts is {hosts}; at least 1 is expected")
    ran = ~outcomes.refused
    work = outcomes.processors * outcomes.run_time
    of_user = outcomes.of_user
    late = ran & of_user & (outcomes.finish > outcomes.deadline + PLAN_TOLERANCE)
    begin = float(outcomes.submission.min())
    last_submission = float(outcomes.submission.max())
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
        utilization=utilization_to_the_end(outcomes, hosts),
        utilization_during_submissions=_utilization(outcomes, hosts, begin, last_submission),
        response_time=mean(response),
        slowdown=mean(stretches),
        bounded_slowdown=mean(bounded_slowdown(response, run_time, BOUNDED_SLOWDOWN_THRESHOLD)),
        kills=len(outcomes.lost),
        wasted_work=_percent(
            ((outcomes.lost[:, 1] - outcomes.lost[:, 0]) * outcomes.lost[:, 2]).sum(), work.sum()
        ),
    )


def broken_rule(outcomes: JobOutcomes, hosts: int, *, grace: float = 0.0) -> str | None:
    """Return the first rule that a schedule breaks, as a sentence, or None; O(n log n).

    The rules of ``qops-batsim verify`` that need no hosts by name: every job starts after its
    submission, runs for its run time and ends by its promised deadline, and starts by its promised
    latest start, or less than ``grace`` (seconds) later, unless jobs outlive their estimates; never
    do more processors compute than there are.
    """
    o = outcomes
    ran = ~o.refused
    promised = np.isfinite(o.promised)
    latest = np.full(len(o.ids), np.nan) if o.latest_start is None else o.latest_start
    checks = (
        ("starts at", ran & (o.start < o.submission - PLAN_TOLERANCE), "before its submission"),
        (
            "starts at",
            ran & (np.abs(o.finish - o.start - o.run_time) > PLAN_TOLERANCE),
            "and does not run for its run time",
        ),
        (
            "ends after its promised deadline, starting at",
            _held(o, ran & is_late(o.finish, o.promised, grace)),
            "although it was admitted",
        ),
        (
            "starts after its promised latest start, at",
            _held(o, is_late(o.start, latest, grace)),
            "although that was promised",
        ),
        ("was promised a deadline, submitted at", o.refused & promised, "but is refused"),
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


def _held(outcomes: JobOutcomes, late: Booleans) -> Booleans:
    """Return which late jobs break a rule: none where an estimate is too short."""
    if late.any():
        estimates = np.concatenate([each.columns.estimates for each in outcomes.workloads])
        if (outcomes.run_time > estimates + PLAN_TOLERANCE).any():
            return np.zeros_like(late)
    return late


def utilization_to_the_end(outcomes: JobOutcomes, hosts: int) -> float | None:
    """Return the utilization of :class:`AdmissionMetrics`, for jobs of any type; O(jobs)."""
    begin = float(outcomes.submission.min())
    end = float(outcomes.finish[~outcomes.refused].max(initial=begin))
    return _utilization(outcomes, hosts, begin, end)


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
