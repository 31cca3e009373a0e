"""Rows of CSV files, written into one buffer, and the numbers in them as they are read back.

A number is rounded to millionths, or to six significant digits and a power of ten: so a cell is the
digits of whole numbers, with a point between them. Python writes the odd numbers of which rounding
is not certain.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import Any

ODD = -1  # known to C
"""Stands for the digits of a number that Python is to write."""

MOST_COUNTED = 4e12
"""Numbers below are counted in millionths."""

EXACT = 2.0**53
"""Up to here floats hold every whole number."""

SURELY = 0.5 - 1e-9
"""Up to so far from a whole number below a million, a float that is rounded itself is rounded to it
rightly.
"""

MILLION = 1e6
POWERS = array("d", [10.0**power for power in range(17)])
LARGEST_POWER = 15
EXACT_POWER = 10
"""The halves of whole numbers below the next power are exact, and rounded to even ones."""

COMMA, QUOTE, NEW_LINE, RETURN = b',"\n\r'
SHIELD, EQUALS, PLUS, AT = b"'=+@"
ZERO, POINT, MINUS, BLANK = b"0.- "
PAIRS_TEXT = b"".join(b"%02d" % number for number in range(100))
PAIRS = PAIRS_TEXT
NO_FRACTION = b".000000"
LONGEST = 64
"""No number, and no two with what stands between them, has more letters."""


def millionths(value: float, is_negative: bool) -> int:
    """Return how many millionths the size of a number is, as C's ``%.6f`` rounds it; ``ODD`` for
    NaN and what is too large, too near the middle between two, or rounded to zero from below.
    """
    size = -value if is_negative else value
    if not size < MOST_COUNTED:
        return ODD
    whole = int(size)
    rest = (size - whole) * MILLION
    rounded = int(rest + 0.5)
    micros = whole * 1_000_000 + rounded
    is_sure = -SURELY < rest - rounded < SURELY
    return micros if is_sure and (micros or not is_negative) else ODD


def significant(value: float) -> int:
    """Return the power of ten of a number's first digit, and 100 times its six digits, as C's
    ``%g`` rounds it; ``ODD`` for NaN, what is below 1 but 0, too large, or too near the middle.
    """
    if not value < POWERS[LARGEST_POWER + 1]:
        return ODD
    if value < 1:
        return 0 if value == 0 else ODD
    power = 0
    while POWERS[power + 1] <= value:
        power += 1
    scaled = value / POWERS[power - 5] if power > 5 else value * POWERS[5 - power]
    digits = int(scaled + 0.5)
    whole = int(value)
    if power <= EXACT_POWER and value == whole:
        if digits - scaled == 0.5:
            digits -= digits % 2
    elif not -SURELY < scaled - digits < SURELY:
        return ODD
    if digits == 1_000_000:
        digits = 100_000
        power += 1
    return digits * 100 + power


def are_whole(values: Any) -> bool:
    """Return whether all numbers are whole ones that are read as they were written, or NaN."""
    for row in range(len(values)):
        value = values[row]
        whole = int(value) if -EXACT < value < EXACT else 0
        if value != whole and value == value:
            return False
    return True


def read_decimals(values: Any, bits: Any, read: Any) -> None:
    """Put numbers into ``read`` as they are read if they were written with six decimals; ``bits``
    are theirs, as whole numbers.
    """
    for row in range(len(values)):
        value = values[row]
        micros = millionths(value, bits[row] < 0)
        if micros == ODD:
            read[row] = float(f"{value:.6f}") if value == value else value
        elif micros >= EXACT:
            read[row] = value  # Its text is exact.
        else:
            read[row] = -micros / MILLION if bits[row] < 0 else micros / MILLION


def read_general(values: Any, bits: Any, read: Any) -> None:
    """Put numbers into ``read`` as they are read if they were written as ``%g`` does."""
    for row in range(len(values)):
        value = values[row]
        found = ODD if bits[row] < 0 else significant(value)
        if found == ODD:
            read[row] = float(f"{value:g}")
            continue
        power = found % 100
        digits = found // 100
        read[row] = digits * POWERS[power - 5] if power > 5 else digits / POWERS[5 - power]


def are_plain(texts: list[str]) -> bool:
    """Return whether all texts can stand in a CSV file as they are: none has to be quoted, or is
    taken for a formula by its first letter.
    """
    for text in texts:
        for place in range(len(text)):
            letter = ord(text[place])
            if letter in (COMMA, QUOTE, NEW_LINE, RETURN):
                return False
            if place == 0 and letter in (SHIELD, EQUALS, PLUS, MINUS, AT):
                return False
    return True


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
        self.add_part(text, 0, len(text))

    def add_part(self, source: bytes, begin: int, end: int) -> None:
        """Append a part of a text."""
        self.make_room(end - begin)
        data = self.data
        size = self.size
        for place in range(begin, end):
            data[size] = source[place]
            size += 1
        self.size = size

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


class WordCells(Cells):
    """Texts, perhaps each in many rows; ``which`` tells the place of a row's.

    They are kept one behind the other, since texts that lie scattered take long to look at.
    """

    def __init__(self, words: Sequence[str], which: Any) -> None:
        self.which = which
        self.text = "".join(words).encode()
        self.data = self.text
        self.ends = array("q", bytes(8 * (len(words) + 1)))
        self.find_ends(list(words))

    def find_ends(self, words: list[str]) -> None:
        """Note where each text ends."""
        is_ascii = self.text.isascii()
        end = 0
        for place in range(len(words)):
            word = words[place]
            end += len(word) if is_ascii else len(word.encode())
            self.ends[place + 1] = end

    def write(self, out: Letters, row: int) -> None:
        word = self.which[row]
        out.add_part(self.data, self.ends[word], self.ends[word + 1])


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
    """Numbers with six decimals as C's ``%.6f`` writes them, nothing for NaN."""

    def __init__(self, values: Any) -> None:
        self.values = values
        self.bits = values.view("q")

    def write(self, out: Letters, row: int) -> None:
        value = self.values[row]
        is_negative = self.bits[row] < 0
        micros = millionths(value, is_negative)
        if micros != ODD:
            out.make_room(LONGEST)
            if is_negative:
                out.add_letter(MINUS)
            whole = micros // 1_000_000
            rest = micros - whole * 1_000_000
            out.add_whole(whole)
            if rest == 0:
                out.add(NO_FRACTION)
            else:
                out.add_letter(POINT)
                out.add_digits(rest, 6)
        elif value == value:
            out.add(f"{value:.6f}".encode())


class GeneralCells(Cells):
    """Numbers with six significant digits, as ``%g`` writes them."""

    def __init__(self, values: Any) -> None:
        self.values = values
        self.bits = values.view("q")

    def write(self, out: Letters, row: int) -> None:
        value = self.values[row]
        found = ODD if self.bits[row] < 0 else significant(value)
        if found == ODD:
            out.add(f"{value:g}".encode())
        else:
            power = found % 100
            digits = found // 100

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
