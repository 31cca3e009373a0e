"""The hot loops of a plan: placing jobs, compression, and making the plan anew.

They serve both kinds of plan: of numbers of processors and of certain hosts. The
profile holds the running and the waiting jobs; ``waiting`` is in order of planned
start, ties by arrival. The bounds on time are for numbers of processors: hosts
take ``steps × words`` instead of one for each step that a fit looks at.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from qops_batsim.kernels import lean_kernel
from qops_batsim.scheduling.host_fits import change_hosts, earlier_in, fit_in, keeps_hosts
from qops_batsim.scheduling.profile import (
    Floats,
    Ints,
    Jobs,
    Profile,
    Queue,
    Words,
    change,
    end_of,
    release,
    reserve,
    running_profile,
    segment_at,
)
from qops_batsim.timing import DEADLINE_TOLERANCE


@lean_kernel
def sort_slots(slots: Ints, first: int, end: int, keys: Floats) -> None:
    """Sort ``slots[first:end]`` by key, ties by arrival.

    O(n²), and linear if the order is nearly right, as after compression.
    """
    for index in range(first + 1, end):
        slot = slots[index]
        place = index
        while place > first and (
            keys[slots[place - 1]] > keys[slot]
            or (keys[slots[place - 1]] == keys[slot] and slots[place - 1] > slot)
        ):
            slots[place] = slots[place - 1]
            place -= 1
        slots[place] = slot


@lean_kernel
def insert_by_start(waiting: Queue, starts: Floats, slot: int) -> None:
    """Insert the newest job among the waiting ones. O(waiting)."""
    slots = waiting.slots
    place = waiting.size[0]
    waiting.size[0] += 1
    while place > 0 and starts[slots[place - 1]] > starts[slot]:
        slots[place] = slots[place - 1]
        place -= 1
    slots[place] = slot


class Given(NamedTuple):
    """What others than waiting jobs have given up since the last compression.

    Attributes
    ----------
    dates
        First and last date of it (seconds).
    hosts
        Room for a row of hosts.
    """

    dates: Floats
    hosts: Words


EVER = -np.inf, np.inf
"""First and last date of what may have been given up at any date."""


def new_given(words: int) -> Given:
    """Return that nothing was given up, with room for rows of so many words."""
    return Given(np.array([np.inf, -np.inf]), np.zeros(words, np.uint64))


@lean_kernel
def give_back(profile: Profile, start: float, end: float, amount: Any, given: Given) -> None:
    """Give processors or hosts back that waiting jobs may move to. O(steps × words)."""
    change(profile, start, end, amount, True)
    given.dates[0], given.dates[1] = min(given.dates[0], start), max(given.dates[1], end)


@lean_kernel
def place_job(now: float, profile: Profile, jobs: Jobs, slot: int) -> None:
    """Plan a job at its earliest fit. O(steps)."""
    duration = jobs.estimates[slot]
    jobs.starts[slot] = fit_in(
        profile.free, profile, now, duration, jobs.processors[slot], jobs.reserved[slot]
    )
    reserve(profile, jobs.starts[slot], duration, jobs.reserved[slot])
    jobs.given_from[slot], jobs.given_until[slot] = np.inf, -np.inf


@lean_kernel
def place(now: float, profile: Profile, jobs: Jobs, waiting: Queue, first: int, end: int) -> None:
    """Plan the jobs in slots ``first`` to ``end - 1`` at their earliest fits, in that order.

    O(jobs × (steps + waiting)).
    """
    for slot in range(first, end):
        place_job(now, profile, jobs, slot)
        insert_by_start(waiting, jobs.starts, slot)


@lean_kernel
def place_again(
    now: float, profile: Profile, jobs: Jobs, slot: int, first: float, last: float, hosts: Words
) -> bool:
    """Move a planned job to its earliest fit, and tell whether it has moved; O(steps).

    Only between two dates others have given something up since it was placed, so it fits in
    earlier only where it touches that time. Hosts are chosen anew even where the start stays;
    ``hosts`` is room for them.
    """
    times, size, rows = profile.times, profile.size[0], jobs.reserved
    planned, duration, needed = jobs.starts[slot], jobs.estimates[slot], jobs.processors[slot]
    after, limit = max(now, times[segment_at(times, size, first - duration)]), min(last, planned)
    start = earlier_in(rows, profile, after, duration, needed, limit, planned, rows[slot], hosts)
    if start == planned and (start == np.inf or keeps_hosts(rows, slot, hosts)):
        return False
    release(profile, planned, duration, rows[slot])
    change_hosts(rows, slot, hosts)
    jobs.starts[slot] = start
    reserve(profile, start, duration, rows[slot])
    return True


@lean_kernel
def compress(
    now: float, profile: Profile, jobs: Jobs, waiting: Queue, line: Ints, given: Given
) -> None:
    """Move the waiting jobs to their earliest fits, one by one in the order of a line.

    No start moves to a later date, because the old place is free. A job is looked at where
    others have given something up since it was placed or looked at: running jobs (``given``),
    or waiting ones that have moved. O(waiting × steps), O(waiting) if none does.
    """
    any_moved, dates = False, given.dates
    for slot in line:
        start, duration = jobs.starts[slot], jobs.estimates[slot]
        end = end_of(start, duration)
        first = min(dates[0], jobs.given_from[slot])
        last = max(dates[1], jobs.given_until[slot])
        jobs.given_from[slot], jobs.given_until[slot] = np.inf, -np.inf
        if start < now:
            # Rounding made it late. A number of processors is the same at any date.
            if profile.free.ndim == 1:
                continue
            release(profile, start, duration, jobs.reserved[slot])
            place_job(now, profile, jobs, slot)
        elif (
            first >= end
            or last <= now
            or not place_again(now, profile, jobs, slot, first, last, given.hosts)
        ):
            continue
        any_moved = True
        if start < np.inf:
            jobs.given_from[slot], jobs.given_until[slot] = start, end
            dates[0], dates[1] = min(dates[0], start), max(dates[1], end)
    dates[0], dates[1] = np.inf, -np.inf
    if any_moved:
        tell_earlier(jobs, line)
        sort_slots(waiting.slots, 0, waiting.size[0], jobs.starts)


@lean_kernel
def tell_earlier(jobs: Jobs, line: Ints) -> None:
    """Note for each job of a line what those behind it have given up, in place of what it has."""
    first, last = np.inf, -np.inf
    for place in range(len(line) - 1, -1, -1):
        slot = line[place]
        own_first, own_last = jobs.given_from[slot], jobs.given_until[slot]
        jobs.given_from[slot], jobs.given_until[slot] = first, last
        first, last = min(first, own_first), max(last, own_last)


@lean_kernel
def rebuild(
    now: float,
    profile: Profile,
    everything: Any,
    running: Queue,
    jobs: Jobs,
    waiting: Queue,
    mend: bool,
) -> None:
    """Make the plan anew because running jobs will not end when it assumed.

    Waiting jobs are placed in the order of the starts they had; these rested on the
    assumption, so starts may move to later dates. To ``mend`` promises, they are placed in the
    order of their latest starts instead, if fewer are late then. A job that will be late for that
    reason aims at its new end from now on: otherwise no plan could meet its target. With ``mend``,
    that is until it can be held to an earlier one (:func:`aim_again`). O(waiting × steps).
    """
    late = place_waiting(now, profile, everything, running, jobs, waiting)
    if mend and late > 0:
        slots, size = waiting
        for index in range(size[0]):
            slot = slots[index]
            jobs.keys[slot] = min(jobs.aims[slot], jobs.targets[slot]) - jobs.estimates[slot]
        sort_slots(slots, 0, size[0], jobs.keys)
        for index in range(size[0]):
            jobs.keys[slots[index]] = jobs.starts[slots[index]]
        if place_waiting(now, profile, everything, running, jobs, waiting) >= late:
            for index in range(size[0]):
                jobs.starts[slots[index]] = jobs.keys[slots[index]]
            reserve_all(now, profile, everything, running, jobs, waiting)
    for index in range(waiting.size[0]):
        slot = waiting.slots[index]
        end = end_of(jobs.starts[slot], jobs.estimates[slot])
        if end > jobs.targets[slot] + DEADLINE_TOLERANCE:
            if mend:
                jobs.aims[slot] = min(jobs.aims[slot], jobs.targets[slot])
            jobs.targets[slot] = end
    sort_slots(waiting.slots, 0, waiting.size[0], jobs.starts)


@lean_kernel
def more_time(so_far: float, limit: float) -> float:
    """Return how much longer a job is assumed to run that outlives its estimate (seconds).

    Until it is killed, or if nothing kills it, as long again.
    """
    return max(limit - so_far if limit < np.inf else so_far, 1.0)


@lean_kernel
def place_waiting(
    now: float, profile: Profile, everything: Any, running: Queue, jobs: Jobs, waiting: Queue
) -> int:
    """Place the waiting jobs as they stand beside the running ones; return how many are late."""
    running_profile(profile, everything, now, running, jobs)
    late = 0
    for index in range(waiting.size[0]):
        slot = waiting.slots[index]
        place_job(now, profile, jobs, slot)
        target = min(jobs.aims[slot], jobs.targets[slot])
        late += end_of(jobs.starts[slot], jobs.estimates[slot]) > target + DEADLINE_TOLERANCE
    return late


@lean_kernel
def aim_again(jobs: Jobs, waiting: Queue) -> None:
    """Hold jobs that will be late to the ends that are planned now, or to what they aimed at."""
    for index in range(waiting.size[0]):
        slot = waiting.slots[index]
        if jobs.aims[slot] < jobs.targets[slot] < np.inf:
            end = end_of(jobs.starts[slot], jobs.estimates[slot])
            jobs.targets[slot] = max(jobs.aims[slot], end)


@lean_kernel
def reserve_all(
    now: float, profile: Profile, everything: Any, running: Queue, jobs: Jobs, waiting: Queue
) -> None:
    """Write the profile of the running and the waiting jobs. O(jobs²)."""
    running_profile(profile, everything, now, running, jobs)
    for index in range(waiting.size[0]):
        slot = waiting.slots[index]
        reserve(profile, jobs.starts[slot], jobs.estimates[slot], jobs.reserved[slot])


@lean_kernel
def adopt(
    order: Ints, planned: Floats, count: int, jobs: Jobs, waiting: Queue, given: Given
) -> None:
    """Make a new plan the plan: slots and their starts, in any order.

    O(count²), and linear if they are nearly in order of start.
    """
    for index in range(count):
        waiting.slots[index] = order[index]
        jobs.starts[order[index]] = planned[index]
    given.dates[0], given.dates[1] = EVER
    waiting.size[0] = count
    sort_slots(waiting.slots, 0, count, jobs.starts)
