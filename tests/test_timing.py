"""The grid of whole microseconds on which plans are made."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from qops_batsim.limits import MAX_SECONDS
from qops_batsim.timing import GRID_END, duration_on_grid, end_of, on_grid

DATES = st.one_of(st.floats(-1e6, 1e9), st.floats(0, 2 * GRID_END), st.floats(0, MAX_SECONDS))
DURATIONS = st.one_of(st.floats(0, 1e-5), st.floats(0, 1e4), st.floats(0, MAX_SECONDS))


@given(DATES)
def test_a_date_on_the_grid_is_the_float_nearest_to_a_whole_microsecond(date: float) -> None:
    rounded = on_grid(date)
    assert on_grid(rounded) == rounded
    if abs(date) < GRID_END - 1:
        assert rounded == float(Fraction(round(rounded * 1e6), 10**6))
        assert abs(rounded - date) <= 1e-6
    else:
        assert rounded == date


@given(DURATIONS)
def test_a_duration_is_not_shortened_and_never_nothing(duration: float) -> None:
    rounded = duration_on_grid(duration)
    assert rounded == on_grid(rounded) >= 1e-6
    # In the last bits of floats, half a microsecond from 2**31 s (68 years) on.
    last_bits = max(1e-9, duration * 2.0**-51)
    assert duration - last_bits <= rounded
    assert rounded == 1e-6 or rounded <= duration + 1e-6 + last_bits


@given(st.integers(0, 10**15), st.lists(st.integers(1, 10**12), max_size=30))
def test_chains_do_not_drift(start: int, durations: list[int]) -> None:
    date, exact = start / 10**6, start
    for duration in durations:
        date, exact = end_of(date, duration / 10**6), exact + duration
        assert date == exact / 10**6


@given(DATES, DURATIONS)
@example(2251799814.4998407, 0.0)
def test_an_end_is_later_than_the_start(date: float, duration: float) -> None:
    start = on_grid(date)
    end = end_of(start, duration_on_grid(duration))
    assert end > start
    assert on_grid(end) == end


@pytest.mark.parametrize("rounded", [on_grid, duration_on_grid])
def test_what_has_no_end_keeps_none(rounded: object) -> None:
    assert callable(rounded)
    assert rounded(math.inf) == math.inf
    assert end_of(math.inf, 1) == end_of(1, math.inf) == math.inf
