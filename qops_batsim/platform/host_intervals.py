"""Many sets of hosts, stored as intervals in three arrays."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np

from qops_batsim.core.hostset import HostSet
from qops_batsim.tables import Intervals


class HostIntervals(Intervals):
    """Sets of hosts, stored as intervals of host identifiers."""

    @classmethod
    def of(cls, sets: Sequence[HostSet]) -> HostIntervals:
        """Store several sets of hosts in order. O(intervals)."""
        listed = [list(hosts.intervals()) for hosts in sets]
        offsets = np.zeros(len(listed) + 1, np.int64)
        np.cumsum([*map(len, listed)], out=offsets[1:])
        bounds = itertools.chain.from_iterable(itertools.chain.from_iterable(listed))
        pairs = np.fromiter(bounds, np.int64, 2 * int(offsets[-1])).reshape(-1, 2)
        return cls(offsets, pairs[:, 0].copy(), pairs[:, 1].copy())

    def sets(self) -> list[HostSet]:
        """Return the stored sets of hosts in order. O(intervals)."""
        lengths = (self.last - self.first + 1).tolist()
        masks = [((1 << n) - 1) << low for n, low in zip(lengths, self.first.tolist(), strict=True)]
        # The intervals of a set are apart: their sum is their union.
        return [HostSet(sum(masks[a:b])) for a, b in itertools.pairwise(self.offsets.tolist())]
