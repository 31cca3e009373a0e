"""The search for the cheapest schedule (Talby and Feitelson 1999, sections 4.5 and 4.6)."""

from __future__ import annotations

import numpy as np

from qops_batsim.scheduling.admission.common_kernels import (
    copy_profile,
    reserve,
    running_profile,
)
from qops_batsim.scheduling.kernels import kernel
from qops_batsim.scheduling.plan_kernels import sort_by_start
from qops_batsim.scheduling.profile import Floats, Ints, change, earliest_fit
from qops_batsim.scheduling.slack.orders import EXHAUSTIVE, keys_of, next_permutation, sort_line
from qops_batsim.scheduling.slack.prices import (
    PRICE_TOLERANCE,
    cost_of_move,
    price_of_wait,
    rate_of_moves,
)
from qops_batsim.timing import PLAN_TOLERANCE

RATES, LEAST, PLANNED, BEST, KEYS = 0, 1, 2, 3, 4
ROWS = 5
"""Rows of the room that the search needs, one number for each waiting job."""


@kernel
def weigh_moves(
    now: float,
    times: Floats,
    free: Ints,
    steps: int,
    waiting: Ints,
    count: int,
    fixed: int,
    starts: Floats,
    processors: Ints,
    estimates: Floats,
    priorities: Floats,
    first_slacks: Floats,
    latest: Floats,
    new_priority: float,
    weights: Floats,
    room: Floats,
) -> None:
    """Write what moving each waiting job costs, and what it can gain at most.

    ``times``, ``free`` and ``steps`` are the profile of what is not moved in any
    schedule: no job can start earlier than there. Rows ``RATES`` and ``LEAST`` of the
    room are written. O(waiting × steps).
    """
    for index in range(count):
        slot = waiting[index]
        slack = latest[slot] - starts[slot]
        # No number: neither a bound nor a start.
        if np.isnan(slack):
            slack = np.inf
        rate = rate_of_moves(
            processors[slot], priorities[slot], first_slacks[slot], slack, new_priority, weights
        )
        room[RATES, index] = rate
        if index >= fixed:
            soonest = earliest_fit(times, free, steps, now, estimates[slot], processors[slot])
            gain = cost_of_move(soonest - starts[slot], rate, False, weights)
            room[LEAST, index] = min(0.0, gain)


@kernel
def place_delayed(
    now: float,
    times: Floats,
    free: Ints,
    steps: int,
    waiting: Ints,
    count: int,
    position: int,
    line: Ints,
    starts: Floats,
    processors: Ints,
    estimates: Floats,
    priorities: Floats,
    latest: Floats,
    weights: Floats,
    price: float,
    limit: float,
    least_moved: int,
    room: Floats,
) -> tuple[int, float, int]:
    """Place the jobs from a position on at their earliest fit, and add up what this costs.

    Parameters
    ----------
    times, free, steps
        Profile with the running jobs, the jobs before the position and the new job.
    line
        Places of the waiting jobs in the order in which to go through them.
    price
        What the new job's own wait costs.
    limit, least_moved
        Price of the cheapest schedule so far, and how many jobs it moves.
    room
        Rows ``RATES`` and ``LEAST`` are read, ``PLANNED`` is written.

    Returns
    -------
    tuple
        Steps of the profile, price, and number of moved jobs. The price is infinite
        if a job would start after its latest start, or if the schedule cannot win.
        O(waiting × steps).
    """
    moved = 0
    # What the jobs still to place can gain at most.
    hope = 0.0
    for index in range(position, count):
        hope += room[LEAST, index]
    tolerance = PRICE_TOLERANCE * max(1.0, abs(limit))
    for place in range(count + 1):
        bound = price + hope if place < count else price
        if bound > limit + tolerance or (bound >= limit - tolerance and moved >= least_moved):
            return steps, np.inf, moved
        if place == count:
            break
        index = line[place]
        if index < position:
            continue
        slot = waiting[index]
        duration, needed = estimates[slot], processors[slot]
        start = earliest_fit(times, free, steps, now, duration, needed)
        if start > latest[slot] + PLAN_TOLERANCE:
            return steps, np.inf, moved
        room[PLANNED, index] = start
        delay = start - starts[slot]
        if abs(delay) > PLAN_TOLERANCE:
            moved += 1
            price += cost_of_move(delay, room[RATES, index], priorities[slot] == -np.inf, weights)
        hope -= room[LEAST, index]
        steps = reserve(times, free, steps, start, duration, needed)
    return steps, price, moved


@kernel
def compressed_schedule(
    now: float,
    times: Floats,
    free: Ints,
    steps: int,
    waiting: Ints,
    count: int,
    fixed: int,
    starts: Floats,
    processors: Ints,
    estimates: Floats,
    priorities: Floats,
    weights: Floats,
    room: Floats,
) -> tuple[int, float, int]:
    """Compress as conservative backfilling does, and add up what this costs.

    One by one in order of promised start, jobs move up to their earliest fit while
    all others stay. The profile is changed; row ``RATES`` of the room is read, and
    ``BEST`` is written.

    Returns
    -------
    tuple
        Steps of the profile, price (at most 0), and number of moved jobs.
        O(waiting × steps).
    """
    price, moved = 0.0, 0
    for index in range(fixed, count):
        slot = waiting[index]
        start, duration, needed = starts[slot], estimates[slot], processors[slot]
        steps = change(times, free, steps, start, start + duration, needed)
        start = min(start, earliest_fit(times, free, steps, now, duration, needed))
        steps = reserve(times, free, steps, start, duration, needed)
        room[BEST, index] = start
        delay = start - starts[slot]
        if abs(delay) > PLAN_TOLERANCE:
            moved += 1
            price += cost_of_move(delay, room[RATES, index], priorities[slot] == -np.inf, weights)
    return steps, price, moved


@kernel
def cheapest_schedule(
    now: float,
    machine_size: int,
    running: Ints,
    ends: Floats,
    waiting: Ints,
    count: int,
    fixed: int,
    starts: Floats,
    processors: Ints,
    estimates: Floats,
    priorities: Floats,
    first_slacks: Floats,
    latest: Floats,
    new_processors: int,
    new_estimate: float,
    new_priority: float,
    new_latest: float,
    weights: Floats,
    heuristic: int,
    compresses: bool,
    plan_times: Floats,
    plan_free: Ints,
    plan_steps: int,
    base_times: Floats,
    base_free: Ints,
    times: Floats,
    free: Ints,
    best_times: Floats,
    best_free: Ints,
    room: Floats,
    line: Ints,
) -> tuple[int, int, float, float, int]:
    """Find the cheapest schedule that includes a new job.

    At each position among the waiting jobs, the jobs before it keep their
    reservations; the new job, then the jobs from the position on in the order of
    the heuristic, are placed at their earliest fit. The last position leaves all as
    it is, which is what conservative backfilling does with a new job. What it does
    without one, compression, can be among the schedules as well. At equal prices, the
    schedule that moves fewer jobs wins, then the one that is named first here: the
    last position, compression, the others from the first one on.

    Parameters
    ----------
    now
        Date (seconds).
    machine_size, running, ends
        Number of processors, slots of the running jobs, expected end of the job in
        each slot.
    waiting, count, fixed
        Slots of the waiting jobs by promised start, their number, and how many of
        them at the beginning must not be moved.
    starts, processors, estimates, priorities, first_slacks, latest
        Promised start, processors, estimate, priority, initial slack and latest start
        of the job in each slot (dates and durations in seconds).
    new_processors, new_estimate, new_priority, new_latest
        Numbers of the new job; without processors it is none (section 4.5: removing
        a job is inserting a null job).
    weights, heuristic
        See :mod:`~qops_batsim.scheduling.slack.prices` and
        :mod:`~qops_batsim.scheduling.slack.orders`.
    compresses
        Whether compression is among the schedules, if there is no new job.
    plan_times, plan_free, plan_steps
        Availability profile of the present plan.
    base_times, base_free, times, free, room, line
        Room to work in.
    best_times, best_free
        Filled with the profile of the cheapest schedule, unless it leaves all waiting
        jobs as they are.

    Returns
    -------
    steps
        Steps of that profile; 0 if all waiting jobs stay as they are.
    position
        Where the new job came in. The waiting jobs from here on start at
        ``room[BEST]``.
    new_start
        Start of the new job (seconds); infinite also if it cannot start by
        ``new_latest`` without moving a job beyond its slack.
    price, moved
        Price (infinite if there is no such schedule) and number of moved jobs.
        O(waiting² × steps), O(waiting! × steps) if exhaustive.
    """
    base_steps = running_profile(
        base_times, base_free, machine_size, now, running, ends, processors
    )
    for index in range(fixed):
        slot = waiting[index]
        base_steps = reserve(
            base_times, base_free, base_steps, starts[slot], estimates[slot], processors[slot]
        )
    weigh_moves(
        now, base_times, base_free, base_steps, waiting, count, fixed, starts, processors,
        estimates, priorities, first_slacks, latest, new_priority, weights, room,
    )  # fmt: skip
    keys_of(
        heuristic, waiting, count, starts, processors, estimates, priorities, latest,
        room[RATES], room[KEYS],
    )  # fmt: skip
    sort_line(line, count, room[KEYS], waiting)
    best_steps, best_position, best_moved, best_price = 0, count, 0, np.inf
    best_start = now
    is_null = new_processors == 0
    if is_null:
        best_price = 0.0
        if compresses:
            steps = copy_profile(plan_times, plan_free, plan_steps, best_times, best_free)
            steps, total, moved = compressed_schedule(
                now, best_times, best_free, steps, waiting, count, fixed, starts, processors,
                estimates, priorities, weights, room,
            )  # fmt: skip
            if total < 0.0:
                best_steps, best_position, best_price, best_moved = steps, fixed, total, moved
    else:
        best_start = earliest_fit(
            plan_times, plan_free, plan_steps, now, new_estimate, new_processors
        )
        if best_start <= new_latest + PLAN_TOLERANCE:
            best_price = price_of_wait(best_start - now, new_processors, weights)
        else:
            best_start = np.inf
    for position in range(fixed, count):
        if position > fixed:
            slot = waiting[position - 1]
            base_steps = reserve(
                base_times, base_free, base_steps, starts[slot], estimates[slot], processors[slot]
            )
        start, price = now, 0.0
        if not is_null:
            start = earliest_fit(
                base_times, base_free, base_steps, now, new_estimate, new_processors
            )
            if start > new_latest + PLAN_TOLERANCE:
                continue
            price = price_of_wait(start - now, new_processors, weights)
        if heuristic == EXHAUSTIVE:
            for index in range(count):
                line[index] = index
        more = True
        while more:
            steps = copy_profile(base_times, base_free, base_steps, times, free)
            if not is_null:
                steps = reserve(times, free, steps, start, new_estimate, new_processors)
            steps, total, moved = place_delayed(
                now, times, free, steps, waiting, count, position, line, starts, processors,
                estimates, priorities, latest, weights, price, best_price, best_moved, room,
            )  # fmt: skip
            # A finite price wins or ties: the others were given up on the way.
            if total < np.inf:
                best_steps = copy_profile(times, free, steps, best_times, best_free)
                best_price, best_moved, best_position, best_start = total, moved, position, start
                room[BEST, position:count] = room[PLANNED, position:count]
            more = heuristic == EXHAUSTIVE and next_permutation(line, position, count)
    return best_steps, best_position, best_start, best_price, best_moved


@kernel
def adopt_best(waiting: Ints, count: int, position: int, starts: Floats, best: Floats) -> None:
    """Give the waiting jobs from a position on their new starts, and restore the order."""
    for index in range(position, count):
        starts[waiting[index]] = best[index]
    sort_by_start(waiting, count, starts)
