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
    """A mean with its confidence interval.

    Attributes
    ----------
    mean
        Mean of the values.
    low, high
        Ends of the interval; None with a single value, which says nothing about spread.
    count
        Number of values.
    """

    mean: float
    low: float | None
    high: float | None
    count: int


def mean_interval(
    values: Sequence[float], *, level: float = LEVEL, resamples: int = RESAMPLES, seed: int = SEED
) -> Interval:
    """Return the mean of a sample with its percentile bootstrap interval.

    The values are drawn again with replacement, ``resamples`` times; the interval
    reaches from the (1 - level) / 2 to the (1 + level) / 2 quantile of the means.

    Parameters
    ----------
    values
        The sample, at least one finite number.
    level
        Confidence, between 0 and 1.
    resamples
        Number of samples drawn.
    seed
        Makes the interval reproducible.

    Raises
    ------
    InputError
        A parameter is out of range.
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

    Raises
    ------
    InputError
        The lengths differ, or as :func:`mean_interval`.
    """
    if len(first) != len(second):
        raise InputError(
            f"paired difference of {len(first)} and {len(second)} values; equal numbers are "
            "expected"
        )
    differences = [a - b for a, b in zip(first, second, strict=True)]
    return mean_interval(differences, level=level, resamples=resamples, seed=seed)
