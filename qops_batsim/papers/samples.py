"""Numbers by seed, which claims and lines of figures are made of."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from qops_batsim.experiments.intervals import Interval
from qops_batsim.papers.report import Series

Values = list[float]
"""A number by seed; none where it has no meaning."""


class Quantity(NamedTuple):
    """A number of a run as figures show it, with the factor to its unit."""

    metric: str
    label: str
    scale: float = 1.0


def minus(first: Values, second: Values) -> Values:
    """Return the differences; none if one number is missing."""
    return [a - b for a, b in by_seed([first, second])]


def percent(first: Values, second: Values) -> Values:
    """Return by how many percent the first exceed the second; none if one of these is 0."""
    if not all(second):
        return []
    return [100.0 * (a / b - 1.0) for a, b in by_seed([first, second])]


def averaged(columns: Sequence[Values]) -> Values:
    """Return the means by seed; none if one number is missing."""
    return [sum(row) / len(row) for row in by_seed(columns)]


def by_seed(columns: Sequence[Values]) -> list[tuple[float, ...]]:
    """Return the numbers of each seed; where all seeds are one run, it is that of each."""
    if not all(columns):
        return []
    count = max(map(len, columns), default=0)
    return list(zip(*(each * count if len(each) == 1 else each for each in columns), strict=True))


def line(label: str, points: Iterable[tuple[float | str, Interval]], scale: float = 1.0) -> Series:
    """Return a line, or bars, of means with their intervals; a single value is both its ends."""
    rows = [(x, *(scale * end for end in (each.mean, *each.ends))) for x, each in points]
    x_values, y, low, high = zip(*rows, strict=True) if rows else ((), (), (), ())
    return Series(label=label, x=x_values, y=y, low=low, high=high)
