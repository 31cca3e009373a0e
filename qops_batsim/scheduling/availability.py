"""The availability profile for use from Python."""

from __future__ import annotations

from typing import Any

import numpy as np

from qops_batsim.errors import SimulationError, require_type
from qops_batsim.scheduling import profile as kernels
from qops_batsim.scheduling.arrays import STEPS_PER_RESERVATION, Profile, grown, new_profile
from qops_batsim.timing import duration_on_grid, end_of, on_grid

_earliest_fit, _change = kernels.earliest_fit, kernels.change


class NotFreeError(SimulationError, ValueError):
    """A reservation of processors that are not free, or a release of free ones."""


class AvailabilityProfile:
    """Free processors over future time.

    Dates are rounded to whole microseconds, and durations up to them.

    >>> profile = AvailabilityProfile(4)
    >>> profile.reserve(0, 10, 3)
    >>> profile.earliest_fit(after=0, duration=5, processors=2)
    10.0
    >>> profile.steps()
    [(0.0, 1), (10.0, 4)]

    Parameters
    ----------
    processors
        Size of the machine, all free at first.
    start
        Date from which the profile is known (seconds).
    """

    __slots__ = ("_profile", "processors")

    def __init__(self, processors: int, start: float = 0.0) -> None:
        _check_numbers(processors, start=start)
        self.processors = processors
        self._profile: Profile = new_profile(processors, 16)
        self._profile.times[0] = on_grid(start)

    @classmethod
    def of(cls, profile: Profile, processors: int) -> AvailabilityProfile:
        """Return a copy of what kernels work on, a profile of numbers. O(steps)."""
        made = cls(processors)
        times, free, size = profile
        made._profile = Profile(times.copy(), free.copy(), size.copy())
        return made

    def copy(self) -> AvailabilityProfile:
        """Return an independent copy. O(steps)."""
        return self.of(self._profile, self.processors)

    def earliest_fit(self, after: float, duration: float, processors: int) -> float:
        """Return the first date from ``after`` on with that many processors free. O(steps).

        Infinite if the job never fits.
        """
        _check_numbers(processors, after=after, duration=duration)
        after = max(on_grid(float(after)), float(self._profile.times[0]))
        duration = duration_on_grid(float(duration))
        return float(_earliest_fit(self._profile, after, float(duration), processors))

    def reserve(self, start: float, duration: float, processors: int) -> None:
        """Take processors from ``start`` for ``duration`` seconds, if it is finite. O(steps).

        Raises
        ------
        NotFreeError
            Fewer are free at some moment.
        """
        start, end = _on_grid(start, duration, processors)
        if start == np.inf:
            return
        times, free, size = self._profile
        first = int(kernels.segment_at(times, int(size[0]), start))
        for index in range(first, int(size[0])):
            if index > first and times[index] >= end:
                break
            if free[index] < processors:
                raise NotFreeError(
                    f"{processors} processors are not free at {times[index]:g} s: "
                    f"only {free[index]} are"
                )
        self._change(start, end, -processors)

    def release(self, start: float, duration: float, processors: int) -> None:
        """Give back processors from ``start`` for ``duration`` seconds. O(steps).

        Raises
        ------
        NotFreeError
            They were not all reserved.
        """
        start, end = _on_grid(start, duration, processors)
        self._change(start, end, processors)
        if int(self._profile.free[: self._profile.size[0]].max()) > self.processors:
            self._change(start, end, -processors)
            raise NotFreeError(
                f"{processors} processors from {start:g} s for {duration:g} s were not all reserved"
            )

    def trim(self, now: float) -> None:
        """Forget what lies before ``now`` (seconds). O(steps)."""
        kernels.trim(self._profile, on_grid(float(now)))

    def steps(self) -> list[tuple[float, int]]:
        """Return the steps as (date in seconds, free processors from then on)."""
        times, free, size = self._profile
        return list(zip(times[: size[0]].tolist(), free[: size[0]].tolist(), strict=True))

    def _change(self, start: float, end: float, processors: int) -> None:
        times, free, size = self._profile
        if size[0] + STEPS_PER_RESERVATION > len(times):
            self._profile = Profile(grown(times), grown(free), size)
        _change(self._profile, start, end, processors, True)

    def _check(self) -> None:
        """Verify the invariants; for tests."""
        size = self._profile.size[0]
        times: Any = self._profile.times[:size]
        free: Any = self._profile.free[:size]
        if size < 1:
            raise AssertionError("a profile has at least one step")
        if not bool(np.all(np.diff(times) > 0)):
            raise AssertionError(f"dates must ascend: {times}")
        if any(date != on_grid(date) for date in times.tolist()):
            raise AssertionError(f"dates must be whole microseconds: {times}")
        if not bool(np.all((free >= 0) & (free <= self.processors))):
            raise AssertionError(f"free processors must be from 0 to {self.processors}: {free}")
        if bool(np.any(np.diff(free) == 0)):
            raise AssertionError(f"neighbouring steps must differ: {free}")


def _check_numbers(processors: object, **seconds: object) -> None:
    require_type("processors", processors, (int, np.integer), "a whole number")
    for name, value in seconds.items():
        require_type(name, value, (int, float, np.number), "a number of seconds")


def _on_grid(start: float, duration: float, processors: int) -> tuple[float, float]:
    """Return the start and the end on the grid of dates; what has no length ends at once."""
    _check_numbers(processors, start=start, duration=duration)
    start = on_grid(float(start))
    if duration <= 0:
        return start, start
    return start, end_of(start, duration_on_grid(float(duration)))
