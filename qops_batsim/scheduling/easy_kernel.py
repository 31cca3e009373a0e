"""The hot loop of EASY backfilling."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from qops_batsim.scheduling.kernels import kernel
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


@kernel
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


@kernel
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


@kernel
def shadow_of(now: float, free: int, needed: int, jobs: Running, count: int) -> tuple[float, int]:
    """Return when the head job can start (seconds) and the processors left over then.

    A job that runs longer than expected counts as about to end. O(running).
    """
    available = free
    shadow = np.inf
    for place in range(count):
        if shadow < np.inf and jobs.ends[place] > shadow + PLAN_TOLERANCE:
            break
        available += jobs.freed[place]
        if shadow == np.inf and available >= needed:
            shadow = max(now, jobs.ends[place])
    return shadow, available - needed


@kernel
def easy_pass(
    now: float,
    free: int,
    present: int,
    processors: Ints,
    estimates: Floats,
    queue: Ints,
    queued: int,
    jobs: Running,
    running: int,
    gone: Ints,
    gone_count: int,
    started: Ints,
) -> tuple[int, int, int]:
    """Decide which waiting jobs start now; return how many start, wait and run.

    ``free`` counts the processors of the jobs in ``gone``, those that have left since the
    last pass; ``present`` are free or used, jobs that ask for more are passed over.
    ``processors`` and ``estimates`` (seconds) are by slot; ``queue`` holds the
    slots of the waiting jobs in order. Jobs that start are taken out of the queue, put among
    the running ones, and their slots written to ``started`` in order.
    O(queue + started × running).
    """
    running = remove_running(jobs, running, gone, gone_count)
    count = kept = extra = 0
    shadow = np.inf
    is_reserved = False
    for place in range(queued):
        slot = queue[place]
        needed = processors[slot]
        end = now + estimates[slot]
        if needed <= free:
            ends_in_time = not is_reserved or end <= shadow + PLAN_TOLERANCE
            if ends_in_time or needed <= extra:
                free -= needed
                if not ends_in_time:
                    extra -= needed
                running = insert_running(jobs, running, slot, end, needed)
                started[count] = slot
                count += 1
                continue
        elif not is_reserved and needed <= present:
            is_reserved = True
            shadow, extra = shadow_of(now, free, needed, jobs, running)
        queue[kept] = slot
        kept += 1
    return count, kept, running


def arrays(size: int) -> tuple[Ints, Ints, Ints]:
    """Return queue, gone and started arrays with room for ``size`` jobs."""
    return np.zeros(size, np.int64), np.zeros(size, np.int64), np.zeros(size, np.int64)
