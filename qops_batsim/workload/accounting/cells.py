"""Tables of text in columns, and the meaning of their cells: counts, durations, dates."""

from __future__ import annotations

import codecs
import csv
import io
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

import numpy as np

from qops_batsim.errors import InputError, shown
from qops_batsim.limits import MAX_ODD_LINES, MAX_PROCESSORS, MAX_SECONDS
from qops_batsim.tables import Booleans, Floats, Integers, Words
from qops_batsim.workload.log_records import Malformed, refuse_lines

if TYPE_CHECKING:
    import polars as pl

_UNKNOWN = frozenset(
    {"", "unknown", "none", "none assigned", "n/a", "na", "null", "(null)", "\\n", "nan", "nat"}
    | {"<na>", "-", "-1", "-1.0"}
)
"""Words for a value that is not known, in lower case: of Slurm, SWF, SQL, Python and R."""
_UNLIMITED = frozenset({"unlimited", "infinite"})
NOT_SET = float((1 << 32) - 2)
INFINITE = float((1 << 32) - 1)
"""Numbers by which Slurm means "not set" and "no limit"; those of 64 bits are one as floats."""
_NO_NUMBERS = {NOT_SET: math.nan, INFINITE: math.inf, 2.0**64: math.inf} | {
    60 * NOT_SET: math.nan, 60 * INFINITE: math.inf
}  # fmt: skip
"""The same, also in seconds where the source has minutes."""
_NEVER = NOT_SET, 253402257600.0
"""Slurm's date that is not set, and the last day of the year 9999, which is none in databases."""
NEAR = 14 * 3600.0
"""Most that a time zone moves a date (seconds): Slurm's 0 and "not set" are dates, too."""
_DURATION = re.compile(r"(?:(\d{1,9})-)?(\d{1,9})(?::(\d{1,2}))?(?::(\d{1,2}))?(\.\d+)?")
_MEMORY = re.compile(r"((?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)([KMGTPE]?)B?([cn]?)")
_LEAP_SECOND = re.compile(r"(\d{4}-\d\d-\d\d[T ]\d\d:\d\d):60")
_DAY = 86400
_LONGEST_DATE = 40
_NO_DATE = "0000-00-00"
"""Begin of a date by which databases mean none."""
_ISO = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}:[0-9]{2}$"
_MOST_LINES = 1000
"""Most lines of a row."""
_MOST_EXTRA = 64
"""Most delimiters in the texts of a row."""
_LINE = r"[^\n]*?"
"""Any part of a line."""
_CUT = re.compile(r"[0-9_+.,\[\]-]+")
"""The beginning of a job's number."""
_INNER = "\x1f"
"""Stands for a delimiter within a cell while a line is split."""


def is_none(text: str) -> bool:
    """Return whether a cell's text means that it has no value (``None assigned``, ``(null)`` ...).

    >>> [is_none(text) for text in ("None assigned", " (null)", "NaT", "ada")]
    [True, True, True, False]
    """
    return text.strip().lower() in _UNKNOWN


def special_number(text: str) -> float | None:
    """Return infinity for Slurm's numbers for "no limit", NaN for "not set", None for other texts.

    >>> special_number("4294967295"), special_number("4294967294.0"), special_number("60")
    (inf, nan, None)
    """
    whole = re.fullmatch(r"\d{10,20}(?:\.0*)?|1\.8446744073709552e\+19", text.strip())
    return _NO_NUMBERS.get(float(text)) if whole else None


def read_count(text: str) -> float | None:
    """Read a cell with a number of processors: NaN if unknown, None if it is no whole number.

    >>> read_count("16"), read_count("x")
    (16.0, None)
    """
    text = text.strip()
    if is_none(text) or special_number(text) is not None:
        return math.nan
    value = float(text) if re.fullmatch(r"\d{1,9}(?:\.0*)?", text) else math.inf
    return value if value <= MAX_PROCESSORS else None


def read_memory(text: str) -> tuple[float, str]:
    """Read memory as Slurm writes it, in bytes (plain numbers are MB), with what it is of: ``c``
    each core, ``n`` each host, or "" the whole job. NaN if unknown, infinite if it is none.

    >>> read_memory("4000Mc"), read_memory("1.50Gn"), read_memory("16G"), read_memory("7")
    ((4194304000.0, 'c'), (1610612736.0, 'n'), (17179869184.0, ''), (7340032.0, ''))
    """
    text = text.strip()
    if is_none(text) or special_number(text) is not None:
        return math.nan, ""
    match = _MEMORY.fullmatch(text)
    # In Slurm's database, memory from 2^63 on is that of a core.
    if match is None or float(match[1]) >= 2.0**63:
        return math.inf, ""
    return float(match[1]) * 1024.0 ** "KMGTPE".index(match[2] or "M") * 1024, match[3]


def read_duration(text: str, unit: float = 1.0) -> float | None:
    """Read a cell with a duration, in seconds: infinite for "no limit", NaN if unknown, None if it
    is no duration. Plain numbers are multiples of ``unit`` (seconds).

    >>> [read_duration(text, 60) for text in ("90", "30:00", "2-01:00:00", "1-2", "UNLIMITED")]
    [5400.0, 1800.0, 176400.0, 93600.0, inf]
    """
    word = text.strip().lower()
    match = _DURATION.fullmatch(word)
    if not match:
        if word in _UNKNOWN or word == "partition_limit":
            return math.nan
        return math.inf if word in _UNLIMITED else special_number(word)

    days, first, second, third, fraction = match.groups()
    parts = [int(part) for part in (first, second, third) if part is not None]
    if days is None and len(parts) == 1:
        value = float(f"{first}{fraction or ''}") * unit
    else:
        # Of days-hours, minutes and seconds may be missing, of others the hours.
        parts = [*parts, 0, 0][:3] if days is not None else [0, *parts][-3:]
        total = int(days or 0) * 86400 + parts[0] * 3600 + parts[1] * 60 + parts[2]
        if total in _NO_NUMBERS:
            return _NO_NUMBERS[total]
        value = total + float(fraction or 0)
    return value if value <= MAX_SECONDS else None


def read_date(cell: str, form: str | None) -> tuple[float, bool] | None:
    """Read a cell with a date: (seconds since 1970, whether it is in local time), NaN seconds if
    unknown, None if it is no date. ``form`` is as for ``strptime``, None for ISO 8601.
    """
    text = cell.strip()
    if is_none(text) or special_number(text) is not None or text.startswith(_NO_DATE):
        return math.nan, False
    if len(text) > _LONGEST_DATE:
        return None
    if form is None and re.fullmatch(r"\d{1,12}(\.\d+)?", text):
        return float(text), False

    leap = _LEAP_SECOND.fullmatch(text) if form is None else None
    try:
        if leap:
            return datetime.fromisoformat(leap[1]).replace(tzinfo=UTC).timestamp() + 60, True
        date = datetime.strptime(text, form) if form else datetime.fromisoformat(text)
        if date.tzinfo:
            return date.timestamp(), False
        return date.replace(tzinfo=UTC).timestamp(), True
    except (ValueError, OverflowError):
        return None


@dataclass
class Dates:
    """A column of dates (seconds since 1970, UTC), with what a change of the clock leaves open.

    Where the clock was put back, an hour has two meanings: ``values`` are the first, and
    ``later`` says how many seconds after it the second is. ``missing`` are dates in an hour that
    was left out when the clock was put forward, read as if it had not been.
    """

    values: Floats
    later: Floats
    missing: Booleans

    def not_before(self, others: Floats) -> Dates:
        """Return the dates, repeated local ones by their second meaning if the first is too early.

        A change of the clock repeats local dates; too early is before ``others``.
        """
        wrong = (self.later > 0) & (self.values < others)
        values = np.where(wrong, self.values + self.later, self.values)
        return Dates(values, self.later, self.missing)


def _offsets(local: Floats, zone: ZoneInfo) -> Floats:
    """Return the UTC offsets of local dates (seconds), shape (2, dates): as the first and as the
    second of two moments with that clock time.
    """
    # No zone has changed its clock twice in one day: a day with one offset at its begin and at its
    # end has no other.
    days, of_day = np.unique(local // _DAY, return_inverse=True)
    begins = _offsets_of(days * _DAY, zone)
    ends = _offsets_of(days * _DAY + (_DAY - 1), zone)
    is_steady = (begins == ends).all(0) & (begins[0] == begins[1])
    offsets = begins[:, of_day]

    changing = ~is_steady[of_day]
    offsets[:, changing] = _offsets_of(local[changing], zone)
    return offsets


def _offsets_of(local: Floats, zone: ZoneInfo) -> Floats:
    begin = datetime(1970, 1, 1)
    offsets = np.zeros((2, len(local)))
    for place, seconds in enumerate(local.tolist()):
        for fold in (0, 1):
            date = (begin + timedelta(seconds=seconds)).replace(fold=fold)
            offset = zone.utcoffset(date)
            if offset is not None:
                offsets[fold, place] = offset.total_seconds()
    return offsets


class TextTable:
    """Rows of a text table, stored by column under the names in its header.

    ``lines`` are the lines of the file, from 1, in which rows end, ``place`` tells one in messages.
    """

    def __init__(
        self,
        source: str,
        header: Sequence[str],
        frame: pl.DataFrame,
        lines: Integers,
        place: Callable[[int], str] = "line {}".format,
    ) -> None:
        self.source = source
        self.header = {name: header.index(name) for name in header}
        """Columns by name; of several with one name the first."""
        self.repeated = {name for name in header if header.count(name) > 1}
        self.lines = lines
        self.place = place
        self.joined: list[int] = []
        """Lines that are parts of texts of rows above."""
        self._frame = frame
        self._words: dict[str, Words] = {}

    def __contains__(self, name: object) -> bool:
        return name in self.header

    def __len__(self) -> int:
        return len(self.lines)

    def keep(self, rows: Booleans) -> None:
        """Drop the rows of the table for which the mask ``rows`` is false."""
        self._frame = self._frame.filter(rows)
        self._words = {}
        self.lines = self.lines[rows]

    def column(self, name: str) -> pl.Series:
        """Return the cells of a column."""
        return self._frame.to_series(self.header[name])

    def words(self, name: str) -> Words:
        """Return a column as its different texts, and which of them each row has."""
        if name not in self._words:
            self._words[name] = _words(self.column(name))
        return self._words[name]

    def refuse(self, wrong: Booleans, name: str, accepted: str) -> None:
        """Raise an InputError about the cells of column ``name`` in the rows that are ``wrong``, if
        any; the message says what is ``accepted``.
        """
        if wrong.any():
            cell = self.column(name)[int(wrong.argmax())]
            problem = f"{name} is {shown(cell)}; {accepted} is expected"
            malformed = [Malformed(line, problem) for line in self.lines[wrong].tolist()]
            refuse_lines(self.source, malformed, self.place)

    def numbers(self, name: str, read: Callable[[str], float | None], accepted: str) -> Floats:
        """Return a column as numbers, each made by ``read``; where that returns None, raise an
        InputError that says what is ``accepted``.
        """
        column = self.words(name)
        meanings = {word: read(word) for word in column.words}
        self.refuse(column.where(lambda word: meanings[word] is None), name, accepted)
        return column.values(lambda word: meanings[word] or 0.0)

    def counts(self, name: str) -> Floats:
        """Return a column of numbers of processors; NaN where unknown."""
        return self.numbers(name, read_count, f"a whole number up to {MAX_PROCESSORS}")

    def durations(self, name: str, unit: float) -> Floats:
        """Return a column of durations (seconds); plain numbers are multiples of ``unit``."""
        accepted = "a duration such as 90, 30:00, 12:30:00 or 2-12:30:00"
        return self.numbers(name, lambda text: read_duration(text, unit), accepted)

    def dates(self, name: str, zone: ZoneInfo, form: str | None) -> Dates:
        """Return a column of dates (seconds since 1970, UTC); NaN where unknown.

        Those without UTC offset are the zone's; ``form`` is how they are written (as for
        ``strftime``), if not ISO 8601 or seconds since 1970.
        """
        size = len(self)
        cells = self.column(name)
        local = np.full(size, math.nan) if form else _iso_seconds(cells)
        values = np.full(size, math.nan)
        wrong = np.zeros(size, np.bool_)
        rest = np.isnan(local)
        if rest.any():
            others = _words(cells.filter(rest))
            dates = [read_date(word, form) for word in others.words]
            wrong[rest] = np.array([date is None for date in dates], np.bool_)[others.which]
            for column, of_clock in ((local, True), (values, False)):
                known = [date[0] if date and date[1] == of_clock else math.nan for date in dates]
                column[rest] = np.array(known, np.float64)[others.which]

        later = np.zeros(size)
        missing = np.zeros(size, np.bool_)
        is_local = ~np.isnan(local)
        if is_local.any():
            seconds = local[is_local]
            first, second = _offsets(seconds, zone)
            values[is_local] = seconds - first
            later[is_local] = np.maximum(first - second, 0.0)
            missing[is_local] = second > first

        for never in _NEVER:
            values[np.abs(values - never) <= 2 * NEAR] = np.nan
        wrong |= np.abs(values) > MAX_SECONDS
        how = f"a date as {form}" if form else "an ISO date and time or seconds since 1970"
        self.refuse(wrong, name, how)
        return Dates(values, later, missing)


def _words(series: pl.Series) -> Words:
    import polars as pl

    words = series.unique(maintain_order=True)
    places = pl.DataFrame({"text": words, "place": np.arange(len(words))})
    rows = series.alias("text").to_frame().join(places, on="text", maintain_order="left")
    return Words(words.to_list(), rows["place"].to_numpy())


def _iso_seconds(cells: pl.Series) -> Floats:
    """Convert cells such as ``2024-01-31T08:00:00`` to seconds since 1970 by the local clock; NaN
    for cells of another form.
    """
    import polars as pl

    text = pl.col("text")
    usual = pl.when(text.str.contains(_ISO)).then(text.str.replace(" ", "T", literal=True))
    date = usual.str.to_datetime("%Y-%m-%dT%H:%M:%S", strict=False, time_unit="ms")
    seconds = cells.alias("text").to_frame().select(date.dt.epoch("s").cast(pl.Float64))
    return np.array(seconds.to_series().to_numpy())


def read_cells(
    content: bytes,
    source: str,
    what: str,
    *,
    delimiter: str,
    quoted: bool,
    texts: Sequence[str] = (),
    forms: Mapping[str, str] = {},
) -> TextTable:
    """Read a text table whose first line is a header; O(bytes).

    ``source`` names the file in messages, ``what`` the format that is expected. Cells may be
    ``quoted``, as in CSV.

    Lines that repeat the header are passed over, as files that were joined have them. Columns in
    ``texts`` (in lower case) may hold the delimiter itself and line breaks, if others have
    ``forms``, regular expressions.
    """
    content = content.removeprefix(codecs.BOM_UTF8)
    if b"\r" in content:
        content = content.replace(b"\r\n", b"\n")
    malformed: list[Malformed] = []

    def refuse(line: int, row: Sequence[str], expected: int) -> None:
        found = f"{len(row)} cells ({shown(delimiter.join(row))})"
        malformed.append(Malformed(line, f"{found}, the header has {expected}"))
        if len(malformed) > MAX_ODD_LINES:
            raise InputError(
                f"{source}: more than {MAX_ODD_LINES} lines have another number of cells than the "
                f"header ({expected}); {what} is expected"
            )

    joined: list[int] = []
    if quoted and b'"' in content:
        header, frame, lines = _split_quoted(text_in(content), delimiter, refuse, (source, what))
    else:
        (header, frame, lines), joined = _split(content, delimiter, texts, forms, refuse)
    refuse_lines(source, malformed)
    table = TextTable(source, header, frame, lines)
    table.joined = [place + 1 for place in joined]
    headers = (table.column(header[0]).str.strip_chars() == header[0]).to_numpy()
    if header[0] and headers.any():
        table.keep(~headers)
    return table


def text_in(content: bytes) -> str:
    """Decode bytes as UTF-8, or as Latin-1 if they are not UTF-8."""
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        return content.decode("latin-1")


_Refuse = Callable[[int, Sequence[str], int], None]
"""Notes a line that is no row: its number, its cells, and how many there should be."""

_Cells = tuple[list[str], "pl.DataFrame", Integers]
"""The header of a table, its columns, and the lines of its rows."""


def _split(
    content: bytes,
    delimiter: str,
    texts: Sequence[str],
    forms: Mapping[str, str],
    refuse: _Refuse,
) -> tuple[_Cells, list[int]]:
    """Split a table without quotes into cells; also return the lines (from 0) that were found to be
    part of an earlier row.

    Where columns are in ``texts``, lines that are no rows may be parts of these.
    """
    import polars as pl

    lines = text_in(content.rstrip(b"\n")).split("\n")
    rows = pl.Series(lines, dtype=pl.String)
    header = [name.strip() for name in str(rows[0]).split(delimiter)]
    size = len(header)
    numbers = np.arange(1, len(rows) + 1)
    odd = (rows.str.count_matches(delimiter, literal=True) != size - 1).to_numpy()
    free = [at for at, name in enumerate(header) if name.lower() in texts]
    joined: list[int] = []
    repaired_rows: dict[int, str] = {}
    if free:
        broken = _BrokenRows(lines, header, free, forms, delimiter)
        full = ~odd
        odd |= ~(rows.str.contains(broken.plain) | (rows == rows[0])).to_numpy()
        repaired_rows, joined = broken.repaired_rows(odd)
        kept = full & odd  # Their cells tell better what is wrong with them.
        kept[joined] = False
        odd &= ~kept
    for place in sorted({*np.flatnonzero(odd).tolist()} - {*joined, *repaired_rows, 0}):
        cells = rows[place].split(delimiter)
        if "".join(cells).strip():
            refuse(place + 1, cells, size)
    if repaired_rows:
        rows = rows.scatter(list(repaired_rows), list(repaired_rows.values()))
        odd[list(repaired_rows)] = False
    odd[joined] = True
    odd[0] = True
    if odd.any():
        rows = rows.filter(~odd)
        numbers = numbers[~odd]
    if size == 1:
        return (header, rows.to_frame(), numbers), joined
    frame = rows.str.split_exact(delimiter, size - 1).struct.unnest()
    if repaired_rows:
        # Cells of sacct that are no texts hold a comma at most.
        within = pl.all() if delimiter == "," else pl.nth(free)
        frame = frame.with_columns(within.str.replace_all(_INNER, delimiter, literal=True))
    return (header, frame, numbers), joined


class _BrokenRows:
    """Repairs rows whose comments or commands hold the delimiter or line breaks.

    A row begins with its job; it goes on until the cells that are no text have their forms. What
    begins as a row does is no text: where it could be either, nothing is joined.
    """

    def __init__(
        self,
        rows: Sequence[str],
        header: Sequence[str],
        free: Sequence[int],
        forms: Mapping[str, str],
        delimiter: str,
    ) -> None:
        self.rows = rows
        self.free = free
        self.delimiter = delimiter
        self.size = len(header)
        mark = re.escape(delimiter)
        job = next((at for at, name in enumerate(header) if name.lower().startswith("jobid")), 0)
        known = [forms.get(name.lower(), "") for name in header]

        def pattern(text: str, other: str, may_lack: str) -> str:
            cells = [text if at in free else each or other for at, each in enumerate(known)]
            needed = ["" if at == job else may_lack for at in range(self.size)]
            return mark.join(f"((?:{each}){n})" for each, n in zip(cells, needed, strict=True))

        self.plain = f"^{pattern(_LINE, _LINE, '?')}$"
        other = rf"[^\n{mark}]*" if len(delimiter) == 1 else rf"(?:(?!{mark})[^\n])*"
        begin = [_LINE if at in free else known[at] or other for at in range(self.size)]
        begin = [f"(?:{each})" for each in begin]
        self.whole = re.compile(mark.join([*begin[: job + 1], ""]))
        after = begin[job + 1 : job + 2] or [""]
        self.begin = re.compile(f"{mark.join(begin[: job + 1])}{mark}(?:$|{after[0]}(?:{mark}|$))")
        self.first = re.compile(known[0] or "(?!)")
        self.most = 1 if job else max(self.size // 2, 1)
        # Where no row has all its values, some may be empty. One text next to cells without the
        # delimiter has no other length.
        texts = ("(?s:.*?)", "(?s:.*)")[: len(free) + (delimiter == ",")]
        self.forms = [
            [re.compile(pattern(text, other, may_lack)) for text in texts] for may_lack in ("", "?")
        ]

    def repaired_rows(self, odd: Booleans) -> tuple[dict[int, str], list[int]]:
        """Return the repaired rows by their first line, and the numbers of the lines joined to
        them.
        """
        repaired: dict[int, str] = {}
        joined: list[int] = []
        last = 0  # The row to which a line may belong, 0 if to none.
        done = 0
        for place in np.flatnonzero(odd).tolist():
            if not place or place < done:
                continue
            line = self.rows[place]
            if place != done:
                last = place - 1
            done = place + 1

            if self._begins(line):
                repaired[place], end = self._row(place, odd)
                joined += range(place + 1, end)
                last = place if end else 0
                done = end or done
            elif self._may_be_cut(line, last, done):
                last = 0
            elif line.count(self.delimiter) >= self.most:
                last = 0  # It may be a row that lost a cell.
            elif last and self.free[-1] == self.size - 1:
                joined.append(place)
                repaired[last] = f"{repaired.get(last, self.rows[last])}\n{self._inner(line)}"
            elif self.free[0] == 0 and done < len(self.rows):
                joined.append(place)
        return {place: row for place, row in repaired.items() if row}, joined

    def _may_be_cut(self, line: str, last: int, done: int) -> bool:
        """Return whether a line may be the beginning of a row that a line break has cut in its
        first cell.
        """
        if self.most == 1 or not _CUT.fullmatch(line):
            return self.most == 1 and self.first.fullmatch(line) is not None
        numbers = [re.match("[0-9]*", text) for text in (line, self.rows[last])]
        job, before = (int(number[0] or 0) if number else 0 for number in numbers)
        return done == len(self.rows) or job >= before

    def _begins(self, line: str) -> bool:
        """Return whether a line begins a row: it has a job id, followed by a cell of the right
        form.
        """
        form = self.whole if line.count(self.delimiter) == self.size - 1 else self.begin
        return form.match(line) is not None

    def _row(self, place: int, odd: Booleans) -> tuple[str, int]:
        """Return the row that begins at line ``place`` (from 0), and the number of the line after
        that row; ("", 0) if no whole row begins there.

        ``odd`` lines, with too few or too many cells, may be parts of the row.
        """

        text = self.rows[place]
        for end in range(place + 1, min(place + _MOST_LINES, len(self.rows)) + 1):
            count = text.count(self.delimiter) - self.size + 1
            for forms in self.forms if 0 <= count <= _MOST_EXTRA else ():
                found = [match.groups() for form in forms if (match := form.fullmatch(text))]
                if len(found) == len(forms):
                    first = found[0]
                    longest = found[-1]
                    pairs = enumerate(zip(first, longest, strict=True))
                    if first != longest and any(
                        one != other for at, (one, other) in pairs if at not in self.free
                    ):
                        return "", 0
                    return self.delimiter.join(map(self._inner, first)), end
            if end == len(self.rows) or not odd[end] or self._begins(self.rows[end]):
                break
            text += f"\n{self.rows[end]}"
        return "", 0

    def _inner(self, cell: str) -> str:
        return cell.replace(self.delimiter, _INNER)


def _split_quoted(text: str, delimiter: str, refuse: _Refuse, where: tuple[str, str]) -> _Cells:
    """Split a CSV table in which some cells are quoted; ``where`` is the file's name and format."""
    import polars as pl

    source, what = where
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
    rows: list[list[str]] = []
    lines: list[int] = []
    try:
        for row in filter(None, reader):
            if rows and len(row) != len(rows[0]):
                if "".join(row).strip():
                    refuse(reader.line_num, row, len(rows[0]))
                continue

            parts = [part for cell in row for part in cell.split("\n")[1:]]
            if rows and any(part.count(delimiter) >= len(row) - 1 for part in parts):
                raise InputError(
                    f"{source}: line {reader.line_num}: a quoted cell holds lines that look like "
                    "rows; close the quotation mark that begins it"
                )
            rows.append([cell.replace("\n", " ") for cell in row])
            lines.append(reader.line_num)
    except csv.Error as error:
        raise InputError(f"{source}: line {reader.line_num}: {error}; {what} is expected") from None

    header = [name.strip() for name in rows[0]] if rows else [""]
    columns: Any = zip(*rows[1:], strict=True) if rows[1:] else [()] * len(header)
    frame = pl.DataFrame(
        [pl.Series(str(place), column, dtype=pl.String) for place, column in enumerate(columns)]
    )
    return header, frame, np.array(lines[1:], np.int64)
