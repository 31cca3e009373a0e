"""Pictures of pages and of a study's figures, and its report as files and as one page."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec

from qops_batsim.experiments.page import PageFacts, PagePicture, PageTable, html_page
from qops_batsim.experiments.pool import run_cases
from qops_batsim.experiments.report import Figure, Panel, Series, StudyReport, claim_table
from qops_batsim.file_set import write_report
from qops_batsim.files import write_text
from qops_batsim.measures.plots.drawing import COLORS, MARKERS, picture

PAGE_WIDTH = 5.2
"""Inches of a page's picture, whose letters can be read on a phone then."""

_PAPER_COLOR = "#777777"


def page_picture(
    title: str,
    draw: Callable[[Any], None],
    height: float,
    *,
    data: str = "",
    **legend: Any,
) -> PagePicture:
    """Return a picture of a page (inches) that ``draw`` draws on its axes.

    ``legend`` are matplotlib's options of one above the axes, if there is one; ``data`` is the
    picture's content as CSV.
    """
    with TemporaryDirectory() as directory:
        path = Path(directory) / "picture.svg"
        with picture(path, PAGE_WIDTH, height) as figure:
            draw(figure.subplots())
            figure.set_layout_engine("constrained")
            if legend:
                figure.legend(loc="outside upper left", **legend)
        return PagePicture(title=title, svg=path.read_bytes(), data=data)


def _drawn(figures: Sequence[Figure], ending: str, workers: int) -> list[bytes]:
    """Draw figures in several processes; return their pictures (png, pdf or svg)."""
    pictures = run_cases(partial(_picture, ending=ending), figures, workers=workers)
    return [pictures[figure] for figure in figures]


def _picture(figure: Figure, *, ending: str) -> bytes:
    with TemporaryDirectory() as directory:
        path = Path(directory) / f"figure.{ending}"
        draw_figure(figure, path)
        return path.read_bytes()


def draw_figure(figure: Figure, path: str | Path | None = None) -> Any:
    """Draw a figure, to a file if a path is given; return matplotlib's figure."""
    count = len(figure.panels)
    columns = min(2, count)
    rows = -(-count // columns)
    with picture(path, 5.8 * columns + 0.4, 4.0 * rows + 0.6) as canvas:
        canvas.set_layout_engine("constrained")
        canvas.suptitle(figure.title, fontsize=12)
        places = canvas.subplots(rows, columns, squeeze=False).ravel()
        for axes, panel in zip(places, figure.panels, strict=False):
            _draw(axes, panel)
        for unused in places[count:]:
            unused.set_visible(False)
    return canvas


def _draw(axes: Any, panel: Panel) -> None:
    draw = _bars if panel.kind == "bars" else _lines
    draw(axes, panel)
    axes.set_title(panel.title, fontsize=10)
    axes.set_xlabel(panel.x_label)
    axes.set_ylabel(panel.y_label)
    if len(panel.series) > 1:
        axes.legend()


def _color(series: Series, index: int) -> str:
    """Return the colour of a series: measured ones keep theirs next to the paper's."""
    return _PAPER_COLOR if series.from_paper else COLORS[index % len(COLORS)]


def _lines(axes: Any, panel: Panel) -> None:
    for index, series in enumerate(panel.series):
        if not isinstance(series.limit, msgspec.UnsetType):
            axes.plot(series.x, series.y, series.limit, label=series.label, color="black")
            continue

        color = _color(series, index)
        axes.plot(
            series.x,
            series.y,
            label=series.label,
            marker=MARKERS[index % len(MARKERS)],
            markersize=4.5,
            linestyle="--" if series.from_paper else "-",
            color=color,
        )
        if series.low is not None and series.high is not None:
            axes.fill_between(
                series.x, series.low, series.high, color=color, alpha=0.18, linewidth=0
            )


def _bars(axes: Any, panel: Panel) -> None:
    names = list(dict.fromkeys(str(x) for series in panel.series for x in series.x))
    count = len(panel.series)
    width = 0.8 / count
    for index, series in enumerate(panel.series):
        shift = (index - (count - 1) / 2) * width
        places = [names.index(str(x)) + shift for x in series.x]
        errors = None
        if series.low is not None and series.high is not None:
            errors = [
                [y - low for y, low in zip(series.y, series.low, strict=True)],
                [high - y for y, high in zip(series.y, series.high, strict=True)],
            ]
        color = _color(series, index)
        axes.bar(places, series.y, width, label=series.label, color=color, yerr=errors, capsize=2)

    if count > 1:
        # Room for the legend above the bars.
        axes.margins(y=0.05 + 0.09 * count)
    axes.set_xticks(range(len(names)), names, rotation=30 if len(names) > 5 else 0)


def report_page(report: StudyReport, title: str, command: str, workers: int = 1) -> str:
    """Return a report as an HTML page with a title and the ``command`` that made the report."""
    drawn = _drawn(report.figures, "svg", workers)
    part = "The part that takes few minutes" if report.quick else "The whole study"
    verdicts = ", ".join(f"{count} {name}" for name, count in report.verdicts().items())
    headings, rows = claim_table(report.claims)
    claims = PageTable(
        title="Claims of the paper", headings=headings, rows=rows, note=report.method
    )
    return html_page(
        title,
        report.about or f"{part}, simulated again. Claims: {verdicts or 'none'}.",
        {
            "Verdicts": [claims] if rows else [],
            "Figures": [
                PagePicture(title=figure.title, svg=svg)
                for figure, svg in zip(report.figures, drawn, strict=True)
            ],
            "Tables": report.tables,
            "Choices": [PageFacts(facts=report.choices)],
        },
        command,
    )


def write_files(
    report: StudyReport,
    title: str,
    command: str,
    *,
    out: Path | None = None,
    page: Path | None = None,
    ending: str = "png",
    texts: Mapping[str, str] | None = None,
    workers: int = 1,
) -> list[Path]:
    """Write a report to a directory, a page, or both, as requested; return the files.

    Parameters
    ----------
    report
        The report of a study.
    title, command
        Title of the page, and the command that made it.
    out
        Directory for ``report.json``, the texts and the pictures; None: none.
    page
        HTML file; None: none.
    ending
        Format of the pictures (``png``, ``pdf``, ``svg``); empty: no pictures.
    texts
        Further files of the directory, by name.
    workers
        Number of processes that draw.
    """
    paths: list[Path] = []
    if out is not None:
        drawn = _drawn(report.figures, ending, workers) if ending else []
        contents = {name: text.encode() for name, text in (texts or {}).items()}
        for figure, content in zip(report.figures, drawn, strict=False):
            name = f"figure{figure.name}" if figure.name.isdecimal() else figure.name
            contents[f"{name}.{ending}"] = content
        paths += write_report(out, "report.json", report.document(), contents)
    if page is not None:
        write_text(page, report_page(report, title, command, workers))
        paths.append(page)
    return paths
