"""Promised starts and maintenance windows, for schedulers that keep no plan.

As long as there are any, certain hosts are planned with instead of numbers of processors, for a
job must not be on a host when that is wanted. Jobs are planned with what they ask for, never with
predicted run times.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from qops_batsim.core.fixed_reservations import FixedReservations
from qops_batsim.core.host_bits import HostBits
from qops_batsim.core.hostset import HostSet
from qops_batsim.core.job import Job
from qops_batsim.core.node_profile import NodeProfile
from qops_batsim.core.node_use import NodeUse
from qops_batsim.core.plan_hosts import PlanHosts, SharedPlanHosts
from qops_batsim.core.profile import HostProfile, Profile
from qops_batsim.core.refusal import Refusal, RefusalKind, no_time, start_taken
from qops_batsim.core.scheduler import ResourceManager
from qops_batsim.timing import DEADLINE_TOLERANCE, GRID_TOLERANCE, end_of, up_to_grid

OVERDUE = 1.0
"""A job that runs longer than its estimate is expected to run for so much longer (seconds)."""

Starter = Any
"""A :class:`~qops_batsim.schedulers.queue_scheduler.QueueScheduler`, which uses this module."""

INFINITY = math.inf


class Timetable(FixedReservations):
    """The promised starts (reservations by users), which other jobs must not delay.

    Attributes
    ----------
    asked
        New jobs with fixed starts.
    use
        What is free now where jobs share hosts by amounts; None where hosts are whole.
    """

    def __init__(self, machine_size: int, use: NodeUse | None = None) -> None:
        self.use = use
        if use is None:
            FixedReservations.__init__(self, PlanHosts(machine_size, by_host=True))
            self.profile: Profile = HostProfile(machine_size)
        else:
            FixedReservations.__init__(self, SharedPlanHosts(use))
            self.profile = NodeProfile(use.layout)
        self.now = 0.0
        self.is_resized = False
        self.asked: list[Job] = []
        self.called_for = -INFINITY

    def is_needed(self, manager: ResourceManager) -> bool:
        """Return whether any start is promised or requested, or maintenance is announced. O(1)."""
        if self.listed or self.asked:
            return True
        return bool(manager.capacity.windows)

    def drop(self, jobs: Sequence[Job]) -> None:
        """Remove jobs with a requested or promised start from the timetable. O(jobs ×
        promises).
        """
        leaving = {id(job) for job in jobs}
        self.asked = [job for job in self.asked if id(job) not in leaving]
        self.listed = [each for each in self.listed if id(each.job) not in leaving]

    def note_change(self, lost: int) -> None:
        """Record that hosts left or returned; ``lost`` of them left unannounced."""
        self.is_resized = True
        for job in self.jobs():
            job.lost += lost

    def decide(self, scheduler: Starter) -> None:
        """Answer requests for starts; start the promised jobs that are due, and jobs that delay
        none.
        """
        manager = scheduler.manager
        line = scheduler.line()
        self.write(scheduler)
        for job in self.asked:
            self.answer(manager, job)
        self.asked = []
        self.start_promised(scheduler)
        self.start_beside(scheduler, line)
        self.call_for_start(manager)

    def answer(self, manager: ResourceManager, job: Job) -> None:
        """Promise a new job the start that it requests, or reject it if it does not fit there."""
        asked = job.fixed_start
        start = self.promise(job, self.profile, self.now)
        # NaN: the job would miss its deadline even with that start.
        if start != start:
            manager.reject(job, no_time(job.estimate, job.deadline - asked, job.deadline))
        elif start > asked:
            manager.reject(job, start_taken(asked, start))
        elif job.qos is not None:
            manager.record(job).latest_start = job.qos.start

    # What is free

    def write(self, scheduler: Starter) -> None:
        """Rebuild the profile of running jobs, maintenance and promised starts.

        Promised starts that cannot be kept are moved.
        """
        manager = scheduler.manager
        running = scheduler.running
        self.now = up_to_grid(manager.now)
        now = self.now
        # What is due now and finds its hosts taken is looked at as what is late.
        due = now + GRID_TOLERANCE
        if self.has_job_before(INFINITY if self.is_resized else due):
            self.write_others(manager, running)
            # Overdue starts for which running jobs leave no place are placed as if none ran.
            if self.refit(self.profile, now, due, False):
                self.write_others(manager, [])
                self.refit(self.profile, now, due, True)
        self.is_resized = False

        self.write_others(manager, running)
        self.take(self.profile, now, True)

    def write_others(self, manager: ResourceManager, running: list[Job]) -> None:
        """Build the availability profile from running jobs and maintenance. O(running × steps)."""
        now = self.now
        profile = self.profile
        capacity = manager.capacity
        profile.reset(now, self.hosts.amount_of(self.hosts.all & ~capacity.away.mask))

        for job in running:
            end = end_of(up_to_grid(job.start), job.requested)
            end = end if end > now else end_of(now, OVERDUE)
            if self.use is None:
                profile.take_amount(now, end, self.hosts.amount_of(manager.hosts_of(job)))
            else:
                profile.take_amount(now, end, job.request.used)

        for window in capacity.windows:
            hosts = self.hosts.amount_of(window.hosts.mask)
            profile.take_amount(max(now, window.since), window.until, hosts)

    # Starts

    def start_promised(self, scheduler: Starter) -> None:
        """Start the jobs whose promised starts are due and whose hosts are free."""
        manager = scheduler.manager
        place = 0
        while place < len(self.listed):
            reservation = self.listed[place]
            job = reservation.job
            assert job is not None
            if reservation.start > manager.now + GRID_TOLERANCE or not self.starts(
                scheduler, job, reservation.amount
            ):
                place += 1
                continue
            del self.listed[place]

            assert job.qos is not None
            promise = job.qos.start
            assert promise is not None
            # Its hosts have left, and others came free too late.
            if job.lost > 0 and manager.now > promise + DEADLINE_TOLERANCE:
                record = manager.record(job)
                record.latest_start = manager.now
                loss = Refusal(kind=RefusalKind.HOSTS_LOST, hosts=job.lost)
                record.note_renewal(promise, loss)

    def start_beside(self, scheduler: Starter, line: list[Job]) -> None:
        """Start waiting jobs, in order, that fit now without delaying promised starts.

        The first one that does not fit is reserved for at its earliest fit; behind it others start
        that leave that to it, if the scheduler backfills. Hosts that are not free may be expected
        to be: who waits for that is reserved for as well. O(line × steps), O(steps²) for the first.
        """
        backfills = scheduler.backfills
        is_reserved = False
        for job in line:
            if not scheduler.may_start(job):
                continue
            start = self.fit(job, self.now if is_reserved else INFINITY)
            if start == INFINITY and not backfills:
                break
            if start == INFINITY or (start > self.now and is_reserved):
                continue

            self.profile.take(job, start, end_of(start, job.requested))
            if start <= self.now and self.starts(scheduler, job, job.bits):
                continue
            if not backfills:
                break
            is_reserved = True

    def starts(self, scheduler: Starter, job: Job, hosts: Any) -> bool:
        """Start a job on its hosts, those that it holds where hosts are shared, if they are free;
        return whether they are.
        """
        if self.use is None:
            mask = hosts.mask()
            if mask & ~scheduler.manager.free_mask():
                return False
            scheduler.start(job, HostSet(mask))
            return True
        if not self.use.fits(job):
            return False
        scheduler.start(job)
        return True

    def fit(self, job: Job, limit: float) -> float:
        """Return the earliest start of a job from now up to ``limit``, now or infinite (seconds);
        infinite if it fits at none.
        """
        # The profile looks at durations; predicted ones are not planned with.
        predicted = job.duration
        job.duration = job.requested
        start: float
        if self.use is not None:
            nodes: Any = self.profile  # a NodeProfile
            if limit == INFINITY:
                start = nodes.fit(job, self.now)
            else:
                start = self.now if nodes.fits_at(job, self.now) else INFINITY
        else:
            profile: Any = self.profile  # a HostProfile
            if job.bits.size == 0:
                job.bits = HostBits(self.hosts.machine_size)
            start = profile.earlier_hosts(job, job.bits, self.now, limit, INFINITY)
        job.duration = predicted
        return start

    def call_for_start(self, manager: ResourceManager) -> None:
        """Ask the engine to call the scheduler at the next promised start."""
        date = self.next_start(manager.now)
        if date < INFINITY and date != self.called_for:
            self.called_for = date
            manager.call_at(date)
