"""Drift: the sum of message delays along a chain of jobs that waited for each other.

A plan is made in nominal dates, and each start is late by what a message takes. Behind jobs that
run one right after the other on the same hosts these add up, whatever the scheduler does.
"""

from __future__ import annotations

import numpy as np

from qops_batsim.analysis.results.allocations import Stays
from qops_batsim.analysis.results.result_tables import DATE_TOLERANCE, Floats, Integers, real_ends
from qops_batsim.analysis.results.run_result import RunResult
from qops_batsim.timing import ROUND_TRIPS


def message_drift(result: RunResult, rows: Integers) -> Floats:
    """Return the sum of message delays that held each of some jobs up (seconds).

    The platform's messages explain a time between the end of a job and the start of the next one
    on the same host up to :data:`~qops_batsim.timing.ROUND_TRIPS` round trips; hosts are not
    shared. O(hosts of all jobs × log) to begin with.
    """
    if not len(rows) or result.info is None:
        return np.zeros(len(rows))
    submitted, start, finish = result.columns("submission_time", "starting_time", "finish_time")
    dates = submitted, start, real_ends(start, finish)
    return drift_behind(rows, result.stays(), *dates, result.info.round_trip)


def drift_behind(
    rows: Integers, stays: Stays, submitted: Floats, start: Floats, ends: Floats, round_trip: float
) -> Floats:
    """Return each job's drift, from stays on hosts, dates, and the longest delay of messages."""
    most = ROUND_TRIPS * round_trip + DATE_TOLERANCE
    return chain_gaps(
        np.ascontiguousarray(rows, np.int64),
        _rows_before(stays, ends),
        np.ascontiguousarray(submitted, np.float64),
        np.ascontiguousarray(start, np.float64),
        np.ascontiguousarray(ends, np.float64),
        most,
    )


def _rows_before(stays: Stays, ends: Floats) -> Integers:
    """Return, for each job, the row of the last job that ended on its hosts before, -1 if none."""
    before: Integers = np.full(len(ends), -1)
    stays = stays.where(np.lexsort((stays.finish, stays.start, stays.hosts)))
    last = max(len(stays.hosts), 1) - 1
    follows = stays.hosts[1:] == stays.hosts[:last]
    rows, earlier = stays.rows[1:][follows], stays.rows[:last][follows]
    # What is written last stays.
    order = np.argsort(ends[earlier], kind="stable")
    before[rows[order]] = earlier[order]
    return before


def chain_gaps(
    rows: Integers, before: Integers, submitted: Floats, start: Floats, end: Floats, most: float
) -> Floats:
    """Return the summed gaps in the chain of waiting jobs that ends at each row (seconds).

    The chain is of jobs one ``before`` the other, no longer than ``most`` apart, back to the
    submission of the last one. O(rows × chain).
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
