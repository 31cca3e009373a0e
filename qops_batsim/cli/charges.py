"""``qops-batsim charges``: what the jobs of a run pay."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from qops_batsim.cli.console import note, print_json, print_table
from qops_batsim.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from qops_batsim.analysis.metrics.charges import CategoryCharges, ChargeReport
    from qops_batsim.analysis.results.run import RunResult
    from qops_batsim.economics.categories import Categories
    from qops_batsim.economics.charges import BreakEven, Weights
    from qops_batsim.economics.slowdowns import ReferenceJob
    from qops_batsim.workload.model import Workload

_HOUR = 3600.0


def charges(
    run: Annotated[
        str,
        typer.Argument(
            metavar="PREFIX",
            help="The run: its PREFIX (of PREFIX_jobs.csv, PREFIX_qos.csv …) or a directory with "
            "one run.",
        ),
    ],
    against: Annotated[
        str | None,
        typer.Option(
            metavar="PREFIX",
            help="Another run of the same workload: tells which of both earns more.",
        ),
    ] = None,
    weights: Annotated[
        str,
        typer.Option(
            metavar="W_R,W_Q",
            help="Profit is W_R times the resource charge plus W_Q times the QoS charge.",
        ),
    ] = "1,1",
    reference: Annotated[
        str | None,
        typer.Option(
            metavar="PREFIX",
            help="Run of the same workload that slowdowns are taken from. "
            "Default: EASY, run now on as many hosts as the workload is for.",
            show_default=False,
        ),
    ] = None,
    workload: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE",
            help="Workload that was run (JSON); repeat it for several, in their order. "
            "Default: the one that PREFIX_run.json names.",
        ),
    ] = None,
    run_time_edges: Annotated[
        str,
        typer.Option(
            metavar="A,B,C",
            help="Longest run time (seconds) of very short, short and long jobs.",
        ),
    ] = "600,3600,28800",
    processor_edges: Annotated[
        str,
        typer.Option(metavar="A,B,C", help="Most processors of sequential, narrow and wide jobs."),
    ] = "1,8,32",
    slowdown_bound: Annotated[
        float | None,
        typer.Option(
            metavar="SECONDS",
            help="Run times below this count as this much in slowdowns. Default: as they are.",
            show_default=False,
        ),
    ] = None,
    price: Annotated[
        str | None,
        typer.Option(
            metavar="MODULE:FUNCTION",
            help="Price function of your own; docs/charges.md shows one. "
            "Default: that of Islam et al. (2004).",
            show_default=False,
        ),
    ] = None,
    fill: Annotated[
        bool,
        typer.Option(
            "--fill", help="Also write category and charges of each job into PREFIX_qos.csv."
        ),
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """Print what the jobs of a finished run pay, by category and in total.

    Resource charge: processors × run time (processor-seconds). QoS charge: mean slowdown of
    the job's category / slowdown that its admitted deadline grants; only for jobs whose
    user asked for a deadline. A job that was killed and started anew is charged once.

    **Examples**

    - Run a deadline scheduler, then charge: `qops-batsim run qops` and
      `qops-batsim charges out/qops`

    - Two policies, and a QoS charge worth an hour of 64 processors:
      `qops-batsim charges out/qops --against out/msb --weights 1,230400`

    - For scripts: `qops-batsim charges out/qops --json`
    """
    from qops_batsim.analysis.metrics.accounts import accounts_of_run
    from qops_batsim.analysis.metrics.charges import charge_jobs, charge_report, fill_qos_file
    from qops_batsim.analysis.results.run import find_run, read_run
    from qops_batsim.economics.charges import break_even, islam2004, load_price
    from qops_batsim.economics.slowdowns import category_slowdowns

    used = _weights(weights)
    categories = _categories(run_time_edges, processor_edges)
    function = islam2004 if price is None else load_price(price)
    names = [run] if against is None else [run, against]
    results = [read_run(name) for name in names]
    workloads = _workloads(results[0], workload)
    accounts = [accounts_of_run(result, workloads) for result in results]
    references = _references(workloads, reference)
    table = category_slowdowns(references.values(), categories, bound=slowdown_bound)
    charged = [charge_jobs(each, references, table, function) for each in accounts]
    reports = [charge_report(each, table, used) for each in charged]
    crossing = None
    if against is not None:
        crossing = break_even(reports[0].total.charge, reports[1].total.charge)
    if as_json:
        print_json(_document(names, reports, categories, slowdown_bound, used, crossing))
    else:
        for name, report in zip(names, reports, strict=True):
            _print_report(name, report)
        for name, report in zip(names, reports, strict=True):
            typer.echo(
                f"profit of {name}: {report.profit:,.2f} "
                f"({used.resource:g} * resource charge + {used.qos:g} * QoS charge)"
            )
        if crossing is not None:
            typer.echo(_crossing_text(crossing, names))
    if fill:
        path = find_run(run).qos
        assert path is not None
        fill_qos_file(path, charged[0])
        note(f"wrote {path}")


def _numbers(text: str, option: str, count: int) -> list[float]:
    try:
        values = [float(each) for each in text.split(",")]
    except ValueError:
        values = []
    if len(values) != count or not all(map(math.isfinite, values)):
        raise InputError(f"{option} {text}: {count} numbers separated by commas are expected")
    return values


def _weights(text: str) -> Weights:
    from qops_batsim.economics.charges import Weights

    resource, qos = _numbers(text, "--weights", 2)
    weights = Weights(resource=resource, qos=qos)
    weights.check()
    return weights


def _categories(run_times: str, processors: str) -> Categories:
    from qops_batsim.economics.categories import Categories

    first, second, third = _numbers(run_times, "--run-time-edges", 3)
    few, some, many = _numbers(processors, "--processor-edges", 3)
    categories = Categories(run_times=(first, second, third), processors=(few, some, many))
    categories.check()
    return categories


def _workloads(result: RunResult, given: list[Path] | None) -> dict[str, Workload]:
    from qops_batsim.analysis.results.workloads import read_workloads, recorded_workloads

    paths = given or recorded_workloads(result)
    if not paths:
        raise InputError(f"{result.source}: its workload is not known; --workload FILE is expected")
    return read_workloads(paths)


def _references(
    workloads: Mapping[str, Workload], reference: str | None
) -> dict[str, ReferenceJob]:
    from qops_batsim.analysis.metrics.charges import reference_of_run, reference_of_workload
    from qops_batsim.analysis.results.run import read_run
    from qops_batsim.experiments.deadline_workload import easy_response_times

    if reference is not None:
        return reference_of_run(read_run(reference))
    if len(workloads) > 1:
        raise InputError(
            f"{len(workloads)} workloads were run together; a run of them to take slowdowns from "
            "(--reference PREFIX) is expected"
        )
    ((name, workload),) = workloads.items()
    return reference_of_workload(workload, easy_response_times(workload), f"{name}!")


def _document(
    names: list[str],
    reports: list[ChargeReport],
    categories: Categories,
    bound: float | None,
    weights: Weights,
    crossing: BreakEven | None,
) -> dict[str, Any]:
    import msgspec

    document: dict[str, Any] = {
        "weights": msgspec.to_builtins(weights),
        "categories": msgspec.to_builtins(categories),
        "slowdown_bound": bound,
        "runs": [
            {"run": name, **msgspec.to_builtins(report)}
            for name, report in zip(names, reports, strict=True)
        ],
    }
    if crossing is not None:
        document["break_even"] = msgspec.to_builtins(crossing)
    return document


def _print_report(name: str, report: ChargeReport) -> None:
    print_table(
        f"Charges of {name}",
        [
            "category",
            "slowdown",
            "jobs",
            "charged",
            "resource charge (proc-s)",
            "QoS charge",
            "kills",
            "wasted proc-h",
        ],
        [_cells(each) for each in (*report.categories, report.total)],
    )


def _cells(row: CategoryCharges) -> list[str]:
    return [
        row.category,
        "-" if row.slowdown is None else f"{row.slowdown:,.2f}",
        f"{row.jobs:,}",
        f"{row.charged_jobs:,}",
        f"{row.charge.resource:,.0f}",
        f"{row.charge.qos:,.2f}",
        f"{row.kills:,}",
        f"{row.wasted_work / _HOUR:,.1f}",
    ]


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
