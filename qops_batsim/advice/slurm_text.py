"""Text output of ``squeue`` and ``scontrol show job``, converted to ``squeue --json`` records.

Dates without an offset are those of this machine's clock, as Slurm's commands write them here.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from qops_batsim.errors import InputError, shown
from qops_batsim.workload.accounting.cells import is_none, read_duration

COLUMNS = (
    *("JobArrayID", "State", "NumCPUs", "NumNodes", "TimeLimit", "SubmitTime", "StartTime"),
    *("EndTime", "PriorityLong", "OverSubscribe", "Partition", "Account", "QOS", "Reservation"),
    *("Deadline", "UserName", "Reason", "Name"),
)
"""Columns of squeue that are read; names, which may hold anything, are the last."""

FORMAT = ":0|,".join(COLUMNS) + ":0"
"""Format of squeue (``-O``) with these, separated by ``|``."""

EXPECTED = (
    "`squeue --json`, `scontrol show job`, or text with columns that are separated by |, as of "
    f"`squeue -a -O {FORMAT}`, is expected"
)

_NEEDED = ("JOBID", "STATE", "CPUS", "TIME_LIMIT", "START_TIME")

_HEADS = {
    "JobState": "STATE",
    "NumCPUs": "CPUS",
    "NumNodes": "NODES",
    "TimeLimit": "TIME_LIMIT",
    "SubmitTime": "SUBMIT_TIME",
    "StartTime": "START_TIME",
    "EndTime": "END_TIME",
    "OverSubscribe": "OVER_SUBSCRIBE",
    "JobName": "NAME",
}
"""Columns of squeue, by the names of scontrol; others differ by their case only."""

_TEXTS = {
    "STATE": "job_state",
    "REASON": "state_reason",
    "PARTITION": "partition",
    "ACCOUNT": "account",
    "QOS": "qos",
    "RESERVATION": "resv_name",
    "USER": "user_name",
    "NAME": "name",
    "HET_JOB_ID_SET": "het_job_id_set",
}
_NUMBERS = {
    "CPUS": "cpus",
    "NODES": "node_count",
    "PRIORITY": "priority",
    "AT_ONCE": "array_max_tasks",
    "HET_JOB_ID": "het_job_id",
    "HET_JOB_OFFSET": "het_job_offset",
}
_DATES = {
    "SUBMIT_TIME": "submit_time",
    "START_TIME": "start_time",
    "END_TIME": "end_time",
    "DEADLINE": "deadline",
}
_ID = re.compile(r"([0-9]{1,18})(?:_\[?([0-9,:%.-]+)\]?|\+([0-9]{1,9}))?")
_COUNT = re.compile(r"([0-9]{1,12}(?:\.[0-9]{1,12})?)([KMG]?)(?:-.*)?")
_FACTORS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
_WORD = re.compile(r"(?:^|\s)([A-Za-z]\w*)=(\S*)")
_NAMED = re.compile(
    r"(.*?)\sJobName=(?:([^\n]*)\n|(.*?))\s+(?:HetJobIdSet=\S+\s+)?(UserId=\S+ GroupId=.*)",
    re.DOTALL,
)
"""Ids, name and other fields, the name on a line that ends with it or (``-o``) not."""


def records_of_text(text: str, source: str) -> list[dict[str, Any]]:
    """Convert the text of squeue or of ``scontrol show job`` to records as ``squeue --json`` writes
    them. O(text).
    """
    if "error:" in text.partition("\n")[0]:
        raise InputError(f"{source}: Slurm failed ({shown(text.strip())}); {EXPECTED}")
    if text.startswith("No jobs in the system"):
        return []
    rows = _of_scontrol(text, source) if text.startswith("JobId=") else _of_squeue(text, source)
    return [_record(told, where) for where, told in rows]


def _of_squeue(text: str, source: str) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield for each job in squeue's text where it stands (file and line, for errors), and its
    cells by column.
    """
    head, *lines = text.splitlines() or [""]
    heads = [name.strip() for name in head.split("|")]
    if lacks := [name for name in _NEEDED if name not in heads]:
        raise InputError(f"{source}: lacks the columns {', '.join(lacks)}; {EXPECTED}")
    for number, line in enumerate(lines, 2):
        # A name may hold the separator.
        cells = line.split("|", len(heads) - 1)
        if len(cells) != len(heads):
            raise InputError(
                f"{source}: line {number} is {shown(line)}; {len(heads)} columns that are "
                "separated by | are expected"
            )
        told = {name: cell.strip() for name, cell in zip(heads, cells, strict=True)}
        yield f"{source}: line {number}", told


def _of_scontrol(text: str, source: str) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield for each job in scontrol's text where it stands (for errors), and its fields under the
    names of squeue's columns.

    Of a field that is told twice the last counts: a job's name, before the others, may look like
    one, and what comes behind the last of these is free text as well.
    """
    for number, record in enumerate(re.split(r"^JobId=", text, flags=re.MULTILINE)[1:], 1):
        where = f"{source}: job {number}"
        parts = _NAMED.match(f"{record.rstrip()}\n")
        if parts is None:
            raise InputError(
                f"{where} is {shown(record)}; the text of `scontrol show job` for one job is "
                "expected"
            )
        first, of_line, name, rest = parts.groups()
        told = {
            _HEADS.get(field, field.upper()): "" if value == "(null)" else value
            for field, value in _WORD.findall(re.split(r"\sCommand=", rest)[0])
        }
        ids = dict(_WORD.findall(f"JobId={first}"))
        whole = ids["JobId"]
        if array := ids.get("ArrayJobId"):
            tasks = ids.get("ArrayTaskId", "")
            whole = f"{array}_{tasks}" if tasks.isdecimal() else f"{array}_[{tasks}]"
        elif het := ids.get("HetJobId"):
            whole = f"{het}+{ids.get('HetJobOffset', '0')}"
        told |= {
            "JOBID": whole,
            "NAME": of_line or name or "",
            "AT_ONCE": ids.get("ArrayTaskThrottle", ""),
            "USER": told.get("USERID", "").partition("(")[0],
        }
        if lacks := [name for name in _NEEDED if name not in told]:
            raise InputError(
                f"{where} ({shown(whole)}) has no field {', '.join(lacks)}; {EXPECTED}"
            )
        yield where, told


def _record(told: Mapping[str, str], where: str) -> dict[str, Any]:
    """Convert a job's cells, by column of squeue, to a record as ``squeue --json`` writes it."""
    found: dict[str, Any] = {
        field: told[name]
        for name, field in _TEXTS.items()
        if name in told and not (name != "NAME" and is_none(told[name]))
    }
    parts = _ID.fullmatch(told["JOBID"])
    if parts is None:
        raise InputError(
            f"{where}: JOBID is {shown(told['JOBID'])}; an id as 12, 12_3, 12+1 or "
            "12_[3-9] is expected"
        )
    job, tasks, part = parts.groups()
    found["job_id"] = int(job)
    if part is not None:
        found |= {"het_job_id": int(job), "het_job_offset": int(part)}
    elif tasks is not None:
        found["array_job_id"] = int(job)
        is_task = tasks.isdecimal() and "[" not in told["JOBID"]
        found["array_task_id" if is_task else "array_task_string"] = (
            int(tasks) if is_task else tasks
        )
    for name, field in _NUMBERS.items():
        if name in told:
            found[field] = _count(told[name], f"{where}: {name}")
    for name, field in _DATES.items():
        if name in told:
            found[field] = _date(told[name], f"{where}: {name}")
    limit = read_duration(told["TIME_LIMIT"])
    if limit is None:
        told_limit = shown(told["TIME_LIMIT"])
        raise InputError(f"{where}: TIME_LIMIT is {told_limit}; a time as 1-02:30:00 is expected")
    found["time_limit"] = limit / 60 if math.isfinite(limit) else None
    if told.get("OVER_SUBSCRIBE") == "NO":
        found["shared"] = "none"
    return found


def _count(text: str, where: str) -> float | None:
    """Parse a number (``4``, ``2K``) or the lower end of a range; None for Slurm's "none"."""
    if is_none(text):
        return None
    if (parts := _COUNT.fullmatch(text)) is None:
        raise InputError(f"{where} is {shown(text)}; a number is expected")
    return float(parts[1]) * _FACTORS[parts[2]]


def _date(text: str, where: str) -> float | None:
    """Parse a date to seconds since 1970; return None for "none"."""
    if is_none(text):
        return None
    try:
        return float(text) if text.isdecimal() else datetime.fromisoformat(text).timestamp()
    except (ValueError, OverflowError, OSError):
        raise InputError(
            f"{where} is {shown(text)}; a date as 2026-11-27T14:00:00, or seconds since 1970, is "
            "expected"
        ) from None
