"""The search of QoPS (Islam et al. 2003, section 3, Figure 3)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from qops_batsim.kernels import kernel
from qops_batsim.scheduling.admission.decision import (
    AT_POINT,
    begin_search,
    conclude,
)
from qops_batsim.scheduling.admission.options import QopsOptions
from qops_batsim.scheduling.admission.search import (
    FOUND,
    KEPT,
    NO_PLAN,
    Draft,
    Question,
    Room,
    Verdict,
    keep_up_to,
    lift,
    line_up,
    meets,
    missed,
    set_keys,
)
from qops_batsim.scheduling.arrays import Jobs, Profile, Queue
from qops_batsim.scheduling.core.columns import ESTIMATES, HEADROOM, KEYS, TARGETS
from qops_batsim.scheduling.core.decision import NO_JOB, begin_decision, end_decision, next_question
from qops_batsim.scheduling.core.plan import nominal, sort_slots
from qops_batsim.scheduling.core.state import State
from qops_batsim.scheduling.plan import Plan
from qops_batsim.scheduling.profile import (
    Fit,
    copy_profile,
    earliest_fit,
    locate_earliest,
    reserve,
    reserve_fit,
)

FOREVER = 1e12
"""Price of a delay without end (seconds)."""

PRICE_TOLERANCE = 1e-9
"""Prices that differ by less than this part of them are equal."""


class QopsRules(NamedTuple):
    """The options of :class:`~qops_batsim.scheduling.admission.qops.Qops` for the kernel."""

    k_factor: int
    stop_at_first_failure: bool
    new_job_first: bool
    by_laxity: bool
    undo_all: bool
    undo_by_start: bool
    headroom: float
    insertion: int
    """:data:`FIRST`, or by what the plan is chosen."""


FIRST, LAST, BY_WORK, BY_RESPONSE, BY_SLACK = range(5)
"""Which insertion point gives the plan: the first, the last, or the cheapest with a plan."""

NO_POINT = -1
"""In place of an insertion point: there is none."""


SHORTEST_STRIDE = 16
"""Jobs that are placed from one profile that is kept to the next, at least."""

PATIENT = 60.0
"""A job with more laxity left than this (seconds) may wait for headroom."""

ROUNDING = 1e-9
"""So that 0.29 of 100 processors are 29."""


def rules_of(options: QopsOptions) -> QopsRules:
    """Return the options for the kernel."""
    return QopsRules(
        options.k_factor,
        options.on_failure == "reject",
        options.new_job == "first",
        options.order == "least_laxity",
        options.undo == "all",
        options.undo == "starting_later",
        options.headroom,
        _insertion_of(options),
    )


def _insertion_of(options: QopsOptions) -> int:
    if options.insertion == "best":
        return {"work": BY_WORK, "response": BY_RESPONSE, "slack": BY_SLACK}[options.best_by]
    return LAST if options.insertion == "last" else FIRST


@kernel
def sort_by_start(point: int, end: int, d: Draft) -> None:
    """Put jobs that are placed in the order of their starts, ties as they are. O(jobs²)."""
    for index in range(point + 1, end):
        slot, start, place = d.order[index], d.starts[index], index
        while place > point and d.starts[place - 1] > start:
            d.order[place], d.starts[place] = d.order[place - 1], d.starts[place - 1]
            place -= 1
        d.order[place], d.starts[place] = slot, start


@kernel
def leave_share(share: float, running: Profile, jobs: Jobs, waiting: Queue, new: int) -> None:
    """Have a share of the machine left free beside each job. O(waiting)."""
    # What is free in the end is the machine.
    room = np.floor(share * running.free[running.size[0] - 1] + ROUNDING)
    jobs.numbers[HEADROOM, new] = room
    for index in range(waiting.size[0]):
        jobs.numbers[HEADROOM, waiting.slots[index]] = room


@kernel
def fit_beside(now: float, profile: Profile, jobs: Jobs, slot: int) -> Fit:
    """Return the earliest fit of a job, with its headroom if it can wait for that. O(steps).

    The headroom of a wide job is what it leaves of the machine, if that is less.
    """
    duration, needed, target = (
        jobs.numbers[ESTIMATES, slot],
        jobs.processors[slot],
        jobs.numbers[TARGETS, slot],
    )
    room = min(jobs.numbers[HEADROOM, slot], profile.free[profile.size[0] - 1] - needed)
    if room > 0 and target - now - duration > PATIENT:
        fit = locate_earliest(profile, now, duration, needed + int(room))
        if fit[0] < np.inf and meets(fit[0], duration, target):
            return fit
    return locate_earliest(profile, now, duration, needed)


@kernel
def kept_profile(room: Room, number: int) -> Profile:
    """Return one of the profiles that a search can go back to."""
    times, free, size = room.kept
    return Profile(times[number], free[number], size[number : number + 1])


@kernel
def go_back(point: int, middle: int, stride: int, jobs: Jobs, room: Room) -> None:
    """Make the profile that of the jobs before ``middle``; one was kept after each ``stride``."""
    d, number = room.draft, (middle - point) // stride
    copy_profile(room.base if number == 0 else kept_profile(room, number - 1), d.profile)
    for index in range(point + number * stride, middle):
        slot = d.order[index]
        reserve(d.profile, d.starts[index], jobs.numbers[ESTIMATES, slot], jobs.processors[slot])


@kernel
def place_line(now: float, jobs: Jobs, point: int, end: int, rules: QopsRules, room: Room) -> int:
    """Place the jobs from a point on at their earliest fits, repairing up to K violations.

    Those that can wait are placed with headroom beside them (:func:`fit_beside`).

    A job that misses its target is critical: the later half of the jobs placed so far (as the
    rules have it) is taken out again, and the critical job placed before them. It ends the
    attempt if it is late even directly behind the kept ones.

    Returns
    -------
    int
        The slot of the job that was late, or ``NO_PLAN`` if all are placed.
    """
    d, placed, violations = room.draft, point, 0
    stride = max(SHORTEST_STRIDE, (end - point) // KEPT + 1)
    while placed < end:
        slot = d.order[placed]
        duration, needed, target = (
            jobs.numbers[ESTIMATES, slot],
            jobs.processors[slot],
            jobs.numbers[TARGETS, slot],
        )
        fit = fit_beside(now, d.profile, jobs, slot)
        if meets(fit[0], duration, target):
            reserve_fit(d.profile, fit, duration, needed)
            d.starts[placed] = fit[0]
            placed += 1
            if (placed - point) % stride == 0:
                copy_profile(d.profile, kept_profile(room, (placed - point) // stride - 1))
            continue
        violations += 1
        soonest = earliest_fit(room.base, now, duration, needed)
        if violations > rules.k_factor or not meets(soonest, duration, target):
            return int(slot)
        if rules.undo_by_start:
            sort_by_start(point, placed, d)
        middle = point if rules.undo_all else (point + placed) // 2
        # In another order than they were placed in, no profile that was kept is that of the first.
        go_back(point, middle, end if rules.undo_by_start else stride, jobs, room)
        lift(d.order, placed, middle)
        sort_slots(d.order, middle + 1, end, jobs.numbers[KEYS])
        placed = middle
    return NO_PLAN


@kernel
def qops_search(
    now: float, jobs: Jobs, waiting: Queue, new: int, rules: QopsRules, room: Room
) -> tuple[bool, int, int]:
    """Look for a plan, with the same headroom for all jobs; see :func:`try_points`."""
    leave_share(rules.headroom, room.free, jobs, waiting, new)
    return try_points(now, jobs, waiting, new, rules, room)


@kernel
def try_points(
    now: float, jobs: Jobs, waiting: Queue, new: int, rules: QopsRules, room: Room
) -> tuple[bool, int, int]:
    """Look for a plan in which every waiting job and the new one meets its target.

    For each insertion point 0, N/2, 3N/4, ... of the N waiting jobs, those before
    it keep their reservations, which the points share (in ``room.base``). The others and the
    new job are placed in heuristic order by :func:`place_line`. The plan of the first point
    that has one is taken, or that of the cheapest one.

    Returns
    -------
    tuple
        Whether there is a plan; if not, the slot of the job whose target stood in the
        way and the insertion point. O(log N × (N + K × N) × steps) and N² for sorting.
    """
    count = waiting.size[0]
    copy_profile(room.free, room.base)
    set_keys(jobs, waiting, new, rules.by_laxity)
    kept = point = 0
    chosen, cheapest = NO_POINT, np.inf
    while True:
        late = try_point(now, point, kept, jobs, waiting, new, rules, room)
        kept = point
        if late == NO_PLAN:
            if rules.insertion == FIRST:
                return True, new, point
            cost = cost_of(now, point, count + 1, jobs, rules, room.draft)
            if cost < cheapest - PRICE_TOLERANCE * abs(cost):
                chosen, cheapest = point, cost
        elif rules.stop_at_first_failure:
            return False, late, point
        following = point + (count - point) // 2
        if following == point:
            break
        point = following
    if chosen == NO_POINT:
        return False, late, point
    if chosen != point:
        copy_profile(room.free, room.base)
        try_point(now, chosen, 0, jobs, waiting, new, rules, room)
    return True, new, chosen


@kernel
def cost_of(now: float, point: int, count: int, jobs: Jobs, rules: QopsRules, d: Draft) -> float:
    """Return what the plan of an insertion point with so many jobs costs; of the last one least.

    A start later than any date counts as :data:`FOREVER`; what has no deadline has no slack
    that could be used up. O(jobs).
    """
    if rules.insertion == LAST:
        return -float(point)
    cost = 0.0
    for index in range(count):
        slot, start = d.order[index], d.starts[index]
        wait = min(start - now, FOREVER)
        if rules.insertion == BY_WORK:
            cost += wait * jobs.processors[slot]
        elif rules.insertion == BY_RESPONSE:
            cost += wait
        elif jobs.numbers[TARGETS, slot] < np.inf:
            slack = jobs.numbers[TARGETS, slot] - start - jobs.numbers[ESTIMATES, slot]
            cost -= np.log(max(slack, 0.0) + PATIENT)
    return cost


@kernel
def try_point(
    now: float,
    point: int,
    kept: int,
    jobs: Jobs,
    waiting: Queue,
    new: int,
    rules: QopsRules,
    room: Room,
) -> int:
    """Make a plan at an insertion point, where ``room.base`` has the jobs before ``kept``.

    Return the slot of the job that was late, or ``NO_PLAN`` if all are placed.
    """
    count, draft, base = waiting.size[0], room.draft, room.base
    keep_up_to(point, kept, base, jobs, waiting, draft)
    line_up(point, jobs, waiting, new, draft)
    if rules.new_job_first and point > 0:
        for index in range(point, count + 1):
            if draft.order[index] == new:
                lift(draft.order, index, point)
    copy_profile(base, draft.profile)
    return place_line(now, jobs, point, count + 1, rules, room)


class QopsSearch:
    """The search of QoPS with its options."""

    def __init__(self, options: QopsOptions) -> None:
        self._rules = rules_of(options)

    def __call__(self, q: Question) -> Verdict:
        """Return whether there is a plan, or which target stood in the way."""
        found, blamed, point = qops_search(q.now, q.jobs, q.waiting, q.new, self._rules, q.room)
        if found:
            return FOUND
        return missed(q, blamed, insertion_point=int(point), waiting=int(q.waiting.size[0]))

    def decide(self, plan: Plan, room: Room) -> bool:
        """Decide about a message; False if the log needs more room."""
        return decide_qops(plan.state, room, self._rules)


@kernel
def take_qops(state: State, room: Room, rules: QopsRules, slot: int) -> None:
    """Admit a new job or refuse it, as :class:`~qops_batsim.scheduling.admission.qops.Qops`."""
    now = nominal(state)
    if begin_search(state, room, slot):
        found, blamed, point = qops_search(now, state.jobs, state.waiting, slot, rules, room)
        conclude(state, room.draft, slot, found, blamed, AT_POINT, point)


@kernel
def decide_qops(state: State, room: Room, rules: QopsRules) -> bool:
    """Decide about a message as :class:`~.qops.Qops`; False if the log needs more room."""
    begin_decision(state)
    slot = next_question(state)
    while slot != NO_JOB:
        take_qops(state, room, rules, slot)
        slot = next_question(state)
    return end_decision(state)
