"""Foresight: deadline admission by opportunity cost (of this project)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qops_batsim.scheduling.admission.options import ForesightOptions
from qops_batsim.scheduling.space_sharing import SpaceSharingScheduler

if TYPE_CHECKING:
    from qops_batsim.scheduling.plan import Plan


class Foresight(SpaceSharingScheduler):
    """QoPS that leaves room for the jobs which are expected, and refuses those that cost more.

    Jobs that can wait leave as many processors free beside them as the shorter jobs which cannot
    wait are expected to need. A job that QoPS would admit is refused if it is expected to turn
    away more than it is worth. What is expected is learned from the arrivals so far.
    """

    summary = "QoPS with foresight: admission by opportunity cost, learned from past arrivals"
    Options = ForesightOptions
    options: ForesightOptions
    keeps_decisions = True
    needs_deadlines = True

    def new_plan(self, machine_size: int) -> Plan:
        """Return an empty plan that searches with these options."""
        from qops_batsim.scheduling.admission.foresight_search import ForesightSearch
        from qops_batsim.scheduling.admission.policy import Admission
        from qops_batsim.scheduling.plan import Plan

        return Plan(machine_size, Admission(ForesightSearch(self.options, machine_size)))
