"""The schedule verifier: does a run's output describe a possible schedule?

It reads what a run wrote, ours or real Batsim's, and trusts nothing else. Each
rule is independent; ``docs/metrics.md`` lists them.

Dates in the files are rounded to six decimals, so two of them that should be
equal may differ by :data:`DATE_TOLERANCE`: the tolerance of planning plus two
roundings.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from qops_batsim.analysis.results.run import RunResult
from qops_batsim.analysis.verify import (
    rules_aroma,
    rules_files,
    rules_jobs,
    rules_qos,
    rules_restarts,
    rules_workload,
)
from qops_batsim.analysis.verify.rule import DATE_TOLERANCE, Rule, Subject, Violation
from qops_batsim.errors import InputError
from qops_batsim.shipped import find_input
from qops_batsim.workload.batsim_json import read_workload
from qops_batsim.workload.model import Workload

__all__ = [
    "DATE_TOLERANCE",
    "RULES",
    "Rule",
    "Violation",
    "read_workloads",
    "recorded_workloads",
    "rules_checked",
    "verify",
]

RULES: tuple[Rule, ...] = (
    *rules_jobs.RULES,
    *rules_files.RULES,
    *rules_workload.RULES,
    *rules_qos.RULES,
    *rules_restarts.RULES,
    *rules_aroma.RULES,
)
"""Every rule, in the order in which they are checked."""


def verify(
    result: RunResult,
    *,
    workloads: Mapping[str, Workload] | None = None,
    compute_sharing: bool | None = None,
    any_allocation_size: bool = False,
) -> list[Violation]:
    """Check a run's output against every rule that applies.

    O(n log n) in the number of (job, host) pairs.

    Parameters
    ----------
    result
        The run.
    workloads
        The workloads it ran, by their names in the run (``"w0"``, ``"w1"``, …);
        without them, what the jobs asked for is taken from the run's own files.
    compute_sharing
        Whether a host may run several jobs at a time; by default what
        ``_run.json`` says, else not.
    any_allocation_size
        Accept allocations of another size than requested, which execution
        mappings and profiles of type ``parallel_homogeneous_total`` allow. The
        latter are recognised by themselves where the workload is given.

    Returns
    -------
    list of Violation
        In the order of the rules, then of the jobs; empty if all is well.
    """
    subject = _subject(result, workloads, compute_sharing, any_allocation_size)
    return [
        violation for rule in RULES if rule.applies(subject) for violation in rule.check(subject)
    ]


def rules_checked(
    result: RunResult,
    *,
    workloads: Mapping[str, Workload] | None = None,
    compute_sharing: bool | None = None,
) -> list[Rule]:
    """Return the rules that :func:`verify` checks, given these files and options."""
    subject = _subject(result, workloads, compute_sharing, any_allocation_size=False)
    return [rule for rule in RULES if rule.applies(subject)]


def recorded_workloads(result: RunResult) -> list[Path]:
    """Return the workloads that ``_run.json`` names, in order, if all of them still exist.

    A name may be a path or that of a workload that comes with the package.
    """
    if result.info is None or result.info.workload is None:
        return []
    named = result.info.workload
    try:
        return [
            find_input(name, "workloads") for name in ([named] if isinstance(named, str) else named)
        ]
    except InputError:
        return []


def read_workloads(paths: list[Path]) -> dict[str, Workload]:
    """Read workloads and name them as Batsim does, in order: ``w0``, ``w1``, …

    Raises
    ------
    InputError
        A workload cannot be read.
    """
    return {f"w{index}": read_workload(path) for index, path in enumerate(paths)}


def _subject(
    result: RunResult,
    workloads: Mapping[str, Workload] | None,
    compute_sharing: bool | None,
    any_allocation_size: bool,
) -> Subject:
    if compute_sharing is None:
        compute_sharing = bool(result.info is not None and result.info.compute_sharing)
    return Subject(result, dict(workloads or {}), compute_sharing, any_allocation_size)
