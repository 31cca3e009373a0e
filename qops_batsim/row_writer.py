"""Rows of CSV files, written into one buffer.

All numbers are whole: dates are microseconds, and a number with six significant digits is these and
a power of ten. So a cell is its digits, with a point between them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

LEAST = -(2**62)
"""The number that stands for an empty cell, or for one of the odd texts."""

_LEAST = LEAST  # known to C

ZERO, POINT, MINUS, BLANK = b"0.- "
PAIRS_TEXT = b"".join(b"%02d" % number for number in range(100))
PAIRS = PAIRS_TEXT
NO_FRACTION = b".000000"
LONGEST = 64
"""No number, and no two with what stands between them, has more letters."""


class Letters:
    """A buffer of letters that grows."""

    def __init__(self) -> None:
        self.room = 1 << 16
        self.buffer = bytearray(self.room)
        self.data = self.buffer
        self.size = 0

    def take(self) -> bytes:
        """Return all letters, and begin again without any."""
        taken = bytes(memoryview(self.buffer)[: self.size])
        self.size = 0
        return taken

    def make_room(self, count: int) -> None:
        """Make room for so many letters more."""
        if self.size + count > self.room:
            self.room = 2 * (self.size + count)
            self.buffer = self.buffer.ljust(self.room)
            self.data = self.buffer

    def add(self, text: bytes) -> None:
        """Append a text."""
        count = len(text)
        self.make_room(count)
        data = self.data
        size = self.size
        source = text
        for place in range(count):
            data[size + place] = source[place]
        self.size = size + count

    def add_letter(self, letter: int) -> None:
        """Append a letter, for which there is room."""
        self.data[self.size] = letter
        self.size += 1

    def add_digits(self, value: int, count: int) -> None:
        """Append the last digits of a whole number from 0 up, zeros in front if it has fewer."""
        data = self.data
        size = self.size
        place = size + count
        while place > size + 1:
            # Two at a time, since divisions are slow.
            place -= 2
            rest = value // 100
            pair = 2 * (value - 100 * rest)
            data[place] = PAIRS[pair]
            data[place + 1] = PAIRS[pair + 1]
            value = rest
        if place > size:
            data[size] = ZERO + value % 10
        self.size = size + count

    def add_whole(self, value: int) -> None:
        """Append a whole number from 0 up."""
        count = 1
        limit = 10
        while limit <= value:
            limit *= 10
            count += 1
        self.add_digits(value, count)


class Cells:
    """The cells of a column, and what stands before each of them."""

    def __init__(self) -> None:
        self.before = b""

    def write(self, out: Letters, row: int) -> None:
        """Append the cell of a row."""


class TextCells(Cells):
    """Texts."""

    def __init__(self, texts: Sequence[str]) -> None:
        self.texts = texts if isinstance(texts, list) else list(texts)

    def write(self, out: Letters, row: int) -> None:
        text = self.texts[row]
        out.add(text.encode())


class WordCells(Cells):
    """A few texts, each in many rows; ``which`` tells the place of a row's."""

    def __init__(self, words: Sequence[str], which: Any) -> None:
        self.words = [word.encode() for word in words]
        self.which = which

    def write(self, out: Letters, row: int) -> None:
        out.add(self.words[self.which[row]])


class WholeCells(Cells):
    """Whole numbers."""

    def __init__(self, values: Any) -> None:
        self.values = values

    def write(self, out: Letters, row: int) -> None:
        value = self.values[row]
        out.make_room(LONGEST)
        if value < 0:
            out.add_letter(MINUS)
            value = -value
        out.add_whole(value)


class DecimalCells(Cells):
    """Numbers with six decimals, given as millionths; the odd ones as texts by row."""

    def __init__(self, micros: Any, odd: Mapping[int, str]) -> None:
        self.micros = micros
        self.odd = odd

    def write(self, out: Letters, row: int) -> None:
        micros = self.micros[row]
        if micros == _LEAST:
            out.add(self.odd.get(row, "").encode())
            return
        out.make_room(LONGEST)
        if micros < 0:
            out.add_letter(MINUS)
            micros = -micros
        value = micros
        whole = value // 1_000_000
        rest = value - whole * 1_000_000
        out.add_whole(whole)
        if rest == 0:
            out.add(NO_FRACTION)
        else:
            out.add_letter(POINT)
            out.add_digits(rest, 6)


class GeneralCells(Cells):
    """Numbers with six significant digits, as ``%g`` writes them: these, and the power of ten of
    the first one; the odd ones as texts by row.
    """

    def __init__(self, digits: Any, powers: Any, odd: Mapping[int, str]) -> None:
        self.digits = digits
        self.powers = powers
        self.odd = odd

    def write(self, out: Letters, row: int) -> None:
        digits = self.digits[row]
        power = self.powers[row]
        if digits == _LEAST:
            out.add(self.odd[row].encode())
            return

        # Digits behind the point, without zeros at the end.
        behind = 5 if power >= 6 else 5 - power
        while behind > 0 and digits % 10 == 0:
            digits = digits // 10
            behind -= 1
        unit = 1
        for _ in range(behind):
            unit *= 10

        out.make_room(LONGEST)
        whole = digits // unit
        out.add_whole(whole)
        if behind > 0:
            out.add_letter(POINT)
            out.add_digits(digits - whole * unit, behind)
        if power >= 6:
            out.add(b"e+")
            out.add_digits(power, 2)


class IntervalCells(Cells):
    """Sets of whole numbers, as intervals: ``0-3 5``."""

    def __init__(self, offsets: Any, first: Any, last: Any) -> None:
        self.offsets = offsets
        self.first = first
        self.last = last

    def write(self, out: Letters, row: int) -> None:
        begin = self.offsets[row]
        for place in range(begin, self.offsets[row + 1]):
            out.make_room(LONGEST)
            if place > begin:
                out.add_letter(BLANK)
            low = self.first[place]
            high = self.last[place]
            out.add_whole(low)
            if high > low:
                out.add_letter(MINUS)
                out.add_whole(high)


class RowWriter:
    """Writes the rows of a table.

    Parameters
    ----------
    columns
        The cells of each column that is not the same in all rows.
    between
        What stands before each of these, and behind the last one.
    """

    def __init__(self, columns: Sequence[Cells], between: Sequence[bytes]) -> None:
        self.columns = list(columns)
        for column, text in zip(columns, between, strict=False):
            column.before = text
        self.end = between[len(columns)]
        self.out = Letters()

    def rows(self, begin: int, end: int) -> bytes:
        """Return the rows from ``begin`` to ``end`` (exclusive)."""
        columns = self.columns
        count = len(columns)
        out = self.out
        for row in range(begin, end):
            for place in range(count):
                column = columns[place]
                out.add(column.before)
                column.write(out, row)
            out.add(self.end)
        return out.take()
