"""``qops-batsim charges``: charges of the jobs of a run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from qops_batsim.cli.command_inputs import prices_in, run_name
from qops_batsim.cli.common_options import (
    AsJson,
    PricesFile,
    Run,
    WorkloadsOfRun,
    manual,
)
from qops_batsim.cli.console import note, print_json, print_table, say
from qops_batsim.errors import InputError
from qops_batsim.texts import number_text

if TYPE_CHECKING:
    from qops_batsim.advice.charge_report import ChargeComparison
    from qops_batsim.economics.charges import BreakEven
    from qops_batsim.measures.metrics.charge_totals import CategoryCharges

_HOUR = 3600.0

_about = manual(
    """
    --against PREFIX: Another run of the same workload; prints which of the two earns more.
    --reference PREFIX: Run of the same workload from which slowdowns are computed. Default:
        EASY, run now on as many hosts as the workload is for.
    --fill: Also write category and charges of each job into PREFIX_qos.csv.
    --example: Print a file of prices with the defaults, and end.
    """
)


def _print_example(wanted: bool) -> None:
    if wanted:
        from qops_batsim.economics.prices import EXAMPLE

        typer.echo(EXAMPLE.read_text("utf-8"), nl=False)
        raise typer.Exit


def charges(
    run: Run,
    against: Annotated[str | None, _about("--against")] = None,
    prices: PricesFile = None,
    reference: Annotated[str | None, _about("--reference")] = None,
    workload: WorkloadsOfRun = None,
    fill: Annotated[bool, _about("--fill")] = False,
    example: Annotated[bool, _about("--example", callback=_print_example, is_eager=True)] = False,
    as_json: AsJson = False,
) -> None:
    """Print what the jobs of a finished run pay, by category and in total.

    Resource charge: processors × run time (processor-seconds), times the price of the queue that
    the job was in, where queues have prices. QoS charge: mean slowdown of
    the job's category / slowdown that its admitted deadline grants; only for jobs whose
    user asked for a deadline, and it was promised and kept. A missed deadline, promised or
    not, costs the centre its QoS charge. A job that was killed and run again is charged once.
    With `unused_promise` in the prices, users pay a share of the price for promised work that
    they gave back or did not use.

    Examples:

    \b
        # What users of a run (qops-batsim run qops) pay:
        qops-batsim charges out/qops
        # Two policies, by prices of your own:
        qops-batsim charges --example > prices.toml
        qops-batsim charges out/qops --against out/msb --prices prices.toml
        # For scripts:
        qops-batsim charges out/qops --json
    """
    from msgspec.structs import replace

    from qops_batsim.advice.charge_report import charge_runs
    from qops_batsim.measures.metrics.charge_totals import fill_qos_file
    from qops_batsim.measures.results.run_files import find_run

    chosen = prices_in(prices)
    named = [run] if against is None else [run, against]
    run = run_name(run)
    against = None if against is None else run_name(against)
    reference = None if reference is None else run_name(reference)

    if fill and run != named[0]:
        raise InputError(
            f"--fill writes to PREFIX_qos.csv, but {named[0]} is a live journal, which has no such "
            "file; the PREFIX of a run is expected"
        )

    found = charge_runs(run, against, prices=chosen, workloads=workload, reference=reference)
    runs = [replace(each, run=name) for each, name in zip(found.runs, named, strict=True)]
    found = replace(found, runs=runs)
    if as_json:
        print_json(found.as_data())
    else:
        _print(found)

    if fill:
        note(f"wrote {fill_qos_file(find_run(run), found.runs[0].jobs)}")


def _print(found: ChargeComparison) -> None:
    prices = found.prices
    per_second, per_qos = prices.weights
    rate = f"{per_second:g} * resource charge"
    weighted = prices.billing_weights is not None
    if prices.currency:
        rate = f"{prices.rate:g} {prices.unit} a {'billed' if weighted else 'core'}-hour"
    totals = [each.report.total for each in found.runs]
    failed = any(each.failed for each in totals)
    kills = any(each.kills for each in totals)
    unused = prices.unused_promise > 0

    for each in found.runs:
        report = each.report
        shown: dict[str, Any] = {
            "failed": failed,
            "kills": kills,
            "unused": unused,
            "weighted": weighted,
        }
        rows = [_cells(row, **shown) for row in (*report.categories, report.total)]
        print_table(f"Charges of {each.run}", [*rows[0]], [[*row.values()] for row in rows])
        if report.queues:
            title = f"Charges of {each.run} by queue"
            rows = [_cells(row, **shown, kind="queue") for row in report.queues]
            print_table(title, [*rows[0]], [[*row.values()] for row in rows])

    extra = f" + {prices.unused_promise:g} of it for unused promises" if unused else ""
    for each in found.runs:
        say(
            f"profit of {each.run}: {each.report.profit:,.2f} ({rate}{extra} + {per_qos:g} * "
            + (f"(QoS charge - {prices.penalty:g} * penalty))" if failed else "QoS charge)")
        )

    if found.break_even is not None:
        say(_crossing_text(found.break_even, [each.run for each in found.runs]))


def _cells(
    row: CategoryCharges,
    *,
    failed: bool,
    kills: bool,
    unused: bool,
    weighted: bool,
    kind: str = "category",
) -> dict[str, str]:
    cells = {kind: row.category}
    if kind == "category":
        cells["slowdown"] = number_text(row.slowdown)
    cells |= {
        "jobs": f"{row.jobs:,}",
        "charged": f"{row.charged_jobs:,}",
        f"resource charge ({'billed' if weighted else 'proc'}-s)": f"{row.charge.resource:,.0f}",
        "QoS charge": f"{row.charge.qos:,.2f}",
    }
    if failed:
        cells |= {"broken or missed": f"{row.failed:,}", "penalty": f"{row.penalty:,.2f}"}
    if kills:
        cells |= {"kills": f"{row.kills:,}", "wasted proc-h": f"{row.wasted_work / _HOUR:,.1f}"}
    if unused:
        cells[f"unused {'billed' if weighted else 'proc'}-h"] = f"{row.unused_work / _HOUR:,.1f}"
    return cells


def _crossing_text(crossing: BreakEven, names: list[str]) -> str:
    of = {"first": names[0], "second": names[1]}
    if crossing.below == "equal":
        return "both earn the same with any weights"
    if crossing.ratio is None:
        return f"{of[crossing.below]} earns more with any weights: no less of either charge"
    return (
        f"both earn the same at W_Q / W_R = {crossing.ratio:,.6g}; below, {of[crossing.below]} "
        f"earns more, above, {of[crossing.above]}"
    )
