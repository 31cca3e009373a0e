"""Conservative backfilling."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from msgspec import Meta

from qops_batsim.scheduling.module import PlannerOptions
from qops_batsim.scheduling.space_sharing import SpaceSharingScheduler

if TYPE_CHECKING:
    from qops_batsim.scheduling.plan import Plan


class ConservativeOptions(PlannerOptions, frozen=True, kw_only=True):
    """Options of :class:`Conservative`."""

    reserve: Annotated[
        Literal["hosts", "processors"],
        Meta(
            description=(
                "what a reservation is made of: certain hosts, as batsched's conservative_bf, or "
                "a number of processors, with hosts chosen at the start (textbook, shorter waits)"
            )
        ),
    ] = "hosts"


class Conservative(SpaceSharingScheduler):
    """Every job is promised a start when it arrives: its earliest fit in the plan.

    A job may go ahead of earlier ones only where that delays none of them. When a
    job ends earlier than expected, the waiting jobs are re-placed one by one, each
    at its earliest fit and never later than promised (compression). A running job
    that outlives its estimate is assumed to run on; then promises that
    rested on it move.

    Plans with estimates (``qos.estimated_runtime``, else the walltime); a job
    without one is planned as if it never ended.
    """

    summary = "conservative backfilling: a reservation for every job, compression on early ends"
    Options = ConservativeOptions
    options: ConservativeOptions

    @property
    def drains(self) -> bool:  # type: ignore[override]
        """Whether reservations are of numbers of processors."""
        return self.options.reserve != "hosts"

    def new_plan(self, machine_size: int) -> Plan:
        """Return an empty plan in which every job gets its earliest fit."""
        from qops_batsim.scheduling.plan import Plan

        return Plan(machine_size, by_host=self.options.reserve == "hosts")
