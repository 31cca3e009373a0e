"""The hot loops of a plan: placing jobs, compression, and making the plan anew.

Parameters that recur: ``times``, ``free``, ``steps`` are the availability
profile; ``waiting`` and ``count`` the slots of the waiting jobs by promised
start; ``starts``, ``processors``, ``estimates`` the numbers of the job in each
slot (dates and durations in seconds); ``hosts`` the hosts reserved for it.
Every kernel returns the new number of steps, and those that add jobs the new
number of waiting jobs as well.
"""

from __future__ import annotations

import numpy as np

from qops_batsim.scheduling.host_profile import Words, change_hosts, earliest_hosts
from qops_batsim.scheduling.kernels import kernel
from qops_batsim.scheduling.profile import Floats, Ints, change, earliest_fit


@kernel
def insert_by_start(waiting: Ints, count: int, starts: Floats, slot: int) -> int:
    """Insert the newest job among the waiting ones; return their number. O(waiting)."""
    place = count
    while place > 0 and starts[waiting[place - 1]] > starts[slot]:
        waiting[place] = waiting[place - 1]
        place -= 1
    waiting[place] = slot
    return count + 1


@kernel
def sort_by_start(waiting: Ints, count: int, starts: Floats) -> None:
    """Restore the order by promised start, ties by arrival.

    O(waiting²), and linear if the order is nearly right, as after compression.
    """
    for index in range(1, count):
        slot = waiting[index]
        place = index
        while place > 0 and (
            starts[waiting[place - 1]] > starts[slot]
            or (starts[waiting[place - 1]] == starts[slot] and waiting[place - 1] > slot)
        ):
            waiting[place] = waiting[place - 1]
            place -= 1
        waiting[place] = slot


@kernel
def adopt(waiting: Ints, starts: Floats, order: Ints, planned: Floats, count: int) -> None:
    """Make a new plan the plan: slots and their starts, in any order.

    O(count²), and linear if they are nearly in order of start.
    """
    for index in range(count):
        waiting[index] = order[index]
        starts[order[index]] = planned[index]
    sort_by_start(waiting, count, starts)


@kernel
def place(
    times: Floats,
    free: Ints,
    steps: int,
    now: float,
    waiting: Ints,
    count: int,
    starts: Floats,
    processors: Ints,
    estimates: Floats,
    first: int,
    end: int,
) -> tuple[int, int]:
    """Promise the jobs in slots ``first`` to ``end - 1`` their earliest fit, in that order.

    O(jobs × (steps + waiting)).
    """
    for slot in range(first, end):
        duration, needed = estimates[slot], processors[slot]
        starts[slot] = earliest_fit(times, free, steps, now, duration, needed)
        steps = change(times, free, steps, starts[slot], starts[slot] + duration, -needed)
        count = insert_by_start(waiting, count, starts, slot)
    return steps, count


@kernel
def compress(
    times: Floats,
    free: Ints,
    steps: int,
    now: float,
    waiting: Ints,
    count: int,
    starts: Floats,
    processors: Ints,
    estimates: Floats,
) -> int:
    """Move every waiting job to its earliest fit, one by one in order of promised start.

    No job moves to a later start, because its old place is free for it.
    O(waiting × steps).
    """
    for index in range(count):
        slot = waiting[index]
        start, duration, needed = starts[slot], estimates[slot], processors[slot]
        steps = change(times, free, steps, start, start + duration, needed)
        start = min(start, earliest_fit(times, free, steps, now, duration, needed))
        starts[slot] = start
        steps = change(times, free, steps, start, start + duration, -needed)
    sort_by_start(waiting, count, starts)
    return steps


@kernel
def rebuild(
    times: Floats,
    free: Ints,
    machine_size: int,
    now: float,
    waiting: Ints,
    count: int,
    starts: Floats,
    processors: Ints,
    estimates: Floats,
    running: Ints,
    ends: Floats,
) -> int:
    """Make the plan anew because running jobs will not end when it assumed.

    Waiting jobs are placed in the order of the starts they were promised; these
    promises rested on the assumption, so starts may move to later dates.
    O(waiting × steps).
    """
    times[0] = now
    free[0] = machine_size
    steps = 1
    for slot in running:
        steps = change(times, free, steps, now, ends[slot], -processors[slot])
    for index in range(count):
        slot = waiting[index]
        duration, needed = estimates[slot], processors[slot]
        starts[slot] = earliest_fit(times, free, steps, now, duration, needed)
        steps = change(times, free, steps, starts[slot], starts[slot] + duration, -needed)
    sort_by_start(waiting, count, starts)
    return steps


@kernel
def place_hosts(
    times: Floats,
    free: Words,
    steps: int,
    now: float,
    waiting: Ints,
    count: int,
    starts: Floats,
    processors: Ints,
    estimates: Floats,
    first: int,
    end: int,
    hosts: Words,
) -> tuple[int, int]:
    """As :func:`place`, with certain hosts. O(jobs × steps² × words)."""
    for slot in range(first, end):
        duration = estimates[slot]
        start = earliest_hosts(times, free, steps, now, duration, processors[slot], hosts[slot])
        starts[slot] = start
        steps = change_hosts(times, free, steps, start, start + duration, hosts[slot], False)
        count = insert_by_start(waiting, count, starts, slot)
    return steps, count


@kernel
def compress_hosts(
    times: Floats,
    free: Words,
    steps: int,
    now: float,
    waiting: Ints,
    count: int,
    starts: Floats,
    processors: Ints,
    estimates: Floats,
    hosts: Words,
) -> int:
    """Move every waiting job to its earliest fit, one by one in order of arrival.

    The hosts are chosen anew even where the start stays. O(waiting × steps² × words).
    """
    for slot in np.sort(waiting[:count]):
        start, duration = starts[slot], estimates[slot]
        steps = change_hosts(times, free, steps, start, start + duration, hosts[slot], True)
        start = earliest_hosts(times, free, steps, now, duration, processors[slot], hosts[slot])
        starts[slot] = start
        steps = change_hosts(times, free, steps, start, start + duration, hosts[slot], False)
    sort_by_start(waiting, count, starts)
    return steps


@kernel
def rebuild_hosts(
    times: Floats,
    free: Words,
    all_hosts: Words,
    now: float,
    waiting: Ints,
    count: int,
    starts: Floats,
    processors: Ints,
    estimates: Floats,
    running: Ints,
    ends: Floats,
    hosts: Words,
) -> int:
    """As :func:`rebuild`, with certain hosts. O(waiting × steps² × words)."""
    times[0] = now
    free[0] = all_hosts
    steps = 1
    for slot in running:
        steps = change_hosts(times, free, steps, now, ends[slot], hosts[slot], False)
    for index in range(count):
        slot = waiting[index]
        duration = estimates[slot]
        start = earliest_hosts(times, free, steps, now, duration, processors[slot], hosts[slot])
        starts[slot] = start
        steps = change_hosts(times, free, steps, start, start + duration, hosts[slot], False)
    sort_by_start(waiting, count, starts)
    return steps
