"""Reading a queue from a file or a message.

Two forms are understood: that of this package, and the JSON of Slurm's ``squeue --json``.
"""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import msgspec

from qops_batsim.advice.queue_state import (
    MAX_QUEUE_BYTES,
    MAX_QUEUED_JOBS,
    Date,
    QueuedJob,
    QueueState,
    date_of,
)
from qops_batsim.advice.squeue import read_squeue
from qops_batsim.errors import InputError, require, shown
from qops_batsim.limits import MAX_SECONDS
from qops_batsim.workload.model import check_processors


class WrittenJob(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A job in our own form: see docs/operators.md."""

    id: str | int
    processors: int
    estimate: float | None = None
    submission: Date | None = None
    start: Date | None = None
    end: Date | None = None
    planned_start: Date | None = None
    deadline: Date | None = None
    priority: float = 0.0


class WrittenQueue(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A queue in our own form."""

    jobs: list[WrittenJob]
    processors: int | None = None
    now: Date | None = None


def read_queue(
    content: bytes,
    source: str,
    *,
    processors: int | None = None,
    now: float | None = None,
    written_at: float | None = None,
) -> QueueState:
    """Read a queue of either form; O(jobs).

    ``processors``, the size of the machine, and ``now`` (seconds since 1970) go before what is
    written; ``written_at`` is the date where none is. What is not known is asked for by an error.
    """
    if len(content) > MAX_QUEUE_BYTES:
        raise InputError(f"{source}: {len(content):,} bytes; at most {MAX_QUEUE_BYTES:,} are read")
    try:
        data = msgspec.json.decode(content)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InputError(f"{source}: is no JSON ({error})") from None
    if not isinstance(data, dict) or not isinstance(data.get("jobs"), list):
        raise InputError(f"{source}: a JSON object with a list of jobs is expected")
    jobs: list[QueuedJob]
    if _is_squeue(data):
        jobs, left_out, told = read_squeue(data, source)
        size = None
    else:
        jobs, size, told = _own_form(data, source)
        left_out = Counter()
    size = size if processors is None else processors
    if size is None:
        raise InputError(
            f"{source}: says nothing of the machine's processors; their number is expected "
            "(--machine N)"
        )
    check_processors(size)
    date = next((each for each in (now, told, written_at) if each is not None), None)
    if date is None:
        raise InputError(f"{source}: says nothing of its date; one is expected (--now DATE)")
    return _checked(source, size, date, jobs, left_out)


def _is_squeue(data: dict[str, Any]) -> bool:
    jobs = data["jobs"]
    return "meta" in data or bool(jobs and isinstance(jobs[0], dict) and "job_id" in jobs[0])


def _own_form(
    data: dict[str, Any], source: str
) -> tuple[list[QueuedJob], int | None, float | None]:
    try:
        written = msgspec.convert(data, WrittenQueue)
    except msgspec.ValidationError as error:
        raise InputError(f"{source}: {error}; docs/operators.md tells the form") from None
    jobs = []
    for each in written.jobs:
        where = f"{source}: job {shown(str(each.id))}"
        dates = {
            name: date_of(getattr(each, name), f"{where}: {name}")
            for name in ("submission", "start", "end", "planned_start", "deadline")
        }
        priority, estimate = each.priority, each.estimate
        require(math.isfinite(priority), f"{where}: priority", priority, "a number is accepted")
        if estimate is not None:
            accepted = f"a number of seconds above 0, up to {MAX_SECONDS:g}, is accepted"
            require(0 < estimate <= MAX_SECONDS, f"{where}: estimate", estimate, accepted)
        jobs.append(
            QueuedJob(
                id=str(each.id),
                processors=each.processors,
                estimate=estimate,
                priority=priority,
                **dates,
            )
        )
    return jobs, written.processors, date_of(written.now, f"{source}: now")


def _checked(
    source: str, processors: int, now: float, jobs: list[QueuedJob], left_out: Counter[str]
) -> QueueState:
    """Return a queue whose jobs can be planned on the machine."""
    if len(jobs) > MAX_QUEUED_JOBS:
        raise InputError(f"{source}: {len(jobs):,} jobs; at most {MAX_QUEUED_JOBS:,} are read")
    seen: set[str] = set()
    used, kept = 0, []
    for job in jobs:
        where = f"{source}: job {shown(job.id)}"
        if job.id in seen:
            raise InputError(f"{where}: is given twice; ids must differ")
        seen.add(job.id)
        accepted = "a whole number above 0 is accepted"
        require(job.processors >= 1, f"{where}: processors", job.processors, accepted)
        if job.start is not None and job.start > now:
            raise InputError(
                f"{where}: runs since {job.start:.0f}, after the queue's date {now:.0f}; an "
                "earlier one is expected (of a job that waits, planned_start)"
            )
        if job.start is None and job.processors > processors:
            left_out["wider than the machine"] += 1
            continue
        used += job.processors if job.start is not None else 0
        kept.append(job)
    if used > processors:
        raise InputError(
            f"{source}: the running jobs use {used:,} processors of {processors:,}; the machine's "
            "number in the same unit is expected (--machine N)"
        )
    return QueueState(
        source=source, processors=processors, now=now, jobs=kept, left_out=dict(left_out)
    )
