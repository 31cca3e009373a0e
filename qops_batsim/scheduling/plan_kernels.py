"""The hot loops of a plan: placing jobs, compression, and making the plan anew.

They serve both kinds of plan: of numbers of processors and of certain hosts. The
profile holds the running and the waiting jobs; ``waiting`` is in order of planned
start, ties by arrival. The bounds on time are for numbers of processors: hosts
take ``steps × words`` instead of one for each step that a fit looks at.
"""

from __future__ import annotations

from typing import Any

from qops_batsim.kernels import lean_kernel
from qops_batsim.scheduling.profile import (
    Floats,
    Ints,
    Jobs,
    Profile,
    Queue,
    end_of,
    fit_in,
    release,
    reserve,
    running_profile,
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


@lean_kernel
def place_job(now: float, profile: Profile, jobs: Jobs, slot: int) -> None:
    """Plan a job at its earliest fit. O(steps)."""
    duration = jobs.estimates[slot]
    jobs.starts[slot] = fit_in(
        profile.free, profile, now, duration, jobs.processors[slot], jobs.reserved[slot]
    )
    reserve(profile, jobs.starts[slot], duration, jobs.reserved[slot])


@lean_kernel
def place(now: float, profile: Profile, jobs: Jobs, waiting: Queue, first: int, end: int) -> None:
    """Plan the jobs in slots ``first`` to ``end - 1`` at their earliest fits, in that order.

    O(jobs × (steps + waiting)).
    """
    for slot in range(first, end):
        place_job(now, profile, jobs, slot)
        insert_by_start(waiting, jobs.starts, slot)


@lean_kernel
def compress(
    now: float, profile: Profile, jobs: Jobs, waiting: Queue, line: Ints, by_host: bool
) -> None:
    """Move the waiting jobs to their earliest fits, one by one in the order of a line.

    Numbers of processors never move to a later start, because the old place is free;
    hosts are chosen anew even where the start stays. O(waiting × steps).
    """
    for index in range(len(line)):
        slot = line[index]
        before, duration = jobs.starts[slot], jobs.estimates[slot]
        release(profile, before, duration, jobs.reserved[slot])
        start = fit_in(
            profile.free, profile, now, duration, jobs.processors[slot], jobs.reserved[slot]
        )
        jobs.starts[slot] = start if by_host else min(before, start)
        reserve(profile, jobs.starts[slot], duration, jobs.reserved[slot])
    sort_slots(waiting.slots, 0, waiting.size[0], jobs.starts)


@lean_kernel
def rebuild(
    now: float, profile: Profile, everything: Any, running: Queue, jobs: Jobs, waiting: Queue
) -> None:
    """Make the plan anew because running jobs will not end when it assumed.

    Waiting jobs are placed in the order of the starts they had; these rested on the
    assumption, so starts may move to later dates. A job that will be late for that
    reason aims at its new end from now on: otherwise no plan could meet its target.
    O(waiting × steps).
    """
    running_profile(profile, everything, now, running, jobs)
    for index in range(waiting.size[0]):
        slot = waiting.slots[index]
        place_job(now, profile, jobs, slot)
        end = end_of(jobs.starts[slot], jobs.estimates[slot])
        if end > jobs.targets[slot] + DEADLINE_TOLERANCE:
            jobs.targets[slot] = end
    sort_slots(waiting.slots, 0, waiting.size[0], jobs.starts)


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
def adopt(order: Ints, planned: Floats, count: int, jobs: Jobs, waiting: Queue) -> None:
    """Make a new plan the plan: slots and their starts, in any order.

    O(count²), and linear if they are nearly in order of start.
    """
    for index in range(count):
        waiting.slots[index] = order[index]
        jobs.starts[order[index]] = planned[index]
    waiting.size[0] = count
    sort_slots(waiting.slots, 0, count, jobs.starts)
