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

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from qops_batsim.experiments.page import PageTable

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
    forms = {key: "" if isinstance(each, str) else each.form for key, each in columns.items()}
    return PageTable(
        title=title,
        headings=[each if isinstance(each, str) else each.heading for each in columns.values()],
        rows=[[cell_text(value_at(row, key), form) for key, form in forms.items()] for row in rows],
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
        further: Mapping[str, str | ReportColumn] | None = None,
        **names: object,
    ) -> PageTable:
        """Make the table that the TOML file declares, of these rows.

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
        return table_of(title, columns | dict(further or {}), rows, note)


_OF_MEAN = re.compile(r"(interval|mean)(?:([*/])(.+))?")


def cell_text(value: Any, form: Form = "") -> str:
    """Format a value; a dash for None.

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
    """Format a number with as many digits as a reader needs."""
    if isinstance(number, int):
        return f"{number:,}"
    return f"{number:,.0f}" if abs(number) >= 10_000 else f"{number:,.2f}"


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
