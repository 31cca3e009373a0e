"""Schedulers that keep a queue of waiting jobs and no plan of their starts."""

from __future__ import annotations

from typing import ClassVar

from qops_batsim.core.job import Job
from qops_batsim.core.scheduler import Scheduler
from qops_batsim.scheduling.refusal import Refusal, RefusalKind


def too_wide(processors: int, machine_size: int) -> Refusal:
    """Return the refusal of a job that asks for more processors than there are, or for none."""
    kind = RefusalKind.TOO_WIDE
    return Refusal(kind=kind, processors=processors, machine_size=machine_size)


class QueueScheduler(Scheduler):
    """Base of schedulers that start the jobs of a queue.

    Jobs that can never run, wider than the machine or without any processor, are rejected when they
    are submitted; a subclass overrides :meth:`arrived` for all others.
    """

    HOOKS: ClassVar[dict[str, str]] = {**Scheduler.HOOKS, "arrived": "job"}

    def submitted(self, job: Job) -> None:
        """Queue a job that fits the machine, reject one that never will."""
        size = self.manager.machine_size
        if 1 <= job.processors <= size:
            self.arrived(job)
            return
        self.manager.reject(job, too_wide(job.processors, size))

    def arrived(self, job: Job) -> None:
        """Queue a job that waits from now on."""
        raise NotImplementedError
