"""QoPS: deadline admission by reordering (Islam et al. 2003)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qops_batsim.scheduling.admission.options import QopsOptions
from qops_batsim.scheduling.space_sharing import SpaceSharingScheduler

if TYPE_CHECKING:
    from qops_batsim.scheduling.plan import Plan


class Qops(SpaceSharingScheduler):
    """QoPS (Islam et al. 2003, section 3): admit a job if some reordering keeps every deadline.

    A new job is tried at few insertion points of the plan, 0, N/2, 3N/4, ...; the
    jobs behind each are placed anew in heuristic order. A job that would be late is
    pushed towards the front, up to ``k_factor`` times at each insertion point.
    """

    summary = "QoPS: deadline admission, reordering waiting jobs (Islam et al. 2003)"
    Options = QopsOptions
    options: QopsOptions
    keeps_decisions = True
    needs_deadlines = True

    def new_plan(self, machine_size: int) -> Plan:
        """Return an empty plan that searches with these options."""
        from qops_batsim.scheduling.admission.policy import Admission
        from qops_batsim.scheduling.admission.qops_search import QopsSearch
        from qops_batsim.scheduling.plan import Plan

        return Plan(machine_size, Admission(QopsSearch(self.options)))
