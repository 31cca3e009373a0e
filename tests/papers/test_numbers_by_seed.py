"""Numbers by seed: differences, claims and lines."""

from __future__ import annotations

import pytest

from qops_batsim.experiments.statistics import mean_interval
from qops_batsim.papers.claims import averages, by_seed, differences, percent_changes, range_claim
from qops_batsim.papers.report import line_of_means


def test_one_run_of_all_seeds_stands_beside_each() -> None:
    assert by_seed([[1.0, 2.0], [5.0]]) == [(1.0, 5.0), (2.0, 5.0)]
    assert differences([1.0, 2.0], [5.0]) == [-4.0, -3.0]
    assert averages([[1.0, 2.0], [3.0, 4.0]]) == [2.0, 3.0]
    with pytest.raises(ValueError, match="zip"):
        by_seed([[1.0, 2.0], [1.0, 2.0, 3.0]])


def test_what_has_no_meaning_leaves_nothing() -> None:
    assert differences([1.0], []) == averages([[1.0], []]) == percent_changes([1.0], [0.0]) == []
    assert percent_changes([3.0], [2.0]) == [50.0]


def test_a_claim_about_a_mean() -> None:
    assert range_claim("a", "", [1.0, 1.1, 1.2], low=0.0).verdict == "confirmed"
    assert range_claim("a", "", [1.0, 1.1], low=0.0).verdict == "not judged"
    assert range_claim("a", "", []).verdict == "not judged"
    # A number of a single run, and one that stands for all seeds.
    assert range_claim("a", "", [1.0], low=0.0).verdict == "not judged"
    fact = range_claim("a", "", [1.0], low=0.0, single_is_fact=True, paper=3.0, section="2")
    assert (fact.verdict, fact.interval, fact.paper, fact.section) == ("confirmed", None, 3.0, "2")
    assert range_claim("a", "", [0.0], low=0.0, single_is_fact=True).verdict == "not confirmed"


def test_a_line_has_means_and_both_ends() -> None:
    found = line_of_means("x", [(1, mean_interval([2.0])), (2, mean_interval([1.0, 3.0]))], 10.0)
    assert found.x == (1, 2)
    assert found.y == (20.0, 20.0)
    assert found.low is not None
    assert found.high is not None
    assert (found.low[0], found.high[0]) == (20.0, 20.0)
    assert found.low[1] < 20.0 < found.high[1]
    assert line_of_means("x", []).x == ()
