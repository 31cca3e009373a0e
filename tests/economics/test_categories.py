"""Categories of jobs by run time and processors."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qops_batsim import InputError
from qops_batsim.economics import Categories


@pytest.mark.parametrize(
    ("run_time", "processors", "label"),
    [
        (0, 1, "very-short-sequential"),
        (600, 1, "very-short-sequential"),
        (600.5, 2, "short-narrow"),
        (3600, 8, "short-narrow"),
        (3601, 9, "long-wide"),
        (28_800, 32, "long-wide"),
        (28_801, 33, "very-long-very-wide"),
        (1e9, 1, "very-long-sequential"),
    ],
)
def test_an_edge_belongs_to_the_class_below(run_time: float, processors: int, label: str) -> None:
    assert Categories().label(run_time, processors) == label


def test_edges_can_be_chosen() -> None:
    categories = Categories(run_times=(1, 2, 3), processors=(10, 20, 30))
    categories.check()
    assert categories.label(2.5, 10) == "long-sequential"
    assert categories.label(4, 31) == "very-long-very-wide"


def test_there_are_sixteen_labels() -> None:
    labels = Categories().labels()
    assert len(set(labels)) == 16
    assert labels[0] == "very-short-sequential"
    assert labels[5] == "short-narrow"
    assert labels[-1] == "very-long-very-wide"


@given(st.floats(0, 1e6), st.integers(1, 1000))
def test_every_job_has_a_known_category(run_time: float, processors: int) -> None:
    assert Categories().label(run_time, processors) in Categories().labels()


@given(st.floats(0, 1e6), st.floats(0, 1e6), st.integers(1, 500), st.integers(1, 500))
def test_more_is_never_a_lower_class(a: float, b: float, few: int, many: int) -> None:
    labels = Categories().labels()
    small = divmod(labels.index(Categories().label(min(a, b), min(few, many))), 4)
    large = divmod(labels.index(Categories().label(max(a, b), max(few, many))), 4)
    assert small[0] <= large[0]
    assert small[1] <= large[1]


@pytest.mark.parametrize("edges", [(0, 1, 2), (1, 1, 2), (3, 2, 1), (1, 2, float("inf"))])
def test_unusable_edges_are_refused(edges: tuple[float, float, float]) -> None:
    with pytest.raises(InputError, match="categories.run_times is .*three ascending"):
        Categories(run_times=edges).check()
    with pytest.raises(InputError, match="categories.processors is .*three ascending"):
        Categories(processors=edges).check()


def test_edges_that_are_no_numbers_are_refused() -> None:
    with pytest.raises(InputError, match="nan"):
        Categories(run_times=(1, float("nan"), 3)).check()
