"""Tables of reports: declared as data, rendered as text, Markdown, or blocks of a page.

A report's texts lie in a TOML file beside the modules that compute its numbers. A table has a
title, columns and perhaps a note there, with ``{names}`` for what is not known before::

    [tables.loads]
    title = "Load"
    columns = [["load", "load", "{:g}"], ["scheduler"], ["wait", "wait (h)", "interval/3600"]]
    note = "Means over {count} windows."

A column is the key of its values in a row, its heading (the key, if none is told), and the form of
its cells: see :func:`cell_text`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import msgspec

from qops_batsim.experiments.page import PageTable, without_empty_columns

Form = str | Callable[[Any], str]
"""Form of cells, as of :func:`cell_text`, or a function."""


class ReportColumn(NamedTuple):
    """A column whose cells have a form of their own."""

    heading: str
    form: Form


@dataclass(frozen=True)
class ReportTable:
    """A table; its rows are the report's data.

    Columns are headings, or a :class:`ReportColumn`, by the key of the value in a row;
    ``"paper.wait"`` is the key ``wait`` in the value of ``paper``. A row is a mapping or a
    structure, and a value that is missing or None is a dash.
    """

    title: str
    columns: Mapping[str, str | ReportColumn]
    rows: Sequence[Any]
    note: str = ""

    def headings(self) -> list[str]:
        """Return the headings of the columns that have a value."""
        return self._cells[0]

    def text_rows(self) -> list[list[str]]:
        """Return the cells as text: numbers in a readable precision unless a column says how."""
        return self._cells[1]

    @cached_property
    def _cells(self) -> tuple[list[str], list[list[str]]]:
        columns = self.columns.values()
        rows = [
            [
                cell_text(value_at(row, key), "" if isinstance(column, str) else column.form)
                for key, column in self.columns.items()
            ]
            for row in self.rows
        ]
        headings = [each if isinstance(each, str) else each.heading for each in columns]
        return without_empty_columns(headings, rows)

    def markdown(self) -> list[str]:
        """Return the lines of the table below its title and note."""
        return [
            f"### {self.title}",
            "",
            *([self.note, ""] if self.note else []),
            *markdown_table(self.headings(), self.text_rows()),
        ]

    def block(self) -> PageTable:
        """Return the table as a block of a page."""
        return PageTable(
            title=self.title, headings=self.headings(), rows=self.text_rows(), note=self.note
        )


def text_table(
    title: str, headings: Sequence[str], rows: Sequence[Sequence[str]], note: str = ""
) -> ReportTable:
    """Return a table of cells that are texts."""
    columns = {str(place): heading for place, heading in enumerate(headings)}
    return ReportTable(title, columns, rows, note)


class ColumnText(NamedTuple):
    """A column in a file of texts."""

    key: str
    heading: str = ""
    form: str = ""


class TableText(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A table in a file of texts."""

    title: str
    columns: tuple[ColumnText, ...]
    note: str = ""

    def table(
        self,
        rows: Sequence[Any],
        *,
        forms: Mapping[str, Callable[[Any], str]] | None = None,
        further: Mapping[str, str | ReportColumn] | None = None,
        **names: object,
    ) -> ReportTable:
        """Return the table of some rows.

        ``names`` are filled into title, headings and note; ``forms`` are functions by the names
        that columns have for them, and ``further`` columns go behind the others.
        """
        columns: dict[str, str | ReportColumn] = {
            each.key: ReportColumn(
                (each.heading or each.key).format(**names), (forms or {}).get(each.form, each.form)
            )
            for each in self.columns
        }
        title, note = (each.format(**names) for each in (self.title, self.note))
        return ReportTable(title, columns | dict(further or {}), rows, note)


_OF_MEAN = re.compile(r"(interval|mean)(?:([*/])(.+))?")


def cell_text(value: Any, form: Form = "") -> str:
    """Return a value as text; a dash for None.

    A form is a format text, ``interval`` or ``mean`` of an
    :class:`~qops_batsim.experiments.statistics.Interval`, perhaps times or over a factor to another
    unit (``mean/3600``), or empty: numbers have a readable precision then.
    """
    if value is None:
        return "-"
    if callable(form):
        return form(value)
    if "{" in form:
        return form.format(value)
    if match := _OF_MEAN.fullmatch(form):
        kind, sign, number = match.groups()
        factor = float(number or 1)
        factor = 1 / factor if sign == "/" else factor
        text: str = value.text(factor) if kind == "interval" else number_text(value.mean * factor)
        return text
    return number_text(value) if isinstance(value, float | int) else str(value)


def number_text(number: float) -> str:
    """Return a number in a readable precision."""
    if isinstance(number, int):
        return f"{number:,}"
    return f"{number:,.0f}" if abs(number) >= 10_000 else f"{number:,.2f}"


def markdown_table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Return the lines of a table in Markdown."""
    return [
        f"| {' | '.join(headings)} |",
        "|" + "---|" * len(headings),
        *(f"| {' | '.join(row)} |" for row in rows),
    ]


def value_at(row: Any, key: str) -> Any:
    """Return the value of a key, or of the rest of a key within that of its beginning.

    Keys are those of a mapping, names of fields, or places in a list.
    """
    first, _, rest = key.partition(".")
    if isinstance(row, Mapping):
        if key in row:
            return row[key]
        inner = row.get(first)
    else:
        inner = row[int(first)] if first.isdecimal() else getattr(row, first)
        if not rest:
            return inner
    return value_at(inner, rest) if rest and inner is not None else None
