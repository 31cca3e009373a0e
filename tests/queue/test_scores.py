"""Scores of forecasts: coverage, losses, and intervals over blocks of weeks."""

from __future__ import annotations

import math

import numpy as np
import pytest

from qops_batsim.experiments import mean_interval
from qops_batsim.queue.scores import (
    BLOCK,
    LEVELS,
    UNKNOWN,
    PastForecast,
    clustered,
    coverage,
    coverages,
    crps,
    kept_promises,
    pinball,
)
from support.pasts import past


def told(
    now: float, start: float, drawn: tuple[float, ...], levels: tuple[float, ...]
) -> PastForecast:
    return PastForecast(now, 0, start, drawn, levels, start + 10.0, start - 20.0, start)


def test_losses_by_hand() -> None:
    # Ten seconds late at 10 %, in time at 50 %, ten early at 90 %; and ten late at 95 %.
    dates = np.array([[90.0, 95.0, 100.0, 105.0, 110.0, 90.0]])
    found = pinball(np.array([100.0]), dates)[0]
    assert found.tolist() == pytest.approx([1.0, 1.25, 0.0, 1.25, 1.0, 9.5])
    # Of the draws 1 and 3, in one more the job is cancelled: 2 on average from 4, less half of 1.
    assert crps(np.array([4.0]), np.array([[3.0], [1.0], [math.nan]])).tolist() == [1.5]


def test_the_score_of_draws_is_that_of_all_their_pairs() -> None:
    rng = np.random.default_rng(2)
    draws = rng.exponential(100.0, (17, 5))
    starts = rng.exponential(100.0, 5)
    pairs = np.abs(draws[:, None] - draws[None, :]).mean(axis=(0, 1))
    expected = np.abs(draws - starts).mean(axis=0) - pairs / 2
    assert crps(starts, draws) == pytest.approx(expected)


def test_four_weeks_are_one_observation() -> None:
    levels = (10.0, 20.0, 30.0, 40.0, 50.0, 60.0)
    inside = [told(now, 30.0, levels, levels) for now in (0.0, 0.9 * BLOCK)]
    outside = [told(now, 99.0, levels, levels) for now in (1.1 * BLOCK, 1.9 * BLOCK)]
    assert coverage(inside).coverage_80_interval is None
    assert coverage(inside + outside).coverage_80 == 50.0
    assert coverage(inside + outside).coverage_80_interval == (0.0, 100.0)


def test_halves_and_forecast_waits_and_unlike_queues_are_told() -> None:
    levels = (10.0, 20.0, 30.0, 40.0, 50.0, 60.0)
    jobs = past(8, [(0.0, 30.0, 40.0, 100.0, 1)])
    early = [told(now, 30.0, levels, levels) for now in np.linspace(0.0, 9.0, 60)]
    late = [told(now, 99.0, levels, levels)._replace(is_unlike=True) for now in [20.0] * 60]
    groups = {each.group: each for each in coverages(early + late, jobs)}
    assert groups["first half"].coverage_80 == 100.0
    assert groups["second half"].coverage_80 == 0.0
    assert groups["queue unlike those before"].forecasts == 60
    # One of all jobs would tell nothing new.
    assert "forecast to wait below 1 h" not in groups
    longer = [each._replace(levels=tuple(99 + 7200.0 for _ in LEVELS)) for each in late]
    groups = {each.group: each for each in coverages(early + longer, jobs)}
    assert groups["forecast to wait 1 to 4 h"].forecasts == 60
    assert groups["forecast to wait below 1 h"].forecasts == 60
    assert math.isnan(UNKNOWN[0])


def test_an_interval_over_clusters_of_one_is_that_of_the_mean() -> None:
    values = np.array([0.0, 100.0, 100.0, 100.0, 0.0, 100.0])
    low, high = mean_interval(values.tolist()).ends
    found = clustered(values, np.arange(6))
    assert found == pytest.approx((max(low, 0.0), min(high, 100.0)))
    # As one observation each week, six equal jobs tell no more than one.
    many = clustered(np.repeat(values, 6), np.repeat(np.arange(6), 6))
    assert many == pytest.approx(found)
    assert clustered(values, np.zeros(6, int)) is None


def test_an_interval_of_shares_that_are_all_alike_has_a_width() -> None:
    # Four weeks, all inside: with t = 3.18, the lower end is 4 / (4 + t * t).
    low, high = clustered(np.full(40, 100.0), np.arange(40) % 4) or (0.0, 0.0)
    assert (low, high) == (pytest.approx(100 * 4 / (4 + 3.182446**2)), 100.0)
    low, high = clustered(np.zeros(40), np.arange(40) % 4) or (1.0, 0.0)
    assert (low, high) == (0.0, pytest.approx(100 * (1 - 4 / (4 + 3.182446**2))))


def test_coverage_counts_what_came_inside() -> None:
    levels = (10.0, 20.0, 30.0, 40.0, 50.0, 60.0)
    starts = (5.0, 15.0, 25.0, 35.0, 60.0)
    found = coverage([told(0.0, start, levels, levels) for start in starts])
    assert (found.coverage_80, found.coverage_50) == (60.0, 40.0)
    assert found.median_error == 15.0
    assert (found.of_plan, found.of_recent_waits, found.of_bound) == (10.0, 20.0, 0.0)


def test_promises_are_kept_by_the_end() -> None:
    # Of limits of 100 s the jobs use 40. The first starts by the promised 60, the second after it,
    # but ends in time; the third is late, and to the fourth nothing was promised.
    starts = (50.0, 110.0, 130.0, 140.0)
    jobs = past(8, [(0.0, start, 40.0, 100.0, 1) for start in starts])
    levels = (10.0, 20.0, 30.0, 40.0, 50.0, 60.0)
    never = (*levels[:-1], math.inf)
    told_of = [
        PastForecast(0.0, row, start, levels, levels if row < 3 else never, 130.0, 0.0, 0.0)
        for row, start in enumerate(starts)
    ]
    found = kept_promises(told_of, jobs)
    assert found is not None
    assert (found.promises, found.kept, found.started) == (
        3,
        pytest.approx(200 / 3),
        pytest.approx(100 / 3),
    )
    # 160 less 90, 150 and 170.
    assert found.slack == pytest.approx((70 + 10 - 10) / 3)
    assert found.plan_kept == 100.0
    assert kept_promises(told_of[3:], jobs) is None
