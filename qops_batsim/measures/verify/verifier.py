"""The schedule verifier: does a run's output describe a possible schedule?

It reads what a run wrote, ours or real Batsim's, and trusts nothing else. Each
rule is independent; ``docs/verification.md`` lists them.

Dates in the files are rounded to six decimals;
:mod:`~qops_batsim.measures.results.result_tables` tells which of them are equal.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property

from qops_batsim.arguments import CALLABLE, SWITCH, takes
from qops_batsim.measures.results.run_result import (
    RUN,
    WORKLOADS,
    Run,
    RunResult,
    load_run,
    workloads_of_run,
)
from qops_batsim.measures.verify import rules_files, rules_hosts, rules_jobs, rules_qos
from qops_batsim.measures.verify.rule import Rule, Violation
from qops_batsim.measures.verify.rules_qos import Lateness, greatest_lateness
from qops_batsim.measures.verify.subject import Subject
from qops_batsim.workload.workload_model import Workload

_MODULES = (rules_jobs, rules_hosts, rules_files, rules_qos)

RULES: tuple[Rule, ...] = tuple(
    found
    for module in _MODULES
    for found in vars(module).values()
    if isinstance(found, Rule) and found.module == module.__name__
)
"""Every rule, in the order in which they are checked: by module, then as they stand there."""


@takes(
    result=RUN,
    workloads=WORKLOADS.optional,
    compute_sharing=SWITCH.optional,
    any_allocation_size=SWITCH,
    on_rule=CALLABLE.optional,
)
def verify(
    result: Run,
    *,
    workloads: Mapping[str, Workload] | None = None,
    compute_sharing: bool | None = None,
    any_allocation_size: bool = False,
    on_rule: Callable[[Rule], None] | None = None,
) -> list[Violation]:
    """Check a run's output against all rules that apply to it; return the violations, in the order
    of the rules.

    O(n log n) in the number of jobs, plus the hosts of each; with sharing or outages, in the number
    of (job, host) pairs.

    Parameters
    ----------
    result
        A run that was read, its name, or what ``run`` returned; the last two are read with the
        workload that the description names, if that has not changed.
    workloads
        The workloads that were run, by name (``"w0"``, ``"w1"``, …); without them, requests are
        taken from the run's own files.
    compute_sharing
        Whether hosts may run several jobs at a time; by default as in ``_run.json``, else False.
    any_allocation_size
        Whether jobs may get another number of hosts than requested, as execution mappings allow.
        Profiles that divide a total of work are recognised if the workload is given.
    on_rule
        Called with each rule before its check.

    Returns
    -------
    list of Violation
        Empty if all rules hold.

    Raises
    ------
    InputError
        If the run cannot be read.

    Examples
    --------
    >>> from qops_batsim import run
    >>> verify(run("easy", "tiny_8", out="out/tiny"))
    []
    """
    if not isinstance(result, RunResult):
        result = load_run(result, is_verified=True)
        workloads = workloads if workloads is not None else workloads_of_run(result)[0] or None
    verification = Verification(
        result,
        workloads=workloads,
        compute_sharing=compute_sharing,
        any_allocation_size=any_allocation_size,
    )
    return verification.violations(on_rule)


class Verification:
    """A check of one run against the rules of the schedule verifier; parameters as for
    :func:`verify`.

    What several rules need is computed once.
    """

    def __init__(
        self,
        result: RunResult,
        *,
        workloads: Mapping[str, Workload] | None = None,
        compute_sharing: bool | None = None,
        any_allocation_size: bool = False,
    ) -> None:
        if compute_sharing is None:
            compute_sharing = bool(result.info is not None and result.info.compute_sharing)
        self._subject = Subject(result, dict(workloads or {}), compute_sharing, any_allocation_size)

    @cached_property
    def rules(self) -> list[Rule]:
        """The rules that apply to the run, in the order in which they are checked."""
        return [rule for rule in RULES if rule.applies(self._subject)]

    def violations(self, on_rule: Callable[[Rule], None] | None = None) -> list[Violation]:
        """Check all rules and return their violations; ``on_rule`` is called with each rule before
        its check.
        """
        found: list[Violation] = []
        for rule in self.rules:
            if on_rule is not None:
                on_rule(rule)
            found += rule.check(self._subject)
        return found

    def rules_left_out(self) -> dict[str, list[str]]:
        """Return the names of the rules that cannot be checked, by what the run would have to have
        for that.
        """
        missing: dict[str, list[str]] = {}
        for rule in RULES:
            lack = rule.lacks(self._subject)
            if lack:
                missing.setdefault(lack, []).append(rule.name)
        return missing

    def lateness(self) -> Lateness | None:
        """Return by how much the worst of the run's promises was missed; None if nothing was
        promised.

        The rules tell whether that is too late.
        """
        return greatest_lateness(self._subject)
