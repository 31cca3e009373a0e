"""The hot loop of EASY backfilling over a line of waiting jobs."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from qops_batsim.kernels import kernel
from qops_batsim.scheduling.arrays import Floats, Ints, Queue
from qops_batsim.timing import GRID_TOLERANCE, PLAN_TOLERANCE

BLOCK = 64
"""Places of a line that one summary is about."""

WIDTHS = 16
"""Classes of jobs by processors: 1, 2, up to 4, up to 8 and so on; the last one is of all."""

NO_JOB = -1
"""In place of a slot, where a job has left the line."""

NO_WIDTH = np.iinfo(np.int64).max
"""Processors that the narrowest job asks for, where there is none."""

USED, SUMMARIZED, WAITING = range(3)
"""Indices into :attr:`Line.sizes`: places in use, those that summaries count, jobs in these."""

SHORT_LINE = 4 * BLOCK
"""A line of so many places is closed up whenever a job has left it, and has no summaries."""


class Line(NamedTuple):
    """The waiting jobs in order, with a summary of each block of :data:`BLOCK` places.

    A pass skips the blocks in which no job can start.

    Attributes
    ----------
    slots
        The job in each place, or :data:`NO_JOB`.
    narrowest
        By block: the fewest processors of its jobs.
    shortest
        By block and class: the shortest estimate (seconds) of its jobs up to that class.
    sizes
        See :data:`USED` and the others; the rest is zero as long as the line is short. Who
        appends jobs counts them only as used.
    """

    slots: Ints
    narrowest: Ints
    shortest: Floats
    sizes: Ints


def new_line(room: int) -> Line:
    """Return an empty line with room for so many jobs."""
    blocks = -(-room // BLOCK)
    slots, narrowest = np.zeros(room, np.int64), np.full(blocks, NO_WIDTH)
    return Line(slots, narrowest, np.full((blocks, WIDTHS), np.inf), np.zeros(3, np.int64))


@kernel
def append(line: Line, slot: int) -> None:
    """Put a job at the end of a line that has room for it. O(1)."""
    line.slots[line.sizes[USED]] = slot
    line.sizes[USED] += 1


@kernel
def width_of(processors: int) -> int:
    """Return the class of a number of processors. O(1)."""
    width = 0
    while width < WIDTHS - 1 and processors > 1 << width:
        width += 1
    return width


@kernel
def forget_block(line: Line, block: int) -> None:
    """Make the summary of a block that of no job. O(1)."""
    line.narrowest[block] = NO_WIDTH
    for width in range(WIDTHS):
        line.shortest[block, width] = np.inf


@kernel
def count_job(line: Line, place: int, processors: Ints, estimates: Floats) -> None:
    """Count the job in a place in the summary of its block. O(1)."""
    slot, block = line.slots[place], place // BLOCK
    line.narrowest[block] = min(line.narrowest[block], processors[slot])
    width = width_of(processors[slot])
    while width < WIDTHS and line.shortest[block, width] > estimates[slot]:
        line.shortest[block, width] = estimates[slot]
        width += 1


@kernel
def count_new(line: Line, processors: Ints, estimates: Floats) -> None:
    """Count the jobs that summaries do not count yet. O(new)."""
    sizes = line.sizes
    for place in range(sizes[SUMMARIZED], sizes[USED]):
        if place % BLOCK == 0:
            forget_block(line, place // BLOCK)
        count_job(line, place, processors, estimates)
        sizes[WAITING] += 1
    sizes[SUMMARIZED] = sizes[USED]


@kernel
def count_block(line: Line, block: int, processors: Ints, estimates: Floats) -> None:
    """Summarize a block that jobs have left. O(1)."""
    forget_block(line, block)
    for place in range(block * BLOCK, min(line.sizes[USED], (block + 1) * BLOCK)):
        if line.slots[place] != NO_JOB:
            count_job(line, place, processors, estimates)


@kernel
def close_up(line: Line, first: int) -> None:
    """Move the jobs of a line from a place on to the first free places. O(places)."""
    slots, sizes, kept = line.slots, line.sizes, first
    for place in range(first, sizes[USED]):
        if slots[place] != NO_JOB:
            slots[kept] = slots[place]
            kept += 1
    sizes[USED], sizes[SUMMARIZED], sizes[WAITING] = kept, 0, 0


@kernel
def put_in_order(line: Line, keys: Floats) -> None:
    """Put the waiting jobs in the order of their keys by slot, those of one key as they stand.

    O(places + new × waiting), if only new jobs, which stand at the end, are out of order.
    """
    close_up(line, 0)
    slots = line.slots
    for last in range(1, line.sizes[USED]):
        slot, place = slots[last], last
        while place > 0 and keys[slots[place - 1]] > keys[slot]:
            slots[place] = slots[place - 1]
            place -= 1
        slots[place] = slot


@kernel
def can_start_one(
    line: Line, block: int, nominal: int, extra: int, now: float, latest: float
) -> bool:
    """Return whether a job of a block may start beside the one that is reserved for.

    It ends by the latest date, or needs no more than the extra processors. O(1).
    """
    narrowest = line.narrowest[block]
    if narrowest > nominal:
        return False
    return bool(narrowest <= extra or now + line.shortest[block, width_of(nominal)] <= latest)


class Running(NamedTuple):
    """The running jobs by ascending expected end.

    Attributes
    ----------
    slots, ends
        Their slots and expected ends (seconds).
    freed
        Processors that come free at the end: all but those whose hosts have gone away.
    size
        How many jobs run.
    """

    slots: Ints
    ends: Floats
    freed: Ints
    size: Ints


def new_running(room: int) -> Running:
    """Return room for so many running jobs."""
    slots, freed = np.zeros((2, room), np.int64)
    return Running(slots, np.zeros(room), freed, np.zeros(1, np.int64))


@kernel
def remove_running(jobs: Running, gone: Ints, gone_count: int) -> None:
    """Remove jobs from the running jobs, keeping their order. O(running × gone)."""
    count = jobs.size[0]
    for index in range(gone_count):
        place = 0
        while place < count and jobs.slots[place] != gone[index]:
            place += 1
        if place == count:
            continue
        for later in range(place + 1, count):
            jobs.slots[later - 1] = jobs.slots[later]
            jobs.ends[later - 1] = jobs.ends[later]
            jobs.freed[later - 1] = jobs.freed[later]
        count -= 1
    jobs.size[0] = count


@kernel
def insert_running(jobs: Running, slot: int, end: float, processors: int) -> None:
    """Insert a job into the running jobs, which are sorted by expected end. O(running)."""
    place = jobs.size[0]
    while place > 0 and jobs.ends[place - 1] > end:
        jobs.slots[place] = jobs.slots[place - 1]
        jobs.ends[place] = jobs.ends[place - 1]
        jobs.freed[place] = jobs.freed[place - 1]
        place -= 1
    jobs.slots[place] = slot
    jobs.ends[place] = end
    jobs.freed[place] = processors
    jobs.size[0] += 1


@kernel
def shadow_of(now: float, free: int, needed: int, jobs: Running, grace: float) -> tuple[float, int]:
    """Return when the head job can start (seconds) and the processors left over then.

    A job that runs longer than expected counts as about to end, and has already where the
    news may be under way: see :func:`ending`. O(running).
    """
    available = free
    shadow = np.inf
    for place in range(jobs.size[0]):
        if shadow < np.inf and jobs.ends[place] > shadow + max(grace, PLAN_TOLERANCE):
            break
        if now - grace < jobs.ends[place] <= now + min(grace, GRID_TOLERANCE):
            continue
        available += jobs.freed[place]
        if shadow == np.inf and available >= needed:
            shadow = max(now, jobs.ends[place])
    return shadow, available - needed


@kernel
def ending(now: float, jobs: Running, grace: float) -> int:
    """Return how many processors are used by jobs of whose end the news may be under way.

    They should have ended, by less than the grace (seconds) ago, or if there is one by the end
    of this microsecond, to which planned ends are rounded. O(running).
    """
    under_way = 0
    for place in range(jobs.size[0]):
        if jobs.ends[place] > now + min(grace, GRID_TOLERANCE):
            break
        if jobs.ends[place] > now - grace:
            under_way += jobs.freed[place]
    return under_way


@kernel
def easy_pass(
    now: float,
    grace: float,
    free: int,
    present: int,
    processors: Ints,
    estimates: Floats,
    line: Line,
    jobs: Running,
    gone: Queue,
    started: Ints,
) -> int:
    """Decide which waiting jobs start now; return how many.

    ``free`` counts the processors of the jobs in ``gone``, those that have left since the
    last pass; ``present`` are free or used, jobs that ask for more are passed over.
    ``processors`` and ``estimates`` (seconds) are by slot. Jobs that start are taken out of the
    line of waiting jobs, put among the running ones, and their slots written to ``started`` in
    order.

    With a ``grace`` (seconds; 0 where news is never late), jobs are chosen as if those of
    :func:`ending` had ended; what is chosen and has to wait for that keeps its place.

    A block of the line is skipped if its narrowest job asks for more than is free, or if that one
    needs more than the extra processors and the shortest one that may fit ends after the shadow
    time. O(blocks + started × (running + block)), as long as widths of a class are alike.
    """
    remove_running(jobs, gone.slots, gone.size[0])
    slots, sizes, used = line.slots, line.sizes, line.sizes[USED]
    is_short = used <= SHORT_LINE
    if not is_short:
        count_new(line, processors, estimates)
    count = extra = chosen = first = 0
    shadow = np.inf
    tolerance = max(grace, PLAN_TOLERANCE)
    nominal = free + ending(now, jobs, grace)
    last = len(started)
    is_reserved = False
    for begin in range(0, used, BLOCK):
        block, before = begin // BLOCK, count
        if not is_short and (
            not can_start_one(line, block, nominal, extra, now, shadow + tolerance)
            if is_reserved
            else line.narrowest[block] > max(nominal, present)
        ):
            continue
        for place in range(begin, min(used, begin + BLOCK)):
            slot = slots[place]
            if slot == NO_JOB:
                continue
            needed = processors[slot]
            if needed <= nominal:
                end = now + estimates[slot]
                ends_in_time = not is_reserved or end <= shadow + tolerance
                if ends_in_time or needed <= extra:
                    nominal -= needed
                    if not ends_in_time:
                        extra -= needed
                    insert_running(jobs, slot, end, needed)
                    if needed <= free:
                        free -= needed
                        if count == 0:
                            first = place
                        started[count] = slot
                        count += 1
                        slots[place] = NO_JOB
                        continue
                    chosen += 1
                    started[last - chosen] = slot
            elif not is_reserved and needed <= present:
                is_reserved = True
                shadow, extra = shadow_of(now, nominal, needed, jobs, grace)
        if count > before and not is_short:
            sizes[WAITING] -= count - before
            count_block(line, block, processors, estimates)
    if count and is_short:
        close_up(line, first)
    elif not is_short and used > 2 * sizes[WAITING]:
        close_up(line, 0)
    remove_running(jobs, started[last - chosen :], chosen)
    return count
