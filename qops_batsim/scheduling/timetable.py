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
from qops_batsim.scheduling.arrays import (
    STEPS_PER_RESERVATION,
    Floats,
    Ints,
    Profile,
    Words,
    new_claims,
    new_profile,
    with_room,
)
from qops_batsim.scheduling.capacity import Capacity
from qops_batsim.scheduling.core.plan import fit_claims, has_claims_before, promise_start
from qops_batsim.scheduling.host_fits import earlier_hosts
from qops_batsim.scheduling.host_words import WORD_BITS, hosts_of, words_of
from qops_batsim.scheduling.profile import change, drop_claim, reserve, take_claims
from qops_batsim.scheduling.qos_log import QosRecord
from qops_batsim.scheduling.refusal import Refusal, RefusalKind, no_time, start_taken
from qops_batsim.scheduling.table import SlotTable
from qops_batsim.timing import (
    DEADLINE_TOLERANCE,
    GRID_TOLERANCE,
    duration_on_grid,
    end_of,
    up_to_grid,
)

OVERDUE = 1.0
"""A job that runs longer than its estimate is expected to run for so much longer (seconds)."""


class TimedStarts(NamedTuple):
    """Decision of a timetable.

    Attributes
    ----------
    answers
        New jobs that ask for starts, and why they are refused, if they are.
    due
        Jobs whose promised start has come, with hosts, and how many left since it was promised.
    beside
        Jobs that start beside promised ones, with hosts.
    """

    answers: list[tuple[Job, Refusal | None]]
    due: list[tuple[Job, HostSet, int]]
    beside: list[tuple[Job, HostSet]]


class Timetable:
    """Promised starts, and what can start now beside them and beside maintenance windows.

    Attributes
    ----------
    asked
        New jobs with fixed starts.
    """

    def __init__(self, machine_size: int) -> None:
        self._machine_size, self._words = machine_size, -(-machine_size // WORD_BITS)
        self._table, self._claims = SlotTable(self._words), new_claims(0, self._words)
        self.asked: list[Job] = []
        self._called_for = -math.inf
        self._is_resized = False

    @property
    def promised(self) -> list[tuple[Job, float]]:
        """The jobs with promised starts to come, and these (seconds)."""
        claims, count = self._claims, int(self._claims.size[0])
        dates = claims.dates[:count, 0].tolist()
        return [
            (self._table.jobs[slot], date) for slot, date in zip(self._slots, dates, strict=True)
        ]

    @property
    def _slots(self) -> list[int]:
        found: list[int] = self._claims.slots[: self._claims.size[0]].tolist()
        return found

    def is_needed(self, capacity: Capacity) -> bool:
        """Tell whether anything is known of later dates. O(1)."""
        return bool(self._claims.size[0] or self.asked or capacity.windows)

    def profile(
        self,
        now: float,
        capacity: Capacity,
        running: Iterable[tuple[Job, float, HostSet]],
        jobs: int,
    ) -> Profile:
        """Return which hosts are free when, with room for so many reservations more."""
        runs, date, claims = list(running), up_to_grid(now), self._claims
        # What is due now and finds its hosts taken is looked at as what is late.
        due = date + GRID_TOLERANCE
        if has_claims_before(claims, math.inf if self._is_resized else due):
            for is_idle in (False, True):
                made = self._beside([] if is_idle else runs, date, capacity, 0)
                if not fit_claims(made, date, due, claims, self._table.numbers, is_idle):
                    break
        self._is_resized = False
        made = self._beside(runs, date, capacity, jobs)
        take_claims(made, date, claims, False)
        return made

    def _beside(
        self, runs: Sequence[tuple[Job, float, HostSet]], date: float, capacity: Capacity, jobs: int
    ) -> Profile:
        """Return which hosts are free beside running jobs and maintenance."""
        count = len(runs) + len(capacity.windows) + int(self._claims.size[0]) + jobs
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
        return made

    def decide(
        self,
        now: float,
        capacity: Capacity,
        running: Iterable[tuple[Job, float, HostSet]],
        line: Sequence[Job],
        free: HostSet,
        *,
        backfills: bool,
    ) -> TimedStarts:
        """Return the jobs that start now on free hosts: promised ones, and jobs of a line beside.

        New jobs that ask for starts are answered before that.
        """
        profile = self.profile(now, capacity, running, len(line) + len(self.asked))
        asked, self.asked = self.asked, []
        answers = [(job, self._answer(up_to_grid(now), profile, job)) for job in asked]
        due = self.due(now, free)
        for _, hosts, _ in due:
            free -= hosts
        beside = self.starts(now, profile, line, free, backfills=backfills)
        return TimedStarts(answers, due, beside)

    def _answer(self, now: float, profile: Profile, job: Job) -> Refusal | None:
        slot, self._claims = self._table.add(job), with_room(self._claims, 1)
        numbers = self._table.numbers
        found = float(promise_start(profile, self._claims, numbers, slot, now))
        asked, deadline = float(numbers.fixed_starts[slot]), float(numbers.deadlines[slot])
        if math.isnan(found):
            return no_time(job.estimate, deadline - asked, deadline)
        return start_taken(asked, found) if found > asked else None

    def note_change(self, lost: int) -> None:
        """Note that hosts have left, return or will leave, so many of which nobody knew of."""
        self._is_resized = True
        self._table.numbers.lost[self._slots] += lost

    def due(self, now: float, free: HostSet) -> list[tuple[Job, HostSet, int]]:
        """Return whose promised start has come and whose hosts are free; it is booked no more.

        With each job come its hosts, and how many left since its start was promised.
        """
        found: list[tuple[Job, HostSet, int]] = []
        claims, place = self._claims, 0
        while place < claims.size[0]:
            slot, hosts = int(claims.slots[place]), hosts_of(claims.amounts[place])
            if claims.dates[place, 0] > now + GRID_TOLERANCE or hosts - free:
                place += 1
                continue
            found.append((self._table.jobs[slot], hosts, int(self._table.numbers.lost[slot])))
            free -= hosts
            drop_claim(claims, place)
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

    @staticmethod
    def note_start(record: QosRecord, job: Job, now: float, lost: int) -> None:
        """Note that a job starts later than promised, if so many hosts that left made it."""
        assert job.qos is not None
        promise = job.qos.start
        if lost and promise is not None and now > promise + DEADLINE_TOLERANCE:
            record.latest_start = now
            record.note_renewal(promise, Refusal(kind=RefusalKind.HOSTS_LOST, hosts=lost))

    def call_for_start(self, now: float) -> float | None:
        """Return the date (seconds) of the next promised start, once, or None."""
        date = min((start for _, start in self.promised if start > now), default=math.inf)
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

        gone = [job for job in self.asked if leaves(job)]
        self.asked = [job for job in self.asked if not leaves(job)]
        for place, slot in reversed(list(enumerate(self._slots))):
            if leaves(self._table.jobs[slot]):
                gone.insert(0, self._table.jobs[slot])
                drop_claim(self._claims, place)
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
