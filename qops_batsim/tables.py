"""CSV tables: columns formatted like C's ``printf``, written and read.

Rows are written by :mod:`~qops_batsim.row_writer`. Long tables are read by Polars, short ones by
plain Python: one of a few thousand rows is read before Polars is imported. Both give the same
columns, and whatever is wrong with a file is found by the plain reader, which names row and column.
"""

from __future__ import annotations

import csv
import io
import itertools
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from qops_batsim.errors import InputError, shown
from qops_batsim.files import read_bytes, text_of
from qops_batsim.row_writer import (
    Cells,
    DecimalCells,
    GeneralCells,
    IntervalCells,
    RowWriter,
    WholeCells,
    WordCells,
    are_plain,
    are_whole,
    read_decimals,
    read_general,
)
from qops_batsim.texts import exact_text

if TYPE_CHECKING:
    import polars as pl

ROWS_AT_ONCE = 1 << 14
"""Rows of a table that are formatted at once."""

FEW_BYTES = 1 << 19
"""Bytes below which plain Python reads a table before Polars is imported."""

NOT_FINITE = ("inf", "-inf", "nan", "-nan")
"""Words for what is no finite number."""

_LONGEST_HEADER = 100_000
"""Letters of a line with the names of columns."""

_FEW_LINES = 100_000

_CELLS_OF_LETTER = 0.85
"""Most cells in a letter of a long table: even one of nearly empty rows has fewer."""

_QUOTED = re.compile(rb'(?<![^,\n])"(?:[^"]|"")*"(?![^,\r\n])')
"""A whole cell in quotes, with doubled ones in it."""

Floats = npt.NDArray[np.float64]
Booleans = npt.NDArray[np.bool_]
Integers = npt.NDArray[np.int64]
Choices = npt.NDArray[np.int8]
_Content = TypeVar("_Content")


class Words(NamedTuple):
    """A column with few different texts: the texts, and for each row the index of its text."""

    words: Sequence[str]
    which: np.ndarray

    @classmethod
    def one(cls, word: str, rows: int) -> Words:
        """Return a column with the same text in every row."""
        return cls([word], np.zeros(rows, np.int64))

    @classmethod
    def of(cls, texts: Sequence[str]) -> Words:
        """Return a column of the given texts, many of which are equal."""
        words: dict[str, int] = {}
        which = (words.setdefault(text, len(words)) for text in texts)
        column = np.fromiter(which, np.int64, len(texts))
        return cls(list(words), column)

    def texts(self) -> list[str]:
        """Return the text of each row."""
        return [self.words[index] for index in self.which.tolist()]

    def at(self, rows: np.ndarray) -> Words:
        """Return the column with only some of the rows."""
        return Words(self.words, self.which[rows])

    def where(self, holds: Callable[[str], bool]) -> Booleans:
        """Return a mask of the rows whose text satisfies a condition."""
        mask: Booleans = np.array([holds(word) for word in self.words], np.bool_)[self.which]
        return mask

    def values(self, value: Callable[[str], float]) -> Floats:
        """Return a number for the text of each row."""
        found: Floats = np.array([value(word) for word in self.words], np.float64)[self.which]
        return found

    def paired(self, other: Words) -> tuple[list[tuple[str, str]], Integers]:
        """Return the different pairs of texts in the rows of two columns, and which has which."""
        size = len(other.words)
        pairs, which = np.unique(self.which * size + other.which, return_inverse=True)
        both = [(self.words[pair // size], other.words[pair % size]) for pair in pairs.tolist()]
        return both, which

    def changed(self, other: Words, change: Callable[[str, str], str]) -> Words:
        """Return the texts that ``change`` makes of those of two columns in each row."""
        pairs, which = self.paired(other)
        return Words([change(*pair) for pair in pairs], which)


class General(NamedTuple):
    """A column of dates (float64, seconds), formatted like C's ``%g``."""

    values: np.ndarray

    def read(self) -> Floats:
        """Return the dates as they are read from the texts."""
        values = np.ascontiguousarray(self.values, np.float64)
        numbers = np.empty_like(values)
        read_general(values, values.view(np.int64), numbers)
        return numbers


class Intervals(NamedTuple):
    """A column of sets of whole numbers, each as ascending intervals that do not touch.

    Attributes
    ----------
    offsets
        Where the intervals of each set begin, and where those of the last one end (int64).
    first, last
        The lowest and the highest number of each interval (int64).
    """

    offsets: np.ndarray
    first: np.ndarray
    last: np.ndarray


Column = Sequence[str] | np.ndarray | Words | General | Intervals
"""Texts, written as they are; whole numbers; numbers to write as ``%.6f``, nothing for NaN."""


_FORMULA = re.compile(r"'*[=+\-@]")
"""Begin of a cell that a spreadsheet would compute, perhaps behind our own mark."""

_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?|-inf|-nan")


def shielded(text: str) -> str:
    """Return a text as a cell no spreadsheet evaluates: after ``'`` if it looks like a formula.

    A number is no formula. :func:`unshielded` gives the text back.
    """
    return f"'{text}" if _FORMULA.match(text) and not _NUMBER.fullmatch(text) else text


def csv_text(rows: Iterable[Iterable[Any]]) -> str:
    """Format a small table as CSV, its texts :func:`shielded`; None is an empty cell."""
    text = io.StringIO()
    cells = ([shielded(cell) if isinstance(cell, str) else cell for cell in row] for row in rows)
    csv.writer(text, lineterminator="\n").writerows(cells)
    return text.getvalue()


def unshielded(cell: str) -> str:
    """Return the text of a cell written by :func:`shielded`."""
    return cell[1:] if cell.startswith("'") and _FORMULA.match(cell) else cell


def shielded_column(column: Column) -> Column:
    """Return a column of free texts, each :func:`shielded`. O(letters)."""
    if isinstance(column, Words):
        return Words(cells(shielded_column(column.words)), column.which)
    if isinstance(column, (np.ndarray, Intervals, General)):
        return column
    return column if are_plain(list(column)) else [*map(shielded, column)]


def format_rows(columns: Sequence[Column], rows: int) -> Iterator[bytes]:
    """Yield a table as CSV in blocks of many rows; nothing is quoted."""
    found: list[Cells] = []
    between = [b""]
    for place, column in enumerate(columns):
        between[-1] += b"," * (place > 0)
        if isinstance(column, Words) and len(column.words) == 1:
            between[-1] += column.words[0].encode()
        else:
            found.append(cells_of(column))
            between.append(b"")
    between[-1] += b"\n"
    writer = RowWriter(found, between)
    for begin in range(0, rows, ROWS_AT_ONCE):
        yield writer.rows(begin, min(begin + ROWS_AT_ONCE, rows))


def format_table(columns: Mapping[str, Column]) -> Iterator[bytes]:
    """Yield a table as CSV, with its header, in blocks of many rows; nothing is quoted."""
    yield ",".join(columns).encode() + b"\n"
    first = next(iter(columns.values()))
    yield from format_rows([*columns.values()], len(WrittenTexts(first)))


def cells(column: Column) -> Sequence[str]:
    """Return a column's cells as texts, as they are written in CSV."""
    if isinstance(column, Words):
        return column.texts()
    if not isinstance(column, (np.ndarray, Intervals, General)):
        return column
    rows = format_rows([column], len(WrittenTexts(column)))
    return b"".join(rows).decode().splitlines()


def cells_of(column: Column) -> Cells:
    """Return the cells of a column as they are written."""
    if isinstance(column, General):
        return GeneralCells(np.ascontiguousarray(column.values, np.float64))
    if isinstance(column, Intervals):
        return IntervalCells(*(np.ascontiguousarray(each, np.int64) for each in column))
    if isinstance(column, np.ndarray):
        if column.dtype.kind == "f":
            return DecimalCells(np.ascontiguousarray(column, np.float64))
        return WholeCells(np.ascontiguousarray(column, np.int64))
    words, which = column if isinstance(column, Words) else (column, np.arange(len(column)))
    return WordCells(words, np.ascontiguousarray(which, np.int64))


def _decimals_read(values: np.ndarray) -> Floats:
    """Return numbers as they are read when they were written with six decimals. O(rows)."""
    floats = np.ascontiguousarray(values, np.float64)
    if are_whole(floats):
        return floats
    numbers = np.empty_like(floats)
    read_decimals(floats, floats.view(np.int64), numbers)
    return numbers


class Texts(Sequence[str]):
    """A Polars column of texts; a cell becomes a Python string only when it is read."""

    def __init__(self, series: pl.Series) -> None:
        self.series = series

    def __contains__(self, text: object) -> bool:
        return bool((self.series == text).any())

    def mention(self, letters: str) -> bool:
        """Return whether any cell contains this text."""
        return bool(self.series.str.contains(letters, literal=True).any())

    def joined(self, separator: str) -> str:
        """Return the texts of all cells, joined by a separator."""
        return str(self.series.fill_null("").str.join(separator)[0]) if len(self) else ""

    def are_all(self, text: str) -> bool:
        """Return whether all cells equal this text."""
        return bool((self.series == text).all())

    def places(self, known: Sequence[str]) -> Integers:
        """Return the index in ``known`` of each cell; -1 if unknown."""
        import polars as pl

        texts = pl.Series(known, dtype=pl.String)
        if self.series.equals(texts):
            return np.arange(len(texts))

        wanted = pl.DataFrame({"text": self.series})
        places = pl.DataFrame({"text": texts, "place": np.arange(len(known))})
        joined = wanted.join(places, on="text", how="left", maintain_order="left")
        numbers: Integers = joined["place"].fill_null(-1).to_numpy().copy()
        return numbers

    def numbers(self) -> Floats:
        """Return the cells as numbers, NaN for texts that are not numbers."""
        import polars as pl

        parsed = self.series.cast(pl.Float64, strict=False)
        numbers: Floats = parsed.to_numpy(writable=True)
        # Python takes blanks around a number as well.
        for row in (parsed.is_null() & (self.series != "")).arg_true():
            numbers[row] = number_in(self[row])
        return numbers

    def are_empty(self) -> Booleans:
        """Return which cells are empty."""
        return (self.series == "").to_numpy()

    def unshielded(self) -> Texts:
        """Return the texts of cells that may be :func:`shielded`."""
        if not self.series.str.starts_with("'").any():
            return self
        return Texts(self.series.str.replace(r"^'('*[=+\-@])", "${1}"))

    def __len__(self) -> int:
        return len(self.series)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return self.series[index].to_list()
        return str(self.series[index])

    def __iter__(self) -> Iterator[str]:
        return iter(self.series.to_list())


class Numbers:
    """A Polars column of finite numbers, in which empty cells are null."""

    def __init__(self, series: pl.Series) -> None:
        self.series = series

    def numbers(self) -> Floats:
        """Return the cells as numbers, NaN for empty ones."""
        numbers: Floats = self.series.to_numpy(writable=True)
        return numbers

    def are_empty(self) -> Booleans:
        """Return which cells are empty."""
        return self.series.is_null().to_numpy()

    def __len__(self) -> int:
        return len(self.series)

    def __getitem__(self, row: int) -> str:
        value = self.series[row]
        return "" if value is None else exact_text(value)


class PlainTexts(list[str]):
    """A column of texts in a list, read in the same way as :class:`Texts`."""

    def mention(self, letters: str) -> bool:
        """Return whether any cell contains this text, which is one letter."""
        return letters in "".join(self)

    def are_all(self, text: str) -> bool:
        """Return whether all cells equal this text."""
        return self.count(text) == len(self)

    def places(self, known: Sequence[str]) -> Integers:
        """Return the index in ``known`` of each cell; -1 if unknown."""
        if self == known:
            return np.arange(len(self))
        place_of = dict(zip(known, range(len(known)), strict=True))
        return np.array(list(map(place_of.get, self, itertools.repeat(-1))), np.int64)

    def are_empty(self) -> Booleans:
        """Return which cells are empty."""
        return np.array([not text for text in self], np.bool_)

    def numbers(self) -> Floats:
        """Return the cells as numbers, NaN for texts that are not numbers."""
        return np.array([number_in(text) for text in self], np.float64)

    def unshielded(self) -> PlainTexts:
        """Return the texts of cells that may be :func:`shielded`."""
        return PlainTexts(map(unshielded, self))


class WrittenTexts(Sequence[str]):
    """A column that was written, known as it is read: its texts are made when they are asked for.

    It is one of texts before these are :func:`shielded`.
    """

    def __init__(self, column: Column) -> None:
        self.column = column

    @cached_property
    def plain(self) -> PlainTexts:
        """The texts."""
        return PlainTexts(cells(self.column))

    def mention(self, letters: str) -> bool:
        """Return whether any cell contains this text, which is one letter."""
        column = self.column
        known = PlainTexts(column.words) if isinstance(column, Words) else self.plain
        return known.mention(letters)

    def are_all(self, text: str) -> bool:
        """Return whether all cells equal this text."""
        column = self.column
        if isinstance(column, Words):
            return bool(column.where(text.__eq__).all())
        return self.plain.are_all(text)

    def places(self, known: Sequence[str]) -> Integers:
        """Return the index in ``known`` of each cell; -1 if unknown."""
        column = self.column
        if isinstance(column, Words):
            places: Integers = PlainTexts(column.words).places(known)[column.which]
            return places
        return self.plain.places(known)

    def numbers(self) -> Floats:
        """Return the cells as numbers, NaN for texts that are not numbers."""
        column = self.column
        if isinstance(column, General):
            return column.read()
        if isinstance(column, Words) and len(column.words) == 1:
            # Verified and not changed: a million equal numbers need no memory.
            return np.broadcast_to(number_in(column.words[0]), len(column.which))
        if isinstance(column, Words):
            return column.values(number_in)
        if isinstance(column, np.ndarray):
            return _decimals_read(column) if column.dtype.kind == "f" else column * 1.0
        return self.plain.numbers()

    def are_empty(self) -> Booleans:
        """Return which cells are empty."""
        column = self.column
        if isinstance(column, np.ndarray) and column.dtype.kind == "f":
            return np.isnan(column)
        if isinstance(column, Intervals):
            empty: Booleans = np.diff(column.offsets) == 0
            return empty
        if isinstance(column, Words) and "" in column.words:
            return column.where("".__eq__)
        if isinstance(column, (np.ndarray, General, Words)):
            return np.zeros(len(self), np.bool_)
        return self.plain.are_empty()

    def unshielded(self) -> WrittenTexts:
        """Return the column, of texts that were never :func:`shielded`."""
        return self

    def __len__(self) -> int:
        column = self.column
        if isinstance(column, Intervals):
            return len(column.offsets) - 1
        if isinstance(column, Words):
            return len(column.which)
        return len(column.values if isinstance(column, General) else column)

    def __getitem__(self, index: Any) -> Any:
        column = self.column
        if isinstance(column, Words) and isinstance(index, int):
            return column.words[int(column.which[index])]
        return self.plain[index]

    def __iter__(self) -> Iterator[str]:
        return iter(self.plain)


AnyTexts = Texts | PlainTexts | WrittenTexts
"""A column of texts, wherever it comes from."""


def joined_texts(first: AnyTexts, second: AnyTexts, between: str) -> list[str]:
    """Concatenate two columns of texts cell by cell."""
    if isinstance(first, Texts) and isinstance(second, Texts):
        return list(Texts(first.series + between + second.series))
    return [f"{one}{between}{other}" for one, other in zip(first, second, strict=True)]


@dataclass(frozen=True, kw_only=True)
class Form:
    """The form of a kind of CSV file: its required columns, and the type of each column.

    ``choices`` are columns of certain words, ``others`` tells whether all further columns
    are read as texts.
    """

    what: str
    needed: tuple[str, ...]
    numbers: tuple[str, ...] = ()
    choices: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    texts: tuple[str, ...] = ()
    others: bool = False

    def kinds(self, header: list[str]) -> tuple[list[str], dict[str, tuple[str, ...]], list[str]]:
        """Sort the columns of a file by type: numbers, repeated words, free texts."""
        texts = [
            name
            for name in header
            if name in self.texts
            or (self.others and name not in self.numbers and name not in self.choices)
        ]
        choices = {name: words for name, words in self.choices.items() if name in header}
        return [name for name in self.numbers if name in header], choices, texts


Columns = Mapping[str, AnyTexts | Numbers]
"""The cells of a table by column."""


class Table:
    """A CSV file, read into columns.

    Attributes
    ----------
    names
        All columns, in the order of the file.
    size
        Number of rows.
    numbers
        Columns of numbers: NaN where a cell is none.
    empty
        Which cells of each column of numbers are empty.
    choices
        Columns of a few words: their positions among them (int8), -1 for any other text.
    texts
        All other columns that were asked for.
    """

    def __init__(self, path: Path, columns: Columns, form: Form) -> None:
        numbers, choices, texts = form.kinds(list(columns))
        self._path = path
        self._columns = columns
        self.names = list(columns)
        self.size = len(next(iter(columns.values())))
        self.numbers: dict[str, Floats] = {name: columns[name].numbers() for name in numbers}
        self.empty: dict[str, Booleans] = {name: columns[name].are_empty() for name in numbers}
        texts_of = {
            name: cells for name, cells in columns.items() if not isinstance(cells, Numbers)
        }
        self.choices = {
            name: texts_of[name].places(words).astype(np.int8) for name, words in choices.items()
        }
        self.texts: dict[str, AnyTexts] = {name: texts_of[name].unshielded() for name in texts}

    def not_finite(self, column: str) -> Booleans:
        """Return which cells of a column of numbers are words such as ``inf`` and ``nan``."""
        values = self.numbers[column]
        mask = np.zeros(len(values), np.bool_)
        for row in np.flatnonzero(~np.isfinite(values) & ~self.empty[column]).tolist():
            mask[row] = self._columns[column][row] in NOT_FINITE
        return mask

    def refuse(self, column: str, wrong: Booleans, accepted: str) -> None:
        """Raise an InputError about the first row that is wrong, if any."""
        if not wrong.any():
            return
        row = int(np.argmax(wrong))
        cells = self._columns
        job = f" (job {shown(cells['job_id'][row])})" if "job_id" in cells else ""
        raise InputError(
            f"{self._path}: row {row + 1}{job}: {column} is {shown(cells[column][row])}; "
            f"{accepted} is expected"
        )


def read_table(
    path: Path,
    form: Form,
    make: Callable[[Table], _Content],
    written: Mapping[str, Column] | None = None,
) -> _Content:
    """Read a CSV file and pass its columns to ``make``; errors name the file and the problem.

    With the columns that were ``written`` there, before their texts were shielded, the file is not
    read.
    """
    if written is not None:
        return make(Table(path, {name: WrittenTexts(each) for name, each in written.items()}, form))
    content = read_bytes(path, what=form.what)
    columns: Columns | None = None
    if len(content) >= FEW_BYTES:
        columns = _long_columns(content, form)
    if columns is None:
        columns = _short_columns(path, text_of(content, path, what=form.what), form)

    del content  # It is about as large as the table.
    return make(Table(path, columns, form))


def _long_columns(content: bytes, form: Form) -> Columns | None:
    """Return a table's cells by column, read by Polars; None if only plain Python can read it."""
    import polars as pl
    from polars.exceptions import PolarsError

    line = content[:_LONGEST_HEADER].partition(b"\n")[0].rstrip(b"\r")
    header = line.decode("utf-8-sig", "replace").split(",")
    # Polars takes an empty line for a row.
    if b"\n\n" in content or b"\n\r\n" in content or len(set(header)) < len(header):
        return None
    if not set(form.needed) <= set(header) or not all(map(str.isidentifier, header)):
        return None
    if _is_out_of_proportion(len(header), content.count(b"\n"), len(content)):
        return None
    if has_quotes_within(content):
        return None  # Polars takes these for quotes of cells.
    if content.endswith(b","):
        return None  # Polars passes over a cell too many that is empty, at the end of the file.

    # Where all numbers are numbers, to parse them here is several times as fast.
    for numbers in (form.kinds(header)[0], []):
        kinds = {name: pl.Float64 if name in numbers else pl.String for name in header}
        try:
            frame = pl.read_csv(content, schema=kinds, empty_string_is_null=False)
        except (PolarsError, UnicodeDecodeError):
            continue
        if all(frame[name].is_finite().all() for name in numbers):
            return {
                # A row may lack its last cells.
                name: Numbers(frame[name]) if name in numbers else Texts(frame[name].fill_null(""))
                for name in header
            }
    return None


def has_quotes_within(content: bytes) -> bool:
    """Return whether any cell contains quotes, apart from quotes around the whole cell."""
    # Usually they are those of an empty last cell, which is seen without looking for others.
    if content.count(b'"') == 2 * content.count(b',""\n'):
        return False
    return b'"' in _QUOTED.sub(b"", content)


def _is_out_of_proportion(columns: int, lines: int, letters: int) -> bool:
    """Return whether a table has more cells than its letters can fill."""
    return lines > _FEW_LINES and columns * lines > _CELLS_OF_LETTER * letters


def _short_columns(path: Path, text: str, form: Form) -> dict[str, PlainTexts]:
    """Return a table's cells by column, read by plain Python, whatever the table holds."""
    if not text.strip():
        raise InputError(f"{path}: empty (did the simulation abort?); {form.what} is expected")

    header = next(csv.reader(io.StringIO(text[:_LONGEST_HEADER], newline="")), [])
    missing = [name for name in form.needed if name not in header]
    if missing:
        names = " ".join(", ".join(header).split())[:200]
        raise InputError(
            f"{path}: column{'s' if len(missing) > 1 else ''} {', '.join(missing)} missing "
            f"(found: {names or 'nothing'}); {form.what} is expected"
        )
    lines = text.count("\n")
    if _is_out_of_proportion(len(header), lines, len(text)):
        raise InputError(
            f"{path}: {lines} lines of {len(header)} columns in {len(text)} letters; "
            f"{form.what} is expected"
        )

    # The header above may be cut in the last of its names: all is read from the beginning.
    header, *rows = _rows(path, text, form)
    columns: Any = zip(*rows, strict=True) if rows else ([] for _ in header)
    by_name: dict[str, PlainTexts] = {}
    for name, column in zip(header, columns, strict=True):
        by_name.setdefault(name, PlainTexts(column))
    return by_name


def _rows(path: Path, text: str, form: Form) -> list[list[str]]:
    """Return a table's header and rows; a row may lack its last cells but not have more."""
    reader = csv.reader(io.StringIO(text.removeprefix("\ufeff"), newline=""), strict=True)
    csv.field_size_limit(max(csv.field_size_limit(), len(text)))
    rows: list[list[str]] = []
    problem = ""

    try:
        for row in filter(None, reader):
            width = len(rows[0]) if rows else len(row)
            if len(row) > width:
                problem = f"{width} cells are expected, {len(row)} found"
                break
            rows.append(row + [""] * (width - len(row)))
    except csv.Error as error:
        problem = str(error)

    if problem:
        raise InputError(
            f"{path}: not a table (line {reader.line_num}: {problem}); {form.what} is expected"
        )
    return rows


def number_in(text: str) -> float:
    """Parse a number; NaN for anything else, also for Python's ``1_000`` and other digits."""
    try:
        return float(text) if text.isascii() and "_" not in text else math.nan
    except ValueError:
        return math.nan
