"""The search for the cheapest schedule (Talby and Feitelson 1999, sections 4.5 and 4.6)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from qops_batsim.kernels import kernel
from qops_batsim.scheduling.arrays import Claims, Floats, Ints, Jobs, Profile, Queue, new_profile
from qops_batsim.scheduling.core.columns import (
    ESTIMATES,
    FIRST_SLACKS,
    LATEST_STARTS,
    PRIORITIES,
    STARTS,
)
from qops_batsim.scheduling.core.plan import sort_slots
from qops_batsim.scheduling.profile import (
    copy_profile,
    earliest_fit,
    release,
    reserve,
    running_profile,
)
from qops_batsim.scheduling.slack.orders import (
    EXHAUSTIVE,
    WAITING,
    Rows,
    key_of,
    next_permutation,
    sort_line,
)
from qops_batsim.scheduling.slack.prices import (
    PRICE_TOLERANCE,
    cost_of_move,
    price_of_wait,
    rate_of_moves,
)
from qops_batsim.scheduling.soonest import clear, copy_bounds, new_bounds, soonest_fit

Schedule = tuple[bool, int, float, float, int]
"""Whether waiting jobs move, from which position on, start of the new job, price, moved jobs."""


class SlackRules(NamedTuple):
    """Options of the search.

    Attributes
    ----------
    weights
        See :mod:`~qops_batsim.scheduling.slack.prices`.
    heuristic
        See :data:`~qops_batsim.scheduling.slack.orders.HEURISTICS`.
    compresses
        Whether compression is among the schedules, if there is no new job.
    """

    weights: Floats
    heuristic: int
    compresses: bool


class NewJob(NamedTuple):
    """A job to insert, and by when it has to start (seconds)."""

    processors: int
    estimate: float
    priority: float
    latest: float


class SearchRoom(NamedTuple):
    """Room that the search works in.

    Attributes
    ----------
    base, trial, best
        Profiles: of what keeps its place, of a schedule that is tried, of the cheapest.
    base_bounds, bounds
        On the earliest fits in the first two.
    rows, line
        The waiting jobs, and their places in the order of the heuristic.
    """

    base: Profile
    trial: Profile
    best: Profile
    base_bounds: Floats
    bounds: Floats
    rows: Rows
    line: Ints


def new_room(steps: int, jobs: int) -> SearchRoom:
    """Return room for profiles and waiting jobs of these sizes."""
    base, trial, best = (new_profile(0, steps) for _ in range(3))
    bounds = new_bounds(), new_bounds()
    return SearchRoom(base, trial, best, *bounds, np.zeros(jobs, WAITING), np.zeros(jobs, np.int64))


@kernel
def list_waiting(
    now: float,
    base: Profile,
    jobs: Jobs,
    waiting: Queue,
    fixed: int,
    new_priority: float,
    weights: Floats,
    heuristic: int,
    bounds: Floats,
    rows: Rows,
) -> None:
    """Write the waiting jobs, what moving each costs and what it can gain at most.

    No job can start earlier than in the profile ``base`` of what is not moved in any
    schedule. O(waiting × steps).
    """
    for index in range(waiting.size[0]):
        slot, row = waiting.slots[index], rows[index]
        row.slot = slot
        row.processors = jobs.processors[slot]
        row.estimate = jobs.numbers[ESTIMATES, slot]
        row.start = jobs.numbers[STARTS, slot]
        row.latest = jobs.numbers[LATEST_STARTS, slot]
        row.over_quota = jobs.numbers[PRIORITIES, slot] == -np.inf
        slack = row.latest - row.start
        # No number: neither a bound nor a start.
        if np.isnan(slack):
            slack = np.inf
        priority, first = jobs.numbers[PRIORITIES, slot], jobs.numbers[FIRST_SLACKS, slot]
        row.rate = rate_of_moves(row.processors, priority, first, slack, new_priority, weights)
        row.key = key_of(heuristic, index, priority, row)
        if index >= fixed:
            soonest = soonest_fit(base, now, row.estimate, row.processors, bounds)
            row.least = min(0.0, cost_of_move(soonest - row.start, row.rate, False, weights))


@kernel
def place_delayed(
    now: float,
    position: int,
    price: float,
    limit: float,
    least_moved: int,
    profile: Profile,
    bounds: Floats,
    rows: Rows,
    line: Ints,
    weights: Floats,
) -> tuple[float, int, int]:
    """Place the jobs from a position on at their earliest fit, and add up what this costs.

    The profile has the running jobs, the jobs before the position and the new job,
    whose own wait costs ``price``. ``limit`` is the price of the cheapest schedule so
    far, which moves ``least_moved`` jobs.

    Returns
    -------
    tuple
        Price and number of moved jobs, and the next position that can give another schedule:
        as long as jobs keep their starts beside the new one, it may as well come after them.
        The price is infinite if a job would start after its latest start, or if the schedule
        cannot win. O(waiting × steps).
    """
    count, moved, following, placed = len(rows), 0, position, position
    # What the jobs still to place can gain at most.
    hope = 0.0
    for index in range(position, count):
        hope += rows[index].least
    tolerance = PRICE_TOLERANCE * max(1.0, abs(limit))
    for place in range(count + 1):
        bound = price + hope if place < count else price
        if bound > limit + tolerance or (bound >= limit - tolerance and moved >= least_moved):
            return np.inf, moved, following + 1
        if place == count:
            break
        if line[place] < position:
            continue
        row = rows[line[place]]
        start = soonest_fit(profile, now, row.estimate, row.processors, bounds)
        if start > row.latest:
            return np.inf, moved, following + 1
        row.trial = start
        if placed == following == line[place] and start == row.start:
            following += 1
        placed += 1
        delay = start - row.start
        if delay != 0.0 and not np.isnan(delay):
            moved += 1
            price += cost_of_move(delay, row.rate, row.over_quota, weights)
        hope -= row.least
        reserve(profile, start, row.estimate, row.processors)
    return price, moved, following + 1


@kernel
def compressed_schedule(
    now: float, fixed: int, profile: Profile, rows: Rows, weights: Floats
) -> tuple[float, int]:
    """Compress a profile as conservative backfilling does, and add up what this costs.

    One by one in order of planned start, jobs move up to their earliest fit while all
    others stay. Returned are the price (at most 0) and the number of moved jobs.
    O(waiting × steps).
    """
    price, moved = 0.0, 0
    for index in range(fixed, len(rows)):
        row = rows[index]
        release(profile, row.start, row.estimate, row.processors)
        row.best = min(row.start, earliest_fit(profile, now, row.estimate, row.processors))
        reserve(profile, row.best, row.estimate, row.processors)
        delay = row.best - row.start
        if delay != 0.0 and not np.isnan(delay):
            moved += 1
            price += cost_of_move(delay, row.rate, row.over_quota, weights)
    return price, moved


@kernel
def schedule_in_place(
    now: float, fixed: int, new: NewJob, rules: SlackRules, plan: Profile, best: Profile, rows: Rows
) -> Schedule:
    """Return the schedule that delays no job: with the new job last, or compressed."""
    count = len(rows)
    if new.processors > 0:
        start = earliest_fit(plan, now, new.estimate, new.processors)
        if start <= new.latest:
            return False, count, start, price_of_wait(start - now, new.processors, rules.weights), 0
        return False, count, np.inf, np.inf, 0
    if rules.compresses:
        copy_profile(plan, best)
        price, moved = compressed_schedule(now, fixed, best, rows, rules.weights)
        if price < 0.0:
            return True, fixed, now, price, moved
    return False, count, now, 0.0, 0


@kernel
def cheapest_schedule(
    now: float,
    everything: int,
    running: Queue,
    claims: Claims,
    jobs: Jobs,
    waiting: Queue,
    fixed: int,
    new: NewJob,
    rules: SlackRules,
    plan: Profile,
    room: SearchRoom,
) -> Schedule:
    """Find the cheapest schedule that includes a new job, or a null job.

    At each position among the waiting jobs, the jobs before it keep their reservations;
    the new job, then the jobs from the position on in the order of the heuristic, are
    placed at their earliest fit; the first ``fixed`` jobs never move. The last position
    leaves all as it is, which is what conservative backfilling does with a new job; with
    a null job compression can take its place. At equal prices, the schedule that moves
    fewer jobs wins, then that one, then the others from the first one on.

    Returns
    -------
    changed
        Whether waiting jobs move; then ``room.best`` is the schedule's profile.
    position
        The waiting jobs from here on have new starts, in ``room.rows``.
    start
        Of the new job (seconds); infinite also if it cannot start by its latest start
        without moving a job beyond its slack.
    price, moved
        Price (infinite if there is no such schedule) and number of moved jobs.
        O(waiting² × steps), O(waiting! × steps) if exhaustive.
    """
    base, rows, line = room.base, room.rows[: waiting.size[0]], room.line
    running_profile(base, everything, now, running, claims, jobs)
    clear(room.base_bounds)
    for index in range(fixed):
        slot = waiting.slots[index]
        reserve(
            base, jobs.numbers[STARTS, slot], jobs.numbers[ESTIMATES, slot], jobs.processors[slot]
        )
    list_waiting(
        now, base, jobs, waiting, fixed, new.priority, rules.weights, rules.heuristic,
        room.base_bounds, rows,
    )  # fmt: skip
    sort_line(line, rows)
    best = schedule_in_place(now, fixed, new, rules, plan, room.best, rows)
    kept = position = fixed
    while position < len(rows):
        for index in range(kept, position):
            row = rows[index]
            soonest_fit(base, now, row.estimate, row.processors, room.base_bounds)
            reserve(base, row.start, row.estimate, row.processors)
        kept, start = position, now
        if new.processors > 0:
            start = soonest_fit(base, now, new.estimate, new.processors, room.base_bounds)
            if start > new.latest:
                break  # Behind more jobs it would start no earlier.
        best, position = best_order(now, position, start, best, room, rows, new, rules)
    return best


@kernel
def best_order(
    now: float,
    position: int,
    start: float,
    best: Schedule,
    room: SearchRoom,
    rows: Rows,
    new: NewJob,
    rules: SlackRules,
) -> tuple[Schedule, int]:
    """Place the new job at a start, and those from a position on in the orders to try.

    Returns the cheapest of these schedules if it is cheaper than the best one so far, and
    the next position to try.
    """
    weights, count, is_null = rules.weights, len(rows), new.processors == 0
    trial, line = room.trial, room.line
    price = 0.0 if is_null else price_of_wait(start - now, new.processors, weights)
    if rules.heuristic == EXHAUSTIVE:
        for index in range(count):
            line[index] = index
    more = True
    while more:
        copy_profile(room.base, trial)
        copy_bounds(room.base_bounds, room.bounds)
        if not is_null:
            reserve(trial, start, new.estimate, new.processors)
        total, moved, following = place_delayed(
            now, position, price, best[3], best[4], trial, room.bounds, rows, line, weights
        )
        # A finite price wins or ties: the others were given up on the way.
        if total < np.inf:
            copy_profile(trial, room.best)
            for index in range(position, count):
                rows[index].best = rows[index].trial
            best = True, position, start, total, moved
        more = rules.heuristic == EXHAUSTIVE and next_permutation(line, position, count)
    return best, position + 1 if rules.heuristic == EXHAUSTIVE else following


@kernel
def adopt_from(position: int, rows: Rows, jobs: Jobs, waiting: Queue) -> None:
    """Give the waiting jobs from a position on their new starts, and restore the order."""
    for index in range(position, waiting.size[0]):
        jobs.numbers[STARTS, rows[index].slot] = rows[index].best
    sort_slots(waiting.slots, 0, waiting.size[0], jobs.numbers[STARTS])
