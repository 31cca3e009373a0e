"""The average wait time of the system, given or learned while the system runs."""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Sequence
from typing import NamedTuple, Protocol

PRIOR_JOBS = 100
"""The given average counts as the waits of this many jobs until others are known."""

LEAST_AVERAGE_WAIT = 1.0
"""Shortest average wait learned (seconds), so that slack and priority are defined."""


class AverageWait(Protocol):
    """What the priorities and slacks of new jobs rest on."""

    def of(self, estimate: float, now: float) -> float:
        """Return the average wait time (seconds) for jobs with this estimate (seconds)."""

    def started(self, estimate: float, wait: float, now: float) -> None:
        """Take note that a job with this estimate starts after this wait (seconds)."""


class FixedAverageWait:
    """One number for all jobs at all times, as in the paper's simulations.

    Parameters
    ----------
    average
        Average wait time (seconds).
    """

    def __init__(self, average: float) -> None:
        self._average = average

    def of(self, estimate: float, now: float) -> float:
        """Return the number."""
        return self._average

    def started(self, estimate: float, wait: float, now: float) -> None:
        """Take no note."""


class _Start(NamedTuple):
    date: float
    wait: float


class LearnedAverageWait:
    """The mean wait of the jobs that started in the last while, by class of estimate.

    Section 5.2 recommends an average for each month, section 4.3 one for each size of
    jobs. Until jobs have started, the prior counts as the waits of
    :data:`PRIOR_JOBS` jobs.

    Parameters
    ----------
    prior
        Average wait time assumed at first (seconds).
    window
        How long starts are remembered (seconds).
    edges
        Estimates (seconds, ascending) that divide jobs into classes.
    """

    def __init__(self, prior: float, window: float, edges: Sequence[float]) -> None:
        self._prior = prior
        self._window = window
        self._edges = tuple(edges)
        self._starts: list[deque[_Start]] = [deque() for _ in range(len(edges) + 1)]
        self._sums = [0.0] * (len(edges) + 1)

    def of(self, estimate: float, now: float) -> float:
        """Return the class's mean (seconds). Amortised O(1)."""
        kind = bisect_right(self._edges, estimate)
        starts = self._starts[kind]
        while starts and starts[0].date < now - self._window:
            self._sums[kind] -= starts.popleft().wait
        total = self._prior * PRIOR_JOBS + self._sums[kind]
        return max(total / (PRIOR_JOBS + len(starts)), LEAST_AVERAGE_WAIT)

    def started(self, estimate: float, wait: float, now: float) -> None:
        """Take note of a start. O(log classes)."""
        kind = bisect_right(self._edges, estimate)
        self._starts[kind].append(_Start(now, wait))
        self._sums[kind] += wait
