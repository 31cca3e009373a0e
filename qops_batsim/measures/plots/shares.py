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
    ``high``, of 0 to 1.
    """

    stays: Stays
    low: Floats
    high: Floats


def shares_of_hosts(requests: RequestsOfRun, stays: Stays) -> HostShares:
    """Return where jobs stand in the rows of their hosts.

    A job is as high as the largest of its shares of what the host has. It takes the lowest place
    that is free throughout; a row with no room for a job in one piece, as where jobs take different
    kinds, is compressed. O(stays × jobs at once).
    """
    has = requests.capacity[stays.hosts]
    taken = requests.on_host(stays)
    shares = np.divide(taken, has, out=np.zeros_like(taken), where=has > 0)
    heights = np.clip(shares.max(axis=1, initial=0.0), _THINNEST, 1.0)
    low = lowest_places(stays.hosts, stays.start, stays.finish, heights)
    tops = np.ones(requests.machine.hosts)
    np.maximum.at(tops, stays.hosts, low + heights)
    scale = tops[stays.hosts]
    return HostShares(stays, low / scale, (low + heights) / scale)


def lowest_places(hosts: Integers, start: Floats, finish: Floats, heights: Floats) -> Floats:
    """Return the lower edge of each stay: the lowest from which its height is free on its host when
    it starts (dates in seconds).
    """
    low = np.zeros(len(hosts))
    before = -1
    there: list[tuple[float, float, float]] = []
    columns = (each.tolist() for each in (hosts, start, finish, heights))
    stays = list(zip(*columns, strict=True))

    for place in np.lexsort((np.arange(len(hosts)), start, hosts)).tolist():
        host, begin, end, height = stays[place]
        if host != before:
            before, there = host, []
        # Lower edge, upper edge and end of those that are still there.
        there = [each for each in there if each[2] > begin]
        edge = 0.0
        at = 0
        while at < len(there) and there[at][0] - edge < height - _ROUNDING:
            edge = there[at][1]
            at += 1
        there.insert(at, (edge, edge + height, end))
        low[place] = edge
    return low
