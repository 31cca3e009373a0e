"""Kinds of rows in the log of a plan, and the causes of moves."""

from __future__ import annotations

from array import array

(
    SUBMITTED,
    REFUSED,
    ADMITTED,
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
    PLACED,
) = range(18)
"""Kinds of rows, with the code, and the numbers behind the date, that they have.

===========  ===================================================================================
SUBMITTED    a job asks for admission
REFUSED      other: whose deadline blocked it, or -1; ``worded`` tells why
ADMITTED     numbers: start, promise, target; ``worded`` tells of an offered deadline
MOVED        planned starts were moved; code: the cause; BLAMED and MOVE rows follow
BLAMED       a job that caused it; code: number of its run; no date
MOVE         numbers: start before and after; no date
KILLED       other: the job that it is killed for; code: number of the run that is killed;
             numbers: start of the next run, of the one that is killed, and the seconds of that
             whose work is saved
WITHDRAWN    a killed run had ended by itself; code: number of the next run, which is not made
DROPPED      a waiting job was given up: it never fits any more, or its user cancelled it;
             ``given_up`` tells why
RESIZED      code: 1 if that is final; numbers: hosts that are there; UNDER rows follow
UNDER        other: number of hosts that have gone away under a running job; code: number of its
             run; no date
LATE_NEWS    news is late from now on
STARTED      numbers: expected end, lag
SLIPPED      a running job counts from its actual start; numbers: expected end
OUTLIVED     a running job has outlived its estimate; numbers: expected end
LATE         a waiting job will be late; numbers: target, hosts lost for that, date of that
ENDED        code: number of the run; numbers: how early
PLACED       a waiting job is planned on other shared hosts; other: its place in ``placements``
===========  ===================================================================================
"""

NUMBERS = array("i", [0] * (PLACED + 1))
"""How many numbers a row of each kind has, the date among them."""

for _kind in (SUBMITTED, REFUSED, MOVED, WITHDRAWN, DROPPED, LATE_NEWS, PLACED):
    NUMBERS[_kind] = 1
for _kind in (RESIZED, SLIPPED, OUTLIVED, ENDED, MOVE):
    NUMBERS[_kind] = 2
NUMBERS[STARTED] = 3
for _kind in (ADMITTED, KILLED, LATE):
    NUMBERS[_kind] = 4

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
