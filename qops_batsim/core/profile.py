"""The availability profile: how many processors are free over future time.

All dates are on the grid of :mod:`qops_batsim.timing`, and compared exactly.
"""

from __future__ import annotations

from array import array

from qops_batsim.timing import end_of, on_grid

INFINITY = float("inf")

CLEARLY = 1e-3
"""Difference of dates that no rounding explains (seconds)."""


class Profile:
    """A step function: ``free[i]`` processors from ``times[i]`` up to ``times[i + 1]``.

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
        self.room, self.size = 16, 1
        self.times, self.free = array("d", bytes(8 * self.room)), array("q", bytes(8 * self.room))
        self.times[0], self.free[0] = on_grid(start), processors

    # What is free

    @property
    def start(self) -> float:
        """The date from which the profile is known (seconds)."""
        return self.times[0]

    def step_at(self, date: float) -> int:
        """Return the step that holds a date, the first one for an earlier date. O(log steps)."""
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
        """Return the first date from which so many processors are free for a duration. O(steps).

        That is ``after``, which must not be before the first step, or the date of a step; infinite
        if there is none.
        """
        return self.earlier_fit(after, duration, processors, INFINITY, INFINITY)

    def earlier_fit(
        self, after: float, duration: float, processors: int, limit: float, planned: float
    ) -> float:
        """As :meth:`earliest_fit`, for a job that has reserved the processors from a planned date.

        Returned is the planned date if there is no earlier one; those beyond ``limit`` are not
        tried.
        """
        size = self.size
        last = size if limit == INFINITY else self.step_at(limit) + 1
        index = self.step_at(after)
        start = after
        while True:
            if self.free[index] < processors:
                # The job cannot overlap this step: try from its end on.
                index += 1
                while index < last and self.free[index] < processors:
                    index += 1
                if index >= last:
                    return planned
                start = self.times[index]
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
                return start

    def lowest_free(self, start: float, end: float) -> int:
        """Return the least number of processors that are free between two dates. O(steps)."""
        index = self.step_at(start)
        lowest = self.free[index]
        index += 1
        while index < self.size and self.times[index] < end:
            lowest = min(lowest, self.free[index])
            index += 1
        return lowest

    def highest_free(self) -> int:
        """Return the greatest number of processors that are ever free. O(steps)."""
        highest = self.free[0]
        for index in range(1, self.size):
            highest = max(highest, self.free[index])
        return highest

    def steps(self) -> list[tuple[float, int]]:
        """Return the steps as (date in seconds, free processors from then on)."""
        return self.steps_between(self.start, INFINITY)

    def steps_between(self, start: float, end: float) -> list[tuple[float, int]]:
        """Return the step that holds a date, and those from there to before another one."""
        found: list[tuple[float, int]] = []
        for index in range(self.step_at(start), self.size):
            if found and self.times[index] >= end:
                break
            found.append((self.times[index], self.free[index]))
        return found if start < INFINITY else []

    # Changes

    def reserve(self, start: float, end: float, processors: int) -> None:
        """Take processors from one date up to another. O(steps).

        A start before the first step counts as the first step; an infinite start, or an end not
        after the start, changes nothing.
        """
        self.change(start, end, -processors)

    def release(self, start: float, end: float, processors: int) -> None:
        """Give processors back; see :meth:`reserve`."""
        self.change(start, end, processors)

    def change(self, start: float, end: float, more: int) -> None:
        """Add free processors between two dates; a negative number takes them. O(steps)."""
        if start == INFINITY or end <= start or end <= self.times[0]:
            return
        first = self.split(self.step_at(start), start)
        last = self.size if end == INFINITY else self.split(first, end)
        for index in range(first, last):
            self.free[index] += more
        # Only at the two borders neighbours can have become equal.
        if last < self.size and self.free[last] == self.free[last - 1]:
            self.remove_steps(last, last + 1)
        if first >= 1 and self.free[first] == self.free[first - 1]:
            self.remove_steps(first, first + 1)

    def split(self, low: int, date: float) -> int:
        """Return the step at a date, not before the step ``low``; make it if there is none.

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
        for place in range(count, low, -1):
            self.times[place] = self.times[place - 1]
            self.free[place] = self.free[place - 1]
        self.times[low + 1] = date
        self.size = count + 1
        return low + 1

    def remove_steps(self, first: int, end: int) -> None:
        """Remove the steps from ``first`` to ``end - 1``. O(steps)."""
        removed = end - first
        for place in range(end, self.size):
            self.times[place - removed] = self.times[place]
            self.free[place - removed] = self.free[place]
        self.size -= removed

    def grow(self) -> None:
        """Double the room. O(steps)."""
        more = bytes(8 * self.room)
        self.times = array("d", bytes(self.times) + more)
        self.free = array("q", bytes(self.free) + more)
        self.room *= 2

    def trim(self, now: float) -> None:
        """Forget what lies before a date. O(steps)."""
        self.remove_steps(0, self.step_at(now))
        if self.times[0] < now:
            self.times[0] = now

    def copy_from(self, other: Profile) -> None:
        """Become equal to another profile. O(steps)."""
        while self.room < other.size:
            self.grow()
        self.size = other.size
        for index in range(other.size):
            self.times[index] = other.times[index]
            self.free[index] = other.free[index]

    def check(self, processors: int) -> None:
        """Raise an AssertionError unless the invariants hold, with from 0 to so many free."""
        for index in range(self.size):
            date, free = self.times[index], self.free[index]
            assert date == on_grid(date), f"step {index}: {date!r} is no whole microsecond"
            assert 0 <= free <= processors, f"step {index}: {free} of {processors} are free"
            if index > 0:
                assert date > self.times[index - 1], f"step {index}: {date!r} is not later"
                assert free != self.free[index - 1], f"step {index}: as many are free as before"
