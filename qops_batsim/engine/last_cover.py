"""Which of many intervals holds each host last."""

from __future__ import annotations

from array import array
from typing import Any


def last_cover(first: Any, last: Any, hosts: int) -> array[int]:
    """Return the index of the last interval, ``first`` to ``last``, that holds each host, -1 for
    none. O(intervals + hosts), but for a nearly constant factor.
    """
    found = latest = array("q", [-1]) * hosts
    # From each host on: where one may be that no interval was found for.
    following = array("q", range(hosts + 1))
    for place in range(len(first) - 1, -1, -1):
        host = first[place]
        while True:
            while following[host] != host:
                following[host] = following[following[host]]
                host = following[host]
            if host > last[place]:
                break
            latest[host] = place
            following[host] = host + 1
    return found
