"""Feedback to users whose deadline cannot be kept: a later one is offered (Islam et al. 2004)."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from qops_batsim.economics.tolerance import FactorTolerance, Tolerance, arrival_of
from qops_batsim.limits import MAX_SECONDS
from qops_batsim.scheduling.admission.bisection import earliest_deadline
from qops_batsim.scheduling.admission.policy import Admission
from qops_batsim.scheduling.admission.search import Draft, Question, meets
from qops_batsim.scheduling.plan import Answer, Offer, Plan
from qops_batsim.scheduling.profile import Jobs, earliest_fit, new_profile


class Earliest(NamedTuple):
    """The earliest deadline that could be kept.

    Attributes
    ----------
    failed
        Latest deadline before it that was tried in vain (seconds).
    deadline
        The deadline (seconds); infinite if there is none.
    """

    failed: float
    deadline: float


class Offers:
    """Makes offers (Islam et al. 2004, sections 6 and 7).

    Parameters
    ----------
    tolerance
        Speaks for the users.
    slack_factor
        Artificial slack SF: what is offered is later than the earliest deadline by
        this factor, counted from the arrival.
    retry_count
        How often the interval of the earliest deadline is halved.
    """

    def __init__(self, tolerance: Tolerance, slack_factor: float, retry_count: int) -> None:
        self._tolerance = tolerance
        self._slack_factor = slack_factor
        self._retry_count = retry_count
        self._spare = Draft(new_profile(0, 1), np.zeros(0, np.int64), np.zeros(0))

    def make(
        self, admission: Admission, plan: Plan, now: float, slot: int, refused: Answer
    ) -> Answer:
        """Offer a refused job a later deadline; take it in if that will do."""
        job, slack = plan.table.jobs[slot], self._slack_factor
        reason, blamed = refused.refusal, refused.blamed
        if isinstance(self._tolerance, FactorTolerance):
            factor = self._tolerance.factor_of(job)
            if factor < slack:
                return Answer(
                    f"{reason}; no offer is worth making: the tolerance factor {factor:g} "
                    f"is below the slack factor {slack:g}",
                    blamed,
                )
        earliest = self.earliest(admission, plan, now, slot)
        if earliest.deadline == math.inf:
            return Answer(f"{reason}; no deadline can be offered", blamed)
        if earliest.deadline <= float(plan.jobs.deadlines[slot]):
            # The plan made for a job without deadline happens to keep the requested one.
            admission.install(plan)
            return Answer()
        arrival = arrival_of(job)
        offered = arrival + slack * (earliest.deadline - arrival)
        if slack == 1:
            offered = earliest.deadline  # not rounded anew
        if offered > MAX_SECONDS:
            reason += f"; no deadline can be offered: {offered:g} s is later than any date"
            return Answer(reason, blamed)
        if not self._tolerance(job, offered):
            offer = Offer(offered, False, reason)
            reason += f"; the offered deadline {offered:g} s was not taken"
            return Answer(reason, blamed, offer)
        self._admit(admission, plan, now, slot, earliest.deadline, offered)
        return Answer("", blamed, Offer(offered, True, reason))

    def _admit(
        self, admission: Admission, plan: Plan, now: float, slot: int, earliest: float, by: float
    ) -> None:
        """Take a job into the plan with the deadline that it was offered."""
        if by > earliest:
            promise(plan.jobs, slot, by)
            if not admission.attempt(plan, now, slot).refusal:
                return
            # The search overlooks plans: the one found for the earlier deadline is good as well.
            self.earliest(admission, plan, now, slot)
        promise(plan.jobs, slot, by)
        admission.install(plan)

    def earliest(self, admission: Admission, plan: Plan, now: float, slot: int) -> Earliest:
        """Return the earliest deadline with which a job can be taken; the draft is its plan.

        The job is planned without deadline first. Then the interval from its requested
        deadline to its end in that plan is halved: to the lower half if a plan with the
        deadline in the middle is found, else to the upper one. The deadline is infinite
        if the job would have to wait for one without estimate. If the plan without
        deadline already keeps the requested one, both are that.
        """
        question = admission.question(plan, now, slot)
        jobs, estimate = plan.jobs, float(plan.jobs.estimates[slot])
        requested = float(jobs.deadlines[slot])
        soonest = earliest_fit(question.running, now, estimate, int(jobs.processors[slot]))

        def works(deadline: float) -> bool:
            # Too early even with no other job waiting: no search could find a plan.
            if not meets(soonest, estimate, deadline):
                return False
            promise(jobs, slot, deadline)
            if not admission.search(question._replace(draft=self._spare)).found:
                return False
            admission.draft, self._spare = self._spare, admission.draft
            return True

        promise(jobs, slot, math.inf)
        low, high = requested, math.inf
        if admission.search(question).found:
            high = max(_end_in(question, slot), requested)
        if high < math.inf:
            self._make_room(admission.draft)
            low, high = earliest_deadline(works, low, high, retries=self._retry_count)
        promise(jobs, slot, requested)
        return Earliest(low, high)

    def _make_room(self, draft: Draft) -> None:
        if len(self._spare.profile.times) < len(draft.profile.times):
            profile = new_profile(0, len(draft.profile.times))
            self._spare = self._spare._replace(profile=profile)
        if len(self._spare.order) < len(draft.order):
            jobs = len(draft.order)
            self._spare = Draft(self._spare.profile, np.zeros(jobs, np.int64), np.zeros(jobs))


def promise(jobs: Jobs, slot: int, deadline: float) -> None:
    """Let a new job be planned with another deadline (seconds) than it asked for."""
    jobs.promises[slot] = jobs.targets[slot] = deadline


def _end_in(question: Question, slot: int) -> float:
    """Return when a job ends in the draft. O(waiting)."""
    draft, count = question.draft, int(question.waiting.size[0]) + 1
    place = draft.order[:count].tolist().index(slot)
    return float(draft.starts[place] + question.jobs.estimates[slot])
