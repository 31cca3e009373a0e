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
    """A step function: ``free[i]`` processors from ``times[i]`` to ``times[i + 1]``.

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
        self.room, self.size, self.found_step, self.found_end = 16, 1, 0, 1
        self.times, self.free = array("d", bytes(8 * self.room)), array("q", bytes(8 * self.room))
        self.times[0], self.free[0] = on_grid(start), processors

    # What is free

    @property
    def start(self) -> float:
        """The first date of the profile (seconds)."""
        return self.times[0]

    def step_at(self, date: float) -> int:
        """Return the index of the step at a date, 0 for earlier dates. O(log steps)."""
        if self.size == 1 or date < self.times[1]:
            return 0  # As for most questions about now.
        return self.last_until(1, self.size, date)

    def last_until(self, low: int, high: int, date: float) -> int:
        """Return the last step from ``low`` to ``high - 1`` that begins by a date, else ``low``."""
        while high - low > 1:
            middle = (low + high) >> 1
            if self.times[middle] <= date:
                low = middle
            else:
                high = middle
        return low

    def earliest_fit(self, after: float, duration: float, processors: int) -> float:
        """Return the first date from which a number of processors is free for a duration. O(steps).

        That is ``after``, which must not be before the first step, or the date of a step; infinite
        if there is none.
        """
        return self.earlier_fit(after, duration, processors, INFINITY, INFINITY)

    def earlier_fit(
        self, after: float, duration: float, processors: int, limit: float, planned: float
    ) -> float:
        """Like :meth:`earliest_fit`, for a job that holds a reservation at its planned start.

        Returned is the planned date if there is no earlier one; those beyond ``limit``, which is no
        later than the planned date, are not tried.
        """
        size = self.size
        last = size if limit == INFINITY else self.step_at(limit) + 1
        index = self.step_at(after)
        start, begin = after, index
        while True:
            if self.free[index] < processors:
                # The job cannot overlap this step: try from its end on.
                index += 1
                while index < last and self.free[index] < processors:
                    index += 1
                if index >= last:
                    return planned
                start, begin = self.times[index], index
            # To round the end takes longer than most looks: it is left to the last ones.
            end = min(start + duration, planned) - CLEARLY
            index += 1
            while index < size and self.times[index] < end and self.free[index] >= processors:
                index += 1
            if index < size and self.times[index] < end:
                continue
            end = min(end_of(start, duration), planned)
            while index < size and self.times[index] < end and self.free[index] >= processors:
                index += 1
            if index == size or self.times[index] >= end:
                self.found_step, self.found_end = begin, index
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
        """Return the greatest number of free processors at any date. O(steps)."""
        highest = self.free[0]
        for index in range(1, self.size):
            highest = max(highest, self.free[index])
        return highest

    def steps(self) -> list[tuple[float, int]]:
        """Return the steps as (date in seconds, free processors from then on)."""
        return self.steps_between(self.start, INFINITY)

    def steps_between(self, start: float, end: float) -> list[tuple[float, int]]:
        """Return the step at ``start`` and all later steps that begin before ``end``."""
        found: list[tuple[float, int]] = []
        for index in range(self.step_at(start), self.size):
            if found and self.times[index] >= end:
                break
            found.append((self.times[index], self.free[index]))
        return found if start < INFINITY else []

    # Changes

    def reserve(self, start: float, end: float, processors: int) -> None:
        """Reserve processors from one date to another. O(steps).

        A start before the first step counts as the first step; an infinite start, or an end not
        after the start, changes nothing.
        """
        self.change(start, end, -processors)

    def release(self, start: float, end: float, processors: int) -> None:
        """Release processors; see :meth:`reserve`."""
        self.change(start, end, processors)

    def change(self, start: float, end: float, more: int) -> None:
        """Add free processors between two dates; a negative number reserves them. O(steps)."""
        if start == INFINITY or end <= start or end <= self.times[0]:
            return
        first = self.split(self.step_at(start), start)
        last = self.size if end == INFINITY else self.split(first, end)
        self.change_steps(first, last, more)

    def reserve_found(self, start: float, end: float, processors: int) -> None:
        """Reserve the fit that the last search found, without another search. O(steps)."""
        if start == INFINITY or end <= start or end <= self.times[0]:
            return
        first, last = self.found_step, self.found_end
        if self.size + 2 > self.room:
            self.grow()
        if self.times[first] < start:
            first += 1
            last += 1
            self.insert_step(first, start)
        if end < INFINITY and (last == self.size or self.times[last] > end):
            self.insert_step(last, end)
        self.change_steps(first, last, -processors)

    def change_steps(self, first: int, last: int, more: int) -> None:
        """Add free processors in the steps from ``first`` to ``last - 1``. O(steps)."""
        for index in range(first, last):
            self.free[index] += more
        self.merge(first, last)

    def merge(self, first: int, last: int) -> None:
        """Merge steps with equal neighbours, which a change leaves only at its two borders."""
        if last < self.size and self.is_as_before(last):
            self.remove_steps(last, last + 1)
        if first >= 1 and self.is_as_before(first):
            self.remove_steps(first, first + 1)

    def is_as_before(self, step: int) -> bool:
        """Return whether a step has as many free processors as the one before."""
        return self.free[step] == self.free[step - 1]

    def split(self, low: int, date: float) -> int:
        """Return the step that begins at a date, not before ``low``; insert it if needed.

        O(steps), and fast for a date soon after that step.
        """
        count, stride = self.size, 1
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
        """Split a step at a date; both parts have the same free processors. O(steps)."""
        # Of each array by itself, which compilers know to be a move of memory.
        for place in range(self.size, step, -1):
            self.times[place] = self.times[place - 1]
        for place in range(self.size, step, -1):
            self.free[place] = self.free[place - 1]
        self.times[step], self.free[step] = date, self.free[step - 1]
        self.size += 1

    def remove_steps(self, first: int, end: int) -> None:
        """Remove the steps from ``first`` to ``end - 1``. O(steps)."""
        removed = end - first
        for place in range(end, self.size):
            self.times[place - removed] = self.times[place]
        for place in range(end, self.size):
            self.free[place - removed] = self.free[place]
        self.size -= removed

    def grow(self) -> None:
        """Double the room for steps. O(steps)."""
        self.times, self.free = grown("d", self.times), grown("q", self.free)
        self.room *= 2

    def trim(self, now: float) -> None:
        """Drop the part of the profile before a date. O(steps)."""
        self.remove_steps(0, self.step_at(now))
        if self.times[0] < now:
            self.times[0] = now

    def copy_from(self, other: Profile) -> None:
        """Copy another profile into this one. O(steps)."""
        while self.room < other.size:
            self.grow()
        self.size = other.size
        for index in range(other.size):
            self.times[index] = other.times[index]
        for index in range(other.size):
            self.free[index] = other.free[index]

    # Reservations of jobs

    def reset(self, date: float, everything: Any) -> None:
        """Reset to a single step: from a date on a number of processors is free."""
        self.size = 1
        self.times[0], self.free[0] = date, everything

    def start_of(self, date: float) -> float:
        """Return the beginning of the step that holds a date (seconds). O(log steps)."""
        return self.times[self.step_at(date)]

    def take_amount(self, start: float, end: float, amount: Any) -> None:
        """Reserve a number of processors. O(steps)."""
        self.change(start, end, -amount)

    def fit(self, job: Job, after: float) -> float:
        """Return the earliest fit of a job (seconds) and note what it reserves. O(steps)."""
        return self.earliest_fit(after, job.duration, job.processors)

    def move(self, job: Job, after: float, limit: float) -> bool:
        """Move a planned job to its earliest fit; return whether it has moved. O(steps).

        Starts beyond ``limit`` are not tried, as nothing was given up there.
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
        """Reserve what a job needs. O(steps)."""
        self.change(start, end, -job.reserved)

    def give(self, job: Job, start: float, end: float) -> None:
        """Release what a job has reserved. O(steps)."""
        self.change(start, end, job.reserved)

    def check(self, processors: int, least: float = 0) -> None:
        """Raise an AssertionError unless the invariants hold and 0 to ``processors`` are free.

        Or from ``least``: maintenance and late promised starts may take what others have.
        """
        for index in range(self.size):
            date, free = self.times[index], self.free[index]
            assert date == on_grid(date), f"step {index}: {date!r} is no whole microsecond"
            assert least <= free <= processors, f"step {index}: {free} of {processors} are free"
            if index > 0:
                assert date > self.times[index - 1], f"step {index}: {date!r} is not later"
                assert free != self.free[index - 1], f"step {index}: as many are free as before"


class HostProfile(Profile):
    """A step function of sets of free hosts over future time.

    A fit is on the same hosts for its whole duration, the lowest ones.
    """

    def __init__(self, hosts: int, start: float = 0.0) -> None:
        Profile.__init__(self, hosts, start)
        self.found = HostBits(hosts)
        self.words = self.found.size
        self.rows = array("Q", bytes(8 * self.room * self.words))
        self.reset(on_grid(start), HostBits.of((1 << hosts) - 1, hosts))

    def reset(self, date: float, everything: Any) -> None:
        """Reset to a single step: from a date on a set of hosts is free."""
        self.set_first(everything)
        self.times[0] = date

    def set_first(self, hosts: HostBits) -> None:
        """Make one step of the profile, in which these hosts are free."""
        self.size, self.free[0] = 1, hosts.count()
        for word in range(self.words):
            self.rows[word] = hosts.words[word]

    def take_amount(self, start: float, end: float, amount: Any) -> None:
        """Reserve a set of hosts."""
        self.change_hosts(start, end, amount, False)

    def mask_at(self, date: float) -> int:
        """Return the hosts that are free at a date, as bits of an integer."""
        first = self.step_at(date) * self.words
        return int.from_bytes(bytes(self.rows[first : first + self.words]), "little")

    # Steps

    def is_as_before(self, step: int) -> bool:
        """Return whether a step has the same free hosts as the one before."""
        row = step * self.words
        for word in range(self.words):
            if self.rows[row + word] != self.rows[row - self.words + word]:
                return False
        return True

    def insert_step(self, step: int, date: float) -> None:
        """Split a step at a date; both parts have the same free hosts. O(steps × words)."""
        words = self.words
        for place in range((self.size + 1) * words - 1, step * words - 1, -1):
            self.rows[place] = self.rows[place - words]
        Profile.insert_step(self, step, date)

    def remove_steps(self, first: int, end: int) -> None:
        """Remove the steps from ``first`` to ``end - 1``. O(steps × words)."""
        words = self.words
        removed = (end - first) * words
        for place in range(end * words, self.size * words):
            self.rows[place - removed] = self.rows[place]
        Profile.remove_steps(self, first, end)

    def grow(self) -> None:
        """Double the room for steps. O(steps × words)."""
        self.rows = grown("Q", self.rows)
        Profile.grow(self)

    def copy_from(self, other: Profile) -> None:
        """Copy another profile into this one. O(steps × words)."""
        assert isinstance(other, HostProfile)
        Profile.copy_from(self, other)
        self.copy_rows(other)

    def copy_rows(self, other: HostProfile) -> None:
        """Copy the rows of a profile with the same number of steps."""
        for place in range(self.size * self.words):
            self.rows[place] = other.rows[place]

    def change_hosts(self, start: float, end: float, hosts: HostBits, given: bool) -> None:
        """Reserve or release hosts between two dates; see :meth:`reserve`."""
        if start == INFINITY or end <= start or end <= self.times[0]:
            return
        first = self.split(self.step_at(start), start)
        last = self.size if end == INFINITY else self.split(first, end)
        for step in range(first, last):
            row, total = step * self.words, 0
            for word in range(self.words):
                if given:
                    self.rows[row + word] |= hosts.words[word]
                else:
                    self.rows[row + word] &= ~hosts.words[word]
                total += bit_count(self.rows[row + word])
            self.free[step] = total
        self.merge(first, last)

    def merge(self, first: int, last: int) -> None:
        """Merge steps with equal neighbours, also inside a change that changed no host there."""
        for step in range(min(last, self.size - 1), max(first, 1) - 1, -1):
            if self.is_as_before(step):
                self.remove_steps(step, step + 1)

    # Reservations of jobs

    def fit(self, job: Job, after: float) -> float:
        """Return the earliest fit of a job (seconds) and note its hosts. O(steps² × words)."""
        if job.bits.size == 0:
            job.bits = HostBits(64 * self.words)
        return self.earlier_hosts(job, job.bits, after, INFINITY, INFINITY)

    def move(self, job: Job, after: float, limit: float) -> bool:
        """Move a planned job to its earliest fit, perhaps on other hosts.

        Returned is whether its start or its hosts have changed.
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
        """Reserve the hosts of a job."""
        self.change_hosts(start, end, job.bits, False)

    def give(self, job: Job, start: float, end: float) -> None:
        """Release the hosts of a job."""
        self.change_hosts(start, end, job.bits, True)

    def earlier_hosts(
        self, job: Job, hosts: HostBits, after: float, limit: float, planned: float
    ) -> float:
        """Like :meth:`earlier_fit`, for a job that holds concrete hosts at its planned start.

        The lowest ones are left in ``hosts``; its own, if nothing has changed before that date.
        """
        size, needed, duration = self.size, job.processors, job.duration
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
        """Choose the lowest hosts free between two dates; return whether they are enough for a job.

        They are left in ``hosts``. In the steps from ``planned`` on, the job's own hosts count as
        free. O(steps × words).
        """
        hosts.fill()
        step = begin
        while step < self.size and (step == begin or self.times[step] < end):
            row, total = step * self.words, 0
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
        """Raise an AssertionError unless the invariants hold."""
        for step in range(self.size):
            mask = self.mask_at(self.times[step])
            assert self.free[step] == mask.bit_count(), f"step {step}: {self.free[step]} are free"
            assert mask >> processors == 0, f"step {step}: hosts beyond the machine are free"
            if step > 0:
                assert self.times[step] > self.times[step - 1], f"step {step} is not later"
                assert not self.is_as_before(step), f"step {step}: the same are free as before"


class FitBounds:
    """Lower bounds of the earliest fits in a profile in which reservations are only added.

    No job fits earlier than one that is no wider and no longer did. What was found is kept by
    classes of width and length, whose least members are powers of two and one and a half times
    these; the bound of a class holds for all wider and longer ones.
    """

    def __init__(self, processors: int) -> None:
        self.widths, self.lengths = class_edges(1.0, processors), class_edges(30.0, 2e5)
        self.columns = len(self.lengths) + 1  # The last one ends a row: nothing is later.
        self.size = len(self.widths) * self.columns
        self.dates = array("d", bytes(8 * self.size))
        self.forget()

    def classify(self, job: Job) -> None:
        """Set a job's class, and the least class of only jobs as large or larger. O(log classes).

        Its class is that of the largest job that is no wider and no longer.
        """
        row, column = class_of(self.widths, job.processors), class_of(self.lengths, job.duration)
        job.cell = row * self.columns + column
        if self.widths[row] < job.processors:
            row += 1
        if self.lengths[column] < job.duration:
            column += 1
        job.cell_above = row * self.columns + column

    def forget(self) -> None:
        """Forget all bounds. O(classes)."""
        for cell in range(self.size):
            self.dates[cell] = -INFINITY
        for row in range(1, len(self.widths) + 1):
            self.dates[row * self.columns - 1] = INFINITY

    def copy_from(self, other: FitBounds) -> None:
        """Copy the bounds of another object. O(classes)."""
        for cell in range(self.size):
            self.dates[cell] = other.dates[cell]

    def learn(self, job: Job, start: float) -> None:
        """Raise the bounds, given the earliest fit of a job (seconds). O(classes), usually O(1)."""
        first = job.cell_above
        while first < self.size and self.dates[first] < start:
            cell = first
            while self.dates[cell] < start:
                self.dates[cell] = start
                cell += 1
            first += self.columns


def class_edges(least: float, most: float) -> array[float]:
    """Return the lower edges of job classes: 0, then edges from ``least`` to ``most``."""
    edges = array("d", [0.0])
    while least <= most:
        edges.extend((least, 1.5 * least))
        least *= 2
    return edges


def class_of(edges: array[float], number: float) -> int:
    """Return the last class whose lower edge is at most a number. O(log classes)."""
    low, high = 0, len(edges)
    while high - low > 1:
        middle = (low + high) // 2
        if edges[middle] <= number:
            low = middle
        else:
            high = middle
    return low
