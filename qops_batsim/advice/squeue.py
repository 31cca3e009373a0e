"""Reading what ``squeue --json`` writes, whatever the version of Slurm's data parser.

Older ones (Slurm 20.11 to 22.05) write plain numbers, with 0 or null for none; newer ones write
``{"set": true, "infinite": false, "number": 7}``, and lists of states.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

from qops_batsim.advice.queue_state import MAX_QUEUED_JOBS, QueuedJob
from qops_batsim.errors import InputError, shown
from qops_batsim.limits import MAX_PROCESSORS, MAX_SECONDS

_HOLDING = {"RUNNING", "COMPLETING", "CONFIGURING", "STOPPED", "STAGE_OUT", "SIGNALING"}
"""States in which a job has its processors."""

_WAITING = {"PENDING", "REQUEUED", "REQUEUE_FED"}

_HELD = {"REQUEUE_HOLD", "SPECIAL_EXIT", "RESV_DEL_HOLD"}

_CANNOT_START = re.compile(r"Held|Dependency|DependencyNeverSatisfied|BeginTime|PartitionDown")
"""Reasons for which a waiting job is in no plan."""

_RANGE = re.compile(r"(\d{1,9})(?:-(\d{1,9})(?::(\d{1,9}))?)?")

_UNKNOWN = 0xFFFFFFFE
"""From here on Slurm's numbers of 32 bits mean "no value" or "infinite"."""


def read_squeue(
    data: dict[str, Any], source: str
) -> tuple[list[QueuedJob], Counter[str], float | None]:
    """Return the jobs, how many were left out and why, and the date (seconds since 1970)."""
    jobs: list[QueuedJob] = []
    left_out: Counter[str] = Counter()
    for index, record in enumerate(data["jobs"]):
        where = f"{source}: jobs[{index}]"
        if not isinstance(record, dict) or "job_id" not in record:
            raise InputError(f"{where}: an object with a job_id is expected")
        states = _states(record.get("job_state"), where)
        if states & _HOLDING:
            jobs.append(_running(record, where))
        elif "SUSPENDED" in states:
            jobs.append(_suspended(record, where))
        elif states & (_WAITING | _HELD):
            reason = record.get("state_reason")
            waits = isinstance(reason, str) and _CANNOT_START.search(reason)
            if waits or states & _HELD or record.get("hold"):
                left_out["held, or waits for another job or date"] += 1
                continue
            jobs += _waiting(record, where, left_out)
        else:
            left_out["has ended"] += 1
        if len(jobs) > MAX_QUEUED_JOBS:
            raise InputError(f"{source}: more than {MAX_QUEUED_JOBS:,} jobs; fewer are expected")
    return jobs, left_out, number(data.get("last_update"), f"{source}: last_update") or None


def number(value: Any, where: str) -> float | None:
    """Return a number as any version writes it; None for none, or an infinite one."""
    if isinstance(value, dict):
        if not value.get("set", True) or value.get("infinite"):
            return None
        value = value.get("number")
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not value >= 0:
        raise InputError(f"{where} is {shown(value)}; a number from 0 up is expected")
    return None if value >= _UNKNOWN else float(value)


def _states(value: Any, where: str) -> set[str]:
    states = [value] if isinstance(value, str) else value
    if not isinstance(states, list) or not all(isinstance(each, str) for each in states):
        raise InputError(f"{where}: job_state is {shown(value)}; a state, or a list, is expected")
    return set(states)


def _of(record: dict[str, Any], name: str, where: str) -> float | None:
    """Return a number, None if it is 0: no date, limit or number of processors is."""
    found = number(record.get(name), f"{where}: {name}") or None
    if found is not None and found > MAX_SECONDS:
        raise InputError(f"{where}: {name} is {found:g}; at most {MAX_SECONDS:g} is expected")
    return found


def _common(record: dict[str, Any], where: str) -> dict[str, Any]:
    cpus = _of(record, "cpus", where)
    if cpus is None or not cpus.is_integer() or cpus > MAX_PROCESSORS:
        found = shown(record.get("cpus"))
        raise InputError(f"{where}: cpus is {found}; a whole number above 0 is expected")
    minutes = _of(record, "time_limit", where)
    return {
        "processors": int(cpus),
        "estimate": None if minutes is None else 60 * minutes,
        "submission": _of(record, "submit_time", where),
        "deadline": _of(record, "deadline", where),
    }


def _id(record: dict[str, Any], where: str) -> str:
    """Return the id as squeue shows it: ``4711``, ``4711_3``, ``4711+1``."""
    array, task = (
        _of(record, "array_job_id", where),
        number(record.get("array_task_id"), f"{where}: array_task_id"),
    )
    if array is not None and task is not None:
        return f"{array:.0f}_{task:.0f}"
    whole, part = _of(record, "het_job_id", where), _of(record, "het_job_offset", where)
    if whole is not None:
        return f"{whole:.0f}+{part or 0:.0f}"
    job_id = number(record["job_id"], f"{where}: job_id")
    if job_id is None:
        raise InputError(f"{where}: job_id is {shown(record['job_id'])}; a number is expected")
    return f"{job_id:.0f}"


def _running(record: dict[str, Any], where: str) -> QueuedJob:
    common, start = _common(record, where), _of(record, "start_time", where)
    if start is None:
        raise InputError(f"{where}: runs without a start_time; one is expected")
    estimate = common["estimate"]
    return QueuedJob(
        id=_id(record, where),
        start=start,
        end=None if estimate is None else _of(record, "end_time", where),
        **common,
    )


def _suspended(record: dict[str, Any], where: str) -> QueuedJob:
    """Return what is left of a job whose processors others may have: it waits for them again."""
    common = _common(record, where)
    if common["estimate"] is not None:
        done = _of(record, "pre_sus_time", where) or 0.0
        common["estimate"] = max(common["estimate"] - done, 1.0)
    return QueuedJob(id=_id(record, where), **common)


def _waiting(record: dict[str, Any], where: str, left_out: Counter[str]) -> Iterator[QueuedJob]:
    """Yield a waiting job, or each task of an array that waits as one record."""
    common = _common(record, where)
    common |= {
        "planned_start": _of(record, "start_time", where),
        "priority": number(record.get("priority"), f"{where}: priority") or 0.0,
    }
    tasks = record.get("array_task_string") or ""
    array = _of(record, "array_job_id", where)
    if not tasks or array is None:
        yield QueuedJob(id=_id(record, where), **common)
        return
    if not isinstance(tasks, str):
        raise InputError(f"{where}: array_task_string is {shown(tasks)}; a text is expected")
    if "..." in tasks:
        left_out["tasks of arrays beyond what squeue lists"] += 1
    for count, task in enumerate(_tasks(tasks.partition("%")[0], where)):
        if count >= MAX_QUEUED_JOBS:
            raise InputError(f"{where}: more than {MAX_QUEUED_JOBS:,} tasks; fewer are expected")
        # Only the first can have been planned.
        planned = {} if count == 0 else {"planned_start": None}
        yield QueuedJob(id=f"{array:.0f}_{task}", **{**common, **planned})


def _tasks(text: str, where: str) -> Iterator[int]:
    for part in text.split(","):
        match = _RANGE.fullmatch(part)
        if match:
            first, last, step = match.groups()
            yield from range(int(first), int(last or first) + 1, int(step or 1) or 1)
        elif part and "..." not in part:
            raise InputError(
                f"{where}: array_task_string is {shown(text)}; ranges as 1-9:2,12 are expected"
            )
