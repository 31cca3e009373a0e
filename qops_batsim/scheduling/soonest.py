"""Bounds for searches: no job fits in before a smaller and shorter one did.

While a search places jobs, its profile only gets fuller. So the earliest fit of a job is
a bound for every later one that needs as many processors for as long. A table holds such
bounds by class: powers of two of processors, and of seconds.
"""

from __future__ import annotations

import numpy as np

from qops_batsim.kernels import kernel
from qops_batsim.scheduling.arrays import Floats, Profile
from qops_batsim.scheduling.profile import earliest_fit

WIDTHS, LENGTHS = 12, 14
"""Classes of processors, and of durations."""

SHORTEST = 32.0
"""All durations up to this (seconds) are of one class."""


def new_bounds() -> Floats:
    """Return a table of bounds that says nothing: ``-inf``."""
    return np.full((WIDTHS, LENGTHS), -np.inf)


@kernel
def clear(bounds: Floats) -> None:
    """Forget all bounds."""
    for width in range(WIDTHS):
        for length in range(LENGTHS):
            bounds[width, length] = -np.inf


@kernel
def copy_bounds(bounds: Floats, to: Floats) -> None:
    """Make another table the same."""
    for width in range(WIDTHS):
        for length in range(LENGTHS):
            to[width, length] = bounds[width, length]


@kernel
def soonest_fit(
    profile: Profile, now: float, duration: float, processors: int, bounds: Floats
) -> float:
    """As :func:`earliest_fit`; the bounds on it are used, and noted for other jobs."""
    width = 0
    while width < WIDTHS - 1 and processors >= 2 << width:
        width += 1
    length, longest = 0, SHORTEST
    while length < LENGTHS - 1 and duration >= 2 * longest:
        length, longest = length + 1, 2 * longest
    after = bounds[width, length] if duration >= SHORTEST else now
    start = earliest_fit(profile, max(now, after), duration, processors)
    if processors > 1 << width:
        width += 1
    if duration > longest:
        length += 1
    # A row or column that is as good already is so in all classes above.
    for wider in range(width, WIDTHS if length < LENGTHS else 0):
        if bounds[wider, length] >= start:
            break
        for longer in range(length, LENGTHS):
            if bounds[wider, longer] >= start:
                break
            bounds[wider, longer] = start
    return start
