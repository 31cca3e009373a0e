"""The availability profile of named hosts against a naive oracle of sets."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from qops_batsim.platform.hostset import HostSet
from qops_batsim.scheduling.host_fits import earliest_hosts
from qops_batsim.scheduling.host_words import bit_count, keep_lowest
from qops_batsim.scheduling.profile import change, new_profile

HOSTS = 70
HORIZON = 40


def words(mask: int) -> np.ndarray:
    return np.array([mask & (2**64 - 1), mask >> 64], np.uint64)


def mask_of(row: np.ndarray) -> int:
    return int(row[0]) | int(row[1]) << 64


@settings(deadline=None)
@given(st.integers(0, 2**HOSTS - 1), st.integers(0, HOSTS))
def test_bits_are_counted_and_the_lowest_kept(mask: int, wanted: int) -> None:
    row = words(mask)
    assert bit_count(row) == mask.bit_count()
    keep_lowest(row, wanted)
    expected = HostSet(mask).lowest(min(wanted, mask.bit_count()))
    assert mask_of(row) == expected.mask


requests = st.lists(
    st.tuples(st.integers(0, 15), st.integers(1, 10), st.integers(1, HOSTS), st.booleans()),
    max_size=12,
)


@settings(max_examples=200, deadline=None)
@given(requests)
def test_any_sequence_agrees_with_the_oracle(asked: list[tuple[int, int, int, bool]]) -> None:
    everything = 2**HOSTS - 1
    profile = new_profile(words(everything))
    naive = [everything] * (HORIZON * 8)
    taken: list[tuple[int, int, int]] = []
    for after, duration, needed, give_back in asked:
        if give_back and taken:
            start, length, mask = taken.pop()
            change(profile, start, start + length, words(mask), True)
            for second in range(start, start + length):
                naive[second] |= mask
        row = words(0)
        start = earliest_hosts(profile, after, duration, needed, row)
        expected = after
        while True:
            common = everything
            for second in range(expected, expected + duration):
                common &= naive[second]
            if common.bit_count() >= needed:
                break
            expected += 1
        assert start == expected
        mask = mask_of(row)
        assert mask == HostSet(common).lowest(needed).mask
        change(profile, start, start + duration, row, False)
        for second in range(expected, expected + duration):
            naive[second] &= ~mask
        taken.append((expected, duration, mask))
    times, free, size = profile
    for second in range(HORIZON):
        index = int(np.searchsorted(times[: size[0]], second, side="right")) - 1
        assert mask_of(free[index]) == naive[second]


def test_too_wide_a_job_never_fits() -> None:
    profile, row = new_profile(words(0b1011)), words(0)
    assert earliest_hosts(profile, 0.0, 5.0, 4, row) == math.inf
    assert earliest_hosts(profile, 0.0, math.inf, 3, row) == 0.0
    assert mask_of(row) == 0b1011
