"""The hosts of a run's jobs: as intervals, and each stay of a job on a host."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from qops_batsim.analysis.results.tables import Booleans, Floats, Integers
from qops_batsim.errors import InputError
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


def _as_batsim_writes(texts: Texts) -> Allocations | None:
    """Read allocations by Polars, if they are ascending maximal intervals."""
    import polars as pl

    written = pl.DataFrame({"row": np.arange(len(texts)), "text": texts.series})
    if written["text"].str.contains("[^0-9 -]").any():
        return None
    each = written.filter(pl.col("text") != "").with_columns(pl.col("text").str.split(" "))
    parts = each.explode("text").with_columns(pl.col("text").str.splitn("-", 2)).unnest("text")
    first, last = (pl.col(name).cast(pl.Int64, strict=False) for name in ("field_0", "field_1"))
    single = pl.col("field_1").is_null()
    found = parts.select("row", first=first, last=pl.when(single).then(first).otherwise(last))
    if found.null_count().sum_horizontal()[0]:
        return None
    rows, low, high = (column.to_numpy() for column in found)
    if (low > high).any() or (high > MAX_HOST_ID).any():
        return None
    if ((rows[1:] == rows[:-1]) & (low[1:] <= high[:-1] + 1)).any():
        return None
    return Allocations(rows, low, high)


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
