"""Steps that all admission algorithms share: is there time, ask a search, adopt its plan."""

from __future__ import annotations

import numpy as np

from qops_batsim.kernels import kernel
from qops_batsim.scheduling.admission.search import Draft, Room
from qops_batsim.scheduling.core.columns import ESTIMATES, TARGETS
from qops_batsim.scheduling.core.decision import NO_JOB, note_admission, note_moves_for, refuse
from qops_batsim.scheduling.core.plan import adopt, aim_again, nominal, reserve_running
from qops_batsim.scheduling.core.rows import BY_ADMISSION
from qops_batsim.scheduling.core.state import HAS_PROFILE, MACHINE, PRESENT, State
from qops_batsim.scheduling.profile import copy_profile
from qops_batsim.scheduling.refusal import RefusalKind
from qops_batsim.timing import DEADLINE_TOLERANCE

HOSTS_AWAY, NO_TIME = RefusalKind.HOSTS_AWAY.code, RefusalKind.NO_TIME.code
OWN_DEADLINE, OTHER_DEADLINE = RefusalKind.OWN_DEADLINE.code, RefusalKind.OTHER_DEADLINE.code

AT_POINT, AT_POSITIONS, AFTER_STEPS = 100, 200, 300
"""Added to the code of a missed deadline: where the search gave up.

The second number is an insertion point, of positions, or of steps back; the third how many waited.
"""


@kernel
def prepare_search(state: State, room: Room) -> None:
    """Hold late jobs to what is planned now, and write what the running jobs leave free."""
    now = nominal(state)
    aim_again(state.jobs, state.waiting)
    if state.counts[HAS_PROFILE] != 0 and room.free.times[0] == now:
        return
    reserve_running(state, room.free, now)
    state.counts[HAS_PROFILE] = 1


@kernel
def why_impossible(state: State, slot: int, now: float) -> int:
    """Return why a job could not end in time if nothing waited, 0 if it could."""
    jobs = state.jobs
    target = jobs.numbers[TARGETS, slot]
    if target < np.inf and jobs.processors[slot] > state.counts[PRESENT]:
        return HOSTS_AWAY
    return NO_TIME if jobs.numbers[ESTIMATES, slot] > target - now + DEADLINE_TOLERANCE else 0


@kernel
def impossible_numbers(state: State, slot: int, now: float, why: int) -> tuple[float, float, float]:
    """Return the numbers of the row of such a refusal."""
    if why == HOSTS_AWAY:
        machine = state.counts[MACHINE]
        return float(machine), float(machine - state.counts[PRESENT]), 0.0
    target = float(state.jobs.numbers[TARGETS, slot])
    return float(state.jobs.numbers[ESTIMATES, slot]), target - now, target


@kernel
def begin_search(state: State, room: Room, slot: int) -> bool:
    """Return whether a new job could end in time if nothing waited; if not, refuse it.

    If so, the room is prepared for a search.
    """
    now = nominal(state)
    why = why_impossible(state, slot, now)
    if why == 0:
        prepare_search(state, room)
        return True
    first, second, third = impossible_numbers(state, slot, now, why)
    refuse(state, slot, NO_JOB, why, first, second, third)
    return False


@kernel
def install(state: State, draft: Draft, jobs: int) -> None:
    """Make a draft, with so many jobs more, the plan. O(jobs + steps)."""
    count = state.waiting.size[0] + jobs
    adopt(draft.order, draft.starts, count, state.jobs, state.waiting, state.given)
    copy_profile(draft.profile, state.profile)


@kernel
def admit(state: State, draft: Draft, slot: int) -> None:
    """Take a new job into the plan, which is the draft from now on."""
    install(state, draft, 1)
    note_admission(state, slot, 0)
    note_moves_for(state, slot, BY_ADMISSION)


@kernel
def conclude(
    state: State, draft: Draft, slot: int, found: bool, blamed: int, where: int, place: int
) -> None:
    """Take a job into the plan that a search has found, or refuse it for the job that is blamed.

    The search gave up at a ``place`` of that kind: :data:`AT_POINT` or another.
    """
    if found:
        admit(state, draft, slot)
        return
    kind = OWN_DEADLINE if blamed == slot else OTHER_DEADLINE
    date, waiting = state.jobs.numbers[TARGETS, blamed], state.waiting.size[0]
    refuse(state, slot, blamed, kind + where, date, float(place), float(waiting))
