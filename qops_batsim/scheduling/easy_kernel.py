"""The hot loop of EASY backfilling."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from qops_batsim.kernels import lean_kernel
from qops_batsim.scheduling.profile import Queue
from qops_batsim.timing import PLAN_TOLERANCE

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


class Running(NamedTuple):
    """The running jobs by ascending expected end.

    Attributes
    ----------
    slots, ends
        Their slots and expected ends (seconds).
    freed
        Processors that come free at the end: all but those whose hosts have gone away.
    """

    slots: Ints
    ends: Floats
    freed: Ints


def new_running(room: int) -> Running:
    """Return room for so many running jobs."""
    return Running(np.zeros(room, np.int64), np.zeros(room), np.zeros(room, np.int64))


@lean_kernel
def remove_running(jobs: Running, count: int, gone: Ints, gone_count: int) -> int:
    """Remove jobs from the running jobs, keeping their order; return how many are left.

    O(running × gone).
    """
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
    return count


@lean_kernel
def insert_running(jobs: Running, count: int, slot: int, end: float, processors: int) -> int:
    """Insert a job into the running jobs, which are sorted by expected end. O(running)."""
    place = count
    while place > 0 and jobs.ends[place - 1] > end:
        jobs.slots[place] = jobs.slots[place - 1]
        jobs.ends[place] = jobs.ends[place - 1]
        jobs.freed[place] = jobs.freed[place - 1]
        place -= 1
    jobs.slots[place] = slot
    jobs.ends[place] = end
    jobs.freed[place] = processors
    return count + 1


@lean_kernel
def shadow_of(
    now: float, free: int, needed: int, jobs: Running, count: int, grace: float
) -> tuple[float, int]:
    """Return when the head job can start (seconds) and the processors left over then.

    A job that runs longer than expected counts as about to end, and has already where the
    news may be under way: see :func:`ending`. O(running).
    """
    available = free
    shadow = np.inf
    for place in range(count):
        if shadow < np.inf and jobs.ends[place] > shadow + max(grace, PLAN_TOLERANCE):
            break
        if now - grace < jobs.ends[place] <= now:
            continue
        available += jobs.freed[place]
        if shadow == np.inf and available >= needed:
            shadow = max(now, jobs.ends[place])
    return shadow, available - needed


@lean_kernel
def ending(now: float, jobs: Running, count: int, grace: float) -> int:
    """Return how many processors are used by jobs of whose end the news may be under way.

    They should have ended, by less than the grace (seconds) ago. O(running).
    """
    under_way = 0
    for place in range(count):
        if jobs.ends[place] > now:
            break
        if jobs.ends[place] > now - grace:
            under_way += jobs.freed[place]
    return under_way


@lean_kernel
def easy_pass(
    now: float,
    grace: float,
    free: int,
    present: int,
    processors: Ints,
    estimates: Floats,
    queue: Ints,
    queued: int,
    jobs: Running,
    running: int,
    gone: Queue,
    started: Ints,
) -> tuple[int, int, int]:
    """Decide which waiting jobs start now; return how many start, wait and run.

    ``free`` counts the processors of the jobs in ``gone``, those that have left since the
    last pass; ``present`` are free or used, jobs that ask for more are passed over.
    ``processors`` and ``estimates`` (seconds) are by slot; ``queue`` holds the
    slots of the waiting jobs in order. Jobs that start are taken out of the queue, put among
    the running ones, and their slots written to ``started`` in order.

    With a ``grace`` (seconds; 0 where news is never late), jobs are chosen as if those of
    :func:`ending` had ended; what is chosen and has to wait for that keeps its place.
    O(queue + started × running).
    """
    running = remove_running(jobs, running, gone.slots, gone.size[0])
    count = kept = extra = chosen = 0
    shadow = np.inf
    tolerance = max(grace, PLAN_TOLERANCE)
    nominal = free + ending(now, jobs, running, grace)
    last = len(started)
    is_reserved = False
    for place in range(queued):
        slot = queue[place]
        needed = processors[slot]
        end = now + estimates[slot]
        if needed <= nominal:
            ends_in_time = not is_reserved or end <= shadow + tolerance
            if ends_in_time or needed <= extra:
                nominal -= needed
                if not ends_in_time:
                    extra -= needed
                running = insert_running(jobs, running, slot, end, needed)
                if needed <= free:
                    free -= needed
                    started[count] = slot
                    count += 1
                    continue
                chosen += 1
                started[last - chosen] = slot
        elif not is_reserved and needed <= present:
            is_reserved = True
            shadow, extra = shadow_of(now, nominal, needed, jobs, running, grace)
        queue[kept] = slot
        kept += 1
    running = remove_running(jobs, running, started[last - chosen :], chosen)
    return count, kept, running
