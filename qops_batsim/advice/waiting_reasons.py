"""Reasons for which Slurm lets jobs wait, and their meaning: squeue(1), job reason codes."""

from __future__ import annotations

import re
from enum import StrEnum


class Waits(StrEnum):
    """Meaning of a reason."""

    FOR_PROCESSORS = "waits for processors"
    CANNOT_START = "cannot start until something changes"
    FOR_OTHERS = "waits for a date or another job"
    UNKNOWN = "waits for a reason that is not known"


_FAMILIES = {
    Waits.FOR_PROCESSORS: (
        r"None|Priority|Resources|Nodes[ _]required[ _]for[ _]job|Prolog|Cleaning|SchedDefer"
        r"|MpiPortsBusy"
    ),
    Waits.CANNOT_START: (
        # Held, by anybody, also after a failure ("launch failed requeued held").
        r".*[Hh]eld(Admin|User|[ _]state)?|JobHoldMaxRequeue|Reservation(Deleted|Invalid)"
        r"|Partition(NodeLimit|TimeLimit|Down|Inactive|Config)|ReqNodeNotAvail|FrontEndDown"
        r"|NodeDown|(Bad)?Constraints|DependencyNeverSatisfied|DeadLine|MaxMemPerLimit"
        r"|Invalid(Account|QOS)|(Account|QOS)NotAllowed|AccountingPolicy|BurstBufferOperation"
        # Failures with which a job waits that was put back into the queue.
        r"|SystemFailure|JobLaunchFailure|NonZeroExitCode|RaisedSignal|OutOfMemory|InactiveLimit"
        r"|TimeLimit|BlockMaxError|BlockFreeAction"
        # Limits of each job, and amounts of time that are spent.
        r"|QOSMin\w+|QOSUsageThreshold|(Assoc|QOS)Max\w+Per(Job|Node)(Limit)?"
        r"|(Assoc|QOS)Grp(?!\w*Run)\w*Minutes(Limit)?|(Assoc|QOS)GrpWall(Limit)?"
        r"|(Association|QOS)TimeLimit"
    ),
    Waits.FOR_OTHERS: (
        r"Dependency|BeginTime|Reservation|Licenses|JobArrayTaskLimit|FedJobLock"
        r"|BurstBuffer(Resources|StageIn)|Power(NotAvail|Reserved)|MaxPoweredUpNodes"
        # Limits of what an account, a user or a QOS uses at once.
        r"|(Assoc|QOS)(Grp|Max)\w+|Max\w+Per(Account|User)|(Association|QOS)(Job|Resource)Limit"
    ),
}
_MEANINGS = {waits: re.compile(rf"(?:{names})(?![^\W_])") for waits, names in _FAMILIES.items()}


def waits_for(reason: str) -> Waits:
    """Return what a reason means, with or without the text that squeue adds to it.

    >>> [str(waits_for(each)) for each in ("Resources", "(ReqNodeNotAvail, UnavailableNodes:n1)")]
    ['waits for processors', 'cannot start until something changes']
    """
    plain = reason.strip(" (") or "None"
    found = (waits for waits, names in _MEANINGS.items() if names.match(plain))
    return next(found, Waits.UNKNOWN)


def may_start(reason: str) -> bool:
    """Return whether a job waits for processors, or may do so as far as is known."""
    return waits_for(reason) in (Waits.FOR_PROCESSORS, Waits.UNKNOWN)
