"""Feedback to users whose deadline cannot be kept: a later one is offered (Islam et al. 2004)."""

from __future__ import annotations

import math
from typing import NamedTuple

import msgspec

from qops_batsim.economics.tolerance import FactorTolerance, Tolerance, arrival_of
from qops_batsim.limits import MAX_SECONDS
from qops_batsim.scheduling.admission.bisection import earliest_deadline
from qops_batsim.scheduling.admission.policy import Admission
from qops_batsim.scheduling.admission.search import Draft, Question, Search, meets, new_draft
from qops_batsim.scheduling.answers import Answer, Offer
from qops_batsim.scheduling.plan import Plan
from qops_batsim.scheduling.profile import Jobs, earliest_fit
from qops_batsim.scheduling.refusal import OfferOutcome
from qops_batsim.timing import end_of


class Earliest(NamedTuple):
    """The earliest deadline that could be kept.

    Attributes
    ----------
    failed
        Latest deadline before it that was tried in vain (seconds).
    deadline
        The deadline (seconds); infinite if there is none.
    plan
        A plan that keeps it, or None if there is none even without deadline.
    spare
        Another draft, without meaning.
    """

    failed: float
    deadline: float
    plan: Draft | None
    spare: Draft


def earliest(search: Search, question: Question, spare: Draft, retries: int) -> Earliest:
    """Return the earliest deadline with which a search would take the new job.

    The job is planned without deadline first. Then the interval from its requested
    deadline to its end in that plan is halved so often: to the lower half if there is a
    plan with the deadline in the middle, else to the upper one. The deadline is infinite
    if the job would have to wait for one without estimate. If the plan without deadline
    already keeps the requested one, both are that.

    Parameters
    ----------
    question
        About the new job; its promise is the requested deadline, before and after.
    spare
        Room for trials.
    """
    slot, jobs = question.new, question.jobs
    lag = lag_of(jobs, slot)
    estimate, requested = float(jobs.estimates[slot]), float(jobs.deadlines[slot])
    soonest = earliest_fit(question.running, question.now, estimate, int(jobs.processors[slot]))
    best = question.draft

    def grant(deadline: float) -> bool | None:
        nonlocal best, spare
        # Too early even with no other job waiting: no search could find a plan.
        if not meets(soonest, estimate, deadline + lag):
            return None
        promise(jobs, slot, deadline, lag)
        if not search(question._replace(draft=spare)).found:
            return None
        best, spare = spare, best
        return True

    promise(jobs, slot, math.inf, lag)
    found = search(question).found
    low, high = requested, math.inf
    if found:
        count = int(question.waiting.size[0]) + 1
        place = best.order[:count].tolist().index(slot)
        high = max(end_of(float(best.starts[place]), estimate) - lag, requested)
    if high < math.inf:
        bisected = earliest_deadline(grant, low, high, granted=True, retries=retries)
        assert bisected is not None
        low, high = bisected.refused, bisected.deadline
    promise(jobs, slot, requested, lag)
    return Earliest(low, high, best if found else None, spare)


def lag_of(jobs: Jobs, slot: int) -> float:
    """Return by how much a new job's target is later than its request (seconds).

    That is how late it was told, for it is judged as if it had been told at once.
    """
    return float(jobs.targets[slot] - jobs.deadlines[slot])


def promise(jobs: Jobs, slot: int, deadline: float, lag: float) -> None:
    """Let a new job, told so late, be planned with another deadline than it asked for (seconds)."""
    jobs.promises[slot] = deadline
    jobs.targets[slot] = deadline + lag


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
        self._spare = new_draft(1, 0)

    def make(
        self, admission: Admission, plan: Plan, now: float, slot: int, refused: Answer
    ) -> Answer:
        """Offer a refused job a later deadline; take it in if that will do."""
        job, slack = plan.table.jobs[slot], self._slack_factor
        refusal = refused.refusal
        assert refusal is not None

        def made(outcome: OfferOutcome, offer: Offer | None = None, **more: float) -> Answer:
            why = msgspec.structs.replace(refusal, offer=outcome, **more)
            return Answer(why, refused.blamed, offer)

        if isinstance(self._tolerance, FactorTolerance):
            factor = self._tolerance.factor_of(job)
            if factor < slack:
                none = OfferOutcome.NOT_WORTH_MAKING
                return made(none, tolerance=factor, slack_factor=slack)
        soonest = self._earliest(admission, plan, now, slot)
        if soonest == math.inf:
            return made(OfferOutcome.NO_DATE)
        if soonest <= float(plan.jobs.deadlines[slot]):
            # The plan made for a job without deadline happens to keep the requested one.
            admission.install(plan)
            return Answer()
        arrival = arrival_of(job)
        offered = arrival + slack * (soonest - arrival)
        if slack == 1:
            offered = soonest  # not rounded anew
        if offered > MAX_SECONDS:
            return made(OfferOutcome.TOO_LATE, offered=offered)
        if not self._tolerance(job, offered):
            offer = Offer(offered, False, refusal)
            return made(OfferOutcome.NOT_TAKEN, offer, offered=offered)
        self._admit(admission, plan, now, slot, soonest, offered)
        return Answer(None, refused.blamed, Offer(offered, True, refusal))

    def _admit(
        self, admission: Admission, plan: Plan, now: float, slot: int, soonest: float, by: float
    ) -> None:
        """Take a job into the plan with the deadline that it was offered."""
        lag = lag_of(plan.jobs, slot)
        if by > soonest:
            promise(plan.jobs, slot, by, lag)
            if not admission.attempt(plan, now, slot).refusal:
                return
            # The search overlooks plans: the one found for the earlier deadline is good as well.
            promise(plan.jobs, slot, float(plan.jobs.deadlines[slot]), lag)
            self._earliest(admission, plan, now, slot)
        promise(plan.jobs, slot, by, lag)
        admission.install(plan)

    def _earliest(self, admission: Admission, plan: Plan, now: float, slot: int) -> float:
        """Return the earliest deadline that could be kept; its plan is the admission's draft."""
        question = admission.question(plan, now, slot)
        steps, jobs = len(question.draft.profile.times), len(question.draft.order)
        if len(self._spare.profile.times) < steps or len(self._spare.order) < jobs:
            self._spare = new_draft(steps, jobs)
        found = earliest(admission.search, question, self._spare, self._retry_count)
        admission.draft, self._spare = found.plan or question.draft, found.spare
        return found.deadline
