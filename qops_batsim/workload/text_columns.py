"""Tables of text in columns, and what their cells mean: counts, durations, dates."""

from __future__ import annotations

import codecs
import csv
import io
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
from numpy.typing import NDArray

from qops_batsim.errors import InputError, shown
from qops_batsim.limits import MAX_ODD_LINES, MAX_PROCESSORS, MAX_SECONDS
from qops_batsim.workload.log import Malformed, Words
from qops_batsim.workload.text_values import (
    ISO,
    Booleans,
    Dates,
    Floats,
    in_zone,
    iso_seconds,
    read_count,
    read_date,
    read_duration,
    written_as,
)

Integers = NDArray[np.signedinteger[Any]]


_NEWLINE = ord("\n")
_BLOCK = 1 << 20
_LONGEST_WORD = 1000
_FIRST = np.array([(1 << 8 * count) - 1 for count in range(9)], np.uint64)
"""Bits of the first so many letters of eight."""
_ODD = np.uint64(0x9E3779B97F4A7C15)
_CELL_END = "\x1f"
_SECONDS = np.array([864000, 86400, 36000, 3600, 600, 60, 10, 1], np.float64)
"""What each digit of dd-hh:mm:ss counts."""
_NO_ENDS = str.maketrans("\n\x1f", "  ")


class Content:
    """The bytes of a table, also as an array of letters."""

    def __init__(self, content: bytes) -> None:
        end = len(content)
        while end and content[end - 1] == _NEWLINE:
            end -= 1
        # One copy of what may be a gigabyte.
        self.whole = b"".join([memoryview(content)[:end], b"\n", bytes(8)])
        self.letters = np.frombuffer(self.whole, np.uint8)[: end + 1]
        self.eights = np.ndarray((len(self.whole) - 7,), "<u8", self.whole, strides=(1,))
        """The eight bytes from each position on, as one number each."""


class TextTable:
    """Rows of a text table in columns of cells, by the names in its header.

    ``lines`` are the lines of the file, from 1, in which rows end, ``malformed`` the rows that are
    none, or have a cell that is not what it should be; the latter are marked in ``bad``.
    """

    def __init__(
        self,
        source: str,
        header: Mapping[str, int],
        content: Content,
        ends: Integers,
        lines: Integers,
        malformed: list[Malformed],
    ) -> None:
        self.source = source
        self.header = dict(header)
        self.lines = lines
        self.malformed = malformed
        self.repeated: set[str] = set()
        """Names that several columns have; the first counts."""
        self.bad = np.zeros(len(lines), np.bool_)
        self._content = content
        self._ends = ends
        """Where each cell ends, which is one before the next: shape (rows, columns + 1)."""
        self._cells: dict[str, list[str]] = {}

    def __contains__(self, name: object) -> bool:
        return name in self.header

    def __len__(self) -> int:
        return len(self.lines)

    def part(self, kept: Booleans | Integers) -> TextTable:
        """Return a table of some of the rows."""
        where = self._content, self._ends[kept], self.lines[kept], self.malformed
        return TextTable(self.source, self.header, *where)

    def places(self, name: str) -> tuple[Integers, Integers]:
        """Return where the cells of a column begin and end in the content."""
        column = self.header[name]
        return self._ends[:, column] + 1, self._ends[:, column + 1]

    def cells(self, name: str) -> list[str]:
        """Return the cells of a column."""
        if name not in self._cells:
            whole = self._content.whole
            spans = zip(*(each.tolist() for each in self.places(name)), strict=True)
            # No cell holds the end of a line.
            joined = b"\n".join([whole[begin:end] for begin, end in spans]).decode()
            self._cells[name] = joined.split("\n") if len(self) else []
        return self._cells[name]

    def having(self, name: str, letter: bytes) -> Booleans:
        """Return which cells of a column have a letter."""
        places = _places(self._content.letters, letter)
        begins, ends = self.places(name)
        found: Booleans = np.searchsorted(places, begins) < np.searchsorted(places, ends)
        return found

    def words(self, name: str) -> Words:
        """Return a column as places among the texts that are in it."""
        begins, ends = self.places(name)
        sizes = ends - begins
        longest = int(sizes.max(initial=0))
        if longest > _LONGEST_WORD:
            return Words.of(self.cells(name))
        parts = []
        keys = sizes.astype(np.uint64)
        for offset in range(0, longest, 8):
            left = np.clip(sizes - offset, 0, 8)
            # Behind the end of a cell, what is read does not count.
            at = np.minimum(begins + offset, len(self._content.eights) - 1)
            part = self._content.eights[at] & _FIRST[left]
            keys = (keys ^ part) * _ODD
            keys ^= keys >> np.uint64(29)
            parts.append(part)
        _, first, places = np.unique(keys, return_index=True, return_inverse=True)
        alike = all((part == part[first][places]).all() for part in parts)
        if not (alike and (sizes == sizes[first][places]).all()):  # Two texts have one key.
            return Words.of(self.cells(name))
        return Words(places, self.part(first).cells(name))

    def letters(self, name: str, size: int) -> tuple[NDArray[np.uint8], Booleans]:
        """Return the letters of those cells of a column that have so many, and which they are."""
        begins, ends = self.places(name)
        fits = ends - begins == size
        whole = self._content.whole
        texts = np.ndarray((max(len(whole) - size, 0),), f"V{size}", whole, strides=(1,))
        found = texts[begins[fits]].view(np.uint8).reshape(-1, size)
        return np.asfortranarray(found), fits

    def reading(self, name: str, text: str) -> Booleans:
        """Return which cells of a column are a text, none if it is empty."""
        wanted = np.frombuffer(text.encode(), np.uint8)
        if not len(wanted):
            return np.zeros(len(self), np.bool_)
        letters, found = self.letters(name, len(wanted))
        found[found] = (letters == wanted).all(axis=1)
        return found

    def refuse(self, wrong: Booleans, name: str, accepted: str) -> None:
        """Note rows in which a cell is not what is accepted."""
        for row in np.flatnonzero(wrong & ~self.bad)[:MAX_ODD_LINES].tolist():
            problem = f"{name} is {shown(self.cells(name)[row])}; {accepted} is expected"
            self.malformed.append(Malformed(int(self.lines[row]), "value", problem))
        self.bad |= wrong

    def numbers(self, name: str, read: Callable[[str], float | None], accepted: str) -> Floats:
        """Return what each cell of a column means."""
        column = self.words(name)
        meanings = {word: read(word) for word in column.words}
        wrong = column.where(lambda word: meanings[word] is None)
        if wrong.any():
            self.refuse(wrong, name, accepted)
        values = [math.nan if each is None else each for each in meanings.values()]
        return np.array(values, np.float64)[column.places]

    def counts(self, name: str) -> Floats:
        """Return a column of counts of processors; NaN where one is not known."""
        return self.numbers(name, read_count, f"a whole number up to {MAX_PROCESSORS}")

    def durations(self, name: str, unit: float) -> Floats:
        """Return a column of durations (seconds): plain numbers count in a unit of so many."""
        accepted = "a duration such as 90, 30:00, 12:30:00 or 2-12:30:00"
        values, usual = np.empty(len(self)), np.zeros(len(self), np.bool_)
        for form in ("dd:dd:dd", "d-dd:dd:dd", "dd-dd:dd:dd"):
            letters, fits = self.letters(name, len(form))
            fits[fits] = alike = written_as(form, letters)
            digits = letters[alike][:, [place for place, kind in enumerate(form) if kind == "d"]]
            values[fits] = (digits - ord("0")) @ _SECONDS[-digits.shape[1] :]
            usual |= fits
        if not usual.all():
            others = self.part(~usual)
            values[~usual] = others.numbers(name, lambda text: read_duration(text, unit), accepted)
            self.bad[~usual] |= others.bad
        return values

    def dates(self, name: str, zone: ZoneInfo, form: str | None) -> Dates:
        """Return a column of dates (seconds since 1970 in UTC); NaN where one is not known.

        Those without UTC offset are the zone's; ``form`` is how they are written (as for
        ``strftime``), if not ISO 8601 or seconds since 1970.
        """
        size = len(self.lines)
        local, values = np.full(size, math.nan), np.full(size, math.nan)
        wrong, rest = np.zeros(size, np.bool_), np.ones(size, np.bool_)
        if form is None:
            letters, usual = self.letters(name, len(ISO))
            seconds, fits = iso_seconds(letters)
            usual[usual] = fits
            local[usual] = seconds
            rest = ~usual
        if rest.any():
            others = self.part(rest).words(name)
            read = [read_date(word, form) for word in others.words]
            wrong[rest] = np.array([each is None for each in read], np.bool_)[others.places]
            for column, is_local in ((local, True), (values, False)):
                known = [each[0] if each and each[1] == is_local else math.nan for each in read]
                column[rest] = np.array(known, np.float64)[others.places]
        later, missing = np.zeros(size), np.zeros(size, np.bool_)
        known = ~np.isnan(local)
        if known.any():
            values[known], later[known], missing[known] = in_zone(local[known], zone)
        wrong |= np.abs(values) > MAX_SECONDS
        if wrong.any():
            how = f"a date as {form}" if form else "an ISO date and time or seconds since 1970"
            self.refuse(wrong, name, how)
        return Dates(values, later, missing)


def read_table(
    content: bytes,
    source: str,
    what: str,
    *,
    delimiter: str,
    quoted: bool,
    rest: Sequence[str] = (),
) -> TextTable:
    """Read a table with a header; O(bytes).

    Lines that repeat the header are passed over, as files that were joined have them. Of the
    columns in ``rest`` the first that there is may hold the delimiter itself.
    """
    content = content.removeprefix(codecs.BOM_UTF8)
    if not _is_utf8(content):
        content = content.decode("latin-1").encode()
    if b"\r" in content:
        content = content.replace(b"\r\n", b"\n")
    malformed: list[Malformed] = []

    def refuse(line: int, row: Sequence[str], expected: int) -> None:
        found = f"{len(row)} cells ({shown(delimiter.join(row))})"
        malformed.append(Malformed(line, "columns", f"{found}, the header has {expected}"))
        if len(malformed) > MAX_ODD_LINES:
            raise InputError(f"{source}: more than {MAX_ODD_LINES} lines are no records")

    if quoted and (b'"' in content or not delimiter.isascii()):
        # The same cells, written so that they can be found at once.
        where = f"{what} is expected", source
        content, lines = _without_quotes(content, delimiter, refuse, where)
        header, kept, cells, _ = _split(content, _CELL_END, (), refuse)
    else:
        header, kept, cells, lines = _split(content, delimiter, rest, refuse)
    places = {name: header.index(name) for name in header}
    table = TextTable(source, places, kept, cells[1:], lines[1 : len(cells)], malformed)
    headers = table.reading(header[0], header[0])
    if headers.any():
        table = table.part(~headers)
    table.repeated = {name for name in header if header.count(name) > 1}
    return table


def _is_utf8(content: bytes) -> bool:
    """Tell whether bytes are UTF-8, without a text of them all."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        for begin in range(0, len(content), _BLOCK):
            decoder.decode(content[begin : begin + _BLOCK])
        decoder.decode(b"", final=True)
    except UnicodeDecodeError:
        return False
    return True


def _places(content: bytes | NDArray[np.uint8], wanted: bytes) -> NDArray[np.int32]:
    """Return where some letters are; a block at a time, which stays in the caches."""
    letters = np.frombuffer(content, np.uint8)  # of an array, the same again
    found = [np.empty(0, np.int32)]
    for begin in range(0, len(letters), _BLOCK):
        part = letters[begin : begin + _BLOCK]
        alike = np.logical_or.reduce([part == letter for letter in wanted])
        found.append((np.flatnonzero(alike) + begin).astype(np.int32))
    return np.concatenate(found)


_Refuse = Callable[[int, Sequence[str], int], None]
"""Notes a line that is no row: its number, its cells, and how many there should be."""


def _split(
    content: bytes, delimiter: str, rest: Sequence[str], refuse: _Refuse
) -> tuple[list[str], Content, Integers, Integers]:
    """Return the header, where cells of rows end (the first one begins), and the rows' lines.

    A line of too many cells is a row if one column is in ``rest``.
    """
    kept = Content(content)
    ends = _places(kept.letters, delimiter.encode() + b"\n")
    breaks = np.flatnonzero(kept.letters[ends] == _NEWLINE)
    counts = np.diff(breaks, prepend=-1)
    begins = np.concatenate([[-1], ends[breaks[:-1]]]).astype(ends.dtype)
    header = kept.whole[: ends[breaks[0]]].decode().split(delimiter)
    names = [name.strip() for name in header]
    size = len(header)
    extra = next((names.index(name) for name in rest if name in names), None)
    rows, cells = np.ones(len(breaks), np.bool_), np.ones(len(ends), np.bool_)
    for line in np.flatnonzero(counts != size).tolist():
        last = int(breaks[line]) + 1
        first = last - int(counts[line])
        if last - first > size and extra is not None:
            cells[first + extra : last - size + extra] = False
            continue
        rows[line] = False
        cells[first:last] = False
        text = kept.whole[begins[line] + 1 : ends[last - 1]].decode()
        if text.replace(delimiter, "").strip():
            refuse(line + 1, text.split(delimiter), size)
    if not cells.all():
        ends = ends[cells]
    found = np.column_stack([begins[rows], ends.reshape(-1, size)])
    return names, kept, found, np.flatnonzero(rows) + 1


def _without_quotes(
    content: bytes, delimiter: str, refuse: _Refuse, where: tuple[str, str]
) -> tuple[bytes, Integers]:
    """Return the rows of a table with quotes, and the lines in which they end."""
    reader = csv.reader(io.StringIO(content.decode(), newline=""), delimiter=delimiter)
    rows: list[str] = []
    lines: list[int] = []
    size = 0
    try:
        for row in filter(None, reader):
            size = size or len(row)
            if len(row) != size:
                if "".join(row).strip():
                    refuse(reader.line_num, row, size)
                continue
            rows.append(_CELL_END.join(cell.translate(_NO_ENDS) for cell in row))
            lines.append(reader.line_num)
    except csv.Error as error:
        expected, source = where
        raise InputError(f"{source}: line {reader.line_num}: {error}; {expected}") from None
    return "\n".join(rows).encode(), np.array(lines, np.int64)
