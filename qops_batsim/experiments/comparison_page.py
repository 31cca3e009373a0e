"""A comparison's report as one page."""

from __future__ import annotations

import csv

from qops_batsim.experiments.compare import METRICS, Comparison, csv_text, heading_of
from qops_batsim.experiments.intervals import Interval
from qops_batsim.experiments.page import PageTable, Section, html_page, made_by, pictures_of


def comparison_page(found: Comparison, command: str) -> str:
    """Return a comparison as HTML; ``command`` made it."""
    headings, *runs = csv.reader(csv_text(found.rows).splitlines())
    grid = found.grid
    return html_page(
        f"{', '.join(grid.names)} compared",
        f"Means over {len(grid.seeds)} seeds with 95 % intervals (Student). Utilization "
        "is from the first submission to the last completion.",
        [
            Section(
                title="Pictures",
                content=pictures_of(lambda directory: found.captioned(directory, ending="svg")),
            ),
            Section(
                title="Means",
                content=[
                    _summaries(found, "Means over seeds", differences=False),
                    _summaries(found, f"Differences from {found.baseline}", differences=True),
                ],
            ),
            Section(
                title="Runs", content=[PageTable(title="All runs", headings=headings, rows=runs)]
            ),
            made_by(command, seeds=", ".join(map(str, grid.seeds))),
        ],
    )


def _summaries(found: Comparison, title: str, *, differences: bool) -> PageTable:
    rows = []
    for each in found.summaries:
        if differences and each.contestant == found.baseline:
            continue
        metrics = each.difference if differences else each.metrics
        cells = [_text(metrics[name]) for name in METRICS]
        rows.append([f"{each.load:g}", each.contestant, *cells])
    names = [heading_of(name) for name in METRICS]
    return PageTable(title=title, headings=["load", "scheduler", *names], rows=rows)


def _text(value: Interval | None) -> str:
    return "" if value is None else value.text()
