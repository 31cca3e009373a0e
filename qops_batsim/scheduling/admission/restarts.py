"""Kill-and-restart: running jobs that give way to a new one, and run again.

They do so from scratch, or where their work was saved last (``qos.checkpoint``).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from qops_batsim.kernels import kernel
from qops_batsim.scheduling.admission.decision import install, prepare_search
from qops_batsim.scheduling.admission.options import ForesightOptions, FqopsOptions
from qops_batsim.scheduling.admission.qops_search import QopsRules, try_points
from qops_batsim.scheduling.admission.search import Room, meets
from qops_batsim.scheduling.arrays import Floats, Queue, new_queue
from qops_batsim.scheduling.core.columns import (
    CHECKPOINTED,
    CHECKPOINTS,
    ENDS,
    ESTIMATES,
    IS_DYING,
    IS_HELD,
    IS_KEPT,
    KILLS,
    LAGS,
    LIMITS,
    NOTED_ENDS,
    NOTED_STARTS,
    REQUESTED,
    SAVED_ENDS,
    SAVED_STARTS,
    STARTS,
    TARGETS,
)
from qops_batsim.scheduling.core.decision import NO_JOB, note_admission, note_moves_for
from qops_batsim.scheduling.core.plan import actual_start, nominal, reserve_number, sort_slots
from qops_batsim.scheduling.core.rows import BY_KILL, KILLED, append
from qops_batsim.scheduling.core.state import HAS_PROFILE, IS_FREED, KILLING, NOW, PRESENT, State
from qops_batsim.scheduling.profile import earliest_fit, on_grid
from qops_batsim.timing import DEADLINE_TOLERANCE, PLAN_TOLERANCE

MOST_VICTIMS = 8
"""No more jobs are killed for one."""


class KillTerms(NamedTuple):
    """Terms on which running jobs may be killed.

    Attributes
    ----------
    allowed
        Whether any.
    most_kills
        How often each at most, -1 for any number.
    youngest
        After how many seconds. Batsim breaks off if it is told to kill a job that has not really
        started yet, which takes moments on a platform with latencies.
    """

    allowed: bool
    most_kills: int
    youngest: float


def kill_terms(options: ForesightOptions | FqopsOptions) -> KillTerms:
    """Return the options for the kernels."""
    most = options.max_kills_per_job
    return KillTerms(
        options.kill_and_restart, -1 if most is None else most, float(options.kill_after)
    )


class RestartRoom(NamedTuple):
    """Room to plan killed jobs again.

    Attributes
    ----------
    line
        The waiting jobs, and those that are taken into the plan with a new one.
    victims, since, saved
        Running jobs that are to be killed, when they started, and how much of the run is saved
        (seconds).
    """

    line: Queue
    victims: Queue
    since: Floats
    saved: Floats


def new_restart_room(jobs: int) -> RestartRoom:
    """Return room for plans of so many jobs."""
    since, saved = np.zeros((2, MOST_VICTIMS))
    return RestartRoom(new_queue(jobs), new_queue(MOST_VICTIMS), since, saved)


@kernel
def saved_time(state: State, slot: int, now: float) -> float:
    """Return how much of its run a running job would not lose if it was killed (seconds)."""
    interval = state.jobs.numbers[CHECKPOINTS, slot]
    if interval == np.inf:
        return 0.0
    ran = on_grid(now - actual_start(state, slot))
    return float(on_grid(interval * np.floor(ran / interval)))


@kernel
def lost_work(state: State, slot: int, now: float) -> float:
    """Return the processor-seconds in the plan that a running job would lose if it was killed."""
    lost = now - state.jobs.numbers[STARTS, slot] - saved_time(state, slot, now)
    return float(state.jobs.processors[slot] * lost)


@kernel
def comes_before(state: State, slot: int, other: int, now: float) -> bool:
    """Return whether a running job is tried before another: by work lost, start, and arrival."""
    one, two = lost_work(state, slot, now), lost_work(state, other, now)
    if one != two:
        return bool(one < two)
    one, two = state.jobs.numbers[STARTS, slot], state.jobs.numbers[STARTS, other]
    return bool(one < two or (one == two and slot < other))


@kernel
def may_be_killed(state: State, terms: KillTerms, slot: int, now: float) -> bool:
    """Tell whether a running job might be killed, and end in time if it is restarted at once."""
    jobs, numbers = state.jobs, state.jobs.numbers
    start, estimate = numbers[STARTS, slot], numbers[ESTIMATES, slot]
    return bool(
        now - start >= terms.youngest - PLAN_TOLERANCE
        and now - actual_start(state, slot) >= terms.youngest - PLAN_TOLERANCE
        # To kill what is about to end, or should have ended, gains nothing.
        and start + estimate > now + PLAN_TOLERANCE
        and estimate < np.inf
        and jobs.processors[slot] <= state.counts[PRESENT]
        and now + estimate - saved_time(state, slot, now)
        <= numbers[TARGETS, slot] + DEADLINE_TOLERANCE
        and jobs.marks[IS_KEPT, slot] == 0
        and jobs.marks[IS_HELD, slot] == 0
        and jobs.marks[IS_DYING, slot] == 0
        and (terms.most_kills < 0 or jobs.marks[KILLS, slot] < terms.most_kills)
    )


@kernel
def next_victim(state: State, terms: KillTerms, last: int, now: float) -> int:
    """Return the running job that is tried after another one; the first without. O(running)."""
    victim = NO_JOB
    for index in range(state.running.size[0]):
        each = state.running.slots[index]
        is_next = last == NO_JOB or comes_before(state, last, each, now)
        is_first = victim == NO_JOB or comes_before(state, each, victim, now)
        if is_next and is_first and may_be_killed(state, terms, each, now):
            victim = each
    return int(victim)


@kernel
def kill_all(state: State, room: Room, restarts: RestartRoom, rules: QopsRules, slot: int) -> bool:
    """Kill the victims for a new job, if there is a plan for it and for their work.

    O(victims) searches; the headroom of all jobs is known.
    """
    numbers, (victims, count), now = state.jobs.numbers, restarts.victims, nominal(state)
    for index in range(count[0]):
        victim = victims[index]
        restarts.since[index] = actual_start(state, victim)
        saved = restarts.saved[index] = saved_time(state, victim, now)
        numbers[ESTIMATES, victim] = on_grid(numbers[ESTIMATES, victim] - saved)
        numbers[SAVED_ENDS, victim] = numbers[ENDS, victim]
        numbers[ENDS, victim] = now
    state.counts[HAS_PROFILE] = 0
    if plan_all(state, room, restarts, rules, slot):
        note_kills(state, slot, restarts)
        return True
    for index in range(count[0]):
        victim = victims[index]
        numbers[ENDS, victim] = numbers[SAVED_ENDS, victim]
        numbers[ESTIMATES, victim] = on_grid(numbers[ESTIMATES, victim] + restarts.saved[index])
    state.counts[HAS_PROFILE] = 0
    return False


@kernel
def plan_all(state: State, room: Room, restarts: RestartRoom, rules: QopsRules, slot: int) -> bool:
    """Plan a new job without the victims, and then their work again, one by one."""
    jobs, numbers, line, now = state.jobs, state.jobs.numbers, restarts.line, nominal(state)
    count = restarts.victims.size[0]
    prepare_search(state, room)
    estimate = numbers[ESTIMATES, slot]
    soonest = earliest_fit(room.free, now, estimate, jobs.processors[slot])
    if not meets(soonest, estimate, numbers[TARGETS, slot]):
        return False
    line.size[0] = state.waiting.size[0]
    for index in range(line.size[0]):
        each = line.slots[index] = state.waiting.slots[index]
        numbers[SAVED_STARTS, each] = numbers[STARTS, each]
    found = True
    for index in range(count + 1):
        new = slot if index == 0 else restarts.victims.slots[index - 1]
        found, _, _ = try_points(now, jobs, line, new, rules, room)
        if not found:
            break
        numbers[SAVED_STARTS, new] = numbers[STARTS, new]
        size = line.size[0] = line.size[0] + 1
        for place in range(size):
            each = line.slots[place] = room.draft.order[place]
            numbers[STARTS, each] = room.draft.starts[place]
        sort_slots(line.slots, 0, size, numbers[STARTS])
    for index in range(line.size[0]):
        each = line.slots[index]
        numbers[STARTS, each] = numbers[SAVED_STARTS, each]
    if found:
        install(state, room.draft, count + 1)
    return found


@kernel
def note_kills(state: State, slot: int, restarts: RestartRoom) -> None:
    """Have running jobs killed for a new one, which is in the plan, as is their work again.

    A killed job keeps its slot: its work waits in the plan from now on, but is held back before
    the engine has said that it is dead. Its processors count as free at once; jobs that are due
    there start when the engine has said that they are.
    """
    jobs, numbers = state.jobs, state.jobs.numbers
    # Jobs that keep their places may rest on the end that a victim would have had, at
    # which nothing happens any more: they are placed again when its end is told.
    state.counts[IS_FREED] = 1
    note_admission(state, slot, 0)
    for index in range(restarts.victims.size[0]):
        victim = restarts.victims.slots[index]
        state.lists[KILLING, state.sizes[KILLING]] = victim
        state.sizes[KILLING] += 1
        run = jobs.marks[KILLS, victim]
        jobs.marks[KILLS, victim] = run + 1
        jobs.marks[IS_DYING, victim] = jobs.marks[IS_HELD, victim] = 1
        numbers[LAGS, victim] = 0.0
        since, saved = restarts.since[index], restarts.saved[index]
        numbers[LIMITS, victim] -= saved
        numbers[REQUESTED, victim] = on_grid(numbers[REQUESTED, victim] - saved)
        numbers[CHECKPOINTED, victim] = saved
        reserve_number(jobs.reserved, victim, jobs.processors[victim])
        start = numbers[NOTED_STARTS, victim] = numbers[STARTS, victim]
        numbers[NOTED_ENDS, victim] = numbers[ENDS, victim]
        append(state.log, state.clock[NOW], KILLED, victim, slot, run, start, since, saved)
    note_moves_for(state, slot, BY_KILL)
