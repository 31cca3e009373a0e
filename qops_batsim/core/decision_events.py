"""The events of a decision log: the lines of ``PREFIX_decisions.jsonl``.

The first line is a :class:`LogHeader`, every other one an event. Events stand in the
order in which the scheduler made its decisions; ``date`` (seconds) never decreases.
A date or duration that is infinite, or that a job does not have, is missing or null.
docs/files.md documents the format for readers.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec

from qops_batsim.core.machine import Machine
from qops_batsim.core.refusal import Refusal, RefusalKind, free_text, sentence
from qops_batsim.job_fields import HostsAsked
from qops_batsim.limits import MAX_PROCESSORS

FORMAT = "qops-batsim decisions"
VERSION = 1
"""Version of the format."""

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
    """First line of a decision log: format, version, scheduler with its options, and machine
    size.
    """

    format: str
    version: int
    scheduler: str
    options: dict[str, Any]
    processors: Processors
    package_version: str | None = None
    run_id: str | None = None
    machine: Machine | msgspec.UnsetType = msgspec.UNSET
    """What each host has, where jobs share hosts by amounts."""


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
    """Event of a decision log: a job was submitted and asks for admission.

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
    hosts
        What the job asks of shared hosts.
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
    hosts: HostsAsked | None = None


def refusal_fields(refusal: Refusal | None) -> dict[str, Any]:
    """Return the fields ``reason`` (a sentence) and ``refusal`` of an event; {} if nothing was
    refused.
    """
    return {} if refusal is None else {"reason": sentence(refusal), "refusal": refusal}


def refusal_of(event: Admitted | Refused | Dropped | Late) -> Refusal | None:
    """Return the Refusal that a logged event gives as its reason, None if it has none."""
    refusal = event.refusal
    if refusal is not None and refusal.kind is not RefusalKind.FREE_TEXT:
        return refusal
    return free_text(event.reason) if event.reason else None


class Admitted(_Event, frozen=True, kw_only=True):
    """Event of a decision log: a job was admitted, with a planned start and a promised deadline
    (seconds).

    If the deadline is an offer, ``reason`` (a sentence) and ``refusal`` say why the requested one
    was refused, and ``blamed`` names the job whose deadline stood in the way. ``target`` is the
    date that the plan aims at, if not the deadline: it is later if the submission was reported
    late.
    """

    job: str
    start: float | None = None
    deadline: float | None = None
    target: float | None = None
    offered: bool = False
    reason: str = ""
    blamed: str | None = None
    refusal: Refusal | None = None


class Placed(_Event, frozen=True, kw_only=True):
    """Event of a decision log: a waiting job is planned on other hosts that jobs share.

    Each of the ``places`` is a host (the number of hosts for the machine's licences), a part of the
    request (licences come last), and how many times it takes that part's amounts there.
    """

    job: str
    places: list[tuple[int, int, int]]


class Refused(_Event, frozen=True, kw_only=True):
    """Event of a decision log: a job was refused; ``offered`` is a later deadline that its user
    declined (seconds).
    """

    job: str
    reason: str
    blamed: str | None = None
    offered: float | None = None
    refusal: Refusal | None = None


class Moved(_Event, frozen=True, kw_only=True):
    """Event of a decision log: planned starts of waiting jobs were moved, all for one cause.

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
    """Event of a decision log: a running job is to be killed to make room for the new job ``by``.

    The killed job waits to run again as the job ``again``, with a planned ``start`` (seconds). The
    first ``saved`` seconds of its work need not be repeated.
    """

    job: str
    again: str
    by: str
    start: float | None = None
    saved: float | None = None


class Withdrawn(_Event, frozen=True, kw_only=True):
    """Event of a decision log: the planned restart ``job`` is removed, as the job to be killed had
    ended by itself.
    """

    job: str


class Dropped(_Event, frozen=True, kw_only=True):
    """Event of a decision log: a waiting job left the queue, as it can never run or its user
    cancelled it.
    """

    job: str
    reason: str
    refusal: Refusal | None = None


class Resized(_Event, frozen=True, kw_only=True):
    """Event of a decision log: hosts have left the machine or returned.

    Attributes
    ----------
    present
        Number of hosts that are there now.
    under
        Jobs that run on hosts that have left, each with the number of these hosts. The jobs go on;
        these hosts do not come free at the jobs' ends.
    final
        Whether no more hosts will leave or return.
    """

    present: Processors
    final: bool = False
    under: list[tuple[str, Processors]] = []


class LateNews(_Event, frozen=True, kw_only=True):
    """Event of a decision log: the engine's messages come late; from now on delays up to the grace
    are tolerated.
    """


class Started(_Event, frozen=True, kw_only=True):
    """Event of a decision log: a job started; its expected end is ``end`` (seconds).

    In the plan it counts as started ``late`` seconds earlier, at its planned start.
    """

    job: str
    end: float | None = None
    late: float | None = None


class Slipped(_Event, frozen=True, kw_only=True):
    """Event of a decision log: a job started late, so its expected end is moved to ``end``
    (seconds).
    """

    job: str
    end: float | None = None


class Outlived(_Event, frozen=True, kw_only=True):
    """Event of a decision log: a running job exceeded its estimate; ``end`` is its new expected end
    (seconds).
    """

    job: str
    end: float | None = None


class Late(_Event, frozen=True, kw_only=True):
    """Event of a decision log: a waiting job cannot end by its promise; ``deadline`` is the new
    target (seconds).

    If there is a ``reason``, ``deadline`` is a new promise; None then means that the job has no
    planned start until hosts return.
    """

    job: str
    deadline: float | None = None
    reason: str = ""
    refusal: Refusal | None = None


class Ended(_Event, frozen=True, kw_only=True):
    """Event of a decision log: a job ended, ``early`` seconds before its expected end.

    After a kill, the expected end is the date of the kill; news of it may take time.
    """

    job: str
    early: float | None = 0.0


Event = (
    Submitted
    | Admitted
    | Placed
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
