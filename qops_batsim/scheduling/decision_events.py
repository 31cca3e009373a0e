"""The lines of a decision log, ``PREFIX_decisions.jsonl``: one JSON object each.

The first line is a :class:`LogHeader`, every other one an event. Events stand in the
order in which the scheduler made its decisions; ``date`` (seconds) never decreases.
A date or duration that is infinite, or that a job does not have, is missing or null.
docs/operators.md documents the format for readers.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

FORMAT = "qops-batsim decisions"
VERSION = 1


class LogHeader(msgspec.Struct, frozen=True, kw_only=True):
    """How the decisions were made.

    Attributes
    ----------
    format, version
        :data:`FORMAT` and :data:`VERSION`.
    scheduler, options
        Registered name and all options by name.
    processors
        Size of the machine.
    package_version
        Version of this package.
    """

    format: str
    version: int
    scheduler: str
    options: dict[str, Any]
    processors: int
    package_version: str | None = None


class _Event(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    tag_field="event",
    tag=lambda name: name.lower(),
    omit_defaults=True,
):
    date: float


class Submitted(_Event, frozen=True, kw_only=True):
    """A job asked for admission.

    Attributes
    ----------
    submission
        Date of submission (seconds), which engines may tell later.
    estimate
        Estimated run time (seconds).
    deadline
        Requested deadline (seconds, absolute).
    tolerance
        ``qos.tolerance_factor`` of the job.
    user_deadline
        ``qos.has_user_deadline`` of the job.
    """

    job: str
    submission: float
    processors: int
    estimate: float | None = None
    deadline: float | None = None
    tolerance: float | None = None
    user_deadline: bool | None = None


class Admitted(_Event, frozen=True, kw_only=True):
    """A job was taken into the plan.

    Attributes
    ----------
    start
        Promised start (seconds).
    deadline
        Admitted deadline (seconds, absolute).
    offered
        Whether the deadline is the scheduler's offer rather than the user's request.
    reason, blamed
        If so, why the request was refused, in words, and the job whose deadline stood in
        the way.
    """

    job: str
    start: float | None = None
    deadline: float | None = None
    offered: bool = False
    reason: str = ""
    blamed: str | None = None


class Refused(_Event, frozen=True, kw_only=True):
    """A job was refused.

    Attributes
    ----------
    reason
        Why, in words.
    blamed
        The job whose deadline stood in the way.
    offered
        Deadline that the scheduler offered, and the user did not take (seconds, absolute).
    """

    job: str
    reason: str
    blamed: str | None = None
    offered: float | None = None


class Moved(_Event, frozen=True, kw_only=True):
    """Promised starts were moved, all for one cause.

    Attributes
    ----------
    cause
        ``"admission"``: a new job was admitted. ``"early_end"``: jobs ended earlier
        than expected. ``"outlived"``: running jobs outlived their estimates.
        ``"late_start"``: jobs could not start when promised. ``"kill"``: jobs were
        killed to make room.
    by
        The jobs that caused it, if known.
    moves
        Job, promised start before and after (seconds).
    """

    cause: Literal["admission", "early_end", "outlived", "late_start", "kill"]
    by: list[str] = []
    moves: list[tuple[str, float | None, float | None]]


class Killed(_Event, frozen=True, kw_only=True):
    """A running job is to be killed, and waits to be run again from scratch.

    Attributes
    ----------
    job
        The job as it runs.
    again
        Identifier under which the same work waits from now on.
    by
        The new job that is admitted thereby.
    start
        Promised start of the work (seconds).
    """

    job: str
    again: str
    by: str
    start: float | None = None


class Withdrawn(_Event, frozen=True, kw_only=True):
    """A job that was to be killed had ended by itself: its work no longer waits as ``job``."""

    job: str


class Started(_Event, frozen=True, kw_only=True):
    """A job started.

    Attributes
    ----------
    end
        Expected end (seconds).
    """

    job: str
    end: float | None = None


class Outlived(_Event, frozen=True, kw_only=True):
    """A running job has outlived its estimate; ``end`` is its new expected end (seconds)."""

    job: str
    end: float | None = None


class Late(_Event, frozen=True, kw_only=True):
    """A waiting job can no longer meet its deadline; its new one is ``deadline`` (seconds)."""

    job: str
    deadline: float | None = None


class Ended(_Event, frozen=True, kw_only=True):
    """A job left its processors, ``early`` seconds before its expected end.

    After a kill, the expected end is the date of the kill; news of it may take time.
    """

    job: str
    early: float | None = 0.0


Event = (
    Submitted | Admitted | Refused | Moved | Killed | Withdrawn | Started | Outlived | Late | Ended
)
