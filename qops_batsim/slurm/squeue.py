"""The queue in the JSON of ``squeue``, whatever the version of its data parser.

Older ones (Slurm 20.11 to 22.05) write plain numbers, with 0 or null for none; newer ones write
``{"set": true, "infinite": false, "number": 7}``, and lists of states.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from qops_batsim.errors import InputError, printable, shown
from qops_batsim.limits import MAX_PROCESSORS, MAX_SECONDS
from qops_batsim.slurm.heterogeneous_jobs import Components, JobComponent, size_of
from qops_batsim.slurm.queued_amounts import QueuedAmounts, read_amounts, tells_amounts
from qops_batsim.slurm.queued_job import QueuedJob
from qops_batsim.slurm.values import checked_date, finite_number
from qops_batsim.slurm.waiting_reasons import ARRAY_LIMIT, WaitKind, meaning_of
from qops_batsim.workload.accounting.choices import elsewhere
from qops_batsim.workload.accounting.clusters import refuse_several_clusters
from qops_batsim.workload.accounting.rows import task_numbers
from qops_batsim.workload.accounting.states import ENDED

MAX_QUEUED_JOBS = 100_000
"""Most jobs of a queue, tasks of arrays counted one by one."""

HOLDING = {"RUNNING", "COMPLETING", "CONFIGURING", "STOPPED", "STAGE_OUT", "SIGNALING", "RESIZING"}
"""States in which a job has its processors."""

SUSPENDED = {"SUSPENDED"}

WAITING = {"PENDING", "REQUEUED", "REQUEUE_FED"}

HELD = {"REQUEUE_HOLD", "SPECIAL_EXIT", "RESV_DEL_HOLD"}

_OVER = {*ENDED, "REVOKED"}

_THROTTLE = re.compile(r"%(\d+)$")

Selection = Mapping[str, Sequence[str]]
"""Names that jobs are taken by: of ``partition``, ``qos``, ``account`` and ``reservation``."""


def read_squeue(
    data: dict[str, Any],
    source: str,
    left_out: Counter[str],
    unsure: Counter[str],
    selection: Selection,
    node_size: int,
    *,
    on_nodes: bool = False,
) -> tuple[list[QueuedJob], list[QueuedJob], float | None]:
    """Convert the JSON of squeue: return the jobs that run or can start, the waiting jobs that
    cannot start, and the queue's date (seconds since 1970, None if not told).

    In ``left_out`` jobs that are no part of the queue are counted by reason, in ``unsure`` those
    for which something is assumed, by assumption.

    Nodes have up to ``node_size`` processors. Where that is 0, as it is not known, nor are nodes:
    where partitions are selected, no job of another one may run. Jobs have what they ask of nodes
    and hold on them if they are planned ``on_nodes``, and each record tells it.
    """
    records = _records(data, source)
    refuse_several_clusters({record.text("cluster") for record in records}, source)
    if on_nodes and all(tells_amounts(record.fields) for record in records):
        for record in records:
            record.tells_amounts = True

    jobs: list[QueuedJob] = []
    blocked: list[QueuedJob] = []
    components = Components(source)
    for record in records:
        states = record.states
        # What runs holds its processors, also inside a reservation that nobody chose.
        keeps = states & HOLDING and not selection.get("reservation")
        why = record.elsewhere({**selection, "reservation": ["all"]} if keeps else selection)

        # A component that runs elsewhere keeps nobody waiting.
        counting = WAITING | HELD | SUSPENDED | (set() if why else HOLDING)
        component = record.component
        if component is not None and states & counting:
            components.add(component, is_away=bool(why))

        if why:
            left_out[why] += 1
            if why.endswith("partition") and states & HOLDING and not node_size:
                raise InputError(
                    f"{record.where}: runs in partition {shown(record.fields.get('partition'))}, "
                    "perhaps on nodes of the selected partitions; a list of the nodes (--nodes "
                    "FILE), or all partitions that share nodes (--partition), is expected"
                )
        elif states & HOLDING:
            jobs.append(record.running())
        elif states & SUSPENDED:
            jobs.append(record.suspended())
        elif states & (WAITING | HELD):
            reason, waits = record.reason()
            if waits not in (WaitKind.FOR_PROCESSORS, WaitKind.UNKNOWN):
                blocked.append(record.blocked(reason))
                continue
            new = list(record.waiting(reason, left_out, node_size))
            if not node_size and record.is_exclusive:
                unsure["ask for whole nodes, counted without their other processors"] += len(new)
            if waits is WaitKind.UNKNOWN:
                unsure[f"{waits} ({reason!r}), and planned like others"] += 1
            jobs += new
        elif states & _OVER:
            left_out["has ended"] += 1
        else:
            told = shown(record.fields["job_state"])
            raise InputError(f"{record.where}: job_state is {told}; a state of Slurm is expected")
        if len(jobs) > MAX_QUEUED_JOBS:
            raise InputError(
                f"{source}: more than {MAX_QUEUED_JOBS:,} jobs; at most this number is accepted"
            )

    jobs, blocked = components.together(jobs, blocked)
    partitions = sorted({record.text("partition") for record in records} - {""})
    if len(partitions) > 1 and not selection.get("partition"):
        told = ", ".join(partitions)
        unsure[f"of several partitions ({told}), planned as if these had the same nodes"] = len(
            jobs
        )
    return jobs, blocked, _date(data, "last_update", source)


def amounts_of_jobs(data: dict[str, Any], source: str) -> dict[str, QueuedAmounts]:
    """Return what each job in the JSON of squeue asks of nodes and, if it runs, holds there, by id;
    tasks of an array that wait together are one, with the array's id.
    """
    found = {}
    for record in _records(data, source):
        if tells_amounts(record.fields):
            waits = record.array if record.text("array_task_string") else ""
            runs = not record.states.isdisjoint(HOLDING | SUSPENDED)
            found[waits or record.id] = read_amounts(record.fields, record.where, runs=runs)
    return found


def _records(data: dict[str, Any], source: str) -> list[_Record]:
    if errors := data.get("errors"):
        # Without a controller it shows no jobs.
        raise InputError(
            f"{source}: squeue failed ({shown(errors)}); the output of a squeue that succeeds "
            "is expected"
        )
    return [
        _Record(fields, f"{source}: jobs[{index}]") for index, fields in enumerate(data["jobs"])
    ]


def _amount(fields: Mapping[str, Any], name: str, where: str) -> float | None:
    """Return a number by field name; None for 0, which Slurm writes for "none" or "unlimited"."""
    amount = finite_number(fields.get(name), f"{where}: {name}") or None
    if amount is not None and amount > MAX_SECONDS:
        raise InputError(
            f"{where}: {name} is {amount:g}; a number up to {MAX_SECONDS:g} is expected"
        )
    return amount


def _date(fields: Mapping[str, Any], name: str, where: str) -> float | None:
    """Return a date by field name (seconds since 1970); None for "none"."""
    seconds = _amount(fields, name, where)
    return None if seconds is None else checked_date(seconds, seconds, f"{where}: {name}")


class _Record:
    """A job in the JSON of squeue: its fields, and where it stands, for errors."""

    def __init__(self, fields: Any, where: str) -> None:
        if not isinstance(fields, dict) or "job_id" not in fields:
            raise InputError(f"{where}: an object with a job_id is expected")
        self.fields: dict[str, Any] = fields
        self.where = where
        self.tells_amounts = False

    def text(self, name: str) -> str:
        """Return a field as text, empty if it is not told."""
        return str(self.fields.get(name) or "")

    def number(self, name: str) -> float | None:
        """Return a number from 0 up; None if it is not set or infinite."""
        return finite_number(self.fields.get(name), f"{self.where}: {name}")

    def amount(self, name: str) -> float | None:
        return _amount(self.fields, name, self.where)

    def date(self, name: str) -> float | None:
        return _date(self.fields, name, self.where)

    @property
    def states(self) -> set[str]:
        told = self.fields.get("job_state")
        states = [told] if isinstance(told, str) else told
        if not isinstance(states, list) or not all(isinstance(state, str) for state in states):
            raise InputError(
                f"{self.where}: job_state is {shown(told)}; a state, or a list, is expected"
            )
        return set(states)

    @property
    def is_exclusive(self) -> bool:
        """Whether the job shares its nodes with no other job."""
        return "none" in self.text("shared")

    @property
    def array(self) -> str:
        """The job array that it is of, empty if it is of none."""
        number = self.amount("array_job_id")
        return "" if number is None else f"{number:.0f}"

    @property
    def component(self) -> JobComponent | None:
        """Which component of which heterogeneous job it is, None if of none."""
        whole = self.amount("het_job_id")
        if whole is None:
            return None
        offset = self.amount("het_job_offset") or 0.0
        return JobComponent(f"{whole:.0f}", int(offset), size_of(self.fields.get("het_job_id_set")))

    @property
    def id(self) -> str:
        """The job's id as squeue shows it: ``4711``, ``4711_3`` (array task), ``4711+1`` (part of a
        heterogeneous job).
        """
        task = self.number("array_task_id")
        if self.array and task is not None:
            return f"{self.array}_{task:.0f}"
        if self.component is not None:
            return self.component.id
        number = self.number("job_id")
        if number is None:
            told = shown(self.fields["job_id"])
            raise InputError(f"{self.where}: job_id is {told}; a number is expected")
        return f"{number:.0f}"

    @property
    def at_once(self) -> int:
        """How many tasks of its array may run at once (``1-9%2``: 2), 0 for any number."""
        told = _THROTTLE.search(self.text("array_task_string"))
        if told:
            return int(told[1][:9])
        return int(self.number("array_max_tasks") or 0)

    def elsewhere(self, selection: Selection) -> str:
        """Return why the job is outside the selected partitions, QOS, accounts and reservations;
        empty if it is inside.
        """
        for what, wanted in selection.items():
            name = self.text("resv_name" if what == "reservation" else what)
            if why := elsewhere("QOS" if what == "qos" else what, name, wanted):
                return why
        return ""

    def reason(self) -> tuple[str, WaitKind]:
        """Return why the job waits, and how a plan has to treat it."""
        reason = printable(self.text("state_reason") or "None")
        waits = meaning_of(reason).waits
        held = sorted(self.states & HELD) or (["held"] if self.fields.get("hold") else [])
        if held:
            told = reason if waits is WaitKind.CANNOT_START else held[0]
            return told, WaitKind.CANNOT_START
        if reason == ARRAY_LIMIT and self.at_once:
            return reason, WaitKind.FOR_PROCESSORS  # Its tasks are planned one after the other.
        return reason, waits

    def _common(self) -> dict[str, Any]:
        """Return the fields that running and waiting jobs have."""
        cpus = self.amount("cpus")
        if cpus is None or not cpus.is_integer() or cpus > MAX_PROCESSORS:
            told = shown(self.fields.get("cpus"))
            raise InputError(f"{self.where}: cpus is {told}; a whole number above 0 is expected")

        minutes = self.amount("time_limit")
        return {
            "array": self.array,
            "at_once": self.at_once,
            "processors": int(cpus),
            "estimate": None if minutes is None else 60 * minutes,
            "submission": self.date("submit_time"),
            "deadline": self.date("deadline"),
            "user": self.text("user_name"),
            "application": self.text("name"),
            "partition": self.text("partition"),
            "amounts": self._amounts(),
        }

    def _amounts(self) -> tuple[QueuedAmounts, ...]:
        if not self.tells_amounts:
            return ()
        runs = not self.states.isdisjoint(HOLDING)
        return (read_amounts(self.fields, self.where, runs=runs),)

    def running(self) -> QueuedJob:
        common = self._common()

        start = self.date("start_time")
        if start is None:
            raise InputError(
                f"{self.where}: the job runs, but has no start_time; a date is expected"
            )
        return QueuedJob(
            id=self.id,
            start=start,
            end=None if common["estimate"] is None else self.date("end_time"),
            nodes=self.text("nodes"),
            reservation=self.text("resv_name"),
            **common,
        )

    def suspended(self) -> QueuedJob:
        """Return a suspended job as a waiting one whose estimate is the run time that is left."""
        common = self._common()
        if common["estimate"] is not None:
            done = self.amount("pre_sus_time") or 0.0
            common["estimate"] = max(common["estimate"] - done, 1.0)
        return QueuedJob(id=self.id, **common)

    def blocked(self, reason: str) -> QueuedJob:
        """Return a waiting job that cannot start; array tasks that share a record stay one job,
        ``4711_[3-9]``.
        """
        tasks = printable(self.text("array_task_string"))
        whole = f"{self.array}_[{tasks}]" if tasks and self.array else self.id
        return QueuedJob(id=whole, reason=reason, **self._common())

    def waiting(self, reason: str, left_out: Counter[str], node_size: int) -> Iterator[QueuedJob]:
        """Yield the waiting job, or each task if the record is of several tasks of an array."""
        common = self._common() | {"reason": reason}
        if self.is_exclusive:  # It asks for some of the processors of whole nodes.
            nodes = self.amount("node_count") or 1.0
            common["processors"] = max(common["processors"], int(nodes) * node_size)
        common["planned_start"] = self.date("start_time")
        common["priority"] = self.number("priority") or 0.0

        tasks = self.fields.get("array_task_string") or ""
        if not tasks or not self.array:
            yield QueuedJob(id=self.id, **common)
            return
        if not isinstance(tasks, str):
            raise InputError(
                f"{self.where}: array_task_string is {shown(tasks)}; a text is expected"
            )
        if "..." in tasks:
            left_out["tasks of arrays beyond what squeue lists"] += 1
        listed = _THROTTLE.sub("", tasks)
        numbers = None if "%" in listed else task_numbers(listed)
        if numbers is None or len(numbers) > MAX_QUEUED_JOBS:
            raise InputError(
                f"{self.where}: array_task_string is {shown(tasks)}; ranges as 1-9:2,12 of up to "
                f"{MAX_QUEUED_JOBS:,} tasks are expected"
            )
        for task in numbers:
            yield QueuedJob(id=f"{self.array}_{task}", **common)
            common["planned_start"] = None  # Only the first can have been planned.
