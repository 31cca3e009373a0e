"""Queues read from a file or a message.

Forms that are understood: that of this package, text of Slurm's ``squeue`` and ``scontrol show
job``, and the JSON of ``squeue --json``, whatever the version of its data parser. Older ones (Slurm
20.11 to 22.05) write plain numbers, with 0 or null for none; newer ones write ``{"set": true,
"infinite": false, "number": 7}``, and lists of states.
"""

from __future__ import annotations

import json
import math
import re
from codecs import BOM_UTF8
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import msgspec

from qops_batsim.data_problems import converted
from qops_batsim.errors import InputError, printable, require, shown
from qops_batsim.limits import MAX_PROCESSORS, MAX_SECONDS
from qops_batsim.queue.heterogeneous_jobs import Component, Components, size_of
from qops_batsim.queue.queue_state import Date, QueuedJob, QueueState, date_of
from qops_batsim.slurm.scontrol_text import checked_date
from qops_batsim.slurm.squeue_text import records_of_text
from qops_batsim.slurm.waiting_reasons import ARRAY_LIMIT, TOO_WIDE, Waits, meaning_of
from qops_batsim.workload.accounting.cells import slurm_number
from qops_batsim.workload.accounting.rows import ENDED, elsewhere, task_numbers
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

MAX_QUEUED_JOBS = 100_000
"""Most jobs of a queue, tasks of arrays counted one by one."""

HOLDING = {"RUNNING", "COMPLETING", "CONFIGURING", "STOPPED", "STAGE_OUT", "SIGNALING", "RESIZING"}
"""States in which a job has its processors."""

WAITING = {"PENDING", "REQUEUED", "REQUEUE_FED"}

HELD = {"REQUEUE_HOLD", "SPECIAL_EXIT", "RESV_DEL_HOLD"}

_QUEUE_EXPECTED = "the output of `squeue --json` or of `scontrol show job`"

_THROTTLE = re.compile(r"%(\d+)$")

Selection = Mapping[str, Sequence[str]]
"""Names that jobs are taken by: of ``partition``, ``qos``, ``account`` and ``reservation``."""


def _elsewhere(record: dict[str, Any], selection: Selection) -> str:
    """Return why the job of a squeue record is outside the selected partitions, QOS, accounts and
    reservations; empty if it is inside.
    """
    for what, wanted in selection.items():
        told = str(record.get("resv_name" if what == "reservation" else what) or "")
        if why := elsewhere("QOS" if what == "qos" else what, told, wanted):
            return why
    return ""


def read_squeue(
    data: dict[str, Any],
    source: str,
    left_out: Counter[str],
    unsure: Counter[str],
    selection: Selection = MappingProxyType({}),
    *,
    node_size: int = 0,
) -> tuple[list[QueuedJob], list[QueuedJob], float | None]:
    """Convert the JSON of squeue: return the jobs that run or can start, the waiting jobs that
    cannot start, and the queue's date (seconds since 1970, None if not told).

    In ``left_out`` jobs that are no part of the queue are counted by reason, in ``unsure`` those
    for which something is assumed, by assumption.

    Nodes have up to ``node_size`` processors. Where that is not known, nor are nodes: where
    partitions are selected, no job of another one may run.
    """
    if errors := data.get("errors"):
        # Without a controller it shows no jobs.
        raise InputError(
            f"{source}: squeue failed ({shown(errors)}); the output of a squeue that succeeds "
            "is expected"
        )
    records = (each for each in data["jobs"] if isinstance(each, dict))
    clusters = {str(each["cluster"]) for each in records if each.get("cluster")}
    if len(clusters) > 1:
        told = ", ".join(map(printable, sorted(clusters)))
        raise InputError(
            f"{source}: has jobs of clusters {told}; the jobs of one cluster are expected"
        )
    jobs: list[QueuedJob] = []
    blocked: list[QueuedJob] = []
    components = Components(source)
    for index, record in enumerate(data["jobs"]):
        where = f"{source}: jobs[{index}]"
        if not isinstance(record, dict) or "job_id" not in record:
            raise InputError(f"{where}: an object with a job_id is expected")
        states = _states(record.get("job_state"), where)
        inside = str(record.get("resv_name") or "")
        # What runs holds its processors, also inside a reservation that nobody chose.
        keeps = states & HOLDING and not selection.get("reservation")
        why = _elsewhere(record, {**selection, "reservation": ["all"]} if keeps else selection)
        component = _component(record, where)
        # One that runs elsewhere keeps nobody waiting.
        counting = WAITING | HELD | {"SUSPENDED"} | (set() if why else HOLDING)
        if component is not None and states & counting:
            components.add(component, is_away=bool(why))
        if why:
            left_out[why] += 1
            if why.endswith("partition") and states & HOLDING and not node_size:
                raise InputError(
                    f"{where}: runs in partition {shown(record.get('partition'))}, perhaps on "
                    "nodes of the selected partitions; a list of the nodes (--nodes FILE), or all "
                    "partitions that share nodes (--partition), is expected"
                )
        elif states & HOLDING:
            jobs.append(_running(record, where, inside))
        elif "SUSPENDED" in states:
            jobs.append(_suspended(record, where))
        elif states & (WAITING | HELD):
            reason, waits = _waits(record, states, where)
            if waits not in (Waits.FOR_PROCESSORS, Waits.UNKNOWN):
                blocked.append(_blocked(record, where, reason))
                continue
            new = list(_waiting(record, where, reason, left_out, node_size))
            if not node_size and _is_exclusive(record):
                unsure["ask for whole nodes, counted without their other processors"] += len(new)
            if waits is Waits.UNKNOWN:
                unsure[f"{waits} ({reason!r}), and planned like others"] += 1
            jobs += new
        elif states & ENDED.keys() or "REVOKED" in states:
            left_out["has ended"] += 1
        else:
            told = shown(record["job_state"])
            raise InputError(f"{where}: job_state is {told}; a state of Slurm is expected")
        if len(jobs) > MAX_QUEUED_JOBS:
            raise InputError(
                f"{source}: more than {MAX_QUEUED_JOBS:,} jobs; at most this number is accepted"
            )
    jobs, blocked = components.together(jobs, blocked)
    partitions = sorted({str(each["partition"]) for each in data["jobs"] if each.get("partition")})
    if len(partitions) > 1 and not selection.get("partition"):
        told = ", ".join(partitions)
        unsure[f"of several partitions ({told}), planned as if these had the same nodes"] = len(
            jobs
        )
    return jobs, blocked, _date(data, "last_update", source)


def _waits(record: dict[str, Any], states: set[str], where: str) -> tuple[str, Waits]:
    """Return why the job of a squeue record waits, and how a plan has to treat it."""
    reason = printable(str(record.get("state_reason") or "None"))
    waits = meaning_of(reason).waits
    if held := sorted(states & HELD) or (["held"] if record.get("hold") else []):
        return (held[0] if waits is not Waits.CANNOT_START else reason), Waits.CANNOT_START
    if reason == ARRAY_LIMIT and _at_once(record, where):
        return reason, Waits.FOR_PROCESSORS  # Its tasks are planned one after the other.
    return reason, waits


def _at_once(record: dict[str, Any], where: str) -> int:
    """Return how many tasks of a job array may run at once (``1-9%2``: 2), 0 for any number."""
    told = _THROTTLE.search(str(record.get("array_task_string")))
    if told:
        return int(told[1][:9])
    return int(number(record.get("array_max_tasks"), f"{where}: array_max_tasks") or 0)


def number(value: Any, where: str) -> float | None:
    """Parse a number in the form of any Slurm version; return None if it is not set or infinite.
    ``where`` names the field in errors.
    """
    try:
        found = slurm_number(value)
    except InputError as error:
        raise InputError(f"{where}: {error}") from None
    if found < 0:
        raise InputError(f"{where} is {shown(value)}; a number from 0 up is expected")
    return found if math.isfinite(found) else None


def _states(value: Any, where: str) -> set[str]:
    states = [value] if isinstance(value, str) else value
    if not isinstance(states, list) or not all(isinstance(each, str) for each in states):
        raise InputError(f"{where}: job_state is {shown(value)}; a state, or a list, is expected")
    return set(states)


def _of(record: dict[str, Any], name: str, where: str) -> float | None:
    """Return a number of a squeue record by field name; None for 0, which Slurm writes for "none"
    or "unlimited".
    """
    found = number(record.get(name), f"{where}: {name}") or None
    if found is not None and found > MAX_SECONDS:
        raise InputError(
            f"{where}: {name} is {found:g}; a number up to {MAX_SECONDS:g} is expected"
        )
    return found


def _date(record: dict[str, Any], name: str, where: str) -> float | None:
    """Return a date of a squeue record by field name (seconds since 1970); None for "none"."""
    found = _of(record, name, where)
    return None if found is None else checked_date(found, found, f"{where}: {name}")


def _common(record: dict[str, Any], where: str) -> dict[str, Any]:
    cpus = _of(record, "cpus", where)
    if cpus is None or not cpus.is_integer() or cpus > MAX_PROCESSORS:
        found = shown(record.get("cpus"))
        raise InputError(f"{where}: cpus is {found}; a whole number above 0 is expected")
    minutes = _of(record, "time_limit", where)
    array = _of(record, "array_job_id", where)
    return {
        "array": "" if array is None else f"{array:.0f}",
        "at_once": _at_once(record, where),
        "processors": int(cpus),
        "estimate": None if minutes is None else 60 * minutes,
        "submission": _date(record, "submit_time", where),
        "deadline": _date(record, "deadline", where),
        "user": str(record.get("user_name") or ""),
        "application": str(record.get("name") or ""),
        "partition": str(record.get("partition") or ""),
    }


def _is_exclusive(record: dict[str, Any]) -> bool:
    """Return whether the job of a squeue record shares its nodes with no other job."""
    return "none" in str(record.get("shared"))


def _id(record: dict[str, Any], where: str) -> str:
    """Return the job's id as squeue shows it: ``4711``, ``4711_3`` (array task), ``4711+1`` (part
    of a heterogeneous job).
    """
    array, task = (
        _of(record, "array_job_id", where),
        number(record.get("array_task_id"), f"{where}: array_task_id"),
    )
    if array is not None and task is not None:
        return f"{array:.0f}_{task:.0f}"
    component = _component(record, where)
    if component is not None:
        return component.id
    job_id = number(record["job_id"], f"{where}: job_id")
    if job_id is None:
        raise InputError(f"{where}: job_id is {shown(record['job_id'])}; a number is expected")
    return f"{job_id:.0f}"


def _component(record: dict[str, Any], where: str) -> Component | None:
    """Return which component of which heterogeneous job a squeue record is, None if of none."""
    whole = _of(record, "het_job_id", where)
    if whole is None:
        return None
    offset = _of(record, "het_job_offset", where) or 0.0
    return Component(f"{whole:.0f}", int(offset), size_of(record.get("het_job_id_set")))


def _running(record: dict[str, Any], where: str, reservation: str) -> QueuedJob:
    common, start = _common(record, where), _date(record, "start_time", where)
    if start is None:
        raise InputError(f"{where}: the job runs, but has no start_time; a date is expected")
    estimate = common["estimate"]
    return QueuedJob(
        id=_id(record, where),
        start=start,
        end=None if estimate is None else _date(record, "end_time", where),
        nodes=str(record.get("nodes") or ""),
        reservation=reservation,
        **common,
    )


def _suspended(record: dict[str, Any], where: str) -> QueuedJob:
    """Return a suspended job as a waiting one whose estimate is the run time that is left."""
    common = _common(record, where)
    if common["estimate"] is not None:
        done = _of(record, "pre_sus_time", where) or 0.0
        common["estimate"] = max(common["estimate"] - done, 1.0)
    return QueuedJob(id=_id(record, where), **common)


def _blocked(record: dict[str, Any], where: str, reason: str) -> QueuedJob:
    """Return the waiting job of a squeue record that cannot start; array tasks that share a record
    stay one job, ``4711_[3-9]``.
    """
    common, tasks = _common(record, where), printable(str(record.get("array_task_string") or ""))
    whole = f"{common['array']}_[{tasks}]" if tasks and common["array"] else _id(record, where)
    return QueuedJob(id=whole, reason=reason, **common)


def _waiting(
    record: dict[str, Any], where: str, reason: str, left_out: Counter[str], node_size: int
) -> Iterator[QueuedJob]:
    """Yield the waiting job of a squeue record, or each task if the record is of several tasks of
    an array.
    """
    common = _common(record, where) | {"reason": reason}
    if _is_exclusive(record):  # It asks for some of the processors of whole nodes.
        nodes = _of(record, "node_count", where) or 1.0
        common["processors"] = max(common["processors"], int(nodes) * node_size)
    common |= {
        "planned_start": _date(record, "start_time", where),
        "priority": number(record.get("priority"), f"{where}: priority") or 0.0,
    }
    tasks, array = record.get("array_task_string") or "", common["array"]
    if not tasks or not array:
        yield QueuedJob(id=_id(record, where), **common)
        return
    if not isinstance(tasks, str):
        raise InputError(f"{where}: array_task_string is {shown(tasks)}; a text is expected")
    if "..." in tasks:
        left_out["tasks of arrays beyond what squeue lists"] += 1
    listed = _THROTTLE.sub("", tasks)
    numbers = None if "%" in listed else task_numbers(listed)
    if numbers is None or len(numbers) > MAX_QUEUED_JOBS:
        raise InputError(
            f"{where}: array_task_string is {shown(tasks)}; ranges as 1-9:2,12 of up to "
            f"{MAX_QUEUED_JOBS:,} tasks are expected"
        )
    for task in numbers:
        yield QueuedJob(id=f"{array}_{task}", **common)
        common["planned_start"] = None  # Only the first can have been planned.


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
) -> QueueState:
    """Read a queue, either Slurm's output or this package's own JSON form; jobs can be selected
    only in Slurm's output. O(jobs).

    ``processors``, the size of the machine, and ``now`` (seconds since 1970) go before what is
    written; ``written_at`` is the date where none is. Dates of text without an offset are of the
    ``time_zone``, by default this machine's. What is not known is asked for by an error.
    """
    if len(content) > MAX_QUEUE_BYTES:
        raise InputError(f"{source}: {len(content):,} bytes; at most {MAX_QUEUE_BYTES:,} are read")
    left_out: Counter[str] = Counter()
    unsure: Counter[str] = Counter()
    data = _data_of(content, source, time_zone, unsure)
    size, blocked = None, list[QueuedJob]()
    if _is_squeue(data):
        jobs, blocked, told = read_squeue(
            data, source, left_out, unsure, selection, node_size=node_size
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
    try:
        json.loads(
            content,
            object_pairs_hook=check,
            parse_int=any_number,
            parse_float=any_number,
            parse_constant=any_number,
        )
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
                user=each.user,
                application=each.application,
                partition=each.partition,
                **dates,
            )
        )
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
    used, kept = 0, []
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
        if job.start is None and job.processors > processors:
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
