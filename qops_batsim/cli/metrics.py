"""``qops-batsim metrics``: the metrics of runs, side by side."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from qops_batsim.cli.console import print_json, print_table
from qops_batsim.cli.inputs import read_runs
from qops_batsim.cli.options import AsJson, Hosts, Runs
from qops_batsim.cli.texts import number_text

if TYPE_CHECKING:
    from qops_batsim.analysis.metrics.run_metrics import Metrics

Threshold = Annotated[
    float,
    typer.Option(
        metavar="SECONDS", help="Run times below this count as this much in the bounded slowdown."
    ),
]


def metrics(
    runs: Runs,
    as_json: AsJson = False,
    bounded_slowdown_threshold: Threshold = 10.0,
    hosts: Hosts = None,
) -> None:
    """Print the metrics of runs side by side, ours or real Batsim's.

    Waiting and turnaround times, slowdowns, utilization, loss of capacity and
    queue length; docs/metrics.md defines each. Means are over the jobs that ran.

    **Examples**

    `qops-batsim metrics out/kth_easy out/kth_conservative`

    `qops-batsim metrics out/kth_easy --json`
    """
    import msgspec

    from qops_batsim.analysis.metrics.run_metrics import compute_metrics

    results = read_runs(runs, hosts)
    names = [result.name for result in results]
    bound = bounded_slowdown_threshold
    computed = [compute_metrics(result, bounded_slowdown_threshold=bound) for result in results]
    if as_json:
        pairs = zip(names, computed, strict=True)
        print_json([{"run": name, **msgspec.to_builtins(values)} for name, values in pairs])
        return
    restarts = any(values.runs_killed for values in computed)
    columns = [_rows(values, restarts=restarts) for values in computed]
    rows = [[label, *(column[label] for column in columns)] for label in columns[0]]
    print_table("Metrics", ["", *names], rows)


def _rows(values: Metrics, *, restarts: bool) -> dict[str, str]:
    """Return the rows of the table: label with unit, and value as text."""
    counts = {
        "hosts": values.hosts,
        "jobs submitted": values.jobs_submitted,
        "jobs successful": values.jobs_successful,
        "jobs killed at walltime": values.jobs_walltime_killed,
        "jobs killed by the scheduler": values.jobs_killed,
        "jobs failed": values.jobs_failed,
        "jobs rejected": values.jobs_rejected,
    }
    if restarts:
        counts["runs killed, job run later"] = values.runs_killed
    rows = {label: f"{count:,}" for label, count in counts.items()}
    bounded = f"bounded slowdown ({values.bounded_slowdown_threshold:g} s)"
    for name, unit, summary in (
        ("waiting time", " (s)", values.waiting_time),
        ("turnaround time", " (s)", values.turnaround_time),
        ("slowdown", "", values.slowdown),
        (bounded, "", values.bounded_slowdown),
    ):
        rows[f"{name}, mean{unit}"] = number_text(summary.mean)
        rows[f"{name}, median{unit}"] = number_text(summary.median)
        rows[f"{name}, 95th percentile{unit}"] = number_text(summary.p95)
        rows[f"{name}, maximum{unit}"] = number_text(summary.max)
    return rows | {
        "makespan (s)": number_text(values.makespan),
        "first submission (s)": number_text(values.window_begin),
        "utilization (%)": number_text(values.utilization, 100),
        "loss of capacity (%)": number_text(values.loss_of_capacity, 100),
        "queue length, mean (jobs)": number_text(values.queue_length_mean),
        "queue length, maximum (jobs)": number_text(values.queue_length_max, decimals=0),
    }
