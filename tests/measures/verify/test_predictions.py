"""Predictions that the last runs of a user bear out."""

from __future__ import annotations

import pytest

from qops_batsim.measures.verify.predictions import EndedRun, PastRuns

RUNS = [EndedRun(10, 4, True), EndedRun(20, 8, True), EndedRun(30, 12, False)]
TIED = [*RUNS[:2], EndedRun(20, 2, True), EndedRun(22, 6, True)]
"""Two of these ended at 20, in an order that no file tells."""


@pytest.mark.parametrize(
    ("runs", "prediction", "arrival", "delay", "expected"),
    [
        (RUNS, 6, 25, 0, True),  # (4 + 8) / 2
        (RUNS, 6.000001, 25, 0, True),  # rounded up
        (RUNS, 5.9, 25, 0, False),
        (RUNS, 6.1, 25, 0, False),
        (RUNS, 6, 15, 0, False),  # one had ended
        (RUNS, 6, 20, 0, True),  # just then
        (RUNS, 10, 31, 0, True),  # (8 + 12) / 2, if the scheduler did not kill the third
        (RUNS, 6, 31, 0, True),  # if it did
        (RUNS, 5.9, 31, 0, False),
        (RUNS, 10.1, 31, 0, False),
        (TIED, 4, 25, 0, True),  # (2 + 6) / 2
        (TIED, 7, 25, 0, True),  # (8 + 6) / 2
        (TIED, 3.9, 25, 0, False),
        (TIED, 7.1, 25, 0, False),
        (RUNS, 6, 19, 2, True),  # news of the second came by 21
        (RUNS, 4, 19, 2, True),  # of a sight of its length that was late, too
        (RUNS, 3.9, 19, 2, False),
        ([], 6, 25, 0, False),
    ],
)
def test_the_mean_of_the_last_two(runs, prediction, arrival, delay, expected) -> None:
    assert PastRuns(runs, delay).can_predict(prediction, arrival, 1e-6) is expected


def test_kills_that_came_too_late_need_more_of_the_past() -> None:
    runs = [EndedRun(number, 2.0**number, True) for number in range(10)]
    assert not PastRuns(runs, 0).can_predict(96, 20, 1e-6)
    assert PastRuns(runs, 0, needed=4).can_predict(96, 20, 1e-6)
    assert not PastRuns(runs, 0, needed=4).can_predict(95, 20, 1e-6)
