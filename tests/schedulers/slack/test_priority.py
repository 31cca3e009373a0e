"""Priority, slack and the average wait time they rest on."""

from __future__ import annotations

import math

import pytest

from qops_batsim import QosRequest
from qops_batsim.schedulers import SlackOptions
from qops_batsim.schedulers.slack import (
    PRIOR_JOBS,
    AverageWait,
    asked_priority,
    first_slack,
    mean_priority,
    scheduler_priority,
)


@pytest.mark.parametrize(
    ("qos", "expected"),
    [
        ({}, 0.5 / 3),
        ({"deadline": 9.0}, 0.5 / 3),
        ({"user_priority": 1.0}, 0.5),
        ({"political_priority": 0.25}, 0.25),
        ({"user_priority": 1.0, "political_priority": 1.0}, 2.5 / 3),
        ({"user_priority": 1.0, "political_priority": None}, -math.inf),
    ],
)
def test_priority_is_the_mean_of_three(qos, expected) -> None:
    asked = asked_priority(QosRequest(**qos) if qos else None)
    assert mean_priority(asked, 0.5) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("wait", "expected"), [(0, 0), (100, 0.25), (200, 0.5), (400, 1), (9e9, 1), (math.inf, 1)]
)
def test_scheduler_priority(wait, expected) -> None:
    assert scheduler_priority(wait, 200.0) == expected


@pytest.mark.parametrize(
    ("priority", "expected"),
    [(0, 600), (1 / 3, 400), (1, 0), (1 + 1e-16, 0), (-math.inf, math.inf)],
)
def test_first_slack(priority, expected) -> None:
    assert first_slack(priority, 3.0, 200.0) == pytest.approx(expected)
    assert first_slack(priority, 0.0, 200.0) == (math.inf if priority < 0 else 0.0)


def learned(prior: float, window: float, edges: tuple[float, ...] = ()) -> AverageWait:
    return AverageWait(
        SlackOptions(
            average_wait=prior,
            average_wait_source="learned",
            average_wait_window=window,
            average_wait_edges=edges,
        )
    )


def test_a_fixed_average_stays() -> None:
    average = AverageWait(SlackOptions(average_wait=2401.0))
    average.learn(100.0, 9e9, 5.0)
    assert average.at(100.0, 6.0) == 2401.0


def test_a_learned_average_follows_the_waits_of_the_window() -> None:
    average = learned(100.0, 1000.0)
    assert average.at(60.0, 0.0) == 100.0
    for _ in range(PRIOR_JOBS):
        average.learn(60.0, 300.0, 50.0)
    assert average.at(60.0, 1050.0) == pytest.approx(200.0)
    average.learn(60.0, 0.0, 1050.0)
    assert average.at(60.0, 1050.5) == pytest.approx(100.0 * PRIOR_JOBS / (PRIOR_JOBS + 1))
    assert average.at(60.0, 9999.0) == pytest.approx(100.0)


def test_classes_learn_on_their_own() -> None:
    average = learned(100.0, 1000.0, (600.0, 3600.0))
    for estimate, wait in ((599.0, 10.0), (600.0, 20.0), (math.inf, 30.0)):
        for _ in range(100 * PRIOR_JOBS):
            average.learn(estimate, wait, 0.0)
    found = [average.at(estimate, 1.0) for estimate in (0.0, 599.0, 600.0, 3599.0, 3600.0)]
    assert found == pytest.approx([10.89, 10.89, 20.79, 20.79, 30.69], abs=0.01)


def test_a_system_without_waits_has_an_average_all_the_same() -> None:
    average = learned(1.0, 1e9)
    for _ in range(10_000):
        average.learn(60.0, 0.0, 0.0)
    assert average.at(60.0, 1.0) == 1.0
