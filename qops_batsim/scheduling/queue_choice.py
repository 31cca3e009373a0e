"""The choice of a queue by need, from the waits that were observed in each."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from qops_batsim.kernels import kernel
from qops_batsim.scheduling.arrays import Floats, Ints, Jobs
from qops_batsim.scheduling.core.columns import ARRIVALS, ESTIMATES

BY_NEED = -1
"""In place of the queue of a job whose user chooses by need."""

PERIOD, SERVED = range(2)
"""Indices into :attr:`Queues.served`: the current period, and how many had priority in it."""


class Terms(NamedTuple):
    """Observed jobs that a mean wait is about, most jobs with priority in a period (seconds)."""

    history: int
    limit: int
    period: float


class Queues(NamedTuple):
    """Waits by queue, the first queue having priority over the next, and the queues of jobs.

    Attributes
    ----------
    waits, observed
        Mean wait of the last jobs that started (seconds), and how many started, by queue.
    served
        See :data:`PERIOD` and :data:`SERVED`.
    deadlines, chosen
        By job: when its user needs it (seconds), infinite without need; and its queue,
        :data:`BY_NEED` until it is chosen. Empty where there is no choice, or it is kept elsewhere.
    terms
        Its options.
    """

    waits: Floats
    observed: Ints
    served: Ints
    deadlines: Floats
    chosen: Ints
    terms: Terms


def new_queues(
    count: int, terms: Terms, deadlines: Floats | None = None, chosen: Ints | None = None
) -> Queues:
    """Return so many queues in which no job was yet, with the needs and queues of jobs."""
    return Queues(
        np.zeros(count),
        np.zeros(count, np.int64),
        np.full(2, -1, np.int64),
        np.empty(0) if deadlines is None else deadlines,
        np.empty(0, np.int64) if chosen is None else chosen,
        terms,
    )


@kernel
def needed_queue(queues: Queues, arrival: float, estimate: float, deadline: float) -> int:
    """Return the cheapest queue in which a job is expected to end in time, else the first. O(1)."""
    queue = len(queues.waits) - 1
    while queue > 0 and arrival + queues.waits[queue] + estimate > deadline:
        queue -= 1
    return queue


@kernel
def rank_in(queues: Queues, queue: int, arrival: float) -> float:
    """Return the key of a new job of a queue: that of the next one if too many had priority. O(1).

    Keys of one value are by arrival.
    """
    if queue == 0:
        served, period = queues.served, int(arrival // queues.terms.period)
        if served[PERIOD] != period:
            served[PERIOD], served[SERVED] = period, 0
        served[SERVED] += 1
        if served[SERVED] > queues.terms.limit:
            return 1.0
    return float(queue)


@kernel
def observe(queues: Queues, queue: int, wait: float) -> None:
    """Learn that a job of a queue starts after waiting so long (seconds). O(1)."""
    queues.observed[queue] += 1
    jobs = min(queues.observed[queue], queues.terms.history)
    queues.waits[queue] += (wait - queues.waits[queue]) / jobs


@kernel
def enter_queues(
    queues: Queues, jobs: Jobs, keys: Floats, first: int, end: int, hosts: int
) -> None:
    """Choose the queues of the jobs from ``first`` to ``end - 1`` that fit, write their keys."""
    for job in range(first, end):
        if 1 <= jobs.processors[job] <= hosts:
            arrival = jobs.numbers[ARRIVALS, job]
            if queues.chosen[job] == BY_NEED:
                queues.chosen[job] = needed_queue(
                    queues, arrival, jobs.numbers[ESTIMATES, job], queues.deadlines[job]
                )
            keys[job] = rank_in(queues, queues.chosen[job], arrival)


@kernel
def observe_starts(queues: Queues, jobs: Jobs, started: Ints, count: int, now: float) -> None:
    """Learn from the jobs that start now. O(count)."""
    for index in range(count):
        job = started[index]
        observe(queues, queues.chosen[job], now - jobs.numbers[ARRIVALS, job])
