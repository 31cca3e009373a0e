"""Numbers of jobs by slot: one by one, and in columns."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from qops_batsim.scheduling.arrays import Jobs, new_jobs
from qops_batsim.scheduling.table import durations_on_grid, set_jobs
from qops_batsim.timing import GRID_END, duration_on_grid

DURATIONS = st.one_of(
    st.integers(0, 10**7).map(float),
    st.floats(0.0, 2 * GRID_END),
    st.sampled_from([0.0, 1e-9, 0.1 + 0.2, 2.0000001, 59.9999999999, GRID_END, 1e300, math.inf]),
)
"""Estimates: whole ones, as in logs, any others, and those at the borders of rules (seconds)."""


@given(st.lists(DURATIONS, max_size=8))
def test_columns_of_durations_are_rounded_as_each_alone(durations: list[float]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        rounded = durations_on_grid(np.array(durations))
    assert rounded.tolist() == [duration_on_grid(each) for each in durations]


@given(
    st.lists(
        st.tuples(st.floats(-9.0, 1e6), st.integers(1, 64), DURATIONS, DURATIONS, DURATIONS),
        max_size=6,
    ),
    st.sampled_from([0, 2]),
)
def test_jobs_in_columns_are_as_those_one_by_one(
    asked: list[tuple[float, int, float, float, float]], words: int
) -> None:
    alone, together = new_jobs(len(asked), words), new_jobs(len(asked), words)
    for slot, (date, processors, estimate, limit, deadline) in enumerate(asked):
        set_jobs(
            alone,
            slot,
            submissions=date,
            processors=processors,
            estimates=estimate,
            whole_estimates=duration_on_grid(estimate),
            limits=limit,
            deadlines=deadline,
        )
    columns = [np.array([each[place] for each in asked]) for place in range(5)]
    set_jobs(
        together,
        slice(None),
        submissions=columns[0],
        processors=columns[1],
        estimates=columns[2],
        whole_estimates=durations_on_grid(columns[2]),
        limits=columns[3],
        deadlines=columns[4],
    )
    for one, other in zip(alone, together, strict=True):
        np.testing.assert_array_equal(one, other)


def written(*, estimate: float, deadline: float, submission: float = 5.0) -> Jobs:
    jobs = new_jobs(1)
    set_jobs(
        jobs,
        0,
        submissions=submission,
        processors=3,
        estimates=estimate,
        whole_estimates=duration_on_grid(estimate),
        limits=math.inf,
        deadlines=deadline,
    )
    return jobs


@pytest.mark.parametrize(
    ("estimate", "target"),
    [
        (10.0, 100.0),
        (10.0000004, 100.0 + (10.000001 - 10.0000004)),  # rounded up: its end may be later
        (0.1 + 0.2, 100.0),  # the last bits of a sum make no later end
        (math.inf, 100.0),
    ],
)
def test_what_rounding_adds_to_an_estimate_may_come_after_the_deadline(
    estimate: float, target: float
) -> None:
    jobs = written(estimate=estimate, deadline=100.0)
    assert jobs.targets[0] == target
    assert jobs.deadlines[0] == jobs.promises[0] == 100.0


def test_a_job_from_before_the_simulation_arrives_at_its_begin() -> None:
    jobs = written(estimate=1.0, deadline=math.inf, submission=-7.0)
    assert jobs.arrivals[0] == 0.0
    assert jobs.targets[0] == math.inf
    assert (jobs.processors[0], jobs.reserved[0]) == (3, 3)
