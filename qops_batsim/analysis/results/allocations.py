"""Hosts of a run's jobs: as intervals, each stay of a job on a host, and when hosts are busy.

For the latter no list of (job, host) pairs is made. Jobs are taken in the order of their starts,
and for each host it is kept when it is busy until. That tells when hosts become busy and idle
again, and which run several jobs at a time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from qops_batsim.analysis.results.tables import DATE_TOLERANCE, Booleans, Floats, Integers
from qops_batsim.errors import InputError
from qops_batsim.kernels import kernel
from qops_batsim.limits import MAX_HOST_ID
from qops_batsim.platform.hostset import HostSet
from qops_batsim.tables import Texts


class Allocations(NamedTuple):
    """The hosts of jobs as maximal intervals, ascending by job and host."""

    rows: Integers  # of the job
    first: Integers
    last: Integers


class AllocationError(InputError):
    """The allocation in a row is no set of hosts."""

    def __init__(self, row: int, problem: InputError) -> None:
        super().__init__(str(problem))
        self.row = row


class Stays(NamedTuple):
    """Stays of jobs on hosts: arrays with one element for each host of each job that ran."""

    rows: Integers  # of the job
    hosts: Integers
    start: Floats  # seconds, as is the finish
    finish: Floats

    def where(self, chosen: Booleans | Integers | slice) -> Stays:
        """Return some of the stays, or all in another order."""
        rows, hosts, start, finish = self
        return Stays(rows[chosen], hosts[chosen], start[chosen], finish[chosen])

    def of_each_host(self) -> Iterator[Stays]:
        """Yield the stays on each host, where they are ordered by host."""
        bounds = np.flatnonzero(np.diff(self.hosts, prepend=-1, append=-1)).tolist()
        for first, last in pairwise(bounds):
            yield self.where(slice(first, last))


def read_allocations(texts: Sequence[str]) -> Allocations:
    """Read the allocations of jobs, each as in ``"0-3 5"``, nothing for none; O(text).

    Raises :class:`AllocationError`.
    """
    found = _as_batsim_writes(texts) if isinstance(texts, Texts) else None
    return _of_each(texts) if found is None else found


_SPACE, _HYPHEN, _ZERO, _END = (ord(each) for each in " -0\n")
_NUMBERS = b"0123456789"
_DIGITS = len(str(MAX_HOST_ID))


def _as_batsim_writes(texts: Texts) -> Allocations | None:
    """Read all allocations at once, if they are ascending maximal intervals; else None."""
    content = f"{texts.joined(chr(_END))}\n".encode() if len(texts) else b""
    if content.translate(None, _NUMBERS + b" -\n"):
        return None
    letters = np.frombuffer(content, np.uint8)
    places = np.flatnonzero(letters < _ZERO)
    # What separates numbers or rows, and how many digits stand before it.
    kinds, digits = letters[places], np.diff(places, prepend=-1) - 1
    behind = np.append(_END, kinds[:-1])
    nothing = (digits == 0) & (behind == _END) & (kinds == _END)
    wrong = (digits > _DIGITS) | ((digits == 0) & ~nothing)
    if (wrong | ((behind == _HYPHEN) & (kinds == _HYPHEN))).any():
        return None
    numbers = np.zeros(len(places), np.int64)
    numbers[~nothing] = np.fromstring(content.replace(b"-", b" "), np.int64, sep=" ")
    begins = np.flatnonzero(~nothing & (behind != _HYPHEN))
    first, last = numbers[begins], numbers[begins + (kinds[begins] == _HYPHEN)]
    rows = np.cumsum(behind == _END)[begins] - 1
    touching = (rows[1:] == rows[:-1]) & (first[1:] <= last[:-1] + 1)
    if touching.any() or (first > last).any() or last.max(initial=0) > MAX_HOST_ID:
        return None
    return Allocations(rows, first, last)


def on_all_hosts(allocations: Allocations) -> tuple[Integers, Integers]:
    """Return every (row, host) pair; O(pairs)."""
    return on_hosts(allocations, np.arange(int(allocations.last.max(initial=-1)) + 1))


def on_hosts(allocations: Allocations, hosts: Integers) -> tuple[Integers, Integers]:
    """Return every (row, host) pair on some hosts, which ascend; O(intervals) and the pairs."""
    low = np.searchsorted(hosts, allocations.first)
    sizes = np.searchsorted(hosts, allocations.last, side="right") - low
    offsets = np.arange(int(sizes.sum())) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    return np.repeat(allocations.rows, sizes), hosts[np.repeat(low, sizes) + offsets]


def _of_each(texts: Sequence[str]) -> Allocations:
    parsed: dict[str, list[tuple[int, int]]] = {"": []}
    rows: list[int] = []
    bounds: list[tuple[int, int]] = []
    for row, text in enumerate(texts):
        intervals = parsed.get(text)
        if intervals is None:
            try:
                intervals = parsed[text] = list(HostSet.parse(text).intervals())
            except InputError as error:
                raise AllocationError(row, error) from None
        bounds += intervals
        rows += [row] * len(intervals)
    pairs = np.array(bounds, dtype=np.int64).reshape(-1, 2)
    return Allocations(np.array(rows, dtype=np.int64), pairs[:, 0].copy(), pairs[:, 1].copy())


_WORD = 5
"""Two to this power are the bits of a word."""

_BIT = (1 << _WORD) - 1

_SPLITTER = 2.0**27 + 1
"""Factor that splits a float into two of half the digits (Dekker 1971)."""


class Occupancy(NamedTuple):
    """Use of the hosts as jobs start and end.

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


class _Jobs(NamedTuple):
    """Rows in the order of their starts; of each row, dates and where its intervals begin."""

    order: Integers
    offsets: Integers
    start: Floats
    finish: Floats


class _Hosts(NamedTuple):
    """Segments of neighbouring hosts on which the same happened, and which hosts were shared.

    Of a segment, what is known stands at its first host: where it ends, since when and until when
    it is busy, and with which row last. ``starts`` are those first hosts as bits,
    32 a word.
    """

    starts: Integers
    ends: Integers
    since: Floats
    until: Floats
    holder: Integers
    shared: Integers


def occupancy(allocations: Allocations, start: Floats, finish: Floats, rows: Integers) -> Occupancy:
    """Follow some rows of a run on their hosts; O(n log n), and their intervals of hosts.

    ``start`` and ``finish`` are of all rows (seconds).
    """
    order = rows[np.lexsort((finish[rows], start[rows]))]
    offsets = np.zeros(len(start) + 1, np.int64)
    np.cumsum(np.bincount(allocations.rows, minlength=len(start)), out=offsets[1:])
    count = int(allocations.last.max(initial=0)) + 1
    hosts = _Hosts(
        starts=np.zeros((count >> _WORD) + 1, np.int64),
        ends=np.full(count, count),
        since=np.zeros(count),
        until=np.full(count, -np.inf),
        holder=np.full(count, -1),
        shared=np.zeros(count, np.int64),
    )
    hosts.starts[0] = 1
    opened, closed = np.zeros(len(start), np.int64), np.zeros(len(start), np.int64)
    busy = np.zeros(2)
    jobs = _Jobs(order, offsets, start, finish)
    first, last = allocations.first, allocations.last
    _follow(jobs, first, last, hosts, opened, closed, busy, DATE_TOLERANCE)
    return Occupancy(order, opened, closed, float(busy.sum()), np.flatnonzero(hosts.shared))


@kernel
def _follow(
    jobs: _Jobs,
    first: np.ndarray,
    last: np.ndarray,
    hosts: _Hosts,
    opened: np.ndarray,
    closed: np.ndarray,
    busy: np.ndarray,
    tolerance: float,
) -> None:
    for place in range(len(jobs.order)):
        row = jobs.order[place]
        start, finish = jobs.start[row], jobs.finish[row]
        for interval in range(jobs.offsets[row], jobs.offsets[row + 1]):
            host, behind = first[interval], last[interval] + 1
            segment = _segment_of(hosts, host)
            if segment < host:
                _split(hosts, segment, host)
            while host < behind:
                end = _end_of_alike(hosts, host, behind)
                until = hosts.until[host]
                if start > until:
                    _close(hosts, host, end, closed, busy)
                    opened[row] += end - host
                    hosts.since[host] = start
                elif start < until - tolerance:
                    hosts.shared[host:end] = 1
                if finish > until:
                    hosts.until[host] = finish
                    hosts.holder[host] = row
                host = end
    host = 0
    while host < len(hosts.holder):
        end = _end_of_alike(hosts, host, len(hosts.holder))
        _close(hosts, host, end, closed, busy)
        host = end


@kernel
def _segment_of(hosts: _Hosts, host: int) -> int:
    """Return the first host of the segment that holds a host."""
    word = host >> _WORD
    bits = hosts.starts[word] & ((2 << (host & _BIT)) - 1)
    while bits == 0:
        word -= 1
        bits = hosts.starts[word]
    highest, step = 0, 1 << _WORD - 1
    while step > 0:
        if bits >> step:
            bits >>= step
            highest += step
        step >>= 1
    return int((word << _WORD) + highest)


@kernel
def _split(hosts: _Hosts, segment: int, host: int) -> None:
    """Let a further segment begin at a host within a segment."""
    hosts.starts[host >> _WORD] |= 1 << (host & _BIT)
    hosts.ends[host], hosts.ends[segment] = hosts.ends[segment], host
    hosts.since[host], hosts.until[host] = hosts.since[segment], hosts.until[segment]
    hosts.holder[host] = hosts.holder[segment]


@kernel
def _end_of_alike(hosts: _Hosts, host: int, behind: int) -> int:
    """Join the segments from one on, up to ``behind``, on which the same happened; return its end.

    A segment that goes on behind is split there.
    """
    since, holder, end = hosts.since[host], hosts.holder[host], hosts.ends[host]
    while end < behind and hosts.holder[end] == holder and hosts.since[end] == since:
        hosts.starts[end >> _WORD] &= ~(1 << (end & _BIT))
        end = hosts.ends[end]
    hosts.ends[host] = end
    if end > behind:
        _split(hosts, host, behind)
    return int(min(end, behind))


@kernel
def _close(hosts: _Hosts, host: int, end: int, closed: np.ndarray, busy: np.ndarray) -> None:
    """Note that some hosts, on which the same happened, are no longer busy."""
    if hosts.holder[host] >= 0:
        closed[hosts.holder[host]] += end - host
        period = hosts.until[host] - hosts.since[host]
        # A product with either half of the digits is exact.
        upper = _SPLITTER * period - (_SPLITTER * period - period)
        _add(busy, (end - host) * upper)
        _add(busy, (end - host) * (period - upper))


@kernel
def _add(total: np.ndarray, value: float) -> None:
    """Add to a sum of two floats: the sum, and what its rounding has lost."""
    before = total[0]
    after = before + value
    if abs(before) >= abs(value):
        total[1] += (before - after) + value
    else:
        total[1] += (value - after) + before
    total[0] = after
