"""Compiled loops that write the cells of one column behind the cells of the columns before it.

``ends`` holds where in ``buffer`` each row ends so far; a separator follows every cell. Texts are
UTF-8 bytes, one after the other, with the place at which each begins.
"""

from __future__ import annotations

import math

import numpy as np

from qops_batsim.kernels import lean_kernel

_ZERO, _POINT, _MINUS, _PLUS, _SPACE, _E = 48, 46, 45, 43, 32, 101

_SPLITTER = 134217729.0
"""2**27 + 1: what splits a float into two of half the digits (Dekker 1971)."""


@lean_kernel
def put_texts(
    buffer: np.ndarray,
    ends: np.ndarray,
    separator: int,
    content: np.ndarray,
    begins: np.ndarray,
    which: np.ndarray,
) -> None:
    """Write the text of the number that ``which`` tells for each row."""
    for row in range(len(ends)):
        at = ends[row]
        for place in range(begins[which[row]], begins[which[row] + 1]):
            buffer[at] = content[place]
            at += 1
        buffer[at] = separator
        ends[row] = at + 1


@lean_kernel
def put_whole(buffer: np.ndarray, ends: np.ndarray, separator: int, values: np.ndarray) -> None:
    """Write whole numbers from 0 up."""
    for row in range(len(ends)):
        at = _put_digits(buffer, ends[row], values[row], 1)
        buffer[at] = separator
        ends[row] = at + 1


@lean_kernel
def put_fixed(buffer: np.ndarray, ends: np.ndarray, separator: int, values: np.ndarray) -> None:
    """Write numbers below 2**63 as ``%.6f`` does, and nothing for NaN."""
    for row in range(len(ends)):
        at = ends[row]
        value = values[row]
        if value == value:
            if math.copysign(1.0, value) < 0.0:
                buffer[at] = _MINUS
                at += 1
                value = -value
            whole = int(value)
            millionths = _millionths(value - whole)
            if millionths == 1_000_000:
                whole += 1
                millionths = 0
            at = _put_digits(buffer, at, whole, 1)
            buffer[at] = _POINT
            if millionths == 0:
                for place in range(at + 1, at + 7):
                    buffer[place] = _ZERO
                at += 7
            else:
                at = _put_digits(buffer, at + 1, millionths, 6)
        buffer[at] = separator
        ends[row] = at + 1


@lean_kernel
def put_general(buffer: np.ndarray, ends: np.ndarray, separator: int, values: np.ndarray) -> None:
    """Write whole numbers from 0 up as ``%g`` does: with six digits."""
    for row in range(len(ends)):
        at = ends[row]
        digits, unit, exponent = values[row], 1, 5
        while digits // unit >= 1_000_000:
            unit *= 10
            exponent += 1
        if unit == 1:
            at = _put_digits(buffer, at, digits, 1)
        else:
            at = _put_exponential(buffer, at, _quotient(digits, unit), exponent)
        buffer[at] = separator
        ends[row] = at + 1


@lean_kernel
def put_intervals(
    buffer: np.ndarray,
    ends: np.ndarray,
    separator: int,
    offsets: np.ndarray,
    first: np.ndarray,
    last: np.ndarray,
) -> None:
    """Write sets of hosts as Batsim does: ``0-3 5``."""
    for row in range(len(ends)):
        at = ends[row]
        for place in range(offsets[row], offsets[row + 1]):
            if place > offsets[row]:
                buffer[at] = _SPACE
                at += 1
            at = _put_digits(buffer, at, first[place], 1)
            if last[place] > first[place]:
                buffer[at] = _MINUS
                at = _put_digits(buffer, at + 1, last[place], 1)
        buffer[at] = separator
        ends[row] = at + 1


@lean_kernel
def close_up(buffer: np.ndarray, begins: np.ndarray, ends: np.ndarray) -> int:
    """Move rows together, to the front of the buffer; return where the last one ends."""
    at = 0
    for row in range(len(ends)):
        for place in range(begins[row], ends[row]):
            buffer[at] = buffer[place]
            at += 1
    return at


@lean_kernel
def _put_digits(buffer: np.ndarray, at: int, number: int, least: int) -> int:
    """Write a whole number with at least so many digits; return where it ends."""
    digits, rest = 1, number // 10
    while rest:
        digits += 1
        rest //= 10
    digits = max(digits, least)
    for place in range(at + digits - 1, at - 1, -1):
        buffer[place] = _ZERO + number % 10
        number //= 10
    return at + digits


@lean_kernel
def _put_exponential(buffer: np.ndarray, at: int, digits: int, exponent: int) -> int:
    """Write six digits, or 1,000,000, as ``1.5e+06``; return where that ends."""
    if digits == 1_000_000:
        digits, exponent = 100_000, exponent + 1
    _put_digits(buffer, at + 1, digits, 6)
    buffer[at] = buffer[at + 1]
    buffer[at + 1] = _POINT
    at += 6
    while buffer[at] == _ZERO:
        at -= 1
    if buffer[at] != _POINT:
        at += 1
    buffer[at] = _E
    buffer[at + 1] = _PLUS
    return _put_digits(buffer, at + 2, exponent, 2)


@lean_kernel
def _quotient(number: int, unit: int) -> int:
    """Divide whole numbers; what lies halfway goes to the even one."""
    quotient, twice = number // unit, number % unit * 2
    if twice > unit or (twice == unit and quotient % 2):
        quotient += 1
    return quotient


@lean_kernel
def _millionths(part: float) -> int:
    """Round a part of one to whole millionths, exactly; what lies halfway goes to the even one."""
    product = part * 1e6
    split = _SPLITTER * part
    high = split - (split - part)
    # Both products are exact, so this is what the rounding of the product has lost.
    lost = (high * 1e6 - product) + (part - high) * 1e6
    millionths = int(product)
    beyond_half = (product - millionths - 0.5) + lost
    if beyond_half > 0.0 or (beyond_half == 0.0 and millionths % 2):
        millionths += 1
    return millionths
