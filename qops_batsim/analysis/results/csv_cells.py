"""Finding the cells of a CSV file in bulk, and reading numbers from them.

A file is taken a block of rows at a time, by compiled loops (``cell_kernels``) that know the usual
ways to write a table. For all others there is :class:`Unusual`, which makes the caller take a
general reader.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from qops_batsim.analysis.results.cell_kernels import (
    NEWLINE,
    POWERS,
    copy_lines,
    find_cells,
    read_numbers,
)
from qops_batsim.kernels import interpreted

Bytes = npt.NDArray[np.uint8]
Words = npt.NDArray[np.uint64]
Integers = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Booleans = npt.NDArray[np.bool_]

BLOCK = 1 << 20
"""Bytes to read at once, which should fit into the caches with the columns made from them."""

SHORT = 1 << 17
"""Bytes of a file below which loading compiled loops would take longer than plain Python."""

MARGIN = 8


class Unusual(Exception):
    """A table is written in a way that is not known here."""


class Block(NamedTuple):
    """Some rows of a table; ``ends`` has the position behind each cell: shape (columns, rows)."""

    data: bytes
    ends: Integers
    short: bool

    @property
    def characters(self) -> Bytes:
        return np.frombuffer(self.data, np.uint8)

    @property
    def words(self) -> Words:
        """The eight bytes from each position on."""
        return eight_bytes(self.data)

    def begins(self, column: int) -> Integers:
        """Return where the cells of a column begin."""
        begins: Integers = np.roll(self.ends[-1], 1) if column == 0 else self.ends[column - 1]
        begins = begins + 1
        begins[:1] = begins[:1] if column else MARGIN
        return begins


def eight_bytes(data: bytes) -> Words:
    """Return the eight bytes from each position on, as one number each."""
    return np.ndarray((len(data) - 7,), "<u8", data, strides=(1,))


def whole_lines(parts: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the parts of a text, cut anew so that none ends within a line."""
    rest: list[bytes] = []
    for part in parts:
        end = part.rfind(b"\n") + 1
        if end:
            yield b"".join([*rest, part[:end]])
            rest = []
        rest.append(part[end:])
    if any(rest):
        yield b"".join([*rest, b"\n"])


def find_block(lines: bytes, columns: int, *, short: bool) -> Block:
    """Find the cells of some rows; O(bytes)."""
    # The margin lets eight bytes end at the first cell.
    data = bytes(MARGIN) + lines
    characters = np.frombuffer(data, np.uint8)
    ends = np.zeros((columns, np.count_nonzero(characters == NEWLINE)), np.int64)
    find: Callable[..., bool] = interpreted(find_cells) if short else find_cells
    if not find(data if short else characters, MARGIN, ends):
        raise Unusual
    return Block(data, ends, short)


def text(block: Block, column: int) -> bytes:
    """Return the cells of a column, quoted as they are, with a newline behind each."""
    begins, ends = block.begins(column), block.ends[column]
    if block.short:
        places = zip(begins.tolist(), ends.tolist(), strict=True)
        return b"".join([block.data[begin:end] + b"\n" for begin, end in places])
    found = np.empty(int((ends - begins).sum()) + len(ends), np.uint8)
    copy_lines(block.characters, begins, ends, found)
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
    values, unread = np.empty(len(ends)), np.zeros(len(ends), np.bool_)
    if block.short:
        places = begins.tolist(), ends.tolist(), POWERS.tolist()
        interpreted(read_numbers)(block.data, *places, values, unread)
    else:
        read_numbers(block.characters, begins, ends, POWERS, values, unread)
    if unread.any():
        values[unread] = _others(block, begins[unread], ends[unread])
    return values, begins == ends


def whole_numbers(lines: bytes, prefix: bytes = b"") -> Integers:
    """Return the whole number of up to eight digits behind a prefix in each line; -1 for others."""
    data = bytes(MARGIN) + lines
    characters = np.frombuffer(data, np.uint8)
    ends = np.flatnonzero(characters == NEWLINE)
    begins = np.concatenate([[MARGIN], ends[:-1] + 1])[: len(ends)]
    alike = np.ones(len(ends), np.bool_)
    for letter in prefix:
        alike &= characters[begins] == letter
        begins = np.minimum(begins + 1, ends)
    widths = ends - begins
    values, are_digits = eight_digits(eight_bytes(data), ends, np.minimum(widths, 8))
    # With zeros in front, it would be another text for the same number.
    alike &= are_digits & (widths > 0) & (widths <= 8)
    alike &= (characters[begins] != ord("0")) | (widths == 1)
    return np.where(alike, values, -1)


_ZEROS = np.uint64(0x3030303030303030)
_LAST = np.array([(1 << 64) - (1 << 8 * (8 - count)) for count in range(9)], np.uint64)
"""Bits of the last so many letters of eight."""


def eight_digits(words: Words, ends: Integers, widths: Integers) -> tuple[Integers, Booleans]:
    """Return the numbers of up to eight letters that end somewhere, and which are all digits."""
    digits = (words[ends - 8] ^ _ZEROS) & _LAST[widths]
    high = (digits | (digits + np.uint64(0x0606060606060606))) & np.uint64(0xF0F0F0F0F0F0F0F0)
    for ones, factor, bits in (
        (0x0F0F0F0F0F0F0F0F, 10 << 8 | 1, 8),
        (0x00FF00FF00FF00FF, 100 << 16 | 1, 16),
        (0x0000FFFF0000FFFF, 10_000 << 32 | 1, 32),
    ):
        # Neighbours become one number: two digits, then four, then eight.
        digits = (digits & np.uint64(ones)) * np.uint64(factor) >> np.uint64(bits)
    return digits.astype(np.int64), high == 0


_IN_NUMBERS = np.isin(np.arange(256), np.frombuffer(b"0123456789+-.eEinfa", np.uint8))
NOT_FINITE = ("inf", "-inf", "nan", "-nan")
"""Words for what is no finite number."""
_NOT_FINITE = {word.encode() for word in NOT_FINITE}


def _others(block: Block, begins: Integers, ends: Integers) -> Floats:
    """Read numbers however they are written, some words included."""
    texts = [
        block.data[begin:end] for begin, end in zip(begins.tolist(), ends.tolist(), strict=True)
    ]
    if not _IN_NUMBERS[np.frombuffer(b"".join(texts), np.uint8)].all():
        raise Unusual
    try:
        values = np.array([float(text) for text in texts])
    except ValueError:
        raise Unusual from None
    if not set(itertools.compress(texts, ~np.isfinite(values))) <= _NOT_FINITE:
        raise Unusual
    return values
