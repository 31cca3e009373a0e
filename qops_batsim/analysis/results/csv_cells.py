"""Finding the cells of a CSV file in bulk, and reading numbers from them.

A file is taken a block of rows at a time. Where its cells end is found by comparing all its bytes
at once; numbers are read eight digits at a time, as one integer of 64 bits. That knows the usual
ways to write a table. For all others there is :class:`Unusual`, which makes the caller take a
general reader.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Bytes = npt.NDArray[np.uint8]
Words = npt.NDArray[np.uint64]
Integers = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Booleans = npt.NDArray[np.bool_]

BLOCK = 1 << 20
"""Bytes of a block, which should fit into the caches with the columns made from it."""

_MARGIN = 16
_QUOTE, _COMMA, _MINUS, _NEWLINE = b'",-\n'


class Unusual(Exception):
    """A table is written in a way that is not known here."""


class Block(NamedTuple):
    """Some rows of a table.

    ``ends`` has the position behind each cell: shape (columns, rows). ``words[i]`` are the
    eight bytes from position i on.
    """

    characters: Bytes
    words: Words
    ends: Integers

    def begins(self, column: int) -> Integers:
        """Return where the cells of a column begin."""
        begins: Integers = np.roll(self.ends[-1], 1) if column == 0 else self.ends[column - 1]
        begins = begins + 1
        begins[:1] = begins[:1] if column else _MARGIN
        return begins


def blocks(content: bytes, begin: int, columns: int) -> Iterator[Block]:
    """Yield the rows of a table from a position on; O(bytes)."""
    while begin < len(content):
        end = content.rfind(b"\n", begin, begin + BLOCK) + 1
        if not end:
            end = content.find(b"\n", begin) + 1 or len(content)
        rows = content[begin:end]
        # The margin lets a word end at the first cell.
        data = b"".join([bytes(_MARGIN), rows, b"" if rows.endswith(b"\n") else b"\n"])
        characters = np.frombuffer(data, np.uint8)
        words: Words = np.ndarray((len(data) - 7,), "<u8", data, strides=(1,))
        yield Block(characters, words, _ends(characters, columns))
        begin = end


def _ends(characters: Bytes, columns: int) -> Integers:
    special = np.flatnonzero(characters[_MARGIN:] <= _COMMA) + _MARGIN
    which = characters[special]
    if (which[which < ord(" ")] != _NEWLINE).any():
        raise Unusual
    separators = special[(which == _COMMA) | (which == _NEWLINE)]
    quotes = special[which == _QUOTE]
    if len(quotes):
        separators = _outside_quotes(characters, separators, quotes)
    if len(separators) % columns:
        raise Unusual
    ends: Integers = separators.reshape(-1, columns).T.copy()
    if np.count_nonzero(which == _NEWLINE) != ends.shape[1]:
        raise Unusual
    if (characters[ends[-1]] != _NEWLINE).any():
        raise Unusual
    return ends


def _outside_quotes(characters: Bytes, separators: Integers, quotes: Integers) -> Integers:
    """Return the separators that no quotes enclose."""
    opening, closing = quotes[::2], quotes[1::2]
    if len(opening) != len(closing):
        raise Unusual
    before, after = characters[opening - 1], characters[closing + 1]
    before[opening == _MARGIN] = _NEWLINE
    # A quote within quotes is doubled: it closes, and opens again at once.
    for neighbours in (before, after):
        if not np.isin(neighbours, (_QUOTE, _COMMA, _NEWLINE)).all():
            raise Unusual
    first, last = np.searchsorted(separators, opening), np.searchsorted(separators, closing)
    if (first == last).all():
        return separators
    size = len(separators) + 1
    depth = np.cumsum(np.bincount(first, minlength=size) - np.bincount(last, minlength=size))
    outside: Integers = separators[depth[:-1] == 0]
    return outside


def text(block: Block, column: int) -> bytes:
    """Return the cells of a column, quoted as they are, with a newline behind each."""
    begins, ends = block.begins(column), block.ends[column]
    lengths = ends - begins + 1
    behind = np.cumsum(lengths)
    places = np.arange(behind[-1] if len(behind) else 0)
    places += np.repeat(begins - behind + lengths, lengths)
    found = block.characters[places]
    found[behind - 1] = _NEWLINE
    return found.tobytes()


def choices(block: Block, column: int, known: Sequence[str]) -> npt.NDArray[np.int8]:
    """Return which of some words, empty or of eight letters up, each cell is; -1 for none."""
    begins, ends = block.begins(column), block.ends[column]
    found = np.full(len(ends), -1, np.int8)
    for index, word in enumerate(known):
        letters = word.encode()
        same = ends - begins == len(letters)
        for offset in {*range(0, len(letters) - 7, 8), max(len(letters) - 8, 0)} if word else ():
            expected = int.from_bytes(letters[offset : offset + 8], "little")
            same[same] = block.words[begins[same] + offset] == np.uint64(expected)
        found[same] = index
    return found


def numbers(block: Block, column: int) -> tuple[Floats, Booleans]:
    """Return a column as numbers, correctly rounded, and which cells are empty: these are NaN."""
    begins, ends = block.begins(column), block.ends[column]
    empty = begins == ends
    values, rest = np.full(len(ends), np.nan), ~empty
    for kind, letter, place in _KINDS:
        if not rest.any():
            break
        alike = rest & (block.characters[ends - place] == letter) if letter else rest
        rows = slice(None) if alike.all() else np.flatnonzero(alike)
        found, read = kind(block, begins[rows], ends[rows])
        values[rows] = np.where(read, found, np.nan)
        rest[rows] = ~read
    if rest.any():
        values[rest] = _others(block, begins[rest], ends[rest])
    return values, empty


def whole_numbers(lines: bytes, prefix: bytes = b"") -> Integers:
    """Return the whole number of up to eight digits behind a prefix in each line; -1 for others."""
    data = bytes(_MARGIN) + lines
    characters = np.frombuffer(data, np.uint8)
    words: Words = np.ndarray((len(data) - 7,), "<u8", data, strides=(1,))
    ends = np.flatnonzero(characters == _NEWLINE)
    begins = np.concatenate([[_MARGIN], ends[:-1] + 1])[: len(ends)]
    alike = np.ones(len(ends), np.bool_)
    for letter in prefix:
        alike &= characters[begins] == letter
        begins = np.minimum(begins + 1, ends)
    values, read = _whole(Block(characters, words, ends[None]), begins, ends)
    # With zeros in front, it would be another text for the same number.
    read &= alike & ((characters[begins] != ord("0")) | (ends - begins == 1)) & (begins < ends)
    return np.where(read, values, -1.0).astype(np.int64)


ZEROS = np.uint64(0x3030303030303030)
_ZERO_POINT_ZEROS = np.uint64(0x3030303030302E30)
_SECOND = np.uint64(0xFF00)
LAST = np.array([(1 << 64) - (1 << 8 * (8 - count)) for count in range(9)], np.uint64)
"""Bits of the last so many letters of a word."""

_POWERS = 10.0 ** np.arange(23)
"""Powers of ten that floats hold exactly."""


def _six_decimals(block: Block, begins: Integers, ends: Integers) -> tuple[Floats, Booleans]:
    """Read ``-12.345678`` of up to nine digits before the point; tell which cells are such."""
    negative = block.characters[begins] == _MINUS
    widths = ends - begins - negative
    right = block.words[ends - 8] ^ _ZERO_POINT_ZEROS
    left = (block.words[ends - 16] ^ ZEROS) & LAST[np.clip(widths - 8, 0, 8)]
    read = (widths >= 8) & (widths <= 16) & _are_digits(left) & _are_digits(right)
    read &= (right & _SECOND) == 0
    # As read, there is a digit 0 in place of the point.
    before_point = right & np.uint64(0xFF)
    digits = eight_digits(left) * np.uint64(10**7) + eight_digits(right)
    values = (digits - before_point * np.uint64(9 * 10**6)).astype(np.float64) / 1e6
    np.negative(values, out=values, where=negative)
    return values, read


def _whole(block: Block, begins: Integers, ends: Integers) -> tuple[Floats, Booleans]:
    """Read whole numbers of up to eight digits; tell which cells are such."""
    widths = ends - begins
    digits = (block.words[ends - 8] ^ ZEROS) & LAST[np.clip(widths, 0, 8)]
    read = (widths <= 8) & _are_digits(digits)
    return eight_digits(digits).astype(np.float64), read


def _with_exponent(block: Block, begins: Integers, ends: Integers) -> tuple[Floats, Booleans]:
    """Read ``1.2345e+07``, as of dates in ``_machine_states.csv``; tell which cells are such."""
    end = ends - 4
    widths = end - begins
    digits = block.words[np.maximum(end - 8, 0)] ^ ZEROS
    # The point is the second letter; in its place, a digit 0 is read.
    place = np.clip(8 * (9 - widths), 0, 56).astype(np.uint64)
    point = np.uint64(ord(".") ^ ord("0")) << place
    has_point = ((digits ^ point) >> place) & np.uint64(0xFF) == 0
    digits = (digits ^ point) & LAST[np.clip(widths, 0, 8)]
    exponents = block.words[ends - 8] >> np.uint64(32) ^ np.uint64(0x30302B65)
    read = (widths >= 3) & (widths <= 8) & has_point & _are_digits(digits)
    read &= _are_digits(exponents) & (exponents & np.uint64(0xFFFF) == 0)
    decimals = np.clip(widths - 2, 0, 6)
    whole = eight_digits(digits)
    first = block.characters[begins].astype(np.uint64) - np.uint64(ord("0"))
    whole -= first * np.uint64(9) * np.uint64(10) ** decimals.astype(np.uint64)
    power = eight_digits(exponents << np.uint64(32)).astype(np.int64) - decimals
    read &= (power >= 0) & (power < len(_POWERS))
    return whole * _POWERS[np.clip(power, 0, len(_POWERS) - 1)], read


_KINDS = ((_six_decimals, ord("."), 7), (_with_exponent, ord("e"), 4), (_whole, 0, 0))
"""Ways to write a number, with a letter that is so many places before the end."""


def _are_digits(words: Words) -> Booleans:
    """Tell which words have a number from 0 to 9 in each byte."""
    high = (words | (words + np.uint64(0x0606060606060606))) & np.uint64(0xF0F0F0F0F0F0F0F0)
    digits: Booleans = high == 0
    return digits


def eight_digits(words: Words) -> Words:
    """Return the numbers of eight digits whose first one is in the lowest byte."""
    for ones, factor, bits in (
        (0x0F0F0F0F0F0F0F0F, 10 << 8 | 1, 8),
        (0x00FF00FF00FF00FF, 100 << 16 | 1, 16),
        (0x0000FFFF0000FFFF, 10_000 << 32 | 1, 32),
    ):
        # Neighbours become one number: two digits, then four, then eight.
        words = (words & np.uint64(ones)) * np.uint64(factor) >> np.uint64(bits)
    return words


_IN_NUMBERS = np.isin(np.arange(256), np.frombuffer(b"0123456789+-.eEinfa", np.uint8))
NOT_FINITE = ("inf", "-inf", "nan", "-nan")
"""Words for what is no finite number."""
_NOT_FINITE = {word.encode() for word in NOT_FINITE}


def _others(block: Block, begins: Integers, ends: Integers) -> Floats:
    """Read numbers however they are written, some words included."""
    texts = [bytes(block.characters[begin:end]) for begin, end in zip(begins, ends, strict=True)]
    if not _IN_NUMBERS[np.frombuffer(b"".join(texts), np.uint8)].all():
        raise Unusual
    try:
        values = np.array([float(text) for text in texts])
    except ValueError:
        raise Unusual from None
    if not set(itertools.compress(texts, ~np.isfinite(values))) <= _NOT_FINITE:
        raise Unusual
    return values
