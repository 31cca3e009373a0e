"""The availability profile of named hosts against a naive oracle of sets."""

from __future__ import annotations

import math
import random
from collections.abc import Callable

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from qops_batsim.platform.hostset import HostSet
from qops_batsim.scheduling.arrays import new_profile
from qops_batsim.scheduling.host_fits import count_free, earlier_hosts, earliest_hosts
from qops_batsim.scheduling.host_words import bit_count, keep_lowest
from qops_batsim.scheduling.profile import change

Many = Callable[[int], range]

HOSTS = 70
HORIZON = 40


def words(mask: int) -> np.ndarray:
    return np.array([mask & (2**64 - 1), mask >> 64], np.uint64)


def mask_of(row: np.ndarray) -> int:
    return int(row[0]) | int(row[1]) << 64


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


def test_a_planned_job_fits_in_earlier_as_the_oracle_says(many: Many) -> None:
    rng = random.Random(5)
    for _ in many(300):
        profile, naive = new_profile(words(0b11111111)), [0b11111111] * 60
        for _ in range(rng.randint(0, 12)):
            start, length = rng.randint(0, 30), rng.randint(1, 12)
            mask = int(np.bitwise_and.reduce(naive[start : start + length])) & rng.getrandbits(8)
            change(profile, start, start + length, words(mask), False)
            for second in range(start, start + length):
                naive[second] &= ~mask
        needed, duration = rng.randint(1, 6), rng.randint(1, 12)
        own = words(0)
        planned = earliest_hosts(profile, rng.randint(0, 25), duration, needed, own)
        change(profile, planned, planned + duration, own, False)
        for second in range(int(planned), int(planned) + duration):
            naive[second] &= ~mask_of(own)
        # Others give something up, between two dates.
        first, length = rng.randint(0, 20), rng.randint(1, 10)
        given = rng.getrandbits(8) & ~int(np.bitwise_or.reduce(naive[first : first + length]))
        if planned < first + length and first < planned + duration:
            given &= ~mask_of(own)
        change(profile, first, first + length, words(given), True)
        for second in range(first, first + length):
            naive[second] |= given
        after, expected, best = rng.randint(0, int(planned)), planned, 0
        for start in range(after, int(planned) + 1):
            seconds = range(start, start + duration)
            free = [naive[n] | (mask_of(own) if n >= planned else 0) for n in seconds]
            common = int(np.bitwise_and.reduce(free))
            if common.bit_count() >= needed:
                expected, best = start, HostSet(common).lowest(needed).mask
                break
        counts, size = np.zeros(len(profile.times), np.int64), int(profile.size[0])
        count_free(profile.free, counts, 0, size)
        for known in (counts, counts[:0]):
            row = words(0)
            asked = float(after), float(duration), needed, np.inf, planned, own, row, known
            assert earlier_hosts(profile, *asked) == expected
            assert mask_of(row) == best
