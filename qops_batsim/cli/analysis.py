"""``qops-batsim metrics``, ``verify``, ``gantt``, ``occupation``, ``plot``: what a run gave."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, Annotated

import typer

from qops_batsim.cli.console import note, print_json, print_table
from qops_batsim.cli.options import (
    AsJson,
    Begin,
    End,
    Hosts,
    Picture,
    Run,
    Runs,
    WorkloadsOfRun,
    rows_to_list,
)
from qops_batsim.errors import InputError

if TYPE_CHECKING:
    from qops_batsim.analysis.metrics.run_metrics import Metrics, Summary
    from qops_batsim.analysis.results.run import RunResult


def metrics(
    runs: Runs,
    as_json: AsJson = False,
    bounded_slowdown_threshold: Annotated[
        float,
        typer.Option(
            metavar="SECONDS",
            help="Run times below this count as this much in the bounded slowdown.",
        ),
    ] = 10.0,
    hosts: Hosts = None,
) -> None:
    """Print the metrics of runs side by side, ours or real Batsim's.

    Waiting and turnaround times, slowdowns, utilization, loss of capacity and
    queue length; docs/metrics.md defines each. Means are over the jobs that ran.

    **Examples**

    `qops-batsim metrics out/kth_easy out/kth_conservative`

    `qops-batsim metrics out/kth_easy --json`
    """
    from qops_batsim.analysis.metrics.run_metrics import compute_metrics

    results = _read(runs, hosts)
    computed = [
        compute_metrics(result, bounded_slowdown_threshold=bounded_slowdown_threshold)
        for result in results
    ]
    if as_json:
        import msgspec

        print_json(
            [
                {"run": result.name, **msgspec.to_builtins(values)}
                for result, values in zip(results, computed, strict=True)
            ]
        )
        return
    restarts = any(values.runs_killed for values in computed)
    rows = [_metric_rows(values, restarts=restarts) for values in computed]
    print_table(
        "Metrics",
        ["", *(result.name for result in results)],
        [[label, *(row[label] for row in rows)] for label in rows[0]],
    )


def verify(
    run: Run,
    workload: WorkloadsOfRun = None,
    platform: Annotated[
        str | None, typer.Option(metavar="FILE", help="Platform (XML), to count the hosts.")
    ] = None,
    hosts: Hosts = None,
    compute_sharing: Annotated[
        bool | None,
        typer.Option(
            "--compute-sharing/--no-compute-sharing",
            help="Whether a host may run several jobs at a time. "
            "Default: what PREFIX_run.json says, else not.",
            show_default=False,
        ),
    ] = None,
    any_allocation_size: Annotated[
        bool,
        typer.Option(
            "--any-allocation-size",
            help="Accept other numbers of hosts than requested (execution mappings, "
            "jobs that divide a total amount of work).",
        ),
    ] = False,
    first: Annotated[int, rows_to_list("Violations")] = 10,
) -> None:
    """Check that a run's files describe a possible schedule, ours or real Batsim's.

    No host runs two jobs at a time, nothing starts before it is submitted, jobs
    get the hosts they request, walltimes hold, dates and totals agree with each
    other and with the workload. Exit code 0: all rules hold; 1: some do not.

    **Examples**

    `qops-batsim verify out/kth_easy`

    `qops-batsim verify out/expe --workload kth.json --platform cluster.xml`
    """
    from qops_batsim.analysis.results.workloads import read_workloads, recorded_workloads
    from qops_batsim.analysis.verify.verifier import RULES, rules_checked
    from qops_batsim.analysis.verify.verifier import verify as check

    if hosts is None and platform is not None:
        from qops_batsim.platform.simgrid_read import read_platform
        from qops_batsim.shipped import find_input

        hosts = len(read_platform(find_input(platform, "platforms")).compute_hosts)
    (result,) = _read([run], hosts)
    workloads = read_workloads(workload or recorded_workloads(result))
    checked = rules_checked(result, workloads=workloads, compute_sharing=compute_sharing)
    missing: dict[str, list[str]] = {}
    for rule in RULES:
        if rule not in checked:
            missing.setdefault(rule.needs, []).append(rule.name)
    found = check(
        result,
        workloads=workloads,
        compute_sharing=compute_sharing,
        any_allocation_size=any_allocation_size,
    )
    for needs, names in missing.items():
        note(f"not checked for want of {needs}: {', '.join(names)}")
    size = f"{len(result.jobs)} jobs on {result.hosts} hosts"
    if not found:
        names = [rule.name for rule in checked]
        typer.echo(f"verified: {size}, {len(names)} rules checked: {', '.join(names)}")
        return
    for violation in found[:first]:
        typer.echo(f"{violation.rule}: {violation.message}")
    if len(found) > first:
        typer.echo(f"… and {len(found) - first} more")
    totals = Counter(violation.rule for violation in found)
    summary = ", ".join(f"{name} {count}" for name, count in totals.items())
    typer.echo(f"NOT verified: {size}, violations by rule: {summary}")
    raise typer.Exit(1)


def gantt(
    run: Run,
    out: Picture,
    begin: Begin = None,
    end: End = None,
    engine: Annotated[
        str,
        typer.Option(
            help="How to draw: evalys (labelled rectangles), image (any number of jobs), "
            "or auto (evalys while it stays readable)."
        ),
    ] = "auto",
    hosts: Hosts = None,
) -> None:
    """Draw which host ran which job, when.

    **Examples**

    `qops-batsim gantt out/kth_easy -o kth.png`

    `qops-batsim gantt out/kth_easy --from 100d --to 101d -o day100.svg`
    """
    from qops_batsim.analysis.plots import gantt as chart
    from qops_batsim.analysis.plots.drawing import output_format

    output_format(out)
    (result,) = _read([run], hosts)
    chart.draw(
        result, out, begin=_seconds(begin, "--from"), end=_seconds(end, "--to"), engine=engine
    )
    typer.echo(f"wrote {out}")


def occupation(
    run: Run,
    out: Picture,
    workload: WorkloadsOfRun = None,
    begin: Begin = None,
    end: End = None,
    hosts: Hosts = None,
) -> None:
    """Draw how many tasks each host runs over time, coloured by class of service.

    For runs in which jobs share hosts: a host has a lane for each task that it runs at once.

    **Examples**

    `qops-batsim occupation out/mixed -o mixed.png`

    `qops-batsim occupation out/mixed --from 1h --to 2h -o hour.svg`
    """
    from qops_batsim.analysis.plots import occupation as chart
    from qops_batsim.analysis.plots.drawing import output_format
    from qops_batsim.analysis.results.workloads import read_workloads, recorded_workloads

    output_format(out)
    (result,) = _read([run], hosts)
    chart.draw(
        result,
        out,
        workloads=read_workloads(workload or recorded_workloads(result)),
        begin=_seconds(begin, "--from"),
        end=_seconds(end, "--to"),
    )
    typer.echo(f"wrote {out}")


def plot(runs: Runs, out: Picture, hosts: Hosts = None) -> None:
    """Draw utilization and queue length over time, of one run or several.

    **Examples**

    `qops-batsim plot out/kth_easy -o kth.png`

    `qops-batsim plot out/kth_easy out/kth_conservative out/kth_fcfs -o compared.pdf`
    """
    from qops_batsim.analysis.plots import over_time as plots
    from qops_batsim.analysis.plots.drawing import output_format

    output_format(out)
    plots.draw(_read(runs, hosts), out)
    typer.echo(f"wrote {out}")


def _read(runs: list[str], hosts: int | None) -> list[RunResult]:
    """Read runs, give those of one name the names that the user wrote, tell what is assumed."""
    from dataclasses import replace

    from qops_batsim.analysis.results.run import read_run

    results = [read_run(run, hosts=hosts) for run in runs]
    names = Counter(result.name for result in results)
    for index, (run, result) in enumerate(zip(runs, results, strict=True)):
        if result.hosts_are_assumed:
            note(
                f"{result.source}: number of hosts not recorded; "
                f"taking {result.hosts}, {result.hosts_source} (--hosts N sets it)"
            )
        if names[result.name] > 1:
            results[index] = replace(result, name=run)
    return results


_UNITS = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


def _seconds(text: str | None, option: str) -> float | None:
    if text is None:
        return None
    match = re.fullmatch(r"(\d+(?:\.\d*)?)([smhd]?)", text.strip())
    if match is None:
        raise InputError(
            f"{option} {text}: not a time; seconds since the start of the simulation, or a "
            "number with a unit s, m, h or d (100d) is expected"
        )
    return float(match[1]) * _UNITS[match[2]]


def _metric_rows(values: Metrics, *, restarts: bool) -> dict[str, str]:
    """Return the rows of the table: label with unit, and value as text."""
    threshold = f"{values.bounded_slowdown_threshold:g}"
    rows = {
        "hosts": f"{values.hosts:,}",
        "jobs submitted": f"{values.jobs_submitted:,}",
        "jobs successful": f"{values.jobs_successful:,}",
        "jobs killed at walltime": f"{values.jobs_walltime_killed:,}",
        "jobs killed by the scheduler": f"{values.jobs_killed:,}",
        "jobs failed": f"{values.jobs_failed:,}",
        "jobs rejected": f"{values.jobs_rejected:,}",
    }
    if restarts:
        rows["runs killed, job run later"] = f"{values.runs_killed:,}"
    summaries: list[tuple[str, str, Summary]] = [
        ("waiting time", " (s)", values.waiting_time),
        ("turnaround time", " (s)", values.turnaround_time),
        ("slowdown", "", values.slowdown),
        (f"bounded slowdown ({threshold} s)", "", values.bounded_slowdown),
    ]
    for name, unit, summary in summaries:
        rows[f"{name}, mean{unit}"] = _number(summary.mean)
        rows[f"{name}, median{unit}"] = _number(summary.median)
        rows[f"{name}, 95th percentile{unit}"] = _number(summary.p95)
        rows[f"{name}, maximum{unit}"] = _number(summary.max)
    rows |= {
        "makespan (s)": _number(values.makespan),
        "first submission (s)": _number(values.window_begin),
        "utilization (%)": _number(values.utilization, 100),
        "loss of capacity (%)": _number(values.loss_of_capacity, 100),
        "queue length, mean (jobs)": _number(values.queue_length_mean),
        "queue length, maximum (jobs)": _number(values.queue_length_max, decimals=0),
    }
    return rows


def _number(value: float | None, factor: float = 1.0, *, decimals: int = 2) -> str:
    return "-" if value is None else f"{value * factor:,.{decimals}f}"
