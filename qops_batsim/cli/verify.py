"""``qops-batsim verify``: check the invariants of a run's files."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Annotated

import typer

from qops_batsim.cli.command_inputs import read_runs
from qops_batsim.cli.common_options import (
    Hosts,
    PlatformOfRun,
    Run,
    WorkloadsOfRun,
    manual,
    rows_to_list,
)
from qops_batsim.cli.console import note, progress_bar, say, warn
from qops_batsim.cli.texts import lateness_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from qops_batsim.measures.verify.rule import Violation

_about = manual(
    """
    --compute-sharing/--no-compute-sharing: Whether a host may run several jobs at a time.
        Default: what PREFIX_run.json says, else not.
    --any-allocation-size: Accept other numbers of hosts than requested (execution mappings,
        jobs that divide a total amount of work).
    """
)
Sharing = Annotated[bool | None, _about("--compute-sharing/--no-compute-sharing")]


def verify(
    run: Run,
    workload: WorkloadsOfRun = None,
    hosts: Hosts = None,
    platform: PlatformOfRun = None,
    compute_sharing: Sharing = None,
    any_allocation_size: Annotated[bool, _about("--any-allocation-size")] = False,
    first: Annotated[int, rows_to_list("Violations to list.")] = 10,
) -> None:
    """Check that a run's files describe a possible schedule; also runs of the real Batsim.

    No host runs two jobs at a time, or gives more cores, memory or GPUs than it has,
    nothing starts before it is submitted, jobs get the hosts they request, walltimes
    hold, dates and totals agree with each other and with the workload. Promises are
    kept, or missed by no more than the scheduler's grace where Batsim's messages take
    their time; prints the greatest lateness. Exit code 0: all rules hold; 1: some do not.

    Examples:

    \b
        qops-batsim verify out/kth_easy
        qops-batsim verify out/expe --workload kth.json --hosts 100
    """
    from qops_batsim.measures.results.run_result import workloads_of_run
    from qops_batsim.measures.verify.verifier import Verification

    with progress_bar(None, "reading"):
        (result,) = read_runs([run], hosts, platform, is_verified=True)
        workloads, doubt = workloads_of_run(result, workload)

    if doubt is not None:
        warn(doubt if workloads else f"{doubt}: --workload FILE names what it was made of")
    verification = Verification(
        result,
        workloads=workloads,
        compute_sharing=compute_sharing,
        any_allocation_size=any_allocation_size,
    )
    checked = verification.rules

    with progress_bar(len(checked), "verifying") as bar:
        found = verification.violations(
            None if bar is None else lambda rule: bar(checked.index(rule))
        )

    for needs, names in verification.rules_left_out().items():
        note(f"not checked for want of {needs}: {', '.join(names)}")
    late = verification.lateness()
    if late is not None:
        say(lateness_text(late))
    size = f"{len(result.executed)} jobs on {result.hosts} hosts"
    if found:
        _print_violations(found, first, size)
        raise typer.Exit(1)

    names = [rule.name for rule in checked]
    say(f"verified: {size}, {len(names)} rules checked: {', '.join(names)}")


def _print_violations(found: Sequence[Violation], first: int, size: str) -> None:
    for violation in found[:first]:
        say(f"{violation.rule}: {violation.message}")
    if len(found) > first:
        say(f"… and {len(found) - first} more")
    totals = Counter(violation.rule for violation in found)
    summary = ", ".join(f"{name} {count}" for name, count in totals.items())
    say(f"NOT verified: {size}, violations by rule: {summary}")
