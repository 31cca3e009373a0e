"""A machine's queue at one moment: running and waiting jobs, from a file or message."""

from __future__ import annotations

import math
from collections import Counter
from datetime import UTC, datetime

import msgspec

from qops_batsim.errors import InputError, require, shown
from qops_batsim.limits import MAX_SECONDS
from qops_batsim.slurm.queued_job import QueuedJob as QueuedJob
from qops_batsim.slurm.waiting_reasons import TOO_WIDE, TOO_WIDE_NOW

Date = float | str
"""Seconds since 1970, or an ISO date with its offset from UTC."""


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

    @property
    def machine(self) -> int:
        """Return the processors of the machine, those of nodes that are away included."""
        return self.processors + self.away

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


def date_text(seconds: float) -> str:
    """Format a date (seconds since 1970) in this machine's time zone, with its offset from UTC."""
    try:
        return datetime.fromtimestamp(round(seconds), UTC).astimezone().isoformat(" ")
    except (OverflowError, ValueError, OSError):
        return f"{seconds:.0f} s since 1970"
