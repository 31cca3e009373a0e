"""Reports of a study: a row a run, means with intervals and verdicts, pictures, a page."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from qops_batsim.analysis.metrics.admission import PROMISE_METRICS, AdmissionMetrics
from qops_batsim.experiments.best_lines import LINES
from qops_batsim.experiments.page import (
    PageFacts,
    PageTable,
    html_page,
    pictures_of,
    without_empty_columns,
)
from qops_batsim.experiments.pictures import draw_comparison
from qops_batsim.experiments.score_report import draw_scores, score_method, score_tables
from qops_batsim.experiments.statistics import (
    LEAST,
    RISK,
    Means,
    difference,
    directions,
    grouped_interval,
    limits_of,
    limits_of_difference,
)
from qops_batsim.experiments.study import Point, columns_of
from qops_batsim.experiments.study_runs import CellOutcome, StudyRuns
from qops_batsim.parameters import EXACT, USERS
from qops_batsim.tables import csv_text
from qops_batsim.version import __version__

SEEDS, WINDOWS = "seeds", "windows"

METRICS = tuple(
    name for name in AdmissionMetrics.__struct_fields__ if name not in ("jobs", "deadline_jobs")
)
"""Names of the metrics that are averaged over seeds."""

ALWAYS = ("met_deadlines", "wait", "bounded_slowdown_of_all")
"""Names of the metrics that every table has."""

_HEADINGS = {
    "offered_load": "offered load",
    "unadmitted_work": "unadmitted proc-s (%)",
    "unadmitted_deadline_work": "unadmitted deadline proc-s (%)",
    "met_deadlines": "deadlines met (%)",
    "missed_deadlines": "deadlines missed (%)",
    "utilization_during_submissions": "utilization while jobs are submitted (%)",
    "response_time": "response time of others (s)",
    "slowdown": "slowdown of others",
    "bounded_slowdown": "bounded slowdown of others",
    "wait": "wait (s)",
    "bounded_slowdown_of_all": "bounded slowdown",
    "kills": "kills",
    "lateness_median": "lateness, median (s)",
    "lateness_p95": "lateness, 95th percentile (s)",
}


def heading_of(metric: str) -> str:
    """Return a metric's name with its unit, as tables have it; most are shares."""
    return _HEADINGS.get(metric) or f"{metric.replace('_', ' ')} (%)"


class StudySummary(msgspec.Struct, frozen=True, kw_only=True):
    """A scheduler at a point: means over the repetitions, and differences to the baseline.

    Repetitions are ``over`` windows of the log, each the mean of its seeds, or with a single
    window over seeds. ``verdict`` says of the study's first metric whether it is higher or
    lower than the baseline's, ``chance`` with which probability chance explains that.
    """

    point: Point
    scheduler: str
    over: str
    runs: int
    failed: int
    metrics: Means
    difference: Means
    verdict: str = ""
    chance: float | None = None


def method_text(runs: StudyRuns) -> str:
    """Return how intervals and verdicts of a table are made, in words."""
    if runs.study.listed:
        return score_method(runs)
    return (
        "Means with 95 % intervals (Student) over the windows of a log, each the mean of its "
        "seeds; with a single window over its seeds, which says nothing about other windows. "
        f"{_estimates_text(runs)} "
        f"Verdicts: {runs.study.metrics[0]} against {runs.study.base} on the same "
        f"workloads; at most {RISK} for one wrong verdict or more in the table (Holm); not "
        f"judged below {LEAST} repetitions, nor on refusals who refuses nothing."
        f"{broken_text(runs.outcomes)}"
    )


def _estimates_text(runs: StudyRuns) -> str:
    """Return what deadlines are made from, and schedulers plan with."""
    if note := runs.description.note:
        return f"{note[0].upper()}{note[1:]}."
    models = runs.study.models
    bases = dict.fromkeys(point.deadlines_by for point in runs.study.points())
    return (
        f"Deadlines are made from {' and '.join(_BASES[each] for each in bases)}; schedulers plan "
        f"with {'; '.join(_BASES.get(each, each) for each in models)}."
    )


_BASES = {USERS: "the log's walltimes", EXACT: "run times"}


def broken_text(outcomes: Sequence[CellOutcome]) -> str:
    """Return a sentence on the promises that each scheduler broke in a run; empty if none did."""
    shares = [(each.cell.contestant, each.value("broken_promises")) for each in outcomes]
    # The last one of a name is the greatest.
    worst = dict(sorted((name, share) for name, share in shares if share))
    said = ", ".join(f"{name} up to {share:.2f} %" for name, share in worst.items())
    return f" Promises broken in a run: {said}." if said else ""


def summaries(runs: StudyRuns) -> list[StudySummary]:
    """Return a summary for every point and scheduler that has runs, in the study's order."""
    groups: dict[tuple[Point, str], list[CellOutcome]] = {}
    for each in runs.outcomes:
        if not each.repeated:
            groups.setdefault((each.cell.point, each.cell.contestant), []).append(each)
    base, found = runs.study.base, []
    names = (*METRICS, *(PROMISE_METRICS if runs.study.has_models else ()))
    if runs.study.listed:
        names = runs.study.known_metrics
    for (point, name), group in groups.items():
        finished = [each for each in group if each.metrics is not None]
        pairs = [] if name == base else _pairs(finished, groups[point, base])
        windows = len({each.cell.window for each in group})
        found.append(
            StudySummary(
                point=point,
                scheduler=name,
                over=WINDOWS if windows > 1 else SEEDS,
                runs=len(finished),
                failed=sum(each.error is not None for each in group),
                metrics={
                    metric: grouped_interval(
                        ((each.cell.window, each.value(metric)) for each in finished),
                        planned=windows,
                        limits=limits_of(metric),
                    )
                    for metric in names
                },
                difference={
                    metric: grouped_interval(
                        (
                            (pair[0].cell.window, difference(*(e.value(metric) for e in pair)))
                            for pair in pairs
                        ),
                        planned=windows,
                        limits=limits_of_difference(metric),
                    )
                    for metric in names
                },
            )
        )
    # Who refuses nothing is not tested on refusals: that would change the verdicts of others.
    metric = runs.study.metrics[0]
    on_refusals = "unadmitted_jobs" if metric.startswith("unadmitted") else "jobs"
    tested = {e.cell.contestant for e in runs.outcomes if e.value(on_refusals)} - {*LINES}
    judged = directions(
        each.difference.get(metric) if each.scheduler in tested else None for each in found
    )
    return [
        msgspec.structs.replace(each, verdict=verdict, chance=chance)
        for each, (verdict, chance) in zip(found, judged, strict=True)
    ]


def _pairs(
    own: Iterable[CellOutcome], base: Iterable[CellOutcome]
) -> list[tuple[CellOutcome, CellOutcome]]:
    """Return runs with those of the baseline on the same workload."""
    others = {(each.cell.window, each.cell.seed): each for each in base if each.metrics}
    keys = ((each, (each.cell.window, each.cell.seed)) for each in own)
    return [(each, others[key]) for each, key in keys if key in others]


def summary_records(found: Sequence[StudySummary]) -> list[dict[str, Any]]:
    """Return a flat record for each summary: means, ends, differences, verdict."""
    records = []
    for each in found:
        record = {**columns_of(each.point, "income" in each.metrics), "scheduler": each.scheduler}
        record |= {"over": each.over, "runs": each.runs, "failed": each.failed}
        for suffix, metrics in (("", each.metrics), ("_difference", each.difference)):
            for name, value in metrics.items():
                record[f"{name}{suffix}"] = None if value is None else value.mean
                record[f"{name}{suffix}_low"] = None if value is None else value.low
                record[f"{name}{suffix}_high"] = None if value is None else value.high
        records.append(record | {"verdict": each.verdict, "chance": each.chance})
    return records


def csv_of(records: Sequence[Mapping[str, Any]]) -> str:
    """Return records as CSV; what is None is empty."""
    return csv_text([[*records[0]] if records else [], *(each.values() for each in records)])


def page_tables(runs: StudyRuns) -> list[PageTable]:
    """Return the tables of a report."""
    if runs.study.listed:
        return score_tables(runs)
    headings, rows = table_cells(runs)
    return [PageTable(title=runs.study.name, headings=headings, rows=rows)]


def table_cells(runs: StudyRuns) -> tuple[list[str], list[list[str]]]:
    """Return headings and cells of a table; parameters that do not vary have no column."""
    found = summaries(runs)
    metrics = tuple(dict.fromkeys((*runs.study.metrics, *ALWAYS)))
    varied = [
        name
        for name in Point.__struct_fields__
        if len({getattr(each.point, name) for each in found}) > 1
    ]
    names = [heading_of(name) for name in metrics]
    judged = f"{names[0]} less {runs.study.base}"
    headings = [*varied, "scheduler", "runs", *names, judged, "verdict"]
    rows = []
    for each in found:
        known = [each.metrics.get(name) for name in metrics]
        less = each.difference.get(metrics[0])
        rows.append(
            [
                *(_axis_text(each.point, name) for name in varied),
                each.scheduler,
                str(each.runs) + (f" ({each.failed} failed)" if each.failed else ""),
                *("-" if value is None else value.text() for value in known),
                "" if less is None else less.text(sign="+"),
                each.verdict,
            ]
        )
    return without_empty_columns(headings, rows)


def document_of(runs: StudyRuns) -> dict[str, Any]:
    """Return the study with its summaries as plain values for JSON."""
    return {
        "package_version": __version__,
        "key": runs.description.key,
        "study": msgspec.to_builtins(runs.study),
        "judged": method_text(runs),
        "summaries": msgspec.to_builtins(summaries(runs)),
        "tables": msgspec.to_builtins(page_tables(runs)),
    }


def tables_of(runs: StudyRuns) -> dict[str, str]:
    """Return ``runs.csv``, a row a run, and ``table.csv``, the summaries, as texts by name."""
    return {
        "runs.csv": csv_of(runs.records()),
        "table.csv": csv_of(summary_records(summaries(runs))),
    }


def draw_study(runs: StudyRuns, directory: str | Path, *, ending: str = "png") -> dict[Path, str]:
    """Draw pictures (png, pdf or svg) of finished runs; those that vary in no load are points.

    Returns the files, each with a caption.
    """
    if runs.study.listed:
        return draw_scores(runs, directory, ending=ending)
    parts: dict[Point, dict[str, dict[float, Means]]] = {}
    for each in summaries(runs):
        if each.runs:
            part = msgspec.structs.replace(each.point, load=1.0)
            by_load = parts.setdefault(part, {}).setdefault(each.scheduler, {})
            by_load[each.point.load] = each.metrics
    fields = [
        name for name in Point.__struct_fields__ if len({_axis_text(p, name) for p in parts}) > 1
    ]
    captions: dict[Path, str] = {}
    used: Counter[str] = Counter()
    for part, curves in parts.items():
        named = "-".join(f"{name}-{_axis_text(part, name)}" for name in fields)
        prefix = re.sub(r"[^\w.-]+", "-", named) + "-" if named else ""
        used[prefix] += 1
        if used[prefix] > 1:  # names that differ only in what a file's name cannot have
            prefix += f"{used[prefix]}-"
        said = [part.log, *(f"{name} {_axis_text(part, name)}" for name in fields if name != "log")]
        captions |= draw_comparison(
            curves,
            directory,
            ending=ending,
            prefix=prefix,
            title=", ".join(said),
            limits={line: line_means(curves.pop(line)) for line in LINES if line in curves},
        )
    return captions


def line_means(by_load: Mapping[float, Means]) -> dict[str, dict[float, float]]:
    """Return a line as means by metric and load."""
    means: dict[str, dict[float, float]] = {}
    for load, metrics in by_load.items():
        for metric, value in metrics.items():
            if value is not None:
                means.setdefault(metric, {})[load] = value.mean
    return means


def _axis_text(point: Point, name: str) -> str:
    value = getattr(point, name)
    return f"{value:g}" if isinstance(value, float) else str(value)


def study_page(runs: StudyRuns, command: str) -> str:
    """Return the finished runs of a study as HTML; ``command`` made it."""
    own = [e for e in runs.outcomes if not e.repeated and e.cell.contestant not in LINES]
    finished = sum(each.metrics is not None for each in own)
    failed = sum(each.error is not None for each in own)
    grid = msgspec.to_builtins(runs.study)
    return html_page(
        runs.study.name,
        f"{finished:,} runs{f', {failed:,} failed' if failed else ''}. {method_text(runs)}",
        {
            "Means and verdicts": page_tables(runs),
            "Pictures": pictures_of(partial(draw_study, runs, ending="svg")),
            "Choices": [
                PageFacts(facts={key: msgspec.json.encode(grid[key]).decode() for key in grid})
            ],
        },
        command,
        study=runs.description.key,
    )
