"""Calibration: what is learned of forecasts, of which outcomes, and by how much."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from qops_batsim.queue.calibration import (
    DAY,
    ENOUGH,
    INNER,
    LEAST,
    LEVELS,
    MEDIAN,
    BestForecast,
    Calibration,
    _quantiles_of_errors,
    alike,
    corrected,
    smooth_quantiles,
    stretched,
    widened,
)
from qops_batsim.queue.forecast import quantiles


def stream(
    waits: np.ndarray, drawn: np.ndarray, gap: float, calibration: Calibration
) -> np.ndarray:
    """Forecast one job at each moment; return which starts came by each quantile, as told."""
    kept = []
    for count, (wait, quantiles_drawn) in enumerate(zip(waits, drawn, strict=True)):
        now = gap * count
        start = np.array([now + wait])
        base = now + quantiles_drawn[None, :]
        calibration.come_to(now)
        told = corrected(base, calibration.corrections(now), now)
        calibration.remember(now, start, base, told)
        kept.append(start[:, None] <= told)
    return np.concatenate(kept)


def test_calibration_learns_what_all_forecasts_miss() -> None:
    """Starts come 0 to 100 s after the moment, forecasts tell 300 to 305 s."""
    rng = np.random.default_rng(7)
    drawn = np.tile(300.0 + np.arange(6.0), (600, 1))
    kept = stream(rng.uniform(0, 100, 600), drawn, DAY / 4, Calibration())
    assert kept[200:].mean(axis=0) == pytest.approx(LEVELS, abs=0.06)


@pytest.mark.parametrize("seed", range(3))
def test_coverage_holds_while_waits_grow(seed: int) -> None:
    """Waits and their forecasts grow twentyfold; all come in half of the time that is forecast,
    and within a range that is three times as wide.
    """
    rng = np.random.default_rng(seed)
    scale = np.geomspace(1.0, 20.0, 800) * 3600.0
    waits = scale * rng.lognormal(-0.7, 0.6, 800)
    spread = np.exp(0.2 * np.array([-1.28, -0.67, 0.0, 0.67, 1.28, 1.64]))
    kept = stream(waits, scale[:, None] * spread, DAY / 8, Calibration())
    inside = kept[:, 4] & ~kept[:, 0]
    for half in (inside[100:450], inside[450:]):
        assert 0.72 <= half.mean() <= 0.88


def test_nothing_is_corrected_by_few_outcomes_or_before_they_are_known() -> None:
    calibration = Calibration()
    drawn = 100.0 + np.arange(6.0)[None, :]
    for _ in range(LEAST - 1):
        calibration.remember(0.0, np.array([50.0]), drawn, drawn)
    calibration.come_to(60.0)
    assert calibration.corrections(60.0) == []
    calibration.remember(0.0, np.array([50.0]), drawn, drawn)
    # By 40 s it is known that no job has started: none that is not late is moved.
    calibration.come_to(40.0)
    late = corrected(drawn, calibration.corrections(40.0), 0.0)
    assert (late[0] <= drawn[0] + 1e-6).all()
    calibration.come_to(60.0)
    # The inner ones are not moved by the outcomes of a day, but no further out than the others.
    found = corrected(drawn, calibration.corrections(60.0), 0.0)[0]
    assert found == pytest.approx([50.0] * 6, abs=1e-6)


def test_inner_quantiles_are_moved_as_far_as_their_misses_exceed_chance() -> None:
    drawn = 3600.0 + np.arange(6.0)[None, :]

    def moves(starts: list[float]) -> np.ndarray:
        calibration = Calibration()
        for day, start in enumerate(starts):
            now = day * DAY
            calibration.remember(now, np.array([now + start]), now + drawn, now + drawn)
        calibration.come_to(math.inf)
        return np.array(calibration.corrections(math.inf)[2].moves)

    # Half of the starts are before the median: it stays. All are: it is moved by all but 1 of 40.
    assert moves([1800.0, 7200.0] * 20)[MEDIAN] == 0.0
    early = stretched(np.array([1800.0]))[0] - stretched(drawn[0])
    found = moves([1800.0] * 40)
    assert found[INNER] == pytest.approx(early[INNER] * (1 - 1 / 40))
    assert found[0] == pytest.approx(early[0])


def test_what_still_waits_is_missed_by_at_least_so_much() -> None:
    # Kaplan and Meier: of 1, 2+, 3, 4+ (+: at least) there are left 3/4 after 1, 3/8 after 3.
    errors = np.array([1.0, 2.0, 3.0, 4.0])
    is_known = np.array([True, False, True, False])
    levels = np.array([0.25, 0.26, 0.62, 0.63])
    found = _quantiles_of_errors(errors, is_known, np.ones((4, 4)), levels)
    assert found.tolist() == [1.0, 3.0, 3.0, 4.0]


def test_corrected_quantiles_are_in_order_and_not_past() -> None:
    calibration = Calibration()
    drawn = 100.0 + np.arange(6.0)[None, :]
    for count in range(60):
        start = np.array([1.0 if count % 2 else 5_000.0])
        calibration.remember(0.0, start, drawn, drawn)
    calibration.come_to(math.inf)
    corrections = calibration.corrections(math.inf)
    dates = np.array([[600.0, 600.0, 600.0, 600.0, 601.0, math.inf]])
    found = corrected(dates, corrections, 590.0)[0].tolist()
    assert found == sorted(found)
    assert found[0] >= 590.0
    assert found[5] == math.inf


def test_equal_outcomes_give_equal_corrections() -> None:
    rng = np.random.default_rng(3)
    waits = rng.exponential(9000.0, 80)
    drawn = np.sort(rng.exponential(9000.0, (80, 6)), axis=1)
    first, second = Calibration(), Calibration()
    assert (stream(waits, drawn, 1e4, first) == stream(waits, drawn, 1e4, second)).all()
    assert first.corrections(9e5) == second.corrections(9e5)


@given(
    st.lists(st.floats(0, 1e6), min_size=2, max_size=40),
    st.integers(0, 3),
    st.integers(0, 3),
)
def test_smooth_quantiles_are_among_the_draws(
    draws: list[float], never: int, cancelled: int
) -> None:
    column = np.array([*draws, *[math.inf] * never, *[math.nan] * cancelled])[:, None]
    found = smooth_quantiles(column)[0]
    assert found.tolist() == sorted(found.tolist())
    finite = found[np.isfinite(found)]
    assert (finite >= min(draws) - 1e-6).all()
    assert (finite <= max(draws) + 1e-6).all()
    # A quantile is never where that draw is never.
    plain = np.isfinite(quantiles(column, LEVELS)[:, 0])
    assert (np.isfinite(found) == plain).all()


def test_smooth_quantiles_vary_less_than_one_of_the_draws() -> None:
    draws = np.random.default_rng(4).exponential(1000.0, (30, 400))
    smooth = smooth_quantiles(draws)
    plain = quantiles(draws, LEVELS).T
    assert smooth.mean(axis=0) == pytest.approx(-1000 * np.log1p(-np.array(LEVELS)), rel=0.2)
    assert (smooth.std(axis=0) < plain.std(axis=0))[:5].all()


def test_a_forecast_that_is_widened_keeps_its_inner_quantiles() -> None:
    one = np.array([[10.0, 20.0, 30.0, 40.0, 50.0, 60.0]])
    other = alike(np.array([35.0]))
    assert widened(one, other)[0].tolist() == [10.0, 20.0, 30.0, 40.0, 50.0, 60.0]
    assert widened(other, one)[0].tolist() == [10.0, 35.0, 35.0, 35.0, 50.0, 60.0]


def test_the_best_forecast_is_the_one_of_least_loss_that_is_known() -> None:
    best = BestForecast(2)
    for count in range(ENOUGH):
        # The second of two jobs starts late; until then, the second forecast is better.
        best.remember(np.array([count, 1000.0]), np.array([[5.0, 1.0], [4.0, 9.0]]))
        assert best.best(999.0) == 0
    for count in range(ENOUGH):
        best.remember(np.array([float(count)]), np.array([[5.0], [4.0]]))
    assert best.best(999.0) == 1
    assert best.best(1000.0) == 0
