"""The earliest end that could be promised to a job, asked of a plan that is not changed.

Where :class:`~qops_batsim.advice.plan_asker.PlanAsker` puts a plan together anew for each question,
here the search of a plan that is there is asked, which takes a hundredth of the time.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from qops_batsim.advice.plan_asker import MOST_DOUBLINGS, RESOLUTION
from qops_batsim.errors import InputError
from qops_batsim.scheduling.admission.feedback import promise
from qops_batsim.scheduling.admission.policy import Admission
from qops_batsim.scheduling.answers import Answer
from qops_batsim.scheduling.module import DecisionModule
from qops_batsim.scheduling.plan import Plan
from qops_batsim.scheduling.profile import earliest_fit
from qops_batsim.scheduling.registry import make_scheduler
from qops_batsim.scheduling.space_sharing import SpaceSharingScheduler
from qops_batsim.timing import end_of


class Promised(NamedTuple):
    """An end that can be promised, and the start in the plan for it (seconds)."""

    end: float
    start: float


NOTHING = Promised(math.inf, math.inf)


def earliest_promise(
    plan: Plan, now: float, slot: int, *, within: float = RESOLUTION, share: float = 0.0
) -> Promised:
    """Return the earliest end that a plan could promise to a job that has just arrived.

    A bisection as in Islam et al. (2004, Figure 2), between the end with no other job waiting and
    that in the first gap of the plan, or else without deadline; :data:`NOTHING` if there is none.
    Who asks for the date gets it: it was asked for. A date before it was refused that is not more
    than ``within`` (seconds) earlier, or than a ``share`` of the time from now to it. What
    policies do beside their search, as killing, is not tried. O(log(span)) searches.
    """
    admission = plan.policy
    assert isinstance(admission, Admission)
    jobs, estimate = plan.jobs, float(plan.jobs.estimates[slot])
    question = admission.question(plan, now, slot)
    draft, count = question.draft, plan.waiting_count + 1
    asked = float(jobs.promises[slot]), float(jobs.targets[slot])

    def start_for(deadline: float) -> float:
        promise(jobs, slot, deadline, 0.0)
        if not admission.search(question).found:
            return math.inf
        place = int(np.flatnonzero(draft.order[:count] == slot)[0])
        return float(draft.starts[place])

    try:
        start = earliest_fit(question.running, now, estimate, int(jobs.processors[slot]))
        low = end_of(start, estimate)
        if low == math.inf:
            return NOTHING
        if (start := start_for(low)) < math.inf:
            return Promised(low, start)
        gap = earliest_fit(plan.profile, now, estimate, int(jobs.processors[slot]))
        high = end_of(gap, estimate)
        if high == math.inf or start_for(high) == math.inf:
            high = end_of(start_for(math.inf), estimate)
        for _ in range(MOST_DOUBLINGS):
            if high == math.inf or (start := start_for(high)) < math.inf:
                break
            high += high - low
        else:
            return NOTHING
        best = Promised(high, start)
        while max(within, share * (best.end - now)) < best.end - low < math.inf:
            middle = (low + best.end) / 2
            start = start_for(middle)
            if start == math.inf:
                low = middle
                continue
            best, end = Promised(middle, start), end_of(start, estimate)
            # The end that was found can be promised as a rule: worth a try if it is far earlier.
            if low < end <= (low + middle) / 2 and (start := start_for(end)) < math.inf:
                best = Promised(end, start)
        # The job may end a little before: a date that a user rather reads.
        end = end_of(best.start, estimate)
        if low < end < best.end and (start := start_for(end)) < math.inf:
            return Promised(end, start)
        return best
    finally:
        jobs.promises[slot], jobs.targets[slot] = asked


class EarliestPromises:
    """Notes for each new job of a simulation what could have been promised to it.

    ``responses`` are the seconds from its submission to the earliest end, by full id.
    """

    def __init__(self) -> None:
        self.responses: dict[str, float] = {}
        self._plan: Plan | None = None

    def watch(self, plan: Plan) -> None:
        """Look at every new job of a plan."""
        plan.observer, self._plan = self, plan

    def asked(self, now: float, slot: int) -> None:
        """Ask before the scheduler does; the answer to that does not depend on it."""
        plan = self._plan
        assert plan is not None
        job = plan.table.jobs[slot]
        end = earliest_promise(plan, plan.nominal(now), slot).end
        self.responses[job.id] = end - max(job.submission_time, 0.0)

    def answered(self, now: float, slot: int, answer: Answer) -> None:
        """Nothing more is to be noted."""


def deadline_plan(name: str, settings: Mapping[str, Any], machine_size: int = 1) -> Plan:
    """Return an empty plan of a scheduler; an InputError if it promises nothing."""
    module = make_scheduler(name, settings)
    plan = module.new_plan(machine_size) if isinstance(module, SpaceSharingScheduler) else None
    if plan is None or not isinstance(plan.policy, Admission):
        raise InputError(
            f"scheduler {name!r} promises nothing; one that admits jobs by deadline, as qops, is "
            "expected"
        )
    return plan


def watched_scheduler(
    name: str, settings: Mapping[str, Any], promises: EarliestPromises
) -> DecisionModule:
    """Return a deadline scheduler whose new jobs are all asked about first."""
    deadline_plan(name, settings)
    kind: Any = type(make_scheduler(name, settings))

    class Watched(kind):  # type: ignore[misc]
        def new_plan(self, machine_size: int) -> Plan | None:
            plan = super().new_plan(machine_size)
            if plan is not None:
                promises.watch(plan)
            return plan  # type: ignore[no-any-return]

    return make_scheduler(Watched, settings)
