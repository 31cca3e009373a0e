"""Rules about promises: ``_qos.csv`` against ``_jobs.csv``."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from qops_batsim.analysis.rules import Rule, Subject, Violation, tolerance, violations
from qops_batsim.analysis.tables import QOS_ACCEPTED, QOS_REJECTED, Floats


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
    """An accepted job finishes by the deadline it was admitted with.

    A job that runs longer than its estimate frees its processors later than anybody
    could plan, so no promise beyond the date when the first one does is checked.
    """
    result = subject.result
    assert result.qos is not None
    accepted = result.qos["decision"] != QOS_REJECTED
    promised = dict(
        zip(result.qos["id"][accepted], result.qos["admitted_deadline"][accepted], strict=True)
    )
    deadlines: Floats = np.array([promised.get(name, np.nan) for name in result.jobs["id"]])
    finish, start = result.column("finish_time"), result.column("starting_time")
    estimates = _estimates(subject)
    slack = tolerance(finish, np.nan_to_num(deadlines))
    planned_end = start + estimates
    outlived = result.executed & (finish > planned_end + slack)
    exact_until = planned_end[outlived].min(initial=np.inf)
    wrong = result.executed & (deadlines <= exact_until) & (finish > deadlines + slack)
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
        estimates[row] = known.get(name, estimates[row])
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
)
