"""Pictures of a comparison of schedulers over loads, like Figures 4 to 6 of Islam et al. (2003).

Lines are means over seeds, bands their 95 % bootstrap intervals.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
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

Curves = Mapping[str, Mapping[float, Mapping[str, Interval | None]]]
"""Metrics by contestant, then load, then name of the metric."""


def draw_comparison(curves: Curves, directory: str | Path, *, ending: str = "png") -> list[Path]:
    """Draw a comparison's pictures into a directory.

    ``unadmitted`` (jobs and processor-seconds) and ``utilization`` versus load;
    where deadline jobs and others are mixed, ``unadmitted_deadline`` for the former and
    ``response`` for the latter; ``versus_utilization``, the same metrics versus the
    utilization achieved.

    Parameters
    ----------
    curves
        What to draw.
    directory
        Where to.
    ending
        Format: png, pdf or svg.

    Returns
    -------
    list of Path
        The pictures.

    Raises
    ------
    InputError
        A picture cannot be written.
    """
    unadmitted = ["unadmitted_jobs", "unadmitted_work"]
    mixed = any(
        metrics["response_time"] is not None
        for by_load in curves.values()
        for metrics in by_load.values()
    )
    pictures: dict[str, tuple[list[str], bool]] = {
        "unadmitted": (unadmitted, False),
        "utilization": (["utilization"], False),
    }
    achieved = unadmitted
    if mixed:
        of_users = ["unadmitted_deadline_jobs", "unadmitted_deadline_work"]
        response = ["response_time", "slowdown"]
        pictures["unadmitted_deadline"] = (of_users, False)
        pictures["response"] = (response, False)
        achieved = of_users + response
    pictures["versus_utilization"] = (achieved, True)
    paths = []
    for name, (metrics, versus_utilization) in pictures.items():
        path = Path(directory) / f"{name}.{ending}"
        draw = _versus_utilization if versus_utilization else _versus_load
        _panels(path, curves, metrics, draw)
        paths.append(path)
    return paths


_Draw = Callable[[Any, Mapping[float, Mapping[str, Interval | None]], str, dict[str, Any]], None]


def _panels(path: Path, curves: Curves, metrics: Sequence[str], draw: _Draw) -> None:
    columns = min(2, len(metrics))
    rows = -(-len(metrics) // columns)
    with picture(path, 5.4 * columns, 3.9 * rows + 0.4) as figure:
        figure.set_layout_engine("constrained")
        panels = figure.subplots(rows, columns, squeeze=False).ravel()
        for axes, metric in zip(panels, metrics, strict=True):
            for index, (name, by_load) in enumerate(curves.items()):
                style = {
                    "color": COLORS[index % len(COLORS)],
                    "marker": MARKERS[index % len(MARKERS)],
                    "markersize": 4.5,
                    "label": name,
                }
                draw(axes, by_load, metric, style)
            axes.set_xlabel("Utilization (%)" if draw is _versus_utilization else "Load")
            axes.set_ylabel(_LABELS[metric])
            if metric.startswith("unadmitted"):
                # A little room, so that markers at 0 are whole.
                top = max(axes.get_ylim()[1], 1.0)
                axes.set_ylim(-0.03 * top, top)
        handles, labels = panels[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside upper left", ncols=min(len(labels), 6))


def _versus_load(
    axes: Any,
    by_load: Mapping[float, Mapping[str, Interval | None]],
    metric: str,
    style: dict[str, Any],
) -> None:
    """Draw a metric's means versus load, with a band where an interval is known."""
    scale = _SCALE.get(metric, 1.0)
    loads, means, lows, highs = [], [], [], []
    for load, metrics in by_load.items():
        value = metrics[metric]
        if value is not None:
            loads.append(load)
            means.append(value.mean * scale)
            lows.append((value.mean if value.low is None else value.low) * scale)
            highs.append((value.mean if value.high is None else value.high) * scale)
    axes.plot(loads, means, **style)
    axes.fill_between(loads, lows, highs, color=style["color"], alpha=0.18, linewidth=0)


def _versus_utilization(
    axes: Any,
    by_load: Mapping[float, Mapping[str, Interval | None]],
    metric: str,
    style: dict[str, Any],
) -> None:
    """Draw a metric's means versus mean utilization, with bars for both intervals."""
    scale = _SCALE.get(metric, 1.0)
    points = [
        (used, value)
        for metrics in by_load.values()
        if (used := metrics["utilization"]) is not None and (value := metrics[metric]) is not None
    ]
    axes.errorbar(
        [used.mean for used, _ in points],
        [value.mean * scale for _, value in points],
        xerr=_bars([used for used, _ in points], 1.0),
        yerr=_bars([value for _, value in points], scale),
        elinewidth=0.8,
        **style,
    )


def _bars(values: Sequence[Interval], scale: float) -> list[list[float]]:
    """Return lengths of the error bars below and above each mean."""
    # A percentile interval need not hold the mean, a bar cannot be negative.
    below = [0.0 if v.low is None else max(0.0, v.mean - v.low) * scale for v in values]
    above = [0.0 if v.high is None else max(0.0, v.high - v.mean) * scale for v in values]
    return [below, above]
