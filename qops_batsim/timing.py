"""Comparing dates: all tolerances, the grid of plans, and the grace (lateness allowed).

Dates and durations are floats in seconds. Workload logs have whole seconds, but
sums of floats (start + run time) may differ in the last bits. Plans therefore hold
dates on a grid of whole microseconds, each the float nearest to it, and compare them
exactly; everything else takes dates closer than a tolerance for one.
"""

from __future__ import annotations

SAME_DATE = 1e-9
"""Dates closer than this (seconds) are one date to the engine, as in SimGrid."""

PLAN_TOLERANCE = 1e-6
"""Dates closer than this (seconds) are one date to verification, and to what compares
news with a plan.

Batsim sends dates with six decimals, so a decision module cannot know better.
"""

GRID_TOLERANCE = 1.5 * PLAN_TOLERANCE
"""Dates on the grid closer than this (seconds) differ by one microsecond or not at all."""

DEADLINE_TOLERANCE = 1.05e-6
"""By how much an end on the grid may miss its deadline (seconds).

Rounding to the grid may make a start a microsecond later; the rest is for the last bits.
"""

GRACE = 1.0
"""Default grace of planning schedulers (seconds): news that is late by less changes no plan.

Where Batsim's own messages take their time, a job that starts or ends later than planned
by less than this is one that does what was planned. On a platform that is known and slower than
that bears, it is :func:`least_grace` instead.
"""

ROUND_TRIPS = 64
"""Least length of a grace, in longest round trips of the platform.

A message waits for those before it, decisions of one answer take effect one after the other, and
half the grace is for starts: this is enough for bursts of some sixty jobs.
"""

TOLD_DECIMALS = 6
"""Decimals of every number that Batsim tells a decision module."""

SHORTEST_CALL_DELAY = 1e-5
"""A requested call comes at least so much later than it was asked for (seconds), as in Batsim."""

SHORTEST = 1e-6
"""Shortest duration in plans (seconds)."""

GRID = 1e6
"""Dates on the grid in a second."""

GRID_END = 2.0**31
"""From here on (seconds, 68 years) floats are about as coarse as the grid: each counts as on it."""

_SHIFT = 1.5 * 2.0**52
"""A float to which this is added is rounded to a whole number, ties to even: ``rint`` without C."""

# What timing.pxd declares is a C variable where this is compiled, which Python does not see.
_GRID = GRID
_GRID_END = GRID_END
_SAME_DATE = SAME_DATE
_SHORTEST = SHORTEST


def least_grace(round_trip: float) -> float:
    """Return the least grace (seconds) with which message delays break no promise.

    ``round_trip`` is the platform's longest one, from the master to a host and back (seconds).

    >>> least_grace(0.0002), least_grace(0.125)
    (1.0, 8.0)
    """
    return max(GRACE, ROUND_TRIPS * round_trip)


def on_grid(date: float) -> float:
    """Return the nearest date, in seconds, that is a whole number of microseconds.

    >>> on_grid(0.1 + 0.2)
    0.3
    """
    if -_GRID_END < date < _GRID_END:
        return (date * _GRID + _SHIFT - _SHIFT) / _GRID
    return date


def up_to_grid(date: float) -> float:
    """Return a date, in seconds, rounded up to whole microseconds.

    The last bits of a sum of floats make no microsecond.

    >>> up_to_grid(0.1 + 0.2), up_to_grid(2.0000001)
    (0.3, 2.000001)
    """
    if not -_GRID_END < date < _GRID_END or date + _SHIFT - _SHIFT == date:
        return date
    rounded = on_grid(date)
    return on_grid(rounded + 1 / _GRID) if date - rounded > _SAME_DATE else rounded


def down_to_grid(date: float) -> float:
    """Return a date, in seconds, rounded down to whole microseconds.

    The last bits of a sum of floats make no microsecond.

    >>> down_to_grid(0.1 + 0.2), down_to_grid(0.8 - 1e-16), down_to_grid(2.0000019)
    (0.3, 0.8, 2.000001)
    """
    if not -_GRID_END < date < _GRID_END or date + _SHIFT - _SHIFT == date:
        return date
    rounded = on_grid(date)
    return on_grid(rounded - 1 / _GRID) if rounded - date > _SAME_DATE else rounded


def duration_on_grid(duration: float) -> float:
    """Return a duration rounded up to whole microseconds, at least one microsecond (in s).

    As dates of news are rounded up as well, what is estimated well is told to end no later
    than planned.
    """
    return max(up_to_grid(float(duration)), _SHORTEST)


def end_of(start: float, duration: float) -> float:
    """Return when a job ends, given its start and duration, rounded to the grid (seconds).

    Also beyond the grid's end it is later than the start, whatever the duration.

    >>> end_of(0.1, 0.2)
    0.3
    """
    return on_grid(start + max(duration, start * 2.0**-52))
