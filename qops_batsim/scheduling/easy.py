"""EASY backfilling."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qops_batsim.jobs import Job
from qops_batsim.scheduling.module import System
from qops_batsim.scheduling.space_sharing import SpaceSharingScheduler

if TYPE_CHECKING:
    from qops_batsim.scheduling.table import JobTable


class Easy(SpaceSharingScheduler):
    """Aggressive backfilling: only the first waiting job has a reservation.

    Jobs start in order of arrival as long as they fit. The first that does not
    fit is promised the *shadow time*, when enough running jobs are expected to
    have ended; the processors left over then are the *extra* ones. A later job
    may start now if it is expected to end by the shadow time or needs only extra
    processors.

    Plans with estimates (``qos.estimated_runtime``, else the walltime); a job
    without one is planned as if it never ended.
    """

    summary = "EASY backfilling: one reservation, shadow time and extra processors"

    @classmethod
    def prepare(cls) -> None:
        """Compile the kernel by one empty pass."""
        from qops_batsim.scheduling.easy_kernel import arrays, easy_pass
        from qops_batsim.scheduling.table import JobTable

        table = JobTable()
        queue, slots, ends, gone, started = arrays(1)
        easy_pass(
            0.0, 0, table.processors, table.estimates, queue, 0, slots, ends, 0, gone, 0, started
        )

    def begin(self, system: System) -> None:
        """Start with an empty queue."""
        from qops_batsim.scheduling.easy_kernel import arrays, easy_pass
        from qops_batsim.scheduling.table import JobTable

        super().begin(system)
        self._pass = easy_pass
        self._table: JobTable = JobTable()
        self._queue, *_ = arrays(1024)
        # No more jobs run than there are processors.
        _, self._slots, self._ends, self._gone, self._started = arrays(self.machine_size + 1)
        self._queued = self._running = self._gone_count = 0

    def arrived(self, job: Job) -> None:
        """Append the job to the queue."""
        if self._queued == len(self._queue):
            from qops_batsim.scheduling.table import grown

            self._queue = grown(self._queue)
        self._queue[self._queued] = self._table.add(job)
        self._queued += 1

    def left(self, job_id: str) -> None:
        """Note the job for the next pass."""
        self._gone[self._gone_count] = self._table.slot_of(job_id)
        self._gone_count += 1

    def schedule(self, now: float) -> None:
        """Start the jobs that fit without delaying the first one that does not."""
        table = self._table
        count, self._queued, self._running = self._pass(
            now,
            self.free_count,
            table.processors,
            table.estimates,
            self._queue,
            self._queued,
            self._slots,
            self._ends,
            self._running,
            self._gone,
            self._gone_count,
            self._started,
        )
        self._gone_count = 0
        for index in range(count):
            self.start(table.jobs[self._started[index]])
