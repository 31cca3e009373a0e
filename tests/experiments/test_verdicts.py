"""Judging numbers together."""

import math

import numpy as np
import pytest

from qops_batsim.experiments.statistics import (
    ERROR,
    directions,
    holm,
    judge,
    mean_interval,
    significant,
)


def test_probabilities_are_corrected_from_the_least_up() -> None:
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([0.5, None, 0.9, 0.01]) == pytest.approx([1.0, None, 1.0, 0.03])
    assert holm([]) == []


def test_of_a_family_of_true_null_statements_few_are_rejected() -> None:
    families = np.random.default_rng(1).normal(size=(600, 8, 5)).tolist()
    wrong = 0
    for family in families:
        chances = [judge(mean_interval(values), low=0.0).chance for values in family]
        wrong += any(map(significant, holm(chances)))
    assert wrong / len(families) < ERROR + 3 * math.sqrt(ERROR * (1 - ERROR) / len(families))


def test_differences_have_a_direction_or_none() -> None:
    high, low = [5.0, 5.1, 4.9], [-5.0, -5.1, -4.9]
    found = directions([*map(mean_interval, (high, low, [1.0, -1.0, 0.1], [3.0, 4.0])), None])
    assert [word for word, _ in found] == ["higher", "lower", "inconclusive", "not judged", ""]
    assert [chance is None for _, chance in found] == [False, False, False, True, True]
