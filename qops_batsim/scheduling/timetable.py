"""Promised starts and maintenance windows, for schedulers that keep no plan.

As long as there are any, certain hosts are planned with instead of numbers of processors, for a
job must not be on a host when that is wanted. Jobs are planned with what they ask for, never with
predicted run times.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from qops_batsim.jobs import Job
from qops_batsim.kernels import kernel
from qops_batsim.platform.hostset import HostSet
from qops_batsim.scheduling.capacity import Capacity
from qops_batsim.scheduling.host_fits import earlier_hosts, earliest_hosts
from qops_batsim.scheduling.host_words import WORD_BITS, hosts_of, words_of
from qops_batsim.scheduling.profile import (
    STEPS_PER_RESERVATION,
    Floats,
    Ints,
    Profile,
    Words,
    change,
    new_profile,
    reserve,
)
from qops_batsim.scheduling.refusal import Refusal, no_time, start_taken
from qops_batsim.scheduling.table import fixed_start_of
from qops_batsim.timing import (
    DEADLINE_TOLERANCE,
    GRID_TOLERANCE,
    duration_on_grid,
    end_of,
    up_to_grid,
)

OVERDUE = 1.0
"""A job that runs longer than its estimate is expected to run for so much longer (seconds)."""


class Booking(NamedTuple):
    """A promised start (seconds), the hosts that are kept for it, and how many left since."""

    job: Job
    start: float
    hosts: HostSet
    lost: int = 0


class Timetable:
    """Promised starts, and what can start now beside them and beside maintenance windows.

    Attributes
    ----------
    bookings
        Promised starts to come.
    asked
        New jobs with fixed starts.
    """

    def __init__(self, machine_size: int) -> None:
        self._machine_size, self._words = machine_size, -(-machine_size // WORD_BITS)
        self.bookings: list[Booking] = []
        self.asked: list[Job] = []
        self._called_for = -math.inf
        self._lost = False

    def is_needed(self, capacity: Capacity) -> bool:
        """Tell whether anything is known of later dates. O(1)."""
        return bool(self.bookings or self.asked or capacity.windows)

    def profile(
        self,
        now: float,
        capacity: Capacity,
        running: Iterable[tuple[Job, float, HostSet]],
        jobs: int,
    ) -> Profile:
        """Return which hosts are free when, with room for so many reservations more."""
        runs, date = list(running), up_to_grid(now)
        count = len(runs) + len(capacity.windows) + len(self.bookings) + jobs
        present = HostSet.first(self._machine_size) - capacity.away
        made = new_profile(words_of(present, self._words), STEPS_PER_RESERVATION * count + 2)
        made.times[0] = date
        for job, start, hosts in runs:
            end = end_of(up_to_grid(start), duration_on_grid(job.estimate))
            end = end if end > date else end_of(date, OVERDUE)
            change(made, date, end, words_of(hosts, self._words), False)
        for window in capacity.windows:
            row = words_of(window.hosts, self._words)
            change(made, max(date, window.since), window.until, row, False)
        for place, booking in enumerate(self.bookings):
            if self._lost:
                self.bookings[place] = self._moved(made, booking, date)
            self._reserve(made, self.bookings[place], date)
        self._lost = False
        return made

    def _moved(self, profile: Profile, booking: Booking, now: float) -> Booking:
        """Return a booking at its earliest fit from its start on, if there is one."""
        row, estimate = np.zeros(self._words, np.uint64), duration_on_grid(booking.job.estimate)
        after, needed = max(now, booking.start), booking.job.processors
        start = float(earliest_hosts(profile, after, estimate, needed, row))
        return booking if start == math.inf else booking._replace(start=start, hosts=hosts_of(row))

    def _reserve(self, profile: Profile, booking: Booking, now: float) -> None:
        estimate = duration_on_grid(booking.job.estimate)
        row = words_of(booking.hosts, self._words)
        reserve(profile, max(now, booking.start), estimate, row)

    def answers(self, now: float, profile: Profile) -> list[tuple[Job, Refusal | None]]:
        """Answer the jobs that ask for starts; those that get them are booked."""
        found: list[tuple[Job, Refusal | None]] = []
        asked, self.asked = self.asked, []
        for job in asked:
            booking, refusal = self._book(now, profile, job)
            if booking is not None:
                self.bookings.append(booking)
                self._reserve(profile, booking, now)
            found.append((job, refusal))
        return found

    def _book(
        self, now: float, profile: Profile, job: Job
    ) -> tuple[Booking | None, Refusal | None]:
        start, estimate = fixed_start_of(job.qos), duration_on_grid(job.estimate)
        assert job.qos is not None
        deadline = math.inf if job.qos.deadline is None else job.qos.deadline
        if end_of(start, estimate) > deadline + DEADLINE_TOLERANCE:
            return None, no_time(job.estimate, deadline - start, deadline)
        row = np.zeros(self._words, np.uint64)
        first = max(start, up_to_grid(now))
        free = float(earliest_hosts(profile, first, estimate, job.processors, row))
        if free > start:
            return None, start_taken(start, free)
        return Booking(job, start, hosts_of(row)), None

    def note_loss(self, hosts: int) -> None:
        """Note that so many hosts have left, or will."""
        self._lost = True
        self.bookings = [each._replace(lost=each.lost + hosts) for each in self.bookings]

    def due(self, now: float, free: HostSet) -> list[Booking]:
        """Return whose promised start has come and whose hosts are free; it is booked no more.

        Where they are not, because a job outlives its estimate or hosts have left, it takes
        others that are kept for nothing else while it runs, as soon as there are any. Its own may
        have been promised to another one meanwhile.
        """
        found, kept = [], list(self.bookings)
        for booking in self.bookings:
            if booking.start > now + GRID_TOLERANCE:
                continue
            hosts, others = booking.hosts, free
            end = end_of(now, duration_on_grid(booking.job.estimate))
            # Late ones do not wait for each other.
            for other in kept:
                if other is not booking and now - GRID_TOLERANCE <= other.start < end:
                    others -= other.hosts
            is_late = booking.start < now - GRID_TOLERANCE
            if hosts - (others if is_late else free):
                if len(others) < booking.job.processors:
                    continue
                hosts = others.lowest(booking.job.processors)
            free -= hosts
            kept.remove(booking)
            found.append(booking._replace(hosts=hosts))
        self.bookings = kept
        return found

    def starts(
        self, now: float, profile: Profile, line: Sequence[Job], free: HostSet, *, backfills: bool
    ) -> list[tuple[Job, HostSet]]:
        """Return which jobs of a line start now, on which hosts: see :func:`timed_pass`."""
        count = len(line)
        started, rows = np.zeros(count, np.int64), np.zeros((count + 1, self._words), np.uint64)
        needed = np.array([job.processors for job in line], np.int64)
        estimates = np.array([duration_on_grid(job.estimate) for job in line], float)
        many = int(
            timed_pass(
                up_to_grid(now), profile, needed, estimates, words_of(free, self._words),
                backfills, started, rows,
            )
        )  # fmt: skip
        chosen = started[:many].tolist()
        return [(line[place], hosts_of(rows[index])) for index, place in enumerate(chosen)]

    def call_for_start(self, now: float) -> float | None:
        """Return the date (seconds) of the next promised start, once, or None."""
        date = min((each.start for each in self.bookings if each.start > now), default=math.inf)
        if date in (math.inf, self._called_for):
            return None
        self._called_for = date
        return date

    def withdraw(self, job_id: str | None = None, wider_than: int | None = None) -> list[Job]:
        """Take a job out that asks for a start or has one, or those that ask for more processors.

        They are returned.
        """

        def leaves(job: Job) -> bool:
            return job.id == job_id or (wider_than is not None and job.processors > wider_than)

        gone = [job for job in (*(each.job for each in self.bookings), *self.asked) if leaves(job)]
        self.bookings = [each for each in self.bookings if not leaves(each.job)]
        self.asked = [job for job in self.asked if not leaves(job)]
        return gone


@kernel
def timed_pass(
    now: float,
    profile: Profile,
    processors: Ints,
    estimates: Floats,
    free: Words,
    backfills: bool,
    started: Ints,
    rows: Words,
) -> int:
    """Decide which jobs of a line start now; return how many, with places and hosts written.

    Each starts if hosts are free for its whole estimate. The first one that does not is reserved
    for at its earliest fit; behind it others start that leave that to it, if the line
    ``backfills``. Hosts that are not ``free`` may be expected to be: who waits for that is reserved
    for as well. O(line × steps × words), O(steps²) for the first one.
    """
    count, is_reserved, counts = 0, False, profile.size[:0]
    for place in range(len(processors)):
        row, limit = rows[count], np.inf
        if is_reserved:
            limit = now
        start = earlier_hosts(
            profile, now, estimates[place], processors[place], limit, np.inf, row, row, counts
        )
        if start == np.inf and not backfills:
            break
        if start == np.inf or (start > now and is_reserved):
            continue
        reserve(profile, start, estimates[place], row)
        is_free = start <= now
        for word in range(len(free)):
            is_free = is_free and row[word] & ~free[word] == 0
        if is_free:
            for word in range(len(free)):
                free[word] &= ~row[word]
            started[count] = place
            count += 1
        elif not backfills:
            break
        else:
            is_reserved = True
    return count
