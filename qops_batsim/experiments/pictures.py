"""Pictures of a comparison of schedulers over loads, like Figures 4 to 6 of Islam et al. (2003).

Lines are means over seeds, bands their 95 % intervals.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from qops_batsim.analysis.plots.drawing import COLORS, MARKERS, picture
from qops_batsim.experiments.intervals import Interval

_LABELS = {
    "unadmitted_jobs": "Unadmitted jobs (%)",
    "unadmitted_work": "Unadmitted processor-seconds (%)",
    "unadmitted_deadline_jobs": "Unadmitted deadline jobs (%)",
    "unadmitted_deadline_work": "Unadmitted processor-seconds\nof deadline jobs (%)",
    "utilization": "Utilization (%)",
    "response_time": "Mean response time of jobs\nwithout user deadline (hours)",
    "slowdown": "Mean slowdown of jobs\nwithout user deadline",
}
_SCALE = {"response_time": 1 / 3600}

Metrics = Mapping[str, Interval | None]
Curves = Mapping[str, Mapping[float, Metrics]]
"""Metrics by contestant, then load, then name of the metric."""


def draw_comparison(
    curves: Curves, directory: str | Path, *, ending: str = "png", prefix: str = ""
) -> list[Path]:
    """Draw a comparison's pictures (png, pdf or svg) into a directory, names with a prefix.

    ``unadmitted`` (jobs and processor-seconds) and ``utilization`` versus load;
    where deadline jobs and others are mixed, ``unadmitted_deadline`` for the former and
    ``response`` for the latter; ``versus_utilization``, the same metrics versus the
    utilization achieved.
    """
    pictures = {
        "unadmitted": ["unadmitted_jobs", "unadmitted_work"],
        "utilization": ["utilization"],
    }
    achieved = pictures["unadmitted"]
    all_metrics = [metrics for by_load in curves.values() for metrics in by_load.values()]
    if any(metrics["response_time"] is not None for metrics in all_metrics):
        pictures["unadmitted_deadline"] = ["unadmitted_deadline_jobs", "unadmitted_deadline_work"]
        pictures["response"] = ["response_time", "slowdown"]
        achieved = pictures["unadmitted_deadline"] + pictures["response"]
    pictures["versus_utilization"] = achieved
    paths = []
    for name, metrics in pictures.items():
        path = Path(directory) / f"{prefix}{name}.{ending}"
        _draw(path, curves, metrics, versus_utilization=name == "versus_utilization")
        paths.append(path)
    return paths


@contextmanager
def panels(
    path: str | Path | None, count: int, size: tuple[float, float], margin: tuple[float, float]
) -> Iterator[tuple[Any, Sequence[Any]]]:
    """Give a picture and its panels, two in a row; panels have a size, the picture a margin.

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


def _draw(path: Path, curves: Curves, metrics: Sequence[str], *, versus_utilization: bool) -> None:
    draw = _versus_utilization if versus_utilization else _versus_load
    with panels(path, len(metrics), (5.4, 3.9), (0.0, 0.4)) as (figure, places):
        for axes, metric in zip(places, metrics, strict=True):
            for index, (name, by_load) in enumerate(curves.items()):
                style = {
                    "color": COLORS[index % len(COLORS)],
                    "marker": MARKERS[index % len(MARKERS)],
                    "markersize": 4.5,
                    "label": name,
                }
                draw(axes, by_load, metric, style)
            axes.set_xlabel("Utilization (%)" if versus_utilization else "Load")
            axes.set_ylabel(_LABELS[metric])
            if metric.startswith("unadmitted"):
                # A little room, so that markers at 0 are whole.
                top = max(axes.get_ylim()[1], 1.0)
                axes.set_ylim(-0.03 * top, top)
        handles, labels = places[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside upper left", ncols=min(len(labels), 6))


def _versus_load(
    axes: Any, by_load: Mapping[float, Metrics], metric: str, style: dict[str, Any]
) -> None:
    """Draw a metric's means versus load, with a band where an interval is known."""
    known = {load: value for load, metrics in by_load.items() if (value := metrics[metric])}
    means, low, high = _scaled(list(known.values()), _SCALE.get(metric, 1.0))
    axes.plot(list(known), means, **style)
    draw_band(axes, list(known), low, high, style["color"])


def _versus_utilization(
    axes: Any, by_load: Mapping[float, Metrics], metric: str, style: dict[str, Any]
) -> None:
    """Draw a metric's means versus mean utilization, with bars for both intervals."""
    points = [
        (used, value)
        for metrics in by_load.values()
        if (used := metrics["utilization"]) is not None and (value := metrics[metric]) is not None
    ]
    reached, values = [used for used, _ in points], [value for _, value in points]
    scale = _SCALE.get(metric, 1.0)
    y_bars = error_bars(*_scaled(values, 1.0))
    axes.errorbar(
        [each.mean for each in reached],
        [each.mean * scale for each in values],
        xerr=error_bars(*_scaled(reached, 1.0)),
        yerr=[[length * scale for length in side] for side in y_bars],
        elinewidth=0.8,
        **style,
    )


def _scaled(
    intervals: Sequence[Interval], scale: float
) -> tuple[list[float], list[float], list[float]]:
    """Return means, lower and upper ends."""
    return (
        [each.mean * scale for each in intervals],
        [each.ends[0] * scale for each in intervals],
        [each.ends[1] * scale for each in intervals],
    )
