"""Rules about promises: ``_qos.csv`` against ``_jobs.csv``."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import msgspec
import numpy as np

from qops_batsim.analysis.results.restarts import goes_on
from qops_batsim.analysis.results.rounding import tolerance
from qops_batsim.analysis.results.tables import DECISIONS, Booleans, Floats
from qops_batsim.analysis.verify.rule import (
    QOS_FILE,
    WORKLOAD,
    Subject,
    Violation,
    rule,
    violations,
)
from qops_batsim.jobs import COMPLETED_KILLED, QOS_ACCEPTED, QOS_REJECTED
from qops_batsim.timing import SAME_DATE

SLIGHT_OVERRUN = 1e-4
"""On shared hosts, to exceed the estimate by up to this part of it only costs that time."""


@rule(QOS_FILE)
def rejected_never_runs(subject: Subject) -> Iterator[Violation]:
    """A job whose decision is rejected does not run, and one that is accepted does.

    Its last run, if several: one that was killed may be given up.
    """
    qos, identities, ran = subject.result.decisions, subject.identities, subject.executed
    assert qos is not None
    said = np.zeros(len(identities), np.int8)
    said[identities.qos] = qos.decisions
    own = said[identities.rows]
    decisions = np.where(own > 0, own, said[identities.owners])
    decisions[~identities.last_runs] = 0
    against = np.where(ran, DECISIONS.index(QOS_REJECTED), DECISIONS.index(QOS_ACCEPTED))
    wrong = decisions == against
    return violations(
        subject,
        wrong,
        "_qos.csv says {decision}, but the job is {state}",
        decision={row: DECISIONS[decisions[row]] for row in np.flatnonzero(wrong).tolist()},
        state=subject.result.text("final_state"),
    )


@rule(QOS_FILE, WORKLOAD)
def admitted_deadline(subject: Subject) -> Iterator[Violation]:
    """An accepted job finishes by the deadline it was admitted with: its last run, if several.

    Where Batsim's messages take their time, it may be late by the scheduler's grace.

    A job that runs longer than its estimate frees its processors later than any plan could
    know, so no promise beyond the date when the first one does is checked, nor its own if
    it would have ended by then without that. Excesses up to two microseconds, the grace, or
    slight ones on shared hosts do not end the check; promises may be missed by their sum as well.
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
    qos = subject.result.decisions
    if qos is None or np.isnan([qos.admitted_deadlines, qos.latest_starts]).all():
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
            seconds, job = float(late[row]), subject.result.id(row)
    return Lateness(
        seconds=seconds,
        job=job,
        grace=subject.grace,
        checked=checked,
        unchecked=given - checked,
        renewed=int(qos.new_promises.sum()),
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
    identities, qos = subject.identities, subject.result.decisions
    assert qos is not None
    given = _given(subject, qos.admitted_deadlines)[identities.owners]
    return _promises(subject, "finish_time", np.where(identities.last_runs, given, np.nan))


def _latest_starts(subject: Subject) -> _Promises:
    qos = subject.result.decisions
    assert qos is not None
    given = _given(subject, qos.latest_starts)[subject.identities.rows]
    return _promises(subject, "starting_time", given)


def _given(subject: Subject, dates: Floats) -> Floats:
    """Return the promised dates of accepted jobs by number of the job; NaN without."""
    qos = subject.result.decisions
    assert qos is not None
    given = np.full(len(subject.identities), np.nan)
    accepted = qos.decisions != DECISIONS.index(QOS_REJECTED)
    given[subject.identities.qos[accepted]] = dates[accepted]
    return given


def _broken(subject: Subject, promises: _Promises, message: str) -> Iterator[Violation]:
    promised, real = promises.promised, promises.real
    wrong = promises.checked & (real > promised + promises.margin)
    return violations(subject, wrong, message, at=promises.column, real=real, promised=promised)


def _promises(subject: Subject, kept: str, promised: Floats) -> _Promises:
    """Compare promised dates, one for each row, with what came of them (a column)."""
    real = subject.ends if kept == "finish_time" else subject.result.column(kept)
    if np.isnan(promised).all():
        return _Promises(kept, promised, real, np.zeros(len(real), np.bool_), 0 * promised)
    planned_end, outlived, moments = _outlived(subject)
    # Starts that are late by less than the grace do not move what was planned.
    exact_until = planned_end[outlived].min(initial=np.inf) - subject.grace
    # A job that outlives its estimate is late through no fault of a plan that kept the promise.
    excused = outlived & (planned_end <= promised + tolerance(promised) + subject.grace)
    margin = tolerance(real, np.nan_to_num(promised)) + moments + subject.grace
    known = promised <= exact_until
    if kept == "starting_time":
        # A start takes what others leave at that very date.
        known &= promised < exact_until - margin
    return _Promises(kept, promised, real, subject.executed & known & ~excused, margin)


def _outlived(subject: Subject) -> tuple[Floats, Booleans, float]:
    """Return planned ends (seconds), which jobs ended later, and the sum of slight excesses."""
    start, finish = subject.result.column("starting_time"), subject.ends
    estimates = _estimates(subject)
    crowds = np.ones(len(estimates))
    if subject.compute_sharing:
        # On a host with n - 1 other jobs, a job may take n times as long. But that says nothing
        # of one that may do more than it was estimated to.
        crowds = np.maximum(subject.most_at_once, 1).astype(np.float64)
        crowds[subject.understated[subject.identities.owners]] = 1.0
        estimates = estimates * crowds
    planned_end = start + estimates - _done_before(subject)
    over = finish - planned_end
    # Of a sleep it is known to the last digit by how much its estimate is too short, and what is
    # killed at its estimate ends a moment later; else the files' rounding may look like one.
    exact = subject.delays[subject.identities.owners] - estimates
    with np.errstate(invalid="ignore"):  # without an estimate both are infinite
        known = np.abs(exact - over) <= tolerance(finish)
    over = np.where(known, exact, over)
    known |= subject.result.ended_as(COMPLETED_KILLED)
    outlived = subject.executed & (over > np.where(known, SAME_DATE, tolerance(finish, planning=0)))
    bearable = np.maximum(tolerance(finish), subject.grace)
    if subject.compute_sharing:
        # Latencies make computations end moments after their estimate.
        bearable = np.maximum(bearable, SLIGHT_OVERRUN * estimates)
    # No plan knows of such moments: promises may be missed by as much, but are not void.
    slight = outlived & (over <= bearable)
    moments = float((over * crowds)[slight].sum())
    outlived &= ~slight
    return planned_end, outlived, moments


def _done_before(subject: Subject) -> Floats:
    """Return what each run that goes on with another's work has used of a doubtful estimate."""
    result, identities = subject.result, subject.identities
    done = np.zeros(len(subject.executed))
    if result.earlier_runs:
        run_times = subject.ends - result.column("starting_time")
        for rows in identities.runs(identities.several):
            if subject.understated[identities.owners[rows[0]]]:
                for before, row in pairwise(rows):
                    if goes_on(result.text("profile")[row]):
                        done[row] = done[before] + run_times[before]
    return done


def _estimates(subject: Subject) -> Floats:
    """Return what planning could know of each job's run time (seconds)."""
    walltimes = subject.result.column("requested_time")
    estimates: Floats = np.where(walltimes > 0, walltimes, np.inf)
    owners = subject.identities.owners
    told = subject.asked("estimates")[owners]
    return np.where(owners < subject.identities.known, told, estimates)
