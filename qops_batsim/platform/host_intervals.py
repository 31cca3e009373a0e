"""Many sets of hosts in three arrays."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from qops_batsim.platform.hostset import HostSet


class HostIntervals(NamedTuple):
    """Sets of hosts as maximal intervals, ascending within a set.

    Attributes
    ----------
    offsets
        Where the intervals of each set begin, and where those of the last one end (int64).
    first, last
        The lowest and the highest host of each interval (int64).
    """

    offsets: np.ndarray
    first: np.ndarray
    last: np.ndarray

    @classmethod
    def of(cls, sets: Sequence[HostSet]) -> HostIntervals:
        """Return sets of hosts one after the other. O(intervals)."""
        listed = [list(hosts.intervals()) for hosts in sets]
        offsets = np.zeros(len(listed) + 1, np.int64)
        np.cumsum([len(each) for each in listed], out=offsets[1:])
        bounds = itertools.chain.from_iterable(itertools.chain.from_iterable(listed))
        pairs = np.fromiter(bounds, np.int64, 2 * int(offsets[-1])).reshape(-1, 2)
        return cls(offsets, pairs[:, 0].copy(), pairs[:, 1].copy())

    def texts(self) -> list[str]:
        """Return the sets as Batsim writes them: ``"0-3 5"``."""
        pairs = zip(self.first.tolist(), self.last.tolist(), strict=True)
        each = [str(low) if low == high else f"{low}-{high}" for low, high in pairs]
        bounds = self.offsets.tolist()
        if len(each) == len(bounds) - 1 and bounds == list(range(len(bounds))):
            return each
        return [" ".join(each[low:high]) for low, high in itertools.pairwise(bounds)]
