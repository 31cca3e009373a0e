"""Drift: the sum of message delays along a chain of jobs that waited for each other.

A plan is made in nominal dates, and each start is late by what a message takes. Behind jobs that
run one right after the other on the same hosts these add up, whatever the scheduler does.
"""

from __future__ import annotations

import numpy as np

from qops_batsim.measures.results.allocations import Stays
from qops_batsim.measures.results.result_tables import DATE_TOLERANCE, Floats, Integers, real_ends
from qops_batsim.measures.results.run_result import RunResult
from qops_batsim.timing import ROUND_TRIPS


def message_drift(result: RunResult, rows: Integers) -> Floats:
    """Return the drift of the jobs in ``rows``: the sum of message delays (seconds) along the chain
    of jobs that each one waited for.

    The platform's messages explain a time between the end of a job and the start of the next one
    on the same host up to :data:`~qops_batsim.timing.ROUND_TRIPS` round trips. Hosts may be shared
    by amounts, not otherwise. O(hosts of all jobs × log) to begin with.
    """
    if not len(rows) or result.info is None:
        return np.zeros(len(rows))
    submitted, start, finish = result.columns("submission_time", "starting_time", "finish_time")
    dates = submitted, start, real_ends(start, finish)
    shared = result.machine is not None
    return drift_behind(rows, result.stays(), *dates, result.info.round_trip, shared=shared)


def drift_behind(
    rows: Integers,
    stays: Stays,
    submitted: Floats,
    start: Floats,
    ends: Floats,
    round_trip: float,
    *,
    shared: bool = False,
) -> Floats:
    """Return the drift of the jobs in ``rows`` (seconds), given stays on hosts and dates of all
    jobs, and the longest ``round_trip`` of a message; hosts may be ``shared`` by amounts.
    """
    most = ROUND_TRIPS * round_trip + DATE_TOLERANCE
    later, earlier = _ended_before(stays, start, ends, most) if shared else _directly_before(stays)
    # Of several predecessors the one that ended last: what is written last stays.
    order = np.argsort(ends[earlier], kind="stable")
    before: Integers = np.full(len(ends), -1)
    before[later[order]] = earlier[order]
    return chain_gaps(
        np.ascontiguousarray(rows, np.int64),
        before,
        np.ascontiguousarray(submitted, np.float64),
        np.ascontiguousarray(start, np.float64),
        np.ascontiguousarray(ends, np.float64),
        most,
    )


def _directly_before(stays: Stays) -> tuple[Integers, Integers]:
    """Return rows of jobs, and of those that ran directly before them on one of their hosts."""
    stays = stays.where(np.lexsort((stays.finish, stays.start, stays.hosts)))
    last = max(len(stays.hosts), 1) - 1
    follows = stays.hosts[1:] == stays.hosts[:last]
    return stays.rows[1:][follows], stays.rows[:last][follows]


def _ended_before(
    stays: Stays, start: Floats, ends: Floats, most: float
) -> tuple[Integers, Integers]:
    """Return rows of jobs that share hosts, and of those that ended last before them on one of
    their hosts, up to ``most`` seconds after their start.
    """
    count = len(stays.rows)
    rows = np.tile(stays.rows, 2)
    hosts = np.tile(stays.hosts, 2)
    dates = np.concatenate([ends[stays.rows], start[stays.rows] + most])
    order = np.lexsort((dates, hosts))
    is_end = order < count
    last = order[np.maximum.accumulate(np.where(is_end, np.arange(2 * count), 0))]
    follows = ~is_end & (last < count) & (hosts[last] == hosts[order]) & (rows[last] != rows[order])
    return rows[order[follows]], rows[last[follows]]


def chain_gaps(
    rows: Integers, before: Integers, submitted: Floats, start: Floats, end: Floats, most: float
) -> Floats:
    """Follow each job back along the chain of jobs that it waited for; return the sum of the gaps
    (seconds) between an end and the next start.

    The chain goes from each job to its predecessor (``before``; -1: none), as long as the two are
    at most ``most`` seconds apart, and no further back than the submission of the job itself.
    O(rows × chain).
    """
    found = np.zeros(len(rows))
    sums = found
    for place in range(len(rows)):
        row = rows[place]
        since = submitted[row]
        while start[row] > since and before[row] >= 0:
            gap = start[row] - end[before[row]]
            if abs(gap) > most:
                break
            sums[place] += gap
            row = before[row]
    return found
