"""Pictures of a comparison of schedulers over loads, like Figures 4 to 6 of Islam et al. (2003).

Lines are means over seeds, bars their 95 % intervals.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any

from qops_batsim.analysis.plots.drawing import COLORS, MARKERS, picture
from qops_batsim.experiments.statistics import Interval, Means

_LABELS = {
    "met_deadlines": "Deadlines met (%)",
    "missed_deadlines": "Deadlines missed (%)",
    "unadmitted_jobs": "Unadmitted jobs (%)",
    "unadmitted_work": "Unadmitted processor-seconds (%)",
    "unadmitted_deadline_jobs": "Unadmitted deadline jobs (%)",
    "unadmitted_deadline_work": "Unadmitted processor-seconds\nof deadline jobs (%)",
    "utilization": "Utilization (%)",
    "response_time": "Mean response time of jobs\nwithout user deadline (hours)",
    "slowdown": "Mean slowdown of jobs\nwithout user deadline",
}
_SCALE = {"response_time": 1 / 3600}

Curves = Mapping[str, Mapping[float, Means]]
"""Means by contestant, then load, then name of the metric."""

LimitCurves = Mapping[str, Mapping[str, Mapping[float, float]]]
"""Values by name of the line, then name of the metric, then load."""

_CAPTIONS = {
    "deadlines": "Deadlines met and missed",
    "unadmitted": "Jobs and work that were not admitted",
    "utilization": "Utilization",
    "unadmitted_deadline": "Deadline jobs, and their work, that were not admitted",
    "response": "Response time and slowdown of the other jobs",
    "versus_utilization": "Versus the utilization achieved",
}


def draw_comparison(
    curves: Curves,
    directory: str | Path,
    *,
    ending: str = "png",
    prefix: str = "",
    title: str = "",
    limits: LimitCurves = MappingProxyType({}),
) -> dict[Path, str]:
    """Draw a comparison's pictures (png, pdf or svg) into a directory, names with a prefix.

    Returns the files, each with a caption.

    Versus load: ``deadlines`` (met and missed), ``unadmitted`` (jobs and processor-seconds) and
    ``utilization``; where deadline jobs and others are mixed, ``unadmitted_deadline`` for the
    former and ``response`` for the latter. ``versus_utilization`` are such metrics versus the
    utilization achieved. The title names what was compared; ``limits`` are black lines.
    """
    pictures = {
        "deadlines": ["met_deadlines", "missed_deadlines"],
        "unadmitted": ["unadmitted_jobs", "unadmitted_work"],
        "utilization": ["utilization"],
    }
    achieved = pictures["deadlines"] + pictures["unadmitted"]
    all_metrics = [metrics for by_load in curves.values() for metrics in by_load.values()]
    if all(metrics["met_deadlines"] is None for metrics in all_metrics):
        del pictures["deadlines"]
        achieved = pictures["unadmitted"]
    if any(metrics["response_time"] is not None for metrics in all_metrics):
        pictures["unadmitted_deadline"] = ["unadmitted_deadline_jobs", "unadmitted_deadline_work"]
        pictures["response"] = ["response_time", "slowdown"]
        achieved = pictures["unadmitted_deadline"] + pictures["response"]
    pictures["versus_utilization"] = achieved
    loads = sorted({load for by_load in curves.values() for load in by_load})
    span = f"load {loads[0]:g}" + (f" to {loads[-1]:g}" if len(loads) > 1 else "")
    title = f"{title}, {span}" if title else span
    captions = {}
    for name, metrics in pictures.items():
        path = Path(directory) / f"{prefix}{name}.{ending}"
        is_versus = name == "versus_utilization"
        shown = {} if is_versus else limits
        _draw(path, curves, metrics, title, shown, versus_utilization=is_versus)
        captions[path] = f"{_CAPTIONS[name]}: {title}"
    return captions


@contextmanager
def panels(
    path: str | Path | None, count: int, size: tuple[float, float], margin: tuple[float, float]
) -> Iterator[tuple[Any, Sequence[Any]]]:
    """Yield a picture and its panels, two in a row; panels have a size, the picture a margin.

    Sizes are in inches; a panel that is left over is not shown.
    """
    columns = min(2, count)
    rows = -(-count // columns)
    width, height = size[0] * columns + margin[0], size[1] * rows + margin[1]
    with picture(path, width, height) as canvas:
        canvas.set_layout_engine("constrained")
        axes = canvas.subplots(rows, columns, squeeze=False).ravel()
        yield canvas, list(axes[:count])
        for unused in axes[count:]:
            unused.set_visible(False)


def draw_band(
    axes: Any, x: Sequence[Any], low: Sequence[float], high: Sequence[float], color: str
) -> None:
    """Draw the intervals of a line."""
    axes.fill_between(x, low, high, color=color, alpha=0.18, linewidth=0)


def error_bars(
    means: Sequence[float], low: Sequence[float], high: Sequence[float]
) -> list[list[float]]:
    """Return lengths of the error bars below and above each mean."""
    return [
        [mean - end for mean, end in zip(means, low, strict=True)],
        [end - mean for mean, end in zip(means, high, strict=True)],
    ]


_DASHES = ("-", (0, (6, 2)), (0, (2, 1.5)), (0, (6, 2, 1.5, 2)), (0, (4, 1.5, 1.5, 1.5, 1.5, 1.5)))


def _draw(
    path: Path,
    curves: Curves,
    metrics: Sequence[str],
    title: str,
    limits: LimitCurves,
    *,
    versus_utilization: bool,
) -> None:
    with panels(path, len(metrics), (5.9, 3.9), (0.0, 0.5)) as (figure, places):
        figure.suptitle(title, x=0.01, ha="left", fontsize=11)
        for axes, metric in zip(places, metrics, strict=True):
            lines = {name: each[metric] for name, each in limits.items() if metric in each}
            _panel(axes, curves, metric, lines, versus_utilization=versus_utilization)
        if versus_utilization:
            handles, labels = places[0].get_legend_handles_labels()
            figure.legend(handles, labels, loc="outside lower left", ncols=min(len(labels), 6))


def _panel(
    axes: Any,
    curves: Curves,
    metric: str,
    limits: Mapping[str, Mapping[float, float]],
    *,
    versus_utilization: bool,
) -> None:
    """Draw all curves of a metric, each with a marker, a dash pattern and a width of its own."""
    loads = sorted({load for by_load in curves.values() for load in by_load})
    step = (loads[-1] - loads[0] or 1.0) * min(0.012, 0.06 / len(curves))
    ends = {}
    for index, (name, by_load) in enumerate(curves.items()):
        later = len(curves) - 1 - index
        style: dict[str, Any] = {
            "color": COLORS[index % len(COLORS)],
            "marker": MARKERS[index % len(MARKERS)],
            "linestyle": _DASHES[index % len(_DASHES)],
            # What is drawn later is thinner and smaller, so that equal curves stay visible.
            "linewidth": 1.2 + 0.35 * min(later, 4),
            "markersize": 4.0 + 0.9 * min(later, 4),
            "elinewidth": 0.9,
            "capsize": 2,
            "label": name,
        }
        if versus_utilization:
            _versus_utilization(axes, by_load, metric, style)
        else:
            shift = (index - (len(curves) - 1) / 2) * step
            end = _versus_load(axes, by_load, metric, style, shift)
            if end is not None:
                ends[name] = (end, style["color"])
    for (name, line), dashes in zip(limits.items(), ("--", ":"), strict=False):
        axes.plot(list(line), list(line.values()), dashes, color="black", linewidth=1.2)
        ends[name] = (list(line.items())[-1], "black")
    axes.set_xlabel("Utilization (%)" if versus_utilization else "Load")
    axes.set_ylabel(_LABELS[metric])
    _set_height(axes, curves, metric)
    if len(loads) == 1 and not versus_utilization:
        places = [x for (x, _), _ in ends.values()]
        axes.set_xticks(places, list(ends), rotation=30, ha="right", rotation_mode="anchor")
        axes.set_xlabel(f"Scheduler, at load {loads[0]:g}")
    elif not versus_utilization:
        axes.set_xticks(loads if len(loads) <= 8 else loads[:: -(-len(loads) // 8)])
        _label_ends(axes, ends)


def _set_height(axes: Any, curves: Curves, metric: str) -> None:
    """Let the curves fill a third of the panel or more; keep room below what is 0.

    Intervals are shown whole unless they are much wider than all curves together, or exceed 100 %.
    """
    values = [
        value
        for by_load in curves.values()
        for metrics in by_load.values()
        if (value := metrics[metric]) is not None
    ]
    if not values:
        return
    means, lows, highs = _scaled(values, _SCALE.get(metric, 1.0))
    low, high = min(means), max(means)
    span = high - low or math.inf
    low, high = max(min(lows), low - span), min(max(highs), high + span)
    if _LABELS[metric].endswith("(%)"):
        high = min(high, max(100.0, *means))
    if metric != "utilization" or low < 0.25 * high:
        low = 0.0
    room = 0.12 * (high - low) or 0.12 * (abs(high) or 1.0)
    axes.set_ylim(low - room, high + 1.5 * room)


def _label_ends(axes: Any, ends: Mapping[str, tuple[tuple[float, float], str]]) -> None:
    """Write the name of each curve at its right end, moved apart where they would overlap."""
    if not ends:
        return
    low, high = axes.get_ylim()
    line = (high - low) * 0.055
    right = axes.get_xlim()[1]
    place = low - line
    ordered = sorted(ends.items(), key=lambda each: each[1][0][1])
    # From below upwards, and no higher than leaves room for those above.
    for rank, (name, ((x, y), color)) in enumerate(ordered):
        highest = high - line * (len(ordered) - 1 - rank) - line / 2
        place = min(max(y, place + line), highest)
        axes.annotate(
            name, (x, y), xytext=(right, place), color=color, va="center", size=9,
            annotation_clip=False, textcoords="data",
            arrowprops={"arrowstyle": "-", "color": color, "linewidth": 0.6, "alpha": 0.7,
                        "relpos": (0, 0.5)},
        )  # fmt: skip


def _versus_load(
    axes: Any,
    by_load: Mapping[float, Means],
    metric: str,
    style: dict[str, Any],
    shift: float,
) -> tuple[float, float] | None:
    """Draw a metric's means versus load, with their intervals; return the right end.

    The loads are shifted a little, so that no curve hides another.
    """
    known = {load: value for load, metrics in by_load.items() if (value := metrics[metric])}
    if not known:
        return None
    scale = _SCALE.get(metric, 1.0)
    means, low, high = _scaled(list(known.values()), scale)
    places = [load + shift for load in known]
    axes.errorbar(places, means, yerr=error_bars(means, low, high), **style)
    return places[-1], means[-1]


def _versus_utilization(
    axes: Any, by_load: Mapping[float, Means], metric: str, style: dict[str, Any]
) -> None:
    """Draw a metric's means versus mean utilization, with bars for both intervals."""
    points = [
        (used, value)
        for metrics in by_load.values()
        if (used := metrics["utilization"]) is not None and (value := metrics[metric]) is not None
    ]
    reached, values = [used for used, _ in points], [value for _, value in points]
    across, up = _scaled(reached, 1.0), _scaled(values, _SCALE.get(metric, 1.0))
    axes.errorbar(across[0], up[0], xerr=error_bars(*across), yerr=error_bars(*up), **style)


def _scaled(
    intervals: Sequence[Interval], scale: float
) -> tuple[list[float], list[float], list[float]]:
    """Return means, lower and upper ends."""
    return (
        [each.mean * scale for each in intervals],
        [each.ends[0] * scale for each in intervals],
        [each.ends[1] * scale for each in intervals],
    )
