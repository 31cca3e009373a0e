"""Priority and slack of a job, and the average wait time that they rest on.

Talby and Feitelson 1999, sections 2.3, 4.3 and 5.2. Priorities are numbers from 0 to
1; that of a job over its quota is minus infinity, which gives it endless slack. Times
are in seconds.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import deque
from collections.abc import Sequence
from typing import Protocol

from msgspec import UNSET

from qops_batsim.jobs import Job

FIRST_SCHEDULER_PRIORITY = 0.5
"""Scheduler priority before a job has a start: it is meant to wait the average time."""

PRIOR_JOBS = 100
"""The given average counts as the waits of this many jobs until others are known."""

LEAST_AVERAGE_WAIT = 1.0
"""Shortest average wait learned, so that slack and priority are defined."""


def priority_of(job: Job, scheduler_priority: float) -> float:
    """Return a job's priority: the mean of the user's, the site's and the scheduler's.

    ``qos.user_priority`` and ``qos.political_priority`` count as 0 unless given; a
    political priority of None (over quota) as minus infinity.
    """
    user = political = 0.0
    if job.qos is not None:
        if job.qos.political_priority is None:
            return -math.inf
        if job.qos.political_priority is not UNSET:
            political = float(job.qos.political_priority)
        user = job.qos.user_priority or 0.0
    return (user + political + scheduler_priority) / 3.0


def scheduler_priority(wait: float, average_wait: float) -> float:
    """Return the scheduler's priority of a job that has its first start after this wait.

    0 for a job that starts at once, 1/2 for one that waits as long as the average of the
    system (above 0), 1 from twice that on.
    """
    return min(wait / (2.0 * average_wait), 1.0)


def first_slack(priority: float, slack_factor: float, average_wait: float) -> float:
    """Return a job's initial slack: infinite over quota.

    The slack factor is the number of average wait times granted to a job of priority 0.
    """
    if priority == -math.inf:
        return math.inf
    return max(1.0 - priority, 0.0) * slack_factor * average_wait


class AverageWait(Protocol):
    """What the priorities and slacks of new jobs rest on."""

    def of(self, estimate: float, now: float) -> float:
        """Return the average wait time for jobs with this estimate."""

    def started(self, estimate: float, wait: float, now: float) -> None:
        """Learn that a job with this estimate starts after this wait."""


class FixedAverageWait:
    """One number for all jobs at all times, as in the paper's simulations."""

    def __init__(self, average: float) -> None:
        self._average = average

    def of(self, estimate: float, now: float) -> float:
        """Return the number."""
        return self._average

    def started(self, estimate: float, wait: float, now: float) -> None:
        """Learn nothing."""


class LearnedAverageWait:
    """The mean wait of the jobs that started in the last while, by class of estimate.

    Section 5.2 recommends an average for each month, section 4.3 one for each size of
    jobs. Until jobs have started, the prior counts as the waits of
    :data:`PRIOR_JOBS` jobs.

    Parameters
    ----------
    prior
        Average wait time assumed at first.
    window
        How long starts are remembered.
    edges
        Estimates (ascending) that divide jobs into classes.
    """

    def __init__(self, prior: float, window: float, edges: Sequence[float]) -> None:
        self._prior = prior
        self._window = window
        self._edges = tuple(edges)
        # Date and wait of each start.
        self._starts: list[deque[tuple[float, float]]] = [deque() for _ in range(len(edges) + 1)]
        self._sums = [0.0] * (len(edges) + 1)

    def of(self, estimate: float, now: float) -> float:
        """Return the class's mean. Amortised O(1)."""
        kind = bisect_right(self._edges, estimate)
        starts = self._starts[kind]
        while starts and starts[0][0] < now - self._window:
            self._sums[kind] -= starts.popleft()[1]
        total = self._prior * PRIOR_JOBS + self._sums[kind]
        return max(total / (PRIOR_JOBS + len(starts)), LEAST_AVERAGE_WAIT)

    def started(self, estimate: float, wait: float, now: float) -> None:
        """Learn from a start. O(log classes)."""
        kind = bisect_right(self._edges, estimate)
        self._starts[kind].append((now, wait))
        self._sums[kind] += wait
