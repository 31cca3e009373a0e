"""Decisions of slack-based backfilling, as kernels (Talby and Feitelson 1999).

They work on the state of a plan whose promises are latest starts, and on what else slack-based
backfilling keeps. The latest start is settled once, with the first start; where early gains are
promises it moves up with each start that does (:func:`~.core.plan.promise_gains`).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from qops_batsim.kernels import kernel
from qops_batsim.scheduling.arrays import Floats, Ints
from qops_batsim.scheduling.core.columns import (
    ASSURED_STARTS,
    ENDS,
    ESTIMATES,
    FIRST_SLACKS,
    FIXED_STARTS,
    LATEST_STARTS,
    PRIORITIES,
    STARTS,
)
from qops_batsim.scheduling.core.decision import NO_JOB, end_decision, next_question, renew_plan
from qops_batsim.scheduling.core.plan import (
    compress_plan,
    insert_by_start,
    nominal,
    place_new,
    promise_gains,
    save_starts,
    settle,
)
from qops_batsim.scheduling.core.state import (
    IDLE,
    NOW,
    PHASE,
    PRESENT,
    STARTING,
    SUSPENSIONS,
    State,
)
from qops_batsim.scheduling.profile import copy_profile, on_grid, reserve
from qops_batsim.scheduling.slack.options import SlackOptions
from qops_batsim.scheduling.slack.orders import AST, EXHAUSTIVE, HEURISTICS
from qops_batsim.scheduling.slack.priority import (
    FIRST_SCHEDULER_PRIORITY,
    AverageWait,
    average_of,
    first_slack,
    learn,
    mean_priority,
    new_average_wait,
    scheduler_priority,
)
from qops_batsim.scheduling.slack.search import (
    NewJob,
    SearchRoom,
    SlackRules,
    adopt_from,
    cheapest_schedule,
    new_room,
)


class Requests(NamedTuple):
    """Requests of jobs beside what every plan knows, by slot.

    Attributes
    ----------
    priorities
        Sum of the user's and the site's priorities; minus infinity over quota.
    submissions
        Dates of submission (seconds).
    classes
        Classes of estimates for the average wait.
    ends_in_time
        Whether the walltime ends a job at its estimate at the latest.
    """

    priorities: Floats
    submissions: Floats
    classes: Ints
    ends_in_time: Ints


class Slacks(NamedTuple):
    """State of slack-based backfilling beside the plan.

    Attributes
    ----------
    rules
        How to search.
    slack_factor, exhaustive_up_to, only_compresses
        Options: of the first slack; the most waiting jobs of an exhaustive search; whether an early
        end leads to compression only.
    room
        Where the search works.
    requests
        What jobs bring along.
    average
        The average wait time.
    called_for
        The start for which a call was asked last (seconds).
    unsettled
        How many jobs had no start when they arrived, and have no latest one yet.
    """

    rules: SlackRules
    slack_factor: float
    exhaustive_up_to: int
    only_compresses: bool
    room: SearchRoom
    requests: Requests
    average: AverageWait
    called_for: Floats
    unsettled: Ints


def new_slacks(options: SlackOptions, requests: Requests, steps: int) -> Slacks:
    """Return what is kept for jobs with these requests, and profiles of so many steps."""
    weights = (
        options.utilization_weight,
        options.time_weight,
        options.priority_weight,
        options.fairness_weight,
    )
    heuristic, jobs = HEURISTICS[options.heuristic], len(requests.priorities)
    return Slacks(
        rules=SlackRules(np.array(weights, np.float64), heuristic, options.removal == "cheapest"),
        slack_factor=float(options.slack_factor),
        exhaustive_up_to=options.exhaustive_up_to,
        only_compresses=options.removal == "compression",
        room=new_room(steps, jobs),
        requests=requests,
        average=new_average_wait(options, jobs),
        called_for=np.array([-np.inf]),
        unsettled=np.zeros(1, np.int64),
    )


@kernel
def reschedule(
    state: State, slacks: Slacks, now: float, new: NewJob, fixed: int, most: float
) -> float:
    """Adopt the cheapest schedule with a new job, and reserve the job's processors.

    Returns
    -------
    float
        Start of the new job (seconds); infinite if its price is not below ``most``,
        and then nothing is changed.
    """
    rules, room, heuristic = slacks.rules, slacks.room, slacks.rules.heuristic
    if heuristic == EXHAUSTIVE and state.waiting.size[0] > slacks.exhaustive_up_to:
        heuristic = AST
    changed, position, start, price, _ = cheapest_schedule(
        now, state.counts[PRESENT], state.running, state.claims, state.jobs, state.waiting, fixed,
        new, SlackRules(rules.weights, heuristic, rules.compresses), state.profile, room,
    )  # fmt: skip
    if not price < most:
        return np.inf
    if changed:
        adopt_from(position, room.rows, state.jobs, state.waiting)
        state.given.dates[0], state.given.dates[1] = -np.inf, np.inf
        copy_profile(room.best, state.profile)
    elif new.processors > 0:
        reserve(state.profile, start, new.estimate, new.processors)
    return float(start)


@kernel
def due(state: State) -> int:
    """Return how many waiting jobs have to start now: they are as good as running."""
    starts, (slots, size) = state.jobs.numbers[STARTS], state.waiting
    count = 0
    while count < size[0] and starts[slots[count]] <= state.clock[NOW]:
        count += 1
    return count


@kernel
def compress(state: State, slacks: Slacks) -> None:
    """Use what an early end has left free: insert a null job (section 4.5)."""
    save_starts(state)
    now = nominal(state)
    if slacks.only_compresses:
        compress_plan(state, now)
    else:
        null = NewJob(np.int64(0), 0.0, 1.0, np.inf)  # type: ignore[arg-type]
        reschedule(state, slacks, now, null, due(state), np.inf)
    promise_gains(state)


@kernel
def insert(state: State, slacks: Slacks, slot: int) -> None:
    """Insert a new job at the least price (section 4.2)."""
    numbers, now = state.jobs.numbers, nominal(state)
    priority = mean_priority(slacks.requests.priorities[slot], FIRST_SCHEDULER_PRIORITY)
    if priority == -np.inf:
        # Over quota it may not disturb another job.
        place_new(state, slot)
    else:
        new = NewJob(state.jobs.processors[slot], numbers[ESTIMATES, slot], priority, np.inf)
        numbers[STARTS, slot] = reschedule(state, slacks, now, new, due(state), np.inf)
        insert_by_start(state.waiting, numbers[STARTS], slot)
    numbers[PRIORITIES, slot], numbers[LATEST_STARTS, slot] = priority, np.inf
    if numbers[STARTS, slot] == np.inf:
        # It waits behind a job without estimate: what has no end gives no start.
        numbers[FIRST_SLACKS, slot] = np.nan
        slacks.unsettled[0] += 1
    else:
        promise(state, slacks, slot, now)


@kernel
def promise(state: State, slacks: Slacks, slot: int, now: float) -> None:
    """Settle priority and slack of a job whose first start is known (section 4.3)."""
    numbers, requests = state.jobs.numbers, slacks.requests
    start = numbers[STARTS, slot]
    average = average_of(slacks.average, requests.classes[slot], now)
    priority = mean_priority(requests.priorities[slot], scheduler_priority(start - now, average))
    slack = first_slack(priority, slacks.slack_factor, average)
    numbers[PRIORITIES, slot], numbers[FIRST_SLACKS, slot] = priority, slack
    numbers[LATEST_STARTS, slot] = on_grid(start + slack)
    numbers[ASSURED_STARTS, slot] = min(numbers[ASSURED_STARTS, slot], start + slack)


@kernel
def promise_later(state: State, slacks: Slacks, slots: Ints) -> None:
    """Settle those of some jobs that had no start when they arrived, if they have one now."""
    numbers = state.jobs.numbers
    for slot in slots:
        if np.isnan(numbers[FIRST_SLACKS, slot]) and numbers[STARTS, slot] < np.inf:
            promise(state, slacks, slot, state.clock[NOW])
            slacks.unsettled[0] -= 1


@kernel
def begin_slack(state: State, slacks: Slacks) -> None:
    """Bring the plan up to date with what has ended, and what has not as it should."""
    if state.counts[PHASE] != IDLE:
        return  # It goes on, with more room.
    if renew_plan(state):
        compress(state, slacks)
    if state.counts[SUSPENSIONS] != 0:
        settle(state)


@kernel
def end_slack(state: State, slacks: Slacks) -> bool:
    """Start what is due, and learn from it; False if the log needs more room."""
    if not end_decision(state):
        return False
    started = state.lists[STARTING, : state.sizes[STARTING]]
    if slacks.unsettled[0] > 0:
        promise_later(state, slacks, state.waiting.slots[: state.waiting.size[0]])
        promise_later(state, slacks, started)
    now, requests, numbers = state.clock[NOW], slacks.requests, state.jobs.numbers
    for slot in started:
        if numbers[FIXED_STARTS, slot] < np.inf:
            continue  # Nobody had it wait.
        learn(slacks.average, requests.classes[slot], now - requests.submissions[slot], now)
    return True


@kernel
def decide_slack(state: State, slacks: Slacks) -> bool:
    """Decide about a message as :class:`~.scheduler.Slack`; False if the log needs more room."""
    begin_slack(state, slacks)
    slot = next_question(state)
    while slot != NO_JOB:
        insert(state, slacks, slot)
        slot = next_question(state)
    return end_slack(state, slacks)


@kernel
def call_for(state: State, slacks: Slacks) -> float:
    """Return a date (seconds) at which to be asked again, infinite if there is none.

    Compression that leaves a job where it is can leave it with a start at which no
    job ends any more, so that nothing would happen then. O(running).
    """
    slots, size = state.waiting
    if size[0] == 0:
        return np.inf
    start = state.jobs.numbers[STARTS, slots[0]]
    if start == slacks.called_for[0] or not state.clock[NOW] < start < np.inf:
        return np.inf
    ends, (running, count) = state.jobs.numbers[ENDS], state.running
    for index in range(count[0]):
        slot = running[index]
        if ends[slot] == start and slacks.requests.ends_in_time[slot] != 0:
            return np.inf
    slacks.called_for[0] = start
    return float(start)
