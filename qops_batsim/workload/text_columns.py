"""Tables of text in columns, and what their cells mean: counts, durations, dates."""

from __future__ import annotations

import codecs
import csv
import io
import math
from collections.abc import Callable, Sequence
from typing import Any, Literal
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
)

Integers = NDArray[np.signedinteger[Any]]


_NEWLINE = ord("\n")
_BLOCK = 1 << 20
_LONGEST_WORD = 1000
_FIRST = np.array([(1 << 8 * count) - 1 for count in range(9)], np.uint64)
"""Bits of the first so many letters of eight."""
_ODD = np.uint64(0x9E3779B97F4A7C15)
_CELL_END = "\x1f"
_NO_ENDS = str.maketrans("\n\x1f", "  ")


class Content:
    """The bytes of a table, as letters and as a text with a letter for each byte."""

    def __init__(self, content: bytes) -> None:
        content += bytes(8)
        self.letters = np.frombuffer(content, np.uint8)
        self.eights = np.ndarray((len(content) - 7,), "<u8", content, strides=(1,))
        """The eight bytes from each position on, as one number each."""
        self.text = content.decode("latin-1")


class TextTable:
    """Rows of a text table in columns of cells, by the names in its header.

    ``lines`` are the lines of the file, from 1, in which rows end, ``malformed`` the rows that are
    none, or have a cell that is not what it should be; the latter are marked in ``bad``.
    """

    def __init__(
        self,
        source: str,
        header: Sequence[str],
        content: Content,
        ends: Integers,
        lines: Integers,
        malformed: list[Malformed],
    ) -> None:
        self.source = source
        self.header = {name: place for place, name in enumerate(header)}
        self.lines = lines
        self.malformed = malformed
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
        return TextTable(self.source, tuple(self.header), *where)

    def places(self, name: str) -> tuple[Integers, Integers]:
        """Return where the cells of a column begin and end in the content."""
        column = self.header[name]
        return self._ends[:, column] + 1, self._ends[:, column + 1]

    def cells(self, name: str) -> list[str]:
        """Return the cells of a column."""
        if name not in self._cells:
            text = self._content.text
            begins, ends = self.places(name)
            cells = [
                text[begin:end] for begin, end in zip(begins.tolist(), ends.tolist(), strict=True)
            ]
            if not text.isascii():
                cells = [
                    cell if cell.isascii() else cell.encode("latin-1").decode() for cell in cells
                ]
            self._cells[name] = cells
        return self._cells[name]

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
        return self._content.letters[begins[fits][:, None] + np.arange(size)], fits

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
        letters, usual = self.letters(name, len("hh:mm:ss"))
        fits = (letters[:, [2, 5]] == ord(":")).all(axis=1)
        digits = letters[:, [0, 1, 3, 4, 6, 7]].astype(np.int64) - ord("0")
        fits &= ((digits >= 0) & (digits <= 9)).all(axis=1)
        usual[usual] = fits
        values = np.empty(len(usual))
        values[usual] = digits[fits] @ np.array([36000, 3600, 600, 60, 10, 1])
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
            cells = self.cells(name)
            read: dict[str, tuple[float, bool] | None] = {}
            for place in np.flatnonzero(rest).tolist():
                cell = cells[place]
                if cell not in read:
                    read[cell] = read_date(cell, form)
                meaning = read[cell]
                wrong[place] = meaning is None
                if meaning is not None:
                    (local if meaning[1] else values)[place] = meaning[0]
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
    if not content.isascii():
        try:
            content.decode()
        except UnicodeDecodeError:
            content = content.decode("latin-1").encode()
    if b"\r" in content:
        content = content.replace(b"\r\n", b"\n")
    malformed: list[Malformed] = []
    table = None
    if not (quoted and b'"' in content):
        table = _split(content, delimiter, source, malformed)
    if table is None:
        rows, lines = _rows(content, source, what, delimiter, quoted, rest, malformed)
        # The same cells, written so that they can be found at once.
        usual = "\n".join(_CELL_END.join(cell.translate(_NO_ENDS) for cell in row) for row in rows)
        table = _split(f"{usual}\n".encode(), _CELL_END, source, malformed)
        if table is None:
            raise InputError(f"{source}: holds no row; {what} is expected")
        table.lines = np.array(lines[1:], np.int64)
    name = next(iter(table.header))
    if f"\n{name}{delimiter}".encode() in content:
        table = table.part(np.array([cell != name for cell in table.cells(name)], np.bool_))
    return table


def _split(
    content: bytes, delimiter: str, source: str, malformed: list[Malformed]
) -> TextTable | None:
    """Return a table each of whose lines has as many cells as the header, else None."""
    content = content.rstrip(b"\n") + b"\n"
    line = content.partition(b"\n")[0]
    header = [name.strip() for name in line.decode().split(delimiter)]
    kept = Content(content)
    found = []
    for begin in range(0, len(content), _BLOCK):
        part = kept.letters[begin : begin + _BLOCK]
        places = np.flatnonzero((part == ord(delimiter)) | (part == _NEWLINE))
        found.append((places + begin).astype(np.int32))
    ends = np.concatenate(found)
    if len(ends) % len(header):
        return None
    cells = ends.reshape(-1, len(header))
    breaks = kept.letters[cells[:, -1]] == _NEWLINE
    if not breaks.all() or content.count(b"\n") != len(cells):
        return None
    lines = np.arange(2, len(cells) + 1)
    cells = np.column_stack([cells[:-1, -1], cells[1:]])
    return TextTable(source, header, kept, cells, lines, malformed)


def _rows(
    content: bytes,
    source: str,
    what: str,
    delimiter: str,
    quoted: bool,
    rest: Sequence[str],
    malformed: list[Malformed],
) -> tuple[list[list[str]], list[int]]:
    """Return header and rows of a table, and the lines in which they end."""
    quoting: Literal[0, 3] = csv.QUOTE_MINIMAL if quoted else csv.QUOTE_NONE
    text = io.StringIO(content.decode(), newline="")
    reader = csv.reader(text, delimiter=delimiter, quoting=quoting)
    rows: list[list[str]] = []
    lines: list[int] = []
    extra = None
    try:
        for row in reader:
            if not rows:
                extra = next((row.index(name) for name in rest if name in row), None)
            elif len(row) > len(rows[0]) and extra is not None:
                end = extra + len(row) - len(rows[0]) + 1
                row = [*row[:extra], delimiter.join(row[extra:end]), *row[end:]]
            if row and rows and len(row) != len(rows[0]):
                found = f"{len(row)} cells ({shown(delimiter.join(row))})"
                problem = f"{found}, the header has {len(rows[0])}"
                malformed.append(Malformed(reader.line_num, "columns", problem))
                if len(malformed) > MAX_ODD_LINES:
                    raise InputError(f"{source}: more than {MAX_ODD_LINES} lines are no records")
            elif row:
                rows.append(row)
                lines.append(reader.line_num)
    except csv.Error as error:
        raise InputError(f"{source}: line {reader.line_num}: {error}; {what} is expected") from None
    return rows, lines
