"""MRT: deadline admission by extending strongly feasible partial schedules."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from msgspec import Meta

from qops_batsim.scheduling.admission.qops import Order
from qops_batsim.scheduling.admission.scheduler import AdmissionScheduler
from qops_batsim.scheduling.module import SchedulerOptions

if TYPE_CHECKING:
    from qops_batsim.scheduling.admission.plan import Search


class MrtOptions(SchedulerOptions, frozen=True, kw_only=True):
    """Options of :class:`Mrt`."""

    order: Order = "least_laxity"
    max_backtracks: Annotated[
        int, Meta(ge=0, description="most candidates given up before the new job is rejected")
    ] = 10


class Mrt(AdmissionScheduler):
    """Modified real-time algorithm (Islam et al. 2003, section 2.2.2, Figure 2).

    All waiting jobs and the new one are planned from scratch, in heuristic order.
    A partial schedule is extended only if every remaining job could still meet its
    deadline as the next one; otherwise the search takes back its last step.
    """

    summary = "MRT: deadline admission by search with backtracking (Islam et al. 2003)"
    Options = MrtOptions

    def search(self) -> Search:
        """Return the search with these options."""
        from qops_batsim.scheduling.admission.searches import MrtSearch

        assert isinstance(self.options, MrtOptions)
        return MrtSearch(self.options)
