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
from qops_batsim.workload.accounting.amounts import decoded_request, encoded, hosts_of
from qops_batsim.workload.accounting.cells import read_duration, text_in
from qops_batsim.workload.accounting.choices import Choices
from qops_batsim.workload.accounting.job_identity import (
    AGAIN_WITHIN,
    UNKNOWN_LIMIT,
    next_count,
    renamed,
    tell_renamed,
)
from qops_batsim.workload.accounting.pbs_requests import chunks_in, pbs_request
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
_NO_NAMES = ("", "_pbs_project_default")
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
        queued = _number(self.fields.get("qtime"), self.queued)
        return _number(self.fields.get("ctime"), queued)

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

        date = _number(fields.get("start"), date)
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
            job = next((job for job in reversed(known) if job.has(match[2], date, fields)), None)
            if job is None:
                job = _PbsJob(number)
                known.append(job)
            job.add(match[2], date, number, fields)

    refuse_lines(source, malformed)
    named, new = _named(jobs)
    rows = _rows_of(named, choices.unit)
    rows.read = read
    if choices.by == "amounts":
        _ask_for_amounts(rows, named)

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
        several.sort(key=lambda namesake: float(np.fmin(namesake.submitted, namesake.last)))
        named[job] = several[0]
        count = 1
        for namesake in several[1:]:
            count = next_count(job, count, jobs)
            named[renamed(job, count)] = namesake
            new.append(renamed(job, count))
    return named, new


def _ask_for_amounts(rows: Rows, jobs: Mapping[str, _PbsJob]) -> None:
    """Set what each job asks of its hosts, which are the ``processors`` of the rows then."""
    rows.numbers.pop("gpus", None)
    found = {
        name: pbs_request(job.fields, *(count(job.fields) for count in (_nodes, _cores, _gpus)))
        for name, job in jobs.items()
    }
    texts = {name: encoded(asked) for name, (asked, _) in found.items()}
    rows.asked = Words.of([texts[job] for job in rows.ids])
    rows.processors = rows.asked.values(lambda text: hosts_of(decoded_request(text)))
    for rule in sorted({rule for _, told in found.values() for rule in told}):
        rows.marked[rule] = np.array([rule in found[job][1] for job in rows.ids], np.bool_)


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
    texts: dict[str, list[str]] = {name: [] for name in _TEXTS}
    for name, job in jobs.items():
        size = _SIZES[by](job.fields)
        gpus = _gpus(job.fields)
        limit = _seconds(job.fields.get("Resource_List.walltime"))
        for state, start, end, used, line in _stretches(job, limit):
            ids.append(name)
            lines.append(line)
            states.append(state)
            numbers.append((job.submitted, start, end, used, size, limit, gpus))
            for text, keys in _TEXTS.items():
                names = (job.fields.get(key, "") for key in keys)
                texts[text].append(next((n for n in names if n not in _NO_NAMES), ""))

    columns = np.array(numbers, np.float64).reshape(-1, len(_NUMBERS) + 1).T.copy()
    dated: dict[str, Any] = dict(zip(_NUMBERS, columns, strict=False))
    # The server is the machine, under its short or its full name.
    servers = [job.partition(".")[2].partition(".")[0] for job in ids]
    return Rows(
        ids=ids,
        lines=np.array(lines, np.int64),
        states=Words.of(states),
        texts={name: Words.of(column) for name, column in texts.items()},
        numbers={"gpus": columns[-1]} if (columns[-1] > 0).any() else {},
        marks={"cluster": Words.of(servers)},
        **dated,
    )


def _stretches(job: _PbsJob, limit: float) -> list[tuple[str, float, float, float, int]]:
    """Return (state, start, end, run time, line) of each run of a job, NaN where unknown; a job
    that never ran has one row. ``limit`` is the walltime (seconds).
    """
    stretches: list[tuple[str, float, float, float, int]] = []
    start = math.nan
    deleted = False
    begin_line = job.line

    for kind, date, line, fields in job.happened:
        if kind in "ST":
            start = _number(fields.get("start"), date)
            begin_line = line
        elif kind == "D":
            deleted = True
            begin_line = line
        elif kind == "E":
            used = _seconds(fields.get("resources_used.walltime"))
            start = _number(fields.get("start"), start)
            end = _number(fields.get("end"), date)
            state = "COMPLETED"
            if fields.get("Exit_status", "0") != "0":
                is_cut = end - start >= limit
                state = "TIMEOUT" if is_cut else "CANCELLED" if deleted else "FAILED"
            stretches.append((state, start, end, used, line))
            start = math.nan
            deleted = False
        else:  # It runs again, or was aborted.
            # The record of a rerun tells its begin, too (PBS Professional), where that of the start
            # is in an older file.
            if kind == "R" and math.isnan(start):
                start = _number(fields.get("start"))
            if not math.isnan(start):
                state = "REQUEUED" if kind == "R" else "FAILED"
                stretches.append((state, start, date, math.nan, line))
                start = math.nan
            elif kind == "A":
                deleted = True
                begin_line = line

    if not math.isnan(start):
        stretches.append(("RUNNING", start, math.nan, math.nan, begin_line))
    elif not stretches or stretches[-1][0] == "REQUEUED":
        state = "CANCELLED" if deleted else "PENDING"
        stretches.append((state, math.nan, math.nan, math.nan, begin_line))
    return stretches


def _number(text: str | None, default: float = math.nan) -> float:
    return float(text) if text and re.fullmatch(r"\d{1,12}", text) else default


def _seconds(text: str | None) -> float:
    value = None if text is None else read_duration(text)
    return math.nan if value is None else value


def _counted(fields: Mapping[str, str], *keys: str) -> float:
    """Return the first of these fields that is a number above 0; 0 if there is none."""
    return next(filter(None, (_number(fields.get(key), 0.0) for key in keys)), 0.0)


def _cores(fields: Mapping[str, str]) -> float:
    """Return the cores of a job: the request in PBS, the allocation in Torque."""
    counted = _counted(fields, "Resource_List.ncpus", "total_execution_slots")
    if counted:
        return counted
    hosts = fields.get("exec_host", "")
    if hosts:
        return float(sum(_slots(part.partition("/")[2]) for part in hosts.split("+")))
    for key in _REQUESTS:
        if fields.get(key):
            return _in_all(fields[key], "cores")
    return _number(fields.get("Resource_List.procs"))


def _nodes(fields: Mapping[str, str]) -> float:
    counted = _counted(fields, "unique_node_count", "Resource_List.nodect")
    if counted:
        return counted
    hosts = fields.get("exec_host", "")
    if hosts:
        return float(len({part.partition("/")[0] for part in hosts.split("+")}))
    return float(sum(chunk.hosts for chunk in chunks_in(fields.get("Resource_List.nodes", ""))))


def _gpus(fields: Mapping[str, str]) -> float:
    """Return the GPUs that a job requested; NaN if its record names none."""
    counted = _counted(fields, "Resource_List.ngpus")
    if counted:
        return counted
    for key in _REQUESTS:
        if "gpus=" in fields.get(key, ""):
            return _in_all(fields[key], "gpus")
    return math.nan


def _in_all(request: str, kind: str) -> float:
    return float(sum(chunk.hosts * chunk.amounts.get(kind, 0) for chunk in chunks_in(request)))


_REQUESTS = ("Resource_List.select", "Resource_List.nodes")
"""Fields with chunks, of PBS and of Torque."""

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
