"""The search of the modified real-time algorithm (Islam et al. 2003, Figure 2)."""

from __future__ import annotations

import numpy as np

from qops_batsim.scheduling.admission.common_kernels import (
    REJECTED,
    copy_profile,
    lift,
    meets,
    reserve,
    sort_by_key,
)
from qops_batsim.scheduling.kernels import kernel
from qops_batsim.scheduling.profile import Floats, Ints, change, earliest_fit
from qops_batsim.timing import PLAN_TOLERANCE


@kernel
def late_one(
    now: float,
    times: Floats,
    free: Ints,
    steps: int,
    order: Ints,
    first: int,
    end: int,
    start: float,
    until: float,
    processors: Ints,
    estimates: Floats,
    deadlines: Floats,
    spare: Floats,
) -> int:
    """Return an unscheduled job that would be late even alone, or -1.

    ``spare`` holds, by slot, a start at which each unscheduled job was found to
    fit, or NaN. It stays good unless it overlaps the newest reservation, from
    ``start`` to ``until``; only then a new one is sought. O(jobs × steps).
    """
    for index in range(first, end):
        slot = order[index]
        duration = estimates[slot]
        # A job of no length still needs its processors when it starts.
        before = spare[slot] + duration <= start and spare[slot] < start - PLAN_TOLERANCE
        if before or spare[slot] >= until:
            continue
        spare[slot] = earliest_fit(times, free, steps, now, duration, processors[slot])
        if not meets(spare[slot], duration, deadlines[slot]):
            return int(slot)
    return -1


@kernel
def mrt_search(
    now: float,
    base_times: Floats,
    base_free: Ints,
    base_steps: int,
    waiting: Ints,
    count: int,
    new: int,
    processors: Ints,
    estimates: Floats,
    deadlines: Floats,
    keys: Floats,
    max_backtracks: int,
    times: Floats,
    free: Ints,
    order: Ints,
    planned: Floats,
    spare: Floats,
    tried: Ints,
) -> tuple[int, int, int]:
    """Look for a plan by extending a partial schedule in heuristic order.

    A partial schedule is extended by its first candidate that leaves it strongly
    feasible: the candidate meets its deadline, and so would every unscheduled job
    if it were next. Where a candidate does not, or none is left, the search goes
    back to the previous partial schedule and its next candidate; more than
    ``max_backtracks`` times, and the new job is rejected.

    Parameters
    ----------
    now, base_times, base_free, base_steps, waiting, count, new, processors, estimates, deadlines,
    keys, order, planned
        See :mod:`~qops_batsim.scheduling.admission.common_kernels`.
    max_backtracks
        Most candidates given up.
    times, free
        Filled with the profile of the plan.
    spare, tried
        Room for a number for each slot, and for each place of the plan.

    Returns
    -------
    tuple of int
        Steps of the plan's profile or ``REJECTED``; the slot of the job whose
        deadline stood in the way, if rejected; and the backtracks.
        O((jobs + backtracks) × jobs × steps).
    """
    total = count + 1
    for index in range(count):
        order[index] = waiting[index]
    order[count] = new
    sort_by_key(order, 0, total, keys)
    steps = copy_profile(base_times, base_free, base_steps, times, free)
    for index in range(total):
        spare[order[index]] = np.nan
        tried[index] = 0
    blamed = late_one(
        now,
        times,
        free,
        steps,
        order,
        0,
        total,
        now,
        now,
        processors,
        estimates,
        deadlines,
        spare,
    )
    if blamed >= 0:
        return REJECTED, blamed, 0
    backtracks = 0
    depth = 0
    while depth < total:
        found = False
        # Candidates stand in heuristic order from this place on; the first ones were tried.
        while depth + tried[depth] < total:
            place = depth + tried[depth]
            slot = order[place]
            tried[depth] += 1
            duration, needed = estimates[slot], processors[slot]
            start = earliest_fit(times, free, steps, now, duration, needed)
            if meets(start, duration, deadlines[slot]):
                steps = reserve(times, free, steps, start, duration, needed)
                lift(order, place, depth)
                late = late_one(
                    now,
                    times,
                    free,
                    steps,
                    order,
                    depth + 1,
                    total,
                    start,
                    start + duration,
                    processors,
                    estimates,
                    deadlines,
                    spare,
                )
                if late < 0:
                    planned[depth] = start
                    found = True
                    break
                blamed = late
                steps = change(times, free, steps, start, start + duration, needed)
                sort_by_key(order, depth, total, keys)
                # The start found for it was too late: seek it anew.
                spare[late] = np.nan
            else:
                blamed = slot
            backtracks += 1
            if backtracks > max_backtracks:
                return REJECTED, blamed, backtracks
        if found:
            depth += 1
            if depth < total:
                tried[depth] = 0
            continue
        if depth == 0:
            return REJECTED, blamed, backtracks
        depth -= 1
        slot = order[depth]
        duration = estimates[slot]
        steps = change(
            times, free, steps, planned[depth], planned[depth] + duration, processors[slot]
        )
        sort_by_key(order, depth, total, keys)
        # It is given up as well, as nothing can follow it.
        backtracks += 1
        if backtracks > max_backtracks:
            return REJECTED, blamed, backtracks
    return steps, new, backtracks
