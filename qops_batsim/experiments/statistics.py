"""Confidence intervals of means, and verdicts on several numbers that are tested together.

*Intervals.* A 95 % interval of n values holds the true mean in 95 % of all samples if these are
normal, whatever n is. Of exponential values, as skewed as those of an experiment may be, it holds
91 % of the means with n = 2, 89 % with 3, 88 % with 5 and 90 % with 10 (``tests/experiments``);
paired differences of such values are symmetric, and it holds at least 95 %. On measured metrics it
holds 88 to 96 % with n = 20 (docs/verdicts.md). *Student* (W. S. Gosset), "The probable error of a
mean", Biometrika 6(1), 1908.

*Ratios.* How many times a number is another one is averaged as the logarithm
(:func:`log_ratios`), whose values are less skewed and whose mean does not depend on which of the
two is the base. The ratio of two means, where values are weighed by their sizes, has an interval
of its own (:func:`ratio_of_means`).

*Limits.* A share lies between 0 and 100 %, a difference of two, as an income is, between -100 and
100 points, a time or a count is not below 0, a slowdown not below 1: intervals are cut there
(:func:`limits_of`). What is cut off cannot be the true mean, so that the interval holds it as often
as before. Verdicts are those of the whole interval.

*Verdicts.* A statement says that the true mean lies in a range: above 0, say, or between 3 and 5.
The probability that chance alone gives the measured number is computed for the statement and for
its contrary, and corrected for the number of statements (S. Holm, "A simple sequentially rejective
multiple test procedure", Scandinavian Journal of Statistics 6(2), 1979). It is the greater one of
two, each of which is too sure where the other is not:

* that of sign flips: of all patterns of signs of what the values have more than a limit, the share
  whose sum is as large as the measured one (R. A. Fisher, "The Design of Experiments", 1935). Its
  least is 1 / 2ⁿ, whatever the values are. Up to :data:`EXACT` values all patterns count, of more
  :data:`DRAWN` of them, drawn with the seed :data:`SEED`. It is exact for symmetric values only.
* that of Student's t, to which the first term of Edgeworth's series is added on the side on which
  skewness makes t too sure, |γ| (2t² + 1) φ(t) / (6 √n), where φ is the density of t, and γ twice
  the skewness of the sample (P. Hall, "The Bootstrap and Edgeworth Expansion", Springer, 1992,
  2.6).

Our differences are skewed (up to 2.6), and neither keeps its level on them, nor do both; so a
verdict asks for :data:`NOMINAL`, and of a family that still has a wrong one in more than
:data:`ERROR` of the cases simulated from its own values (:func:`level`) there is none.

*Student's t*: M. Abramowitz and I. A. Stegun, "Handbook of Mathematical Functions", 1964, 26.7.3
and 26.7.4.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple, TypeVar

import msgspec
import numpy as np

from qops_batsim.errors import InputError, require
from qops_batsim.measures.metrics.measures import MEASURES
from qops_batsim.measures.metrics.measures import SHARE as A_SHARE

KeyT = TypeVar("KeyT", bound=Hashable)


Sample = np.ndarray[tuple[Any, ...], np.dtype[np.float64]]
"""Values; in several rows, each is a sample."""


def upper_tail(t: Sample, freedom: int) -> Sample:
    """Return P(T > t) for Student's T with ``freedom`` degrees of freedom."""
    require(freedom >= 1, "degrees of freedom", freedom, "a whole number above 0 is expected")
    centre: Sample = _centre(np.arctan(t / math.sqrt(freedom)), freedom)
    return (1.0 - centre) / 2


def density(t: Sample, freedom: int) -> Sample:
    """Return the density of Student's T at t."""
    scale = math.lgamma((freedom + 1) / 2) - math.lgamma(freedom / 2)
    scale -= math.log(math.pi * freedom) / 2
    return np.exp(scale - (freedom + 1) / 2 * np.log1p(t * t / freedom))


@lru_cache(maxsize=256)
def quantile(level: float, freedom: int) -> float:
    """Return the t with P(|T| > t) = 1 - level."""
    require(freedom >= 1, "degrees of freedom", freedom, "a whole number above 0 is expected")
    require(0 < level < 1, "confidence level", level, "a number between 0 and 1 is expected")
    # Bisection over the angle whose tangent is t / √ν.
    low = 0.0
    high = math.pi / 2
    while low < (middle := (low + high) / 2) < high:
        if _centre(middle, freedom) < level:
            low = middle
        else:
            high = middle
    return math.sqrt(freedom) * math.tan(low)


def _centre(angle: Any, freedom: int) -> Any:
    """Return P(|T| < t), with the sign of t, where ``angle`` has the tangent t / √ν. O(ν)."""
    is_odd = freedom % 2
    cosine = np.cos(angle)
    term = cosine if is_odd else 1.0
    total = 0.0
    for power in range(2 + is_odd, freedom + 1, 2):
        total = total + term
        term = term * ((power - 1) / power * cosine * cosine)
    inside = np.sin(angle) * total
    return (inside + angle) * 2 / math.pi if is_odd else inside


LEVEL = 0.95
"""Probability that an interval holds the true mean."""

ENOUGH = 12
"""Independent units (windows, logs, stretches) that a verdict needs at least; more, if there are
many statements (:func:`units_needed`)."""

FAMILIES = 2_000
"""Families that are simulated to tell how often one is wrong; their seed is :data:`SEED`."""

EXACT, DRAWN, SEED = 30, 99_999, 58
"""Values up to which all patterns of signs count; patterns drawn of more values, and their seed."""

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

    ``low`` and ``high`` are None with a single value, which says nothing about spread; they are cut
    to what the mean can be. ``values`` are those that verdicts rest on.
    """

    mean: float
    low: float | None
    high: float | None
    count: int
    values: tuple[float, ...]

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
        values = tuple(map(function, self.values))
        mean = function(self.mean)
        return Interval(mean=mean, low=low, high=high, count=self.count, values=values)

    def within(self, limits: Limits) -> Interval:
        """Return the interval cut at limits, for display; verdicts use the whole interval."""
        least, most = limits
        if self.known is None or least <= self.known[0] <= self.known[1] <= most:
            return self
        # A mean beyond a limit, by rounding at most, stays in its interval.
        low = max(self.known[0], min(least, self.mean))
        high = min(self.known[1], max(most, self.mean))
        return msgspec.structs.replace(self, low=low, high=high)

    def as_changes(self) -> Interval:
        """Convert an interval of log ratios to an interval of changes in %."""
        return self.mapped(change_of)


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
        return Interval(mean=mean, low=None, high=None, count=1, values=(mean,))
    # Equal values have no spread, whatever the rounding of their mean.
    mean = min(max(mean, min(values)), max(values))
    variance = math.fsum((value - mean) ** 2 for value in values) / (count - 1)
    reach = quantile(LEVEL, count - 1) * math.sqrt(variance / count)
    low, high = mean - reach, mean + reach
    return Interval(mean=mean, low=low, high=high, count=count, values=tuple(values)).within(limits)


def chance_of(values: Sample) -> float:
    """Return how likely the mean of values is as large as it is, if their true mean is at most 0.

    That is the greater one of the probabilities by signs and by size.
    """
    if math.isinf(values[0]):
        return 0.0 if values[0] > 0 else 1.0
    if len(values) == 1:
        return 1.0
    return max(chance_of_signs(values), float(chance_of_size(values)))


def chance_of_signs(values: Sample) -> float:
    """Return how likely the sum of values, if any may change its sign, is as large as it is."""
    total = values.sum() - 1e-12 * np.abs(values).sum()
    if len(values) > EXACT:
        return float(1 + (_drawn_signs(len(values)) @ values >= total).sum()) / (DRAWN + 1)
    # Of the patterns of either half, those of the other that go with it are counted.
    first, second = map(_sums_of_signs, (values[::2], values[1::2]))
    fewer = np.searchsorted(np.sort(first), total - second)
    return 1.0 - float(fewer.mean()) / len(first)


@lru_cache(maxsize=1)
def _drawn_signs(count: int) -> Sample:
    return np.random.default_rng(SEED).choice((-1.0, 1.0), (DRAWN, count))


def _sums_of_signs(values: Sample) -> Sample:
    sums = np.zeros(1)
    for value in values:
        sums = np.concatenate((sums - value, sums + value))
    return sums


def chance_of_size(values: Sample) -> Sample:
    """Return how likely the mean of values whose true mean is at most 0 is as large as it is.

    It is Student's, and allows for skewness: without spread, nothing is known of it.
    """
    count = values.shape[-1]
    with np.errstate(invalid="ignore"):  # where a limit is infinite
        away = values - values.mean(axis=-1, keepdims=True)
    spread = np.sqrt((away**2).sum(axis=-1))
    known = np.where(spread > 0, spread, 1.0)
    t = values.sum(axis=-1) / known * math.sqrt((count - 1) / count)
    cube = ((away / known[..., None]) ** 3).sum(axis=-1)
    # Of values with a tail downwards, means are too high more often than Student's t has it.
    skew = np.maximum(0.0, -cube * count * math.sqrt(count - 1) / max(1, count - 2))
    more = skew * (2 * t * t + 1) * density(t, count - 1) / (3 * math.sqrt(count))
    chance = np.minimum(1.0, upper_tail(t, count - 1) + more)
    return np.where(spread > 0, chance, np.where(values[..., 0] > 0, 0.0, 1.0))


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
"""Share of families of verdicts in which one is wrong or more, at most."""

NOMINAL = 0.01
"""The corrected probability of chance with which there is a verdict."""

TEXT_OF_LEVEL = (
    f"by sign flips and by Student's t with a term for skewness, whichever is less sure, at most "
    f"{100 * NOMINAL:.0f} % (Holm). Fewer than {ENOUGH} repetitions are too few to judge, or so "
    "few that they could not decide so many statements, or that more than "
    f"{100 * ERROR:.0f} % of families simulated from their own values have a wrong verdict"
)
"""How probabilities are judged, in words."""


class Judgement(NamedTuple):
    """Verdict on whether a mean lies in a range, with the verdict's p-value.

    ``chance`` is the probability, None where there are too few units to judge.
    """

    inside: bool
    chance: float | None


def judge(found: Interval, low: float = -math.inf, high: float = math.inf) -> Judgement:
    """Judge whether a mean lies in a range, whose ends may be infinite.

    Both sides of a statement can be confirmed, so that each probability counts twice. With fewer
    than :data:`ENOUGH` units there is none.
    """
    if found.count < ENOUGH:
        return Judgement(low < found.mean < high, None)
    inside, outside = _in_and_outside(np.array(found.values), low, high, chance_of)
    return Judgement(bool(inside <= outside), float(min(1.0, 2 * min(inside, outside))))


def units_needed(statements: int) -> int:
    """Return how many units each of several statements needs so that all could be decided.

    If all units agree, sign flips explain that with twice 1 / 2ⁿ, for each statement.
    """
    return max(ENOUGH, math.ceil(1 + math.log2(max(1, statements) / NOMINAL)))


def holm(chances: Sequence[float | None], units: Sequence[int | None]) -> list[float | None]:
    """Return p-values corrected by Holm's method.

    None stays None and does not count as a test, nor does a statement with fewer units than all
    of them need: that is None, too.
    """
    needed = units_needed(sum(chance is not None for chance in chances))
    known = sorted(
        (chance, index)
        for index, (chance, count) in enumerate(zip(chances, units, strict=True))
        if chance is not None and count is not None and count >= needed
    )
    corrected: list[float | None] = [None] * len(chances)
    highest = 0.0
    for place, (chance, index) in enumerate(known):
        highest = max(highest, min(1.0, chance * (len(known) - place)))
        corrected[index] = highest
    return corrected


def significant(chance: float | None) -> bool:
    """Return whether a corrected p-value suffices for a verdict."""
    return chance is not None and chance <= NOMINAL


class Statement(NamedTuple):
    """That the mean of values lies in a range; ``near`` is where it is as good as at its end."""

    values: Sequence[float]
    low: float = 0.0
    high: float = math.inf
    near: Limits | None = None


def level(family: Sequence[Sequence[Statement]]) -> float:
    """Return how often a family is wrong: one verdict says something though nothing differs.

    A member holds if all its statements do. :data:`FAMILIES` are simulated: their units are drawn
    with replacement from the family's own, and means are moved to the ends of the ranges.
    """
    random = np.random.default_rng(SEED)
    counts = sorted({len(each.values) for member in family for each in member})
    places = {count: random.integers(0, count, (FAMILIES, count)) for count in counts}
    # Where none is *alike*, the first that is wrong is so among all.
    tests = 1 if any(each.near for member in family for each in member) else len(family)
    found = [
        _member([_simulated(each, places[len(each.values)], NOMINAL / tests) for each in member])
        for member in family
    ]
    chances, differs = map(np.array, zip(*found, strict=True))
    order = np.argsort(chances, axis=0)
    ordered = np.take_along_axis(chances, order, 0) * np.arange(len(family), 0, -1)[:, None]
    decided = np.maximum.accumulate(ordered, axis=0) <= NOMINAL
    return float((decided & np.take_along_axis(differs, order, 0)).any(axis=0).mean())


def _simulated(statement: Statement, places: Any, most: float) -> tuple[Sample, Any, Any]:
    """Return the chance of the verdict in each family, whether it says no, and whether *alike*.

    Chances above ``most`` may be too low, but not below that.
    """
    values, low, high, near = np.array(statement.values), *statement[1:]
    mean = min(max(values.mean(), values.min()), values.max())
    rows = (values - mean + (high if low == -math.inf else low))[places]

    def chances(away: Sample) -> Sample:
        found = chance_of_size(away)
        may = (found > 0) & (found <= most / 2)
        found[may] = np.maximum(found[may], [chance_of_signs(row) for row in away[may]])
        return found

    inside, outside = _in_and_outside(rows, low, high, chances)
    chance = np.minimum(1.0, 2 * np.minimum(inside, outside))
    alike = np.ones(len(rows))
    if near is not None:
        # By size alone: what lies far within a margin does so with all its signs.
        within, beyond = _in_and_outside(rows, *near, chance_of_size)
        alike = np.where(within <= beyond, 2 * within, alike)
    is_alike = (alike <= NOMINAL) | (alike < chance)
    return np.where(is_alike, alike, chance), (outside < inside) & ~is_alike, is_alike


def _member(parts: Sequence[tuple[Sample, Any, Any]]) -> tuple[Sample, Any]:
    """Return the chance of a member's verdict in each family, and whether it is not *alike*."""
    chances, against, alike = map(np.array, zip(*parts, strict=True))
    least = np.where(against, chances, 1.0).min(axis=0)
    is_against = against.any(axis=0)
    return np.where(is_against, len(parts) * least, chances.max(axis=0)), is_against | ~alike.any(0)


def _in_and_outside(
    values: Sample, low: float, high: float, chance: Callable[[Sample], Any]
) -> tuple[Any, Any]:
    """Return the chances with which the true mean lies in a range, and outside."""
    inside = np.maximum(chance(values - low), chance(high - values))
    return inside, np.minimum(chance(low - values), chance(values - high))


def agreement(values: Sequence[float], end: float = 0.0) -> str:
    """Return on which side of a number all values lie (``"all 7 higher"``); "" if not on one."""
    for word, sign in (("higher", 1), ("lower", -1)):
        if len(values) > 1 and all(sign * value > sign * end for value in values):
            return f"all {len(values)} {word}"
    return ""


Direction = tuple[str, float | None]
"""What is said of a difference (higher, lower, undecided, too few), and the chance."""

TOO_FEW = "too few"


def directions(found: Mapping[KeyT, Interval | None]) -> dict[KeyT, Direction]:
    """Return the verdict on each difference (higher, lower, undecided), tested together.

    With too few units to judge, and if it is undecided, all of them may agree in sign. Of a family
    that would be wrong too often (:func:`level`) units are too few.
    """
    judged = [None if each is None else judge(each, low=0.0) for each in found.values()]
    units = [None if each is None else each.count for each in found.values()]
    corrected = holm([None if each is None else each.chance for each in judged], units)
    tested = [
        [Statement(each.values)]
        for each, chance in zip(found.values(), corrected, strict=True)
        if each is not None and chance is not None
    ]
    if any(map(significant, corrected)) and level(tested) > ERROR:
        corrected = [None] * len(corrected)
    result: dict[KeyT, Direction] = {}
    for (key, each), judgement, chance in zip(found.items(), judged, corrected, strict=True):
        if each is None or judgement is None:
            result[key] = ("", None)
        elif significant(chance):
            result[key] = ("higher" if judgement.inside else "lower", chance)
        else:
            word = TOO_FEW if chance is None else "undecided"
            result[key] = (", ".join(filter(None, (word, agreement(each.values)))), chance)
    return result
