"""Conservative backfilling: every job has a reservation."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from qops_batsim.core.job import Job
from qops_batsim.core.options import PlannerOptions, SchedulerOptions
from qops_batsim.schedulers.planning import PlanScheduler


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


class Conservative(PlanScheduler):
    """Conservative backfilling: every job is promised, on arrival, the earliest start at which it
    fits in the plan.

    A job may go ahead of earlier ones only where that delays none of them. When a job ends earlier
    than expected, the waiting jobs are re-placed one by one, each at its earliest fit and never
    later than promised (compression). A running job that outlives its estimate is assumed to run
    on; then promises that rested on it move.

    Plans with estimates (``qos.estimated_runtime``, else the walltime); a job without one is
    planned as if it never ended.

    Examples
    --------
    >>> from qops_batsim import simulate
    >>> [(ended.job.id, ended.start) for ended in simulate(Conservative, "tiny_8").ended[:3]]
    [('w0!4', 15.0), ('w0!1', 0.0), ('w0!6', 55.0)]
    """

    summary = "conservative backfilling: a reservation for every job, compression on early ends"
    Options = ConservativeOptions

    def __init__(self, options: SchedulerOptions | None = None) -> None:
        PlanScheduler.__init__(self, options)
        self.by_host = getattr(self.options, "reserve", "processors") == "hosts"

    def answer(self, job: Job) -> None:
        """Plan a new job at its earliest fit."""
        self.plan.place_new(job)
        self.note_admission(job)
