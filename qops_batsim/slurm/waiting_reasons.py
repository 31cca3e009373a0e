"""Slurm's reasons why jobs wait, and their meaning: squeue(1), job reason codes."""

from __future__ import annotations

import re
from enum import StrEnum
from typing import NamedTuple


class WaitKind(StrEnum):
    """How a plan has to treat a waiting job, by Slurm's reason: plan it, or leave it out.

    Of the last two, no reason of Slurm tells: see :mod:`qops_batsim.queue.unexplained_waits`.
    """

    FOR_PROCESSORS = "waits for processors"
    CANNOT_START = "cannot start until something changes"
    FOR_OTHERS = "waits for a date or another job"
    THOUGH_IT_FITS = "waits for Resources, though enough processors are free"
    BEHIND = "is behind a job that waits for Resources, though enough processors are free"
    UNKNOWN = "waits for a reason that is not known"


class Cause(StrEnum):
    """Kind of Slurm's reason why a job waits."""

    PRIORITY = "priority"
    RESOURCES = "resources"
    HOLD = "hold"
    DEPENDENCY = "dependency"
    BEGIN = "begin time"
    LIMIT = "limit"
    ARRAY = "array limit"
    PARTITION = "partition"
    NODES = "nodes"
    RESERVATION = "reservation"
    FAILURE = "failure"
    OTHER = "other"


class Meaning(NamedTuple):
    """What a reason of Slurm means: why the job waits, and how a plan has to treat it."""

    cause: Cause
    waits: WaitKind


ARRAY_LIMIT = "JobArrayTaskLimit"
"""Reason of tasks of an array of which as many run as may."""

TOO_WIDE = "wider than the machine"
"""Our own reason of a job for which the machine has not enough processors."""

TOO_WIDE_NOW = "wider than the nodes that are not away"
"""Our own reason of a job for which the nodes that Slurm uses now have not enough processors."""

INCOMPLETE = "components elsewhere"
"""Our own reason of a heterogeneous job some of whose components are in no selected partition."""

_LACKS = re.compile(r"Resources|Nodes[ _]required[ _]for[ _]job")

_MEANINGS = [
    (Meaning(cause, waits), re.compile(rf"(?:{names})(?![^\W_])"))
    for cause, waits, names in (
        (Cause.PRIORITY, WaitKind.FOR_PROCESSORS, r"None|Priority|SchedDefer"),
        (
            Cause.RESOURCES,
            WaitKind.FOR_PROCESSORS,
            r"Resources|Nodes[ _]required[ _]for[ _]job|Prolog|Cleaning|MpiPortsBusy",
        ),
        (Cause.RESOURCES, WaitKind.CANNOT_START, TOO_WIDE),
        (
            Cause.HOLD,
            WaitKind.CANNOT_START,
            # Held, by anybody, also after a failure ("launch failed requeued held").
            r".*[Hh]eld(Admin|User|[ _]state)?|JobHoldMaxRequeue|REQUEUE_HOLD|SPECIAL_EXIT"
            r"|RESV_DEL_HOLD",
        ),
        (
            Cause.PARTITION,
            WaitKind.CANNOT_START,
            r"Partition(NodeLimit|TimeLimit|Down|Inactive|Config)",
        ),
        (
            Cause.NODES,
            WaitKind.CANNOT_START,
            rf"{TOO_WIDE_NOW}|ReqNodeNotAvail|FrontEndDown|NodeDown|(Bad)?Constraints",
        ),
        (Cause.DEPENDENCY, WaitKind.CANNOT_START, r"DependencyNeverSatisfied"),
        (Cause.RESERVATION, WaitKind.CANNOT_START, r"Reservation(Deleted|Invalid)"),
        (
            # Limits of each job, amounts of time that are spent, and who may not use what.
            Cause.LIMIT,
            WaitKind.CANNOT_START,
            r"DeadLine|MaxMemPerLimit|Invalid(Account|QOS)|(Account|QOS)NotAllowed"
            r"|AccountingPolicy|QOSMin\w+|QOSUsageThreshold|(Assoc|QOS)Max\w+Per(Job|Node)(Limit)?"
            r"|(Assoc|QOS)Grp(?!\w*Run)\w*Minutes(Limit)?|(Assoc|QOS)GrpWall(Limit)?"
            r"|(Association|QOS)TimeLimit",
        ),
        (
            # With which a job waits that was put back into the queue.
            Cause.FAILURE,
            WaitKind.CANNOT_START,
            r"SystemFailure|JobLaunchFailure|NonZeroExitCode|RaisedSignal|OutOfMemory"
            r"|InactiveLimit|TimeLimit|BlockMaxError|BlockFreeAction|BurstBufferOperation",
        ),
        (Cause.DEPENDENCY, WaitKind.FOR_OTHERS, r"Dependency"),
        (Cause.BEGIN, WaitKind.FOR_OTHERS, r"BeginTime"),
        (Cause.RESERVATION, WaitKind.FOR_OTHERS, r"Reservation"),
        (Cause.ARRAY, WaitKind.FOR_OTHERS, ARRAY_LIMIT),
        (Cause.OTHER, WaitKind.FOR_OTHERS, INCOMPLETE),
        (
            # Limits of what an account, a user or a QOS uses at once.
            Cause.LIMIT,
            WaitKind.FOR_OTHERS,
            r"(Assoc|QOS)(Grp|Max)\w+|Max\w+Per(Account|User)|(Association|QOS)(Job|Resource)Limit",
        ),
        (
            Cause.OTHER,
            WaitKind.FOR_OTHERS,
            r"Licenses|FedJobLock|BurstBuffer(Resources|StageIn)|Power(NotAvail|Reserved)"
            r"|MaxPoweredUpNodes",
        ),
    )
]
"""The first that fits counts."""


def meaning_of(reason: str) -> Meaning:
    """Return why a job waits and how a plan has to treat it, by Slurm's reason as squeue shows it.

    >>> [*map(str, meaning_of("(ReqNodeNotAvail, UnavailableNodes:n1)"))]
    ['nodes', 'cannot start until something changes']
    """
    plain = _plain(reason)
    meanings = (meaning for meaning, names in _MEANINGS if names.match(plain))
    return next(meanings, Meaning(Cause.OTHER, WaitKind.UNKNOWN))


def _plain(reason: str) -> str:
    return reason.strip(" (") or "None"


def is_for_resources(reason: str) -> bool:
    """Return whether Slurm says that a job waits since something that it needs is not free.

    >>> is_for_resources("(Resources)"), is_for_resources("Priority"), is_for_resources("Prolog")
    (True, False, False)
    """
    return _LACKS.match(_plain(reason)) is not None


def may_start(reason: str) -> bool:
    """Return whether a job with this reason of Slurm can start once processors are free; reasons
    that are not known count as such.
    """
    return meaning_of(reason).waits in (WaitKind.FOR_PROCESSORS, WaitKind.UNKNOWN)
