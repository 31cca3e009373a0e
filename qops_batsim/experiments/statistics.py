"""Confidence intervals of means, and verdicts on several numbers that are tested together.

*Intervals.* A 95 % interval of n values holds the true mean in 95 % of all samples if these are
normal, whatever n is. Of exponential values, as skewed as those of an experiment may be, it holds
91 % of the means with n = 2, 89 % with 3, 88 % with 5 and 90 % with 10 (``tests/experiments``);
paired differences of such values are symmetric, and it holds at least 95 %. On measured metrics it
holds 93 to 97 % with n = 20, more than bootstrap intervals do (``benchmarks/interval_coverage.py``,
docs/verdicts.md). *Student* (W. S. Gosset), "The probable error of a mean", Biometrika 6(1),
1908.

*Ratios.* How many times a number is another one is averaged as the logarithm
(:func:`log_ratios`), whose values are less skewed and whose mean does not depend on which of the
two is the base. The ratio of two means, where values are weighed by their sizes, has an interval
of its own (:func:`ratio_of_means`).

*Limits.* A share lies between 0 and 100 %, a difference of two, as an income is, between -100 and
100 points, a time or a count is not below 0, a slowdown not below 1: intervals are cut there
(:func:`limits_of`). What is cut off cannot be the true mean, so that the interval holds it as often
as before. Verdicts are those of the whole interval.

*Skewness.* Of skewed values, Student's t is too sure on one side. To the probability that it gives
there a verdict adds the first term of Edgeworth's series for t, |γ| (2t² + 1) φ(t) / (6 √n), where
φ is the density of t; it takes nothing off on the other side. γ is twice the skewness of a sample
of ten or more, which falls short of that of where the values come from. P. Hall, "The Bootstrap and
Edgeworth Expansion", Springer, 1992, 2.6. Transformations of t that allow for skewness (N. J.
Johnson, Journal of the American Statistical Association 73, 1978; Hall) decide fewer large effects
(docs/verdicts.md). Intervals stay Student's.

*Verdicts.* A statement says that the true mean lies in a range: above 0, say, or between 3 and 5.
The probability that chance alone gives the measured number is computed for the statement and for
its contrary, and corrected for the number of statements: S. Holm, "A simple sequentially rejective
multiple test procedure", Scandinavian Journal of Statistics 6(2), 1979. With a single statement
about values without skewness, the verdict is whether the whole 95 % interval lies in the range, or
wholly outside.

*Student's t*: M. Abramowitz and I. A. Stegun, "Handbook of Mathematical Functions", 1964, 26.7.1
and 26.5.8: a tail is half an incomplete beta function, which a continued fraction gives by itself.
What 1 leaves of the probability of |T| < t would be 0 for t of 9 and more, and two such
probabilities could not be compared.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple, TypeVar

import msgspec

from qops_batsim.errors import InputError, require
from qops_batsim.measures.metrics.measures import MEASURES
from qops_batsim.measures.metrics.measures import SHARE as A_SHARE

KeyT = TypeVar("KeyT", bound=Hashable)


def upper_tail(t: float, freedom: int) -> float:
    """Return P(T > t) for Student's T with ``freedom`` degrees of freedom.

    The tail is computed by itself, not as what the centre leaves, so that it keeps its digits
    however small it is. O(√freedom).
    """
    require(freedom >= 1, "degrees of freedom", freedom, "a whole number above 0 is expected")
    if math.isinf(t):
        return 0.0 if t > 0 else 1.0
    tail = _tail(abs(t) / math.sqrt(freedom), freedom)
    return tail if t >= 0 else 1.0 - tail


def density(t: float, freedom: int) -> float:
    """Return the density of Student's T at t."""
    scale = math.lgamma((freedom + 1) / 2) - math.lgamma(freedom / 2)
    scale -= math.log(math.pi * freedom) / 2
    return math.exp(scale - (freedom + 1) / 2 * math.log1p(t * t / freedom))


@lru_cache(maxsize=256)
def quantile(level: float, freedom: int) -> float:
    """Return the t with P(|T| > t) = 1 - level."""
    require(freedom >= 1, "degrees of freedom", freedom, "a whole number above 0 is expected")
    require(0 < level < 1, "confidence level", level, "a number between 0 and 1 is expected")
    wanted = (1.0 - level) / 2
    # Bisection over the angle whose tangent is t / √ν.
    low = 0.0
    high = math.pi / 2
    while low < (middle := (low + high) / 2) < high:
        if _tail(math.tan(middle), freedom) > wanted:
            low = middle
        else:
            high = middle
    return math.sqrt(freedom) * math.tan(low)


def _tail(ratio: float, freedom: int) -> float:
    """Return P(T > ``ratio`` √ν) for Student's T with ν degrees of freedom and ratio ≥ 0.

    It is half the incomplete beta function of x = 1 / (1 + ratio²) with a = ν / 2 and b = 1/2.
    """
    a = freedom / 2
    log_x = -math.log1p(ratio * ratio)
    x = math.exp(log_x)
    rest = -math.expm1(log_x)
    scale = math.lgamma(a + 0.5) - math.lgamma(a) - math.lgamma(0.5)
    factor = math.exp(scale + a * log_x) * math.sqrt(rest) / 2
    if x < (a + 1.0) / (a + 2.5):
        return factor * _beta_fraction(a, 0.5, x)
    # Near the middle the fraction converges from the other end, and nothing cancels.
    return 0.5 - factor * _beta_fraction(0.5, a, rest)


def _beta_fraction(a: float, b: float, x: float) -> float:
    """Return the continued fraction of the incomplete beta function I_x(a, b), divided by a.

    Lentz's method.
    """
    numerator = 1.0
    denominator = 1.0 / (1.0 - (a + b) * x / (a + 1.0))
    fraction = denominator / a
    m = 0
    step = 0.0
    while abs(step - 1.0) > 1e-15:
        m += 1
        place = a + 2 * m
        step = 1.0
        for term in (
            m * (b - m) * x / ((place - 1.0) * place),
            -(a + m) * (a + b + m) * x / (place * (place + 1.0)),
        ):
            denominator = 1.0 / (1.0 + term * denominator)
            numerator = 1.0 + term / numerator
            step *= numerator * denominator
        fraction *= step
    return fraction


LEVEL = 0.95
"""Probability that an interval holds the true mean."""

LEAST = 3
"""With fewer repetitions there is no verdict: two values, whose interval reaches 6 times their
distance to both sides, can confirm next to nothing, and one says nothing about chance."""


KNOWN_SKEW = 10
"""With fewer repetitions verdicts do not allow for their skewness."""

Limits = tuple[float, float]
"""The least and the greatest value that a mean can have."""

UNLIMITED: Limits = (-math.inf, math.inf)
SHARE: Limits = (0.0, 100.0)
SHARE_DIFFERENCE: Limits = (-100.0, 100.0)
AMOUNT: Limits = (0.0, math.inf)
SLOWDOWN: Limits = (1.0, math.inf)
GINI: Limits = (0.0, 1.0)

SHARES = frozenset(
    {
        *(name for name, row in MEASURES.items() if row.unit == A_SHARE),
        "accepted_share",
        "accepted_work",
        "charge",
        "deadline_rejects_percent",
        "in_time",
        "jobs",
        "kept_jobs",
        "met_jobs",
        "not_kept",
        "promised_jobs",
        "reached_charge",
        "reached_jobs",
        "reached_work",
        "work",
        "worst_decile",
    }
)
"""Names of the metrics that are shares (%), of runs and of scores.

Lost work is none: a job may lose more than it has.
"""

SIGNED: dict[str, Limits] = {"income": (-100.0, 100.0), "income_with_premium": (-100.0, 200.0)}
"""Limits of the metrics that may be below 0.

The income is the share of the charges that was kept less the share that was broken, which together
are at most all; the premiums are at most both.
"""


def limits_of(metric: str) -> Limits:
    """Return the possible range of a metric's mean, by its name."""
    if metric in SIGNED:
        return SIGNED[metric]
    if metric == "gini":
        return GINI
    if "slowdown" in metric:
        return SLOWDOWN
    return SHARE if metric in SHARES else AMOUNT


def limits_of_difference(metric: str) -> Limits:
    """Return the possible range of a metric's mean difference, by its name."""
    if metric in SIGNED:
        least, most = SIGNED[metric]
        return least - most, most - least
    return SHARE_DIFFERENCE if metric in SHARES else UNLIMITED


class Interval(msgspec.Struct, frozen=True, kw_only=True):
    """The mean of ``count`` values with its 95 % confidence interval.

    ``low`` and ``high`` are None with a single value, which says nothing about spread. Where they
    are cut to what the mean can be, ``reach`` is half the length of the whole interval. ``skew`` is
    the skewness of the values, where it is not 0, which verdicts allow for.
    """

    mean: float
    low: float | None
    high: float | None
    count: int
    reach: float | msgspec.UnsetType = msgspec.UNSET
    skew: float | msgspec.UnsetType = msgspec.UNSET

    @property
    def known(self) -> tuple[float, float] | None:
        """Both ends of the interval, None if unknown."""
        return None if self.low is None or self.high is None else (self.low, self.high)

    @property
    def ends(self) -> tuple[float, float]:
        """Both ends of the interval; for a single value, that value twice."""
        return self.known or (self.mean, self.mean)

    def text(self, scale: float = 1.0, sign: str = "") -> str:
        """Format the mean and the ends with two decimals, after multiplying by ``scale``."""
        mean = f"{self.mean * scale:{sign},.2f}"
        if self.known is None:
            return mean
        low, high = self.known
        return f"{mean} [{low * scale:{sign},.2f}, {high * scale:{sign},.2f}]"

    def mapped(self, function: Callable[[float], float]) -> Interval:
        """Return the interval after a monotone function of the mean and the ends."""
        known = self.known and sorted(map(function, self.known))
        low, high = known or (None, None)
        reach = self.reach
        if reach is not msgspec.UNSET:
            reach = abs(function(self.mean + reach) - function(self.mean - reach)) / 2
        mean = function(self.mean)
        skew = self.skew
        if skew is not msgspec.UNSET and function(self.mean + 1) < mean:
            skew = -skew
        return Interval(mean=mean, low=low, high=high, count=self.count, reach=reach, skew=skew)

    def within(self, limits: Limits) -> Interval:
        """Return the interval cut at limits, for display; verdicts use the whole interval."""
        least, most = limits
        if self.known is None or least <= self.known[0] <= self.known[1] <= most:
            return self
        # A mean beyond a limit, by rounding at most, stays in its interval.
        low = max(self.known[0], min(least, self.mean))
        high = min(self.known[1], max(most, self.mean))
        return msgspec.structs.replace(self, low=low, high=high, reach=self._half())

    def _half(self) -> float:
        """Return half the length of the uncut interval."""
        if self.reach is not msgspec.UNSET:
            return self.reach
        low, high = self.ends
        return (high - low) / 2

    def scaled(self, factor: float) -> Interval:
        """Return the interval for values that are multiplied by a factor."""
        return self.mapped(lambda value: factor * value)

    def as_changes(self) -> Interval:
        """Convert an interval of log ratios to an interval of changes in %."""
        return self.mapped(change_of)

    def above(self, limit: float) -> float:
        """Return the p-value of the hypothesis that the true mean is at most a limit."""
        known = self.known
        if known is None or math.isinf(limit):
            return 0.0 if limit == -math.inf else 1.0
        freedom = self.count - 1
        error = self._half() / quantile(LEVEL, freedom)
        if error == 0:
            # Without any spread, that of a median: all values on one side of it.
            return 0.5**self.count if self.mean > limit else 1.0
        t = (self.mean - limit) / error
        # Of values with a tail downwards, means are too high more often than Student's t has it.
        skewed = 0.0 if self.skew is msgspec.UNSET else max(0.0, -self.skew)
        more = skewed * (2 * t * t + 1) * density(t, freedom) / (3 * math.sqrt(self.count))
        return min(1.0, upper_tail(t, freedom) + more)

    def below(self, limit: float) -> float:
        """Return the p-value of the hypothesis that the true mean is at least a limit."""
        return self.scaled(-1.0).above(-limit)


Means = dict[str, Interval | None]
"""Means by metric; None where a run lacks the metric."""


def mean_interval(values: Sequence[float], limits: Limits = UNLIMITED) -> Interval:
    """Return the mean of a sample with its interval; InputError for an empty sample.

    The interval reaches t s / √n to both sides, where s is the standard deviation of the n values
    and t the quantile of Student's distribution with n - 1 degrees of freedom.

    Parameters
    ----------
    values
        Independent repetitions, at least one.
    limits
        Range of possible means, to which the interval is cut.
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
    skew = skewness(values, mean)
    interval = Interval(
        mean=mean, low=mean - reach, high=mean + reach, count=count, skew=skew or msgspec.UNSET
    )
    return interval.within(limits)


def skewness(values: Sequence[float], mean: float) -> float:
    """Return the sample skewness; 0 if all values are equal, or if they are few.

    It is Fisher's, √(n (n - 1)) / (n - 2) times the third moment over the variance to 3/2. That of
    fewer than ten values says little about where they come from.
    """
    count = len(values)
    length = math.sqrt(math.fsum((value - mean) ** 2 for value in values))
    if count < KNOWN_SKEW or length == 0:
        return 0.0
    cube = math.fsum(((value - mean) / length) ** 3 for value in values)
    return count * math.sqrt(count - 1) / (count - 2) * cube


def paired_difference(
    first: Sequence[float], second: Sequence[float], limits: Limits = UNLIMITED
) -> Interval:
    """Return the mean of ``first[i] - second[i]`` with its interval.

    What both values of a pair share, the workload of one seed, cancels out; so the interval is
    narrower than those of the two means.

    Parameters
    ----------
    first, second
        Values of the same repetitions, in the same order.
    limits
        Range of possible differences, to which the interval is cut.
    """
    if len(first) != len(second):
        raise InputError(
            f"paired difference of {len(first)} and {len(second)} values; equal numbers are "
            "expected"
        )
    return mean_interval([a - b for a, b in zip(first, second, strict=True)], limits)


def log_ratios(first: Sequence[float], second: Sequence[float]) -> list[float]:
    """Return log(``first[i] / second[i]``) for each i; empty if a number is not above 0."""
    if not all(value > 0 for value in (*first, *second)):
        return []
    return [math.log(a / b) for a, b in zip(first, second, strict=True)]


def change_of(logarithm: float) -> float:
    """Convert a log ratio to a change in %."""
    return 100.0 * math.expm1(logarithm)


def logarithm_of(change: float) -> float:
    """Convert a change in % to a log ratio; -inf for -100 % or less."""
    return math.log1p(change / 100.0) if change > -100.0 else -math.inf


def ratio_of_means(first: Sequence[float], second: Sequence[float]) -> Interval:
    """Return mean of first / mean of second (above 0) with its interval.

    Pairs are repetitions, such as the sums of one month. With r the ratio, the residuals
    ``first[i] - r second[i]`` have mean 0, and their interval over the mean of the second is that
    of r to first order (W. G. Cochran, "Sampling Techniques", 1977): what both sums of a
    pair share, such as a month with many jobs, cancels out.
    """
    own, other = mean_interval(first), mean_interval(second)
    if other.mean <= 0:
        raise InputError(f"ratio to a mean of {other.mean:g}; a mean above 0 is expected")
    ratio = own.mean / other.mean
    residual = paired_difference(first, [ratio * value for value in second])
    moved = residual.mapped(lambda value: ratio + value / other.mean)
    return msgspec.structs.replace(moved, mean=ratio)


def nested_interval(
    groups: Sequence[Sequence[float]], *, planned: int = 1, limits: Limits = UNLIMITED
) -> Interval:
    """Return the mean of grouped values (e.g. seeds within windows) with its interval.

    Values of one group are no independent repetitions. With several groups the interval is that of
    the groups' means, each of which counts alike: it tells what to expect of another window of that
    log. With a single group, it tells what to expect of other seeds on the same window.

    Parameters
    ----------
    groups
        The values of each group.
    planned
        Number of groups of the whole study: while only one of several is there, its mean has no
        interval.
    limits
        Range of possible means, to which the interval is cut.
    """
    if max(len(groups), planned) == 1:
        return mean_interval(groups[0], limits)
    return mean_interval([mean_interval(group).mean for group in groups], limits)


def grouped_interval(
    values: Iterable[tuple[Hashable, float | None]],
    *,
    planned: int = 1,
    limits: Limits = UNLIMITED,
) -> Interval | None:
    """Return :func:`nested_interval` of values with their groups; None if a value is unknown.

    >>> grouped_interval([("a", 1.0), ("a", 3.0), ("b", 4.0)]).mean
    3.0
    """
    groups: dict[Hashable, list[float]] = {}
    for group, value in values:
        if value is None:
            return None
        groups.setdefault(group, []).append(value)
    if not groups:
        return None
    return nested_interval(list(groups.values()), planned=planned, limits=limits)


def difference(first: float | None, second: float | None) -> float | None:
    """Return first minus second; None if one of the numbers is unknown."""
    return None if first is None or second is None else first - second


ERROR = 1 - LEVEL
"""Probability of one wrong verdict or more among those judged together, at most."""

RISK = f"{100 * ERROR:.0f} %"
"""The same in words."""


class Judgement(NamedTuple):
    """Verdict on whether a mean lies in a range, with the verdict's p-value.

    ``chance`` is the probability, None where there are too few repetitions to judge.
    """

    inside: bool
    chance: float | None


def judge(
    found: Interval, low: float = -math.inf, high: float = math.inf, *, least: int = LEAST
) -> Judgement:
    """Judge whether a mean lies in a range, whose ends may be infinite.

    Both sides of a statement can be confirmed, so that each probability counts twice. With fewer
    than ``least`` repetitions there is none.
    """
    if found.count < least:
        return Judgement(low < found.mean < high, None)
    inside = max(found.above(low), found.below(high))
    outside = min(found.below(low), found.above(high))
    return Judgement(inside <= outside, min(1.0, 2 * min(inside, outside)))


def holm(chances: Sequence[float | None]) -> list[float | None]:
    """Return p-values corrected by Holm's method; None stays None and does not count as a test."""
    known = sorted((chance, index) for index, chance in enumerate(chances) if chance is not None)
    corrected: list[float | None] = [None] * len(chances)
    highest = 0.0
    for place, (chance, index) in enumerate(known):
        highest = max(highest, min(1.0, chance * (len(known) - place)))
        corrected[index] = highest
    return corrected


def significant(chance: float | None) -> bool:
    """Return whether a corrected p-value is at most 5 %."""
    return chance is not None and chance <= ERROR


Direction = tuple[str, float | None]
"""What is said of a difference (higher, lower, undecided, not judged), and the chance."""


def directions(found: Mapping[KeyT, Interval | None]) -> dict[KeyT, Direction]:
    """Return the verdict on each difference (higher, lower, undecided), tested together."""
    judged = [None if each is None else judge(each, low=0.0) for each in found.values()]
    corrected = holm([None if each is None else each.chance for each in judged])
    result: dict[KeyT, Direction] = {}
    for key, judgement, chance in zip(found, judged, corrected, strict=True):
        if judgement is None:
            result[key] = ("", None)
        elif judgement.chance is None:
            result[key] = ("not judged", None)
        elif significant(chance):
            result[key] = ("higher" if judgement.inside else "lower", chance)
        else:
            result[key] = ("undecided", chance)
    return result
