"""The search of the modified slack-based algorithm (Islam et al. 2003, Figure 1)."""

from __future__ import annotations

import numpy as np

from qops_batsim.kernels import Steady, lean_kernel
from qops_batsim.scheduling.admission.options import MsbOptions
from qops_batsim.scheduling.admission.search import (
    FOUND,
    Draft,
    Question,
    Verdict,
    keep_up_to,
    meets,
    new_draft,
)
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

    The price is infinite if a target is missed, or if it is not below the cheapest one so
    far. Returned with it is the next position that can give another schedule: as long as
    jobs keep their starts beside the new one, it may as well come after them.
    O(waiting × steps).
    """
    price, following = 0.0, position + 1
    for index in range(position, waiting.size[0] + 1):
        slot = new if index == position else waiting.slots[index - 1]
        duration, needed = jobs.estimates[slot], jobs.processors[slot]
        start = earliest_fit(trial.profile, now, duration, needed)
        if not meets(start, duration, jobs.targets[slot]):
            # Behind more jobs that stay the new one would start no earlier.
            return np.inf, following if index > position else waiting.size[0] + 1
        trial.order[index] = slot
        trial.starts[index] = start
        if index == following and start == jobs.starts[slot]:
            following += 1
        since = now if slot == new else jobs.starts[slot]
        price += price_of(start - since, needed, only_delays)
        if price + least[index] >= cheapest:
            return np.inf, following
        reserve(trial.profile, start, duration, needed)
    return price, following


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
) -> bool:
    """Look for the cheapest position of the new job among the waiting ones; tell if there is one.

    At each position, the jobs before it keep their reservations (in ``base``); the new
    job and then the others, in the order of their planned starts, are placed at their
    earliest fits. A missed target rules the position out. The price is the sum of
    delay × processors over the moved jobs and the new one. Positions that give the same
    schedule are tried once. O(waiting² × steps).
    """
    count = waiting.size[0]
    copy_profile(running, base)
    bound_prices(now, base, jobs, waiting, only_delays, least)
    cheapest = np.inf
    kept = position = 0
    while position <= count:
        keep_up_to(position, kept, base, jobs, waiting, trial)
        kept = position
        copy_profile(base, trial.profile)
        price, position = price_position(
            now, position, jobs, waiting, new, only_delays, least, cheapest, trial
        )
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
        self._search = Steady(msb_search)
        self._only_delays = options.price == "delays"
        self._trial = new_draft(1, 0)
        self._least: Floats = np.zeros(0)

    def __call__(self, q: Question) -> Verdict:
        """Return whether there is a plan, or which target stood in the way."""
        steps, jobs = len(q.room.times), len(q.draft.order)
        if len(self._trial.profile.times) < steps or len(self._least) < jobs:
            self._trial, self._least = new_draft(steps, jobs), np.zeros(jobs)
        found = self._search(
            q.now, q.running, q.jobs, q.waiting, q.new, self._only_delays, q.draft, q.room,
            self._trial, self._least,
        )  # fmt: skip
        if found:
            return FOUND
        # At the last position no waiting job stands in the way.
        return Verdict(False, q.new, f" at each of {q.waiting.size[0] + 1} positions")
