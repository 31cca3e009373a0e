"""The search of the modified slack-based algorithm (Islam et al. 2003, Figure 1)."""

from __future__ import annotations

import numpy as np

from qops_batsim.scheduling.admission.options import MsbOptions
from qops_batsim.scheduling.admission.search import (
    FOUND,
    NO_PLAN,
    Draft,
    Question,
    Verdict,
    meets,
    new_draft,
)
from qops_batsim.scheduling.kernels import Steady, lean_kernel
from qops_batsim.scheduling.profile import (
    Floats,
    Jobs,
    Profile,
    Queue,
    copy_profile,
    earliest_fit,
    reserve,
)

FOREVER = 1e12
"""Price of a delay without end (seconds): more than any date, and sums stay precise."""


@lean_kernel
def price_of(delay: float, processors: int, only_delays: bool) -> float:
    """Return what it costs that a job starts ``delay`` seconds later than planned.

    A job without estimate ahead of others may leave them without any start: an
    infinite delay, which counts as :data:`FOREVER`. A job that had none before and
    has none now (the delay is no number) costs nothing.
    """
    if np.isnan(delay) or (only_delays and delay < 0.0):
        return 0.0
    return max(-FOREVER, min(delay, FOREVER)) * processors


@lean_kernel
def bound_prices(
    now: float, base: Profile, jobs: Jobs, waiting: Queue, only_delays: bool, least: Floats
) -> None:
    """Write what the waiting jobs from each index on cost at least.

    None of them can start earlier than with the running jobs alone, so positions that
    cannot win stop early. O(waiting × steps).
    """
    least[waiting.size[0]] = 0.0
    for index in range(waiting.size[0] - 1, -1, -1):
        slot = waiting.slots[index]
        soonest = earliest_fit(base, now, jobs.estimates[slot], jobs.processors[slot])
        gain = price_of(soonest - jobs.starts[slot], jobs.processors[slot], only_delays)
        least[index] = least[index + 1] + gain


@lean_kernel
def price_position(
    now: float,
    position: int,
    jobs: Jobs,
    waiting: Queue,
    new: int,
    only_delays: bool,
    least: Floats,
    cheapest: float,
    trial: Draft,
) -> tuple[float, int]:
    """Place the new job and then those from a position on; return the price.

    The price is infinite if a target is missed, and then the job's slot comes along, or if
    it is not below the cheapest one so far. O(waiting × steps).
    """
    price = 0.0
    for index in range(position, waiting.size[0] + 1):
        slot = new if index == position else waiting.slots[index - 1]
        duration, needed = jobs.estimates[slot], jobs.processors[slot]
        start = earliest_fit(trial.profile, now, duration, needed)
        if not meets(start, duration, jobs.targets[slot]):
            return np.inf, int(slot)
        trial.order[index] = slot
        trial.starts[index] = start
        since = now if slot == new else jobs.starts[slot]
        price += price_of(start - since, needed, only_delays)
        if price + least[index] >= cheapest:
            return np.inf, NO_PLAN
        reserve(trial.profile, start, duration, needed)
    return price, NO_PLAN


@lean_kernel
def msb_search(
    now: float,
    running: Profile,
    jobs: Jobs,
    waiting: Queue,
    new: int,
    only_delays: bool,
    draft: Draft,
    base: Profile,
    trial: Draft,
    least: Floats,
) -> tuple[bool, int, int]:
    """Look for the cheapest position of the new job among the waiting ones.

    At each position, the jobs before it keep their reservations (in ``base``); the new
    job and then the others, in the order of their planned starts, are placed at their
    earliest fits. A missed target rules the position out. The price is the sum of
    delay × processors over the moved jobs and the new one.

    Returns
    -------
    tuple
        Whether there is a plan; if not, the slot of the job whose target stood in the
        way at the last position tried; and the position. O(waiting² × steps).
    """
    count = waiting.size[0]
    copy_profile(running, base)
    bound_prices(now, base, jobs, waiting, only_delays, least)
    cheapest, best, blamed = np.inf, NO_PLAN, new
    for position in range(count + 1):
        if position > 0:
            slot = waiting.slots[position - 1]
            reserve(base, jobs.starts[slot], jobs.estimates[slot], jobs.processors[slot])
        copy_profile(base, trial.profile)
        price, late = price_position(
            now, position, jobs, waiting, new, only_delays, least, cheapest, trial
        )
        if late != NO_PLAN:
            blamed = late
        if price < cheapest:
            cheapest, best = price, position
            copy_profile(trial.profile, draft.profile)
            for index in range(position, count + 1):
                draft.order[index] = trial.order[index]
                draft.starts[index] = trial.starts[index]
    if best == NO_PLAN:
        return False, blamed, count
    for index in range(best):
        draft.order[index] = waiting.slots[index]
        draft.starts[index] = jobs.starts[waiting.slots[index]]
    return True, new, best


class MsbSearch:
    """The search of MSB with its options."""

    def __init__(self, options: MsbOptions) -> None:
        self._search = Steady(msb_search)
        self._only_delays = options.price == "delays"
        self._trial = new_draft(1, 0)
        self._least: Floats = np.zeros(0)

    def __call__(self, q: Question) -> Verdict:
        """Return whether there is a plan, or which target stood in the way."""
        steps, jobs = len(q.room.times), len(q.draft.order)
        if len(self._trial.profile.times) < steps or len(self._least) < jobs:
            self._trial, self._least = new_draft(steps, jobs), np.zeros(jobs)
        found, blamed, position = self._search(
            q.now, q.running, q.jobs, q.waiting, q.new, self._only_delays, q.draft, q.room,
            self._trial, self._least,
        )  # fmt: skip
        if found:
            return FOUND
        return Verdict(False, blamed, f" at each of {position + 1} positions")
