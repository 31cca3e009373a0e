"""A machine's queue at one moment: what runs and what waits."""

from __future__ import annotations

from datetime import UTC, datetime

import msgspec

from qops_batsim.errors import InputError, require, shown
from qops_batsim.limits import MAX_SECONDS

MAX_QUEUE_BYTES = 256 << 20
"""Largest queue that is read (bytes)."""

MAX_QUEUED_JOBS = 100_000
"""Most jobs of a queue, tasks of arrays counted one by one."""

Date = float | str
"""Seconds since 1970, or an ISO date with its offset from UTC."""


class QueuedJob(msgspec.Struct, frozen=True, kw_only=True):
    """A job that runs or waits; dates in seconds since 1970, None where unknown.

    Attributes
    ----------
    estimate
        How long it may run in all (seconds); None: for ever.
    start, end
        Since when it runs, and until when at most; neither for a job that waits.
    planned_start
        When a waiting job is to start, as its scheduler plans now.
    deadline
        What was promised to it.
    priority
        The greater goes first among waiting jobs without planned start.
    """

    id: str
    processors: int
    estimate: float | None = None
    submission: float | None = None
    start: float | None = None
    end: float | None = None
    planned_start: float | None = None
    deadline: float | None = None
    priority: float = 0.0


class QueueState(msgspec.Struct, frozen=True, kw_only=True):
    """What runs and waits at a date (seconds since 1970); what was left out is counted."""

    source: str
    processors: int
    now: float
    jobs: list[QueuedJob]
    left_out: dict[str, int] = {}


def date_of(date: Date | None, where: str) -> float | None:
    """Return a date in seconds since 1970; an InputError names a text that is none."""
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
    """Return a date (seconds since 1970) on this machine's clock, with its offset from UTC."""
    try:
        return datetime.fromtimestamp(round(seconds), UTC).astimezone().isoformat(" ")
    except (OverflowError, ValueError, OSError):
        return f"{seconds:.0f} s since 1970"
