"""Specifications of studies, in the file ``study.toml`` of their folder.

They have title and cost, what was chosen where a paper leaves something open, tables and figures,
and of a paper its numbers and its sentences by section. A figure has a title and panels, which have
labels of both axes and series of the values in rows::

    [[figures.waits]]
    x = ["month", "month"]
    y_label = "wait (s)"
    series = [["measured", "wait"], ["paper", "paper_wait", "paper"]]
"""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeVar

import msgspec

from qops_batsim import InputError
from qops_batsim.experiments import (
    Figure,
    Interval,
    PageTable,
    Panel,
    Series,
    TableText,
    line_of_means,
    value_at,
)


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


def series_of(label: str, rows: Sequence[Any], x: str, y: str, ends: str = "") -> Series:
    """Return the series of two values of each row, by keys as in :class:`~.PageTable`.

    Rows without a value are left out. A value may be a mean with its interval; else ``ends`` is the
    key of both ends, if there are any, or ``"paper"`` for values of the paper.
    """
    rows = [row for row in rows if value_at(row, y) is not None]
    xs, ys = (tuple(value_at(row, key) for row in rows) for key in (x, y))
    if any(isinstance(each, Interval) for each in ys):
        return line_of_means(label, zip(xs, ys, strict=True))
    if ends in ("", "paper"):
        return Series(label=label, x=xs, y=ys, from_paper=ends == "paper")
    both = zip(*(value_at(row, ends) for row in rows), strict=True)
    low, high = (None if None in each else each for each in both)
    return Series(label=label, x=xs, y=ys, low=low, high=high)


class PanelText(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A panel in a file: ``x`` are the key of the places and the label of their axis."""

    x: tuple[str, str]
    y_label: str
    series: tuple[SeriesText, ...]
    title: str = ""
    kind: Literal["lines", "bars"] = "lines"

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


class Cost(NamedTuple):
    """Times that a study takes, in words."""

    quick: str
    whole: str


class Specification(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Specification of a study.

    ``title`` is one line, ``cost`` tells how long the ``quick`` part and the ``whole`` study take,
    ``options`` are those of its command that not every study has, and ``kept`` tells how the
    titles of the tables begin that ``--write`` writes. ``choices``, ``tables`` and ``figures`` are
    by name; ``numbers`` are those of a paper, ``claims`` its sentences and ``parts`` what they
    consist of, by the ids of claims. ``studies`` are simulations, by name, and ``readings`` ways to
    read the paper, in the study's own form.
    """

    title: str
    cost: Cost
    options: tuple[Literal["seeds", "bound"], ...] = ()
    kept: tuple[str, ...] = ("",)
    choices: dict[str, str] = {}
    tables: dict[str, TableText] = {}
    figures: dict[str, FigureText] = {}
    numbers: dict[str, Any] = {}
    claims: dict[str, Sentence] = {}
    parts: dict[str, tuple[Change, ...]] = {}
    studies: dict[str, dict[str, Any]] = {}
    readings: Any = ()

    def sentence(self, name: str, /, **names: object) -> Sentence:
        """Return the section and text of a claim, with names filled in."""
        section, text = self.claims[name]
        return Sentence(section, text.format(**names))

    def table(self, name: str, rows: Sequence[Any], /, **names: Any) -> PageTable:
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


def read_specification(folder: str | Path) -> Specification:
    """Read the ``study.toml`` of a folder."""
    return read_toml(Path(folder) / "study.toml", Specification)


KindT = TypeVar("KindT")


def read_toml(path: Path, kind: type[KindT]) -> KindT:
    """Read a TOML file as a type."""
    try:
        return msgspec.convert(tomllib.loads(path.read_text("utf-8")), kind)
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(f"{path}: {error}") from None
