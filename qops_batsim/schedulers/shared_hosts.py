"""What running jobs leave free of hosts that jobs share, for schedulers that keep no plan."""

from __future__ import annotations

from typing import Any

from qops_batsim.core.host_bits import HostBits
from qops_batsim.core.hostset import HostSet
from qops_batsim.core.job import Job
from qops_batsim.core.node_profile import NodeProfile
from qops_batsim.core.node_request import HostPart, Places
from qops_batsim.core.scheduler import ResourceManager
from qops_batsim.timing import SHORTEST, end_of, up_to_grid

MOST_FREED = 10_000
"""Of so many hosts is noted that they came free; then all are looked at again."""


class SharedHosts:
    """The profile of the running jobs on their hosts until their expected ends.

    A job that runs longer than expected counts as about to end, a microsecond from now; not as long
    as the news of its end may be under way. The profile is kept from one pass to the next.

    Attributes
    ----------
    profile
        What the running jobs leave free, and in a pass what is reserved.
    now
        The date of the current pass (seconds, whole microseconds).
    number
        The number of the current pass, which no other one on this machine has: what a pass learns
        of a request stands in its parts, which simulations ahead have as well.
    is_stale
        Whether the next pass has to build the profile again.
    reserved
        The waiting jobs that have a reservation in the current pass, from ``job.trial`` on.
    """

    def __init__(self, manager: ResourceManager) -> None:
        self.manager = manager
        self.profile = NodeProfile(manager.use.layout)
        self.now = 0.0
        self.number = 0
        self.is_stale = False
        self.overdue: list[Job] = []
        self.reserved: list[Job] = []
        self.owner = 0
        self.freed: list[int] = []
        self.forget()

    def forget(self) -> None:
        """Forget what parts know of the free hosts: any may have come free."""
        self.owner = self.profile.layout.next_stamp()
        self.freed.clear()

    def came_free(self, places: Places) -> None:
        """Note that amounts came free on the hosts of places. O(places)."""
        if len(self.freed) > MOST_FREED:
            self.forget()
        for place in range(places.size):
            self.freed.append(places.row_of(place))

    def is_short(self, part: HostPart) -> bool:
        """Return whether too little is free now for a part, for however short a time. O(hosts that
        came free since it was last asked), now and then O(candidates).
        """
        profile = self.profile
        needed = part.tasks or part.count
        if part.owner == self.owner:
            for place in range(part.seen, len(self.freed)):
                row: Any = self.freed[place]
                room = profile.room_now(part, row)
                if room > 0 and part.has_candidate(row):
                    part.room += room
            part.seen = len(self.freed)
            if part.room < needed:
                return True

        # A host may have been counted twice, and another one been taken.
        part.owner = self.owner
        part.seen = len(self.freed)
        part.room = 0
        for place in range(part.size):
            part.room += profile.room_now(part, part.candidates[place])
        return part.room < needed

    def end_of(self, job: Job) -> float:
        """Return the expected end of a running job (seconds, whole microseconds)."""
        return end_of(up_to_grid(job.start), job.duration)

    def begin_pass(self, running: list[Job]) -> None:
        """Bring the profile up to date; jobs are by expected end. O(hosts + overdue jobs)."""
        manager = self.manager
        profile = self.profile
        for job in self.overdue:
            profile.give(job, self.now, self.now + SHORTEST)
        self.overdue.clear()

        self.now = up_to_grid(manager.now)
        self.number = self.profile.layout.next_stamp()
        if self.is_stale:
            self.rebuild(running)
        profile.trim(self.now)
        for job in running:
            end = self.end_of(job)
            if end > self.now + manager.grace:
                break
            if end <= self.now - manager.grace:
                profile.take(job, self.now, self.now + SHORTEST)
                self.overdue.append(job)

    def rebuild(self, running: list[Job]) -> None:
        """Build the profile from the running jobs, on hosts on which jobs may start. O(running ×
        steps).
        """
        manager = self.manager
        self.is_stale = False
        self.forget()
        closed = manager.capacity.closed(drains=manager.drains)
        there = HostSet.first(manager.machine_size) - closed
        self.profile.reset(self.now, HostBits.of(there.mask, manager.machine_size))
        for job in running:
            job.request.held.copy_from(job.request.used)
            job.request.held.keep_within(there.mask)
            self.profile.take(job, self.now, self.end_of(job))

    def current(self, running: list[Job]) -> NodeProfile:
        """Return a copy of the profile of the running jobs as of now; jobs are by expected end.
        O(hosts + overdue jobs + steps).
        """
        self.begin_pass(running)
        profile = NodeProfile(self.profile.layout)
        profile.copy_from(self.profile)
        for job in self.reserved:
            profile.give(job, job.trial, end_of(job.trial, job.duration))
        return profile

    def reserve(self, job: Job, start: float) -> None:
        """Reserve the hosts that a waiting job holds from ``start`` (seconds) on, for this pass."""
        job.trial = start
        self.profile.take(job, start, end_of(start, job.duration))
        self.reserved.append(job)

    def end_pass(self) -> None:
        """Release what waiting jobs have reserved in this pass."""
        for job in self.reserved:
            self.profile.give(job, job.trial, end_of(job.trial, job.duration))
            if job.trial <= self.now:
                self.came_free(job.request.held)
        self.reserved.clear()

    def started(self, job: Job) -> None:
        """Reserve the hosts of a job that has just started."""
        self.profile.take(job, self.now, self.end_of(job))

    def ended(self, job: Job) -> None:
        """Release the hosts of a job that has ended."""
        self.profile.give(job, up_to_grid(self.manager.now), self.end_of(job))
        self.came_free(job.request.held)

    def fit(self, job: Job) -> float:
        """Return the earliest fit of a waiting job (seconds), which holds the hosts found there."""
        return self.profile.fit(job, self.now)

    def fits_now(self, job: Job) -> bool:
        """Return whether a waiting job fits now, and have it hold the hosts found.

        What has been found not to fit in this pass does not fit if it asks for the same for as
        long.
        """
        request = job.request
        part: Any = request.parts[0] if request.is_single else None
        is_known = part is not None and part.failed_pass == self.number
        if is_known and job.duration >= part.failed_duration:
            return False
        # Where news is late, hosts come free without any.
        if part is not None and self.manager.grace == 0 and self.is_short(part):
            return False
        if self.profile.fits_at(job, self.now):
            return True
        if part is not None:
            part.failed_pass = self.number
            part.failed_duration = job.duration
        return False
