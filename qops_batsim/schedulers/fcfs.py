"""First come, first served."""

from __future__ import annotations

from qops_batsim.core.job import WAITING
from qops_batsim.schedulers.queue_scheduler import QueueScheduler


class Fcfs(QueueScheduler):
    """Start jobs strictly in the order of submission; the first that does not fit blocks the rest.

    Needs no estimates. Amortised O(1) for each event and start.

    A job that is wider than what is left of a machine whose hosts have gone away blocks the rest as
    well, until they return or it is known that they will not: nothing else would be first come,
    first served. Then it is rejected.

    Examples
    --------
    >>> class OneOfAUser(Fcfs):
    ...     def may_start(self, job):
    ...         return all(other.user != job.user for other in self.running)
    >>> from qops_batsim import simulate
    >>> len(simulate(OneOfAUser, "tiny_8").ended)
    8
    """

    drains = False
    backfills = False
    summary = "first come, first served, no backfilling"

    def schedule(self) -> None:
        """Start jobs from the head of the queue as long as they fit."""
        if self.has_limits:
            self.start_allowed()
            return

        queue = self.queue
        jobs = queue.jobs
        while queue.first < len(jobs):
            job = jobs[queue.first]
            if job.phase == WAITING:
                if not self.fits_now(job):
                    break
                self.start(job)
            queue.first += 1

        # That is done when half of them have left, so that it costs O(1) a job.
        if queue.first > 0 and 2 * queue.first >= len(jobs):
            del jobs[: queue.first]
            queue.first = 0

    def start_allowed(self) -> None:
        """Start jobs in order until one does not fit; skip those for which :meth:`may_start` is
        false. O(queue).
        """
        for job in self.queue.listed():
            if self.may_start(job):
                if not self.fits_now(job):
                    break
                self.start(job)
        self.queue.close_up(0)
