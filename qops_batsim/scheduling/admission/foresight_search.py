"""The search of QoPS with market: the headroom that it keeps, and what it refuses."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from qops_batsim.kernels import kernel
from qops_batsim.scheduling.admission.decision import (
    AT_POINT,
    begin_search,
    conclude,
)
from qops_batsim.scheduling.admission.market import (
    HOUR,
    Market,
    MarketTerms,
    count,
    displaced,
    headroom_of,
    is_new_hour,
    learn,
    measure_of,
    most_waste,
    new_market,
    set_prices,
    terms_of,
    worth_of,
)
from qops_batsim.scheduling.admission.options import ForesightOptions
from qops_batsim.scheduling.admission.qops_search import (
    QopsRules,
    leave_share,
    rules_of,
    try_points,
)
from qops_batsim.scheduling.admission.restarts import (
    MOST_VICTIMS,
    KillTerms,
    RestartRoom,
    kill_all,
    kill_terms,
    lost_work,
    may_be_killed,
    new_restart_room,
    next_victim,
)
from qops_batsim.scheduling.admission.search import FOUND, NO_PLAN, Question, Room, Verdict, missed
from qops_batsim.scheduling.arrays import Jobs, Queue
from qops_batsim.scheduling.core.columns import ESTIMATES, HEADROOM, STARTS, TARGETS
from qops_batsim.scheduling.core.decision import (
    NO_JOB,
    begin_decision,
    end_decision,
    next_question,
    refuse,
)
from qops_batsim.scheduling.core.plan import nominal
from qops_batsim.scheduling.core.state import State
from qops_batsim.scheduling.plan import Plan
from qops_batsim.scheduling.refusal import Refusal, RefusalKind
from qops_batsim.timing import DEADLINE_TOLERANCE


class ForesightRoom(NamedTuple):
    """Options of :class:`~.foresight.Foresight` for its kernels, and what they work in.

    Attributes
    ----------
    rules, terms, kills
        Options of the search, of the market, and about kills.
    market
        What was learned from the arrivals.
    restarts
        Room to plan killed jobs again.
    """

    rules: QopsRules
    terms: MarketTerms
    kills: KillTerms
    market: Market
    restarts: RestartRoom


def new_foresight_room(options: ForesightOptions, machine_size: int, jobs: int) -> ForesightRoom:
    """Return that nothing was learned, and room for plans of so many jobs."""
    return ForesightRoom(
        rules_of(options),
        terms_of(options),
        kill_terms(options),
        new_market(machine_size),
        new_restart_room(jobs),
    )


@kernel
def raise_headroom(now: float, jobs: Jobs, slot: int, market: Market, terms: MarketTerms) -> None:
    """Have no less left free beside a job than others are expected to need."""
    needed = headroom_of(now, jobs, slot, market, terms)
    jobs.numbers[HEADROOM, slot] = max(jobs.numbers[HEADROOM, slot], needed)


@kernel
def foresight_search(
    now: float, jobs: Jobs, waiting: Queue, new: int, foresight: ForesightRoom, room: Room
) -> tuple[bool, int, int, float, float]:
    """Look for a plan as QoPS, and judge it: O(steps) beside the search.

    Returns
    -------
    tuple
        What QoPS returns; where there is a plan that costs too much, no job is blamed. Then the
        worth of the jobs that the new one is expected to turn away, and its own.
    """
    estimate, processors = jobs.numbers[ESTIMATES, new], jobs.processors[new]
    left = jobs.numbers[TARGETS, new] - now
    rules, market, terms, draft = foresight.rules, foresight.market, foresight.terms, room.draft
    learn(now, processors, estimate, left, market, terms)
    leave_share(rules.headroom, room.free, jobs, waiting, new)
    raise_headroom(now, jobs, new, market, terms)
    for index in range(waiting.size[0]):
        raise_headroom(now, jobs, waiting.slots[index], market, terms)
    found, blamed, point = try_points(now, jobs, waiting, new, rules, room)
    # What has no deadline can wait for ever, and is not refused for what it costs.
    if not found or estimate == np.inf or left == np.inf:
        return found, blamed, point, 0.0, 0.0
    place = 0
    while draft.order[place] != new:
        place += 1
    cost = displaced(draft.profile, draft.starts[place], estimate, processors, market)
    worth = worth_of(measure_of(processors, estimate, left, terms), market, terms)
    if terms.admission_price * cost > worth:
        return False, NO_PLAN, point, cost, worth
    return True, new, point, cost, worth


class ForesightSearch:
    """The search of foresight with its options, and what it has learned."""

    def __init__(self, options: ForesightOptions, machine_size: int) -> None:
        self._room = new_foresight_room(options, machine_size, 0)

    def __call__(self, q: Question) -> Verdict:
        """Return whether there is a plan that is worth it, or what stood in the way."""
        found, blamed, point, cost, worth = foresight_search(
            q.now, q.jobs, q.waiting, q.new, self._room, q.room
        )
        if found:
            return FOUND
        if blamed == NO_PLAN:
            return Verdict(False, NO_PLAN, too_dear(cost, worth, self._room.terms.admission_price))
        return missed(q, blamed, insertion_point=int(point), waiting=int(q.waiting.size[0]))

    def decide(self, plan: Plan, room: Room) -> bool:
        """Decide about a message; False if the log needs more room."""
        return decide_foresight(plan.state, room, self._with_room(room))

    def take(self, plan: Plan, room: Room, slot: int) -> None:
        """Admit a new job or refuse it; the answer is in the log."""
        take_foresight(plan.state, room, self._with_room(room), slot)

    def _with_room(self, room: Room) -> ForesightRoom:
        """Return the arrays that the kernels work in, with room for all jobs."""
        jobs = len(room.draft.order)
        if len(self._room.restarts.line.slots) < jobs:
            self._room = self._room._replace(restarts=new_restart_room(jobs))
        return self._room

    def recall(self, past: Iterable[tuple[float, int, float, float]], now: float) -> None:
        """Know of earlier arrivals, as the search does that was asked about them: O(arrivals).

        They are dates, processors, estimates and targets; ``now`` is when it will be asked (all in
        seconds).
        """
        market, terms = self._room.market, self._room.terms
        for date, processors, estimate, target in past:
            left = target - date
            if estimate > left + DEADLINE_TOLERANCE:
                continue  # Refused without a search.
            # Only the prices of the last hour are of use.
            if is_new_hour(date, market, terms) and date // HOUR == now // HOUR:
                set_prices(market)
            count(processors, estimate, left, market, terms)


TOO_DEAR = RefusalKind.TOO_DEAR.code


def too_dear(cost: float, worth: float, price: float) -> Refusal:
    """Return that a job would turn away too many others."""
    return Refusal(kind=RefusalKind.TOO_DEAR, cost=cost, worth=worth, price=price)


MOST_TRIED = 40
"""No more running jobs are tried one by one."""

MOMENT = 1.0
"""A job that ends within so many seconds is not killed."""


@kernel
def restart_for(state: State, room: Room, foresight: ForesightRoom, slot: int, now: float) -> bool:
    """Take a new job into the plan by killing running ones, if that is worth it.

    Those that have used least are tried first, each by itself, as long as they have used no more
    than :func:`~.market.most_waste`; then several together.
    """
    rules, terms, kills, market, restarts = foresight
    numbers, processors = state.jobs.numbers, state.jobs.processors
    needed, estimate = processors[slot], numbers[ESTIMATES, slot]
    most = most_waste(needed, estimate, market, terms)
    free, tried = room.free.free[0], 0
    leave_share(rules.headroom, room.free, state.jobs, state.running, slot)
    for index in range(state.running.size[0]):
        raise_headroom(now, state.jobs, state.running.slots[index], market, terms)
    raise_headroom(now, state.jobs, slot, market, terms)
    victim = next_victim(state, kills, NO_JOB, now)
    while victim != NO_JOB and tried < MOST_TRIED and lost_work(state, victim, now) <= most:
        tried += 1
        if is_worth_killing(state, victim, now) and free + processors[victim] >= needed:
            restarts.victims.slots[0], restarts.victims.size[0] = victim, 1
            if kill_all(state, room, restarts, rules, slot):
                return True
        victim = next_victim(state, kills, victim, now)
    choose_several(state, kills, restarts.victims, needed - free, most, now)
    return restarts.victims.size[0] > 1 and kill_all(state, room, restarts, rules, slot)


@kernel
def is_worth_killing(state: State, slot: int, now: float) -> bool:
    """Tell whether a running job goes on for more than a moment."""
    numbers = state.jobs.numbers
    return bool(numbers[STARTS, slot] + numbers[ESTIMATES, slot] > now + MOMENT)


@kernel
def choose_several(
    state: State, kills: KillTerms, chosen: Queue, missing: int, most: float, now: float
) -> None:
    """Choose the youngest running jobs that have so many processors together.

    None if there are not enough that have used no more than ``most`` work together. Those without
    which the others are enough are given back, those that have used most first. O(running).
    """
    processors, starts, victims = state.jobs.processors, state.jobs.numbers[STARTS], chosen.slots
    chosen.size[0] = count = 0
    wasted = 0.0
    while missing > 0 and count < MOST_VICTIMS:
        best = NO_JOB
        for index in range(state.running.size[0]):
            each = state.running.slots[index]
            is_chosen = False
            for place in range(count):
                is_chosen = is_chosen or victims[place] == each
            if (
                not is_chosen
                and wasted + lost_work(state, each, now) <= most
                and may_be_killed(state, kills, each, now)
                and is_worth_killing(state, each, now)
                and (
                    best == NO_JOB
                    or starts[each] > starts[best]
                    or (starts[each] == starts[best] and each < best)
                )
            ):
                best = each
        if best == NO_JOB:
            return
        victims[count] = best
        count += 1
        missing -= processors[best]
        wasted += lost_work(state, best, now)
    if missing > 0:
        return
    for place in range(count - 1, -1, -1):
        if missing + processors[victims[place]] <= 0:
            missing += processors[victims[place]]
            count -= 1
            for later in range(place, count):
                victims[later] = victims[later + 1]
    chosen.size[0] = count


@kernel
def take_foresight(state: State, room: Room, foresight: ForesightRoom, slot: int) -> None:
    """Admit a new job or refuse it, as :class:`~.foresight.Foresight`."""
    if not begin_search(state, room, slot):
        return
    now = nominal(state)
    found, blamed, point, cost, worth = foresight_search(
        now, state.jobs, state.waiting, slot, foresight, room
    )
    if not found and blamed == NO_PLAN:
        refuse(state, slot, NO_JOB, TOO_DEAR, cost, worth, foresight.terms.admission_price)
        return
    if found or not foresight.kills.allowed or not restart_for(state, room, foresight, slot, now):
        conclude(state, room.draft, slot, found, blamed, AT_POINT, point)


@kernel
def decide_foresight(state: State, room: Room, foresight: ForesightRoom) -> bool:
    """Decide as :class:`~.foresight.Foresight`; False if the log needs more room."""
    begin_decision(state)
    slot = next_question(state)
    while slot != NO_JOB:
        take_foresight(state, room, foresight, slot)
        slot = next_question(state)
    return end_decision(state)
