"""What the admission searches share: profiles to try things on, orders, deadlines.

Parameters that recur: ``base_times``, ``base_free``, ``base_steps`` are the
availability profile of the running jobs alone; ``waiting`` and ``count`` the slots
of the accepted jobs that wait, by promised start; ``new`` the slot of the job that
asks for admission; ``starts``, ``processors``, ``estimates``, ``deadlines`` the
numbers of the job in each slot (dates and durations in seconds); ``keys`` what the
order heuristic compares. A search writes the plan it found to ``order`` (slots) and
``planned`` (starts, in the same order).
"""

from __future__ import annotations

import numpy as np

from qops_batsim.scheduling.kernels import kernel
from qops_batsim.scheduling.profile import Floats, Ints, change
from qops_batsim.timing import PLAN_TOLERANCE

REJECTED = -1
"""What a search returns as its number of steps when it found no plan."""


@kernel
def running_profile(
    times: Floats,
    free: Ints,
    machine_size: int,
    now: float,
    running: Ints,
    ends: Floats,
    processors: Ints,
) -> int:
    """Write the availability profile of the running jobs; return its steps. O(running²)."""
    times[0] = now
    free[0] = machine_size
    steps = 1
    for slot in running:
        steps = change(times, free, steps, now, ends[slot], -processors[slot])
    return steps


@kernel
def copy_profile(times: Floats, free: Ints, steps: int, to_times: Floats, to_free: Ints) -> int:
    """Copy a profile; return its steps. O(steps)."""
    for index in range(steps):
        to_times[index] = times[index]
        to_free[index] = free[index]
    return steps


@kernel
def reserve(
    times: Floats, free: Ints, steps: int, start: float, duration: float, processors: int
) -> int:
    """Take processors; return the number of steps. O(steps)."""
    return change(times, free, steps, start, start + duration, -processors)


@kernel
def meets(start: float, estimate: float, deadline: float) -> bool:
    """Whether a job that starts then is expected to end by its deadline."""
    return deadline == np.inf or start + estimate <= deadline + PLAN_TOLERANCE


@kernel
def sort_by_key(order: Ints, first: int, end: int, keys: Floats) -> None:
    """Sort slots ``first`` to ``end - 1`` by key, ties by arrival.

    O(n²), and linear if the order is nearly right.
    """
    for index in range(first + 1, end):
        slot = order[index]
        place = index
        while place > first and (
            keys[order[place - 1]] > keys[slot]
            or (keys[order[place - 1]] == keys[slot] and order[place - 1] > slot)
        ):
            order[place] = order[place - 1]
            place -= 1
        order[place] = slot


@kernel
def lift(order: Ints, place: int, to: int) -> None:
    """Move the slot at ``place`` to the earlier place ``to``. O(place - to)."""
    slot = order[place]
    for index in range(place, to, -1):
        order[index] = order[index - 1]
    order[to] = slot
