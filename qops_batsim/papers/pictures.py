"""Drawing the figures of a reproduction."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from qops_batsim.analysis.plots.drawing import COLORS, MARKERS, picture
from qops_batsim.papers.report import Figure, Panel, Series

_PAPER_COLOR = "#777777"


def draw_figures(
    figures: Sequence[Figure], directory: str | Path, *, ending: str = "png"
) -> list[Path]:
    """Draw figures into an existing directory, one file each.

    Parameters
    ----------
    figures
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
    paths = []
    for figure in figures:
        path = Path(directory) / f"{figure.name}.{ending}"
        _draw(figure, path)
        paths.append(path)
    return paths


def _draw(figure: Figure, path: Path) -> None:
    columns = min(2, len(figure.panels))
    rows = -(-len(figure.panels) // columns)
    with picture(path, 5.8 * columns + 0.4, 4.0 * rows + 0.6) as canvas:
        canvas.set_layout_engine("constrained")
        canvas.suptitle(figure.title, fontsize=12)
        axes = canvas.subplots(rows, columns, squeeze=False).ravel()
        for place, panel in zip(axes, figure.panels, strict=False):
            (_bars if panel.kind == "bars" else _lines)(place, panel)
            place.set_title(panel.title, fontsize=10)
            place.set_xlabel(panel.x_label)
            place.set_ylabel(panel.y_label)
            if len(panel.series) > 1:
                place.legend()
        for unused in axes[len(figure.panels) :]:
            unused.set_visible(False)


def _style(series: Series, index: int) -> dict[str, Any]:
    """Return how a series is drawn; measured ones keep their colour beside the paper's."""
    if series.from_paper:
        return {"color": _PAPER_COLOR, "linestyle": "--", "marker": MARKERS[index % len(MARKERS)]}
    return {"color": COLORS[index % len(COLORS)], "marker": MARKERS[index % len(MARKERS)]}


def _lines(axes: Any, panel: Panel) -> None:
    for index, series in enumerate(panel.series):
        style = _style(series, index)
        axes.plot(series.x, series.y, label=series.label, markersize=4.5, **style)
        if series.low is not None and series.high is not None:
            axes.fill_between(
                series.x, series.low, series.high, color=style["color"], alpha=0.18, linewidth=0
            )


def _bars(axes: Any, panel: Panel) -> None:
    names = list(dict.fromkeys(str(x) for series in panel.series for x in series.x))
    width = 0.8 / len(panel.series)
    for index, series in enumerate(panel.series):
        places = [
            names.index(str(x)) + (index - (len(panel.series) - 1) / 2) * width for x in series.x
        ]
        bars = None
        if series.low is not None and series.high is not None:
            # A percentile interval need not hold the mean, a bar cannot be negative.
            bars = [
                [max(0.0, y - low) for y, low in zip(series.y, series.low, strict=True)],
                [max(0.0, high - y) for y, high in zip(series.y, series.high, strict=True)],
            ]
        color = _PAPER_COLOR if series.from_paper else COLORS[index % len(COLORS)]
        axes.bar(places, series.y, width, label=series.label, color=color, yerr=bars, capsize=2)
    axes.set_xticks(range(len(names)), names, rotation=30 if len(names) > 5 else 0)
