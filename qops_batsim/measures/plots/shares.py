"""Where jobs that share hosts by amounts stand in the row of each host."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from qops_batsim.measures.results.allocations import Stays
from qops_batsim.measures.results.host_amounts import RequestsOfRun
from qops_batsim.measures.results.result_tables import Floats, Integers

_THINNEST = 1 / 64
"""Least height of a job that takes next to nothing."""

_ROUNDING = 1e-9


class HostShares(NamedTuple):
    """Stays of jobs on hosts, and the part of the host's row that each takes: from ``low`` to
    ``high``, of 0 to 1. A stay in several pieces is there several times.
    """

    stays: Stays
    low: Floats
    high: Floats


def shares_of_hosts(requests: RequestsOfRun, stays: Stays) -> HostShares:
    """Return where jobs stand in the rows of their hosts.

    A job is as high as the largest of its shares of what the host has. It takes the lowest place
    that is free, in pieces where no place is large enough; where jobs that take different kinds
    need more than the row, that is compressed. O(stays × jobs at once).
    """
    has = requests.capacity[stays.hosts]
    taken = requests.on_host(stays)
    shares = np.divide(taken, has, out=np.zeros_like(taken), where=has > 0)
    heights = np.clip(shares.max(axis=1, initial=0.0), _THINNEST, 1.0)
    places, low, high = lowest_places(stays.hosts, stays.start, stays.finish, heights)
    pieces = stays.where(places)
    tops = np.ones(requests.machine.hosts)
    np.maximum.at(tops, pieces.hosts, high)
    scale = tops[pieces.hosts]
    return HostShares(pieces, low / scale, high / scale)


def lowest_places(
    hosts: Integers, start: Floats, finish: Floats, heights: Floats
) -> tuple[Integers, Floats, Floats]:
    """Return the pieces of stays on hosts (dates in seconds): the stay, lower and upper edge.

    A stay is in one piece where a place below 1 is large enough. Only what finds no room below 1
    is above.
    """
    before = -1
    there: list[tuple[float, float, float]] = []
    pieces: list[tuple[int, float, float]] = []
    columns = (each.tolist() for each in (hosts, start, finish, heights))
    stays = list(zip(*columns, strict=True))

    for place in np.lexsort((np.arange(len(hosts)), start, hosts)).tolist():
        host, begin, end, height = stays[place]
        if host != before:
            before, there = host, []
        # Lower edge, upper edge and end of those that are still there, ascending.
        there = [each for each in there if each[2] > begin]
        own = _pieces(there, height)
        pieces += [(place, low, high) for low, high in own]
        there = sorted([*there, *((low, high, end) for low, high in own)])

    found = np.array(pieces, np.float64).reshape(-1, 3)
    return found[:, 0].astype(np.int64), found[:, 1], found[:, 2]


def _pieces(there: list[tuple[float, float, float]], height: float) -> list[tuple[float, float]]:
    """Return lower and upper edges of what is free for a height beside all that is ``there``."""
    tops = [0.0, *(top for _, top, _ in there)]
    highest = max(1.0, tops[-1])
    gaps = zip(tops, [*(bottom for bottom, _, _ in there), highest], strict=True)
    free = [(low, high) for low, high in gaps if high - low > _ROUNDING]
    for low, high in free:
        if high - low >= height - _ROUNDING:
            return [(low, low + height)]

    found = []
    for low, high in [*free, (highest, highest + 1.0)]:
        piece = min(high - low, height)
        if piece > _ROUNDING:
            found.append((low, low + piece))
            height -= piece
    return found
