"""Intervals by Student's t distribution (exact cases, coverage, errors), and joint verdicts."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from qops_batsim import InputError
from qops_batsim.experiments import (
    AMOUNT,
    LEVEL,
    SHARE,
    UNLIMITED,
    Interval,
    Limits,
    limits_of,
    limits_of_difference,
    mean_interval,
    nested_interval,
    paired_difference,
    quantile,
    statistics,
)
from qops_batsim.experiments.statistics import (
    DRAWN,
    ENOUGH,
    ERROR,
    EXACT,
    NOMINAL,
    SHARE_DIFFERENCE,
    SHARES,
    SIGNED,
    agreement,
    chance_of,
    chance_of_signs,
    chance_of_size,
    density,
    directions,
    grouped_interval,
    holm,
    judge,
    significant,
    units_needed,
    upper_tail,
)
from qops_batsim.experiments.study_report import METRICS, heading_of
from qops_batsim.measures import measure_names
from qops_batsim.measures.metrics.measures import PROMISES


def above(found: Interval, limit: float) -> float:
    """Return how likely chance alone gives a mean that is so far above a limit."""
    return chance_of(np.array(found.values) - limit)


def below(found: Interval, limit: float) -> float:
    """Return how likely chance alone gives a mean that is so far below a limit."""
    return chance_of(limit - np.array(found.values))


numbers = st.floats(min_value=-1e6, max_value=1e6, allow_nan=False)
samples = st.lists(numbers, min_size=2, max_size=12)

SAMPLES = 4000


@pytest.mark.parametrize(
    ("level", "freedom", "value"),
    [
        # Tables of the t distribution, two sides.
        (0.95, 1, 12.7062),
        (0.95, 2, 4.3027),
        (0.95, 3, 3.1824),
        (0.95, 4, 2.7764),
        (0.95, 9, 2.2622),
        (0.95, 30, 2.0423),
        (0.95, 120, 1.9799),
        (0.90, 7, 1.8946),
        (0.99, 4, 4.6041),
        (0.99, 11, 3.1058),
        (0.999, 5, 6.8688),
    ],
)
def test_quantiles_are_those_of_tables(level: float, freedom: int, value: float) -> None:
    assert quantile(level, freedom) == pytest.approx(value, abs=6e-5)
    assert upper_tail(value, freedom) == pytest.approx((1 - level) / 2, rel=1e-4)
    assert upper_tail(-value, freedom) == pytest.approx((1 + level) / 2, rel=1e-4)


def test_the_tail_has_its_limits() -> None:
    for freedom in (1, 2, 3, 8):
        assert upper_tail(0.0, freedom) == pytest.approx(0.5)
        assert (upper_tail(math.inf, freedom), upper_tail(-math.inf, freedom)) == (0.0, 1.0)
    with pytest.raises(InputError, match="degrees of freedom is 0"):
        upper_tail(1.0, 0)
    with pytest.raises(InputError, match="confidence level is 1"):
        quantile(1.0, 3)


@pytest.mark.parametrize(
    ("t", "freedom", "tail"),
    [
        # Half the regularized incomplete beta function of ν / (ν + t²), by mpmath with 40 digits.
        (0.5, 1, 0.35241638234956673),
        (1000.0, 1, 0.00031830978008055894),
        (1e9, 1, 3.1830988618379067e-10),
        (0.001, 2, 0.49964644669779504),
        (50.0, 2, 0.00019988007994404029),
        (1e8, 2, 4.9999999999999992e-17),
        (2.5, 3, 0.043853323504032774),
        (1e4, 3, 1.1026577511479049e-12),
        (0.7, 9, 0.2508095196080726),
        (31.5, 9, 8.035310409373716e-11),
        (1000.0, 9, 2.5458033039484674e-24),
        (2.0, 19, 0.030001018193049183),
        (8.0, 19, 8.3797734414090687e-8),
        (34.0, 19, 8.7462456839617521e-19),
        (400.0, 19, 4.617153223353503e-39),
        (37.0, 30, 6.8029031457099319e-27),
        (60.0, 199, 1.0502395485377802e-129),
        (0.1, 1000, 0.46018218451180206),
        (40.0, 1000, 5.2394260775866805e-210),
    ],
)
def test_tails_are_those_of_other_programs(t: float, freedom: int, tail: float) -> None:
    assert upper_tail(t, freedom) == pytest.approx(tail, rel=1e-8, abs=1e-12)
    assert upper_tail(-t, freedom) == pytest.approx(1.0 - upper_tail(t, freedom))


def coverage(drawn: np.ndarray, truth: float) -> float:
    """Return how often the interval of a row holds the true mean."""
    found = [mean_interval(row) for row in drawn.tolist()]
    return sum(each.low <= truth <= each.high for each in found) / len(found)


def monte_carlo_error(share: float) -> float:
    """Return three standard errors of a simulated share."""
    return 3 * math.sqrt(share * (1 - share) / SAMPLES)


@pytest.mark.parametrize("count", [2, 3, 5, 10])
def test_95_percent_are_95_percent_of_normal_values(count: int) -> None:
    drawn = np.random.default_rng(count).normal(3.0, 2.0, (SAMPLES, count))
    assert abs(coverage(drawn, 3.0) - LEVEL) < monte_carlo_error(LEVEL)


@pytest.mark.parametrize(("count", "told"), [(2, 0.90), (3, 0.89), (5, 0.88), (10, 0.90)])
def test_of_skewed_values_they_are_as_many_as_the_documentation_tells(
    count: int, told: float
) -> None:
    random = np.random.default_rng(count)
    drawn = random.exponential(1.0, (SAMPLES, count))
    # The documentation tells whole percents.
    assert abs(coverage(drawn, 1.0) - told) < 0.005 + monte_carlo_error(told)
    pairs = drawn - random.exponential(1.0, (SAMPLES, count))
    assert coverage(pairs, 0.0) > LEVEL - monte_carlo_error(LEVEL)


@pytest.mark.parametrize(("windows", "seeds"), [(3, 5), (5, 2)])
def test_of_windows_that_differ_they_are_95_percent_too(windows: int, seeds: int) -> None:
    random = np.random.default_rng(windows)
    of_window = random.normal(0.0, 1.0, (SAMPLES, windows, 1))
    values = of_window + random.normal(0.0, 1.0, (SAMPLES, windows, seeds))
    found = [nested_interval(each) for each in values.tolist()]
    share = sum(each.low <= 0 <= each.high for each in found) / SAMPLES
    assert abs(share - LEVEL) < monte_carlo_error(LEVEL)
    # All values alike would be taken for more than they are.
    pooled = coverage(values.reshape(SAMPLES, -1), 0.0)
    assert pooled < LEVEL - 2 * monte_carlo_error(LEVEL)


def test_a_small_sample_by_hand() -> None:
    found = mean_interval([1.0, 2.0, 3.0])
    # s = 1, t = 4.3027 with 2 degrees of freedom.
    assert found.known == pytest.approx(
        (2 - 4.3027 / math.sqrt(3), 2 + 4.3027 / math.sqrt(3)), 1e-4
    )
    assert (found.mean, found.count) == (2.0, 3)
    assert found.text() == "2.00 [-0.48, 4.48]"
    assert found.text(sign="+") == "+2.00 [-0.48, +4.48]"


@pytest.mark.parametrize(
    ("values", "limits", "whole", "cut"),
    [
        ([0.5, 1.0, 6.0], SHARE, (-5.0552, 10.0552), (0.0, 10.0552)),
        ([99.0, 95.0, 99.5], SHARE, (91.7063, 103.9603), (91.7063, 100.0)),
        ([5.0, 95.0], SHARE, (-521.7792, 621.7792), (0.0, 100.0)),
        ([0.0, 0.0], SHARE, (0.0, 0.0), (0.0, 0.0)),
        ([60.0, -80.0], SHARE_DIFFERENCE, (-899.4343, 879.4343), (-100.0, 100.0)),
        ([0.5, 1.0, 6.0], AMOUNT, (-5.0552, 10.0552), (0.0, 10.0552)),
        ([120.0, 140.0], AMOUNT, (2.9380, 257.0620), (2.9380, 257.0620)),
        ([-3.0, 2.0], UNLIMITED, (-32.2655, 31.2655), (-32.2655, 31.2655)),
    ],
)
def test_intervals_are_cut_to_what_can_be_and_verdicts_stay(
    values: list[float], limits: Limits, whole: tuple[float, float], cut: tuple[float, float]
) -> None:
    before, after = mean_interval(values), mean_interval(values, limits)
    assert before.ends == pytest.approx(whole, abs=1e-3)
    assert after.ends == pytest.approx(cut, abs=1e-3)
    assert paired_difference(values, [0.0] * len(values), limits).ends == after.ends
    assert nested_interval([values], limits=limits) == after
    assert nested_interval([[each] for each in values], limits=limits) == after
    assert grouped_interval([("a", each) for each in values], limits=limits) == after
    for limit in (-200.0, -1.0, 0.0, 1.0, 50.0, 200.0):
        assert above(after, limit) == above(before, limit)
        assert below(after, limit) == below(before, limit)
    assert after.within(limits) == after


@given(st.lists(st.floats(0.0, 100.0), min_size=1, max_size=9))
def test_intervals_of_shares_stay_shares(values: list[float]) -> None:
    found = mean_interval(values, SHARE)
    low, high = found.ends
    assert 0.0 <= low <= found.mean <= high <= 100.0


def test_all_metrics_have_limits_and_shares_are_those_in_percent_of_a_whole() -> None:
    for name in (*METRICS, *measure_names(PROMISES)):
        least = 1.0 if "slowdown" in name else 0.0
        most = 100.0 if name in SHARES else math.inf
        assert limits_of(name) == SIGNED.get(name, (least, most))
        shown = heading_of(name).endswith("(%)")
        assert shown or name not in SHARES
        # A part of something else than its whole can be more than that.
        more = name in ("wasted_work", "relative_lateness_median", "relative_lateness_p95")
        more |= name in {"kept_charge", "broken_charge", "premium", *SIGNED}
        assert shown == (name in SHARES or more), name
    assert limits_of_difference("utilization") == SHARE_DIFFERENCE
    assert limits_of_difference("response_time_of_others") == UNLIMITED


def test_an_income_is_at_most_all_charges() -> None:
    """What is kept and what is broken are parts of one whole: nobody earns more than all of it."""
    values = [99.0, 99.5, 61.0]
    assert mean_interval(values).ends[1] > 103
    found = mean_interval(values, limits_of("income"))
    assert found.ends == (pytest.approx(mean_interval(values).ends[0]), 100.0)
    assert limits_of("income_with_premium") == (-100.0, 200.0)
    assert limits_of_difference("income") == (-200.0, 200.0)
    # Verdicts are those of the whole interval.
    assert above(found, 90.0) == above(mean_interval(values), 90.0)


def test_groups_count_alike_and_one_group_is_its_values() -> None:
    assert nested_interval([[1.0, 2.0, 3.0]]) == mean_interval([1.0, 2.0, 3.0])
    assert nested_interval([[1.0, 3.0], [4.0], [6.0, 6.0]]) == mean_interval([2.0, 4.0, 6.0])


def test_a_probability_is_the_greater_one_of_two() -> None:
    """Of five values all above 0, sign flips say 1/32, and Student's t is surer."""
    found = mean_interval([2.0, 2.1, 1.9, 2.0, 2.05])
    assert chance_of_size(np.array(found.values)) < 1 / 32 == above(found, 0.0)
    # Of values of which one is far, all 32 patterns but that one and the measured are smaller.
    far = mean_interval([1.0, 1.0, 1.0, 1.0, 100.0])
    assert (chance_of_signs(np.array(far.values)), above(far, 0.0) > 0.1) == (1 / 32, True)
    assert above(found, -math.inf) == below(found, math.inf) == 0.0
    assert above(found, math.inf) == below(found, -math.inf) == 1.0
    same = mean_interval([2.0, 2.0, 2.0])
    # Three equal values are above 1 by chance as often as three coins fall alike.
    assert (above(same, 1.0), above(same, 2.0), below(same, 3.0)) == (0.125, 1.0, 0.125)


@given(st.lists(st.integers(-9, 9), min_size=1, max_size=9))
def test_sign_flips_are_those_of_all_patterns(values: list[int]) -> None:
    patterns = itertools.product((-1, 1), repeat=len(values))
    sums = [sum(s * v for s, v in zip(each, values, strict=True)) for each in patterns]
    expected = sum(each >= sum(values) for each in sums) / len(sums)
    assert chance_of_signs(np.array(values, float)) == pytest.approx(expected)
    # Whatever the unit.
    assert chance_of_signs(np.array(values, float) * 0.1) == pytest.approx(expected)


def test_of_many_values_patterns_are_drawn_with_a_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = np.random.default_rng(5).normal(0.25, 1.0, EXACT + 1)
    found = chance_of_signs(drawn)
    assert found == chance_of_signs(drawn)
    assert chance_of_signs(np.ones(EXACT + 1)) == 1 / (DRAWN + 1)
    monkeypatch.setattr(statistics, "EXACT", EXACT + 1)
    assert 0 < abs(found - chance_of_signs(drawn)) < 3 * math.sqrt(0.25 / DRAWN)


def test_by_size_a_chance_without_skewness_is_that_of_the_interval() -> None:
    found = mean_interval([-1.0, 0.0, 1.0, 2.5, 4.0, 5.0, 6.0])
    low, high = found.ends
    values = np.array(found.values)
    assert chance_of_size(values - low) == pytest.approx(0.025)
    assert chance_of_size(high - values) == pytest.approx(0.025)
    assert chance_of_size(values - found.mean) == pytest.approx(0.5)


def test_a_single_value_has_no_interval() -> None:
    found = mean_interval([3.0])
    assert found == Interval(mean=3.0, low=None, high=None, count=1, values=(3.0,))
    assert (found.ends, found.text(), found.known) == ((3.0, 3.0), "3.00", None)


@given(samples)
def test_intervals_lie_around_the_mean(values: list[float]) -> None:
    found = mean_interval(values)
    low, high = found.ends
    assert low <= found.mean <= high
    assert min(values) <= found.mean <= max(values)


@given(samples, numbers)
def test_what_pairs_share_cancels_out(values: list[float], shift: float) -> None:
    found = paired_difference([value + shift for value in values], values)
    assert found.ends == pytest.approx((shift, shift), abs=1e-3)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: mean_interval([]), "an interval of 0 values; at least one"),
        (lambda: mean_interval([1.0, float("nan")]), "finite numbers"),
        (lambda: paired_difference([1.0], [1.0, 2.0]), "of 1 and 2 values; equal numbers"),
    ],
)
def test_errors(call, message: str) -> None:
    with pytest.raises(InputError, match=message):
        call()


def test_probabilities_are_corrected_from_the_least_up() -> None:
    assert holm([0.01, 0.04, 0.03], [20] * 3) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([0.5, None, 0.9, 0.01], [20] * 4) == pytest.approx([1.0, None, 1.0, 0.03])
    assert holm([], []) == []
    # Twelve units can decide twenty statements, and are not counted with 21.
    few = holm([0.001] * 21, [12] * 18 + [20] * 3)
    assert few[:18] == [None] * 18
    assert few[18:] == pytest.approx([0.003] * 3)


@pytest.mark.parametrize("statements", [1, 20, 21, 40, 41])
def test_units_suffice_where_all_that_agree_could_decide(statements: int) -> None:
    count = units_needed(statements)
    chance = judge(mean_interval([1.0] * count), low=0.0).chance
    assert significant(holm([chance] * statements, [count] * statements)[0])
    assert count == ENOUGH or statements * 2 * 0.5 ** (count - 1) > NOMINAL


def test_of_a_family_of_true_null_statements_few_are_rejected() -> None:
    """Of normal values; of our own differences see docs/verdicts.md."""
    families = np.random.default_rng(1).normal(size=(200, 8, 12)).tolist()
    wrong = 0
    for family in families:
        chances = [judge(mean_interval(values), low=0.0).chance for values in family]
        wrong += any(map(significant, holm(chances, [12] * 8)))
    assert wrong / len(families) < NOMINAL + 3 * math.sqrt(NOMINAL / len(families)) < ERROR


def test_differences_have_a_direction_or_none() -> None:
    high, low = [5.0, 5.1, 4.9] * 4, [-5.0, -5.1, -4.9] * 4
    some = [1.0] * 9 + [40.0, 50.0, 60.0]
    values = (high, low, [1.0, -1.0, 0.1] * 4, some, [3.0, 4.0], [3.0, -4.0], [1.0])
    found = directions(dict(enumerate([*map(mean_interval, values), None]))).values()
    assert [word for word, _ in found] == [
        *("higher", "lower", "undecided", "undecided, all 12 higher"),
        *("too few, all 2 higher", "too few", "too few", ""),
    ]
    assert [chance is None for _, chance in found] == [False] * 4 + [True] * 4
    assert agreement([1.0, 2.0], 3.0) == "all 2 lower"
    # Of values of which one is far off, families would be wrong too often.
    (lonely,) = directions({0: mean_interval([*np.linspace(1.0, 1.2, 11), 2.5])}).values()
    assert lonely == ("too few, all 12 higher", None)


SKEWED = [0.1, 0.2, 0.2, 0.3, 0.3, 0.4, 0.5, 0.6, 0.9, 4.5]
"""Ten values with a tail upwards."""


def test_a_verdict_allows_for_skewness_on_one_side_only() -> None:
    """By the formula: with a tail upwards, means are too low more often than Student's t says."""
    values = np.array(SKEWED)
    mean = sum(SKEWED) / 10
    second, third = (sum((x - mean) ** power for x in SKEWED) / 10 for power in (2, 3))
    skew = math.sqrt(90) / 8 * third / second**1.5
    error = math.sqrt(second / 9)
    assert chance_of_size(values) == pytest.approx(upper_tail(mean / error, 9))
    t = (mean - 1.5) / error
    more = skew * (2 * t * t + 1) * density(t, 9) / (3 * math.sqrt(10))
    found = mean_interval(SKEWED)
    assert chance_of_size(1.5 - values) == pytest.approx(upper_tail(-t, 9) + more)
    assert below(found, 1.5) == chance_of_size(1.5 - values)
    assert above(mean_interval([-x for x in SKEWED]), -1.5) == below(found, 1.5)


def test_the_density_is_the_slope_of_the_tail() -> None:
    for t in (-2.0, 0.0, 0.7, 3.0):
        for freedom in (1, 4, 19):
            slope = (upper_tail(t - 1e-4, freedom) - upper_tail(t + 1e-4, freedom)) / 2e-4
            assert density(t, freedom) == pytest.approx(slope, rel=1e-5)


def test_shares_of_scores_stay_shares() -> None:
    for metric in ("jobs", "promised_jobs", "kept_charge", "reached_work", "met_jobs", "in_time"):
        assert limits_of(metric) == (0.0, 100.0)
        assert limits_of_difference(metric) == (-100.0, 100.0)
    assert limits_of("gini") == (0.0, 1.0)
    assert mean_interval([99.0, 100.0, 100.0], limits_of("worst_decile")).high == 100.0
