"""Hosts of a run's jobs: as intervals, and as stays of single jobs on single hosts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from qops_batsim.core.hostset import HostSet
from qops_batsim.errors import InputError
from qops_batsim.limits import MAX_HOST_ID
from qops_batsim.measures.results.result_tables import Booleans, Floats, Integers
from qops_batsim.tables import Intervals, Texts, WrittenTexts


class Allocations(NamedTuple):
    """Hosts of the jobs as intervals of host ids, ``first`` to ``last``: one element per interval,
    ascending by row of the job and host.
    """

    rows: Integers  # of the job
    first: Integers
    last: Integers


class AllocationError(InputError):
    """A row of ``_jobs.csv`` has a text in ``allocated_resources`` that is not a set of hosts."""

    def __init__(self, row: int, problem: InputError) -> None:
        super().__init__(str(problem))
        self.row = row


class Stays(NamedTuple):
    """All pairs of an executed job and one of its hosts, with the job's start and finish: arrays
    with one element per pair.
    """

    rows: Integers  # of the job
    hosts: Integers
    start: Floats  # seconds, as is the finish
    finish: Floats

    def where(self, chosen: Booleans | Integers | slice) -> Stays:
        """Return only the pairs of job and host that a mask, indices or a slice select."""
        rows, hosts, start, finish = self
        return Stays(rows[chosen], hosts[chosen], start[chosen], finish[chosen])

    def of_each_host(self) -> Iterator[Stays]:
        """Yield the pairs of one host after the other; all pairs must be sorted by host."""
        bounds = np.flatnonzero(np.diff(self.hosts, prepend=-1, append=-1)).tolist()
        for first, last in pairwise(bounds):
            yield self.where(slice(first, last))


def read_allocations(texts: Sequence[str]) -> Allocations:
    """Parse the allocated hosts of jobs, one text a job (``"0-3 5"``, ``""`` for none); O(text).

    Raises :class:`AllocationError`.
    """
    found = None
    if isinstance(texts, Texts):
        found = _as_batsim_writes(texts)
    elif isinstance(texts, WrittenTexts) and isinstance(texts.column, Intervals):
        found = _as_written(texts.column)
    return _of_each(texts) if found is None else found


def _as_written(column: Intervals) -> Allocations | None:
    """Return the intervals of a column, or None if they are not ascending ones of hosts that do not
    touch.
    """
    begin, end = column.offsets[[0, -1]].tolist()
    rows = np.repeat(np.arange(len(column.offsets) - 1), np.diff(column.offsets))
    return _usual(rows, column.first[begin:end], column.last[begin:end])


def _usual(rows: Integers, first: Integers, last: Integers) -> Allocations | None:
    """Return intervals of hosts, by row; None if they are not ascending ones that do not touch."""
    touching = (rows[1:] == rows[:-1]) & (first[1:] <= last[:-1] + 1)
    if touching.any() or (first > last).any() or last.max(initial=0) > MAX_HOST_ID:
        return None
    return Allocations(rows, first, last)


_SPACE, _HYPHEN, _ZERO, _END = (ord(each) for each in " -0\n")
_NUMBERS = b"0123456789"
_DIGITS = len(str(MAX_HOST_ID))


def _as_batsim_writes(texts: Texts) -> Allocations | None:
    """Parse all texts at once, or return None if not every text has ascending intervals that do not
    touch, as Batsim writes them.
    """
    content = f"{texts.joined(chr(_END))}\n".encode() if len(texts) else b""
    if content.translate(None, _NUMBERS + b" -\n"):
        return None

    letters = np.frombuffer(content, np.uint8)
    places = np.flatnonzero(letters < _ZERO)
    # What separates numbers or rows, and how many digits stand before it.
    kinds = letters[places]
    digits = np.diff(places, prepend=-1) - 1
    behind = np.append(_END, kinds[:-1])
    nothing = (digits == 0) & (behind == _END) & (kinds == _END)
    wrong = (digits > _DIGITS) | ((digits == 0) & ~nothing)
    if (wrong | ((behind == _HYPHEN) & (kinds == _HYPHEN))).any():
        return None

    numbers = np.zeros(len(places), np.int64)
    numbers[~nothing] = np.fromstring(content.replace(b"-", b" "), np.int64, sep=" ")
    begins = np.flatnonzero(~nothing & (behind != _HYPHEN))
    first = numbers[begins]
    last = numbers[begins + (kinds[begins] == _HYPHEN)]
    rows = np.cumsum(behind == _END)[begins] - 1
    return _usual(rows, first, last)


def on_all_hosts(allocations: Allocations) -> tuple[Integers, Integers]:
    """Return two arrays, row of the job and host, with an element for each host that a job ran on;
    O(pairs).
    """
    return on_hosts(allocations, np.arange(int(allocations.last.max(initial=-1)) + 1))


def on_hosts(allocations: Allocations, hosts: Integers) -> tuple[Integers, Integers]:
    """Return two arrays, row of the job and host, for jobs that ran on one of the given hosts
    (ascending); O(intervals + pairs).
    """
    low = np.searchsorted(hosts, allocations.first)
    sizes = np.searchsorted(hosts, allocations.last, side="right") - low
    offsets = np.arange(int(sizes.sum())) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    return np.repeat(allocations.rows, sizes), hosts[np.repeat(low, sizes) + offsets]


def _of_each(texts: Sequence[str]) -> Allocations:
    parsed: dict[str, list[tuple[int, int]]] = {"": []}
    rows: list[int] = []
    bounds: list[tuple[int, int]] = []
    for row, text in enumerate(texts):
        if text not in parsed:
            try:
                parsed[text] = list(HostSet.parse(text).intervals())
            except InputError as error:
                raise AllocationError(row, error) from None
        intervals = parsed[text]

        bounds += intervals
        rows += [row] * len(intervals)

    pairs = np.array(bounds, dtype=np.int64).reshape(-1, 2)
    return Allocations(np.array(rows, dtype=np.int64), pairs[:, 0].copy(), pairs[:, 1].copy())
