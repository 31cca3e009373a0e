"""Tables written by compiled loops against Python's own formatting."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from qops_batsim import csv_rows
from qops_batsim.csv_rows import Column, General, Intervals, Words, format_rows

NUMBERS = st.one_of(
    st.floats(allow_nan=False),
    st.floats(-1e12, 1e12),
    st.integers(-(10**15), 10**15).map(float),
    # What lies halfway between two numbers of six decimals, or next to that.
    st.integers(-(10**13), 10**13).map(lambda n: n / 2e6),
    st.builds(
        math.nextafter, st.integers(0, 10**13).map(lambda n: n / 2e6), st.floats(allow_nan=False)
    ),
    # Exactly halfway: odd multiples of a millionth of a half that binary fractions can hold.
    st.builds(math.ldexp, st.integers(-(2**40), 2**40).map(float), st.integers(-30, -7)),
)


@pytest.fixture(autouse=True)
def no_table_is_small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(csv_rows, "FEW_ROWS", 0)
    monkeypatch.setattr(csv_rows, "ROWS_AT_ONCE", 7)


def written(column: Column, rows: int) -> list[str]:
    """Return the cells of the only column of a table."""
    return b"".join(format_rows([column], rows)).decode().split("\n")[:-1]


@settings(deadline=None)
@given(st.lists(NUMBERS, min_size=1))
@example([0.0, -0.0, 5e-7, 1.5e-6, 2.5e-6, -5e-7, 1e-300, 0.9999995, 0.99999949, 2.0**-7])
@example([2.0**62, 2.0**63, 2.0**53 - 1, 2.0**53 / 1e6, 1e308, math.inf, -math.inf])
def test_six_decimals_are_those_of_printf(values: list[float]) -> None:
    assert written(np.array(values), len(values)) == [f"{value:.6f}" for value in values]


@pytest.mark.parametrize("exponent", range(-30, -6))
def test_what_lies_halfway_goes_to_the_even_one(exponent: int) -> None:
    values = [math.ldexp(odd, exponent) for odd in range(1, 4001, 2)]
    assert written(np.array(values), len(values)) == [f"{value:.6f}" for value in values]


def test_what_is_not_a_number_is_an_empty_cell() -> None:
    assert written(np.array([1.0, math.nan, -math.nan]), 3) == ["1.000000", "", ""]


@settings(deadline=None)
@given(
    st.lists(st.one_of(st.integers(0, 10**13).map(float), NUMBERS), min_size=1),
    st.booleans(),
)
@example([999999.0, 1e6, 1000005.0, 1000015.0, 9999995.0, 1234565e5, 1e17, 2.0**61], True)
@example([0.0, -0.0, 0.5, 1e-5], False)
def test_dates_with_six_digits_are_those_of_printf(values: list[float], whole: bool) -> None:
    if whole:
        values = [abs(round(value)) * 1.0 for value in values if math.isfinite(value)]
    assert written(General(np.array(values, float)), len(values)) == [
        f"{value:g}" for value in values
    ]


@settings(deadline=None)
@given(st.lists(st.integers(-(2**62), 2**62)))
def test_whole_numbers_are_written_in_full(values: list[int]) -> None:
    assert written(np.array(values, np.int64), len(values)) == list(map(str, values))


@settings(deadline=None)
@given(st.lists(st.sets(st.integers(0, 30)).map(sorted)))
def test_sets_are_written_as_intervals(sets: list[list[int]]) -> None:
    offsets, bounds = [0], []
    for each in sets:
        first = [n for n in each if n - 1 not in each]
        last = [n for n in each if n + 1 not in each]
        bounds += zip(first, last, strict=True)
        offsets.append(len(bounds))
    pairs = np.array(bounds, np.int64).reshape(-1, 2)
    column = Intervals(np.array(offsets), pairs[:, 0].copy(), pairs[:, 1].copy())
    assert written(column, len(sets)) == column.texts()
    for each, text in zip(sets, column.texts(), strict=True):
        ends = [part.split("-") for part in text.split()]
        assert each == [n for end in ends for n in range(int(end[0]), int(end[-1]) + 1)]


@settings(deadline=None)
@given(st.data())
def test_rows_are_the_cells_side_by_side(data: st.DataObject) -> None:
    rows = data.draw(st.integers(0, 20))
    words = st.text(st.characters(exclude_characters="\n", exclude_categories=["Cs"]), max_size=5)
    texts = data.draw(st.lists(words, min_size=rows, max_size=rows))
    few = data.draw(st.lists(words, min_size=1, max_size=3))
    which = np.array(
        data.draw(st.lists(st.integers(0, len(few) - 1), min_size=rows, max_size=rows))
    )
    columns: list[Column] = [
        texts,
        Words(few, which.astype(np.int8)),
        np.arange(rows) / 3,
        Words.one("", rows),
        np.arange(rows),
    ]
    found = b"".join(format_rows(columns, rows)).decode()
    expected = [f"{texts[row]},{few[which[row]]},{row / 3:.6f},,{row}\n" for row in range(rows)]
    assert found == "".join(expected)


@settings(deadline=None)
@given(st.lists(NUMBERS))
def test_few_rows_are_written_alike_by_plain_python(values: list[float]) -> None:
    column = np.array([*values, math.nan], float)
    compiled = written(column, len(column))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(csv_rows, "FEW_ROWS", 10**9)
        assert written(column, len(column)) == compiled
