"""``qops-batsim metrics``: the metrics of runs, side by side."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from qops_batsim.cli.command_inputs import read_runs, warn_of_other_workloads
from qops_batsim.cli.common_options import AsJson, Hosts, Runs, WorkloadsOfRun, manual
from qops_batsim.cli.console import note, print_json, print_table, say
from qops_batsim.cli.texts import number_text

if TYPE_CHECKING:
    from qops_batsim.measures.metrics.measures import Measures
    from qops_batsim.measures.metrics.outcomes import DeadlineMetrics, JobsAndWork
    from qops_batsim.measures.results.run_result import RunResult
    from qops_batsim.workload.workload_model import Workload

_about = manual(
    """
    --bounded-slowdown-threshold SECONDS: Run times below this count as this much in the bounded
        slowdown.
    """
)


def metrics(
    runs: Runs,
    as_json: AsJson = False,
    bounded_slowdown_threshold: Annotated[float, _about("--bounded-slowdown-threshold")] = 10.0,
    hosts: Hosts = None,
    workload: WorkloadsOfRun = None,
) -> None:
    """Print the metrics of runs side by side, of this package or of the real Batsim.

    The outcome of users' deadlines, if the workload has some: promised, kept or broken, met as
    asked, missed or refused, in jobs and in their work. Waiting and turnaround times,
    slowdowns, utilization, loss of capacity and queue length; docs/metrics.md defines each.
    Means are over the jobs that ran.

    Examples:

    \b
        qops-batsim metrics out/kth_easy out/kth_conservative
        qops-batsim metrics out/kth_easy --json
    """
    import msgspec

    from qops_batsim.measures.metrics.measures import run_measures

    results = read_runs(runs, hosts)
    warn_of_other_workloads(results)
    known = [_workloads(result, workload) for result in results]
    bound = bounded_slowdown_threshold
    computed = [
        run_measures(result, workloads, bounded_slowdown_threshold=bound)
        for result, workloads in zip(results, known, strict=True)
    ]
    names = [result.name for result in results]
    if as_json:
        pairs = zip(names, computed, strict=True)
        print_json([{"run": name, **msgspec.to_builtins(values)} for name, values in pairs])
    elif len(computed) == 1:
        print_metrics(computed[0])
    else:
        _print_side_by_side(names, computed)


def _workloads(result: RunResult, given: list[Path] | None) -> dict[str, Workload]:
    """Return the workloads that have a run's deadlines; print why if none is found."""
    from qops_batsim.measures.results.run_result import read_workloads, workloads_with_deadlines

    if given:
        return read_workloads(given)
    found, why_not = workloads_with_deadlines(result)
    if why_not is not None:
        note(f"{result.source}: deadlines are not counted: {why_not} (--workload FILE names it)")
    return found


def print_metrics(values: Measures) -> None:
    """Print the metrics of a run, those of deadlines first."""
    if values.deadlines is not None:
        _print_deadlines(values.deadlines)
        say()
    summaries = _summaries(values)
    rows = [[f"{name}{unit}", *each.values()] for (name, unit), each in summaries.items()]
    print_table("", ["jobs that ran", *summaries["slowdown", ""]], rows)
    say()
    parts = [f"{count:,} {how}" for how, count in _ended(values).items() if count]
    if values.runs_killed:
        runs = "run" if values.runs_killed == 1 else "runs"
        parts.append(f"{values.runs_killed:,} {runs} killed whose job ran later")
    facts = {
        "jobs": f"{values.jobs_submitted:,} submitted: {', '.join(parts) or 'none ended'}",
        **_promises_fact(values),
        "machine": f"{values.hosts:,} hosts, utilization (%) "
        f"{number_text(values.utilization, 100)}, loss of capacity (%) "
        f"{number_text(values.loss_of_capacity, 100)}",
        "queue length": f"mean (jobs) {number_text(values.queue_length_mean)}, "
        f"maximum {number_text(values.queue_length_max, decimals=0)}",
        "dates (s)": f"first submission {number_text(values.window_begin)}, "
        f"makespan {number_text(values.makespan)}",
    }
    for label, text in facts.items():
        say(f"{label:<13} {text}", 14)


def _promises_fact(values: Measures) -> dict[str, str]:
    """Return how many promises were given and broken; nothing where there are none."""
    found = values.promises
    if found is None:
        return {}
    share = number_text(100 * found.broken / found.given)
    return {"promises": f"{found.given:,} given, {found.broken:,} broken ({share} %)"}


def _summaries(values: Measures) -> dict[tuple[str, str], dict[str, str]]:
    """Return each measure's mean, median, … over executed jobs, as texts, by (name, unit)."""
    bounded = f"bounded slowdown ({values.bounded_slowdown_threshold:g} s)"
    found = {
        ("waiting time", " (s)"): values.waiting_time,
        ("turnaround time", " (s)"): values.turnaround_time,
        ("slowdown", ""): values.slowdown,
        (bounded, ""): values.bounded_slowdown,
    }
    told = {"mean": "mean", "median": "median", "95th percentile": "p95", "maximum": "max"}
    return {
        named: {label: number_text(getattr(each, name)) for label, name in told.items()}
        for named, each in found.items()
    }


def _ended(values: Measures) -> dict[str, int]:
    """Return how many jobs ended in each final state."""
    return {
        "successful": values.jobs_successful,
        "killed at walltime": values.jobs_walltime_killed,
        "killed by the scheduler": values.jobs_killed,
        "failed": values.jobs_failed,
        "rejected": values.jobs_rejected,
        "cancelled": values.jobs_cancelled or 0,
    }


_DEADLINES = {
    "asked for": "asked",
    "promised": "promised",
    "promise kept": "kept",
    "promise broken": "broken",
    "refused": "refused",
    "met as asked": "met",
    "missed": "missed",
}


def _tallies(found: DeadlineMetrics) -> dict[str, JobsAndWork]:
    """Return counts of deadlines by label; without promises, none for kept and broken ones."""
    without = () if found.promised.jobs else ("kept", "broken")
    return {k: getattr(found, name) for k, name in _DEADLINES.items() if name not in without}


def _print_deadlines(found: DeadlineMetrics) -> None:
    rows = []
    for label, tally in _tallies(found).items():
        work = tally.work
        asked = found.asked
        share = None if work is None or not asked.work else 100 * work / asked.work
        hours = None if work is None else work / 3600
        jobs = number_text(100 * tally.jobs / asked.jobs)
        rows.append([label, f"{tally.jobs:,}", jobs, number_text(hours), number_text(share)])
    columns = ["deadlines of users", "jobs", "% of them", "processor-hours", "% of them"]
    print_table("", columns, rows)


def _print_side_by_side(names: list[str], computed: list[Measures]) -> None:
    restarts = any(values.runs_killed for values in computed)
    asked = any(values.deadlines is not None for values in computed)
    promises = any(values.promises is not None for values in computed)
    columns = [
        _rows(values, restarts=restarts, deadlines=asked, promises=promises) for values in computed
    ]
    rows = [[label, *(column[label] for column in columns)] for label in columns[0]]
    print_table("", ["", *names], rows)


def _deadline_rows(values: Measures) -> dict[str, str]:
    """Return the rows about deadlines (met, missed, …) and about the utilization."""
    rows = {}
    found = {} if values.deadlines is None else _tallies(values.deadlines)
    for unit in ("jobs", "proc-h"):
        for label in _DEADLINES:
            tally = found.get(label)
            if unit == "jobs":
                text = "-" if tally is None else f"{tally.jobs:,}"
            else:
                text = "-" if tally is None else number_text(tally.work, 1 / 3600)
            rows[f"deadlines: {label} ({unit})"] = text
    return rows | {"utilization (%)": number_text(values.utilization, 100)}


def _rows(values: Measures, *, restarts: bool, deadlines: bool, promises: bool) -> dict[str, str]:
    """Return a column of the table that compares runs: label to text."""
    counts = {"hosts": values.hosts, "jobs submitted": values.jobs_submitted}
    counts |= {
        f"jobs {how}": count for how, count in _ended(values).items() if count or how != "cancelled"
    }
    if restarts:
        counts["runs killed, job run later"] = values.runs_killed
    promised = values.promises
    if promises:
        counts["promises given"] = 0 if promised is None else promised.given
        counts["promises broken"] = 0 if promised is None else promised.broken
    rows = _deadline_rows(values) if deadlines else {}
    rows |= {label: f"{count:,}" for label, count in counts.items()}
    for (name, unit), each in _summaries(values).items():
        rows |= {f"{name}, {label}{unit}": text for label, text in each.items()}
    return rows | {
        "makespan (s)": number_text(values.makespan),
        "first submission (s)": number_text(values.window_begin),
        "utilization (%)": number_text(values.utilization, 100),
        "loss of capacity (%)": number_text(values.loss_of_capacity, 100),
        "queue length, mean (jobs)": number_text(values.queue_length_mean),
        "queue length, maximum (jobs)": number_text(values.queue_length_max, decimals=0),
    }
