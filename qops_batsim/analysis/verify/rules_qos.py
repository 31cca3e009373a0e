"""Rules about promises: ``_qos.csv`` against ``_jobs.csv``."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from qops_batsim.analysis.results.restarts import original_id
from qops_batsim.analysis.results.tables import Booleans, Floats
from qops_batsim.analysis.verify.crowding import most_at_once
from qops_batsim.analysis.verify.rule import Rule, Subject, Violation, tolerance, violations
from qops_batsim.analysis.verify.rules_restarts import last_runs
from qops_batsim.jobs import QOS_ACCEPTED, QOS_REJECTED

SLIGHT_OVERRUN = 1e-4
"""On shared hosts, to exceed the estimate by up to this part of it only costs that time."""


def rejected_never_runs(subject: Subject) -> Iterator[Violation]:
    """A job whose decision is rejected does not run, and one that is accepted does."""
    result = subject.result
    assert result.qos is not None
    decision_of = dict(zip(result.qos["id"], result.qos["decision"], strict=True))
    decisions = np.array([decision_of.get(name, "") for name in result.jobs["id"]], dtype=object)
    ran = result.executed
    wrong = (ran & (decisions == QOS_REJECTED)) | (~ran & (decisions == QOS_ACCEPTED))
    return violations(
        subject,
        "rejected-never-runs",
        wrong,
        lambda row: (
            f"_qos.csv says {decisions[row]}, but the job is {result.jobs['final_state'].iloc[row]}"
        ),
    )


def admitted_deadline(subject: Subject) -> Iterator[Violation]:
    """An accepted job finishes by the deadline it was admitted with: its last run, if several.

    A job that runs longer than its estimate frees its processors later than anybody
    could plan, so no promise beyond the date when the first one does is checked, nor its
    own if it would have ended by then without that. On shared hosts, slight excesses do
    not end the check; promises may then be missed by their sum.
    """
    last = last_runs(subject)
    deadlines, finish, wrong = _broken(subject, "admitted_deadline", "finish_time", last)
    return violations(
        subject,
        "admitted-deadline",
        wrong,
        lambda row: (
            f"finishes at {finish[row]:.6f} s, but was admitted with the deadline "
            f"{deadlines[row]:.6f} s"
        ),
        dates="finish_time",
    )


def latest_start(subject: Subject) -> Iterator[Violation]:
    """An accepted job starts by the latest start it was promised.

    As with deadlines, no promise beyond the date when the first job outlives its
    estimate is checked; nor is one for that date, when its processors were to be free.
    """
    names = {row: str(name) for row, name in enumerate(subject.result.jobs["id"])}
    latest, start, wrong = _broken(subject, "latest_start", "starting_time", names)
    return violations(
        subject,
        "latest-start",
        wrong,
        lambda row: (
            f"starts at {start[row]:.6f} s, but was promised to start by {latest[row]:.6f} s"
        ),
        dates="starting_time",
    )


def _broken(
    subject: Subject, promise: str, kept: str, names: dict[int, str]
) -> tuple[Floats, Floats, Booleans]:
    """Compare promised dates with what came of them.

    Parameters
    ----------
    promise, kept
        Columns of ``_qos.csv`` and of ``_jobs.csv``.
    names
        Of each row that must keep a promise, the job to which it was given.

    Returns
    -------
    tuple
        Promised and real date of each job (seconds), and whether a promise that
        had to be kept was not.
    """
    result = subject.result
    assert result.qos is not None
    accepted = result.qos["decision"] != QOS_REJECTED
    dates = dict(zip(result.qos["id"][accepted], result.qos[promise][accepted], strict=True))
    rows = range(len(result.jobs))
    promised: Floats = np.array([dates.get(names.get(row, ""), np.nan) for row in rows])
    finish, start = result.column("finish_time"), result.column("starting_time")
    estimates = _estimates(subject)
    crowds = np.ones(len(estimates))
    if subject.compute_sharing:
        # Whoever shares a host with n - 1 others may take n times as long.
        crowds = np.maximum(most_at_once(result), 1).astype(np.float64)
        estimates = estimates * crowds
    planned_end = start + estimates
    outlived = result.executed & (finish > planned_end + tolerance(finish))
    moments = 0.0
    if subject.compute_sharing:
        # Latencies make computations end moments after their estimate, which nobody plans for:
        # promises may be missed by as much, but are not void.
        over = finish - planned_end
        slight = outlived & (over <= SLIGHT_OVERRUN * estimates)
        moments = float((over * crowds)[slight].sum())
        outlived &= ~slight
    exact_until = planned_end[outlived].min(initial=np.inf)
    # Who outlives its own estimate is late through no fault of the plan, if that kept the promise.
    excused = outlived & (planned_end <= promised + tolerance(promised))
    real = result.column(kept)
    margin = tolerance(real, np.nan_to_num(promised)) + moments
    known = promised <= exact_until
    if kept == "starting_time":
        # A start takes what others leave at that very date.
        known &= promised < exact_until - margin
    late = real > promised + margin
    return promised, real, result.executed & known & late & ~excused


def _estimates(subject: Subject) -> Floats:
    """Return what planning could know of each job's run time (seconds)."""
    walltimes = subject.result.column("requested_time")
    estimates: Floats = np.where(walltimes > 0, walltimes, np.inf)
    known = {
        f"{name}!{job.id}": job.estimate
        for name, workload in subject.workloads.items()
        for job in workload.jobs
    }
    for row, name in enumerate(subject.result.jobs["id"]):
        estimates[row] = known.get(original_id(name, known) or name, estimates[row])
    return estimates


RULES = (
    Rule(
        "rejected-never-runs",
        rejected_never_runs,
        lambda subject: subject.result.qos is not None,
        "a _qos.csv",
    ),
    Rule(
        "admitted-deadline",
        admitted_deadline,
        lambda subject: subject.result.qos is not None and bool(subject.workloads),
        "a _qos.csv and the workload",
    ),
    Rule(
        "latest-start",
        latest_start,
        lambda subject: subject.result.qos is not None and bool(subject.workloads),
        "a _qos.csv and the workload",
    ),
)
