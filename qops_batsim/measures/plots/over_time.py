"""Utilization and queue length over time, for one or several runs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

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
from qops_batsim.measures.results.run_result import RunResult, workloads_with_deadlines
from qops_batsim.measures.results.series import StepSeries, busy_hosts, queue_length
from qops_batsim.texts import round_duration_text

_LINES = ("-", "--", ":", "-.")

_MOST_EVENTS = 500
"""Most changes that are drawn one by one; more are averaged over intervals."""

_MOST_INTERVALS = 300
_LEGEND_WIDTH = 160
"""Characters of legend text that fit in a row."""


def draw(results: Sequence[RunResult], path: str | Path) -> None:
    """Draw utilization and queue length of one or more runs over time to a file (png, pdf or svg).

    Long runs show means over equal intervals, whose length the axis tells; short
    ones show every change.
    """
    windows = [part_to_show(result) for result in results]
    first = min(w[0] for w in windows)
    last = max(w[1] for w in windows)
    shared = [_requests(result) for result in results]
    series = [
        (busy_hosts(result) if requests is None else requests.busy, queue_length(result))
        for result, requests in zip(results, shared, strict=True)
    ]
    events = max(len(s.dates) for pair in series for s in pair)
    interval = None if events <= _MOST_EVENTS else _interval(last - first)

    columns = max(1, min(4, _LEGEND_WIDTH // (max(len(r.name) for r in results) + 22)))
    legend_rows = math.ceil(len(results) / columns)
    averaged = "" if interval is None else f", mean of {round_duration_text(interval)}"
    with picture(path, 12.0, 6.6 + 0.36 * legend_rows) as figure:
        figure.set_layout_engine("constrained", h_pad=0.12, w_pad=0.12)
        top, bottom = figure.subplots(2, 1, sharex=True)
        for index, (result, (begin, end)) in enumerate(zip(results, windows, strict=True)):
            busy, queue = series[index]
            style = {
                "color": COLORS[index % len(COLORS)],
                "linestyle": _LINES[index // len(COLORS) % len(_LINES)],
                # Later lines are thinner, so that equal curves stay visible.
                "linewidth": 1.2 + 0.8 * min(len(results) - 1 - index, 3),
            }

            for axes, values, factor, unit in (
                (top, busy, 100 / result.hosts, " %"),
                (bottom, queue, 1.0, ""),
            ):
                edges, heights = _stairs(values, begin, end, first, interval)
                mean = values.integral(begin, end) / (end - begin) * factor
                label = f"{result.name} (mean {mean:,.1f}{unit})"
                axes.stairs(heights * factor, edges, baseline=None, label=label, **style)
                if len(results) == 1:
                    color = style["color"]
                    axes.stairs(heights * factor, edges, fill=True, color=color, alpha=0.2)

        used = "Busy hosts" if shared.count(None) == len(shared) else "Dominant shares"
        top.set_ylabel(f"{used} (%){averaged}")
        bottom.set_ylabel(f"Waiting jobs{averaged}")
        top.set_ylim(0, 103 if used == "Busy hosts" else max(103, top.get_ylim()[1]))
        bottom.set_ylim(0, max(1.0, bottom.get_ylim()[1]))
        bottom.yaxis.set_major_locator(MaxNLocator(nbins=8, integer=True))
        set_time_axis(bottom, first, last, _calendar(results))
        for axes, title in ((top, "Utilization"), (bottom, "Queue length")):
            axes.set_title(title + _workload(results), pad=8 + 15 * legend_rows)
            legend_above(axes, columns)


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
    begin, end = part_to_show(result, begin, end)
    kinds = requests.machine.kinds
    series = [(requests.used(place), requests.waiting(place)) for place in range(len(kinds))]
    events = max(
        int(((each.dates > begin) & (each.dates < end)).sum()) for pair in series for each in pair
    )
    interval = None if events <= _MOST_EVENTS else _interval(end - begin)
    averaged = "" if interval is None else f", mean of {round_duration_text(interval)}"

    with picture(path, 12.0, 7.0) as figure:
        figure.set_layout_engine("constrained", h_pad=0.12, w_pad=0.12)
        top, bottom = figure.subplots(2, 1, sharex=True)
        for place, kind in enumerate(kinds):
            style = {
                "color": COLORS[place % len(COLORS)],
                "linestyle": _LINES[place // len(COLORS) % len(_LINES)],
                "linewidth": 1.2 + 0.8 * min(len(kinds) - 1 - place, 3),
            }
            factor = 100 / float(requests.totals[place])
            for axes, values in zip((top, bottom), series[place], strict=True):
                edges, heights = _stairs(values, begin, end, begin, interval)
                mean = values.integral(begin, end) / (end - begin) * factor
                label = f"{kind} (mean {mean:,.1f} %)"
                axes.stairs(heights * factor, edges, baseline=None, label=label, **style)

        top.set_ylabel(f"Used (%){averaged}")
        bottom.set_ylabel(f"Waited for (%){averaged}")
        top.set_ylim(0, 103)
        bottom.set_ylim(0, max(1.0, bottom.get_ylim()[1]))
        set_time_axis(bottom, begin, end, result.calendar)
        titles = "Use by kind", "What waiting jobs ask for, of what the machine has"
        for axes, title in zip((top, bottom), titles, strict=True):
            columns = min(5, len(kinds))
            axes.set_title(f"{title}: {result.name}", pad=8 + 15 * -(-len(kinds) // columns))
            legend_above(axes, columns)


def _requests(result: RunResult) -> RequestsOfRun | None:
    known = {} if result.machine is None else workloads_with_deadlines(result)[0]
    return requests_of_run(result, known)


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
