"""The search for the cheapest schedule (Talby and Feitelson 1999, sections 4.5 and 4.6)."""

from __future__ import annotations

import numpy as np

from qops_batsim.scheduling.kernels import kernel
from qops_batsim.scheduling.plan_kernels import sort_slots
from qops_batsim.scheduling.profile import (
    Floats,
    Ints,
    Jobs,
    Profile,
    Queue,
    copy_profile,
    earliest_fit,
    release,
    reserve,
    running_profile,
)
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
    profile: Profile,
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

    The profile is of what is not moved in any schedule: no job can start earlier than there. Rows
    ``RATES`` and ``LEAST`` of the room are written. O(waiting × steps).
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
            soonest = earliest_fit(profile, now, estimates[slot], processors[slot])
            gain = cost_of_move(soonest - starts[slot], rate, False, weights)
            room[LEAST, index] = min(0.0, gain)


@kernel
def place_delayed(
    now: float,
    profile: Profile,
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
) -> tuple[float, int]:
    """Place the jobs from a position on at their earliest fit, and add up what this costs.

    Parameters
    ----------
    profile
        With the running jobs, the jobs before the position and the new job.
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
        Price, and number of moved jobs. The price is infinite
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
            return np.inf, moved
        if place == count:
            break
        index = line[place]
        if index < position:
            continue
        slot = waiting[index]
        duration, needed = estimates[slot], processors[slot]
        start = earliest_fit(profile, now, duration, needed)
        if start > latest[slot] + PLAN_TOLERANCE:
            return np.inf, moved
        room[PLANNED, index] = start
        delay = start - starts[slot]
        if abs(delay) > PLAN_TOLERANCE:
            moved += 1
            price += cost_of_move(delay, room[RATES, index], priorities[slot] == -np.inf, weights)
        hope -= room[LEAST, index]
        reserve(profile, start, duration, needed)
    return price, moved


@kernel
def compressed_schedule(
    now: float,
    profile: Profile,
    waiting: Ints,
    count: int,
    fixed: int,
    starts: Floats,
    processors: Ints,
    estimates: Floats,
    priorities: Floats,
    weights: Floats,
    room: Floats,
) -> tuple[float, int]:
    """Compress as conservative backfilling does, and add up what this costs.

    One by one in order of promised start, jobs move up to their earliest fit while
    all others stay. The profile is changed; row ``RATES`` of the room is read, and
    ``BEST`` is written.

    Returns
    -------
    tuple
        Price (at most 0), and number of moved jobs.
        O(waiting × steps).
    """
    price, moved = 0.0, 0
    for index in range(fixed, count):
        slot = waiting[index]
        start, duration, needed = starts[slot], estimates[slot], processors[slot]
        release(profile, start, duration, needed)
        start = min(start, earliest_fit(profile, now, duration, needed))
        reserve(profile, start, duration, needed)
        room[BEST, index] = start
        delay = start - starts[slot]
        if abs(delay) > PLAN_TOLERANCE:
            moved += 1
            price += cost_of_move(delay, room[RATES, index], priorities[slot] == -np.inf, weights)
    return price, moved


@kernel
def cheapest_schedule(
    now: float,
    machine_size: int,
    running: Queue,
    jobs: Jobs,
    queue: Queue,
    fixed: int,
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
    plan: Profile,
    base: Profile,
    trial: Profile,
    best: Profile,
    room: Floats,
    line: Ints,
) -> tuple[bool, int, float, float, int]:
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
    fixed
        How many of the waiting jobs at the beginning must not be moved.
    priorities, first_slacks, latest
        Priority, initial slack and latest start of the job in each slot (seconds).
    new_processors, new_estimate, new_priority, new_latest
        Numbers of the new job; without processors it is none (section 4.5: removing
        a job is inserting a null job).
    weights, heuristic
        See :mod:`~qops_batsim.scheduling.slack.prices` and
        :mod:`~qops_batsim.scheduling.slack.orders`.
    compresses
        Whether compression is among the schedules, if there is no new job.
    plan
        Availability profile of the present plan.
    base, trial, room, line
        Room to work in.
    best
        Filled with the profile of the cheapest schedule, unless it leaves all waiting
        jobs as they are.

    Returns
    -------
    changed
        Whether waiting jobs do not all stay as they are.
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
    waiting, count = queue.slots, queue.size[0]
    starts, processors, estimates = jobs.starts, jobs.processors, jobs.estimates
    running_profile(base, machine_size, now, running, jobs)
    for index in range(fixed):
        slot = waiting[index]
        reserve(base, starts[slot], estimates[slot], processors[slot])
    weigh_moves(
        now, base, waiting, count, fixed, starts, processors,
        estimates, priorities, first_slacks, latest, new_priority, weights, room,
    )  # fmt: skip
    keys_of(
        heuristic, waiting, count, starts, processors, estimates, priorities, latest,
        room[RATES], room[KEYS],
    )  # fmt: skip
    sort_line(line, count, room[KEYS], waiting)
    changed, best_position, best_moved, best_price = False, count, 0, np.inf
    best_start = now
    is_null = new_processors == 0
    if is_null:
        best_price = 0.0
        if compresses:
            copy_profile(plan, best)
            total, moved = compressed_schedule(
                now, best, waiting, count, fixed, starts, processors,
                estimates, priorities, weights, room,
            )  # fmt: skip
            if total < 0.0:
                changed, best_position, best_price, best_moved = True, fixed, total, moved
    else:
        best_start = earliest_fit(plan, now, new_estimate, new_processors)
        if best_start <= new_latest + PLAN_TOLERANCE:
            best_price = price_of_wait(best_start - now, new_processors, weights)
        else:
            best_start = np.inf
    for position in range(fixed, count):
        if position > fixed:
            slot = waiting[position - 1]
            reserve(base, starts[slot], estimates[slot], processors[slot])
        start, price = now, 0.0
        if not is_null:
            start = earliest_fit(base, now, new_estimate, new_processors)
            if start > new_latest + PLAN_TOLERANCE:
                continue
            price = price_of_wait(start - now, new_processors, weights)
        if heuristic == EXHAUSTIVE:
            for index in range(count):
                line[index] = index
        more = True
        while more:
            copy_profile(base, trial)
            if not is_null:
                reserve(trial, start, new_estimate, new_processors)
            total, moved = place_delayed(
                now, trial, waiting, count, position, line, starts, processors,
                estimates, priorities, latest, weights, price, best_price, best_moved, room,
            )  # fmt: skip
            # A finite price wins or ties: the others were given up on the way.
            if total < np.inf:
                copy_profile(trial, best)
                changed = True
                best_price, best_moved, best_position, best_start = total, moved, position, start
                room[BEST, position:count] = room[PLANNED, position:count]
            more = heuristic == EXHAUSTIVE and next_permutation(line, position, count)
    return changed, best_position, best_start, best_price, best_moved


@kernel
def adopt_best(waiting: Queue, position: int, starts: Floats, best: Floats) -> None:
    """Give the waiting jobs from a position on their new starts, and restore the order."""
    for index in range(position, waiting.size[0]):
        starts[waiting.slots[index]] = best[index]
    sort_slots(waiting.slots, 0, waiting.size[0], starts)
