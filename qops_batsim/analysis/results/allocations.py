"""The hosts of a run's jobs: as intervals, and each stay of a job on a host."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from qops_batsim.analysis.results.cell_kernels import read_intervals
from qops_batsim.analysis.results.csv_cells import SHORT
from qops_batsim.analysis.results.csv_table import Texts
from qops_batsim.analysis.results.tables import Booleans, Floats, Integers
from qops_batsim.errors import InputError
from qops_batsim.kernels import interpreted
from qops_batsim.limits import MAX_HOST_ID
from qops_batsim.platform.hostset import HostSet


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
    written = texts.written if isinstance(texts, Texts) else None
    found = _as_batsim_writes(written) if written else None
    return _of_each(texts) if found is None else found


def _as_batsim_writes(written: bytes) -> Allocations | None:
    """Read allocations, a line each, if they are ascending maximal intervals."""
    most = written.count(b" ") + written.count(b"\n")
    found = Allocations(*(np.empty(most, np.int64) for _ in range(3)))
    if len(written) < SHORT:
        count = interpreted(read_intervals)(written, *found, MAX_HOST_ID)
    else:
        count = read_intervals(np.frombuffer(written, np.uint8), *found, MAX_HOST_ID)
    return None if count < 0 else Allocations(*(each[:count] for each in found))


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
