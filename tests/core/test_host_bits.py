"""Sets of hosts as words of bits, against sets of numbers."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from qops_batsim.core.host_bits import HostBits

SIZE = 200
BITS = 256
"""Those of four words: the last host is not the last bit."""

MASKS = st.integers(0, 2**SIZE - 1)


@given(MASKS, st.integers(0, BITS), st.booleans())
def test_the_first_host_inside_or_outside_is_found(mask: int, host: int, inside: bool) -> None:
    expected = [each for each in range(host, BITS) if (mask >> each & 1) == inside]
    assert HostBits.of(mask, SIZE).first_from(host, inside) == (expected or [BITS])[0]


@given(MASKS, MASKS, st.integers(0, SIZE - 1), st.integers(0, SIZE))
def test_an_interval_of_hosts_is_moved(mask: int, other: int, first: int, hosts: int) -> None:
    hosts = min(hosts, SIZE - first)
    moved = (1 << hosts) - 1 << first
    source, target = HostBits.of(mask, SIZE), HostBits.of(other, SIZE)
    source.move_interval(first, hosts, target)
    assert (source.mask(), target.mask()) == (mask & ~moved, other | moved)
