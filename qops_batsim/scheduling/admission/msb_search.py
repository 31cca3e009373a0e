"""The search of the modified slack-based algorithm (Islam et al. 2003, Figure 1)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from qops_batsim.kernels import kernel
from qops_batsim.scheduling.admission.decision import (
    AT_POSITIONS,
    begin_search,
    conclude,
)
from qops_batsim.scheduling.admission.options import MsbOptions
from qops_batsim.scheduling.admission.search import (
    FOUND,
    Draft,
    Question,
    Room,
    Verdict,
    keep_up_to,
    lift,
    meets,
    missed,
    new_draft,
    set_keys,
)
from qops_batsim.scheduling.arrays import Floats, Ints, Jobs, Profile, Queue
from qops_batsim.scheduling.core.columns import ESTIMATES, KEYS, PROMISES, STARTS, TARGETS
from qops_batsim.scheduling.core.decision import NO_JOB, begin_decision, end_decision, next_question
from qops_batsim.scheduling.core.plan import nominal, sort_slots
from qops_batsim.scheduling.core.state import State
from qops_batsim.scheduling.plan import Plan
from qops_batsim.scheduling.profile import copy_profile, earliest_fit, locate_earliest, reserve_fit
from qops_batsim.scheduling.table import SlotTable

LEAST_SLACK = 1.0
"""Slack that counts at least (seconds)."""

FOREVER = 1e12
"""Price of a delay without end (seconds): more than any date, and sums stay precise."""


class Prices(NamedTuple):
    """Prices of moves, and the order in which waiting jobs are placed anew.

    Attributes
    ----------
    by_start
        Whether the order is that of their planned starts.
    by_laxity
        If not, whether it is by deadline minus estimate, or by deadline.
    only_delays
        Whether moves to the front cost nothing, rather than less than that.
    fair
        Whether a move costs the more, the less is left of a job's slack.
    arrivals
        Dates of submission by slot, if so (seconds).
    rates
        Price of a second by slot, of the waiting jobs and the new one.
    gains
        What each waiting job costs at least, by slot.
    least
        What the jobs behind each index of the order cost at least.
    trial
        The schedule of a position.
    """

    by_start: bool
    by_laxity: bool
    only_delays: bool
    fair: bool
    arrivals: Floats
    rates: Floats
    gains: Floats
    least: Floats
    trial: Draft


def new_prices(options: MsbOptions, arrivals: Floats, slots: int, jobs: int, steps: int) -> Prices:
    """Return prices with room for so many slots, and plans of so many jobs and steps."""
    return Prices(
        options.order == "scheduled_start",
        options.order == "least_laxity",
        options.price == "delays",
        options.fairness,
        arrivals,
        np.zeros(slots),
        np.zeros(slots),
        np.zeros(jobs),
        new_draft(steps, jobs),
    )


@kernel
def rate_of(jobs: Jobs, slot: int, fair: bool, arrivals: Floats) -> float:
    """Return the price of a second by which a waiting job is moved.

    These are its processors, times its slack (deadline - arrival - run time) over what is left
    of it.
    """
    rate, promise, estimate = (
        float(jobs.processors[slot]),
        jobs.numbers[PROMISES, slot],
        jobs.numbers[ESTIMATES, slot],
    )
    if fair and promise < np.inf:
        rate *= max(promise - arrivals[slot] - estimate, LEAST_SLACK)
        rate /= max(promise - jobs.numbers[STARTS, slot] - estimate, LEAST_SLACK)
    return rate


@kernel
def price_of(delay: float, rate: float, only_delays: bool) -> float:
    """Return what it costs that a job starts ``delay`` seconds later than planned.

    A job without estimate ahead of others may leave them without any start: an
    infinite delay, which counts as :data:`FOREVER`. A job that had none before and
    has none now (the delay is no number) costs nothing.
    """
    if np.isnan(delay) or (only_delays and delay < 0.0):
        return 0.0
    return max(-FOREVER, min(delay, FOREVER)) * rate


@kernel
def line_up_behind(jobs: Jobs, waiting: Queue, new: int, prices: Prices) -> None:
    """Put the new job before all waiting ones, and these in their order. O(waiting²)."""
    order, count = prices.trial.order, waiting.size[0]
    order[0] = new
    for index in range(count):
        order[index + 1] = waiting.slots[index]
    if not prices.by_start:
        set_keys(jobs, waiting, new, prices.by_laxity)
        sort_slots(order, 1, count + 1, jobs.numbers[KEYS])


@kernel
def bound_prices(now: float, base: Profile, jobs: Jobs, waiting: Queue, prices: Prices) -> None:
    """Write the rates of the waiting jobs, and what each costs at least.

    None of them can start earlier than with the running jobs alone, so positions that
    cannot win stop early. O(waiting × steps).
    """
    for index in range(waiting.size[0]):
        slot = waiting.slots[index]
        soonest = earliest_fit(base, now, jobs.numbers[ESTIMATES, slot], jobs.processors[slot])
        prices.rates[slot] = rate_of(jobs, slot, prices.fair, prices.arrivals)
        delay = soonest - jobs.numbers[STARTS, slot]
        prices.gains[slot] = price_of(delay, prices.rates[slot], prices.only_delays)


@kernel
def bound_behind(position: int, count: int, prices: Prices) -> None:
    """Write what the jobs behind each index from a position on cost at least. O(waiting)."""
    prices.least[count] = 0.0
    for index in range(count - 1, position - 1, -1):
        prices.least[index] = prices.least[index + 1] + prices.gains[prices.trial.order[index + 1]]


@kernel
def advance(position: int, waiting: Queue, order: Ints) -> None:
    """Have the waiting job with the next planned start come before the new one. O(waiting)."""
    place = position + 1
    while order[place] != waiting.slots[position]:
        place += 1
    lift(order, place, position)


@kernel
def price_position(
    now: float,
    position: int,
    jobs: Jobs,
    count: int,
    new: int,
    prices: Prices,
    cheapest: float,
) -> tuple[float, int]:
    """Place the new job, which is at a position, and those behind it; return the price.

    The price is infinite if a target is missed, or if it is not below the cheapest one so
    far. Returned with it is the next position that can give another schedule: as long as
    jobs that stay in their order keep their starts beside the new one, it may as well come
    after them. O(waiting × steps).
    """
    price, following, trial = 0.0, position + 1, prices.trial
    for index in range(position, count + 1):
        slot = trial.order[index]
        duration, needed = jobs.numbers[ESTIMATES, slot], jobs.processors[slot]
        fit = locate_earliest(trial.profile, now, duration, needed)
        start = fit[0]
        if not meets(start, duration, jobs.numbers[TARGETS, slot]):
            # Behind more jobs that stay the new one would start no earlier.
            return np.inf, following if index > position else count + 1
        trial.starts[index] = start
        if prices.by_start and index == following and start == jobs.numbers[STARTS, slot]:
            following += 1
        since = now if slot == new else jobs.numbers[STARTS, slot]
        price += price_of(start - since, prices.rates[slot], prices.only_delays)
        if price + prices.least[index] >= cheapest:
            return np.inf, following
        reserve_fit(trial.profile, fit, duration, needed)
    return price, following


@kernel
def msb_search(
    now: float, jobs: Jobs, waiting: Queue, new: int, prices: Prices, room: Room
) -> bool:
    """Look for the cheapest position of the new job among the waiting ones; tell if there is one.

    At each position, the jobs that start before it keep their reservations (in ``room.base``);
    the new job and then the others, in their order, are placed at their earliest fits. A
    missed target rules the position out. The price is the sum of delay × rate over the
    moved jobs and the new one. Positions that give the same schedule are tried once.
    O(waiting² × steps).
    """
    count, draft, base, trial = waiting.size[0], room.draft, room.base, prices.trial
    copy_profile(room.free, base)
    bound_prices(now, base, jobs, waiting, prices)
    prices.rates[new] = jobs.processors[new]
    line_up_behind(jobs, waiting, new, prices)
    bound_behind(0, count, prices)
    cheapest = np.inf
    position = following = 0
    while following <= count:
        while position < following:
            advance(position, waiting, trial.order)
            keep_up_to(position + 1, position, base, jobs, waiting, trial)
            position += 1
        if not prices.by_start:
            bound_behind(position, count, prices)
        copy_profile(base, trial.profile)
        price, following = price_position(now, position, jobs, count, new, prices, cheapest)
        if price < cheapest:
            cheapest = price
            copy_profile(trial.profile, draft.profile)
            for index in range(count + 1):
                draft.order[index] = trial.order[index]
                draft.starts[index] = trial.starts[index]
    return cheapest < np.inf


class MsbSearch:
    """The search of MSB with its options."""

    def __init__(self, options: MsbOptions) -> None:
        self._options = options
        self._prices = new_prices(options, np.zeros(0), 0, 0, 1)
        self._arrived = 0

    def __call__(self, q: Question) -> Verdict:
        """Return whether there is a plan, or which target stood in the way."""
        prices = self._prices_of(q.table, q.jobs, q.room)
        if msb_search(q.now, q.jobs, q.waiting, q.new, prices, q.room):
            return FOUND
        # At the last position no waiting job stands in the way.
        return missed(q, q.new, positions=int(q.waiting.size[0]) + 1)

    def decide(self, plan: Plan, room: Room) -> bool:
        """Decide about a message; False if the log needs more room."""
        return decide_msb(plan.state, room, self._prices_of(plan.table, plan.jobs, room))

    def _prices_of(self, table: SlotTable, numbers: Jobs, room: Room) -> Prices:
        """Return the prices, with room for a plan and the arrivals of all jobs."""
        jobs, slots, steps = len(room.draft.order), len(numbers.processors), len(room.base.times)
        old = self._prices
        has_room = len(old.least) >= jobs and len(old.rates) >= slots
        if not has_room or len(old.trial.profile.times) < steps:
            arrivals = np.zeros(slots)
            arrivals[: self._arrived] = old.arrivals[: self._arrived]
            self._prices = new_prices(self._options, arrivals, slots, jobs, steps)
        if self._options.fairness:
            arrived = [job.submission_time for job in table.jobs[self._arrived :]]
            self._prices.arrivals[self._arrived : len(table.jobs)] = arrived
            self._arrived = len(table.jobs)
        return self._prices


@kernel
def take_msb(state: State, room: Room, prices: Prices, slot: int) -> None:
    """Admit a new job or refuse it, as :class:`~qops_batsim.scheduling.admission.msb.Msb`."""
    now = nominal(state)
    if begin_search(state, room, slot):
        found = msb_search(now, state.jobs, state.waiting, slot, prices, room)
        # At the last position no waiting job stands in the way.
        conclude(state, room.draft, slot, found, slot, AT_POSITIONS, state.waiting.size[0] + 1)


@kernel
def decide_msb(state: State, room: Room, prices: Prices) -> bool:
    """Decide about a message as :class:`~.msb.Msb`; False if the log needs more room."""
    begin_decision(state)
    slot = next_question(state)
    while slot != NO_JOB:
        take_msb(state, room, prices, slot)
        slot = next_question(state)
    return end_decision(state)
