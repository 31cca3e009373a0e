"""Rules about promises: ``_qos.csv`` against ``_jobs.csv``."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import msgspec
import numpy as np

from qops_batsim.analysis.results.restarts import original_id
from qops_batsim.analysis.results.rounding import tolerance
from qops_batsim.analysis.results.tables import Booleans, Floats
from qops_batsim.analysis.verify.rule import (
    QOS_FILE,
    WORKLOAD,
    Subject,
    Violation,
    rule,
    violations,
)
from qops_batsim.analysis.verify.rules_restarts import last_runs
from qops_batsim.analysis.verify.sharing import most_at_once
from qops_batsim.jobs import QOS_ACCEPTED, QOS_REJECTED

SLIGHT_OVERRUN = 1e-4
"""On shared hosts, to exceed the estimate by up to this part of it only costs that time."""


@rule(QOS_FILE)
def rejected_never_runs(subject: Subject) -> Iterator[Violation]:
    """A job whose decision is rejected does not run, and one that is accepted does.

    Its last run, if several: one that was killed may be given up.
    """
    jobs, qos, ran = subject.result.jobs, subject.result.qos, subject.executed
    assert qos is not None
    decision_of = dict(zip(qos["id"], qos["decision"], strict=True))
    names = last_runs(subject)
    decided = [
        decision_of.get(name) or decision_of.get(names[row], "") if row in names else ""
        for row, name in enumerate(jobs["id"])
    ]
    decisions = np.array(decided, dtype=object)
    return violations(
        subject,
        (ran & (decisions == QOS_REJECTED)) | (~ran & (decisions == QOS_ACCEPTED)),
        "_qos.csv says {decision}, but the job is {state}",
        decision=decisions,
        state=jobs["final_state"].to_numpy(),
    )


@rule(QOS_FILE, WORKLOAD)
def admitted_deadline(subject: Subject) -> Iterator[Violation]:
    """An accepted job finishes by the deadline it was admitted with: its last run, if several.

    Where Batsim's messages take their time, it may be late by the scheduler's grace.

    A job that runs longer than its estimate frees its processors later than any plan could
    know, so no promise beyond the date when the first one does is checked, nor its own if
    it would have ended by then without that. On shared hosts, and up to the grace, slight
    excesses do not end the check; promises may then be missed by their sum as well.
    """
    said = "finishes at {real:.6f} s, but was admitted with the deadline {promised:.6f} s"
    return _broken(subject, _deadlines(subject), said)


@rule(QOS_FILE, WORKLOAD)
def latest_start(subject: Subject) -> Iterator[Violation]:
    """An accepted job starts by the latest start it was promised.

    As with deadlines, no promise beyond the date when the first job outlives its
    estimate is checked; nor is one for that date, when its processors were to be free.
    """
    said = "starts at {real:.6f} s, but was promised to start by {promised:.6f} s"
    return _broken(subject, _latest_starts(subject), said)


class Lateness(msgspec.Struct, frozen=True, kw_only=True):
    """By how much a run misses its promises, deadlines and latest starts, at most.

    Of so many ``checked`` promises; of the ``unchecked`` ones of jobs that ran, the rules tell
    why. ``seconds`` is 0 if nothing is late, else ``job`` is the one that is so late. Up to the
    ``grace`` (seconds), and what the rules add to it, the promise counts as kept. ``renewed``
    counts how often a promise was replaced by a later one because hosts had left; the last one
    counts.
    """

    seconds: float
    job: str | None
    grace: float
    checked: int
    unchecked: int
    renewed: int = 0


def greatest_lateness(subject: Subject) -> Lateness | None:
    """Return how late a promise is kept at most; None without promises."""
    qos = subject.result.qos
    if qos is None or not qos[["admitted_deadline", "latest_start"]].notna().to_numpy().any():
        return None
    both = (_deadlines(subject), _latest_starts(subject))
    checked = sum(int(each.checked.sum()) for each in both)
    given = sum(int((subject.executed & np.isfinite(each.promised)).sum()) for each in both)
    if not given:
        return None
    seconds, job = 0.0, None
    for each in both:
        late = np.where(each.checked, each.real - each.promised, 0.0)
        row = int(np.argmax(late))
        if late[row] > max(seconds, float(tolerance(each.real[[row]])[0])):
            seconds, job = float(late[row]), str(subject.result.jobs["id"].iloc[row])
    return Lateness(
        seconds=seconds,
        job=job,
        grace=subject.grace,
        checked=checked,
        unchecked=given - checked,
        renewed=int(qos["new_promises"].sum()),
    )


@dataclass(frozen=True)
class _Promises:
    """Promised dates, and what came of them, a value a row of ``_jobs.csv`` (seconds)."""

    column: str
    promised: Floats
    """NaN without a promise."""
    real: Floats
    checked: Booleans
    margin: Floats
    """By how much they may be late."""


def _deadlines(subject: Subject) -> _Promises:
    return _promises(subject, "admitted_deadline", "finish_time", last_runs(subject))


def _latest_starts(subject: Subject) -> _Promises:
    names = {row: str(name) for row, name in enumerate(subject.result.jobs["id"])}
    return _promises(subject, "latest_start", "starting_time", names)


def _broken(subject: Subject, promises: _Promises, message: str) -> Iterator[Violation]:
    promised, real = promises.promised, promises.real
    wrong = promises.checked & (real > promised + promises.margin)
    return violations(subject, wrong, message, at=promises.column, real=real, promised=promised)


def _promises(subject: Subject, promise: str, kept: str, names: dict[int, str]) -> _Promises:
    """Compare promised dates (a column of ``_qos.csv``) with what came of them (``_jobs.csv``).

    ``names`` holds the rows that must keep a promise, with the job to which it was given.
    """
    result, qos = subject.result, subject.result.qos
    assert qos is not None
    accepted = qos["decision"] != QOS_REJECTED
    dates = dict(zip(qos["id"][accepted], qos[promise][accepted], strict=True))
    rows = range(len(result.jobs))
    promised: Floats = np.array([dates.get(names.get(row, ""), np.nan) for row in rows])
    planned_end, outlived, moments = _outlived(subject)
    exact_until = planned_end[outlived].min(initial=np.inf)
    # A job that outlives its estimate is late through no fault of a plan that kept the promise.
    excused = outlived & (planned_end <= promised + tolerance(promised))
    real = result.column(kept)
    margin = tolerance(real, np.nan_to_num(promised)) + moments + subject.grace
    known = promised <= exact_until
    if kept == "starting_time":
        # A start takes what others leave at that very date.
        known &= promised < exact_until - margin
    return _Promises(kept, promised, real, subject.executed & known & ~excused, margin)


def _outlived(subject: Subject) -> tuple[Floats, Booleans, float]:
    """Return planned ends (seconds), which jobs ended later, and the sum of slight excesses."""
    start, finish = subject.result.columns("starting_time", "finish_time")
    estimates = _estimates(subject)
    crowds = np.ones(len(estimates))
    if subject.compute_sharing:
        # On a host with n - 1 other jobs, a job may take n times as long.
        crowds = np.maximum(most_at_once(subject.result), 1).astype(np.float64)
        estimates = estimates * crowds
    planned_end = start + estimates
    outlived = subject.executed & (finish > planned_end + tolerance(finish))
    moments = 0.0
    if subject.compute_sharing or subject.grace:
        # Latencies make computations end moments after their estimate, which no plan knows:
        # promises may be missed by as much, but are not void.
        over = finish - planned_end
        share = SLIGHT_OVERRUN * estimates if subject.compute_sharing else 0.0
        slight = outlived & (over <= np.maximum(share, subject.grace))
        moments = float((over * crowds)[slight].sum())
        outlived &= ~slight
    return planned_end, outlived, moments


def _estimates(subject: Subject) -> Floats:
    """Return what planning could know of each job's run time (seconds)."""
    walltimes = subject.result.column("requested_time")
    estimates: Floats = np.where(walltimes > 0, walltimes, np.inf)
    known = {name: job.estimate for name, job in subject.jobs.items()}
    for row, name in enumerate(subject.result.jobs["id"]):
        estimates[row] = known.get(original_id(name, known) or name, estimates[row])
    return estimates
