"""Bootstrap intervals: exact cases, properties, errors."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from qops_batsim.errors import InputError
from qops_batsim.experiments.intervals import mean_interval, paired_difference

SAMPLES = st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=12)


def test_two_values() -> None:
    # A resampled mean is 0, 1 or 2 with probabilities 1/4, 1/2, 1/4.
    interval = mean_interval([0.0, 2.0])
    assert (interval.mean, interval.low, interval.high, interval.count) == (1, 0, 2, 2)
    narrow = mean_interval([0.0, 2.0], level=0.4)
    assert (narrow.low, narrow.high) == (1, 1)


def test_close_to_the_normal_interval_for_many_values() -> None:
    values = np.random.default_rng(7).normal(10, 2, 400)
    interval = mean_interval(values)
    half = 1.96 * values.std() / 20
    assert interval.low == pytest.approx(values.mean() - half, abs=0.03)
    assert interval.high == pytest.approx(values.mean() + half, abs=0.03)


def test_one_value_tells_nothing_about_spread() -> None:
    interval = mean_interval([3.0])
    assert (interval.mean, interval.low, interval.high, interval.count) == (3, None, None, 1)


@given(SAMPLES)
def test_within_the_values_and_reproducible(values: list[float]) -> None:
    interval = mean_interval(values, resamples=200)
    assert interval.low is not None
    assert interval.high is not None
    slack = 1e-9 * max(map(abs, values))
    assert min(values) - slack <= interval.low <= interval.high <= max(values) + slack
    assert interval == mean_interval(values, resamples=200)


@given(st.lists(st.integers(-1000, 1000), min_size=2, max_size=12), st.integers(-50, 50))
def test_what_pairs_share_cancels_out(values: list[int], shift: int) -> None:
    interval = paired_difference([v + shift for v in values], values, resamples=50)
    assert (interval.mean, interval.low, interval.high) == (shift, shift, shift)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: mean_interval([]), "a bootstrap of 0 values; at least one"),
        (lambda: mean_interval([1.0, float("nan")]), "finite numbers"),
        (lambda: mean_interval([1.0], level=1.5), "confidence level is 1.5"),
        (lambda: mean_interval([1.0], resamples=0), "resamples is 0"),
        (lambda: paired_difference([1.0], [1.0, 2.0]), "of 1 and 2 values; equal numbers"),
    ],
)
def test_errors(call, message: str) -> None:
    with pytest.raises(InputError, match=message):
        call()
