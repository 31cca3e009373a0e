"""A plan that offers a later deadline where it cannot keep the requested one."""

from __future__ import annotations

import math
from typing import NamedTuple

from qops_batsim.economics.tolerance import FactorTolerance, Tolerance, arrival_of
from qops_batsim.limits import MAX_SECONDS
from qops_batsim.scheduling import plan_kernels
from qops_batsim.scheduling.admission.common_kernels import REJECTED
from qops_batsim.scheduling.admission.feedback_search import FeedbackSearch
from qops_batsim.scheduling.admission.plan import AdmissionPlan


class Offer(NamedTuple):
    """A deadline that was offered instead of the requested one.

    Attributes
    ----------
    deadline
        Date (seconds, absolute).
    taken
        Whether the user accepted it.
    reason
        Why the requested deadline could not be kept.
    """

    deadline: float
    taken: bool
    reason: str


class FeedbackPlan(AdmissionPlan):
    """A plan with feedback to users whose deadline cannot be kept (Islam et al. 2004).

    Parameters
    ----------
    machine_size
        Number of processors.
    search
        Proposes plans and earliest deadlines.
    tolerance
        Speaks for the users.
    slack_factor
        Artificial slack SF: what is offered is later than the earliest deadline by
        this factor, counted from the arrival.

    Attributes
    ----------
    offers
        Offers by slot, until somebody takes them out.
    """

    def __init__(
        self,
        machine_size: int,
        search: FeedbackSearch,
        tolerance: Tolerance,
        slack_factor: float,
    ) -> None:
        super().__init__(machine_size, search)
        self.offers: dict[int, Offer] = {}
        self._feedback_search = search
        self._tolerance = tolerance
        self._slack_factor = slack_factor

    def offered(self, slot: int) -> tuple[float, str] | None:
        """Return the deadline (seconds) that a new job was just offered, and why, if one was."""
        offer = self.offers.get(slot)
        return None if offer is None else (offer.deadline, offer.reason)

    def _take(self, now: float, slot: int) -> str:
        reason = super()._take(now, slot)
        if not reason:
            return ""
        if self.table.deadlines[slot] == math.inf:
            self._append(now, slot)
            return ""
        return self._take_later(now, slot, reason)

    def _take_later(self, now: float, slot: int, reason: str) -> str:
        """Offer a job whose request was refused a later deadline; take it in if that will do."""
        job = self.table.jobs[slot]
        if isinstance(self._tolerance, FactorTolerance):
            factor = self._tolerance.factor_of(job)
            if factor < self._slack_factor:
                return (
                    f"{reason}; no offer is worth making: the tolerance factor {factor:g} "
                    f"is below the slack factor {self._slack_factor:g}"
                )
        earliest = self._feedback_search.earliest(self._question(now, slot))
        if earliest.steps == REJECTED or earliest.deadline == math.inf:
            return f"{reason}; no deadline can be offered"
        requested = float(self.table.deadlines[slot])
        if earliest.deadline <= requested:
            # The plan made for a job without deadline happens to keep the requested one.
            self._install(earliest.steps)
            return ""
        arrival = arrival_of(job)
        offered = arrival + self._slack_factor * (earliest.deadline - arrival)
        if self._slack_factor == 1:
            offered = earliest.deadline  # not rounded anew
        if offered > MAX_SECONDS:
            return f"{reason}; no deadline can be offered: {offered:g} s is later than any date"
        taken = self._tolerance(job, offered)
        self.offers[slot] = Offer(offered, taken, reason)
        if not taken:
            return f"{reason}; the offered deadline {offered:g} s was not taken"
        if offered > earliest.deadline and self._admit_by(now, slot, offered):
            return ""
        if offered > earliest.deadline:
            # The search overlooks plans: what it found for the earlier deadline is good as well.
            self._feedback_search.change_deadline(self.table, slot, requested)
            earliest = self._feedback_search.earliest(self._question(now, slot))
        self._feedback_search.change_deadline(self.table, slot, offered)
        self._install(earliest.steps)
        return ""

    def _admit_by(self, now: float, slot: int, deadline: float) -> bool:
        """Take a job into the plan with another deadline than it has, if the search can."""
        self._feedback_search.change_deadline(self.table, slot, deadline)
        blamed = self.blamed
        admitted = not self._admit(now, slot)
        self.blamed = blamed  # what stood in the way of the request, as the offer's reason has it
        return admitted

    def _append(self, now: float, slot: int) -> None:
        """Take a job in at its earliest fit, moving nobody. Always possible."""
        self._steps, self._waiting_count = plan_kernels.place(
            self._times, self._free, self._steps, now, self._waiting, self._waiting_count,
            self._starts, self.table.processors, self.table.estimates, slot, slot + 1,
        )  # fmt: skip
