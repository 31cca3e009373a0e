"""Schedulers that keep a queue of waiting jobs and no plan of their starts."""

from __future__ import annotations

from qops_batsim.core.job import Job
from qops_batsim.core.scheduler import Scheduler
from qops_batsim.scheduling.refusal import Refusal, RefusalKind


class QueueScheduler(Scheduler):
    """Base of schedulers that start the jobs of a queue.

    Jobs that can never run, wider than the machine or without any processor, are rejected when they
    are submitted; a subclass overrides :meth:`arrived` for all others.
    """

    def submitted(self, job: Job) -> None:
        """Queue a job that fits the machine, reject one that never will."""
        size = self.manager.machine_size
        if 1 <= job.processors <= size:
            self.arrived(job)
            return
        told = {"processors": job.processors, "machine_size": size}
        self.manager.reject(job, Refusal(kind=RefusalKind.TOO_WIDE, **told))

    def arrived(self, job: Job) -> None:
        """Queue a job that waits from now on."""
        raise NotImplementedError
