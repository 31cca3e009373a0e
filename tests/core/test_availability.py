"""The availability profile against a naive oracle that looks at every second."""

from __future__ import annotations

import math
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qops_batsim import AvailabilityProfile
from qops_batsim.core.availability import NotFreeError

HORIZON = 60


class NaiveProfile:
    """Free processors in each whole second; beyond the horizon all are free."""

    def __init__(self, processors: int) -> None:
        self.processors = processors
        self.free = [processors] * HORIZON
        self.now = 0

    def at(self, second: int) -> int:
        return self.free[second] if second < HORIZON else self.processors

    def fits(self, start: int, duration: int, needed: int) -> bool:
        return all(self.at(second) >= needed for second in range(start, start + duration))

    def earliest_fit(self, after: int, duration: int, needed: int) -> float:
        if needed > self.processors:
            return math.inf
        start = max(after, self.now)
        while not self.fits(start, duration, needed):
            start += 1
        return start

    def change(self, start: int, duration: int, needed: int) -> None:
        for second in range(start, min(HORIZON, start + duration)):
            self.free[second] += needed


def test_earliest_fit_in_a_hand_drawn_profile() -> None:
    # processors
    #   4 |....BBBB
    #   3 |AA..BBBB
    #   2 |AA..BBBB..CC
    #   1 |AA..BBBB..CC
    #      0 2 4 6 8 10 12   seconds
    profile = AvailabilityProfile(4)
    profile.reserve(0, 2, 3)
    profile.reserve(4, 4, 4)
    profile.reserve(10, 2, 2)
    assert profile.steps() == [(0, 1), (2, 4), (4, 0), (8, 4), (10, 2), (12, 4)]
    assert profile.earliest_fit(0, 2, 1) == 0
    assert profile.earliest_fit(0, 2, 2) == 2
    assert profile.earliest_fit(0, 3, 2) == 8
    assert profile.earliest_fit(0, 3, 3) == 12
    assert profile.earliest_fit(3, 1, 4) == 3
    assert profile.earliest_fit(0, 1, 5) == math.inf


def test_a_reservation_without_end_holds_for_ever() -> None:
    profile = AvailabilityProfile(4)
    profile.reserve(5, math.inf, 3)
    assert profile.earliest_fit(0, 5, 4) == 0
    assert profile.earliest_fit(0, 6, 2) == math.inf
    assert profile.earliest_fit(0, math.inf, 1) == 0
    profile.release(7, math.inf, 3)
    assert profile.steps() == [(0, 4), (5, 1), (7, 4)]


def test_a_reservation_covers_whole_microseconds() -> None:
    profile = AvailabilityProfile(2)
    profile.reserve(0, 10, 1)
    profile.reserve(10.0000004, 5.0000001, 2)
    profile._profile.check(profile.processors)
    assert profile.steps() == [(0, 1), (10, 0), (15.000001, 2)]
    profile.reserve(20.000001, 1e-9, 2)
    assert profile.steps()[3:] == [(20.000001, 0), (20.000002, 2)]
    assert profile.earliest_fit(20.000001, 1, 1) == 20.000002
    profile.reserve(30, 0, 2)
    assert len(profile.steps()) == 5


@given(
    st.lists(
        st.tuples(st.floats(0, 1e9), st.floats(0, 1e-3) | st.floats(0, 1e6), st.integers(1, 3)),
        max_size=40,
    )
)
def test_every_step_is_on_the_grid_and_nothing_is_left_over(
    asked: list[tuple[float, float, int]],
) -> None:
    profile, reserved = AvailabilityProfile(3), []
    for after, duration, needed in asked:
        start = profile.earliest_fit(after, duration, needed)
        profile.reserve(start, duration, needed)
        reserved.append((start, duration, needed))
        profile._profile.check(profile.processors)
    for start, duration, needed in reserved:
        profile.release(start, duration, needed)
        profile._profile.check(profile.processors)
    assert profile.steps() == [(0, 3)]


def test_reserving_what_is_not_free_is_refused_and_changes_nothing() -> None:
    profile = AvailabilityProfile(2)
    profile.reserve(3, 4, 2)
    before = profile.steps()
    with pytest.raises(ValueError, match="1 processors cannot be reserved: 0 are free at 3 s"):
        profile.reserve(2, 3, 1)
    with pytest.raises(ValueError, match="were not all reserved"):
        profile.release(0, 3, 1)
    assert profile.steps() == before


def test_a_copy_is_independent() -> None:
    profile = AvailabilityProfile(3)
    copy = profile.copy()
    copy.reserve(0, 1, 3)
    assert profile.steps() == [(0, 3)]


operations = st.lists(
    st.tuples(
        st.sampled_from(["fit", "fit", "release", "trim"]),
        st.integers(0, 30),
        st.integers(1, 12),
        st.integers(1, 6),
    ),
    max_size=25,
)


@given(operations)
def test_any_sequence_agrees_with_the_oracle(steps: list[tuple[str, int, int, int]]) -> None:
    profile, naive = AvailabilityProfile(5), NaiveProfile(5)
    reserved: list[tuple[int, int, int]] = []
    for operation, date, duration, needed in steps:
        if operation == "fit":
            start = profile.earliest_fit(date, duration, needed)
            assert start == naive.earliest_fit(date, duration, needed)
            if start < math.inf and start + duration <= HORIZON:
                profile.reserve(start, duration, needed)
                naive.change(int(start), duration, -needed)
                reserved.append((int(start), duration, needed))
        elif operation == "release" and reserved:
            start, duration, needed = reserved.pop(date % len(reserved))
            profile.release(start, duration, needed)
            naive.change(start, duration, needed)
        elif operation == "trim" and date > naive.now:
            profile.trim(date)
            naive.now = date
        profile._profile.check(profile.processors)
        for second in range(naive.now, HORIZON):
            free = [count for time, count in profile.steps() if time <= second][-1]
            assert free == naive.at(second)


def test_a_date_between_two_microseconds_is_returned_where_the_job_fits() -> None:
    profile = AvailabilityProfile(2)
    assert profile.earliest_fit(after=1 / 3, duration=10, processors=2) == 1 / 3
    profile.reserve(1 / 3, 10, 1)
    assert profile.steps() == [(0, 2), (0.333333, 1), (10.333334, 2)]
    assert profile.earliest_fit(after=1 / 3, duration=10, processors=1) == 1 / 3
    assert profile.earliest_fit(after=2 / 3, duration=1, processors=2) == 10.333334
    # At the moment at which the job ends that was reserved for.
    assert AvailabilityProfile(1, start=1 / 3 + 10).earliest_fit(1 / 3 + 10, 5, 1) == 1 / 3 + 10


def test_a_gap_is_not_too_short_for_a_job_that_begins_behind_such_a_date() -> None:
    #   1 |A......B      A until 20, B from 30: ten seconds are free.
    profile = AvailabilityProfile(1)
    profile.reserve(0, 20, 1)
    profile.reserve(30, 10, 1)
    assert profile.earliest_fit(after=1 / 3, duration=10, processors=1) == 20
    # A third of a microsecond later, a tenth of one less fits no more; a whole one less does.
    late = 20 + 1e-6 / 3
    assert profile.earliest_fit(after=late, duration=10 - 1e-7, processors=1) == 40
    assert profile.earliest_fit(after=late, duration=10 - 1e-6, processors=1) == late


seconds = st.floats(0, 50, allow_subnormal=False)


@given(
    reserved=st.lists(st.tuples(seconds, seconds, st.integers(1, 3)), max_size=6),
    after=seconds,
    duration=st.one_of(seconds, st.integers(0, 20).map(float)),
    needed=st.integers(1, 4),
)
def test_no_fit_is_before_the_date_that_was_asked_about(
    reserved: list[tuple[float, float, int]], after: float, duration: float, needed: int
) -> None:
    profile = AvailabilityProfile(4)
    for start, length, processors in reserved:
        with suppress(NotFreeError):
            profile.reserve(start, length, processors)

    found = profile.earliest_fit(after, duration, needed)

    assert found >= after
    assert can_be_reserved(profile, found, duration, needed)
    if can_be_reserved(profile, after, duration, needed):
        assert found == after
    steps = [date for date, _ in profile.steps() if after < date < found]
    assert not any(can_be_reserved(profile, date, duration, needed) for date in steps)


def can_be_reserved(
    profile: AvailabilityProfile, start: float, duration: float, processors: int
) -> bool:
    """Return whether a reservation is accepted."""
    try:
        profile.copy().reserve(start, max(duration, 1e-6), processors)
    except NotFreeError:
        return False
    return True
