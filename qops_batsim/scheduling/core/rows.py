"""The log of decisions, in rows that kernels append.

A row has a kind, the slot of a job, that of another job, a code, the date of the decision
(seconds), and up to three numbers. What each kind means stands below; text is made of rows
where they are read (:mod:`~qops_batsim.scheduling.decision_log`).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from qops_batsim.kernels import kernel
from qops_batsim.scheduling.arrays import Floats, Ints, grown

(
    SUBMITTED,
    REFUSED,
    ADMITTED,
    OFFERED,
    REASON,
    MOVED,
    BLAMED,
    MOVE,
    KILLED,
    WITHDRAWN,
    DROPPED,
    RESIZED,
    UNDER,
    LATE_NEWS,
    STARTED,
    SLIPPED,
    OUTLIVED,
    LATE,
    ENDED,
    RENEWED,
) = range(20)
"""Kinds of rows, with the code and numbers that they have.

===========  ===================================================================================
SUBMITTED    a job asks for admission
REFUSED      other: whose deadline stood in the way, or -1; code and numbers: why
OFFERED      before a REFUSED or REASON row: what became of an offer; code: its outcome; numbers:
             offered deadline, tolerance and slack factor
REASON       before an ADMITTED row: why the deadline that was asked for was refused, as in REFUSED
ADMITTED     code: 1 with an offered deadline; numbers: start, promise, target
MOVED        planned starts were moved; code: the cause; BLAMED and MOVE rows follow
BLAMED       a job that caused it; code: number of its run
MOVE         numbers: start before and after
KILLED       other: the job that it is killed for; code: number of the run that is killed;
             numbers: start of the next run, of the one that is killed, and the seconds of that
             whose work is saved
WITHDRAWN    a killed run had ended by itself; code: number of the next run, which is not made
DROPPED      a waiting job was given up: it never fits any more, or its user cancelled it; code
             and numbers: why
RESIZED      code: 1 if that is final; numbers: hosts that are there; UNDER rows follow
UNDER        other: number of hosts that have gone away under a running job; code: number of its
             run
LATE_NEWS    news is late from now on
STARTED      numbers: expected end, lag
SLIPPED      a running job counts from its actual start; numbers: expected end
OUTLIVED     a running job has outlived its estimate; numbers: expected end
LATE         a waiting job will be late; numbers: target, hosts lost for that, date of that
ENDED        code: number of the run; numbers: how early
RENEWED      numbers: promise broken, new one, date of the loss; other: hosts lost
===========  ===================================================================================
"""

(
    BY_ADMISSION,
    BY_EARLY_END,
    BY_OUTLIVING,
    BY_LATE_START,
    BY_KILL,
    BY_LEAVING,
    BY_RETURNING,
    BY_CANCELLATION,
) = range(8)
"""Causes of MOVED rows."""


class RowLog(NamedTuple):
    """Rows: kind, slot, other slot, code; and date and three numbers."""

    codes: Ints
    numbers: Floats
    size: Ints


def new_log(room: int = 256) -> RowLog:
    """Return no rows."""
    return RowLog(np.zeros((room, 4), np.int64), np.zeros((room, 4)), np.zeros(1, np.int64))


def larger_log(log: RowLog) -> RowLog:
    """Return the same rows with room for twice as many."""
    return RowLog(grown(log.codes), grown(log.numbers), log.size)


@kernel
def append(
    log: RowLog,
    date: float,
    kind: int,
    slot: int,
    other: int,
    code: int,
    first: float,
    second: float,
    third: float,
) -> None:
    """Append a row, for which there has to be room."""
    row = log.size[0]
    log.size[0] = row + 1
    log.codes[row, 0], log.codes[row, 1] = kind, slot
    log.codes[row, 2], log.codes[row, 3] = other, code
    log.numbers[row, 0], log.numbers[row, 1] = date, first
    log.numbers[row, 2], log.numbers[row, 3] = second, third
