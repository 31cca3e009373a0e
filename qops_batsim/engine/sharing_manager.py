"""The resource manager of a run in the embedded loop, on hosts that jobs share by amounts."""

from __future__ import annotations

from array import array

from qops_batsim.core.hostset import HostSet
from qops_batsim.core.job import Job
from qops_batsim.core.node_request import NodeLayout
from qops_batsim.core.node_use import NodeUse
from qops_batsim.engine.embedded_manager import EmbeddedManager
from qops_batsim.engine.wait_heap import Turns


class SharingManager(EmbeddedManager):
    """The manager of a run whose jobs share hosts, and sleep.

    A host computes as long as it has a job. ``jobs_on`` is how many compute on each, without those
    that were killed, which keep their amounts until the scheduler hears of that.
    """

    def __init__(self, layout: NodeLayout, jobs: int, turns: Turns) -> None:
        EmbeddedManager.__init__(self, layout.hosts, jobs, turns)
        self.use = NodeUse(layout)
        self.jobs_on = array("q", bytes(8 * layout.hosts))

    def start_job(self, job: Job, hosts: object) -> None:
        request = self.asking(job)
        is_one = hosts is None and request.held.size == 1 and not request.is_used
        if is_one and self.use.fits(job):
            # Usually it is one host; sets take longer.
            self.use.take(job)
            row = request.used.row_of(0)
            self.offsets[job.index] = self.used
            self.note_interval(row, row)
            self.begin_run(job, self.count_one(row, 1))
            return
        taken = HostSet(self.take_shared(job, hosts))
        self.offsets[job.index] = self.used
        for low, high in taken.intervals():
            self.note_interval(low, high)
        self.begin_run(job, self.count_on(taken, 1))

    def count_on(self, hosts: HostSet, more: int) -> int:
        """Count a job on its hosts (``more`` 1), or no longer (-1); return how many of them begin
        to compute by that (below 0: cease to).
        """
        changed = 0
        for host in hosts:
            changed += self.count_one(host, more)
        return changed

    def count_one(self, host: int, more: int) -> int:
        """Count a job on one host: see :meth:`count_on`."""
        before = self.jobs_on[host]
        self.jobs_on[host] = before + more
        return more if before == 0 or before + more == 0 else 0

    def leave(self, job: Job) -> None:
        used = job.request.used
        if used.size == 1:
            changed = self.count_one(used.row_of(0), -1)
        else:
            changed = self.count_on(HostSet(used.mask()), -1)
        self.note_taken(job)
        self.note_busy(changed)

    def note_taken(self, job: Job) -> None:
        if self.has_outages:
            busy = (host for host in range(self.machine_size) if self.jobs_on[host] > 0)
            self.taken = HostSet.of(busy).mask

    def release(self, job: Job) -> None:
        self.use.give(job)

    def free_mask(self) -> int:
        """Return the hosts that no job has and on which one can start (bits)."""
        idle = (host for host in range(self.machine_size) if self.use.jobs[host] == 0)
        closed: int = self.use.closed
        return HostSet.of(idle).mask & ~closed

    def count_free(self) -> None:
        """Count the hosts on which a job may start, as far as they have what it asks for."""
        self.use.closed = self.capacity.closed(drains=self.drains).mask
        self.free = self.machine_size - self.use.closed.bit_count()
