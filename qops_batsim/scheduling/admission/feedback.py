"""Feedback to users whose deadline cannot be kept (Islam et al. 2004, sections 6 to 8).

A job that QoPS refuses may have a running job killed for it; else a later deadline is offered.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from qops_batsim.kernels import kernel
from qops_batsim.limits import MAX_SECONDS
from qops_batsim.scheduling.admission.decision import (
    AT_POINT,
    OTHER_DEADLINE,
    OWN_DEADLINE,
    admit,
    impossible_numbers,
    install,
    prepare_search,
    why_impossible,
)
from qops_batsim.scheduling.admission.qops_search import QopsRules, leave_share, qops_search
from qops_batsim.scheduling.admission.restarts import (
    KillTerms,
    RestartRoom,
    kill_all,
    new_restart_room,
    next_victim,
)
from qops_batsim.scheduling.admission.search import Draft, Room, meets, new_draft
from qops_batsim.scheduling.arrays import Floats, Ints, Jobs, Queue
from qops_batsim.scheduling.core.columns import (
    ARRIVALS,
    DEADLINES,
    ESTIMATES,
    PROMISES,
    TARGETS,
    TOLERANCES,
)
from qops_batsim.scheduling.core.decision import (
    NO_JOB,
    begin_decision,
    end_decision,
    next_question,
    note_admission,
    note_moves_for,
    refuse,
)
from qops_batsim.scheduling.core.plan import nominal, place_new
from qops_batsim.scheduling.core.rows import BY_ADMISSION, OFFERED, REASON, append
from qops_batsim.scheduling.core.state import NOW, State
from qops_batsim.scheduling.profile import copy_profile, earliest_fit, end_of
from qops_batsim.scheduling.refusal import OfferOutcome

NOT_WORTH_MAKING, NO_DATE = OfferOutcome.NOT_WORTH_MAKING.code, OfferOutcome.NO_DATE.code
TOO_LATE, NOT_TAKEN = OfferOutcome.TOO_LATE.code, OfferOutcome.NOT_TAKEN.code
TAKEN = OfferOutcome.TAKEN.code


class OfferTerms(NamedTuple):
    """The options of :class:`~qops_batsim.scheduling.admission.fqops.Fqops` for its kernels.

    Attributes
    ----------
    slack_factor
        Artificial slack SF: what is offered is later than the earliest deadline by
        this factor, counted from the arrival.
    retries
        How often the interval of the earliest deadline is halved.
    kills
        Which running jobs may be killed.
    rules
        Options of the search.
    """

    slack_factor: float
    retries: int
    kills: KillTerms
    rules: QopsRules


class OfferRoom(NamedTuple):
    """Room that feedback works in, beside that of the search.

    Attributes
    ----------
    spare
        A draft for trials.
    restarts
        Room to plan killed jobs again.
    why, numbers
        Why the request was refused: blamed slot and code, and the numbers of the row.
    """

    spare: Draft
    restarts: RestartRoom
    why: Ints
    numbers: Floats


def new_offer_room(steps: int, jobs: int) -> OfferRoom:
    """Return room for plans of so many jobs and profiles of so many steps."""
    why = np.zeros(2, np.int64)
    return OfferRoom(new_draft(steps, jobs), new_restart_room(jobs), why, np.zeros(3))


# Offers


@kernel
def lag_of(jobs: Jobs, slot: int) -> float:
    """Return by how much a new job's target is later than its request (seconds).

    That is how late it was told, for it is judged as if it had been told at once.
    """
    return float(jobs.numbers[TARGETS, slot] - jobs.numbers[DEADLINES, slot])


@kernel
def promise(jobs: Jobs, slot: int, deadline: float, lag: float) -> None:
    """Let a new job, told so late, be planned with another deadline than it asked for (seconds)."""
    jobs.numbers[PROMISES, slot] = deadline
    jobs.numbers[TARGETS, slot] = deadline + lag


@kernel
def copy_draft(draft: Draft, to: Draft, jobs: int) -> None:
    """Make another draft of so many jobs the same."""
    copy_profile(draft.profile, to.profile)
    for index in range(jobs):
        to.order[index], to.starts[index] = draft.order[index], draft.starts[index]


@kernel
def planned_end(draft: Draft, slot: int, estimate: float) -> float:
    """Return the end of a job in a draft (seconds). O(jobs)."""
    place = 0
    while draft.order[place] != slot:
        place += 1
    return end_of(draft.starts[place], estimate)


@kernel
def earliest(
    now: float, jobs: Jobs, waiting: Queue, new: int, room: Room, spare: Draft, terms: OfferTerms
) -> tuple[bool, float, float]:
    """Look for the earliest deadline with which the search would take the new job (Figure 2).

    The job is planned without deadline first. Then the interval from its requested
    deadline to its end in that plan is halved so often: to the lower half if there is a
    plan with the deadline in the middle, else to the upper one. The deadline is infinite
    if the job would have to wait for one without estimate. If the plan without deadline
    already keeps the requested one, it is that.

    Returns
    -------
    tuple
        Whether there is a plan at all, which is the draft then; the latest deadline before the
        one found that was tried in vain, and the one found (seconds). O(retries) searches.
    """
    lag, count = lag_of(jobs, new), waiting.size[0] + 1
    estimate, requested = jobs.numbers[ESTIMATES, new], jobs.numbers[DEADLINES, new]
    best, trial, retries = room.draft, Room(room.free, spare, room.base, room.kept), terms.retries
    soonest = earliest_fit(room.free, now, estimate, jobs.processors[new])
    promise(jobs, new, np.inf, lag)
    found, _, _ = qops_search(now, jobs, waiting, new, terms.rules, room)
    low, high = requested, np.inf
    if found:
        high = max(planned_end(best, new, estimate) - lag, requested)
    while high < np.inf and high - low > 0.0 and retries > 0:
        middle = (low + high) / 2
        if not low < middle < high:
            break
        retries -= 1
        # Too early even with no other job waiting: no search could find a plan.
        works = meets(soonest, estimate, middle + lag)
        if works:
            promise(jobs, new, middle, lag)
            works, _, _ = qops_search(now, jobs, waiting, new, terms.rules, trial)
        if works:
            # The search bears an end that rounding to the grid made late: an offer does not.
            high = max(middle, planned_end(spare, new, estimate) - lag)
            copy_draft(spare, best, count)
        else:
            low = middle
    promise(jobs, new, requested, lag)
    return found, low, high


@kernel
def find_earliest(
    state: State, room: Room, offers: OfferRoom, terms: OfferTerms, slot: int
) -> float:
    """Return the earliest deadline that could be kept (seconds); its plan is the draft then."""
    now = nominal(state)
    prepare_search(state, room)
    _, _, found = earliest(now, state.jobs, state.waiting, slot, room, offers.spare, terms)
    return found


@kernel
def refuse_after_offer(
    state: State, offers: OfferRoom, slot: int, outcome: int, offered: float, factor: float,
    slack: float,
) -> None:  # fmt: skip
    """Refuse a job after what became of an offer."""
    append(state.log, state.clock[NOW], OFFERED, slot, NO_JOB, outcome, offered, factor, slack)
    numbers = offers.numbers
    refuse(state, slot, offers.why[0], offers.why[1], numbers[0], numbers[1], numbers[2])


@kernel
def propose(
    state: State, room: Room, offers: OfferRoom, terms: OfferTerms, slot: int
) -> tuple[bool, float, float]:
    """Decide about a new job as far as that can be done without asking its user.

    Returns
    -------
    tuple
        Whether the user is to be asked, the earliest deadline that could be kept, which the draft
        keeps, and the one to offer (seconds).
    """
    now, jobs = nominal(state), state.jobs
    why = why_impossible(state, slot, now)
    if why != 0:
        offers.why[0], offers.why[1] = NO_JOB, why
        first, second, third = impossible_numbers(state, slot, now, why)
    else:
        prepare_search(state, room)
        found, blamed, point = qops_search(now, jobs, state.waiting, slot, terms.rules, room)
        if found:
            admit(state, room.draft, slot)
            return False, 0.0, 0.0
        offers.why[0] = blamed
        offers.why[1] = AT_POINT + (OWN_DEADLINE if blamed == slot else OTHER_DEADLINE)
        first, second = jobs.numbers[TARGETS, blamed], float(point)
        third = float(state.waiting.size[0])
    offers.numbers[0], offers.numbers[1], offers.numbers[2] = first, second, third
    if jobs.numbers[TARGETS, slot] == np.inf:
        # Its earliest fit moves no other job, and is always possible.
        place_new(state, slot)
        note_admission(state, slot, 0)
        note_moves_for(state, slot, BY_ADMISSION)
        return False, 0.0, 0.0
    if terms.kills.allowed and why == 0 and kill_for(state, room, offers, terms, slot):
        return False, 0.0, 0.0
    factor, slack = jobs.numbers[TOLERANCES, slot], terms.slack_factor
    if factor < slack:
        refuse_after_offer(state, offers, slot, NOT_WORTH_MAKING, np.inf, factor, slack)
        return False, 0.0, 0.0
    soonest = find_earliest(state, room, offers, terms, slot)
    if soonest == np.inf:
        refuse_after_offer(state, offers, slot, NO_DATE, np.inf, 0.0, 1.0)
        return False, 0.0, 0.0
    if soonest <= jobs.numbers[DEADLINES, slot]:
        # The plan made for a job without deadline happens to keep the requested one.
        admit(state, room.draft, slot)
        return False, 0.0, 0.0
    arrival = jobs.numbers[ARRIVALS, slot]
    # Without artificial slack it is not rounded anew.
    offered = soonest if slack == 1.0 else arrival + slack * (soonest - arrival)
    if offered > MAX_SECONDS:
        refuse_after_offer(state, offers, slot, TOO_LATE, offered, 0.0, 1.0)
        return False, 0.0, 0.0
    return True, soonest, offered


@kernel
def settle_offer(
    state: State,
    room: Room,
    offers: OfferRoom,
    terms: OfferTerms,
    slot: int,
    soonest: float,
    offered: float,
    taken: bool,
) -> None:
    """Take a job into the plan with the deadline that it was offered, or refuse it."""
    if not taken:
        refuse_after_offer(state, offers, slot, NOT_TAKEN, offered, 0.0, 1.0)
        return
    jobs, now, lag = state.jobs, nominal(state), lag_of(state.jobs, slot)
    found = False
    if offered > soonest:
        promise(jobs, slot, offered, lag)
        prepare_search(state, room)
        found, _, _ = qops_search(now, jobs, state.waiting, slot, terms.rules, room)
        if not found:
            # The search overlooks plans: the one found for the earlier deadline is good as well.
            promise(jobs, slot, jobs.numbers[DEADLINES, slot], lag)
            find_earliest(state, room, offers, terms, slot)
    promise(jobs, slot, offered, lag)
    install(state, room.draft, 1)
    log, date = state.log, state.clock[NOW]
    append(log, date, OFFERED, slot, NO_JOB, TAKEN, offered, 0.0, 1.0)
    blamed, code, numbers = offers.why[0], offers.why[1], offers.numbers
    append(log, date, REASON, slot, blamed, code, numbers[0], numbers[1], numbers[2])
    note_admission(state, slot, 1)
    note_moves_for(state, slot, BY_ADMISSION)


@kernel
def take_fqops(state: State, room: Room, offers: OfferRoom, terms: OfferTerms, slot: int) -> None:
    """Admit a new job or refuse it, as :class:`~qops_batsim.scheduling.admission.fqops.Fqops`.

    Its user has a tolerance factor (section 6).
    """
    asks, soonest, offered = propose(state, room, offers, terms, slot)
    if asks:
        numbers = state.jobs.numbers
        arrival, requested = numbers[ARRIVALS, slot], numbers[DEADLINES, slot]
        taken = offered - arrival <= numbers[TOLERANCES, slot] * (requested - arrival)
        settle_offer(state, room, offers, terms, slot, soonest, offered, taken)


@kernel
def decide_fqops(state: State, room: Room, offers: OfferRoom, terms: OfferTerms) -> bool:
    """Decide about a message as :class:`~.fqops.Fqops`; False if the log needs more room."""
    begin_decision(state)
    slot = next_question(state)
    while slot != NO_JOB:
        take_fqops(state, room, offers, terms, slot)
        slot = next_question(state)
    return end_decision(state)


@kernel
def kill_for(
    state: State,
    room: Room,
    offers: OfferRoom,
    terms: OfferTerms,
    slot: int,
) -> bool:
    """Take a new job into the plan by killing a running one, if that will do (section 8).

    Running jobs are tried in the order of the processor-seconds that they have used: if the new
    job can be admitted without one of them, and that one, run again from scratch, still ends in
    time, it is killed. O(running) pairs of searches.
    """
    now, restarts = nominal(state), offers.restarts
    # The search has given the waiting jobs and the new one their headroom.
    leave_share(terms.rules.headroom, room.free, state.jobs, state.running, slot)
    victim = next_victim(state, terms.kills, NO_JOB, now)
    while victim != NO_JOB:
        restarts.victims.slots[0], restarts.victims.size[0] = victim, 1
        if kill_all(state, room, restarts, terms.rules, slot):
            return True
        victim = next_victim(state, terms.kills, victim, now)
    return False
