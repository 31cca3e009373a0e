"""The search of the modified slack-based algorithm (Islam et al. 2003, Figure 1)."""

from __future__ import annotations

import numpy as np

from qops_batsim.scheduling.admission.common_kernels import (
    REJECTED,
    copy_profile,
    meets,
    reserve,
)
from qops_batsim.scheduling.kernels import kernel
from qops_batsim.scheduling.profile import Floats, Ints, earliest_fit

FOREVER = 1e12
"""Price of a delay without end (seconds): more than any date, and sums stay precise."""


@kernel
def price_of(delay: float, processors: int, only_delays: bool) -> float:
    """Return what it costs that a job starts ``delay`` seconds later than planned.

    A job without estimate ahead of others may leave them without any start: an
    infinite delay, which counts as :data:`FOREVER`. A job that had none before and
    has none now (the delay is no number) costs nothing.
    """
    if np.isnan(delay) or (only_delays and delay < 0.0):
        return 0.0
    return max(-FOREVER, min(delay, FOREVER)) * processors


@kernel
def msb_search(
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
    only_delays: bool,
    times: Floats,
    free: Ints,
    order: Ints,
    planned: Floats,
    best_times: Floats,
    best_free: Ints,
    best: Floats,
    least: Floats,
) -> tuple[int, int, int]:
    """Look for the cheapest position of the new job among the waiting ones.

    At each position, the jobs before it keep their reservations; the new job and
    then the others, in the order of their promised starts, are placed at their
    earliest fit. A missed deadline rules the position out. The price is the sum of
    delay × processors over the moved jobs and the new one.

    Parameters
    ----------
    now, base_times, base_free, base_steps, waiting, count, new, starts, processors, estimates,
    deadlines, order, planned
        See :mod:`~qops_batsim.scheduling.admission.common_kernels`. The base
        profile is changed.
    only_delays
        Whether moves to an earlier start cost nothing rather than less than nothing.
    times, free
        Filled with the profile of the plan.
    best_times, best_free, best, least
        Room for the cheapest plan so far: profile, starts in order; and for bounds.

    Returns
    -------
    tuple of int
        Steps of the plan's profile or ``REJECTED``; the slot of the job whose
        deadline stood in the way at the last position tried, if rejected; and the
        position. O(waiting² × steps).
    """
    # No waiting job can start earlier than with the running jobs alone, so the price of
    # the jobs from an index on is at least this: positions that cannot win stop early.
    least[count] = 0.0
    for index in range(count - 1, -1, -1):
        slot = waiting[index]
        soonest = earliest_fit(
            base_times, base_free, base_steps, now, estimates[slot], processors[slot]
        )
        least[index] = least[index + 1] + price_of(
            soonest - starts[slot], processors[slot], only_delays
        )
    cheapest = np.inf
    best_steps = REJECTED
    best_position = 0
    blamed = new
    for position in range(count + 1):
        if position > 0:
            slot = waiting[position - 1]
            base_steps = reserve(
                base_times, base_free, base_steps, starts[slot], estimates[slot], processors[slot]
            )
        steps = copy_profile(base_times, base_free, base_steps, times, free)
        price = 0.0
        fits = True
        for index in range(position, count + 1):
            slot = new if index == position else waiting[index - 1]
            duration, needed = estimates[slot], processors[slot]
            start = earliest_fit(times, free, steps, now, duration, needed)
            if not meets(start, duration, deadlines[slot]):
                blamed = slot
                fits = False
                break
            planned[index] = start
            since = now if slot == new else starts[slot]
            price += price_of(start - since, needed, only_delays)
            if price + least[index] >= cheapest:
                fits = False
                break
            steps = reserve(times, free, steps, start, duration, needed)
        if fits and price < cheapest:
            cheapest = price
            best_position = position
            best_steps = copy_profile(times, free, steps, best_times, best_free)
            for index in range(position, count + 1):
                best[index] = planned[index]
    if best_steps == REJECTED:
        return REJECTED, blamed, count
    copy_profile(best_times, best_free, best_steps, times, free)
    for index in range(count + 1):
        if index < best_position:
            order[index] = waiting[index]
            planned[index] = starts[waiting[index]]
        else:
            order[index] = new if index == best_position else waiting[index - 1]
            planned[index] = best[index]
    return best_steps, new, best_position
