"""The availability profile: the number of free processors over future time.

All dates are on the grid of :mod:`qops_batsim.timing`, and compared exactly.
"""

from __future__ import annotations

from array import array
from typing import Any

from qops_batsim.core.arrays import grown
from qops_batsim.core.host_bits import HostBits, bit_count
from qops_batsim.core.job import Job
from qops_batsim.timing import end_of, on_grid

INFINITY = float("inf")

CLEARLY = 1e-3
"""Difference of dates that no rounding explains (seconds)."""


class Profile:
    """The availability profile: ``free[i]`` processors from ``times[i]`` to ``times[i + 1]``
    (seconds).

    The last step has no end. Neighbouring steps differ, so a profile is one list of steps whatever
    led to it.

    Parameters
    ----------
    processors
        Size of the machine, all free at first.
    start
        Date from which the profile is known (seconds).
    """

    def __init__(self, processors: int, start: float = 0.0) -> None:
        self.room = 16
        self.times = array("d", bytes(8 * self.room))
        self.free = array("q", bytes(8 * self.room))
        self.size = 1
        self.times[0] = on_grid(start)
        self.free[0] = processors
        self.found_step = 0
        self.found_end = 1

    # What is free

    @property
    def start(self) -> float:
        """The first date of the profile (seconds)."""
        return self.times[0]

    def step_at(self, date: float) -> int:
        """Return the index of the step that holds a date, 0 for earlier dates. O(log steps)."""
        if self.size == 1 or date < self.times[1]:
            return 0  # As for most questions about now.
        return self.last_until(1, self.size, date)

    def last_until(self, low: int, high: int, date: float) -> int:
        """Return the last of the steps ``low`` to ``high - 1`` that begins at or before a date
        (``low`` if none does).
        """
        count = high - low
        while count > 1:
            half = count >> 1
            # No branch, which processors would foresee wrongly half of the time.
            low += half * (self.times[low + half] <= date)
            count -= half
        return low

    def earliest_fit(self, after: float, duration: float, processors: int) -> float:
        """Return the first date, from ``after`` on, from which ``processors`` stay free for
        ``duration`` seconds. O(steps).

        That is ``after``, which must not be before the first step, or the date of a step; infinite
        if there is none.
        """
        return self.earlier_fit(after, duration, processors, INFINITY, INFINITY)

    def earlier_fit(
        self, after: float, duration: float, processors: int, limit: float, planned: float
    ) -> float:
        """Return the earliest fit of a job whose own reservation at ``planned`` counts as free
        (dates in seconds).

        Return ``planned`` if no earlier date fits; dates after ``limit``, which is at most
        ``planned``, are not tried.
        """
        size = self.size
        last = size if limit == INFINITY else self.step_at(limit) + 1
        index = self.step_at(after)
        start = after
        begin = index
        while True:
            if self.free[index] < processors:
                # The job cannot overlap this step: try from its end on.
                index += 1
                while index < last and self.free[index] < processors:
                    index += 1
                if index >= last:
                    return planned
                start = self.times[index]
                begin = index

            # To round the end takes longer than most looks: it is left to dates close to it.
            end = min(start + duration, planned)
            index += 1
            while (
                index < size
                and self.times[index] < end - CLEARLY
                and self.free[index] >= processors
            ):
                index += 1
            if index < size and self.times[index] < end - CLEARLY:
                continue

            if index < size and self.times[index] < end + CLEARLY:
                end = min(end_of(start, duration), planned)
                while index < size and self.times[index] < end and self.free[index] >= processors:
                    index += 1
            if index == size or self.times[index] >= end:
                self.found_step = begin
                self.found_end = index
                return start

    def lowest_free(self, start: float, end: float) -> int:
        """Return the least number of free processors between two dates. O(steps)."""
        index = self.step_at(start)
        lowest = self.free[index]
        index += 1
        while index < self.size and self.times[index] < end:
            lowest = min(lowest, self.free[index])
            index += 1
        return lowest

    def highest_free(self) -> int:
        """Return the greatest number of free processors at any date of the profile. O(steps)."""
        highest = self.free[0]
        for index in range(1, self.size):
            highest = max(highest, self.free[index])
        return highest

    def steps(self) -> list[tuple[float, int]]:
        """Return the profile's steps as (date in seconds, free processors from then on)."""
        return self.steps_between(self.start, INFINITY)

    def steps_between(self, start: float, end: float) -> list[tuple[float, int]]:
        """Return the step that holds ``start`` and all later steps that begin before ``end``."""
        steps: list[tuple[float, int]] = []
        for index in range(self.step_at(start), self.size):
            if steps and self.times[index] >= end:
                break
            steps.append((self.times[index], self.free[index]))
        return steps if start < INFINITY else []

    # Changes

    def reserve(self, start: float, end: float, processors: int) -> None:
        """Reserve processors from ``start`` to ``end`` (seconds). O(steps).

        A start before the first step counts as the first step; an infinite start, or an end not
        after the start, changes nothing.
        """
        self.change(start, end, -processors)

    def release(self, start: float, end: float, processors: int) -> None:
        """Give back processors reserved from ``start`` to ``end`` (seconds); see
        :meth:`reserve`.
        """
        self.change(start, end, processors)

    def change(self, start: float, end: float, more: int) -> None:
        """Add ``more`` free processors between two dates; a negative number reserves. O(steps)."""
        if start == INFINITY or end <= start or end <= self.times[0]:
            return
        first = self.split(self.step_at(start), start)
        last = self.size if end == INFINITY else self.split(first, end)
        self.change_steps(first, last, more)

    def reserve_found(self, start: float, end: float, processors: int) -> None:
        """Reserve the interval that the last :meth:`earliest_fit` found, without searching again.
        O(steps).
        """
        if start == INFINITY or end <= start or end <= self.times[0]:
            return

        first = self.found_step
        last = self.found_end
        if self.size + 2 > self.room:
            self.grow()
        # The fit may begin and end within a step.
        if self.times[first] < start:
            first += 1
            last += 1
            self.insert_step(first, start)
        if end < INFINITY and (last == self.size or self.times[last] > end):
            self.insert_step(last, end)
        self.change_steps(first, last, -processors)

    def change_steps(self, first: int, last: int, more: int) -> None:
        """Add ``more`` free processors in the steps ``first`` to ``last - 1``. O(steps)."""
        for index in range(first, last):
            self.free[index] += more
        self.merge(first, last)

    def merge(self, first: int, last: int) -> None:
        """Join the steps at the two ends of a change (``first``, ``last``) with equal
        neighbours.
        """
        if last < self.size and self.is_as_before(last):
            self.remove_steps(last, last + 1)
        if first >= 1 and self.is_as_before(first):
            self.remove_steps(first, first + 1)

    def is_as_before(self, step: int) -> bool:
        """Return whether a step has as many free processors as the step before."""
        return self.free[step] == self.free[step - 1]

    def split(self, low: int, date: float) -> int:
        """Return the index of the step that begins at ``date``; insert it if needed. The search
        begins at step ``low``.

        O(steps), and fast for a date soon after that step.
        """
        count = self.size
        # The step is near in most cases: strides that double find it sooner than halving all.
        stride = 1
        while low + stride < count and self.times[low + stride] <= date:
            low += stride
            stride += stride
        low = self.last_until(low, min(low + stride, count), date)
        if self.times[low] >= date:
            return low

        if count == self.room:
            self.grow()
        self.insert_step(low + 1, date)
        return low + 1

    def insert_step(self, step: int, date: float) -> None:
        """Insert a step that begins at ``date``, with the free processors of the step before.
        O(steps).
        """
        # Of each array by itself, which compilers know to be a move of memory.
        for place in range(self.size, step, -1):
            self.times[place] = self.times[place - 1]
        for place in range(self.size, step, -1):
            self.free[place] = self.free[place - 1]
        self.times[step] = date
        self.free[step] = self.free[step - 1]
        self.size += 1

    def remove_steps(self, first: int, end: int) -> None:
        """Remove the steps ``first`` to ``end - 1`` from the profile. O(steps)."""
        removed = end - first
        for place in range(end, self.size):
            self.times[place - removed] = self.times[place]
        for place in range(end, self.size):
            self.free[place - removed] = self.free[place]
        self.size -= removed

    def grow(self) -> None:
        """Double the memory reserved for steps. O(steps)."""
        self.times = grown("d", self.times)
        self.free = grown("q", self.free)
        self.room *= 2

    def trim(self, now: float) -> None:
        """Drop the part of the profile before ``now`` (seconds). O(steps)."""
        self.remove_steps(0, self.step_at(now))
        if self.times[0] < now:
            self.times[0] = now

    def copy_from(self, other: Profile) -> None:
        """Replace this profile's steps by those of another one. O(steps)."""
        while self.room < other.size:
            self.grow()
        self.size = other.size
        for index in range(other.size):
            self.times[index] = other.times[index]
        for index in range(other.size):
            self.free[index] = other.free[index]

    # Reservations of jobs

    def reset(self, date: float, everything: Any) -> None:
        """Replace all steps by a single one: ``everything`` (a number of processors) is free from
        ``date`` on.
        """
        self.size = 1
        self.times[0] = date
        self.free[0] = everything

    def start_of(self, date: float) -> float:
        """Return the beginning of the step that holds a date (seconds). O(log steps)."""
        return self.times[self.step_at(date)]

    def take_amount(self, start: float, end: float, amount: Any) -> None:
        """Reserve ``amount`` processors from ``start`` to ``end`` (seconds). O(steps)."""
        self.change(start, end, -amount)

    def has_amount(self, start: float, end: float, amount: Any) -> bool:
        """Return whether ``amount`` processors are free between two dates (seconds). O(steps)."""
        return bool(self.lowest_free(start, end) >= amount)

    def fit(self, job: Job, after: float) -> float:
        """Return the earliest fit (seconds) of a job from ``after`` on. O(steps)."""
        return self.earliest_fit(after, job.duration, job.processors)

    def try_fit(self, job: Job, after: float) -> float:
        """Return the earliest fit (seconds) of a job from ``after`` on; the job may go on to be
        planned elsewhere. O(steps).
        """
        return self.earliest_fit(after, job.duration, job.processors)

    def fit_with_room(self, job: Job, after: float, headroom: int) -> float:
        """Return the earliest fit (seconds) of a job next to which ``headroom`` processors stay
        free, or all that it leaves if these are less; infinite if it leaves none. O(steps).
        """
        room = min(headroom, self.free[self.size - 1] - job.processors)
        if room <= 0:
            return INFINITY
        return self.earliest_fit(after, job.duration, job.processors + room)

    def spare_beside(self, job: Job, start: float, end: float) -> int:
        """Return how many processors stay free next to a job between two dates (seconds), below 0
        if it does not fit. O(steps).
        """
        return self.lowest_free(start, end) - job.processors

    def take_found(self, job: Job, start: float, end: float) -> None:
        """Reserve what the last :meth:`try_fit` found for a job, which is tried there. O(steps)."""
        self.reserve_found(start, end, job.processors)

    def take_as_found(self, job: Job, start: float, end: float) -> None:
        """Reserve what a search in this or another profile found for a job, which is tried there.
        O(steps).
        """
        self.change(start, end, -job.processors)

    def take_tried(self, job: Job, start: float, end: float) -> None:
        """Reserve what a job takes where it is tried, from ``start`` to ``end`` (seconds)."""
        self.change(start, end, -job.processors)

    def give_tried(self, job: Job, start: float, end: float) -> None:
        """Release what a job takes where it is tried, from ``start`` to ``end`` (seconds)."""
        self.change(start, end, job.processors)

    def move(self, job: Job, after: float, limit: float) -> bool:
        """Move a planned job to its earliest fit from ``after`` on; return whether its start has
        changed. O(steps).

        Starts after ``limit`` are not tried, because no reservation was released there.
        """
        limit = min(limit, job.start)
        start = self.earlier_fit(after, job.duration, job.processors, limit, job.start)
        if start == job.start:
            return False
        self.give(job, job.start, end_of(job.start, job.duration))
        job.start = start
        self.take(job, start, end_of(start, job.duration))
        return True

    def take(self, job: Job, start: float, end: float) -> None:
        """Reserve a job's processors from ``start`` to ``end`` (seconds). O(steps)."""
        self.change(start, end, -job.reserved)

    def give(self, job: Job, start: float, end: float) -> None:
        """Release a job's processors from ``start`` to ``end`` (seconds). O(steps)."""
        self.change(start, end, job.reserved)

    def check(self, processors: int, least: float = 0) -> None:
        """Raise an AssertionError unless dates rise and each step has ``least`` to ``processors``
        free.

        ``least`` may be negative: maintenance and overdue promised starts may take processors that
        running jobs still have.
        """
        for index in range(self.size):
            date = self.times[index]
            free = self.free[index]
            assert date == on_grid(date), f"step {index}: {date!r} is no whole microsecond"
            assert least <= free <= processors, f"step {index}: {free} of {processors} are free"
            if index > 0:
                assert date > self.times[index - 1], f"step {index}: {date!r} is not later"
                assert free != self.free[index - 1], f"step {index}: as many are free as before"


class HostProfile(Profile):
    """An availability profile of named hosts: the set of free hosts from each date on.

    A fit is on the same hosts for its whole duration, the lowest ones.
    """

    def __init__(self, hosts: int, start: float = 0.0) -> None:
        Profile.__init__(self, hosts, start)
        self.found = HostBits(hosts)
        self.words = self.found.size
        self.rows = array("Q", bytes(8 * self.room * self.words))
        self.reset(on_grid(start), HostBits.of((1 << hosts) - 1, hosts))

    def reset(self, date: float, everything: Any) -> None:
        """Replace all steps by a single one: ``everything`` (a host set) is free from
        ``date`` on.
        """
        self.set_first(everything)
        self.times[0] = date

    def set_first(self, hosts: HostBits) -> None:
        """Replace all steps by a single one in which exactly ``hosts`` are free."""
        self.size = 1
        self.free[0] = hosts.count()
        for word in range(self.words):
            self.rows[word] = hosts.words[word]

    def take_amount(self, start: float, end: float, amount: Any) -> None:
        """Reserve the hosts ``amount`` (a host set) from ``start`` to ``end`` (seconds)."""
        self.change_hosts(start, end, amount, False)

    def has_amount(self, start: float, end: float, amount: Any) -> bool:
        """Return whether the hosts ``amount`` (a host set) are free between two dates (seconds)."""
        hosts: HostBits = amount
        step = self.step_at(start)
        begin = start
        while begin < end:
            row = step * self.words
            for word in range(self.words):
                if hosts.words[word] & ~self.rows[row + word]:
                    return False
            step += 1
            begin = self.times[step] if step < self.size else INFINITY
        return True

    def mask_at(self, date: float) -> int:
        """Return which hosts are free at a date: bit *i* of the result stands for host *i*."""
        first = self.step_at(date) * self.words
        return int.from_bytes(bytes(self.rows[first : first + self.words]), "little")

    # Steps

    def is_as_before(self, step: int) -> bool:
        """Return whether a step has the same free hosts as the step before."""
        row = step * self.words
        for word in range(self.words):
            if self.rows[row + word] != self.rows[row - self.words + word]:
                return False
        return True

    def insert_step(self, step: int, date: float) -> None:
        """Insert a step that begins at ``date``, with the free hosts of the step before. O(steps ×
        words).
        """
        words = self.words
        for place in range((self.size + 1) * words - 1, step * words - 1, -1):
            self.rows[place] = self.rows[place - words]
        Profile.insert_step(self, step, date)

    def remove_steps(self, first: int, end: int) -> None:
        """Remove the steps ``first`` to ``end - 1`` from the profile. O(steps × hosts)."""
        words = self.words
        removed = (end - first) * words
        for place in range(end * words, self.size * words):
            self.rows[place - removed] = self.rows[place]
        Profile.remove_steps(self, first, end)

    def grow(self) -> None:
        """Double the memory reserved for steps. O(steps × hosts)."""
        self.rows = grown("Q", self.rows)
        Profile.grow(self)

    def copy_from(self, other: Profile) -> None:
        """Replace this profile's steps by those of another one. O(steps × hosts)."""
        assert isinstance(other, HostProfile)
        Profile.copy_from(self, other)
        self.copy_rows(other)

    def copy_rows(self, other: HostProfile) -> None:
        """Copy the free hosts of each step from a profile with the same number of steps."""
        for place in range(self.size * self.words):
            self.rows[place] = other.rows[place]

    def change_hosts(self, start: float, end: float, hosts: HostBits, given: bool) -> None:
        """Release (``given`` True) or reserve hosts from ``start`` to ``end`` (seconds)."""
        if start == INFINITY or end <= start or end <= self.times[0]:
            return
        first = self.split(self.step_at(start), start)
        last = self.size if end == INFINITY else self.split(first, end)
        for step in range(first, last):
            row = step * self.words
            total = 0
            for word in range(self.words):
                if given:
                    self.rows[row + word] |= hosts.words[word]
                else:
                    self.rows[row + word] &= ~hosts.words[word]
                total += bit_count(self.rows[row + word])
            self.free[step] = total
        self.merge(first, last)

    def merge(self, first: int, last: int) -> None:
        """Join each of the steps ``first`` to ``last`` with the step before if the same hosts are
        free.
        """
        for step in range(min(last, self.size - 1), max(first, 1) - 1, -1):
            if self.is_as_before(step):
                self.remove_steps(step, step + 1)

    # Reservations of jobs

    def fit(self, job: Job, after: float) -> float:
        """Return the earliest fit (seconds) of a job and set ``job.bits`` to its hosts. O(steps² ×
        words).
        """
        if job.bits.size == 0:
            job.bits = HostBits(64 * self.words)
        return self.earlier_hosts(job, job.bits, after, INFINITY, INFINITY)

    def move(self, job: Job, after: float, limit: float) -> bool:
        """Move a planned job to its earliest fit; return whether its start or its hosts have
        changed.
        """
        start = self.earlier_hosts(job, self.found, after, min(limit, job.start), job.start)
        if start == job.start and (start == INFINITY or self.found.equals(job.bits)):
            return False
        self.give(job, job.start, end_of(job.start, job.duration))
        job.bits.copy_from(self.found)
        job.start = start
        self.take(job, start, end_of(start, job.duration))
        return True

    def take(self, job: Job, start: float, end: float) -> None:
        """Reserve a job's hosts (``job.bits``) from ``start`` to ``end`` (seconds)."""
        self.change_hosts(start, end, job.bits, False)

    def give(self, job: Job, start: float, end: float) -> None:
        """Release a job's hosts (``job.bits``) from ``start`` to ``end`` (seconds)."""
        self.change_hosts(start, end, job.bits, True)

    def earlier_hosts(
        self, job: Job, hosts: HostBits, after: float, limit: float, planned: float
    ) -> float:
        """Return the earliest fit of a job whose reservation at ``planned`` counts as free; set
        ``hosts`` to its hosts there.

        ``hosts`` gets the lowest free ones, or the job's own hosts if only dates before ``planned``
        were tried (``limit``) and none fits.
        """
        size = self.size
        needed = job.processors
        duration = job.duration
        last = size if limit == INFINITY else self.step_at(limit) + 1
        first = begin = wide_until = self.step_at(after)
        while begin < last:
            start = after if begin == first else self.times[begin]
            if start >= planned:
                break
            end = end_of(start, duration)

            # Up to here each step by itself has as many.
            wide_until = max(wide_until, begin)
            while (
                wide_until < size
                and (wide_until == begin or self.times[wide_until] < end)
                and (self.times[wide_until] >= planned or self.free[wide_until] >= needed)
            ):
                wide_until += 1

            # Whether these are the same hosts in all steps takes longer to find out.
            if wide_until < size and (wide_until == begin or self.times[wide_until] < end):
                begin = wide_until = wide_until + 1
            elif self.has_common(job, hosts, begin, end, planned):
                return start
            else:
                begin += 1

        if limit < planned:
            hosts.copy_from(job.bits)
        elif planned < INFINITY:
            end = end_of(planned, duration)
            self.has_common(job, hosts, self.step_at(planned), end, -INFINITY)
        return planned

    def has_common(self, job: Job, hosts: HostBits, begin: int, end: float, planned: float) -> bool:
        """Set ``hosts`` to the job's lowest hosts that are free throughout an interval; return
        False if too few are.

        The interval goes from step ``begin`` to the date ``end``. From ``planned`` on, the job's
        own hosts count as free. O(steps × hosts).
        """
        hosts.fill()
        step = begin
        while step < self.size and (step == begin or self.times[step] < end):
            row = step * self.words
            total = 0
            for word in range(self.words):
                free = self.rows[row + word]
                if self.times[step] >= planned:
                    free |= job.bits.words[word]
                hosts.words[word] &= free
                total += bit_count(hosts.words[word])
            if total < job.processors:
                return False
            step += 1
        hosts.keep_lowest(job.processors)
        return True

    def check(self, processors: int, least: float = 0) -> None:
        """Raise an AssertionError unless dates rise and each step's count of free hosts is
        right.
        """
        for step in range(self.size):
            mask = self.mask_at(self.times[step])
            assert self.free[step] == mask.bit_count(), f"step {step}: {self.free[step]} are free"
            assert mask >> processors == 0, f"step {step}: hosts beyond the machine are free"
            if step > 0:
                assert self.times[step] > self.times[step - 1], f"step {step} is not later"
                assert not self.is_as_before(step), f"step {step}: the same are free as before"


class FitBounds:
    """For each class of job sizes, a date before which no job of the class fits into a profile;
    makes searches shorter.

    They hold as long as reservations are only added: then a job fits no earlier than a job that is
    no wider and no longer did before. The dates are kept by classes of processors and of duration,
    with powers of two and 1.5 times these as lower edges.
    """

    def __init__(self, processors: int) -> None:
        self.widths = class_edges(1.0, processors)
        self.lengths = class_edges(30.0, 2e5)
        self.columns = len(self.lengths) + 1  # The last one ends a row: nothing is later.
        self.rows = len(self.widths)
        self.size = self.rows * self.columns
        self.dates = array("d", bytes(8 * self.size))
        self.has_learned = True  # The zeros are no bounds.
        self.forget()

    def classify(self, job: Job) -> None:
        """Set a job's size class (processors × duration), and the first class with only jobs as
        large or larger. O(log classes).

        The class's lower edges are at most the job's processors and duration (seconds).
        """
        row = class_of(self.widths, job.processors)
        column = class_of(self.lengths, job.duration)
        job.cell = row * self.columns + column

        if self.widths[row] < job.processors:
            row += 1
        if self.lengths[column] < job.duration:
            column += 1
        job.cell_above = row * self.columns + column

    def forget(self) -> None:
        """Reset all bounds, if anything was learned: any job may fit at any date. O(classes)."""
        if not self.has_learned:
            return
        self.has_learned = False
        any_date = -INFINITY  # A local variable, of which compilers know that no write changes it.
        for cell in range(self.size):
            self.dates[cell] = any_date
        for row in range(1, self.rows + 1):
            self.dates[row * self.columns - 1] = INFINITY

    def copy_from(self, other: FitBounds) -> None:
        """Replace these bounds by those of another object. O(classes)."""
        self.has_learned = other.has_learned
        for cell in range(self.size):
            self.dates[cell] = other.dates[cell]

    def learn(self, job: Job, start: float) -> None:
        """Record that a job fits no earlier than ``start`` (seconds), so that no larger job does.
        O(classes), usually O(1).
        """
        self.has_learned = True
        first = job.cell_above
        while first < self.size and self.dates[first] < start:
            cell = first
            while self.dates[cell] < start:
                self.dates[cell] = start
                cell += 1
            first += self.columns


def class_edges(least: float, most: float) -> array[float]:
    """Return the lower edges of size classes: 0, then powers of two times ``least``, and 1.5 times
    these, up to ``most``.
    """
    edges = array("d", [0.0])
    while least <= most:
        edges.extend((least, 1.5 * least))
        least *= 2
    return edges


def class_of(edges: array[float], number: float) -> int:
    """Return the index of the class that a number lies in, given the classes' lower edges. O(log
    classes).
    """
    low = 0
    high = len(edges)
    while high - low > 1:
        middle = (low + high) // 2
        if edges[middle] <= number:
            low = middle
        else:
            high = middle
    return low
