"""Foresight: deadline admission by opportunity cost (of this project)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qops_batsim.scheduling.admission.options import ForesightOptions
from qops_batsim.scheduling.engine_needs import EngineNeeds
from qops_batsim.scheduling.killed_jobs import restart_needs
from qops_batsim.scheduling.space_sharing import SpaceSharingScheduler

if TYPE_CHECKING:
    from qops_batsim.scheduling.plan import Plan


class Foresight(SpaceSharingScheduler):
    """QoPS that leaves room for the jobs which are expected, and refuses those that cost more.

    Jobs that can wait leave as many processors free beside them as the shorter jobs which cannot
    wait are expected to need. A job that QoPS would admit is refused if it is expected to turn
    away more than it is worth. What is expected is learned from the arrivals so far.

    With ``kill_and_restart``, a job for which there is no plan may have young running jobs
    killed: those that then still end by their own deadlines when they are run again from
    scratch, and that have used little work, compared with the mean work of the arrivals.
    """

    summary = "QoPS with foresight: admission by opportunity cost, learned from past arrivals"
    Options = ForesightOptions
    options: ForesightOptions
    keeps_decisions = True
    needs_deadlines = True

    @property
    def needs(self) -> EngineNeeds:
        """To register killed jobs again, where jobs are killed."""
        return restart_needs(self.options.kill_and_restart)

    def new_plan(self, machine_size: int) -> Plan:
        """Return an empty plan that searches with these options."""
        from qops_batsim.scheduling.admission.foresight_search import ForesightSearch
        from qops_batsim.scheduling.admission.policy import LoggedAdmission
        from qops_batsim.scheduling.plan import Plan

        return Plan(machine_size, LoggedAdmission(ForesightSearch(self.options, machine_size)))
