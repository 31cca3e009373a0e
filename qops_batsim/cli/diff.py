"""``qops-batsim diff``: two runs job by job."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from qops_batsim.cli.command_inputs import run_name
from qops_batsim.cli.common_options import A_RUN, AsJson, manual, rows_to_list
from qops_batsim.cli.console import print_json, print_table, say
from qops_batsim.texts import number_text

if TYPE_CHECKING:
    from qops_batsim.measures.results.difference import RunDifference, Value


_about = manual(
    f"""
    A: A run: {A_RUN}
    B: The other run, ours or real Batsim's.
    --tolerance SECONDS: Dates closer than this are equal; the rounding of the files comes on
        top.
    --ignore-hosts: Do not compare which hosts ran a job.
    """
)


def diff(
    a: Annotated[str, _about("A")],
    b: Annotated[str, _about("B")],
    tolerance: Annotated[float, _about("--tolerance", min=0.0)] = 1e-6,
    ignore_hosts: Annotated[bool, _about("--ignore-hosts")] = False,
    first: Annotated[int, rows_to_list("Differing jobs to list.", least=0)] = 10,
    as_json: AsJson = False,
) -> None:
    """Compare two runs job by job: start, finish, state, hosts, and what was requested.

    Prints the first differences in the order of time, a summary and a verdict.
    Exit code 0: the runs are equal; 1: they differ.

    Examples:

    \b
        qops-batsim diff out/kth_easy out/kth_conservative
        qops-batsim diff out/easy out/batsched_jobs.csv --ignore-hosts \\
          --tolerance 1
    """
    from qops_batsim.measures.results.difference import compare_runs
    from qops_batsim.measures.results.run_result import read_run

    compared = compare_runs(
        read_run(run_name(a)),
        read_run(run_name(b)),
        tolerance=tolerance,
        ignore_hosts=ignore_hosts,
        first=first,
    )

    if as_json:
        import msgspec

        values: dict[str, Any] = msgspec.to_builtins(compared)
        print_json({"a": a, "b": b, "verdict": _verdict(compared), **values})
    else:
        _print_first(compared)
        say(f"A: {a}")
        say(f"B: {b}")
        print_table("", ["", "jobs", "largest (s)", "mean (s)"], _summary(compared))
        say(_verdict(compared))

    if not compared.equal:
        raise typer.Exit(1)


def _print_first(compared: RunDifference) -> None:
    if not compared.first:
        return
    rows = [
        [difference.job if number == 0 else "", *_cells(value)]
        for difference in compared.first
        for number, value in enumerate(difference.values)
    ]
    print_table("First differences", ["job", "what", "A", "B", "B - A"], rows)


_UNITS = {"submission": " (s)", "walltime": " (s)", "start": " (s)", "finish": " (s)"}


def _cells(value: Value) -> list[str]:
    if value.field == "job":
        return ["in one run only", _text(value.a), _text(value.b), ""]
    change = ""
    if isinstance(value.a, float) and isinstance(value.b, float):
        form = "+,.6f" if value.field in _UNITS else "+g"
        change = f"{value.b - value.a:{form}}"
    label = value.field + _UNITS.get(value.field, "")
    return [label, _text(value.a, value.field), _text(value.b, value.field), change]


def _text(value: float | str | None, field: str = "") -> str:
    if value is None:
        return "none" if field == "walltime" else "-"
    if isinstance(value, str):
        return value if len(value) <= 40 else f"{value[:39]}…"
    return f"{value:,.6f}" if field in _UNITS else f"{value:g}"


def _summary(compared: RunDifference) -> list[list[str]]:
    """Return the summary of a comparison as rows: label, jobs, largest and mean difference (s)."""
    counts = {
        "compared": compared.jobs_compared,
        "only in A": compared.only_a,
        "only in B": compared.only_b,
        "different": compared.jobs_different,
        "  in processors or walltime requested": compared.requests,
        "  in submission": compared.submissions,
        "  in final state": compared.states,
    }
    rows = [[label, f"{jobs:,}", "", ""] for label, jobs in counts.items()]
    for label, dates in (("  in start", compared.starts), ("  in finish", compared.finishes)):
        rows.append([label, f"{dates.jobs:,}", _seconds(dates.largest), _seconds(dates.mean)])
    if compared.hosts_compared:
        rows.append(["  in hosts", f"{compared.allocations:,}", "", ""])
    rows.append(["waiting time in A", "", "", _seconds(compared.mean_wait_a)])
    rows.append(["waiting time in B", "", "", _seconds(compared.mean_wait_b)])
    return rows


def _seconds(value: float | None) -> str:
    return number_text(value, decimals=6)


def _verdict(compared: RunDifference) -> str:
    """Return whether the two runs are equal or different, in words."""
    jobs = compared.jobs_compared
    if compared.equal:
        return f"equal: {jobs:,} jobs, within {compared.tolerance:g} s"
    parts = [f"{compared.jobs_different:,} of {jobs:,} jobs"]
    alone = {"A": compared.only_a, "B": compared.only_b}
    parts += [f"{count:,} only in {run}" for run, count in alone.items() if count]
    return f"different: {', '.join(parts)}"
