"""Accounting of PBS and Torque: one line for each event of a job.

``MM/DD/YYYY hh:mm:ss;TYPE;JOB;key=value …`` (Torque administrator's guide, accounting records;
PBS Professional reference guide, accounting log).
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np

from qops_batsim.tables import Words
from qops_batsim.workload.accounting.cells import read_duration, text_in
from qops_batsim.workload.accounting.choices import Choices
from qops_batsim.workload.accounting.job_identity import (
    AGAIN_WITHIN,
    UNKNOWN_LIMIT,
    next_count,
    renamed,
    tell_renamed,
)
from qops_batsim.workload.accounting.rows import Rows
from qops_batsim.workload.log_formats import PBS_LINE
from qops_batsim.workload.log_records import Malformed, refuse_lines

_FIELD = re.compile(r"""([\w.]+)=("[^"]*"|'[^']*'|\S*)""")
_JOB = re.compile(r"\d{1,12}(?:\[\d{0,9}\])?(?:\.\S+)?")
_OF_JOBS = {"Q": "queued", "S": "start", "T": "restart", "E": "end", "D": "deleted"} | {
    "A": "aborted",
    "R": "rerun",
}
_NUMBERS = ("submitted", "started", "ended", "run_times", "processors", "limits")
_TEXTS = {"user": ("user",), "group": ("account", "project", "group"), "queue": ("queue",)}


@dataclass
class _PbsJob:
    """The records read so far about a job."""

    line: int
    queued: float = math.nan
    fields: dict[str, str] = field(default_factory=dict)
    happened: list[tuple[str, float, int, dict[str, str]]] = field(default_factory=list)
    """Kind, date, line and fields of each start, end and interruption."""
    last: float = -math.inf
    """Date of the latest record."""
    runs: bool = False
    has_ended: bool = False

    @property
    def submitted(self) -> float:
        """Date of submission; NaN if no record tells it."""
        dates = [_number(self.fields.get(key)) for key in ("ctime", "qtime")]
        return next((each for each in (*dates, self.queued) if not math.isnan(each)), math.nan)

    def add(self, kind: str, date: float, line: int, fields: dict[str, str]) -> None:
        """Add what a record tells."""
        self.fields |= fields
        self.last = max(self.last, date)
        if kind == "Q":
            self.queued = date
            self.line = line
            return
        self.happened.append((kind, date, line, fields))
        self.has_ended = kind in "EA" or (kind == "D" and not self.runs)
        self.runs = kind in "ST" or (kind == "D" and self.runs)

    def has(self, kind: str, date: float, fields: Mapping[str, str]) -> bool:
        """Return whether a record with this job's id can be about this job.

        It cannot if it names another user or date of creation, or if it comes too late: a job that
        has ended is not queued, and one that waits or runs leaves a record within a month and its
        walltime.
        """
        for name in ("user", "ctime"):
            if name in fields and fields[name] != self.fields.get(name, fields[name]):
                return False
        created = _number(fields.get("ctime"))
        if "ctime" in self.fields and not math.isnan(created):
            return True
        # Its zone is unknown to a date of creation: within a day, both may be the same moment.
        if created > self.last + AGAIN_WITHIN:
            return False
        begun = _number(fields.get("start"))
        date = date if math.isnan(begun) else begun
        if self.has_ended:
            is_new = kind == "Q" and date >= self.last
            return not is_new and date <= self.last + AGAIN_WITHIN
        limit = _seconds(self.fields.get("Resource_List.walltime"))
        limit = limit if math.isfinite(limit) else UNKNOWN_LIMIT
        return date <= self.last + UNKNOWN_LIMIT + limit


def pbs_rows(content: bytes, source: str, choices: Choices) -> Rows:
    """Read PBS accounting into rows of jobs; O(bytes)."""
    malformed: list[Malformed] = []
    jobs: dict[str, list[_PbsJob]] = {}
    others: list[int] = []
    arrays: list[int] = []
    zone = ZoneInfo(choices.zone_name)
    read = 0
    for number, line in enumerate(text_in(content).split("\n"), start=1):
        if not line.strip():
            continue
        read += 1
        match = PBS_LINE.match(line)
        date = match and _date(match[1], zone)
        if match is None or date is None:
            accepted = "MM/DD/YYYY hh:mm:ss;TYPE;JOB;fields is expected"
            malformed.append(Malformed(number, f"{line[:60]!r}; {accepted}"))
        elif match[2] not in _OF_JOBS:
            others.append(number)
        elif not _JOB.fullmatch(match[3]) or (match[2] in "SE" and "=" not in match[4]):
            accepted = "the record of a job such as 12.server or 12[3].server is expected"
            malformed.append(Malformed(number, f"{line[:60]!r}; {accepted}"))
        elif "[]" in match[3]:
            arrays.append(number)
        else:
            fields = {key: value.strip("\"'") for key, value in _FIELD.findall(match[4])}
            known = jobs.setdefault(match[3], [])
            job = next((each for each in reversed(known) if each.has(match[2], date, fields)), None)
            if job is None:
                job = _PbsJob(number)
                known.append(job)
            job.add(match[2], date, number, fields)
    refuse_lines(source, malformed)
    named, new = _named(jobs)
    rows = _rows_of(named, choices.unit)
    rows.read = read
    again = [line for line, job in zip(rows.lines.tolist(), rows.ids, strict=True) if job in new]
    tell_renamed(rows, new, again)
    for rule, what, lines in (
        ("other_records", "records of no job (licences, reservations and others)", others),
        ("array_parents", "records of whole arrays, whose jobs have their own", arrays),
    ):
        rows.tell(rule, what, lines, "drop")
    return rows


def _named(jobs: Mapping[str, list[_PbsJob]]) -> tuple[dict[str, _PbsJob], list[str]]:
    """Return the jobs by id, each under one of its own, and the ids that are new."""
    named: dict[str, _PbsJob] = {}
    new: list[str] = []
    for job, several in jobs.items():
        several.sort(key=lambda each: float(np.fmin(each.submitted, each.last)))
        named[job] = several[0]
        count = 1
        for each in several[1:]:
            count = next_count(job, count, jobs)
            named[renamed(job, count)] = each
            new.append(renamed(job, count))
    return named, new


def _date(text: str, zone: ZoneInfo) -> float | None:
    try:
        return datetime.strptime(text, "%m/%d/%Y %H:%M:%S").replace(tzinfo=zone).timestamp()
    except ValueError:
        return None


def _rows_of(jobs: Mapping[str, _PbsJob], by: str) -> Rows:
    ids: list[str] = []
    lines: list[int] = []
    states: list[str] = []
    numbers: list[tuple[float, ...]] = []
    gpus: list[float] = []
    texts: dict[str, list[str]] = {name: [] for name in _TEXTS}
    for name, job in jobs.items():
        size = _SIZES[by](job.fields)
        limit = _seconds(job.fields.get("Resource_List.walltime"))
        for state, start, end, used, line in _stretches(job, limit):
            ids.append(name)
            lines.append(line)
            states.append(state)
            numbers.append((job.submitted, start, end, used, size, limit))
            gpus.append(_gpus(job.fields))
            for text, keys in _TEXTS.items():
                found = (job.fields.get(key) for key in keys)
                known = (each for each in found if each and each not in ("_pbs_project_default",))
                texts[text].append(next(known, ""))
    columns = np.array(numbers, np.float64).reshape(-1, len(_NUMBERS)).T
    dated: dict[str, Any] = {
        key: column.copy() for key, column in zip(_NUMBERS, columns, strict=True)
    }
    names = {name: Words.of(column) for name, column in texts.items()}
    # The server is the machine, under its short or its full name.
    servers = [job.partition(".")[2].partition(".")[0] for job in ids]
    marks = {"cluster": Words.of(servers)}
    at = np.array(lines, np.int64)
    counts = {"gpus": np.array(gpus)} if any(count > 0 for count in gpus) else {}
    told: dict[str, Any] = {"texts": names, "numbers": counts, "marks": marks, **dated}
    return Rows(ids=ids, lines=at, states=Words.of(states), **told)


def _stretches(job: _PbsJob, limit: float) -> list[tuple[str, float, float, float, int]]:
    """Return (state, start, end, run time, line) of each run of a job, NaN where unknown; a job
    that never ran has one row. ``limit`` is the walltime (seconds).
    """
    found: list[tuple[str, float, float, float, int]] = []
    start, deleted, begin_line = math.nan, False, job.line
    for kind, date, line, fields in job.happened:
        if kind in "ST":
            start, begin_line = _number(fields.get("start")), line
            start = date if math.isnan(start) else start
        elif kind == "D":
            deleted, begin_line = True, line
        elif kind == "E":
            used = _seconds(fields.get("resources_used.walltime"))
            given, end = (_number(fields.get(key)) for key in ("start", "end"))
            start = start if math.isnan(given) else given
            end = date if math.isnan(end) else end
            state = "COMPLETED" if fields.get("Exit_status", "0") == "0" else "FAILED"
            if state == "FAILED" and not math.isnan(limit) and end - start >= limit:
                state = "TIMEOUT"
            state = "CANCELLED" if deleted and state == "FAILED" else state
            found.append((state, start, end, used, line))
            start, deleted = math.nan, False
        elif not math.isnan(begun := _begun(start, kind, fields)):  # run again, or aborted
            state = "REQUEUED" if kind == "R" else "FAILED"
            found.append((state, begun, date, math.nan, line))
            start = math.nan
        elif kind == "A":
            deleted, begin_line = True, line
    if not math.isnan(start):
        found.append(("RUNNING", start, math.nan, math.nan, begin_line))
    elif not found or found[-1][0] == "REQUEUED":
        state = "CANCELLED" if deleted else "PENDING"
        found.append((state, math.nan, math.nan, math.nan, begin_line))
    return found


def _begun(start: float, kind: str, fields: Mapping[str, str]) -> float:
    """Return when a run began that a record ends: the record of a rerun (PBS Professional) tells
    it too, where that of the ``start`` is in an older file.
    """
    return _number(fields.get("start")) if kind == "R" and math.isnan(start) else start


def _number(text: str | None) -> float:
    return float(text) if text and re.fullmatch(r"\d{1,12}", text) else math.nan


def _seconds(text: str | None) -> float:
    value = None if text is None else read_duration(text)
    return math.nan if value is None else value


def _cores(fields: Mapping[str, str]) -> float:
    """Return the cores of a job: the request in PBS, the allocation in Torque."""
    for key in ("Resource_List.ncpus", "total_execution_slots"):
        if _number(fields.get(key)) > 0:
            return _number(fields.get(key))
    hosts = fields.get("exec_host", "")
    if hosts:
        return float(sum(_slots(part.partition("/")[2]) for part in hosts.split("+")))
    for key, each in (("Resource_List.select", "ncpus"), ("Resource_List.nodes", "ppn")):
        if fields.get(key):
            return float(sum(count * cores for count, cores in _chunks(fields[key], each)))
    return _number(fields.get("Resource_List.procs"))


def _nodes(fields: Mapping[str, str]) -> float:
    for key in ("unique_node_count", "Resource_List.nodect"):
        if _number(fields.get(key)) > 0:
            return _number(fields.get(key))
    hosts = fields.get("exec_host", "")
    if hosts:
        return float(len({part.partition("/")[0] for part in hosts.split("+")}))
    return float(sum(count for count, _ in _chunks(fields.get("Resource_List.nodes", ""), "ppn")))


def _gpus(fields: Mapping[str, str]) -> float:
    """Return the GPUs that a job requested; NaN if its record names none."""
    if _number(fields.get("Resource_List.ngpus")) > 0:
        return _number(fields.get("Resource_List.ngpus"))
    for key, each in (("Resource_List.select", "ngpus"), ("Resource_List.nodes", "gpus")):
        if f":{each}=" in fields.get(key, ""):
            return float(sum(count * gpus for count, gpus in _chunks(fields[key], each, 0)))
    return math.nan


_SIZES = {"cores": _cores, "nodes": _nodes, "gpus": _gpus}


def _slots(text: str) -> int:
    """Return the number of slots of a host in ``0``, ``0*8``, ``0-7`` or ``0,2-3``."""
    if match := re.fullmatch(r"\d+\*(\d{1,6})", text):
        return int(match[1])
    count = 0
    for part in text.split(","):
        match = re.fullmatch(r"(\d{1,6})-(\d{1,6})", part)
        count += max(int(match[2]) - int(match[1]) + 1, 0) if match else 1
    return count


def _chunks(text: str, each: str, default: int = 1) -> list[tuple[int, int]]:
    """Return (count, size) of each part of a request such as ``2:ppn=8+1:ppn=4``: the size is the
    number behind ``each`` (``ppn``), or the default.
    """
    found = []
    for part in filter(None, text.split("+")):
        count = re.match(r"(\d{1,6})(?::|$)", part)
        size = re.search(rf":{each}=(\d{{1,6}})", part)
        found.append((int(count[1]) if count else 1, int(size[1]) if size else default))
    return found
