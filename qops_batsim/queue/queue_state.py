"""A machine's queue at one moment, and jobs that are not submitted yet and asked about."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime

import msgspec

from qops_batsim.core.host_properties import read_memory
from qops_batsim.core.machine import Machine
from qops_batsim.errors import InputError, require, shown
from qops_batsim.limits import MAX_SECONDS
from qops_batsim.quantities import TIME
from qops_batsim.slurm.queued_job import QueuedJob as QueuedJob
from qops_batsim.slurm.waiting_reasons import ARRAY_LIMIT, TOO_WIDE, TOO_WIDE_NOW
from qops_batsim.texts import size_text

Date = float | str
"""Seconds since 1970, or an ISO date with its offset from UTC."""


def limit_of(job: QueuedJob) -> float:
    """Return when a running job reaches its time limit (seconds since 1970); infinite without
    limit.
    """
    if job.end is not None:
        return job.end
    assert job.start is not None
    return math.inf if job.estimate is None else job.start + job.estimate


def in_line(job: QueuedJob) -> tuple[float, float, float]:
    """Return the sort key of waiting jobs that orders them by planned start, then by priority, then
    by submission.
    """
    planned = math.inf if job.planned_start is None else job.planned_start
    return planned, -job.priority, job.submission or 0.0


def by_priority(job: QueuedJob) -> tuple[float, float, float]:
    """Return the sort key of waiting jobs that orders them as a scheduler does: by priority, then
    by planned start, then by submission.
    """
    planned, priority, submission = in_line(job)
    return priority, planned, submission


class QueueNodes(msgspec.Struct, frozen=True, kw_only=True):
    """The nodes of a queue whose jobs tell what they ask of nodes, and hold on them.

    Attributes
    ----------
    machine
        What the nodes have, with partitions and features as labels.
    away
        Nodes that are away, with the date of their return; None if that is not known.
    asleep
        Nodes that are powered down.
    partitions
        Names of the partitions that they are of.
    """

    machine: Machine
    away: dict[str, float | None] = {}
    asleep: frozenset[str] = frozenset()
    partitions: tuple[str, ...] = ()


class QueueState(msgspec.Struct, frozen=True, kw_only=True):
    """The running and waiting jobs of a machine at a date, ``now`` (seconds since 1970).

    Attributes
    ----------
    jobs
        What runs, and what waits and can start.
    blocked
        What waits and cannot start as things are: it is in nobody's way. Tasks of an array that
        wait together are one, ``4711_[3-9]``.
    left_out
        Count of the others, by why they are no part of this queue.
    unsure
        Count of the jobs about which something had to be assumed.
    away
        Processors of nodes that are away for as long as is known: ``processors`` are the others.
    closed
        Further processors of nodes that are away, as of jobs that run until these come back.
    apart
        What runs on nodes that are away, and takes none of the processors.
    shares_nodes
        Whether its partitions are known to have the same nodes.
    asleep
        Processors of nodes that are powered down: they are there, but not at once.
    margin
        By how much longer than their limits jobs that are promised something may take (seconds).
    nodes
        The nodes, where plans go by what jobs have of each; None: by processors.
    """

    source: str
    processors: int
    now: float
    jobs: list[QueuedJob]
    blocked: list[QueuedJob] = []
    left_out: dict[str, int] = {}
    unsure: dict[str, int] = {}
    away: int = 0
    closed: list[QueuedJob] = []
    apart: list[QueuedJob] = []
    shares_nodes: bool = False
    asleep: int = 0
    margin: float = 0.0
    nodes: QueueNodes | None = None

    @property
    def machine(self) -> int:
        """Return the processors of the machine, those of nodes that are away included."""
        return self.processors + self.away

    @property
    def running(self) -> list[QueuedJob]:
        """Return the jobs that run on nodes that are not away."""
        return [job for job in self.jobs if job.start is not None]

    @property
    def holding(self) -> list[QueuedJob]:
        """Return what has processors: running jobs, and nodes that are away for some time."""
        return [*self.running, *self.closed]

    @property
    def free(self) -> int:
        """Return the number of processors that nothing has."""
        return self.processors - sum(job.processors for job in self.holding)

    def count_running(self) -> int:
        """Return how many jobs run, also on nodes that are away."""
        return len(self.running) + len(self.apart)

    def check_width(self, processors: int) -> None:
        """Raise an InputError if a new job has no processors, or more than are left."""
        size = self.processors
        what = "the size of the machine"
        if self.away:
            what = f"the machine's {self.machine:,} without the nodes that are away"
        accepted = f"a whole number from 1 to {size}, {what}, is accepted"
        require(1 <= processors <= size, "processors", processors, accepted)

    def not_planned(self) -> dict[str, int]:
        """Count the jobs that are left out of the plan or cannot start, by reason."""
        blocked = Counter(
            job.reason
            if job.reason in (TOO_WIDE, TOO_WIDE_NOW)
            else f"{job.meaning.waits} ({job.reason})"
            for job in self.blocked
        )
        return {**self.left_out, **blocked}


def line_of(state: QueueState) -> tuple[list[QueuedJob], list[QueuedJob]]:
    """Return the waiting jobs of a queue that can start, in the order of their priority, and the
    waiting jobs that cannot.

    Of an array, no more tasks can start than may run at once, with those that run.
    """
    room = {job.array: job.at_once for job in state.jobs if job.at_once}
    for job in [*state.running, *state.apart]:
        if job.array in room:
            room[job.array] -= 1

    line: list[QueuedJob] = []
    beyond: dict[str, list[QueuedJob]] = {}
    for job in sorted((job for job in state.jobs if job.start is None), key=by_priority):
        if room.get(job.array, 1) > 0:
            line.append(job)
        else:
            beyond.setdefault(job.array, []).append(job)
        if job.array in room:
            room[job.array] -= 1
    return line, [*map(_together, beyond.values()), *state.blocked]


def _together(tasks: Sequence[QueuedJob]) -> QueuedJob:
    """Return waiting tasks of one array as a single job, named as squeue does: ``4711_[3-9]``."""
    spans: list[list[int]] = []
    for number in sorted(int(task.id.rpartition("_")[2]) for task in tasks):
        if spans and spans[-1][-1] == number - 1:
            spans[-1][1:] = [number]
        else:
            spans.append([number])

    numbers = ",".join("-".join(map(str, span)) for span in spans)
    whole = f"{tasks[0].array}_[{numbers}]"
    return msgspec.structs.replace(tasks[0], id=whole, reason=ARRAY_LIMIT)


class Ask(msgspec.Struct, frozen=True, kw_only=True):
    """A job that is not submitted yet and asked about.

    Attributes
    ----------
    processors, time
        What it needs; the time is its estimated run time, and its limit (seconds).
    deadline
        By when it has to end (seconds from now), None for the earliest end only.
    user, partition
        Whose job it is, and where it would wait, for forecasts; empty if not told.
    nodes, each
        In a plan by node: on how many nodes it has to be, 0 for any number; and what it takes of
        each beside its processors, by kind.
    """

    processors: int
    time: float
    deadline: float | None = None
    user: str = ""
    partition: str = ""
    nodes: int = 0
    each: dict[str, int] = {}

    @property
    def name(self) -> str:
        """Return what it asks for in short form: ``64x2h``, ``8x2h,gpus=2``."""
        unit, size = next(
            (unit, size)
            for unit, size in (("h", 3600.0), ("m", 60.0), ("s", 1.0))
            if size == 1.0 or self.time % size == 0
        )
        told = [("nodes", str(self.nodes))] if self.nodes > 1 else []
        for kind, amount in self.each.items():
            is_size = kind == "memory"
            told.append((kind, size_text(amount).replace(" ", "") if is_size else str(amount)))
        more = "".join(f",{kind}={amount}" for kind, amount in told)
        return f"{self.processors}x{self.time / size:g}{unit}{more}"

    def check_counted(self, state: QueueState) -> None:
        """Raise an InputError if it asks for amounts and the plan of a queue counts processors."""
        asked = [*self.each] or ["nodes"] * bool(self.nodes)
        if asked and state.nodes is None:
            raise InputError(
                f"job {self.name} asks for {', '.join(asked)}, but {state.source} is planned by "
                "processors; a list of nodes (--nodes) and a queue whose jobs tell what they ask "
                "of nodes (squeue --json) are expected"
            )


def parse_job(text: str) -> tuple[int, float]:
    """Parse a job such as ``64x2h``; return its processors and its run time (seconds)."""
    count, times, duration = text.partition("x")
    if not times or not count.isdecimal() or len(count) > 9:
        raise InputError(f"{shown(text)}: PROCESSORSxTIME is expected, as 64x2h")
    run_time = TIME.parse(duration, where=f"time in {text}")
    require(run_time > 0, f"time in {text}", duration, "more than 0 is expected")
    return int(count), run_time


def parse_ask(text: str) -> Ask:
    """Parse a job such as ``8x2h,gpus=2,memory=32GB``: behind processors and run time stand what it
    takes of each of its ``nodes`` (1 by default), and its ``partition``.
    """
    short, *more = text.split(",")
    pairs = [entry.partition("=") for entry in more]
    return ask_for(*parse_job(short), [(name, value) for name, _, value in pairs], text)


def ask_for(processors: int, run_time: float, more: Iterable[tuple[str, str]], text: str) -> Ask:
    """Return a job that asks for processors for some seconds, and for ``more``, pairs as in
    :func:`parse_ask`; InputError, which names the ``text``, if a pair is none of these.
    """
    each: dict[str, int] = {}
    nodes = 0
    partition = ""
    for name, value in more:
        where = f"{name} in {text}"
        if name == "partition" and value:
            partition = value
        elif name == "memory":
            each[name] = read_memory(value, where=where)
        elif name and value.isdecimal() and len(value) < 10:
            if name == "nodes":
                nodes = int(value)
            else:
                each[name] = int(value)
        else:
            raise InputError(
                f"{shown(f'{name}={value}')} in {text}: nodes=N, gpus=N, gpus:TYPE=N, "
                "memory=SIZE, another kind of nodes with its number, or partition=NAME is expected"
            )
    if each:
        nodes = max(nodes, 1)
    if nodes > processors:
        raise InputError(f"nodes in {text} is {nodes}; at most {processors} is accepted")
    return Ask(
        processors=processors,
        time=run_time,
        partition=partition,
        nodes=nodes,
        each={kind: amount for kind, amount in each.items() if amount},
    )


def date_of(date: Date | None, where: str) -> float | None:
    """Convert a date to seconds since 1970, None stays None; raise InputError, in which ``where``
    names the field, if it is invalid.
    """
    if isinstance(date, str):
        try:
            moment = datetime.fromisoformat(date)
        except ValueError:
            moment = None
        if moment is None or moment.tzinfo is None:
            raise InputError(
                f"{where} is {shown(date)}; seconds since 1970, or an ISO date with its offset "
                "from UTC, as 2026-03-29T14:00:00+02:00, is expected"
            )
        date = moment.timestamp()
    if date is not None:
        require(
            0 <= date <= MAX_SECONDS, where, date, f"a date from 0 to {MAX_SECONDS:g} s is accepted"
        )
    return date
