"""The availability profile: free processors over future time.

The profile is a step function kept in two arrays: from ``times[i]`` up to
``times[i + 1]`` there are ``free[i]`` free processors, and from the last time on
the last number holds for ever. All operations are compiled kernels over these
arrays, so schedulers can call them from their own kernels without Python in
between; :class:`AvailabilityProfile` is the same for use from Python.

Dates closer than :data:`~qops_batsim.timing.PLAN_TOLERANCE` are one date: a step
within that distance of an existing one is merged with it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from qops_batsim.scheduling.kernels import kernel
from qops_batsim.timing import PLAN_TOLERANCE

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Rows = npt.NDArray[np.int64] | npt.NDArray[np.uint64]

STEPS_PER_RESERVATION = 2
"""A reservation adds at most so many steps."""


@kernel
def segment_at(times: Floats, count: int, date: float) -> int:
    """Return the index of the segment that holds a date, at least 0. O(log steps)."""
    low, high = 0, count
    while high - low > 1:
        middle = (low + high) // 2
        if times[middle] <= date + PLAN_TOLERANCE:
            low = middle
        else:
            high = middle
    return low


@kernel
def earliest_fit(
    times: Floats, free: Ints, count: int, after: float, duration: float, processors: int
) -> float:
    """Return the first date from which the processors are free for the duration.

    Parameters
    ----------
    times, free, count
        The profile.
    after
        Earliest date accepted (seconds).
    duration
        Seconds, possibly infinite.
    processors
        Processors needed.

    Returns
    -------
    float
        Date (seconds): ``after`` or the date of a step; infinite if there is none. O(steps).
    """
    index = segment_at(times, count, after)
    start = after
    end = start + duration
    while True:
        if free[index] < processors:
            # The job cannot overlap this segment: try from its end on.
            index += 1
            if index == count:
                return np.inf
            start = times[index]
            end = start + duration
        else:
            index += 1
            if index == count or times[index] >= end - PLAN_TOLERANCE:
                return start


@kernel
def step_at(times: Floats, free: Rows, count: int, date: float) -> tuple[int, int]:
    """Make a step at a date unless there is one; return its index and the number of steps.

    ``free`` may have one number or one row of numbers for each step. O(steps).
    """
    index = segment_at(times, count, date)
    if abs(times[index] - date) <= PLAN_TOLERANCE or date < times[index]:
        return index, count
    for place in range(count, index + 1, -1):
        times[place] = times[place - 1]
        free[place] = free[place - 1]
    times[index + 1] = date
    free[index + 1] = free[index]
    return index + 1, count + 1


@kernel
def remove_step(times: Floats, free: Rows, count: int, index: int) -> int:
    """Remove the step at ``index``; return the number of steps. O(steps)."""
    for place in range(index + 1, count):
        times[place - 1] = times[place]
        free[place - 1] = free[place]
    return count - 1


@kernel
def change(times: Floats, free: Ints, count: int, start: float, end: float, processors: int) -> int:
    """Add processors (negative: take them) from ``start`` up to ``end``.

    The arrays need room for two more steps. A start before the first step counts
    as the first step; an infinite start, or an end not after the start, changes
    nothing.

    Returns
    -------
    int
        The new number of steps. O(steps).
    """
    if start == np.inf or end <= start + PLAN_TOLERANCE or end <= times[0] + PLAN_TOLERANCE:
        return count
    first, count = step_at(times, free, count, start)
    if end == np.inf:
        last = count
    else:
        last, count = step_at(times, free, count, end)
    for index in range(first, last):
        free[index] += processors
    # Only the two borders can have become steps that change nothing.
    if 0 < last < count and free[last] == free[last - 1]:
        count = remove_step(times, free, count, last)
    if first > 0 and free[first] == free[first - 1]:
        count = remove_step(times, free, count, first)
    return count


@kernel
def trim(times: Floats, free: Rows, count: int, now: float) -> int:
    """Forget what lies before a date; return the number of steps.

    ``free`` as in :func:`step_at`. O(steps).
    """
    index = segment_at(times, count, now)
    if index > 0:
        for place in range(index, count):
            times[place - index] = times[place]
            free[place - index] = free[place]
        count -= index
    if times[0] < now:
        times[0] = now
    return count


class AvailabilityProfile:
    """Free processors over future time.

    Parameters
    ----------
    processors
        Size of the machine, all free at first.
    start
        Date from which the profile is known (seconds).
    """

    __slots__ = ("_count", "_free", "_times", "processors")

    def __init__(self, processors: int, start: float = 0.0) -> None:
        self.processors = processors
        self._times: Floats = np.zeros(16, np.float64)
        self._free: Ints = np.zeros(16, np.int64)
        self._times[0] = start
        self._free[0] = processors
        self._count = 1

    def copy(self) -> AvailabilityProfile:
        """Return an independent copy. O(steps)."""
        other = AvailabilityProfile(self.processors)
        other._times = self._times.copy()
        other._free = self._free.copy()
        other._count = self._count
        return other

    def earliest_fit(self, after: float, duration: float, processors: int) -> float:
        """Return the first date from ``after`` on with that many processors free. O(steps).

        Infinite if the job never fits; see :func:`earliest_fit`.
        """
        after = max(after, float(self._times[0]))
        return float(
            earliest_fit(self._times, self._free, self._count, after, duration, processors)
        )

    def reserve(self, start: float, duration: float, processors: int) -> None:
        """Take processors from ``start`` for ``duration`` seconds. O(steps).

        Raises
        ------
        ValueError
            Fewer are free at some moment.
        """
        end = start + duration
        first = int(segment_at(self._times, self._count, start))
        for index in range(first, self._count):
            if index > first and self._times[index] >= end - PLAN_TOLERANCE:
                break
            if self._free[index] < processors:
                raise ValueError(
                    f"{processors} processors are not free at {self._times[index]:g} s: "
                    f"only {self._free[index]} are"
                )
        self._change(start, end, -processors)

    def release(self, start: float, duration: float, processors: int) -> None:
        """Give back processors from ``start`` for ``duration`` seconds. O(steps).

        Raises
        ------
        ValueError
            They were not all reserved.
        """
        self._change(start, start + duration, processors)
        if int(self._free[: self._count].max()) > self.processors:
            self._change(start, start + duration, -processors)
            raise ValueError(
                f"{processors} processors from {start:g} s for {duration:g} s were not all reserved"
            )

    def trim(self, now: float) -> None:
        """Forget what lies before ``now`` (seconds). O(steps)."""
        self._count = int(trim(self._times, self._free, self._count, now))

    def steps(self) -> list[tuple[float, int]]:
        """Return the steps as (date in seconds, free processors from then on)."""
        return [
            (float(time), int(free))
            for time, free in zip(
                self._times[: self._count], self._free[: self._count], strict=True
            )
        ]

    def _change(self, start: float, end: float, processors: int) -> None:
        if self._count + STEPS_PER_RESERVATION > len(self._times):
            self._times = np.concatenate([self._times, np.zeros_like(self._times)])
            self._free = np.concatenate([self._free, np.zeros_like(self._free)])
        self._count = int(change(self._times, self._free, self._count, start, end, processors))

    def _check(self) -> None:
        """Verify the invariants; for tests."""
        times: Any = self._times[: self._count]
        free: Any = self._free[: self._count]
        if self._count < 1:
            raise AssertionError("a profile has at least one step")
        if not bool(np.all(np.diff(times) > PLAN_TOLERANCE)):
            raise AssertionError(f"dates must ascend by more than the tolerance: {times}")
        if not bool(np.all((free >= 0) & (free <= self.processors))):
            raise AssertionError(f"free processors must be from 0 to {self.processors}: {free}")
        if bool(np.any(np.diff(free) == 0)):
            raise AssertionError(f"neighbouring steps must differ: {free}")
