"""Host sets against Python's own sets."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qops_batsim import InputError
from qops_batsim.core import HostSet
from qops_batsim.core.hostset import WrittenHosts
from qops_batsim.limits import MAX_HOST_ID

_HOSTS = st.frozensets(st.integers(min_value=0, max_value=300), max_size=80)


@given(_HOSTS)
def test_text_round_trip(hosts: frozenset[int]) -> None:
    host_set = HostSet.of(hosts)
    assert HostSet.parse(str(host_set)) == host_set
    assert HostSet.parse(str(host_set).replace(" ", ",")) == host_set
    assert set(host_set) == hosts
    assert list(host_set) == sorted(hosts)
    assert len(host_set) == len(hosts)
    assert bool(host_set) == bool(hosts)
    written = WrittenHosts(host_set)
    assert (written, str(written)) == (host_set, str(host_set))
    assert list(written.intervals()) == list(host_set.intervals())


@given(_HOSTS)
def test_intervals_are_maximal_and_ascending(hosts: frozenset[int]) -> None:
    intervals = list(HostSet.of(hosts).intervals())
    assert {host for first, last in intervals for host in range(first, last + 1)} == hosts
    assert all(first <= last for first, last in intervals)
    assert all(last + 1 < first for (_, last), (first, _) in pairwise(intervals))


@given(_HOSTS, _HOSTS)
def test_set_operations(left: frozenset[int], right: frozenset[int]) -> None:
    a, b = HostSet.of(left), HostSet.of(right)
    assert set(a | b) == left | right
    assert set(a & b) == left & right
    assert set(a - b) == left - right
    assert (a == b) == (left == right)
    assert all((host in a) == (host in left) for host in range(301))
    if left == right:
        assert hash(a) == hash(b)


@given(_HOSTS, st.data())
def test_lowest(hosts: frozenset[int], data: st.DataObject) -> None:
    count = data.draw(st.integers(min_value=0, max_value=len(hosts)))
    assert list(HostSet.of(hosts).lowest(count)) == sorted(hosts)[:count]


@given(st.integers(min_value=0, max_value=300))
def test_first(count: int) -> None:
    assert list(HostSet.first(count)) == list(range(count))


def test_text_is_batsims() -> None:
    assert str(HostSet.of([5, 0, 1, 2, 3])) == "0-3 5"
    assert str(HostSet.of([1, 2])) == "1-2"
    assert str(HostSet()) == ""
    assert HostSet.parse("3 1-2 2") == HostSet.of([1, 2, 3])
    assert HostSet.parse("") == HostSet()


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("a", "'a' is not a host id or FIRST-LAST"),
        ("-1", "'-1' is not a host id or FIRST-LAST"),
        ("1-", "'1-' is not a host id or FIRST-LAST"),
        ("1-2-3", "'1-2-3' is not a host id or FIRST-LAST"),
        ("1.5", "'1.5' is not a host id or FIRST-LAST"),
        ("²", "'²' is not a host id or FIRST-LAST"),
        ("9" * 30, "is not a host id or FIRST-LAST"),
        ("7-3", "'7-3' ends before it starts"),
        (f"0-{MAX_HOST_ID + 1}", f"is above {MAX_HOST_ID}"),
    ],
)
def test_refused(text: str, reason: str) -> None:
    with pytest.raises(InputError, match="host set") as caught:
        HostSet.parse(text)
    assert reason in str(caught.value)


@pytest.mark.parametrize(("held", "asked"), [("0-2", 4), ("", 1), ("5", 2)])
def test_more_hosts_than_there_are(held: str, asked: int) -> None:
    hosts = HostSet.parse(held)
    with pytest.raises(ValueError, match=f"{asked} hosts were asked for, but only {len(hosts)}"):
        hosts.lowest(asked)


def test_many_intervals_are_read_at_once() -> None:
    drawn = random.Random(5)
    pairs = [sorted((drawn.randrange(3000), drawn.randrange(3000))) for _ in range(100)]
    pairs = [(low, min(high, low + 40)) for low, high in pairs]
    hosts = HostSet.parse(" ".join(f"{low}-{high}" for low, high in pairs))
    assert set(hosts) == {host for low, high in pairs for host in range(low, high + 1)}
    assert len(HostSet.parse("0-1000000 " * 50_000)) == 1_000_001  # in no time
    with pytest.raises(InputError, match="has 5000000 letters; no set of hosts needs more than"):
        HostSet.parse("0 1 2 " * 833_333 + "0 ")
    text = " ".join(map(str, range(0, 1_000_000, 2)))
    assert str(HostSet.parse(text)) == text
