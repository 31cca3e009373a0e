"""Allocations read in bulk, against reading each by itself."""

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from qops_batsim.measures.results.allocations import AllocationError, read_allocations
from qops_batsim.tables import Texts


def in_bulk(texts):
    return Texts(pl.Series(texts, dtype=pl.String))


HOSTS = st.sets(st.integers(0, 30) | st.sampled_from([9_999_999, 10_000_000])).map(
    lambda hosts: " ".join(map(str, sorted(hosts)))
)
USUAL = ["", "0", "0-3 5", "7 9-12", "0-9999999", "10000000"]
ODD = ["3-1", "1-1", "0-3 2-5", "5 3", "1,2", " 1", "1 ", "1  2", "-1", "1-", "1-2-3", "x", "1--2"]


def outcome(texts):
    try:
        return [column.tolist() for column in read_allocations(texts)]
    except AllocationError as error:
        return error.row, str(error)


@given(st.lists(st.sampled_from(USUAL + ODD) | HOSTS, max_size=8))
def test_in_bulk_and_one_by_one_are_the_same(texts):
    assert outcome(in_bulk(texts)) == outcome(texts)


@pytest.mark.parametrize("odd", ["10000001", "123456789", *ODD[:6]])
def test_what_is_odd_is_read_one_by_one(odd):
    assert outcome(in_bulk(["0", odd])) == outcome(["0", odd])


def test_intervals_of_each_job():
    rows, first, last = read_allocations(in_bulk(["0-3 5", "", "7"]))
    assert (rows.tolist(), first.tolist(), last.tolist()) == ([0, 0, 2], [0, 5, 7], [3, 5, 7])
