"""What running jobs leave free of hosts that jobs share, for schedulers that keep no plan."""

from __future__ import annotations

from array import array
from typing import Any

from qops_batsim.core.arrays import LEAST_ROOM, grown
from qops_batsim.core.host_bits import HostBits
from qops_batsim.core.hostset import HostSet
from qops_batsim.core.job import Job
from qops_batsim.core.node_profile import NodeProfile
from qops_batsim.core.node_request import HostPart, Places
from qops_batsim.core.scheduler import ResourceManager
from qops_batsim.timing import SHORTEST, end_of, up_to_grid


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
        The number of the current pass and those just before it with the same reservations, which no
        other one on this machine has: what these learn of a request stands in its parts, which
        simulations ahead have as well.
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

        # The reservations of the passes with this number: how many (-1: not known), and the only
        # one; and whether those of the current pass were compared.
        self.reservations = -1
        self.reservation: Any = None
        self.reserved_from = 0.0
        self.reserved_places = Places()
        self.is_compared = False
        # The rows on which jobs have ended, one after the other.
        self.gained = array("q", bytes(8 * LEAST_ROOM))
        self.gains = 0

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
        self.is_compared = False
        if manager.grace > 0.0:
            self.reservations = -1  # Jobs count as ended before they are.
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
        self.reservations = -1
        closed = manager.capacity.closed(drains=manager.drains)
        there = HostSet.first(manager.machine_size) - closed
        self.profile.reset(self.now, HostBits.of(there.mask, manager.machine_size))
        is_whole = closed.mask == 0
        for job in running:
            job.request.held.copy_from(job.request.used)
            if not is_whole:
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
        if self.is_compared:
            self.number = self.profile.layout.next_stamp()
            self.reservations = -1

    def end_pass(self) -> None:
        """Release what waiting jobs have reserved in this pass."""
        for job in self.reserved:
            self.profile.give(job, job.trial, end_of(job.trial, job.duration))
        self.reserved.clear()

    def started(self, job: Job) -> None:
        """Reserve the hosts of a job that has just started."""
        self.profile.take(job, self.now, self.end_of(job))

    def ended(self, job: Job) -> None:
        """Release the hosts of a job that has ended."""
        self.profile.give(job, up_to_grid(self.manager.now), self.end_of(job))
        held = job.request.held
        for place in range(held.size):
            if self.gains == len(self.gained):
                self.gained = grown("q", self.gained)
            self.gained[self.gains] = held.row_of(place)
            self.gains += 1

    def compare_reservations(self) -> None:
        """Take a new number unless the reservations are those of the passes with this one."""
        self.is_compared = True
        count = len(self.reserved)
        job = self.reserved[0] if count == 1 else None
        if count == self.reservations and count < 2 and job is self.reservation:
            if job is None:
                return
            if job.trial == self.reserved_from and job.request.held.equals(self.reserved_places):
                return
        self.number = self.profile.layout.next_stamp()
        self.reservations = count
        self.reservation = job
        if job is not None:
            self.reserved_from = job.trial
            self.reserved_places.copy_from(job.request.held)

    def may_fit(self, part: HostPart, duration: float) -> bool:
        """Return whether a part that did not fit in a pass with this number may fit now.

        Beside the same reservations, a row that was not able is able only if a job on it has ended.
        """
        if part.failed_pass != self.number or duration < part.failed_duration:
            return True
        for place in range(part.failed_gains, self.gains):
            row = self.gained[place]
            if self.profile.may_take(row, part, self.now, part.failed_duration):
                return True
        part.failed_gains = self.gains
        return False

    def fit(self, job: Job) -> float:
        """Return the earliest fit of a waiting job (seconds), which holds the hosts found there."""
        return self.profile.fit(job, self.now)

    def fits_now(self, job: Job) -> bool:
        """Return whether a waiting job fits now, and have it hold the hosts found.

        What has been found not to fit does not fit if it asks for the same for as long: see
        :meth:`may_fit`.
        """
        if not self.is_compared:
            self.compare_reservations()
        request = job.request
        part: Any = request.parts[0] if request.is_single else None
        if part is not None and not self.may_fit(part, job.duration):
            return False
        if self.profile.fits_at(job, self.now):
            return True
        if part is not None:
            part.failed_pass = self.number
            part.failed_duration = job.duration
            part.failed_gains = self.gains
        return False
