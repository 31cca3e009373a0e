"""Conservative backfilling: every job has a reservation."""

from __future__ import annotations

from qops_batsim.core.job import Job
from qops_batsim.schedulers.planning import PlanScheduler


class Conservative(PlanScheduler):
    """Conservative backfilling: each job is planned at its earliest fit and never moved later."""

    def answer(self, job: Job) -> None:
        """Place a new job at its earliest fit."""
        self.plan.place_new(job)
        self.note_admission(job)
