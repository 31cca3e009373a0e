"""Report of a study: means with intervals, verdicts, and figures."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from qops_batsim.experiments.best_lines import BEST_KNOWN, LINES
from qops_batsim.experiments.page import PageTable
from qops_batsim.experiments.report import Figure, Panel, Series, StudyReport, line_of_means
from qops_batsim.experiments.report_table import table_of
from qops_batsim.experiments.score_report import (
    asked_text,
    score_figure,
    score_method,
    score_tables,
)
from qops_batsim.experiments.statistics import (
    TEXT_OF_LEVEL,
    Interval,
    Limits,
    Means,
    difference,
    directions,
    grouped_interval,
    limits_of,
    limits_of_difference,
)
from qops_batsim.experiments.study import Point, Study, columns_of
from qops_batsim.experiments.study_runs import CellOutcome, StudyRuns
from qops_batsim.measures.metrics.measures import (
    MEASURES,
    PERCENT,
    PROMISES,
    SHARE,
    STUDY,
    measure_names,
)
from qops_batsim.parameters import EXACT, USERS
from qops_batsim.tables import csv_text

SEEDS = "seeds"
WINDOWS = "windows"
LOGS = "logs"

METRICS = tuple(name for name in measure_names(STUDY) if name not in ("jobs", "deadline_jobs"))
"""Names of the metrics that are averaged over seeds."""

ALWAYS = ("met_deadlines", "wait", "bounded_slowdown_of_all")
"""Names of the metrics that every table has."""

_HEADINGS = {
    "unadmitted_work": "unadmitted proc-s",
    "unadmitted_deadline_work": "unadmitted deadline proc-s",
    "met_deadlines": "deadlines met",
    "missed_deadlines": "deadlines missed",
    "utilization_during_submissions": "utilization while jobs are submitted",
    "bounded_slowdown_of_all": "bounded slowdown",
    "lateness_median": "lateness, median",
    "lateness_p95": "lateness, 95th percentile",
}


def heading_of(metric: str) -> str:
    """Return a metric's name with its unit, as a table heading."""
    name = _HEADINGS.get(metric) or metric.replace("_", " ")
    unit = MEASURES[metric].unit if metric in MEASURES else PERCENT
    # Of a share, studies tell percent.
    return f"{name} ({PERCENT if unit == SHARE else unit})" if unit else name


class StudySummary(msgspec.Struct, frozen=True, kw_only=True):
    """Results of a scheduler at one point of the grid: means, and differences to the baseline.

    Repetitions are ``over`` windows of the log, each the mean of its seeds, or with a single
    window over seeds, or they are logs (:func:`over_logs`). ``verdict`` says of the study's first
    metric whether it is higher or lower than the baseline's, or that the runs are equal, ``chance``
    with which probability chance explains it.
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
    """Return sentences on how the intervals and verdicts of a table are computed."""
    by_need = "Deadlines are made by need, from no schedule. " if runs.study.need else ""
    if runs.study.cases:
        return by_need + score_method(runs)
    return (
        f"{by_need}Means with 95 % intervals (Student) over the windows of a log, each the mean of "
        "its seeds; with a single window over its seeds, which says nothing about other windows; "
        "over logs, each the mean of its windows. "
        f"{_estimates_text(runs)} "
        f"Verdicts: {runs.study.metrics[0]} against {runs.study.base} on the same "
        f"workloads, {TEXT_OF_LEVEL}; not "
        "judged is on refusals who refuses nothing, nor equal runs."
        f"{asked_text(runs.study.verdicts)}"
        f"{broken_text(runs.outcomes)}"
    )


def _estimates_text(runs: StudyRuns) -> str:
    """Return a sentence on the estimates from which deadlines and plans are made."""
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
    """Return a sentence on the promises that each scheduler broke; "" if none was broken."""
    shares = [(each.cell.contestant, each.value("broken_promises")) for each in outcomes]
    # The last one of a name is the greatest.
    worst = dict(sorted((name, share) for name, share in shares if share))
    said = ", ".join(f"{name} up to {share:.2f} %" for name, share in worst.items())
    return f" Promises broken in a run: {said}." if said else ""


def summaries(runs: StudyRuns) -> list[StudySummary]:
    """Return a summary for each point and scheduler that has runs, in the study's order."""
    study = runs.study
    names = (*METRICS, *(measure_names(PROMISES) if study.has_models else ()))
    if study.cases:
        names = study.known_metrics
    groups: dict[tuple[Point, str], list[CellOutcome]] = {}
    for outcome in runs.outcomes:
        if not outcome.repeated:
            key = outcome.cell.point, outcome.cell.contestant
            groups.setdefault(key, []).append(outcome)

    found = []
    for (point, name), group in groups.items():
        finished = [each for each in group if each.metrics is not None]
        pairs = [] if name == study.base else _pairs(finished, groups[point, study.base])
        windows = len({each.cell.window for each in group})
        means: Means = {}
        differences: Means = {}
        for metric in names:
            means[metric] = grouped_interval(
                ((each.cell.window, each.value(metric)) for each in finished),
                planned=windows,
                limits=limits_of(metric),
            )
            differences[metric] = grouped_interval(
                (
                    (own.cell.window, difference(own.value(metric), other.value(metric)))
                    for own, other in pairs
                ),
                planned=windows,
                limits=limits_of_difference(metric),
            )
        found.append(
            StudySummary(
                point=point,
                scheduler=name,
                over=WINDOWS if windows > 1 else SEEDS,
                runs=len(finished),
                failed=sum(each.error is not None for each in group),
                metrics=means,
                difference=differences,
            )
        )
    return _judged(runs, found, groups)


def _judged(
    runs: StudyRuns,
    found: Sequence[StudySummary],
    groups: Mapping[tuple[Point, str], Sequence[CellOutcome]],
) -> list[StudySummary]:
    """Return summaries with verdicts, except for schedulers that the study does not judge.

    Who refuses nothing is not tested on refusals, nor against a baseline that refuses nothing.
    Equal runs are one statement, and none if they equal the baseline's. So neither such a
    scheduler nor a second name of another one changes the verdicts of the rest.
    """
    study = runs.study
    metric = study.metrics[0]
    on_refusals = "unadmitted_jobs" if metric.startswith("unadmitted") else "jobs"
    able = {e.cell.contestant for e in runs.outcomes if e.value(on_refusals)} - {*LINES}
    asked = able.intersection(study.verdicts or able) if study.base in able else set()
    runs_of = {
        key: tuple((e.cell.window, e.cell.seed, e.metrics) for e in group)
        for key, group in groups.items()
    }

    statements: dict[Any, Interval | None] = {}
    for each in found:
        own = runs_of[each.point, each.scheduler]
        if each.scheduler in asked and own != runs_of[each.point, study.base]:
            statements.setdefault((each.point, own), each.difference.get(metric))
    verdicts = directions(statements)

    judged = []
    for each in found:
        verdict, chance = "", None
        if each.scheduler in asked:
            alike = "equal" if each.scheduler != study.base else ""
            own = runs_of[each.point, each.scheduler]
            verdict, chance = verdicts.get((each.point, own), (alike, None))
        judged.append(msgspec.structs.replace(each, verdict=verdict, chance=chance))
    return judged


ALL_LOGS = "all logs"
"""What summaries over logs have in place of a log's name."""


def over_logs(runs: StudyRuns, found: Sequence[StudySummary]) -> list[StudySummary]:
    """Return summaries over logs: each log counts once, with the mean of its windows.

    One log for several machines is one, and so is the model of all that are generated. They tell
    what to expect of another log; those of one log, of another window of it. Who is judged on a log
    is judged here, and equal differences are one statement.
    """
    metric = runs.study.metrics[0]
    units = _units(runs.study)
    groups: dict[tuple[Point, str], list[StudySummary]] = {}
    for each in found:
        point = msgspec.structs.replace(each.point, log=ALL_LOGS)
        groups.setdefault((point, each.scheduler), []).append(each)

    whole = []
    for (point, name), group in groups.items():
        of = [units[each.point.log] for each in group]
        over_all = StudySummary(
            point=point,
            scheduler=name,
            over=LOGS,
            runs=sum(each.runs for each in group),
            failed=sum(each.failed for each in group),
            metrics=_means_over_logs(of, [each.metrics for each in group], limits_of),
            difference=_means_over_logs(
                of, [each.difference for each in group], limits_of_difference
            ),
        )
        # Without a verdict, or with equal runs, on each log, there is nothing to judge.
        is_judged = {each.verdict for each in group} - {"", "equal"}
        whole.append((over_all, (point, over_all.difference[metric]) if is_judged else None))

    said = directions({key: key[1] for _, key in whole if key is not None})
    return [
        msgspec.structs.replace(over_all, verdict=said[key][0], chance=said[key][1])
        if key
        else over_all
        for over_all, key in whole
    ]


def _units(study: Study) -> dict[str, str]:
    """Return the file of each log, "" of those that are generated."""
    return {log.name: log.file for log in study.logs}


def _means_over_logs(
    units: Sequence[str], logs: Sequence[Means], limits: Callable[[str], Limits]
) -> Means:
    """Return the mean over logs of each log's mean; None where a log's mean is unknown."""
    means: Means = {}
    for metric in logs[0]:
        intervals = [of_log[metric] for of_log in logs]
        means[metric] = grouped_interval(
            zip(units, (None if e is None else e.mean for e in intervals), strict=True),
            planned=len(set(units)),
            limits=limits(metric),
        )
    return means


def _pairs(
    own: Iterable[CellOutcome], base: Iterable[CellOutcome]
) -> list[tuple[CellOutcome, CellOutcome]]:
    """Pair each run with the baseline's run on the same workload."""
    others = {(each.cell.window, each.cell.seed): each for each in base if each.metrics}
    keys = ((each, (each.cell.window, each.cell.seed)) for each in own)
    return [(each, others[key]) for each, key in keys if key in others]


def summary_records(found: Sequence[StudySummary]) -> list[dict[str, Any]]:
    """Return one flat record for each summary: means, interval ends, differences, verdict."""
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
    """Format records as CSV; None is an empty cell."""
    return csv_text([[*records[0]] if records else [], *(each.values() for each in records)])


def page_tables(runs: StudyRuns) -> list[PageTable]:
    """Return the tables of a report: over windows or seeds, and over logs if there are several.

    Where cases are listed there are others.
    """
    if runs.study.cases:
        return score_tables(runs)
    found = summaries(runs)
    tables = [_table(runs, found, runs.study.name)]
    logs = len(set(_units(runs.study).values()))
    if logs > 1:
        title = f"{runs.study.name}, over {logs} logs"
        tables.append(_table(runs, over_logs(runs, found), title))
    return tables


def _table(runs: StudyRuns, found: Sequence[StudySummary], title: str) -> PageTable:
    """Return a table of summaries; a parameter that does not vary has no column."""
    metrics = dict.fromkeys((*runs.study.metrics, *ALWAYS))
    judged = runs.study.metrics[0]
    varied = [
        name
        for name in Point.__struct_fields__
        if len({getattr(each.point, name) for each in found}) > 1
    ]
    columns = {
        **{name: name for name in (*varied, "scheduler", "runs")},
        **{name: heading_of(name) for name in metrics},
        "less": f"{heading_of(judged)} less {runs.study.base}",
        "verdict": "verdict",
    }
    rows: list[dict[str, Any]] = []
    for each in found:
        less = each.difference.get(judged)
        rows.append(
            {
                **{name: _axis_text(each.point, name) for name in varied},
                "scheduler": each.scheduler,
                "runs": f"{each.runs}" + (f" ({each.failed} failed)" if each.failed else ""),
                **{name: each.metrics.get(name) for name in metrics},
                "less": "" if less is None else less.text(sign="+"),
                "verdict": each.verdict,
            }
        )
    return table_of(title, columns, rows)


def report_of(runs: StudyRuns) -> StudyReport:
    """Return the report of a study's finished runs."""
    own = [e for e in runs.outcomes if not e.repeated and e.cell.contestant not in LINES]
    finished = sum(each.metrics is not None for each in own)
    failed = sum(each.error is not None for each in own)
    grid = msgspec.to_builtins(runs.study)
    method = method_text(runs)
    tables = page_tables(runs)
    return StudyReport(
        study=runs.study.name,
        quick=False,
        choices={
            name: msgspec.json.encode(value).decode()
            for name, value in grid.items()
            if value not in (None, [])
        },
        data={
            "key": runs.description.key,
            "study": grid,
            "summaries": summaries(runs),
            "tables": [
                {"title": table.title, "headings": table.headings, "rows": table.rows}
                for table in tables
            ],
        },
        tables=tables,
        figures=figures_of(runs),
        method=method,
        about=f"{finished:,} runs{f', {failed:,} failed' if failed else ''}. {method}",
    )


def tables_of(runs: StudyRuns) -> dict[str, str]:
    """Return the texts of ``runs.csv`` (one row for each run) and ``table.csv``, by name."""
    return {
        "runs.csv": csv_of(runs.records()),
        "table.csv": csv_of(summary_records(summaries(runs))),
    }


PICTURES = {
    "deadlines": ("Deadlines met and missed", ("met_deadlines", "missed_deadlines")),
    "unadmitted": (
        "Jobs and work that were not admitted",
        ("unadmitted_jobs", "unadmitted_work"),
    ),
    "utilization": ("Utilization", ("utilization",)),
    "unadmitted_deadline": (
        "Deadline jobs, and their work, that were not admitted",
        ("unadmitted_deadline_jobs", "unadmitted_deadline_work"),
    ),
    "response": (
        "Response time and slowdown of the other jobs",
        ("response_time_of_others", "slowdown_of_others"),
    ),
}
"""Captions and metrics of the pictures over load, by name."""

VERSUS = "versus_utilization"
"""Name of the picture of such metrics over the utilization achieved."""

Curves = Mapping[str, Mapping[float, Means]]
"""Means by scheduler, then load, then metric."""


def figures_of(runs: StudyRuns) -> list[Figure]:
    """Return the figures of finished runs: curves over the load, or bars at a single load.

    Like Figures 4 to 6 and 43 of Islam et al. (2003); parameters that vary otherwise have figures
    of their own.
    """
    if runs.study.cases:
        return [score_figure(runs)]
    parts: dict[Point, dict[str, dict[float, Means]]] = {}
    for each in summaries(runs):
        if each.runs:
            part = msgspec.structs.replace(each.point, load=1.0)
            by_load = parts.setdefault(part, {}).setdefault(each.scheduler, {})
            by_load[each.point.load] = each.metrics
    varied = [
        name for name in Point.__struct_fields__ if len({_axis_text(p, name) for p in parts}) > 1
    ]

    figures: list[Figure] = []
    used: Counter[str] = Counter()
    for part, curves in parts.items():
        named = "-".join(f"{name}-{_axis_text(part, name)}" for name in varied)
        prefix = re.sub(r"[^\w.-]+", "-", named) + "-" if named else ""
        used[prefix] += 1
        if used[prefix] > 1:  # names that differ only in what a file's name cannot have
            prefix += f"{used[prefix]}-"
        figures += _figures_of_part(part, curves, varied, prefix)
    return figures


def _figures_of_part(
    part: Point, curves: Curves, varied: Sequence[str], prefix: str
) -> Iterator[Figure]:
    """Yield the figures of the runs that differ only in scheduler and load.

    ``varied`` are the parameters that tell them from others, ``prefix`` begins their names.
    """
    others = [f"{name} {_axis_text(part, name)}" for name in varied if name != "log"]
    loads = sorted({load for by_load in curves.values() for load in by_load})
    span = f"load {loads[0]:g}" + (f" to {loads[-1]:g}" if len(loads) > 1 else "")
    title = ", ".join([part.log, *others, span])

    achieved = []
    for name, (caption, metrics) in PICTURES.items():
        of_some_jobs = name in ("unadmitted_deadline", "response")
        panels = tuple(_over_load(curves, metric) for metric in metrics)
        if (of_some_jobs and part.deadline_share == 1) or not all(each.series for each in panels):
            continue
        yield Figure(name=prefix + name, title=f"{caption}: {title}", panels=panels)
        if name != "utilization":
            achieved += [_over_utilization(curves, metric) for metric in metrics]

    caption = f"Versus the utilization achieved: {title}"
    yield Figure(name=prefix + VERSUS, title=caption, panels=tuple(achieved))


def _over_load(curves: Curves, metric: str) -> Panel:
    """Return a metric's curves over the load; at a single load, bars of the schedulers."""
    known = {
        name: [(load, value) for load, means in by_load.items() if (value := means.get(metric))]
        for name, by_load in curves.items()
    }
    known = {name: points for name, points in known.items() if points}
    label = heading_of(metric)
    if max(map(len, curves.values())) == 1:
        bars = line_of_means(metric, ((name, mean) for name, ((_, mean),) in known.items()))
        series = (bars,) if known else ()
        return Panel(title="", x_label="", y_label=label, series=series, kind="bars")

    lines = []
    for name, points in known.items():
        line = line_of_means(name, points)
        if name in LINES:
            dash = "--" if name == BEST_KNOWN else ":"
            line = msgspec.structs.replace(line, low=None, high=None, limit=dash)
        lines.append(line)
    return Panel(title="", x_label="load", y_label=label, series=tuple(lines))


def _over_utilization(curves: Curves, metric: str) -> Panel:
    """Return a metric's curves over the achieved utilization."""
    series = []
    for name, by_load in curves.items():
        points = [
            (used.mean, value.mean)
            for means in by_load.values()
            if (used := means.get("utilization")) and (value := means.get(metric))
        ]
        if points:
            x, y = zip(*points, strict=True)
            series.append(Series(label=name, x=x, y=y))
    return Panel(
        title="", x_label="utilization (%)", y_label=heading_of(metric), series=tuple(series)
    )


def _axis_text(point: Point, name: str) -> str:
    value = getattr(point, name)
    return f"{value:g}" if isinstance(value, float) else str(value)
