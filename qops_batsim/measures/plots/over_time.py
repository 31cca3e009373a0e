"""Utilization and queue length over time, for one or several runs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from matplotlib.ticker import MaxNLocator

from qops_batsim.dates import Calendar
from qops_batsim.measures.plots.drawing import (
    COLORS,
    READABLE_DURATIONS,
    legend_above,
    picture,
    set_time_axis,
)
from qops_batsim.measures.plots.part import part_to_show
from qops_batsim.measures.results.host_amounts import RequestsOfRun, requests_of_run
from qops_batsim.measures.results.result_tables import Floats
from qops_batsim.measures.results.run_result import RunResult
from qops_batsim.measures.results.series import StepSeries, busy_hosts, queue_length
from qops_batsim.texts import round_duration_text

_LINES = ("-", "--", ":", "-.")

_MOST_EVENTS = 500
"""Most changes that are drawn one by one; more are averaged over intervals."""

_MOST_INTERVALS = 300
_LEGEND_WIDTH = 160
"""Characters of legend text that fit in a row."""


class _Curve(NamedTuple):
    """Values over time, and by what factor and in which unit they are drawn."""

    values: StepSeries
    factor: float
    unit: str = " %"


class _CurvePair(NamedTuple):
    """A line in the upper and the lower axes, over a part of time (seconds)."""

    name: str
    begin: float
    end: float
    curves: tuple[_Curve, _Curve]


def draw(results: Sequence[RunResult], path: str | Path) -> None:
    """Draw utilization and queue length of one or more runs over time to a file (png, pdf or svg).

    Long runs show means over equal intervals, whose length the axis tells; short
    ones show every change.
    """
    shared = [requests_of_run(result) for result in results]
    lines = []
    for result, requests in zip(results, shared, strict=True):
        busy = busy_hosts(result) if requests is None else requests.busy
        curves = _Curve(busy, 100 / result.hosts), _Curve(queue_length(result), 1.0, "")
        lines.append(_CurvePair(result.name, *part_to_show(result), curves))

    columns = max(1, min(4, _LEGEND_WIDTH // (max(len(r.name) for r in results) + 22)))
    of_hosts = shared.count(None) == len(shared)
    labels = "Busy hosts (%)" if of_hosts else "Dominant shares (%)", "Waiting jobs"
    titles = [title + _workload(results) for title in ("Utilization", "Queue length")]
    _draw_lines(lines, path, labels, titles, columns, _calendar(results), is_bounded=of_hosts)


def draw_kinds(
    result: RunResult,
    requests: RequestsOfRun,
    path: str | Path,
    *,
    begin: float | None = None,
    end: float | None = None,
) -> None:
    """Draw how much of each kind jobs use and wait for over time, in % of what the machine has, to
    a file (png, pdf or svg).

    The part from ``begin`` to ``end`` is shown (seconds from date 0; by default first submission
    and last completion). Of a long part, means over equal intervals.
    """
    part = part_to_show(result, begin, end)
    lines = []
    for place, kind in enumerate(requests.machine.kinds):
        factor = 100 / float(requests.totals[place])
        curves = _Curve(requests.used(place), factor), _Curve(requests.waiting(place), factor)
        lines.append(_CurvePair(kind, *part, curves))

    titles = [
        f"{title}: {result.name}"
        for title in ("Use by kind", "What waiting jobs ask for, of what the machine has")
    ]
    labels = "Used (%)", "Waited for (%)"
    _draw_lines(lines, path, labels, titles, min(5, len(lines)), result.calendar, is_bounded=True)


def _draw_lines(
    lines: Sequence[_CurvePair],
    path: str | Path,
    labels: Sequence[str],
    titles: Sequence[str],
    columns: int,
    calendar: Calendar | None,
    *,
    is_bounded: bool,
) -> None:
    """Draw lines in two axes, one above the other, with their labels and titles and legends in so
    many columns; ``is_bounded`` tells whether the upper values are 100 % at most.
    """
    first = min(line.begin for line in lines)
    last = max(line.end for line in lines)
    interval = None if _most_events(lines) <= _MOST_EVENTS else _interval(last - first)
    averaged = "" if interval is None else f", mean of {round_duration_text(interval)}"
    legend_rows = math.ceil(len(lines) / columns)

    with picture(path, 12.0, 6.6 + 0.36 * legend_rows) as figure:
        figure.set_layout_engine("constrained", h_pad=0.12, w_pad=0.12)
        both = top, bottom = figure.subplots(2, 1, sharex=True)
        for index, (name, begin, end, curves) in enumerate(lines):
            style = {
                "color": COLORS[index % len(COLORS)],
                "linestyle": _LINES[index // len(COLORS) % len(_LINES)],
                # Later lines are thinner, so that equal curves stay visible.
                "linewidth": 1.2 + 0.8 * min(len(lines) - 1 - index, 3),
            }

            for axes, (values, factor, unit) in zip(both, curves, strict=True):
                edges, heights = _stairs(values, begin, end, first, interval)
                mean = values.integral(begin, end) / (end - begin) * factor
                label = f"{name} (mean {mean:,.1f}{unit})"
                axes.stairs(heights * factor, edges, baseline=None, label=label, **style)
                if len(lines) == 1:
                    color = style["color"]
                    axes.stairs(heights * factor, edges, fill=True, color=color, alpha=0.2)

        top.set_ylim(0, 103 if is_bounded else max(103, top.get_ylim()[1]))
        bottom.set_ylim(0, max(1.0, bottom.get_ylim()[1]))
        if not lines[0].curves[1].unit:  # A number of jobs.
            bottom.yaxis.set_major_locator(MaxNLocator(nbins=8, integer=True))
        set_time_axis(bottom, first, last, calendar)
        for axes, label, title in zip(both, labels, titles, strict=True):
            axes.set_ylabel(label + averaged)
            axes.set_title(title, pad=8 + 15 * legend_rows)
            legend_above(axes, columns)


def _most_events(lines: Sequence[_CurvePair]) -> int:
    """Return how often a curve changes within its part, at most."""
    return max(
        int(((each.values.dates > line.begin) & (each.values.dates < line.end)).sum())
        for line in lines
        for each in line.curves
    )


def _workload(results: Sequence[RunResult]) -> str:
    """Return ", " and the workload's name if all runs share it, else ""."""
    names = {str(each.info.workload) if each.info else "" for each in results}
    name = Path(names.pop()).name.removesuffix(".json") if len(names) == 1 else ""
    return f", {name}" if name else ""


def _calendar(results: Sequence[RunResult]) -> Calendar | None:
    """Return the calendar if all runs share one, else None."""
    first, *others = [result.calendar for result in results]
    return first if all(each == first for each in others) else None


def _interval(span: float) -> float:
    """Return the shortest readable interval (seconds) that divides ``span`` into at most
    :data:`_MOST_INTERVALS` parts.
    """
    return next((d for d in READABLE_DURATIONS if span / d <= _MOST_INTERVALS), span / 100)


def _stairs(
    values: StepSeries, begin: float, end: float, origin: float, interval: float | None
) -> tuple[Floats, Floats]:
    """Return the edges and heights of the steps to draw between two dates; with an ``interval``
    (seconds), each step is a mean over that long.

    Intervals count from ``origin``, so those of several runs coincide.
    """
    if interval is None:
        inside = values.dates[(values.dates > begin) & (values.dates < end)]
        edges = np.concatenate([[begin], inside, [end]])
        return edges, values.at(edges[:-1])
    first = math.floor((begin - origin) / interval) + 1
    last = math.ceil((end - origin) / interval)
    edges = np.concatenate([[begin], origin + interval * np.arange(first, last), [end]])
    return edges, values.means(edges)
