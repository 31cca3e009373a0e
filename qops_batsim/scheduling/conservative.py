"""Conservative backfilling."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from msgspec import Meta

from qops_batsim.jobs import Job
from qops_batsim.scheduling.module import SchedulerOptions, System
from qops_batsim.scheduling.space_sharing import SpaceSharingScheduler

if TYPE_CHECKING:
    from qops_batsim.scheduling.plan import Plan


class ConservativeOptions(SchedulerOptions, frozen=True, kw_only=True):
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
    that outlives its estimate is assumed to run as long again; then promises that
    rested on it move.

    Plans with estimates (``qos.estimated_runtime``, else the walltime); a job
    without one is planned as if it never ended.
    """

    summary = "conservative backfilling: a reservation for every job, compression on early ends"
    Options = ConservativeOptions

    @classmethod
    def prepare(cls) -> None:
        """Compile the kernels by small plans in which each of them works once."""
        from qops_batsim.platform.hostset import HostSet
        from qops_batsim.scheduling.plan import HostPlan, ProcessorPlan

        for kind in (HostPlan, ProcessorPlan):
            plan = kind(1)
            for index in range(3):
                plan.arrived(Job(f"warm-up!{index}", 0.0, 1, "none", walltime=10.0))
            plan.decide(0.0, HostSet.first(1))
            plan.left("warm-up!0")
            plan.decide(5.0, HostSet.first(1))
            plan.decide(20.0, HostSet())

    def begin(self, system: System) -> None:
        """Start with an empty plan."""
        from qops_batsim.scheduling.plan import HostPlan, ProcessorPlan

        super().begin(system)
        by_host = isinstance(self.options, ConservativeOptions) and self.options.reserve == "hosts"
        kind = HostPlan if by_host else ProcessorPlan
        self._plan: Plan = kind(self.machine_size)

    def arrived(self, job: Job) -> None:
        """Note the job; it is placed at the next decision."""
        self._plan.arrived(job)

    def left(self, job_id: str) -> None:
        """Note the end; its reservation is given back at the next decision."""
        self._plan.left(job_id)

    def schedule(self, now: float) -> None:
        """Update the plan and start the jobs whose promised start has come."""
        for job, hosts in self._plan.decide(now, self.free_hosts):
            self.start(job, hosts)
