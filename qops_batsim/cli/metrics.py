"""``qops-batsim metrics``: the metrics of runs, side by side."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from qops_batsim.cli.command_inputs import read_runs, warn_of_other_workloads
from qops_batsim.cli.common_options import (
    AsJson,
    Hosts,
    PlatformOfRun,
    Runs,
    WorkloadsOfRun,
    manual,
)
from qops_batsim.cli.console import note, print_json, print_table, say
from qops_batsim.texts import number_text

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
    platform: PlatformOfRun = None,
) -> None:
    """Print the metrics of runs side by side, of this package or of the real Batsim.

    The outcome of users' deadlines, if the workload has some: promised, kept or broken, met as
    asked, missed or refused, in jobs and in their work. Waiting and turnaround times,
    slowdowns, utilization, loss of capacity and queue length, where jobs share hosts also of cores,
    memory and GPUs; docs/metrics.md defines each.
    Means are over the jobs that ran.

    Examples:

    \b
        qops-batsim metrics out/kth_easy out/kth_conservative
        qops-batsim metrics out/kth_easy --json
    """
    import msgspec

    from qops_batsim.measures.metrics.measures import run_measures

    results = read_runs(runs, hosts, platform)
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
        _print_deadlines(values.deadlines, "host" if values.kinds else "processor")
        say()

    rows = [
        [f"{name}{unit}", *texts.values()] for (name, unit), texts in _summaries(values).items()
    ]
    print_table("", ["jobs that ran", *_PARTS], rows)
    say()

    jobs = [f"{count:,} {how}" for how, count in _ended(values).items() if count]
    if values.runs_killed:
        runs = "run" if values.runs_killed == 1 else "runs"
        jobs.append(f"{values.runs_killed:,} {runs} killed whose job ran later")

    _say_fact("jobs", f"{values.jobs_submitted:,} submitted: {', '.join(jobs) or 'none ended'}")
    counts = values.promises
    if counts is not None:
        share = number_text(100 * counts.broken / counts.given)
        _say_fact("promises", f"{counts.given:,} given, {counts.broken:,} broken ({share} %)")

    machine = _machine(values)
    names = ("utilization (%)", "loss of capacity (%)")
    told = ", ".join(f"{name} {machine[name]}" for name in names)
    told += " of dominant shares" if values.kinds else ""
    _say_fact("machine", f"{values.hosts:,} hosts, {told}")
    longest = machine["queue length, maximum (jobs)"]
    mean = machine["queue length, mean (jobs)"]
    _say_fact("queue length", f"mean (jobs) {mean}, maximum {longest}")
    if values.kinds:
        say()
        print_table("", ["kind", *_OF_KIND], [[*row] for row in _kind_rows(values)])
        say()
    begin = machine["first submission (s)"]
    _say_fact("dates (s)", f"first submission {begin}, makespan {machine['makespan (s)']}")


_OF_KIND = {
    "used (%)": "utilization",
    "lost (%)": "loss_of_capacity",
    "waited for (%)": "waiting",
    "queue (jobs)": "queue_length",
    "jobs": "jobs",
    "scarcest of": "scarcest",
}
"""What is told of a kind that hosts have, with its name there."""


def _kind_rows(values: Measures) -> Iterator[list[str]]:
    """Yield the name of each kind of what hosts have, and its measures as texts."""
    for kind in values.kinds or ():
        texts = []
        for label, name in _OF_KIND.items():
            value = getattr(kind, name)
            whole = isinstance(value, int)
            texts.append(f"{value:,}" if whole else number_text(value, 100 if "%" in label else 1))
        yield [kind.kind, *texts]


def _say_fact(label: str, text: str) -> None:
    say(f"{label:<13} {text}", 14)


_PARTS = {"mean": "mean", "median": "median", "95th percentile": "p95", "maximum": "max"}
"""What is told of a measure of jobs, with its name there."""


def _summaries(values: Measures) -> dict[tuple[str, str], dict[str, str]]:
    """Return mean, median … of each measure of jobs, as texts, by its name and unit."""
    from qops_batsim.measures.metrics.measures import MEASURES, SampleSummary

    texts = {}
    for measure in MEASURES.values():
        found = getattr(values, measure.name)
        if not isinstance(found, SampleSummary):
            continue

        name = measure.name.replace("_", " ")
        if measure.name == "bounded_slowdown":
            name += f" ({values.bounded_slowdown_threshold:g} s)"
        unit = f" ({measure.unit})" if measure.unit else ""
        texts[name, unit] = {
            label: number_text(getattr(found, part)) for label, part in _PARTS.items()
        }

    return texts


def _machine(values: Measures) -> dict[str, str]:
    """Return the measures of the machine, as texts by label."""
    return {
        "makespan (s)": number_text(values.makespan),
        "first submission (s)": number_text(values.window_begin),
        "utilization (%)": number_text(values.utilization, 100),
        "loss of capacity (%)": number_text(values.loss_of_capacity, 100),
        "queue length, mean (jobs)": number_text(values.queue_length_mean),
        "queue length, maximum (jobs)": number_text(values.queue_length_max, decimals=0),
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


def _tallies(deadlines: DeadlineMetrics) -> dict[str, JobsAndWork]:
    """Return counts of deadlines by label; without promises, none for kept and broken ones."""
    without = () if deadlines.promised.jobs else ("kept", "broken")
    return {
        label: getattr(deadlines, name) for label, name in _DEADLINES.items() if name not in without
    }


def _print_deadlines(deadlines: DeadlineMetrics, unit: str) -> None:
    rows = []
    asked = deadlines.asked
    for label, tally in _tallies(deadlines).items():
        work = tally.work
        share = None if work is None or not asked.work else 100 * work / asked.work
        hours = None if work is None else work / 3600
        jobs = number_text(100 * tally.jobs / asked.jobs)
        rows.append([label, f"{tally.jobs:,}", jobs, number_text(hours), number_text(share)])
    columns = ["deadlines of users", "jobs", "% of them", f"{unit}-hours", "% of them"]
    print_table("", columns, rows)


def _print_side_by_side(names: list[str], computed: list[Measures]) -> None:
    restarts = any(values.runs_killed for values in computed)
    asked = any(values.deadlines is not None for values in computed)
    promises = any(values.promises is not None for values in computed)
    columns = [
        _rows(values, restarts=restarts, deadlines=asked, promises=promises) for values in computed
    ]
    labels = dict.fromkeys(label for column in columns for label in column)
    rows = [[label, *(column.get(label, "-") for column in columns)] for label in labels]
    print_table("", ["", *names], rows)


def _deadline_rows(deadlines: DeadlineMetrics | None, unit: str) -> dict[str, str]:
    """Return the rows about deadlines (met, missed, …), first by jobs, then by work (hours of a
    unit).
    """
    tallies = {} if deadlines is None else _tallies(deadlines)
    jobs = {label: f"{tally.jobs:,}" for label, tally in tallies.items()}
    work = {label: number_text(tally.work, 1 / 3600) for label, tally in tallies.items()}
    return {
        f"deadlines: {label} ({unit})": texts.get(label, "-")
        for unit, texts in (("jobs", jobs), (f"{unit}-h", work))
        for label in _DEADLINES
    }


def _rows(values: Measures, *, restarts: bool, deadlines: bool, promises: bool) -> dict[str, str]:
    """Return a column of the table that compares runs: label to text."""
    machine = _machine(values)
    rows = {}
    if deadlines:
        # What promises cost the machine stands beside them.
        rows = _deadline_rows(values.deadlines, "host" if values.kinds else "proc")
        rows["utilization (%)"] = machine["utilization (%)"]

    counts = {"hosts": values.hosts, "jobs submitted": values.jobs_submitted}
    for how, count in _ended(values).items():
        if count or how != "cancelled":
            counts[f"jobs {how}"] = count

    if restarts:
        counts["runs killed, job run later"] = values.runs_killed
    if promises:
        counts["promises given"] = values.promises.given if values.promises else 0
        counts["promises broken"] = values.promises.broken if values.promises else 0

    rows |= {label: f"{count:,}" for label, count in counts.items()}

    for (name, unit), texts in _summaries(values).items():
        rows |= {f"{name}, {label}{unit}": text for label, text in texts.items()}
    for kind, *cells in _kind_rows(values):
        rows |= {f"{kind}, {label}": text for label, text in zip(_OF_KIND, cells, strict=True)}
    return rows | machine
