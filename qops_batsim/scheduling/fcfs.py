"""First come, first served."""

from __future__ import annotations

from collections import deque

from qops_batsim.jobs import Job
from qops_batsim.scheduling.module import SchedulerOptions, System
from qops_batsim.scheduling.space_sharing import SpaceSharingScheduler


class Fcfs(SpaceSharingScheduler):
    """Start jobs strictly in the order of submission; the first that does not fit blocks the rest.

    Needs no estimates. O(1) for each event and start.
    """

    summary = "first come, first served, no backfilling"

    def __init__(self, options: SchedulerOptions | None = None) -> None:
        super().__init__(options)
        self._queue: deque[Job] = deque()

    def begin(self, system: System) -> None:
        """Start with an empty queue."""
        super().begin(system)
        self._queue.clear()

    def arrived(self, job: Job) -> None:
        """Append the job to the queue."""
        self._queue.append(job)

    def left(self, job: Job) -> None:
        """Do nothing: only the count of free hosts matters."""

    def schedule(self, now: float) -> None:
        """Start jobs from the head of the queue as long as they fit."""
        queue = self._queue
        while queue and queue[0].processors <= self.free_count:
            self.start(queue.popleft())
