"""The search of the modified real-time algorithm (Islam et al. 2003, Figure 2)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from qops_batsim.kernels import kernel
from qops_batsim.scheduling.admission.decision import (
    AFTER_STEPS,
    begin_search,
    conclude,
)
from qops_batsim.scheduling.admission.options import MrtOptions
from qops_batsim.scheduling.admission.search import (
    FOUND,
    NO_PLAN,
    Draft,
    Question,
    Room,
    Verdict,
    lift,
    line_up,
    meets,
    missed,
    set_keys,
)
from qops_batsim.scheduling.arrays import Floats, Ints, Jobs, Profile, Queue
from qops_batsim.scheduling.core.columns import ESTIMATES, KEYS, TARGETS
from qops_batsim.scheduling.core.decision import NO_JOB, begin_decision, end_decision, next_question
from qops_batsim.scheduling.core.plan import nominal, sort_slots
from qops_batsim.scheduling.core.state import State
from qops_batsim.scheduling.plan import Plan
from qops_batsim.scheduling.profile import (
    copy_profile,
    earliest_fit,
    end_of,
    locate_earliest,
    lowest_free,
    release,
    reserve_fit,
)


class Notes(NamedTuple):
    """Options of the search, and its notes.

    Attributes
    ----------
    by_laxity, max_backtracks
        Whether jobs are placed by deadline minus estimate, or by deadline; how often it goes back.
    starts, ends
        By slot: a time at which each unscheduled job fits and is not late.
    spare
        By slot: at least so many processors more than it needs are free then.
    tried
        By place of the plan: how many candidates were tried there.
    """

    by_laxity: bool
    max_backtracks: int
    starts: Floats
    ends: Floats
    spare: Ints
    tried: Ints


def new_notes(options: MrtOptions, slots: int, jobs: int) -> Notes:
    """Return notes for so many slots, and for plans of so many jobs."""
    starts, ends = np.zeros((2, slots))
    return Notes(
        options.order == "least_laxity",
        options.max_backtracks,
        starts,
        ends,
        np.zeros(slots, np.int64),
        np.zeros(jobs + 1, np.int64),
    )


@kernel
def find_time(now: float, profile: Profile, jobs: Jobs, slot: int, room: Notes) -> bool:
    """Find a time at which a job fits and is not late; tell if there is one. O(steps).

    The latest is looked at first: reservations to come will reach it last.
    """
    duration, needed, target = (
        jobs.numbers[ESTIMATES, slot],
        jobs.processors[slot],
        jobs.numbers[TARGETS, slot],
    )
    if target == np.inf:
        room.starts[slot] = room.ends[slot] = np.inf
        return True
    start, spare = target - duration, -1
    if now <= start and meets(start, duration, target):
        spare = lowest_free(profile, start, end_of(start, duration)) - needed
    if spare < 0:
        start = earliest_fit(profile, now, duration, needed)
        if not meets(start, duration, target):
            return False
        spare = lowest_free(profile, start, end_of(start, duration)) - needed
    room.starts[slot], room.ends[slot], room.spare[slot] = start, end_of(start, duration), spare
    return True


@kernel
def late_one(
    now: float,
    profile: Profile,
    line: Ints,
    start: float,
    end: float,
    taken: int,
    jobs: Jobs,
    room: Notes,
) -> int:
    """Return an unscheduled job that would be late even alone, or ``NO_PLAN``.

    The newest reservation has ``taken`` processors from ``start`` to ``end``. Where it takes
    more than was to spare, another time is sought. O(jobs × steps), as good as always O(jobs).
    """
    for slot in line:
        if room.ends[slot] <= start or room.starts[slot] >= end:
            continue
        room.spare[slot] -= taken
        if room.spare[slot] < 0 and not find_time(now, profile, jobs, slot, room):
            return int(slot)
    return NO_PLAN


@kernel
def extend(now: float, jobs: Jobs, draft: Draft, depth: int, place: int, room: Notes) -> int:
    """Extend the partial schedule by the candidate at a place, if it stays strongly feasible.

    The candidate meets its target, and so would every unscheduled job if it were next.
    Returns the slot of the job that would be late, or ``NO_PLAN`` if it was extended.
    """
    order, total = draft.order, len(draft.order)
    slot = order[place]
    duration, needed = jobs.numbers[ESTIMATES, slot], jobs.processors[slot]
    fit = locate_earliest(draft.profile, now, duration, needed)
    start = fit[0]
    if not meets(start, duration, jobs.numbers[TARGETS, slot]):
        return int(slot)
    reserve_fit(draft.profile, fit, duration, needed)
    lift(order, place, depth)
    end = end_of(start, duration)
    late = late_one(now, draft.profile, order[depth + 1 :], start, end, needed, jobs, room)
    if late == NO_PLAN:
        draft.starts[depth] = start
        return NO_PLAN
    release(draft.profile, start, duration, needed)
    sort_slots(order, depth, total, jobs.numbers[KEYS])
    return late


@kernel
def mrt_search(
    now: float, jobs: Jobs, waiting: Queue, new: int, notes: Notes, room: Room
) -> tuple[bool, int, int]:
    """Look for a plan by extending a partial schedule in heuristic order.

    A partial schedule is extended by its first candidate that leaves it strongly
    feasible. Where a candidate does not, or none is left, the search goes back to the
    previous partial schedule and its next candidate, as often as it may.
    Returns whether there is a plan, else the slot of the job whose target stood in the
    way, and the backtracks. O((jobs + backtracks) × jobs × steps).
    """
    total = waiting.size[0] + 1
    draft = Draft(room.draft.profile, room.draft.order[:total], room.draft.starts)
    order, tried = draft.order, notes.tried
    set_keys(jobs, waiting, new, notes.by_laxity)
    line_up(0, jobs, waiting, new, draft)
    copy_profile(room.free, draft.profile)
    for slot in order:
        notes.starts[slot], notes.ends[slot], notes.spare[slot] = now, np.inf, 0
    # As if all processors had just been taken.
    late = late_one(now, draft.profile, order, now, np.inf, 1, jobs, notes)
    if late != NO_PLAN:
        return False, late, 0
    depth = backtracks = 0
    tried[0] = 0
    while depth < total:
        # Candidates stand in heuristic order from this place on; the first ones were tried.
        place = depth + tried[depth]
        if place < total:
            tried[depth] += 1
            slot = extend(now, jobs, draft, depth, place, notes)
            if slot == NO_PLAN:
                depth += 1
                tried[depth] = 0
                continue
            late = slot
        elif depth == 0:
            return False, late, backtracks
        else:
            # The last step is given up as well, as nothing can follow it.
            depth -= 1
            slot = order[depth]
            release(
                draft.profile,
                draft.starts[depth],
                jobs.numbers[ESTIMATES, slot],
                jobs.processors[slot],
            )
            sort_slots(order, depth, total, jobs.numbers[KEYS])
        backtracks += 1
        if backtracks > notes.max_backtracks:
            return False, late, backtracks
    return True, new, backtracks


class MrtSearch:
    """The search of MRT with its options."""

    def __init__(self, options: MrtOptions) -> None:
        self._options, self._notes = options, new_notes(options, 0, 0)

    def __call__(self, q: Question) -> Verdict:
        """Return whether there is a plan, or which target stood in the way."""
        notes = self._notes_for(q.jobs, q.room)
        found, blamed, backtracks = mrt_search(q.now, q.jobs, q.waiting, q.new, notes, q.room)
        if found:
            return FOUND
        return missed(q, blamed, steps_back=int(backtracks))

    def decide(self, plan: Plan, room: Room) -> bool:
        """Decide about a message; False if the log needs more room."""
        return decide_mrt(plan.state, room, self._notes_for(plan.jobs, room))

    def _notes_for(self, numbers: Jobs, room: Room) -> Notes:
        """Return the notes, with room for a plan of all jobs."""
        slots, jobs = len(numbers.processors), len(room.draft.order)
        if len(self._notes.starts) < slots or len(self._notes.tried) <= jobs:
            self._notes = new_notes(self._options, slots, jobs)
        return self._notes


@kernel
def take_mrt(state: State, room: Room, notes: Notes, slot: int) -> None:
    """Admit a new job or refuse it, as :class:`~qops_batsim.scheduling.admission.mrt.Mrt`."""
    now = nominal(state)
    if begin_search(state, room, slot):
        found, blamed, steps = mrt_search(now, state.jobs, state.waiting, slot, notes, room)
        conclude(state, room.draft, slot, found, blamed, AFTER_STEPS, steps)


@kernel
def decide_mrt(state: State, room: Room, notes: Notes) -> bool:
    """Decide about a message as :class:`~.mrt.Mrt`; False if the log needs more room."""
    begin_decision(state)
    slot = next_question(state)
    while slot != NO_JOB:
        take_mrt(state, room, notes, slot)
        slot = next_question(state)
    return end_decision(state)
