"""Mean slowdowns of categories."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qops_batsim import InputError
from qops_batsim.economics import Categories, ReferenceJob, category_slowdowns
from qops_batsim.economics.charges import slowdown

SEQUENTIAL = "very-short-sequential"


def test_plain_slowdown() -> None:
    assert slowdown(10, 25) == 2.5
    assert slowdown(0, 25) == math.inf


def test_bounded_slowdown() -> None:
    assert slowdown(1, 25, bound=10) == 2.5
    assert slowdown(0, 5, bound=10) == 1.0
    assert slowdown(100, 250, bound=10) == 2.5


def test_a_table_of_three_jobs() -> None:
    jobs = [
        ReferenceJob(100, 100, 1),
        ReferenceJob(100, 400, 1),
        ReferenceJob(1000, 3000, 64),
    ]
    table = category_slowdowns(jobs)
    assert table.of(SEQUENTIAL) == 2.5
    assert table.of("short-very-wide") == 3.0
    assert [each.jobs for each in table.slowdowns if each.jobs] == [2, 1]
    assert [each.category for each in table.slowdowns] == list(Categories().labels())


def test_the_mean_is_of_slowdowns_not_of_times() -> None:
    table = category_slowdowns([ReferenceJob(1, 100, 1), ReferenceJob(100, 100, 1)])
    assert table.of(SEQUENTIAL) == 50.5


def test_bounded_table() -> None:
    jobs = [ReferenceJob(1, 100, 1), ReferenceJob(0, 5, 1)]
    assert category_slowdowns(jobs, bound=10).of(SEQUENTIAL) == 5.5


def test_jobs_that_run_no_time_have_no_plain_slowdown() -> None:
    table = category_slowdowns([ReferenceJob(0, 5, 1), ReferenceJob(2, 4, 1)])
    assert table.of(SEQUENTIAL) == 2.0
    assert table.slowdowns[0].jobs == 1


def test_an_empty_category_is_an_error_that_names_the_others() -> None:
    table = category_slowdowns([ReferenceJob(2, 4, 1)])
    with pytest.raises(InputError, match=f"'long-wide' has no mean slowdown.*{SEQUENTIAL}"):
        table.of("long-wide")


@pytest.mark.parametrize("bound", [0.0, -1.0, math.inf, math.nan])
def test_unusable_bounds_are_refused(bound: float) -> None:
    with pytest.raises(InputError, match="slowdown bound is"):
        category_slowdowns([], bound=bound)


@given(
    st.lists(
        st.tuples(st.integers(1, 50_000), st.integers(0, 50_000), st.integers(1, 100)), min_size=1
    )
)
def test_means_agree_with_a_plain_count(drawn: list[tuple[int, int, int]]) -> None:
    jobs = [ReferenceJob(run, run + wait, width) for run, wait, width in drawn]
    table = category_slowdowns(jobs)
    assert sum(each.jobs for each in table.slowdowns) == len(jobs)
    for each in table.slowdowns:
        mine = [
            job.response_time / job.run_time
            for job in jobs
            if Categories().label(job.run_time, job.processors) == each.category
        ]
        assert each.jobs == len(mine)
        if mine:
            assert each.mean == pytest.approx(sum(mine) / len(mine))
            assert each.mean >= 1
        else:
            assert each.mean is None
