"""The events of a decision log: the lines of ``PREFIX_decisions.jsonl``.

The first line is a :class:`LogHeader`, every other one an event. Events stand in the
order in which the scheduler made its decisions; ``date`` (seconds) never decreases.
A date or duration that is infinite, or that a job does not have, is missing or null.
docs/files.md documents the format for readers.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, NamedTuple

import msgspec

from qops_batsim.limits import MAX_PROCESSORS
from qops_batsim.scheduling.refusal import Refusal, RefusalKind, free_text, sentence

FORMAT = "qops-batsim decisions"
VERSION = 1
"""Version of the format; 0.1.0 wrote version 2 as well, rows of which events were made."""

Processors = Annotated[int, msgspec.Meta(ge=0, le=MAX_PROCESSORS)]

Cause = Literal[
    "admission",
    "early_end",
    "outlived",
    "late_start",
    "kill",
    "hosts_left",
    "hosts_returned",
    "cancelled",
]
"""Why promised starts were moved."""


class LogHeader(msgspec.Struct, frozen=True, kw_only=True):
    """First line of a decision log: :data:`FORMAT`, version, and scheduler."""

    format: str
    version: int
    scheduler: str
    options: dict[str, Any]
    processors: Processors
    package_version: str | None = None
    run_id: str | None = None


class Submission(NamedTuple):
    """A job's request (times in seconds); None for each field that the job does not ask for."""

    job: str
    submission: float
    processors: Processors
    estimate: float | None
    deadline: float | None
    tolerance: float | None
    user_deadline: bool | None
    rerunnable: bool | None = None
    start: float | None = None
    checkpoint: float | None = None


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
    deadline, tolerance, user_deadline, rerunnable, start, checkpoint
        The job's ``qos.deadline`` (seconds, absolute), ``qos.tolerance_factor``,
        ``qos.has_user_deadline``, ``qos.rerunnable``, ``qos.start`` (seconds, absolute) and
        ``qos.checkpoint`` (seconds).
    """

    job: str
    submission: float
    processors: Processors
    estimate: float | None = None
    deadline: float | None = None
    tolerance: float | None = None
    user_deadline: bool | None = None
    rerunnable: bool | None = None
    start: float | None = None
    checkpoint: float | None = None


def told(refusal: Refusal | None) -> dict[str, Any]:
    """Return a refusal as event fields: in words, and typed."""
    return {} if refusal is None else {"reason": sentence(refusal), "refusal": refusal}


def refusal_of(event: Admitted | Refused | Dropped | Late) -> Refusal | None:
    """Return the refusal in an event; only in words if another version wrote it."""
    found = event.refusal
    if found is not None and found.kind is not RefusalKind.FREE_TEXT:
        return found
    return free_text(event.reason) if event.reason else None


class Admitted(_Event, frozen=True, kw_only=True):
    """A job was admitted, with a promised start and deadline (seconds, absolute).

    Where the deadline is an offer rather than the requested one, ``reason`` says why that was
    refused, ``refusal`` the same typed, and ``blamed`` names the job whose deadline stood in the
    way. ``target`` is what the plan aims at, if not the deadline: where news of the
    job was late, it is later by as much.
    """

    job: str
    start: float | None = None
    deadline: float | None = None
    target: float | None = None
    offered: bool = False
    reason: str = ""
    blamed: str | None = None
    refusal: Refusal | None = None


class Refused(_Event, frozen=True, kw_only=True):
    """A job was refused; ``offered`` is the later deadline that its user declined (seconds)."""

    job: str
    reason: str
    blamed: str | None = None
    offered: float | None = None
    refusal: Refusal | None = None


class Moved(_Event, frozen=True, kw_only=True):
    """Promised starts moved, all for one cause.

    Attributes
    ----------
    cause
        ``"admission"``: a new job was admitted. ``"early_end"``: jobs ended earlier
        than expected. ``"outlived"``: running jobs outlived their estimates.
        ``"late_start"``: jobs could not start when promised. ``"kill"``: jobs were
        killed to make room. ``"hosts_left"`` and ``"hosts_returned"``: see
        :class:`Resized`. ``"cancelled"``: users cancelled waiting jobs.
    by
        The jobs that caused it, if known.
    moves
        Job, promised start before and after (seconds).
    """

    cause: Cause
    by: list[str] = []
    moves: list[tuple[str, float | None, float | None]]


class Killed(_Event, frozen=True, kw_only=True):
    """A running job is to be killed for the new job ``by``.

    Its work waits as the job ``again`` from now on, with a promised start (seconds), without the
    seconds of the run that are ``saved``, if any are.
    """

    job: str
    again: str
    by: str
    start: float | None = None
    saved: float | None = None


class Withdrawn(_Event, frozen=True, kw_only=True):
    """A job to be killed had ended by itself, so ``job``, which would repeat it, is withdrawn."""

    job: str


class Dropped(_Event, frozen=True, kw_only=True):
    """A waiting job left the queue: it can never run any more, or its user cancelled it."""

    job: str
    reason: str
    refusal: Refusal | None = None


class Resized(_Event, frozen=True, kw_only=True):
    """Hosts have left or returned.

    Attributes
    ----------
    present
        Number of hosts that are there now.
    under
        Jobs that run on hosts that have left, with how many: they go on, but these do not
        come free at the end.
    final
        Whether it is known that no more will leave or return.
    """

    present: Processors
    final: bool = False
    under: list[tuple[str, Processors]] = []


class LateNews(_Event, frozen=True, kw_only=True):
    """The engine's news is late from now on: the scheduler tolerates lateness up to its grace."""


class Started(_Event, frozen=True, kw_only=True):
    """A job started; its expected end is ``end`` (seconds).

    It counts as started ``late`` seconds before, when it was planned to.
    """

    job: str
    end: float | None = None
    late: float | None = None


class Slipped(_Event, frozen=True, kw_only=True):
    """A running job now counts from its actual start, until ``end`` (seconds)."""

    job: str
    end: float | None = None


class Outlived(_Event, frozen=True, kw_only=True):
    """A running job exceeded its estimate; ``end`` is its new expected end (seconds)."""

    job: str
    end: float | None = None


class Late(_Event, frozen=True, kw_only=True):
    """A waiting job can no longer keep its promise; ``deadline`` is its new target (seconds).

    With a ``reason`` that is a new promise, unless there is none: then it has no start as long
    as too few hosts are there.
    """

    job: str
    deadline: float | None = None
    reason: str = ""
    refusal: Refusal | None = None


class Ended(_Event, frozen=True, kw_only=True):
    """A job ended ``early`` seconds before its expected end.

    After a kill, the expected end is the date of the kill; news of it may take time.
    """

    job: str
    early: float | None = 0.0


Event = (
    Submitted
    | Admitted
    | Refused
    | Moved
    | Killed
    | Withdrawn
    | Dropped
    | Resized
    | LateNews
    | Started
    | Slipped
    | Outlived
    | Late
    | Ended
)
