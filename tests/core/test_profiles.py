"""Profiles of processors and of certain hosts against an oracle that looks at every second."""

from __future__ import annotations

import math
import random

import pytest

from qops_batsim import Job
from qops_batsim.core.host_bits import HostBits, bit_count
from qops_batsim.core.profile import HostProfile, Profile
from qops_batsim.timing import end_of

HORIZON = 400


class NaiveHosts:
    """The free hosts of each whole second; beyond the horizon all are free."""

    def __init__(self, hosts: int) -> None:
        self.all = frozenset(range(hosts))
        self.free = [set(self.all) for _ in range(HORIZON)]

    def common(self, start: int, duration: int) -> set[int]:
        """Return the hosts that are free from a second on for so many."""
        seconds = self.free[start : start + duration]
        return set(self.all).intersection(*seconds)

    def fit(self, after: int, duration: int, needed: int) -> tuple[int, list[int]]:
        """Return the earliest start, and the lowest hosts."""
        start = after
        while len(found := self.common(start, duration)) < needed:
            start += 1
        return start, sorted(found)[:needed]


def new_job(duration: int, processors: int) -> Job:
    return Job("w0!1", 0.0, processors, "p", walltime=float(duration))


def hosts_in(bits: HostBits) -> list[int]:
    return [host for host in range(64 * bits.size) if bits.mask() >> host & 1]


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("hosts", [3, 64, 70])
def test_hosts_are_planned_as_second_by_second(seed: int, hosts: int) -> None:
    rng = random.Random(seed)
    profile, naive = HostProfile(hosts), NaiveHosts(hosts)
    planned: list[Job] = []
    for _ in range(25):
        if planned and rng.random() < 0.3:
            job = planned.pop(rng.randrange(len(planned)))
            profile.give(job, job.start, end_of(job.start, job.duration))
            for second in range(int(job.start), min(HORIZON, int(job.start + job.duration))):
                naive.free[second] |= set(hosts_in(job.bits))
        else:
            job, after = new_job(rng.randint(1, 12), rng.randint(1, hosts)), rng.randint(0, 30)
            start, chosen = naive.fit(after, int(job.duration), job.processors)
            job.start = profile.fit(job, float(after))
            assert (job.start, hosts_in(job.bits)) == (start, chosen)
            profile.take(job, job.start, end_of(job.start, job.duration))
            planned.append(job)
            for second in range(start, min(HORIZON, start + int(job.duration))):
                naive.free[second] -= set(chosen)
        profile.check(hosts)
        second = rng.randrange(HORIZON)
        assert profile.mask_at(float(second)) == sum(1 << host for host in naive.free[second])
        other = HostProfile(hosts)
        other.copy_from(profile)
        assert other.steps() == profile.steps()


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("kind", [Profile, HostProfile])
def test_a_job_moves_to_its_earliest_fit_or_stays(seed: int, kind: type[Profile]) -> None:
    rng = random.Random(seed)
    profile, planned = kind(6), list[Job]()
    for _ in range(10):
        job = new_job(rng.randint(1, 9), rng.randint(1, 6))
        job.start = profile.fit(job, 0.0)
        profile.take(job, job.start, end_of(job.start, job.duration))
        planned.append(job)
    gone = planned.pop(0)
    profile.give(gone, gone.start, end_of(gone.start, gone.duration))
    for job in planned:
        before = job.start
        without = kind(6)
        without.copy_from(profile)
        without.give(job, job.start, end_of(job.start, job.duration))
        expected = min(before, without.fit(new_job(int(job.duration), job.processors), 0.0))
        profile.move(job, 0.0, math.inf)
        assert job.start == expected
        profile.check(6)
    for job in planned:
        profile.give(job, job.start, end_of(job.start, job.duration))
    assert profile.steps() == [(0.0, 6)]


@pytest.mark.parametrize("seed", range(20))
def test_numbers_of_processors_are_those_of_hosts(seed: int) -> None:
    # With one processor a job, a fit needs no common hosts beyond its own.
    rng = random.Random(seed)
    numbers, hosts = Profile(5), HostProfile(5)
    for _ in range(30):
        after, duration = float(rng.randint(0, 20)), rng.randint(1, 6)
        one, other = new_job(duration, 1), new_job(duration, 1)
        one.start, other.start = numbers.fit(one, after), hosts.fit(other, after)
        assert one.start <= other.start
        numbers.take(one, other.start, end_of(other.start, other.duration))
        hosts.take(other, other.start, end_of(other.start, other.duration))
        numbers.check(5)
        lowest = numbers.lowest_free(after, after + 3)
        steps = numbers.steps_between(after, after + 3)
        assert lowest == min(free for _, free in steps)


def test_a_profile_forgets_and_begins_anew() -> None:
    profile = Profile(4)
    profile.reserve(2.0, 5.0, 3)
    profile.trim(3.0)
    assert profile.steps() == [(3.0, 1), (5.0, 4)]
    profile.reset(7.0, 2)
    assert profile.steps() == [(7.0, 2)]
    assert profile.start_of(9.0) == profile.start == 7.0


@pytest.mark.parametrize("word", [0, 1, 2**63, 2**64 - 1, 0xF0F0, 0x123456789ABCDEF0])
def test_bits_of_a_word(word: int) -> None:
    assert bit_count(word) == word.bit_count()


def test_sets_of_hosts() -> None:
    some, more = HostBits.of(0b1011, 70), HostBits.of(1 << 69 | 0b11, 70)
    assert (some.count(), more.count()) == (3, 3)
    assert not some.is_within(more)
    more.add(some)
    assert some.is_within(more)
    assert more.mask() == 1 << 69 | 0b1011
    more.keep_lowest(3)
    assert more.equals(some)
    more.remove(HostBits.of(1, 70))
    assert more.mask() == 0b1010


def test_sets_of_hosts_are_walked_in_intervals() -> None:
    rng = random.Random(5)
    for _ in range(50):
        hosts = rng.choice([1, 63, 64, 65, 200])
        mask = rng.getrandbits(hosts) & rng.getrandbits(hosts)
        bits, size = HostBits.of(mask, hosts), hosts + 63 & ~63
        for host in range(size + 1):
            inside = (each for each in range(host, size) if mask >> each & 1)
            outside = (each for each in range(host, size) if not mask >> each & 1)
            assert bits.first_from(host, True) == next(inside, size)
            assert bits.first_from(host, False) == next(outside, size)
