"""Rows of the CSV files that a run writes, from columns, with the digits of C's ``printf``."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

ROWS_AT_ONCE = 16_384
"""How many rows are held in memory."""

FEW_ROWS = 4_096
"""Below this, loading the compiled loops would take longer than plain Python needs."""

_LARGEST = 2.0**62
_SEPARATOR, _LINE_END = ord(","), ord("\n")


class Words(NamedTuple):
    """A column of few different texts, and which of them each row has."""

    words: Sequence[str]
    which: np.ndarray

    @classmethod
    def one(cls, word: str, rows: int) -> Words:
        """Return a column of the same text in so many rows."""
        return cls([word], np.zeros(rows, np.int64))

    @classmethod
    def of(cls, texts: Sequence[str]) -> Words:
        """Return a column of texts, many of which are equal."""
        words: dict[str, int] = {}
        which = (words.setdefault(text, len(words)) for text in texts)
        column = np.fromiter(which, np.int64, len(texts))
        return cls(list(words), column)

    def texts(self) -> list[str]:
        """Return the text of each row."""
        return [self.words[index] for index in self.which.tolist()]


class General(NamedTuple):
    """A column of dates (float64, seconds) to write as ``%g`` does."""

    values: np.ndarray


class Intervals(NamedTuple):
    """A column of sets of whole numbers, as maximal intervals that ascend within a set.

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

    def texts(self) -> list[str]:
        """Return the sets as Batsim writes those of hosts: ``"0-3 5"``."""
        bounds = self.offsets.tolist()
        every = slice(bounds[0], bounds[-1])
        pairs = zip(self.first[every].tolist(), self.last[every].tolist(), strict=True)
        each = [str(low) if low == high else f"{low}-{high}" for low, high in pairs]
        return [
            " ".join(each[a - bounds[0] : b - bounds[0]]) for a, b in itertools.pairwise(bounds)
        ]


Column = Sequence[str] | np.ndarray | Words | General | Intervals
"""Texts, written as they are; whole numbers; numbers to write as ``%.6f``, nothing for NaN."""


def format_rows(columns: Sequence[Column], rows: int) -> Iterator[bytes]:
    """Yield so many rows of a table, some thousands at a time; nothing is quoted."""
    if rows < FEW_ROWS:
        yield _plain_rows(columns)
        return
    shared = [_texts(each.words) if isinstance(each, Words) else None for each in columns]
    for since in range(0, rows, ROWS_AT_ONCE):
        part = slice(since, min(since + ROWS_AT_ONCE, rows))
        parts = [_part(*each, part) for each in zip(columns, shared, strict=True)]
        yield _compiled_rows(parts, part.stop - since)


def _plain_rows(columns: Sequence[Column]) -> bytes:
    lines = map(",".join, zip(*map(cells, columns), strict=True))
    return "".join(f"{line}\n" for line in lines).encode()


def cells(column: Column) -> Sequence[str]:
    """Return the texts of a column."""
    if isinstance(column, (Words, Intervals)):
        return column.texts()
    if isinstance(column, General):
        return [f"{value:g}" for value in column.values.tolist()]
    if not isinstance(column, np.ndarray):
        return column
    if column.dtype.kind == "f":
        return ["" if value != value else f"{value:.6f}" for value in column.tolist()]
    return list(map(str, column.tolist()))


class _Texts(NamedTuple):
    """Texts as bytes, where each begins (and the last ends), and which each row has."""

    content: np.ndarray
    begins: np.ndarray
    which: np.ndarray


_Fitting = _Texts | np.ndarray | General | Intervals
"""A column as the compiled loops take it."""


def _part(column: Column, words: _Texts | None, rows: slice) -> _Fitting:
    """Return some rows of a column for the compiled loops; as texts, if they cannot write them."""
    if isinstance(column, Words) and words is not None:
        return words._replace(which=column.which[rows].astype(np.int64))
    if isinstance(column, Intervals):
        return Intervals(column.offsets[rows.start : rows.stop + 1], column.first, column.last)
    if isinstance(column, General):
        dates = column.values[rows]
        fits = (dates < _LARGEST) & (dates == np.floor(dates)) & ~np.signbit(dates)
        return General(dates) if fits.all() else _texts(cells(General(dates)))
    values = column[rows]
    if not isinstance(values, np.ndarray):
        return _texts(values)
    fits = ~(abs(values) >= _LARGEST) if values.dtype.kind == "f" else values >= 0
    return np.ascontiguousarray(values) if fits.all() else _texts(cells(values))


def _compiled_rows(columns: Sequence[_Fitting], rows: int) -> bytes:
    from qops_batsim import csv_kernels

    begins = np.zeros(rows + 1, np.int64)
    for column in columns:
        begins[1:] += _widths(column)
    np.cumsum(begins, out=begins)
    buffer, ends = np.empty(begins[-1], np.uint8), begins[:-1].copy()
    separators = [_SEPARATOR] * (len(columns) - 1) + [_LINE_END]
    for column, separator in zip(columns, separators, strict=True):
        given = buffer, ends, separator
        if isinstance(column, _Texts):
            csv_kernels.put_texts(*given, *column)
        elif isinstance(column, Intervals):
            csv_kernels.put_intervals(*given, *column)
        elif isinstance(column, General):
            csv_kernels.put_general(*given, column.values.astype(np.int64))
        elif column.dtype.kind == "f":
            csv_kernels.put_fixed(*given, column)
        else:
            csv_kernels.put_whole(*given, column)
    return buffer[: csv_kernels.close_up(buffer, begins, ends)].tobytes()


def _texts(texts: Sequence[str]) -> _Texts:
    joined = "".join(texts)
    content = np.frombuffer(joined.encode(), np.uint8)
    sized: Iterable[str | bytes] = texts
    if len(content) > len(joined):
        sized = map(str.encode, texts)
    begins = np.zeros(len(texts) + 1, np.int64)
    np.cumsum(np.fromiter(map(len, sized), np.int64, len(texts)), out=begins[1:])
    return _Texts(content, begins, np.arange(len(texts)))


def _widths(column: _Fitting) -> np.ndarray | int:
    """Return how many bytes the cells take at most, with what follows them."""
    if isinstance(column, _Texts):
        lengths: np.ndarray = np.diff(column.begins)[column.which] + 1
        return lengths
    if isinstance(column, Intervals):
        # Two numbers of up to ten digits, a hyphen and a space.
        counts: np.ndarray = np.diff(column.offsets) * 22 + 1
        return counts
    # A sign, 19 digits, a point, six decimals, the separator.
    return 28
