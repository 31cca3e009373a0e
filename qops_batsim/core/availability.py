"""The availability profile as Python users see it."""

from __future__ import annotations

import numbers

from qops_batsim.core.profile import Profile
from qops_batsim.errors import SimulationError, require_type
from qops_batsim.timing import SHORTEST, down_to_grid, duration_on_grid, end_of, up_to_grid


class NotFreeError(SimulationError, ValueError):
    """Raised when processors to reserve are not free, or when processors to give back were not
    reserved.
    """


class AvailabilityProfile:
    """The availability profile: how many processors are free from each date on.

    It has steps at whole microseconds: a reservation counts from its start rounded down to its end
    rounded up. Dates that are asked about may lie between two microseconds.

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
        self._profile = Profile(processors, down_to_grid(float(start)))

    @classmethod
    def like(cls, profile: Profile, processors: int) -> AvailabilityProfile:
        """Return a copy of a core :class:`Profile` for a machine of ``processors`` processors.
        O(steps).
        """
        made = cls(processors)
        made._profile.copy_from(profile)
        return made

    def copy(self) -> AvailabilityProfile:
        """Return an independent copy of the profile. O(steps)."""
        return self.like(self._profile, self.processors)

    def earliest_fit(self, after: float, duration: float, processors: int) -> float:
        """Return the first date from ``after`` on (seconds) at which a job fits; infinite if it
        never fits. O(steps).

        That is ``after`` itself, never an earlier date, where the job fits from there on; else the
        date of a step. A scheduler may therefore start a job whose fit is ``<= now``.
        """
        _check_numbers(processors, after=after, duration=duration)
        after = max(float(after), self._profile.start)
        begin = down_to_grid(after)
        if after != begin:
            # What is free at such a date is what is free since the microsecond before it.
            end = up_to_grid(after + max(float(duration), SHORTEST))
            if self._profile.lowest_free(begin, end) >= processors:
                return after
            begin = up_to_grid(after)
        return self._profile.earliest_fit(begin, duration_on_grid(float(duration)), processors)

    def reserve(self, start: float, duration: float, processors: int) -> None:
        """Reserve processors from ``start`` for ``duration`` seconds (may be infinite). O(steps).

        Raises
        ------
        NotFreeError
            Fewer processors are free at some moment.
        """
        _check_numbers(processors, start=start, duration=duration)
        start, end = _whole_microseconds(float(start), float(duration))
        for date, free in self._profile.steps_between(start, end):
            if free < processors:
                raise NotFreeError(
                    f"{processors} processors cannot be reserved: {free} are free at {date:g} s"
                )
        self._profile.reserve(start, end, processors)

    def release(self, start: float, duration: float, processors: int) -> None:
        """Give back processors reserved from ``start`` for ``duration`` seconds. O(steps).

        Raises
        ------
        NotFreeError
            The processors were not all reserved.
        """
        _check_numbers(processors, start=start, duration=duration)
        start, end = _whole_microseconds(float(start), float(duration))
        self._profile.release(start, end, processors)
        if self._profile.highest_free() > self.processors:
            self._profile.reserve(start, end, processors)
            raise NotFreeError(
                f"{processors} processors cannot be released from {start:g} s for {duration:g} s: "
                "they were not all reserved"
            )

    def trim(self, now: float) -> None:
        """Drop the part of the profile before ``now`` (seconds). O(steps)."""
        self._profile.trim(down_to_grid(float(now)))

    def steps(self) -> list[tuple[float, int]]:
        """Return the steps as (date in seconds, free processors from then on)."""
        return self._profile.steps()


def _check_numbers(processors: object, **seconds: object) -> None:
    require_type("processors", processors, numbers.Integral, "a whole number")
    if processors < 0:  # type: ignore[operator]
        raise SimulationError(f"processors is {processors}; a whole number from 0 on is expected")
    for name, value in seconds.items():
        require_type(name, value, numbers.Real, "a number of seconds")
        if value != value:
            raise SimulationError(f"{name} is nan; a number of seconds is expected")


def _whole_microseconds(start: float, duration: float) -> tuple[float, float]:
    """Return the start rounded down to microseconds and the end rounded up (seconds); the end is
    the start if the duration is not positive.
    """
    begin = down_to_grid(start)
    if duration <= 0:
        return begin, begin
    return begin, max(up_to_grid(start + duration), end_of(begin, SHORTEST))
