"""The hot loop of EASY backfilling."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from qops_batsim.scheduling.kernels import kernel
from qops_batsim.timing import PLAN_TOLERANCE

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


@kernel
def remove_running(slots: Ints, ends: Floats, count: int, gone: Ints, gone_count: int) -> int:
    """Remove jobs from the running jobs, keeping their order; return how many are left.

    O(running × gone).
    """
    for index in range(gone_count):
        place = 0
        while place < count and slots[place] != gone[index]:
            place += 1
        if place == count:
            continue
        for later in range(place + 1, count):
            slots[later - 1] = slots[later]
            ends[later - 1] = ends[later]
        count -= 1
    return count


@kernel
def insert_running(slots: Ints, ends: Floats, count: int, slot: int, end: float) -> int:
    """Insert a job into the running jobs, which are sorted by expected end. O(running)."""
    place = count
    while place > 0 and ends[place - 1] > end:
        slots[place] = slots[place - 1]
        ends[place] = ends[place - 1]
        place -= 1
    slots[place] = slot
    ends[place] = end
    return count + 1


@kernel
def shadow_of(
    now: float, free: int, needed: int, processors: Ints, slots: Ints, ends: Floats, count: int
) -> tuple[float, int]:
    """Return when the head job can start (seconds) and the processors left over then.

    A job that runs longer than expected counts as about to end. O(running).
    """
    available = free
    shadow = np.inf
    for place in range(count):
        if shadow < np.inf and ends[place] > shadow + PLAN_TOLERANCE:
            break
        available += processors[slots[place]]
        if shadow == np.inf and available >= needed:
            shadow = max(now, ends[place])
    return shadow, available - needed


@kernel
def easy_pass(
    now: float,
    free: int,
    processors: Ints,
    estimates: Floats,
    queue: Ints,
    queued: int,
    slots: Ints,
    ends: Floats,
    running: int,
    gone: Ints,
    gone_count: int,
    started: Ints,
) -> tuple[int, int, int]:
    """Decide which waiting jobs start now; return how many start, wait and run.

    ``free`` counts the processors of the jobs in ``gone``, those that have left since the
    last pass. ``processors`` and ``estimates`` (seconds) are by slot; ``queue`` holds the
    slots of the waiting jobs in order, ``slots`` and ``ends`` those of the running jobs by
    ascending expected end (seconds). Jobs that start are taken out of the queue, put among
    the running ones, and their slots written to ``started`` in order.
    O(queue + started × running).
    """
    running = remove_running(slots, ends, running, gone, gone_count)
    count = 0
    head = 0
    while head < queued and processors[queue[head]] <= free:
        slot = queue[head]
        free -= processors[slot]
        running = insert_running(slots, ends, running, slot, now + estimates[slot])
        started[count] = slot
        count += 1
        head += 1
    if head == queued:
        return count, 0, running
    kept = 1
    first = queue[head]
    shadow, extra = shadow_of(now, free, processors[first], processors, slots, ends, running)
    queue[0] = first
    for place in range(head + 1, queued):
        slot = queue[place]
        needed = processors[slot]
        if needed <= free:
            ends_in_time = now + estimates[slot] <= shadow + PLAN_TOLERANCE
            if ends_in_time or needed <= extra:
                free -= needed
                if not ends_in_time:
                    extra -= needed
                running = insert_running(slots, ends, running, slot, now + estimates[slot])
                started[count] = slot
                count += 1
                continue
        queue[kept] = slot
        kept += 1
    return count, kept, running


def arrays(size: int) -> tuple[Any, Any, Any, Any, Any]:
    """Return queue, slots, ends, gone and started arrays with room for ``size`` jobs."""
    return (
        np.zeros(size, np.int64),
        np.zeros(size, np.int64),
        np.zeros(size, np.float64),
        np.zeros(size, np.int64),
        np.zeros(size, np.int64),
    )
