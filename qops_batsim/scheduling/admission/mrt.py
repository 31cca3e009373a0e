"""MRT: deadline admission by extending strongly feasible partial schedules."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qops_batsim.scheduling.admission.options import MrtOptions
from qops_batsim.scheduling.space_sharing import SpaceSharingScheduler

if TYPE_CHECKING:
    from qops_batsim.scheduling.plan import Plan


class Mrt(SpaceSharingScheduler):
    """Modified real-time algorithm (Islam et al. 2003, section 2.2.2, Figure 2).

    All waiting jobs and the new one are planned from scratch, in heuristic order.
    A partial schedule is extended only if every remaining job could still meet its
    deadline as the next one; otherwise the search takes back its last step.
    """

    summary = "MRT: deadline admission by search with backtracking (Islam et al. 2003)"
    Options = MrtOptions
    options: MrtOptions
    keeps_decisions = True
    needs_deadlines = True

    def new_plan(self, machine_size: int) -> Plan:
        """Return an empty plan that searches with these options."""
        from qops_batsim.scheduling.admission.mrt_search import MrtSearch
        from qops_batsim.scheduling.admission.policy import Admission
        from qops_batsim.scheduling.plan import Plan

        return Plan(machine_size, Admission(MrtSearch(self.options)))
