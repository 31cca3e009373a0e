"""Queues read from a file or a message.

Forms that are understood: that of this package, text of Slurm's ``squeue`` and ``scontrol show
job``, and the JSON of ``squeue --json``.
"""

from __future__ import annotations

import json
import math
from codecs import BOM_UTF8
from collections import Counter
from types import MappingProxyType
from typing import Any

import msgspec

from qops_batsim.data_problems import converted
from qops_batsim.errors import InputError, require, shown
from qops_batsim.limits import MAX_SECONDS
from qops_batsim.queue.queue_state import Date, QueuedJob, QueueState, date_of
from qops_batsim.slurm.squeue import MAX_QUEUED_JOBS, Selection, read_squeue
from qops_batsim.slurm.squeue_text import records_of_text
from qops_batsim.slurm.values import checked_date
from qops_batsim.slurm.waiting_reasons import TOO_WIDE
from qops_batsim.workload.other_json import (
    kind_of,
    refuse_kind,
    refuse_object,
    refuse_other_json,
)
from qops_batsim.workload.workload_model import check_processors

MAX_QUEUE_BYTES = 256 << 20
"""Largest queue that is read (bytes)."""

CLOCKS = 60.0
"""By how much the clocks of Slurm and of this machine may differ (seconds)."""

_QUEUE_EXPECTED = "the output of `squeue --json` or of `scontrol show job`"


class WrittenJob(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A job in this package's own JSON form of a queue, which docs/centres.md describes."""

    id: str | int
    processors: int
    estimate: float | None = None
    submission: Date | None = None
    start: Date | None = None
    end: Date | None = None
    planned_start: Date | None = None
    deadline: Date | None = None
    priority: float = 0.0
    user: str = ""
    application: str = ""
    partition: str = ""


class WrittenQueue(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A queue in this package's own JSON form, which docs/centres.md describes."""

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
    selection: Selection = MappingProxyType({}),
    node_size: int = 0,
    time_zone: str | None = None,
    on_nodes: bool = False,
) -> QueueState:
    """Read a queue, either Slurm's output or this package's own JSON form; jobs can be selected
    only in Slurm's output. O(jobs).

    ``processors``, the size of the machine, and ``now`` (seconds since 1970) go before what is
    written; ``written_at`` is the date where none is. Dates of text without an offset are of the
    ``time_zone``, by default this machine's. What is not known is asked for by an error. With
    ``on_nodes``, jobs of Slurm's output have what they ask of nodes, if all of them tell it.
    """
    if len(content) > MAX_QUEUE_BYTES:
        raise InputError(f"{source}: {len(content):,} bytes; at most {MAX_QUEUE_BYTES:,} are read")

    left_out: Counter[str] = Counter()
    unsure: Counter[str] = Counter()
    data = _data_of(content, source, time_zone, unsure)
    size = None
    blocked: list[QueuedJob] = []
    if _is_squeue(data):
        jobs, blocked, told = read_squeue(
            data, source, left_out, unsure, selection, node_size, on_nodes=on_nodes
        )
    elif any(selection.values()):
        raise InputError(
            f"{source}: is not the output of Slurm; only in squeue's or scontrol's output can jobs "
            "be selected by partition, QOS, account or reservation"
        )
    else:
        jobs, size, told = _own_form(data, source)

    size = size if processors is None else processors
    if size is None:
        raise InputError(
            f"{source}: does not tell how many processors the machine has; their number is "
            "expected (--processors N)"
        )
    check_processors(size)

    date = next((each for each in (now, told, written_at) if each is not None), None)
    if date is None:
        raise InputError(
            f"{source}: does not tell the date of the queue; a date is expected (--now DATE)"
        )

    if now is None and told is None:
        # The date is of this machine's clock, the jobs' dates of another one.
        dates = [each for job in jobs for each in (job.start, job.submission) if each is not None]
        date = max([date, *(each for each in dates if each <= date + CLOCKS)])
    return _checked(source, size, date, jobs, blocked, left_out, unsure)


def _data_of(
    content: bytes, source: str, time_zone: str | None, unsure: Counter[str]
) -> dict[str, Any]:
    """Decode a queue from JSON, or from the text of squeue or scontrol, which is converted to the
    JSON of squeue.
    """
    content = content.removeprefix(BOM_UTF8)
    if not content.lstrip().startswith((b"{", b"[")):
        text = content.decode("utf-8", "replace").lstrip()
        return {"meta": {}, "jobs": records_of_text(text, source, time_zone, unsure)}
    try:
        data = msgspec.json.decode(content)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        refuse_other_json(content, source, _QUEUE_EXPECTED)
        raise InputError(f"{source}: is not valid JSON ({error})") from None

    refuse_kind(kind_of(data), source, _QUEUE_EXPECTED, ("squeue", "queue"))
    if isinstance(data, dict):
        refuse_object(data, source, _QUEUE_EXPECTED, ("jobs",))
    if not isinstance(data, dict) or not isinstance(data.get("jobs"), list):
        raise InputError(f"{source}: a JSON object with a list of jobs is expected")
    refuse_repeated_names(content, source)
    return data


def refuse_repeated_names(content: bytes, source: str) -> None:
    """Raise InputError for JSON in which an object has the same field twice, since decoders differ
    in which value they take.
    """

    def check(pairs: list[tuple[str, Any]]) -> None:
        if len(dict(pairs)) < len(pairs):
            twin = Counter(name for name, _ in pairs).most_common(1)[0][0]
            raise InputError(f"{source}: field {shown(twin)} is given twice; once is expected")

    # Values do not matter here.
    any_number: Any = len
    numbers = dict.fromkeys(("parse_int", "parse_float", "parse_constant"), any_number)
    try:
        json.loads(content, object_pairs_hook=check, **numbers)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{source}: is not valid JSON ({error})") from None


def _is_squeue(data: dict[str, Any]) -> bool:
    jobs = data["jobs"]
    return "meta" in data or bool(jobs and isinstance(jobs[0], dict) and "job_id" in jobs[0])


def _own_form(
    data: dict[str, Any], source: str
) -> tuple[list[QueuedJob], int | None, float | None]:
    written = converted(data, WrittenQueue, source, "a queue as docs/centres.md describes it")
    jobs = []
    for each in written.jobs:
        where = f"{source}: job {shown(str(each.id))}"
        dates: dict[str, Any] = {
            name: _checked_date_of(getattr(each, name), f"{where}: {name}")
            for name in ("submission", "start", "end", "planned_start", "deadline")
        }

        priority = each.priority
        estimate = each.estimate
        require(math.isfinite(priority), f"{where}: priority", priority, "a number is accepted")
        if estimate is not None:
            accepted = f"a number of seconds above 0, up to {MAX_SECONDS:g}, is accepted"
            require(0 < estimate <= MAX_SECONDS, f"{where}: estimate", estimate, accepted)

        fields = msgspec.structs.asdict(each) | dates | {"id": str(each.id)}
        jobs.append(QueuedJob(**fields))
    return jobs, written.processors, _checked_date_of(written.now, f"{source}: now")


def _checked_date_of(date: Date | None, where: str) -> float | None:
    found = date_of(date, where)
    return None if found is None else checked_date(found, date, where)


def _checked(
    source: str,
    processors: int,
    now: float,
    jobs: list[QueuedJob],
    blocked: list[QueuedJob],
    left_out: Counter[str],
    unsure: Counter[str],
) -> QueueState:
    """Check that the ids differ and that the running jobs fit the machine, and return the queue;
    waiting jobs that are too wide become blocked.
    """
    if len(jobs) > MAX_QUEUED_JOBS:
        raise InputError(f"{source}: {len(jobs):,} jobs; at most {MAX_QUEUED_JOBS:,} are read")

    seen: set[str] = set()
    used = 0
    kept = []
    for job in jobs:
        where = f"{source}: job {shown(job.id)}"
        if job.id in seen:
            raise InputError(f"{where}: is listed twice; each id is expected once")
        seen.add(job.id)

        accepted = "a whole number above 0 is accepted"
        require(job.processors >= 1, f"{where}: processors", job.processors, accepted)
        if job.start is not None and job.start > now:
            raise InputError(
                f"{where}: runs since {job.start:.0f}, after the queue's date {now:.0f}; an "
                "earlier start is expected (a job that waits has planned_start instead)"
            )

        # Whether nodes have what a job asks for is found out by the plan.
        if job.start is None and job.processors > processors and not job.amounts:
            blocked.append(msgspec.structs.replace(job, reason=TOO_WIDE))
            continue
        if job.start is None and (job.submission or 0.0) > now:
            unsure["submitted after the queue's date, as of a clock that differs"] += 1

        used += job.processors if job.start is not None else 0
        kept.append(job)

    if used > processors:
        raise InputError(
            f"{source}: the running jobs use {used:,} processors, more than the "
            f"{processors:,} of the machine; the machine's size, counted as in the queue, is "
            "expected (--processors N)"
        )
    return QueueState(
        source=source,
        processors=processors,
        now=now,
        jobs=kept,
        blocked=blocked,
        left_out=dict(left_out),
        unsure=dict(unsure),
    )
