from __future__ import annotations

import numpy as np
import pytest

from qops_batsim import read_run
from qops_batsim.measures import busy_hosts
from qops_batsim.measures.results.series import StepSeries, queue_length, step_series, window


def steps(series: StepSeries) -> list[tuple[float, float]]:
    return list(zip(series.dates.tolist(), series.values.tolist(), strict=True))


def test_step_series_sums_half_open_intervals():
    series = step_series(
        np.array([0.0, 2.0, 5.0, 9.0]), np.array([4.0, 5.0, 5.0, 7.0]), np.array([1.0, 2.0, 8.0, 9])
    )
    # The empty interval at 5 and the reversed one from 9 to 7 count for nothing.
    assert steps(series) == [(0, 1), (2, 3), (4, 2), (5, 0)]
    assert series.at(np.array([-1.0, 0, 1.9, 2, 4.5, 5, 99])).tolist() == [0, 1, 1, 3, 2, 0, 0]
    assert series.integral(-3, 99) == 1 * 2 + 3 * 2 + 2 * 1
    assert series.integral(1, 3) == 1 + 3
    assert series.means(np.array([0.0, 2.0, 4.0, 8.0])).tolist() == [1.0, 3.0, 0.5]
    assert series.maximum(0, 99) == 3
    assert series.maximum(0, 2) == 1
    assert series.maximum(3, 3) == 3


def test_an_empty_series_is_zero():
    series = step_series(np.array([]), np.array([]), np.array([]))
    assert series.integral(0, 10) == 0
    assert series.maximum(0, 10) == 0
    assert series.at(np.array([1.0])).tolist() == [0]


def test_series_of_a_small_run(write_run, mixed_run):
    result = read_run(write_run(mixed_run(), hosts=4))
    assert steps(busy_hosts(result)) == [(0, 2), (1, 4), (6, 2), (10, 4), (17, 1), (20, 3), (24, 0)]
    # Job 3 waits from 2 to 10, job 5 from 4 to 17; job 4 was rejected.
    assert steps(queue_length(result)) == [(2, 1), (4, 2), (10, 1), (17, 0)]
    assert window(result) == (0, 24)


def test_a_shared_host_is_busy_once(write_run):
    ran = write_run.ran
    jobs = [ran("1", 0, 2, 0, 10, [0, 1]), ran("2", 0, 2, 5, 10, [1, 2]), ran("3", 0, 1, 6, 1, [1])]
    busy = busy_hosts(read_run(write_run(jobs)))
    assert steps(busy) == [(0, 2), (5, 3), (10, 2), (15, 0)]


def test_window_and_queue_start_at_date_0_at_the_earliest(write_run):
    result = read_run(write_run([write_run.ran("1", -5, 1, 3, 10, [0])]))
    assert window(result) == (0, 13)
    assert steps(queue_length(result)) == [(0, 1), (3, 0)]


@pytest.mark.parametrize("rejected", [True, False])
def test_window_without_executed_jobs_is_empty(write_run, rejected):
    jobs = [write_run.ran("1", 7, 1)] if rejected else []
    begin, end = window(read_run(write_run(jobs)))
    assert begin == end
