"""Numbers by seed: differences, claims and lines."""

from __future__ import annotations

import math

import pytest

from qops_batsim.experiments import (
    averages,
    by_seed,
    changes,
    differences,
    line_of_means,
    mean_interval,
    range_claim,
    slopes,
)


def test_numbers_are_paired_by_seed() -> None:
    assert by_seed([[1.0, 2.0], [5.0, 6.0]]) == [(1.0, 5.0), (2.0, 6.0)]
    assert differences([1.0, 2.0], [5.0, 4.0]) == [-4.0, -2.0]
    assert averages([[1.0, 2.0], [3.0, 4.0]]) == [2.0, 3.0]
    with pytest.raises(ValueError, match="zip"):
        by_seed([[1.0, 2.0], [1.0, 2.0, 3.0]])


def test_what_has_no_meaning_leaves_nothing() -> None:
    assert differences([1.0], []) == averages([[1.0], []]) == changes([1.0], [0.0]) == []
    assert changes([3.0], [2.0]) == [pytest.approx(math.log(1.5))]


def test_slopes_are_those_of_least_squares() -> None:
    columns = [[0.0, 5.0], [1.0, 3.0], [5.0, 1.0]]
    assert slopes(columns, (1.0, 2.0, 3.0)) == pytest.approx([2.5, -2.0])
    assert slopes([[1.0], []], (1.0, 2.0)) == []


def test_a_claim_about_a_mean() -> None:
    near = [1.0 + 0.01 * place for place in range(12)]
    assert range_claim("a", "", near, low=0.0).verdict == "confirmed"
    assert range_claim("a", "", near[:11], low=0.0).verdict == "too few to judge"
    assert range_claim("a", "", [1.0], low=0.0).verdict == "too few to judge"
    assert range_claim("a", "", []).verdict == "not judged"


def test_a_line_has_means_and_both_ends() -> None:
    found = line_of_means("x", [(1, mean_interval([2.0])), (2, mean_interval([1.0, 3.0]))], 10.0)
    assert found.x == (1, 2)
    assert found.y == (20.0, 20.0)
    assert found.low is not None
    assert found.high is not None
    assert (found.low[0], found.high[0]) == (20.0, 20.0)
    assert found.low[1] < 20.0 < found.high[1]
    assert line_of_means("x", []).x == ()
