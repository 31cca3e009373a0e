"""Allocations read in bulk, against reading each by itself."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from qops_batsim.analysis.results import allocations
from qops_batsim.analysis.results.allocations import AllocationError, read_allocations
from qops_batsim.analysis.results.csv_table import Texts

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


@settings(deadline=None)
@given(st.lists(st.sampled_from(USUAL + ODD) | HOSTS, max_size=8), st.booleans())
def test_in_bulk_and_one_by_one_are_the_same(texts, short):
    written = Texts("".join(f"{text}\n" for text in texts).encode())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(allocations, "SHORT", short << 17)
        assert outcome(written) == outcome(texts)


@pytest.mark.parametrize("odd", ["10000001", "123456789", *ODD[:6]])
def test_what_is_odd_is_read_one_by_one(odd):
    assert outcome(Texts(f"0\n{odd}\n".encode())) == outcome(["0", odd])


def test_intervals_of_each_job():
    rows, first, last = read_allocations(Texts(b"0-3 5\n\n7\n"))
    assert (rows.tolist(), first.tolist(), last.tolist()) == ([0, 0, 2], [0, 5, 7], [3, 5, 7])
