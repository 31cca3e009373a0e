"""Priority and slack of a job, and the average wait time that they rest on.

Talby and Feitelson 1999, sections 2.3, 4.3 and 5.2. Priorities are numbers from 0 to
1; that of a job over its quota is minus infinity, which gives it endless slack. Times
are in seconds.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from msgspec import UNSET

from qops_batsim.jobs import QosRequest
from qops_batsim.kernels import kernel
from qops_batsim.scheduling.arrays import Floats, Ints, grown
from qops_batsim.scheduling.slack.options import SlackOptions

FIRST_SCHEDULER_PRIORITY = 0.5
"""Scheduler priority before a job has a start: it is meant to wait the average time."""

PRIOR_JOBS = 100
"""The given average counts as the waits of this many jobs until others are known."""

LEAST_AVERAGE_WAIT = 1.0
"""Shortest average wait learned, so that slack and priority are defined."""


def asked_priority(qos: QosRequest | None) -> float:
    """Return the sum of the user's and the site's priorities.

    ``qos.user_priority`` and ``qos.political_priority`` count as 0 unless given; a
    political priority of None (over quota) as minus infinity.
    """
    if qos is None:
        return 0.0
    if qos.political_priority is None:
        return -math.inf
    political = 0.0 if qos.political_priority is UNSET else float(qos.political_priority)
    return (qos.user_priority or 0.0) + political


@kernel
def mean_priority(asked: float, scheduler: float) -> float:
    """Return a job's priority: the mean of the user's, the site's and the scheduler's."""
    return (asked + scheduler) / 3.0


@kernel
def scheduler_priority(wait: float, average_wait: float) -> float:
    """Return the scheduler's priority of a job that has its first start after this wait.

    0 for a job that starts at once, 1/2 for one that waits as long as the average of the
    system (above 0), 1 from twice that on.
    """
    return min(wait / (2.0 * average_wait), 1.0)


@kernel
def first_slack(priority: float, slack_factor: float, average_wait: float) -> float:
    """Return a job's initial slack: infinite over quota.

    The slack factor is the number of average wait times granted to a job of priority 0.
    """
    if priority == -np.inf:
        return np.inf
    return max(1.0 - priority, 0.0) * slack_factor * average_wait


class AverageWait(NamedTuple):
    """Average wait, on which priorities and slacks of new jobs rest.

    It is one number for all jobs at all times, as in the paper's simulations, or learned: the mean
    wait of the jobs that started in the last while, by class of estimate. Section 5.2 recommends an
    average for each month, section 4.3 one for each size of jobs. Until jobs have started, the
    given number counts as the waits of :data:`PRIOR_JOBS` jobs.

    Attributes
    ----------
    given
        The number, or what is assumed at first.
    window
        How long starts are remembered.
    is_learned
        Whether it is.
    dates, waits, classes
        Of each start.
    heads, counts, sums
        By class: the first start that is remembered, how many are, and the sum of their waits.
    size
        Number of starts.
    """

    given: float
    window: float
    is_learned: bool
    dates: Floats
    waits: Floats
    classes: Ints
    heads: Ints
    counts: Ints
    sums: Floats
    size: Ints


def class_of(options: SlackOptions, estimates: Any) -> Any:
    """Return the class of an estimate, or those of several (seconds)."""
    return np.searchsorted(np.array(options.average_wait_edges, float), estimates, side="right")


def new_average_wait(options: SlackOptions, jobs: int) -> AverageWait:
    """Return the average wait before any of so many jobs has started."""
    is_learned = options.average_wait_source == "learned"
    classes = len(options.average_wait_edges) + 1
    starts = jobs if is_learned else 0
    return AverageWait(
        given=float(options.average_wait),
        window=float(options.average_wait_window),
        is_learned=is_learned,
        dates=np.zeros(starts),
        waits=np.zeros(starts),
        classes=np.zeros(starts, np.int64),
        heads=np.zeros(classes, np.int64),
        counts=np.zeros(classes, np.int64),
        sums=np.zeros(classes),
        size=np.zeros(1, np.int64),
    )


def grown_average_wait(average: AverageWait) -> AverageWait:
    """Return the same with room for twice as many starts."""
    dates, waits, classes = map(grown, (average.dates, average.waits, average.classes))
    return average._replace(dates=dates, waits=waits, classes=classes)


@kernel
def average_of(average: AverageWait, kind: int, now: float) -> float:
    """Return the average wait time for a class of jobs. Amortised O(classes)."""
    if not average.is_learned:
        return average.given
    head = average.heads[kind]
    while head < average.size[0]:
        if average.classes[head] == kind:
            if average.dates[head] >= now - average.window:
                break
            average.sums[kind] -= average.waits[head]
            average.counts[kind] -= 1
        head += 1
    average.heads[kind] = head
    total = average.given * PRIOR_JOBS + average.sums[kind]
    return float(max(total / (PRIOR_JOBS + average.counts[kind]), LEAST_AVERAGE_WAIT))


@kernel
def learn(average: AverageWait, kind: int, wait: float, now: float) -> None:
    """Learn that a job of a class starts after this wait."""
    if average.is_learned:
        start = average.size[0]
        average.size[0] += 1
        average.dates[start], average.waits[start], average.classes[start] = now, wait, kind
        average.counts[kind] += 1
        average.sums[kind] += wait
