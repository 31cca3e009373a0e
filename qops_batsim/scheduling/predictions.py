"""Run times predicted from what users' last jobs took (Tsafrir, Etsion, Feitelson 2007).

1. A job is expected to run as long as the last two jobs of its user that have ended did in the
   mean, but no longer than its estimate; as long as that if fewer than two have ended, or it names
   no user. This is settled when it arrives.
2. A running job that has outlived its prediction is expected to run as long as its estimate.

D. Tsafrir, Y. Etsion, D. G. Feitelson, "Backfilling using system-generated predictions rather than
user runtime estimates", IEEE Transactions on Parallel and Distributed Systems 18 (2007).
"""

from __future__ import annotations

import numpy as np

from qops_batsim.kernels import kernel
from qops_batsim.scheduling.arrays import Floats, Jobs
from qops_batsim.scheduling.core.columns import (
    ESTIMATES,
    FIXED_STARTS,
    IS_DYING,
    REQUESTED,
    USERS,
)
from qops_batsim.scheduling.core.plan import actual_start
from qops_batsim.scheduling.core.state import DECIDED, GONE, IDLE, KNOWN, NOW, PHASE, UNDONE, State
from qops_batsim.scheduling.profile import up_to_grid
from qops_batsim.timing import SHORTEST

NO_USER = -1
"""In place of the number of a user."""


def new_past(users: int) -> Floats:
    """Return that no job of so many users has ended: run times of the last two (seconds)."""
    return np.full((users, 2), np.nan)


class Users:
    """Numbers of users by name, in the order in which their first jobs arrive."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def number(self, user: str | None) -> int:
        """Return the number of a user. O(1)."""
        if user is None:
            return NO_USER
        return self._numbers.setdefault(user, len(self._numbers))

    def with_room(self, past: Floats) -> Floats:
        """Return a past with room for all users: the same, or one of twice the size."""
        if len(self._numbers) < len(past):
            return past
        return np.concatenate([past, new_past(len(past))])


@kernel
def note_run_time(jobs: Jobs, past: Floats, slot: int, seconds: float) -> None:
    """Know that a job has ended after so many seconds."""
    user = jobs.marks[USERS, slot]
    if user != NO_USER:
        past[user, 1] = past[user, 0]
        past[user, 0] = seconds


@kernel
def predict(jobs: Jobs, past: Floats, slot: int) -> None:
    """Expect a new job to run as long as its user's last ones."""
    user, requested = jobs.marks[USERS, slot], jobs.numbers[ESTIMATES, slot]
    jobs.numbers[REQUESTED, slot] = requested
    # A fixed start is reserved for as long as was asked for.
    is_fixed = jobs.numbers[FIXED_STARTS, slot] < np.inf
    if user != NO_USER and not is_fixed and not np.isnan(past[user, 1]):
        mean = up_to_grid((past[user, 0] + past[user, 1]) / 2.0)
        jobs.numbers[ESTIMATES, slot] = min(requested, max(mean, SHORTEST))


@kernel
def renew_estimates(state: State) -> None:
    """Learn from runs that have ended since a plan was decided about, and predict the new jobs.

    Nothing is learned from runs that were killed for another job. O(gone × undone + new).
    """
    if len(state.past) == 0 or state.counts[PHASE] != IDLE:
        return
    for index in range(state.sizes[GONE]):
        slot = state.lists[GONE, index]
        was_killed = state.jobs.marks[IS_DYING, slot] != 0
        for place in range(state.sizes[UNDONE]):
            was_killed = was_killed or state.lists[UNDONE, place] == slot
        if not was_killed:
            note_run_time(
                state.jobs, state.past, slot, state.clock[NOW] - actual_start(state, slot)
            )
    for slot in range(state.counts[DECIDED], state.counts[KNOWN]):
        predict(state.jobs, state.past, slot)
