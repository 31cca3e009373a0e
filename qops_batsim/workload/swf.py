"""The Standard Workload Format (SWF): reading and writing logs of 18 columns.

Format: Parallel Workloads Archive, version 2.2
(https://www.cs.huji.ac.il/labs/parallel/workload/swf.html). A log is a header of comment lines,
many of them ``; Key: value``, and one line of 18 numbers a job; -1 stands for "not known".
"""

from __future__ import annotations

import codecs
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from qops_batsim.arguments import PATH, takes
from qops_batsim.core.machine import Machine
from qops_batsim.dates import Calendar
from qops_batsim.errors import InputError, shown
from qops_batsim.files import Stored, read_stored
from qops_batsim.limits import MAX_ODD_LINES
from qops_batsim.tables import Words
from qops_batsim.workload.accounting.amounts import TOLD, requests_of
from qops_batsim.workload.job_scanner import LONGEST_ROW, Scanner
from qops_batsim.workload.log_formats import dialect_of, refuse_others
from qops_batsim.workload.log_records import (
    FIELDS,
    MEASURED,
    RECORD,
    Log,
    Records,
    RepairCount,
)

_WHAT = "a workload log (SWF)"
_ACCEPTED = "a record of 18 numbers, or a comment that begins with ';', is expected"
_KEY = re.compile(r"([A-Za-z][\w.-]*)\s*:(?:\s+(.*))?")
_INTEGER = re.compile(r"([+-]?[0-9]{1,18})(?:\s.*)?", re.DOTALL)
_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
# Every whole number up to here is exact as a float, which is what the parser makes.
_LARGEST = float(2**53)
_INTEGER_COLUMNS = [index for index, name in enumerate(FIELDS) if name not in MEASURED]

_SIZES = ("MaxProcs", "MaxNodes")
_CREDITS = ("Installation", "Computer", "Acknowledge", "Copyright", "Information")

_LINES_AT_ONCE = 100_000
_LINE = re.compile(rb"\S[^\n]*")  # what holds nothing is passed over, be there millions

Matrix = NDArray[np.float64]


@dataclass(frozen=True)
class SwfHeader:
    """The comment lines of an SWF log, without ``;``, and their fields (``MaxProcs: 100``)."""

    lines: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "lines", tuple(line.rstrip() for line in self.lines))

    @cached_property
    def fields(self) -> tuple[tuple[str, str], ...]:
        """(key, value) pairs in order; repeated keys (``Note``, ``Queue``) stay separate.

        A line belongs to the field before it when it is indented by at least two more blanks, or
        follows it directly and has no key of its own; such lines are joined with a line break.
        """
        fields: list[tuple[str, list[str]]] = []
        depth = 0
        blanks = 0
        for line in self.lines:
            text = line.expandtabs().lstrip()
            if not text:
                blanks += 1
                continue

            indentation = len(line.expandtabs()) - len(text)
            deeper = bool(fields) and indentation >= depth + 2
            match = None if deeper else _KEY.fullmatch(text)

            if match:
                fields.append((match[1], [(match[2] or "").strip()]))
                depth = indentation
            elif deeper or (fields and not blanks):
                fields[-1][1].extend([""] * blanks)
                fields[-1][1].append(text)
            blanks = 0
        return tuple((key, "\n".join(texts)) for key, texts in fields)

    def values(self, key: str) -> list[str]:
        """Return every value of a key, in order; case does not matter."""
        wanted = key.casefold()
        return [value for name, value in self.fields if name.casefold() == wanted]

    def get(self, key: str) -> str | None:
        """Return the first value of a key that is not empty, or None."""
        return next((value for value in self.values(key) if value), None)

    def integer(self, key: str, *, source: str = "the header") -> int | None:
        """Return the whole number at the beginning of a field, or None without the field."""
        value = self.get(key)
        if value is None:
            return None
        match = _INTEGER.fullmatch(value)
        if not match:
            raise InputError(
                f"{source}: header field {key} is {shown(value)}; a whole number is expected"
            )
        return int(match[1])


@dataclass(eq=False, kw_only=True)
class SwfLog(Log):
    """A log in the Standard Workload Format; records are in the order of the file.

    In a log made in memory, the lines are the records' places.
    """

    by_amounts: bool = False
    """Whether jobs ask for amounts of hosts: each processor is a task of a core, and of the memory
    that was requested for it. The machine's size is its hosts then."""
    header: SwfHeader = field(default_factory=SwfHeader)
    """The comment lines. Those between or after the records come last."""
    format: str = "swf"

    def __post_init__(self) -> None:
        if len(self.lines) != len(self.records):
            self.lines = np.arange(1, len(self.records) + 1, dtype=np.int64)
        self.read = len(self.records)
        given = {key.lower(): self.header.get(key) for key in _CREDITS}
        self.credits = {key: value for key, value in given.items() if value is not None}

    def __len__(self) -> int:
        return len(self.records)

    def __eq__(self, other: object) -> bool:
        """Return whether header and records are equal, whatever file they come from."""
        if not isinstance(other, SwfLog):
            return NotImplemented
        return self.header == other.header and np.array_equal(self.records, other.records)

    __hash__ = None  # type: ignore[assignment]

    def calendar(self, time_zone: str | None = None) -> Calendar:
        """Return the calendar of the header (``UnixStartTime``, ``TimeZoneString``).

        A ``time_zone`` ("Europe/Stockholm") replaces the header's. The old field ``TimeZone`` is
        not used: it knows no daylight saving, and the format's definition calls it faulty.
        """
        start = self.header.integer("UnixStartTime", source=self.source)
        if start is None or start <= 0:
            raise InputError(
                f"{self.source}: the header has no UnixStartTime, so the log's seconds have no "
                "dates; give the window in seconds since the log's start, not in dates"
            )

        name = time_zone or self.header.get("TimeZoneString")
        if name is None:
            raise InputError(
                f"{self.source}: the header has no TimeZoneString; give the name of the site's "
                "time zone (Europe/Stockholm), or the window in seconds since the log's start"
            )
        calendar = Calendar(start, name)
        calendar.check("the given time zone" if time_zone else f"{self.source}: TimeZoneString")
        return calendar

    def asked_of(self, records: Records) -> Words | None:
        """Return what jobs ask of each host, None unless ``by_amounts``."""
        if not self.by_amounts:
            return None
        tasks = records["requested_processors"].astype(np.float64)
        memory = np.maximum(records["requested_memory"], 0) * tasks * 1024
        return requests_of(tasks, {"cores": tasks, "memory": memory}, tasks)[0]

    def machine_size(self) -> int | None:
        """Return the processors of the machine (``MaxProcs``, else ``MaxNodes``), or None.

        Where a dialect counts nodes, or jobs ask for amounts, ``MaxNodes`` only.
        """
        if self.machine is not None:
            return self.machine.hosts
        for key in _SIZES[1:] if self.counted else _SIZES:
            processors = self.header.integer(key, source=self.source)
            if processors is not None and processors > 0:
                return processors
        return None

    def no_machine_size(self) -> str:
        """Return a text that says why the size of the machine is unknown."""
        if self.counted:
            what = "ask for amounts of hosts" if self.by_amounts else "are counted in nodes"
            return f"jobs {what}, and the header has no MaxNodes"
        given = [f"{key} {shown(value)}" for key in _SIZES if (value := self.header.get(key))]
        said = f"no size of a machine, only {' and '.join(given)}" if given else "neither MaxProcs"
        return f"the header has {said}" + ("" if given else " nor MaxNodes")


@takes(path=PATH)
def read_swf(path: str | Path) -> SwfLog:
    """Read a log in the Standard Workload Format, plain or gzip-compressed.

    Linear in the file: records that are written in the usual way are scanned. Others are read in
    blocks of lines, and one by one where a block holds a line that is no record.

    Parameters
    ----------
    path
        The log.

    Returns
    -------
    SwfLog
        Header and records (times in seconds, -1 for unknown), in the order of the file.

    Raises
    ------
    InputError
        Naming the first line that is no record.

    Examples
    --------
    >>> from pathlib import Path
    >>> _ = Path("two.swf").write_text(
    ...     "1 0 5 60 8 -1 -1 8 120 -1 1 1 1 -1 1 -1 -1 -1\\n"
    ...     "2 9 0 30 2 -1 -1 2 60 -1 1 1 1 -1 1 -1 -1 -1\\n"
    ... )
    >>> read_swf("two.swf").records["run_time"].tolist()
    [60.0, 30.0]
    """
    return swf_in(read_stored(path, what=_WHAT), str(path))


def swf_in(stored: Stored, source: str) -> SwfLog:
    """Parse a log (SWF) from a file's content; ``source`` names the file in messages."""
    log = parse_swf(stored.content, source=source)
    log.sha256 = stored.sha256
    return log


def ask_for_amounts(log: SwfLog, machine: Machine | None) -> None:
    """Have the jobs of a log ask for cores and memory of each host of a machine."""
    if log.counted:
        raise InputError(
            f"{log.source}: jobs are counted in nodes ({log.counted}), so that it is not known how "
            "many cores they ask for; leave out --by"
        )
    log.by_amounts = True
    log.machine = machine
    log.counted = "hosts: each processor of a job is a task of one core, which may share a host"
    unknown = log.records["requested_memory"] <= 0
    told, done = TOLD["no_memory"]
    lines = log.lines[unknown].tolist()
    log.left_out = [*log.left_out, RepairCount.of_lines("no_memory", told, lines, done)]


def parse_swf(content: bytes, *, source: str) -> SwfLog:
    """Parse a log; an InputError names the first line that is no record."""
    header: list[str] = []
    lines = [np.empty(0, np.int64)]
    records = [np.empty(0, RECORD)]
    width = 0
    dialect: Mapping[str, Any] = {}
    usual = _usual_records(content)
    if usual is not None:
        header = usual[0]
    for numbers, rows in _blocks(content, header) if usual is None else ():
        if not width:
            width, dialect = _width(rows)
        matrix = _parse_at_once(rows, width)
        if matrix is None:
            for number, row in zip(numbers, rows, strict=True):
                if problem := _problem(row, width or len(FIELDS)):
                    _refuse(content, source, number, problem)
            values = [row.split()[: len(FIELDS)] for row in rows]
            matrix = np.array(values).astype(np.float64)
        if dialect:
            _count_nodes(matrix, rows, dialect["beyond"][-1])

        lines.append(np.array(numbers, np.int64))
        records.append(_records_of(matrix))
        if len(header) > MAX_ODD_LINES:
            raise InputError(
                f"{source}: more than {MAX_ODD_LINES} lines are comments; fewer are expected"
            )

    log = SwfLog(
        records=np.concatenate(records) if usual is None else usual[2],
        header=SwfHeader(tuple(header)),
        lines=np.concatenate(lines) if usual is None else usual[1],
        source=source,
    )
    if width > len(FIELDS):
        told = f"{width - len(FIELDS)} columns beyond the 18 of the format"
        if dialect:
            told += f", of which the last tells a job's nodes ({dialect['name']})"
            log.counted = f"nodes, as the last column tells them ({dialect['about']})"
        log.left_out = [RepairCount.of_lines("more_columns", told, log.lines.tolist(), "ignore")]
    return log


def _usual_records(content: bytes) -> tuple[list[str], NDArray[np.int64], Records] | None:
    """Return the comments, lines and records of a log whose records are all written in the usual
    way; None if some are not.
    """
    content = content.removeprefix(codecs.BOM_UTF8)
    width = len(FIELDS)
    most = min(content.count(b"\n"), len(content) // (2 * width)) + 1
    matrix = np.empty((most, width))
    lines = np.empty(most, np.int64)
    scanner = Scanner(content)
    count = scanner.scan_rows(matrix, lines)
    matrix = matrix[: max(count, 0)]
    if count < 1 or len(scanner.comments) > MAX_ODD_LINES or not _are_whole(matrix):
        return None
    comments = b"\n".join(scanner.comments)
    try:
        text = comments.decode()
    except UnicodeDecodeError:
        text = comments.decode("latin-1")
    header = [line.strip()[1:] for line in text.split("\n")] if comments else []
    return header, lines[:count].copy(), _records_of(matrix)


def _records_of(matrix: Matrix) -> Records:
    records = np.empty(len(matrix), dtype=RECORD)
    for index, name in enumerate(FIELDS):
        records[name] = matrix[:, index]
    return records


def _are_whole(matrix: Matrix) -> bool:
    """Return whether the numbers are whole, and exact, in the columns where they should be."""
    whole = matrix[:, _INTEGER_COLUMNS]
    return not ((whole != np.floor(whole)).any() or (np.abs(whole) > _LARGEST).any())


def _refuse(content: bytes, source: str, number: int, problem: str) -> NoReturn:
    """Raise an InputError about line ``number``, which is no record, with a guess at what the file
    is.
    """
    refuse_others(content, source)
    hint = " (the output of sacct has a header)" if "|" in problem else ""
    if "," in problem:
        hint = " (a table: `workload import --map` says what its columns are)"
    if content.lstrip().startswith(b"{"):
        hint = " (a Batsim workload, JSON, is no log and needs no conversion)"
    raise InputError(f"{source}: line {number}: {problem}; {_ACCEPTED}{hint}")


def _width(rows: Sequence[str]) -> tuple[int, Mapping[str, Any]]:
    """Return the number of columns of a log's first record, 0 without any, and the description of
    the published log that has such further columns.
    """
    for row in rows:
        words = row.split() if len(row) <= LONGEST_ROW else []
        if len(words) >= len(FIELDS) and all(
            _is_accepted(word, column) for column, word in enumerate(words[: len(FIELDS)])
        ):
            return len(words), dialect_of(words[len(FIELDS) :])
    return 0, {}


def _count_nodes(matrix: Matrix, rows: Sequence[str], pattern: str) -> None:
    """Set the processors of records to their nodes, which a row's last column has in the form
    ``pattern``.
    """
    places = [FIELDS.index(f"{which}_processors") for which in ("allocated", "requested")]
    for place, row in enumerate(rows):
        if match := re.fullmatch(pattern, row.rsplit(None, 1)[1]):
            matrix[place, places] = float(match[1])


def _blocks(content: bytes, header: list[str]) -> Iterator[tuple[list[int], list[str]]]:
    """Yield blocks of a log's records as (line numbers, lines); comment lines are added to
    ``header``.
    """
    content = content.removeprefix(codecs.BOM_UTF8)
    try:
        content.decode()
        encoding = "utf-8"
    except UnicodeDecodeError:
        # Old logs name people in Latin-1. Numbers are ASCII, so nothing else can differ.
        encoding = "latin-1"

    numbers: list[int] = []
    rows: list[str] = []
    number = 1
    end = 0
    for count, line in enumerate(_LINE.finditer(content), start=1):
        number += content.count(b"\n", end, line.start())
        end = line.end()
        stripped = line[0].decode(encoding).strip()
        if stripped.startswith(";"):
            header.append(stripped[1:])
        elif stripped:
            numbers.append(number)
            rows.append(stripped)
        if count % _LINES_AT_ONCE == 0:
            yield numbers, rows
            numbers = []
            rows = []
    yield numbers, rows


def _parse_at_once(rows: Sequence[str], width: int) -> Matrix | None:
    """Parse all rows at once into a matrix of 18 columns; None if a row is no record of ``width``
    numbers.
    """
    if not rows:
        return np.empty((0, len(FIELDS)))
    if max(map(len, rows)) > LONGEST_ROW:
        return None
    used = None if width <= len(FIELDS) else range(len(FIELDS))
    if used is not None and any(len(row.split()) != width for row in rows):
        return None

    try:
        matrix: Matrix = np.loadtxt(rows, dtype=np.float64, comments=None, ndmin=2, usecols=used)
    except ValueError:
        return None

    if matrix.shape != (len(rows), len(FIELDS)) or not np.isfinite(matrix).all():
        return None
    return matrix if _are_whole(matrix) else None


def _problem(row: str, width: int) -> str:
    """Return what is wrong with a record that should have ``width`` columns; "" if nothing."""
    words = row.split() if len(row) <= LONGEST_ROW else []
    if len(words) != width:
        columns = "1 column" if len(words) == 1 else f"{len(words)} columns"
        return f"{columns if words else f'{len(row)} letters'} ({shown(row)})"
    for place, word in enumerate(words[: len(FIELDS)]):
        if not _is_accepted(word, place):
            wanted = "number" if FIELDS[place] in MEASURED else "whole number"
            return f"column {place + 1} ({FIELDS[place]}) is {shown(word)}, not a {wanted}"
    return ""


def _is_accepted(word: str, column: int) -> bool:
    value = float(word) if _NUMBER.fullmatch(word) else math.nan
    whole = value.is_integer() and abs(value) <= _LARGEST
    return math.isfinite(value) and (FIELDS[column] in MEASURED or whole)
