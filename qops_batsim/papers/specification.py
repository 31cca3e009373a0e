"""Specifications of papers: what a paper says, in the file ``paper.toml`` of its folder.

That are the numbers of the paper, its sentences by section, what was chosen where it leaves
something open, and the tables and figures in which its numbers stand beside measured ones. A figure
has a title and panels, which have labels of both axes and series of the values in rows::

    [[figures.waits]]
    x = ["month", "month"]
    y_label = "wait (s)"
    series = [["measured", "wait"], ["paper", "paper_wait", "paper"]]
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import msgspec

from qops_batsim.experiments.report_table import ReportTable, TableText
from qops_batsim.papers.report import Figure, Panel, PanelKind, series_of
from qops_batsim.shipped import packaged_data


class Sentence(NamedTuple):
    """A sentence of a paper, in our words, with its section."""

    section: str
    text: str


class Change(NamedTuple):
    """A part of a claim: a change between cases that share their workloads.

    Told are the end of its id, the cases, a number of each, the sign (0: none), and its text.
    """

    id: str
    cases: str
    metric: str
    sign: Literal[-1, 0, 1]
    text: str


class SeriesText(NamedTuple):
    """A line, or bars: its label, the key of its values, and that of the ends of their intervals.

    These are ``"paper"`` where the paper tells the values.
    """

    label: str
    y: str
    ends: str = ""


class PanelText(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A panel in a file: ``x`` are the key of the places and the label of their axis."""

    x: tuple[str, str]
    y_label: str
    series: tuple[SeriesText, ...]
    title: str = ""
    kind: PanelKind = "lines"

    def panel(self, rows: Sequence[Any], part: str = "") -> Panel:
        """Return the panel of some rows, or of a part of them; series without values have no line.

        The title names the part.
        """
        key, label = self.x
        series = (series_of(each.label, rows, key, each.y, each.ends) for each in self.series)
        return Panel(
            title=self.title.format(part=part),
            x_label=label,
            y_label=self.y_label,
            kind=self.kind,
            series=tuple(each for each in series if each.x),
        )


class FigureText(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A figure in a file."""

    title: str
    panels: tuple[PanelText, ...]


class Specification(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Choices, tables, figures; numbers of a paper, its sentences by the ids of claims, parts."""

    choices: dict[str, str]
    tables: dict[str, TableText]
    figures: dict[str, FigureText] = {}
    numbers: dict[str, Any] = {}
    claims: dict[str, Sentence] = {}
    parts: dict[str, tuple[Change, ...]] = {}

    def sentence(self, name: str, /, **names: object) -> Sentence:
        """Return the section and text of a claim, with names filled in."""
        section, text = self.claims[name]
        return Sentence(section, text.format(**names))

    def table(self, name: str, rows: Sequence[Any], /, **names: Any) -> ReportTable:
        """Return a table of some rows: see :meth:`TableText.table`."""
        return self.tables[name].table(rows, **names)

    def figure(self, name: str, *rows: Sequence[Any], parts: Sequence[str] = ("",)) -> Figure:
        """Return a figure of some rows; with several, each are those of a part, which is named."""
        told = self.figures[name]
        found = (
            panel.panel(own, part)
            for part, own in zip(parts, rows, strict=True)
            for panel in told.panels
        )
        return Figure(name=name, title=told.title, panels=tuple(found))

    def told_choices(self, **names: object) -> dict[str, str]:
        """Return the choices in words, with names filled in."""
        return {topic: choice.format(**names) for topic, choice in self.choices.items()}


def specification(paper: str) -> Specification:
    """Return the specification of a paper."""
    return packaged_data(f"qops_batsim.papers.{paper}", "paper.toml", Specification)
