"""Confidence intervals of means over seeds, by the percentile bootstrap.

B. Efron, "Bootstrap methods: another look at the jackknife", The Annals of
Statistics 7(1), 1979. With as few values as five, such intervals are somewhat too
narrow: they hold the true mean less often than their level says.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np

from qops_batsim.errors import InputError

RESAMPLES = 10_000
LEVEL = 0.95
SEED = 1


class Interval(msgspec.Struct, frozen=True, kw_only=True):
    """The mean of ``count`` values with its confidence interval.

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

    def text(self, scale: float = 1.0) -> str:
        """Return mean and ends, times a factor to another unit, with two digits."""
        mean = f"{self.mean * scale:,.2f}"
        if self.known is None:
            return mean
        low, high = self.known
        return f"{mean} [{low * scale:,.2f}, {high * scale:,.2f}]"

    def scaled(self, factor: float) -> Interval:
        """Return the interval of the values times a factor above 0."""
        low, high = self.known or (None, None)
        return Interval(
            mean=factor * self.mean,
            low=None if low is None else factor * low,
            high=None if high is None else factor * high,
            count=self.count,
        )


def mean_interval(
    values: Sequence[float], *, level: float = LEVEL, resamples: int = RESAMPLES, seed: int = SEED
) -> Interval:
    """Return the mean of a sample with its percentile bootstrap interval.

    The values, at least one, are drawn again with replacement, ``resamples`` times; the
    interval reaches from the (1 - level) / 2 to the (1 + level) / 2 quantile of the means.
    """
    sample = np.asarray(values, dtype=np.float64)
    if not len(sample) or not np.isfinite(sample).all():
        raise InputError(
            f"a bootstrap of {len(sample)} values; at least one, and finite numbers, are expected"
        )
    if not 0 < level < 1:
        raise InputError(f"confidence level is {level:g}; a number between 0 and 1 is expected")
    if resamples < 1:
        raise InputError(f"resamples is {resamples}; a whole number above 0 is expected")
    mean = float(sample.mean())
    if len(sample) == 1:
        return Interval(mean=mean, low=None, high=None, count=1)
    chosen = np.random.default_rng(seed).integers(len(sample), size=(resamples, len(sample)))
    low, high = np.quantile(sample[chosen].mean(axis=1), [(1 - level) / 2, (1 + level) / 2])
    return Interval(mean=mean, low=float(low), high=float(high), count=len(sample))


def paired_difference(
    first: Sequence[float],
    second: Sequence[float],
    *,
    level: float = LEVEL,
    resamples: int = RESAMPLES,
    seed: int = SEED,
) -> Interval:
    """Return the mean of ``first[i] - second[i]`` with its interval.

    What both values of a pair share, the workload of one seed, cancels out; so the
    interval is narrower than those of the two means.
    """
    if len(first) != len(second):
        raise InputError(
            f"paired difference of {len(first)} and {len(second)} values; equal numbers are "
            "expected"
        )
    differences = [a - b for a, b in zip(first, second, strict=True)]
    return mean_interval(differences, level=level, resamples=resamples, seed=seed)
