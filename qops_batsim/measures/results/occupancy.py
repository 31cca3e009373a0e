"""When the hosts of a run are busy.

No list of (job, host) pairs is made. Jobs are taken in the order of their starts, and for each
host it is kept when it is busy until. That tells when hosts become busy and idle again, and which
run several jobs at a time.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from qops_batsim.measures.results.allocations import Allocations
from qops_batsim.measures.results.result_tables import DATE_TOLERANCE, Floats, Integers

_ONE = 1
"""One as a C integer of 64 bits, for shifts."""

_WORD = 5
"""Two to this power are the bits of a word."""

_BIT = 31

_SPLITTER = 2.0**27 + 1
"""Factor that splits a float into two of half the digits (Dekker 1971)."""


class Occupancy(NamedTuple):
    """How many hosts become busy at each start and idle at each end of a run's jobs, and how long
    hosts were busy.

    Attributes
    ----------
    order
        The rows of these jobs, in the order of their starts.
    opened
        How many hosts were idle before each job started on them, a value a row.
    closed
        How many hosts are idle for some time after each job has ended.
    busy
        The time for which hosts run jobs, of all hosts together (seconds).
    shared
        Hosts on which a job starts before another has ended, in ascending order. Where dates are
        so late that floats are coarse, that may be rounding.
    """

    order: Integers
    opened: Integers
    closed: Integers
    busy: float
    shared: Integers


def occupancy(allocations: Allocations, start: Floats, finish: Floats, rows: Integers) -> Occupancy:
    """Compute when hosts are busy with the jobs in ``rows``; O(n log n) in the number of these
    jobs' intervals of hosts.

    ``start`` and ``finish`` are of all rows (seconds).
    """
    order = rows[np.lexsort((finish[rows], start[rows]))]
    offsets = np.zeros(len(start) + 1, np.int64)
    np.cumsum(np.bincount(allocations.rows, minlength=len(start)), out=offsets[1:])
    opened = np.zeros(len(start), np.int64)
    closed = np.zeros(len(start), np.int64)
    shared = np.zeros(int(allocations.last.max(initial=0)) + 1, np.int64)
    hosts = _Hosts(opened, closed, shared)
    hosts.follow(
        np.ascontiguousarray(order, np.int64),
        offsets,
        np.ascontiguousarray(start, np.float64),
        np.ascontiguousarray(finish, np.float64),
        np.ascontiguousarray(allocations.first, np.int64),
        np.ascontiguousarray(allocations.last, np.int64),
        DATE_TOLERANCE,
    )
    return Occupancy(order, opened, closed, hosts.busy + hosts.lost, np.flatnonzero(shared))


class _Hosts:
    """State of the hosts while jobs are replayed, kept by segments: neighbouring hosts that have
    run the same jobs so far.

    Of a segment, what is known stands at its first host: where it ends, since when and until when
    it is busy, and with which row last. ``starts`` are those first hosts as bits, 32 a word.
    ``busy`` is a sum, and ``lost`` what its rounding has lost.
    """

    def __init__(self, opened: Integers, closed: Integers, shared: Integers) -> None:
        self.count = len(shared)
        self.opened = opened
        self.closed = closed
        self.shared = shared
        self.starts = np.zeros((self.count >> _WORD) + 1, np.int64)
        self.starts[0] = 1
        self.ends = np.full(self.count, self.count)
        self.since = np.zeros(self.count)
        self.until = np.full(self.count, -np.inf)
        self.holder = np.full(self.count, -1)
        self.busy = 0.0
        self.lost = 0.0

    def follow(
        self,
        order: Integers,
        offsets: Integers,
        start: Floats,
        finish: Floats,
        first: Integers,
        last: Integers,
        tolerance: float,
    ) -> None:
        """Replay the jobs in ``order`` (of their starts) on their hosts, then end busy periods."""
        for place in range(len(order)):
            row = order[place]
            for interval in range(offsets[row], offsets[row + 1]):
                self.use(row, start[row], finish[row], first[interval], last[interval], tolerance)
        host = 0
        while host < self.count:
            end = self.end_of_alike(host, self.count)
            self.close(host, end)
            host = end

    def use(
        self, row: int, start: float, finish: float, host: int, last: int, tolerance: float
    ) -> None:
        """Replay a job (row) on one interval of its hosts, ``host`` to ``last``."""
        segment = self.segment_of(host)
        if segment < host:
            self.split(segment, host)
        while host <= last:
            end = self.end_of_alike(host, last + 1)
            until = self.until[host]
            if start > until:
                self.close(host, end)
                self.opened[row] += end - host
                self.since[host] = start
            elif start < until - tolerance:
                for each in range(host, end):
                    self.shared[each] = 1

            if finish > until:
                self.until[host] = finish
                self.holder[host] = row

            host = end

    def segment_of(self, host: int) -> int:
        """Return the first host of the segment that contains ``host``."""
        word = host >> _WORD
        bits = self.starts[word] & ((_ONE << (host & _BIT) + 1) - 1)
        while bits == 0:
            word -= 1
            bits = self.starts[word]

        highest = 0
        step = 1 << _WORD - 1
        while step > 0:
            if bits >> step:
                bits >>= step
                highest += step
            step >>= 1

        return (word << _WORD) + highest

    def split(self, segment: int, host: int) -> None:
        """Split the segment whose first host is ``segment`` in two, so that the second one begins
        at ``host``.
        """
        self.starts[host >> _WORD] |= _ONE << (host & _BIT)
        self.ends[host] = self.ends[segment]
        self.ends[segment] = host
        self.since[host] = self.since[segment]
        self.until[host] = self.until[segment]
        self.holder[host] = self.holder[segment]

    def end_of_alike(self, host: int, behind: int) -> int:
        """Join segments with the same history from ``host`` on, up to ``behind`` (exclusive);
        return where the joined segment ends.

        A segment that goes on behind is split there.
        """
        since = self.since[host]
        holder = self.holder[host]
        end: int = self.ends[host]
        while end < behind and self.holder[end] == holder and self.since[end] == since:
            self.starts[end >> _WORD] &= ~(_ONE << (end & _BIT))
            end = self.ends[end]
        self.ends[host] = end
        if end > behind:
            self.split(host, behind)
        return min(end, behind)

    def close(self, host: int, end: int) -> None:
        """Count hosts ``host`` to ``end`` (exclusive), which have the same history, as idle again,
        and add their busy period to the sum.
        """
        row = self.holder[host]
        if row >= 0:
            self.closed[row] += end - host
            period = self.until[host] - self.since[host]
            # A product with either half of the digits is exact.
            upper = _SPLITTER * period - (_SPLITTER * period - period)
            self.add((end - host) * upper)
            self.add((end - host) * (period - upper))

    def add(self, value: float) -> None:
        """Add a value to the sum of busy times ``busy``, and what the addition lost by rounding to
        ``lost``.
        """
        before = self.busy
        after = before + value
        if abs(before) >= abs(value):
            self.lost += (before - after) + value
        else:
            self.lost += (value - after) + before
        self.busy = after
