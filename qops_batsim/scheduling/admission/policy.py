"""Admission by deadline: take a job only if every promise can still be kept.

What becomes of a new job is decided in this order: *try* to plan it with its deadline;
else *kill* a running job for it, if that is allowed; else *offer* it a later deadline.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Protocol

from qops_batsim.scheduling.admission.decision import (
    Room,
    impossible_numbers,
    install,
    new_room,
    prepare_search,
    why_impossible,
)
from qops_batsim.scheduling.admission.search import Draft, Question, Search
from qops_batsim.scheduling.answers import Answer, Held, Kill, refusal_of
from qops_batsim.scheduling.core.state import HAS_PROFILE
from qops_batsim.scheduling.plan import Plan
from qops_batsim.scheduling.refusal import Refusal

Take = Callable[[Plan, Room, int], None]
"""Takes a new job into the plan, or refuses it: what a search with a kernel for that has."""


class Offers(Protocol):
    """Makes offers to users whose deadline cannot be kept."""

    def make(
        self, admission: Admission, plan: Plan, now: float, slot: int, refused: Answer
    ) -> Answer:
        """Offer a refused job a later deadline; take it in if that will do."""


class Restarts(Protocol):
    """Kills running jobs for new ones."""

    def resume(self, jobs: Sequence[Held]) -> None:
        """Know what was killed before, by slot."""

    def kill_for(self, admission: Admission, plan: Plan, now: float, slot: int) -> Kill | None:
        """Take a new job into the plan by killing a running one, if that will do."""


class Admission:
    """The policy of the deadline schedulers.

    Parameters
    ----------
    search
        Proposes a plan for a new job.
    offers
        Makes offers to users whose deadline cannot be kept; without it they are refused.
    restarts
        Kills running jobs for new ones; only with offers.
    """

    def __init__(
        self, search: Search, offers: Offers | None = None, restarts: Restarts | None = None
    ) -> None:
        self.search = search
        self.offers = offers
        self.restarts = restarts
        self.room = new_room(1, 0)

    def take(self, plan: Plan, now: float, slot: int) -> Answer | None:
        """Take a new job into the plan, with an offered deadline if need be, or refuse it.

        None if the log of the plan has the answer already.
        """
        take: Take | None = getattr(self.search, "take", None)
        if self.offers is None and take is not None:
            self._make_room(plan)
            take(plan, self.room, slot)
            return None
        impossible = impossible_deadline(plan, now, slot)
        answer = Answer(impossible) if impossible else self.attempt(plan, now, slot)
        if not answer.refusal or self.offers is None:
            return answer
        if plan.jobs.targets[slot] == math.inf:
            # Its earliest fit moves no other job, and is always possible.
            plan.place(now, slot, slot + 1)
            return Answer()
        if self.restarts is not None and not impossible:
            kill = self.restarts.kill_for(self, plan, now, slot)
            if kill is not None:
                return Answer(kill=kill)
        return self.offers.make(self, plan, now, slot, answer)

    def resume(self, jobs: Sequence[Held]) -> None:
        """Know what was killed before."""
        if self.restarts is not None:
            self.restarts.resume(jobs)

    def attempt(self, plan: Plan, now: float, slot: int) -> Answer:
        """Take a job into the plan by one search, or tell which target stands in the way."""
        verdict = self.search(self.question(plan, now, slot))
        if verdict.found:
            self.install(plan)
            return Answer()
        return Answer(verdict.refusal, verdict.blamed)

    def question(self, plan: Plan, now: float, slot: int) -> Question:
        """Return what a search is asked about a job, with a fresh profile of the running ones."""
        self._make_room(plan)
        room = self.room
        prepare_search(plan.state, room, float(now))
        return Question(
            now, room.free, plan.jobs, plan.table, plan.waiting, slot, room.draft, room.base
        )

    @property
    def draft(self) -> Draft:
        """The plan that the search makes."""
        return self.room.draft

    @draft.setter
    def draft(self, draft: Draft) -> None:
        self.room = self.room._replace(draft=draft)

    def install(self, plan: Plan, jobs: int = 1) -> None:
        """Make the draft, with so many jobs more, the plan."""
        install(plan.state, self.draft, jobs)

    def _make_room(self, plan: Plan) -> None:
        steps, jobs = len(plan.profile.times), len(plan.waiting.slots) + 1
        if len(self.room.free.times) < steps or len(self.draft.order) < jobs:
            self.room = new_room(steps, jobs)
            plan.state.counts[HAS_PROFILE] = 0


def impossible_deadline(plan: Plan, now: float, slot: int) -> Refusal | None:
    """Return why a job could not end in time if nothing waited, if so."""
    why = why_impossible(plan.state, slot, float(now))
    if why == 0:
        return None
    numbers = impossible_numbers(plan.state, slot, float(now), why)
    return refusal_of(why, int(plan.jobs.processors[slot]), "", numbers)
