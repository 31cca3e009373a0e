"""Sixteen categories of jobs: four classes of run time times four of processors.

Islam et al. (2004), section 5, split run time and processors "into sixteen different
categories ranging from short-narrow jobs to long-wide jobs" without telling where.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence

import msgspec

from qops_batsim.errors import InputError

RUN_TIME_CLASSES = ("very-short", "short", "long", "very-long")
"""Classes of run time, ascending."""

PROCESSOR_CLASSES = ("sequential", "narrow", "wide", "very-wide")
"""Classes of numbers of processors, ascending."""

RUN_TIME_EDGES = (600.0, 3600.0, 28_800.0)
"""Default longest run time of each class but the last (seconds): 10 min, 1 h, 8 h."""

PROCESSOR_EDGES = (1, 8, 32)
"""Default most processors of each class but the last."""


class Categories(msgspec.Struct, frozen=True, kw_only=True):
    """Where the classes end, ascending: the longest run time (seconds) and most processors.

    The last class of each has no end.
    """

    run_times: tuple[float, float, float] = RUN_TIME_EDGES
    processors: tuple[float, float, float] = PROCESSOR_EDGES

    def check(self) -> None:
        """Raise :class:`~qops_batsim.errors.InputError` if the edges are not usable."""
        _check_edges(self.run_times, "edges of run times")
        _check_edges(self.processors, "edges of processors")

    def label(self, run_time: float, processors: float) -> str:
        """Return the category, such as ``"short-narrow"``, of a job (run time in seconds); O(1)."""
        of_time = RUN_TIME_CLASSES[bisect_left(self.run_times, run_time)]
        return f"{of_time}-{PROCESSOR_CLASSES[bisect_left(self.processors, processors)]}"

    def labels(self) -> tuple[str, ...]:
        """Return all sixteen labels, by run time and then by processors, ascending."""
        return tuple(
            f"{first}-{second}" for first in RUN_TIME_CLASSES for second in PROCESSOR_CLASSES
        )


def _check_edges(edges: Sequence[float], what: str) -> None:
    if not (0 < edges[0] < edges[1] < edges[2] < math.inf):
        found = ", ".join(f"{edge:g}" for edge in edges)
        raise InputError(f"{what} are {found}; three ascending numbers above 0 are expected")
