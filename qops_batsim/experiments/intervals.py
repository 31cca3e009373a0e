"""Confidence intervals of means over independent repetitions, by Student's t distribution.

A 95 % interval of n values holds the true mean in 95 % of all samples if these are normal,
whatever n is. Of exponential values, as skewed as those of an experiment may be, it holds 91 % of
the means with n = 2, 89 % with 3, 88 % with 5 and 90 % with 10 (``tests/experiments``); paired
differences of such values are symmetric, and it holds at least 95 %.

*Student* (W. S. Gosset), "The probable error of a mean", Biometrika 6(1), 1908.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec

from qops_batsim.errors import InputError
from qops_batsim.experiments.student import quantile, upper_tail

LEVEL = 0.95
"""How often an interval holds the true mean."""

LEAST = 3
"""With fewer repetitions there is no verdict: two values, whose interval reaches 6 times their
distance to both sides, can confirm next to nothing, and one says nothing about chance."""


class Interval(msgspec.Struct, frozen=True, kw_only=True):
    """The mean of ``count`` values with its 95 % confidence interval.

    ``low`` and ``high`` are None with a single value, which says nothing about spread.
    """

    mean: float
    low: float | None
    high: float | None
    count: int

    @property
    def known(self) -> tuple[float, float] | None:
        """Both ends, if there are any."""
        return None if self.low is None or self.high is None else (self.low, self.high)

    @property
    def ends(self) -> tuple[float, float]:
        """Both ends; with a single value, the value itself."""
        return self.known or (self.mean, self.mean)

    def text(self, scale: float = 1.0, sign: str = "") -> str:
        """Return mean and ends, times a factor to another unit, with two digits."""
        mean = f"{self.mean * scale:{sign},.2f}"
        if self.known is None:
            return mean
        low, high = self.known
        return f"{mean} [{low * scale:{sign},.2f}, {high * scale:{sign},.2f}]"

    def scaled(self, factor: float) -> Interval:
        """Return the interval of the values times a factor above 0."""
        low, high = self.known or (None, None)
        return Interval(
            mean=factor * self.mean,
            low=None if low is None else factor * low,
            high=None if high is None else factor * high,
            count=self.count,
        )

    def above(self, limit: float) -> float:
        """Return the probability of a mean like this one if the true one were at most a limit."""
        known = self.known
        if known is None or math.isinf(limit):
            return 0.0 if limit == -math.inf else 1.0
        freedom = self.count - 1
        error = (known[1] - known[0]) / 2 / quantile(LEVEL, freedom)
        if error == 0:
            # Without any spread, chance has no part in it.
            return 0.0 if self.mean > limit else 1.0
        return upper_tail((self.mean - limit) / error, freedom)

    def below(self, limit: float) -> float:
        """Return the probability of a mean like this one if the true one were at least a limit."""
        return _mirrored(self).above(-limit)


def mean_interval(values: Sequence[float]) -> Interval:
    """Return the mean of a sample, at least one value, with its interval.

    It reaches t s / √n to both sides, where s is the standard deviation of the n values, and t
    the quantile of Student's distribution with n - 1 degrees of freedom.
    """
    count = len(values)
    if not count or not all(map(math.isfinite, values)):
        raise InputError(
            f"an interval of {count} values; at least one, and finite numbers, are expected"
        )
    mean = math.fsum(values) / count
    if count == 1:
        return Interval(mean=mean, low=None, high=None, count=1)
    # Equal values have no spread, whatever the rounding of their mean.
    mean = min(max(mean, min(values)), max(values))
    variance = math.fsum((value - mean) ** 2 for value in values) / (count - 1)
    reach = quantile(LEVEL, count - 1) * math.sqrt(variance / count)
    return Interval(mean=mean, low=mean - reach, high=mean + reach, count=count)


def paired_difference(first: Sequence[float], second: Sequence[float]) -> Interval:
    """Return the mean of ``first[i] - second[i]`` with its interval.

    What both values of a pair share, the workload of one seed, cancels out; so the
    interval is narrower than those of the two means.
    """
    if len(first) != len(second):
        raise InputError(
            f"paired difference of {len(first)} and {len(second)} values; equal numbers are "
            "expected"
        )
    return mean_interval([a - b for a, b in zip(first, second, strict=True)])


def nested_interval(groups: Sequence[Sequence[float]], *, planned: int = 1) -> Interval:
    """Return the mean of values in groups, such as the seeds of each window of a log.

    Values of one group have the group in common, so they are no independent repetitions: with
    more than one group the interval is that of the groups' means, each of which counts alike. It
    then tells what to expect of another window of that log; with a single group, only what to
    expect of other seeds on the same window. Where so many groups are ``planned``, a single one
    is not taken for all: its mean has no interval yet.
    """
    if max(len(groups), planned) == 1:
        return mean_interval(groups[0])
    return mean_interval([mean_interval(group).mean for group in groups])


def _mirrored(interval: Interval) -> Interval:
    low, high = interval.known or (None, None)
    return Interval(
        mean=-interval.mean,
        low=None if high is None else -high,
        high=None if low is None else -low,
        count=interval.count,
    )
