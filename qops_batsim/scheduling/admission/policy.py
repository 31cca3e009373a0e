"""Admission by deadline: take a job only if every promise can still be kept.

What becomes of a new job is decided in this order: *try* to plan it with its deadline;
else, with feedback, *kill* a running job for it, if that is allowed; else *offer* it a later
deadline.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from qops_batsim.economics.tolerance import FactorTolerance, Tolerance
from qops_batsim.scheduling.admission.decision import (
    impossible_numbers,
    install,
    prepare_search,
    why_impossible,
)
from qops_batsim.scheduling.admission.feedback import (
    OfferRoom,
    OfferTerms,
    decide_fqops,
    new_offer_room,
    propose,
    settle_offer,
    take_fqops,
)
from qops_batsim.scheduling.admission.search import Draft, Question, Room, Search, new_room
from qops_batsim.scheduling.answers import AdmissionAnswer, Held, refusal_of
from qops_batsim.scheduling.core.state import HAS_PROFILE, State
from qops_batsim.scheduling.plan import Plan
from qops_batsim.scheduling.refusal import Refusal


class Admission:
    """The policy of the deadline schedulers.

    Parameters
    ----------
    search
        Proposes a plan for a new job.
    """

    def __init__(self, search: Search) -> None:
        self.search = search
        self.room = new_room(1, 0)

    def decide(self, plan: Plan) -> bool | None:
        """Decide about a message in compiled code; False if the log needs more room.

        None if the search has to be asked about each new job.
        """
        decide: Callable[[Plan, Room], bool] | None = getattr(self.search, "decide", None)
        if decide is None:
            return None
        self._make_room(plan)
        return decide(plan, self.room)

    def take(self, plan: Plan, now: float, slot: int) -> AdmissionAnswer | None:
        """Take a new job into the plan, or refuse it."""
        impossible = impossible_deadline(plan, now, slot)
        return AdmissionAnswer(impossible) if impossible else self.attempt(plan, now, slot)

    def resume(self, jobs: Sequence[Held]) -> None:
        """Know nothing of jobs that a plan has already."""

    def attempt(self, plan: Plan, now: float, slot: int) -> AdmissionAnswer:
        """Take a job into the plan by one search, or tell which target stands in the way."""
        verdict = self.search(self.question(plan, now, slot))
        if verdict.found:
            install(plan.state, self.draft, 1)
            return AdmissionAnswer()
        return AdmissionAnswer(verdict.refusal, verdict.blamed)

    def question(self, plan: Plan, now: float, slot: int) -> Question:
        """Return what a search is asked about a job, with a fresh profile of the running ones."""
        self._make_room(plan)
        prepare_search(plan.state, self.room)
        return Question(now, plan.jobs, plan.table, plan.waiting, slot, self.room)

    @property
    def draft(self) -> Draft:
        """The plan that the search makes."""
        return self.room.draft

    def _make_room(self, plan: Plan) -> None:
        steps, jobs = len(plan.profile.times), len(plan.waiting.slots) + 1
        if len(self.room.free.times) < steps or len(self.draft.order) < jobs:
            self.room = new_room(steps, jobs)
            plan.state.counts[HAS_PROFILE] = 0


class LoggedAdmission(Admission):
    """The policy of a search that does more than propose a plan, and says in the log what."""

    def take(self, plan: Plan, now: float, slot: int) -> None:
        """Take a new job into the plan, or refuse it."""
        self._make_room(plan)
        self.search.take(plan, self.room, slot)  # type: ignore[attr-defined]


class FeedbackAdmission(Admission):
    """The policy of QoPS with feedback: kills running jobs for new ones, and makes offers.

    Parameters
    ----------
    search
        The search of QoPS.
    terms
        The options for the kernels.
    tolerance
        Speaks for the users.
    """

    def __init__(self, search: Search, terms: OfferTerms, tolerance: Tolerance) -> None:
        super().__init__(search)
        self._terms, self._tolerance = terms, tolerance
        self._offers = new_offer_room(1, 0)

    def decide(self, plan: Plan) -> bool | None:
        """Decide likewise, where users have tolerance factors."""
        tolerance = self._tolerance
        if not isinstance(tolerance, FactorTolerance):
            return None
        for slot in plan.new_slots:
            plan.jobs.tolerances[slot] = tolerance.factor_of(plan.table.jobs[slot])
        return bool(decide_fqops(*self._asked(plan)))

    def take(self, plan: Plan, now: float, slot: int) -> None:
        """Take a new job into the plan, with an offered deadline if need be, or refuse it."""
        asked, job, tolerance = self._asked(plan), plan.table.jobs[slot], self._tolerance
        if isinstance(tolerance, FactorTolerance):
            plan.jobs.tolerances[slot] = tolerance.factor_of(job)
            take_fqops(*asked, slot)
            return
        plan.jobs.tolerances[slot] = math.nan
        asks, soonest, offered = propose(*asked, slot)
        if asks:
            taken = bool(tolerance(job, float(offered)))
            settle_offer(*asked, slot, soonest, offered, taken)

    def _asked(self, plan: Plan) -> tuple[State, Room, OfferRoom, OfferTerms]:
        """Return the arguments of the kernels, with room for all jobs."""
        self._make_room(plan)
        steps, jobs = len(self.room.free.times), len(self.draft.order)
        if len(self._offers.spare.profile.times) < steps or len(self._offers.spare.order) < jobs:
            self._offers = new_offer_room(steps, jobs)
        return plan.state, self.room, self._offers, self._terms


def impossible_deadline(plan: Plan, now: float, slot: int) -> Refusal | None:
    """Return why a job could not end in time if nothing waited, if so."""
    why = why_impossible(plan.state, slot, float(now))
    if why == 0:
        return None
    numbers = impossible_numbers(plan.state, slot, float(now), why)
    return refusal_of(why, int(plan.jobs.processors[slot]), "", numbers)
