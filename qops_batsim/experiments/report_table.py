"""Tables of reports, declared as data and rendered as text, Markdown or page blocks.

A report's texts lie in a TOML file next to the modules that compute its numbers. A table has a
title, columns and perhaps a note there, with ``{names}`` for what is not known before::

    [tables.loads]
    title = "Load"
    columns = [["load", "load", "{:g}"], ["scheduler"], ["wait", "wait (h)", "interval/3600"]]
    note = "Means over {count} windows."

A column is the key of its values in a row, its heading (the key, if none is told), and the form of
its cells: see :func:`cell_text`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from qops_batsim.experiments.page import PageTable
from qops_batsim.experiments.statistics import Interval
from qops_batsim.shipped import packaged_data

Form = str | Callable[[Any], str]
"""Form of cells, as of :func:`cell_text`, or a function."""


class ReportColumn(NamedTuple):
    """A column of a table, with the format of its cells."""

    heading: str
    form: Form


def table_of(
    title: str, columns: Mapping[str, str | ReportColumn], rows: Sequence[Any], note: str = ""
) -> PageTable:
    """Make a table of rows, each a mapping or a structure that has the columns as keys.

    Cells are texts, with numbers in a readable precision unless a column says how. A value that is
    missing or None is a dash.

    Parameters
    ----------
    title, note
        Texts above and below the table.
    columns
        Headings, or a :class:`ReportColumn`, by the key of the value in a row; ``"paper.wait"`` is
        the key ``wait`` in the value of ``paper``.
    rows
        Mappings or structures.
    """
    headed = {
        key: ReportColumn(column, "") if isinstance(column, str) else column
        for key, column in columns.items()
    }
    return _table(title, list(headed.items()), rows, note)


def _table(
    title: str, columns: Sequence[tuple[str, ReportColumn]], rows: Sequence[Any], note: str
) -> PageTable:
    return PageTable(
        title=title,
        headings=[column.heading for _, column in columns],
        rows=[
            [cell_text(value_at(row, key), column.form) for key, column in columns] for row in rows
        ],
        note=note,
    )


class ColumnText(NamedTuple):
    """A column, as declared in a TOML file."""

    key: str
    heading: str = ""
    form: str = ""


class TableText(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A table, as declared in a TOML file."""

    title: str
    columns: tuple[ColumnText, ...]
    note: str = ""

    def table(
        self,
        rows: Sequence[Any],
        *,
        forms: Mapping[str, Callable[[Any], str]] | None = None,
        further: Mapping[str, ReportColumn] | None = None,
        **names: object,
    ) -> PageTable:
        """Make the table that the TOML file declares, of these rows.

        ``names`` are filled into title, headings and note; ``forms`` are functions by the names
        that columns have for them, and ``further`` columns go behind the others.
        """
        known: Mapping[str, Form] = forms or {}
        columns = [
            (
                column.key,
                ReportColumn(
                    (column.heading or column.key).format(**names),
                    known.get(column.form, column.form),
                ),
            )
            for column in self.columns
        ]
        columns += (further or {}).items()
        return _table(self.title.format(**names), columns, rows, self.note.format(**names))


def declared_tables(package: str) -> dict[str, TableText]:
    """Return the tables that ``tables.toml`` of a package declares, by name."""
    return packaged_data(package, "tables.toml", dict[str, TableText])


_OF_MEAN = re.compile(r"(interval|signed|mean)(?:([*/])(.+))?")


def cell_text(value: Any, form: Form = "") -> str:
    """Format a value; a dash for None.

    A form is a format text, ``hours`` of a duration (:func:`hours`), ``interval``, ``signed`` or
    ``mean`` of an :class:`~qops_batsim.experiments.statistics.Interval`, perhaps times or over a
    factor to another unit (``mean/3600``), or empty: numbers have a readable precision then.
    """
    if value is None:
        return "-"
    if callable(form):
        return form(value)
    if "{" in form:
        return form.format(value)
    if form == "hours":
        return hours(value)
    if isinstance(value, Interval):
        match = _OF_MEAN.fullmatch(form or "interval")
        assert match is not None, form
        kind, sign, number = match.groups()
        factor = float(number or 1)
        if sign == "/":
            factor = 1 / factor
        if kind == "mean":
            return number_text(value.mean * factor)
        return value.text(factor, "+" if kind == "signed" else "")
    return number_text(value) if isinstance(value, float | int) else str(value)


def number_text(number: float) -> str:
    """Format a number with as many digits as a reader needs."""
    if isinstance(number, int):
        return f"{number:,}"
    return f"{number:,.0f}" if abs(number) >= 10_000 else f"{number:,.2f}"


def hours(seconds: float) -> str:
    """Format a duration in hours; ``never`` if infinite, ``-`` if unknown."""
    if math.isnan(seconds):
        return "-"
    return "never" if math.isinf(seconds) else f"{seconds / 3600:,.2f}"


def value_at(row: Any, key: str) -> Any:
    """Return the value of a row at a dotted key, such as ``metrics.mean``.

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
