"""First come, first served."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from qops_batsim.jobs import Job
from qops_batsim.platform.hostset import HostSet
from qops_batsim.scheduling.module import SchedulerOptions, System
from qops_batsim.scheduling.space_sharing import SpaceSharingScheduler


def taken(queue: deque[Job], processors: int) -> list[Job]:
    """Take the jobs out of a queue that ask for more processors than that, and return them."""
    wider = [job for job in queue if job.processors > processors]
    if wider:
        fitting = [job for job in queue if job.processors <= processors]
        queue.clear()
        queue.extend(fitting)
    return wider


def taken_by_id(queue: deque[Job], job_id: str) -> Job | None:
    """Take a job out of a queue and return it; None if it is not there."""
    for place, job in enumerate(queue):
        if job.id == job_id:
            del queue[place]
            return job
    return None


class Fcfs(SpaceSharingScheduler):
    """Start jobs strictly in the order of submission; the first that does not fit blocks the rest.

    Needs no estimates. O(1) for each event and start.

    A job that is wider than what is left of a machine whose hosts have gone away blocks the
    rest as well, until they return or it is known that they will not: nothing else would be
    first come, first served. Then it is rejected.
    """

    drains = False
    backfills = False
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

    def withdraw_wider(self, processors: int) -> list[Job]:
        """Take such jobs out of the queue."""
        return taken(self._queue, processors)

    def withdraw(self, job_id: str) -> tuple[Job | None, bool]:
        """Take a job out of the queue."""
        return taken_by_id(self._queue, job_id), False

    def joined(self, job: Job, start: float, hosts: HostSet) -> None:
        """Do nothing: only the count of free hosts matters."""

    def left(self, job: Job) -> None:
        """Do nothing: only the count of free hosts matters."""

    def _in_line(self, now: float) -> Sequence[Job]:
        """Return the jobs by arrival."""
        return list(self._queue)

    def _leave_line(self, jobs: Sequence[Job], now: float) -> None:
        """Take so many jobs from the head of the queue."""
        for _ in jobs:
            self._queue.popleft()

    def schedule(self, now: float) -> None:
        """Start jobs from the head of the queue as long as they fit."""
        queue = self._queue
        while queue and queue[0].processors <= self.free_count:
            self.start(queue.popleft())
