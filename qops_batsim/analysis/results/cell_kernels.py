"""Compiled loops over the bytes of a CSV file; for a short one, they run as they stand."""

from __future__ import annotations

import math

import numpy as np

from qops_batsim.kernels import lean_kernel

QUOTE, COMMA, NEWLINE = b'",\n'
_SPACE, _PLUS, _MINUS, _POINT, _ZERO, _E = b" +-.0e"

_EXACT = 2**53
"""Up to here floats hold every whole number."""

_DIGITS, _POWER = 18, 22
"""Most digits that are surely no overflow, and the largest power of ten that a float holds."""

POWERS = 10.0 ** np.arange(_POWER + 1)
"""Powers of ten, all exact."""


@lean_kernel
def find_cells(characters: np.ndarray, begin: int, ends: np.ndarray) -> bool:
    """Note where each cell ends, as ``ends[column, row]``; False where a table is unusual.

    That is: rows of other lengths, quotes but around a whole cell, or newlines within.
    """
    columns = len(ends)
    column = row = 0
    quoted = False
    first = begin  # of the cell
    for at in range(begin, len(characters)):
        letter = characters[at]
        if letter > COMMA:
            continue
        if letter == QUOTE:
            if quoted:
                quoted = False
                if characters[at + 1] not in (QUOTE, COMMA, NEWLINE):
                    return False
            elif at == first or characters[at - 1] == QUOTE:
                # Doubled, a quote closes and opens again.
                quoted = True
            else:
                return False
        elif letter in (COMMA, NEWLINE):
            if quoted:
                if letter == NEWLINE:
                    return False
                continue
            if (column == columns - 1) != (letter == NEWLINE):
                return False
            ends[column, row] = at
            column += 1
            if letter == NEWLINE:
                column = 0
                row += 1
            first = at + 1
        elif letter < _SPACE:
            return False
    return not quoted and column == 0


@lean_kernel
def copy_lines(
    characters: np.ndarray, begins: np.ndarray, ends: np.ndarray, to: np.ndarray
) -> None:
    """Write cells one behind the other, with a newline behind each."""
    place = 0
    for row in range(len(begins)):
        for at in range(begins[row], ends[row]):
            to[place] = characters[at]
            place += 1
        to[place] = NEWLINE
        place += 1


@lean_kernel
def read_numbers(
    characters: np.ndarray,
    begins: np.ndarray,
    ends: np.ndarray,
    powers: np.ndarray,
    values: np.ndarray,
    unread: np.ndarray,
) -> None:
    """Read cells such as ``-12.345`` and ``1.2e+07``, correctly rounded; NaN for empty ones.

    What is written in other ways, or has more digits than a float, is ``unread``.
    """
    for row in range(len(begins)):
        at, end = begins[row], ends[row]
        values[row] = math.nan
        unread[row] = at < end
        negative = at < end and characters[at] == _MINUS
        if negative:
            at += 1
        first = at
        number = 0
        point = -1
        while at < end and (_ZERO <= characters[at] <= _ZERO + 9 or characters[at] == _POINT):
            if characters[at] != _POINT:
                number = number * 10 + (int(characters[at]) - _ZERO)
            elif point >= 0:
                break
            else:
                point = at
            at += 1
            if at - first > _DIGITS:
                break
        digits = at - first if point < 0 else at - first - 1
        power = 0 if point < 0 else point + 1 - at
        if at + 2 < end and characters[at] == _E:
            sign = characters[at + 1]
            exponent = 0
            at += 2
            while at < end and _ZERO <= characters[at] <= _ZERO + 9 and exponent <= _POWER:
                exponent = exponent * 10 + (int(characters[at]) - _ZERO)
                at += 1
            if sign != _PLUS and sign != _MINUS:
                at = -1
            power += exponent if sign == _PLUS else -exponent
        if at == end and digits > 0 and number <= _EXACT and -_POWER <= power <= _POWER:
            value = number * powers[power] if power >= 0 else number / powers[-power]
            values[row] = -value if negative else value
            unread[row] = False


@lean_kernel
def read_intervals(
    characters: np.ndarray, rows: np.ndarray, first: np.ndarray, last: np.ndarray, highest: int
) -> int:
    """Read sets of whole numbers such as ``0-3 5``, one a line; return how many intervals.

    Or -1, if one is not of ascending maximal intervals up to the ``highest`` number.
    """
    count = row = number = digits = 0
    low = -1  # before a hyphen
    previous = -2  # the last number of the line
    for at in range(len(characters)):
        letter = characters[at]
        if _ZERO <= letter <= _ZERO + 9:
            number = number * 10 + (int(letter) - _ZERO)
            digits += 1
            if digits > _DIGITS:
                return -1
            continue
        if letter == _MINUS:
            if digits == 0 or low >= 0:
                return -1
            low = number
        elif digits > 0 and letter in (_SPACE, NEWLINE):
            begin = number if low < 0 else low
            if begin <= previous + 1 or number < begin or number > highest:
                return -1
            rows[count], first[count], last[count] = row, begin, number
            count += 1
            previous = number
            low = -1
        elif letter != NEWLINE or previous >= 0 or low >= 0:
            return -1
        if letter == NEWLINE:
            row += 1
            previous = -2
        number = digits = 0
    return count
