"""Admission by deadline: take a job only if every promise can still be kept.

What becomes of a new job is decided in this order: *try* to plan it with its deadline;
else *kill* a running job for it, if that is allowed; else *offer* it a later deadline.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Protocol

from qops_batsim.kernels import Steady
from qops_batsim.scheduling.admission.search import Question, Search, new_draft
from qops_batsim.scheduling.answers import Answer, Held, Kill
from qops_batsim.scheduling.plan import Plan
from qops_batsim.scheduling.plan_kernels import adopt, aim_again
from qops_batsim.scheduling.profile import new_profile, running_profile
from qops_batsim.scheduling.refusal import Refusal, RefusalKind, no_time
from qops_batsim.timing import DEADLINE_TOLERANCE


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
        self._running_profile, self._adopt = Steady(running_profile), Steady(adopt)
        self._aim_again = Steady(aim_again)
        # What the searches write to; the profile of an adopted plan changes places with
        # the one of the plan before, which serves the next search.
        self._running, self._room = new_profile(0, 1), new_profile(0, 1)
        self.draft = new_draft(1, 0)

    def take(self, plan: Plan, now: float, slot: int) -> Answer:
        """Take a new job into the plan, with an offered deadline if need be, or refuse it."""
        impossible = _too_wide(plan, slot) or impossible_deadline(plan, now, slot)
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
        self._aim_again(plan.jobs, plan.waiting)
        self._running_profile(self._running, plan.everything, now, plan.running, plan.jobs)
        return Question(
            now, self._running, plan.jobs, plan.table, plan.waiting, slot, self.draft, self._room
        )

    def install(self, plan: Plan, jobs: int = 1) -> None:
        """Make the draft, with so many jobs more, the plan."""
        count = plan.waiting_count + jobs
        self._adopt(self.draft.order, self.draft.starts, count, plan.jobs, plan.waiting, plan.given)
        profile, plan.profile = plan.profile, self.draft.profile
        self.draft = self.draft._replace(profile=profile)

    def _make_room(self, plan: Plan) -> None:
        steps, jobs = len(plan.profile.times), len(plan.waiting.slots) + 1
        if len(self._running.times) < steps or len(self.draft.order) < jobs:
            self._running, self._room = new_profile(0, steps), new_profile(0, steps)
            self.draft = new_draft(steps, jobs)


def impossible_deadline(plan: Plan, now: float, slot: int) -> Refusal | None:
    """Return why a job could not end in time on an empty machine, if so."""
    target, estimate = float(plan.jobs.targets[slot]), float(plan.jobs.estimates[slot])
    left = target - now
    return no_time(estimate, left, target) if estimate > left + DEADLINE_TOLERANCE else None


def _too_wide(plan: Plan, slot: int) -> Refusal | None:
    """Return why a job with a deadline has no start at present, if it is too wide for that."""
    needed, present = int(plan.jobs.processors[slot]), plan.resizing.present
    if needed <= present or plan.jobs.targets[slot] == math.inf:
        return None
    size = plan.machine_size
    return Refusal(
        kind=RefusalKind.HOSTS_AWAY, processors=needed, machine_size=size, hosts=size - present
    )
