"""Which interval holds a host last, against a look at each host of each interval."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from qops_batsim.engine.last_cover import last_cover

HOSTS = 9


@given(st.lists(st.tuples(st.integers(0, HOSTS - 1), st.integers(0, HOSTS - 1)).map(sorted)))
def test_the_last_interval_of_each_host_is_found(intervals: list[list[int]]) -> None:
    bounds = np.array(intervals, np.int64).reshape(-1, 2)
    latest = [-1] * HOSTS
    for place, (low, high) in enumerate(intervals):
        latest[low : high + 1] = [place] * (high - low + 1)
    first, last = (bounds[:, side].copy() for side in (0, 1))
    assert last_cover(first, last, HOSTS).tolist() == latest
