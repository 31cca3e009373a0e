"""Reservations at fixed dates: starts that were promised to jobs, and maintenance windows."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from qops_batsim.core.job import Job
from qops_batsim.core.plan_hosts import PlanHosts
from qops_batsim.core.profile import Profile
from qops_batsim.timing import DEADLINE_TOLERANCE, end_of, on_grid

if TYPE_CHECKING:
    from qops_batsim.core.capacity import MaintenanceWindow

INFINITY = math.inf


class FixedReservation:
    """A reservation at a fixed date: for a job with a promised start, or for maintenance.

    Attributes
    ----------
    start, end
        Dates (seconds).
    job
        The job, None of maintenance.
    amount
        What is reserved: a number of processors, or hosts.
    is_placed
        While starts are placed again, whether this one has kept its hosts.
    """

    def __init__(self, start: float, end: float, job: Job | None, amount: Any) -> None:
        self.start = start
        self.end = end
        self.job = job
        self.amount = amount
        self.is_placed = False


class FixedReservations:
    """The promised starts of jobs, and the maintenance windows, that a plan reserves.

    Attributes
    ----------
    listed
        The reservations, in the order in which they were made.
    """

    def __init__(self, hosts: PlanHosts) -> None:
        self.hosts = hosts
        self.listed: list[FixedReservation] = []

    def jobs(self) -> list[Job]:
        """Return the jobs with promised starts. O(reservations)."""
        return [each.job for each in self.listed if each.job is not None]

    def place_of(self, job: Job) -> int:
        """Return the index of a job's promised start, -1 if it has none. O(reservations)."""
        for place in range(len(self.listed)):
            reservation = self.listed[place]
            if reservation.job is job:
                return place
        return -1

    def has_job_before(self, date: float) -> bool:
        """Return whether a job has a promised start before ``date`` (may be infinite).
        O(reservations).
        """
        for reservation in self.listed:
            if reservation.job is not None and reservation.start < date:
                return True
        return False

    def next_start(self, date: float) -> float:
        """Return the first promised start after ``date``, infinity if there is none.
        O(reservations).
        """
        start = INFINITY
        for reservation in self.listed:
            if reservation.job is not None and reservation.start > date:
                start = min(start, reservation.start)
        return start

    def promise(self, job: Job, profile: Profile, now: float) -> float:
        """Promise a new job the start that it asks for, if it fits there without moving any other
        job.

        Return the first date from the requested one on at which the job fits: the requested date
        itself if it was promised. NaN if the job would end after its deadline even at the requested
        start.
        """
        asked = job.fixed_start
        if end_of(asked, job.duration) > job.target + DEADLINE_TOLERANCE:
            return math.nan
        start = profile.fit(job, max(now, asked))
        if start <= asked:
            self.reserve(job, asked, profile)
        return start

    def reserve(self, job: Job, start: float, profile: Profile) -> None:
        """Reserve a promised start for a job, which must fit there without moving any other job.

        The job must end in time there; it is never killed for another job.
        """
        end = end_of(start, job.duration)
        self.listed.append(FixedReservation(start, end, job, self.hosts.amount_for(job)))
        profile.take(job, start, end)
        job.is_kept = True
        job.start = start

    def take(self, profile: Profile, now: float, of_jobs: bool) -> None:
        """Reserve in a profile the jobs' promised starts (``of_jobs``) or else the maintenance
        windows. O(reservations × steps).
        """
        for reservation in self.listed:
            if (reservation.job is not None) == of_jobs:
                start = max(now, reservation.start)
                profile.take_amount(start, reservation.end, reservation.amount)

    def refit(self, profile: Profile, now: float, due: float, is_idle: bool) -> bool:
        """Place the promised starts in a profile; return whether an overdue one found no place at
        once.

        A start keeps its date or moves to its next fit. Where hosts are named, starts that have not
        slipped keep theirs, as far as these are free, before others look for new ones. Starts still
        to come are placed before overdue ones, those before the date ``due``. Overdue ones that do
        not fit now are left out in a first call, and placed in a second one (``is_idle``) as if
        nothing ran: nobody knows when running jobs that outlive their estimates will end.
        """
        is_left = False
        for reservation in self.listed:
            job = reservation.job
            reservation.is_placed = False
            if job is None or not self.hosts.names_hosts:
                continue
            start = reservation.start
            end = reservation.end
            if is_idle:
                keeps = end > -INFINITY
            else:
                keeps = min(start, job.fixed_start) >= now
                keeps = keeps and profile.has_amount(start, end, reservation.amount)
            if keeps:
                profile.take_amount(start, end, reservation.amount)
                reservation.is_placed = True

        for is_due in (False, True):
            for reservation in self.listed:
                job = reservation.job
                if job is None or reservation.is_placed:
                    continue
                if (min(reservation.start, job.fixed_start) < due) != is_due:
                    continue
                if is_idle and reservation.end > -INFINITY:
                    profile.take_amount(reservation.start, reservation.end, reservation.amount)
                    continue

                after = max(now, reservation.start)
                start = profile.fit(job, after)
                if is_due and not is_idle and start > after:
                    reservation.end = -INFINITY
                    is_left = True
                    continue

                if start < INFINITY:
                    reservation.amount = self.hosts.amount_for(job)
                else:
                    # It fits at no date that is known: it waits on what it had.
                    self.hosts.restore_amount(job, reservation.amount)
                    start = after

                job.start = start
                reservation.start = start
                reservation.end = end_of(start, job.duration)
                if not is_idle:
                    profile.take(job, start, reservation.end)

        return is_left

    # Maintenance

    def drop_windows(self) -> None:
        """Remove the maintenance windows. O(reservations)."""
        self.listed = [each for each in self.listed if each.job is not None]

    def reserve_window(
        self,
        window: MaintenanceWindow,
        hosts: int,
        is_closed: bool,
        running: list[Job],
        hosts_of: Mapping[Job, int],
    ) -> None:
        """Reserve a maintenance window's hosts (bits) until it ends; where they are numbers and
        closed already, until the jobs that still run on them end.
        """
        until = on_grid(window.until)
        if self.hosts.names_hosts or not is_closed:
            self.add_window(on_grid(window.since), until, hosts)
            return
        for job in running:
            used = hosts_of[job] & hosts
            if job.end > window.until and used:
                self.add_window(0.0, on_grid(job.end), used)
                hosts &= ~used
        self.add_window(0.0, until, hosts)

    def add_window(self, since: float, until: float, hosts: int) -> None:
        """Reserve hosts (bits) for maintenance between two dates (seconds)."""
        amount = self.hosts.amount_of(hosts)
        self.listed.append(FixedReservation(since, until, None, amount))
