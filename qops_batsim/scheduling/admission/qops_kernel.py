"""The search of QoPS (Islam et al. 2003, section 3, Figure 3)."""

from __future__ import annotations

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


@kernel
def qops_search(
    now: float,
    base_times: Floats,
    base_free: Ints,
    base_steps: int,
    waiting: Ints,
    count: int,
    new: int,
    starts: Floats,
    processors: Ints,
    estimates: Floats,
    deadlines: Floats,
    keys: Floats,
    k_factor: int,
    stop_at_first_failure: bool,
    new_job_first: bool,
    times: Floats,
    free: Ints,
    order: Ints,
    planned: Floats,
) -> tuple[int, int, int]:
    """Look for a plan in which every waiting job and the new one meets its deadline.

    For each insertion point 0, N/2, 3N/4, ... of the N waiting jobs, those before
    it keep their reservations, which the points share. The others and the new job
    are placed in heuristic order, each at its earliest fit. A job that misses its
    deadline is critical: the later half of the jobs placed so far is taken out
    again, and the critical job placed before them. More than ``k_factor``
    violations, or a critical job that is late even directly behind the kept ones,
    end the insertion point.

    Parameters
    ----------
    now, base_times, base_free, base_steps, waiting, count, new, starts, processors, estimates,
    deadlines, keys, order, planned
        See :mod:`~qops_batsim.scheduling.admission.common_kernels`. The base
        profile is changed.
    k_factor
        Most violations at one insertion point.
    stop_at_first_failure
        Reject when the first insertion point fails, as Figure 3 has it literally.
    new_job_first
        At insertion points after the first, place the new job before the others,
        as the text has it, rather than in heuristic order.
    times, free
        Filled with the profile of the plan.

    Returns
    -------
    tuple of int
        Steps of the plan's profile or ``REJECTED``; then, if rejected, the slot of
        the job whose deadline stood in the way and the insertion point.
        O(log N × (N + K × N) × steps) and N² for sorting.
    """
    kept = 0
    point = 0
    blamed = new
    while True:
        while kept < point:
            slot = waiting[kept]
            base_steps = reserve(
                base_times, base_free, base_steps, starts[slot], estimates[slot], processors[slot]
            )
            order[kept] = slot
            planned[kept] = starts[slot]
            kept += 1
        for index in range(point, count):
            order[index] = waiting[index]
        order[count] = new
        sort_by_key(order, point, count + 1, keys)
        if new_job_first and point > 0:
            for index in range(point, count + 1):
                if order[index] == new:
                    lift(order, index, point)
        steps = copy_profile(base_times, base_free, base_steps, times, free)
        placed = point
        violations = 0
        while placed <= count:
            slot = order[placed]
            duration, needed, deadline = estimates[slot], processors[slot], deadlines[slot]
            start = earliest_fit(times, free, steps, now, duration, needed)
            if meets(start, duration, deadline):
                steps = reserve(times, free, steps, start, duration, needed)
                planned[placed] = start
                placed += 1
                continue
            blamed = slot
            violations += 1
            soonest = earliest_fit(base_times, base_free, base_steps, now, duration, needed)
            if violations > k_factor or not meets(soonest, duration, deadline):
                break
            middle = (point + placed) // 2
            for index in range(middle, placed):
                out = order[index]
                steps = change(
                    times,
                    free,
                    steps,
                    planned[index],
                    planned[index] + estimates[out],
                    processors[out],
                )
            lift(order, placed, middle)
            sort_by_key(order, middle + 1, count + 1, keys)
            placed = middle
        if placed > count:
            return steps, new, point
        following = point + (count - point) // 2
        if stop_at_first_failure or following == point:
            return REJECTED, blamed, point
        point = following
