"""First come, first served."""

from __future__ import annotations

from qops_batsim.core.job import Job
from qops_batsim.core.scheduler import ResourceManager, Scheduler
from qops_batsim.schedulers.queue import QueueScheduler


class Fcfs(QueueScheduler):
    """Start jobs strictly in the order of submission; the first that does not fit blocks the rest.

    Needs no estimates. Amortised O(1) for each event and start.
    """

    summary = "first come, first served, no backfilling"

    def begin(self, manager: ResourceManager) -> None:
        """Start with an empty queue."""
        Scheduler.begin(self, manager)
        self.queue: list[Job] = []
        self.first = 0  # Those before have started.

    def arrived(self, job: Job) -> None:
        """Append the job to the queue."""
        self.queue.append(job)

    def decide(self) -> None:
        """Start jobs from the head of the queue as long as they fit."""
        queue = self.queue
        while self.first < len(queue):
            job = queue[self.first]
            if job.processors > self.manager.free:
                break
            self.manager.start(job)
            self.first += 1
        if self.first > 0 and 2 * self.first >= len(queue):
            del queue[: self.first]
            self.first = 0
