"""MSB: deadline admission by insertion (the modified slack-based algorithm)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qops_batsim.scheduling.admission.options import MsbOptions
from qops_batsim.scheduling.space_sharing import SpaceSharingScheduler

if TYPE_CHECKING:
    from qops_batsim.scheduling.plan import Plan


class Msb(SpaceSharingScheduler):
    """Modified slack-based algorithm (Islam et al. 2003, section 2.2.1, Figure 1).

    A new job is tried at every position among the waiting jobs, which keep the
    order of their promised starts; the cheapest plan without a missed deadline wins.
    A job's slack is its deadline minus arrival and run time.
    """

    summary = "MSB: deadline admission at the cheapest position (Islam et al. 2003)"
    Options = MsbOptions
    options: MsbOptions
    keeps_decisions = True
    needs_deadlines = True

    def new_plan(self, machine_size: int) -> Plan:
        """Return an empty plan that searches with these options."""
        from qops_batsim.scheduling.admission.msb_search import MsbSearch
        from qops_batsim.scheduling.admission.policy import Admission
        from qops_batsim.scheduling.plan import Plan

        return Plan(machine_size, Admission(MsbSearch(self.options)))
