"""How many jobs share a host."""

from __future__ import annotations

import numpy as np

from qops_batsim.analysis.results.run import RunResult
from qops_batsim.analysis.results.tables import Integers


def most_at_once(result: RunResult) -> Integers:
    """Return the most jobs that any host of each job ran at a time while the job ran.

    1 for a job that was alone all the time, 0 for one that never ran. A job that
    starts when another one ends does not meet it. O(n log n) in the number of (job,
    host) pairs, plus the meetings.
    """
    rows, hosts = result.occupations
    real = result.executed[rows]
    rows, hosts = rows[real], hosts[real]
    start, finish = (result.column(name)[rows] for name in ("starting_time", "finish_time"))
    most: Integers = np.zeros(len(result.jobs), np.int64)
    order = np.argsort(hosts, kind="stable")
    bounds = np.flatnonzero(np.diff(hosts[order], prepend=-1, append=-1))
    for first, last in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
        there = order[first:last]
        begins, ends = start[there], finish[there]
        dates = np.concatenate([ends, begins])
        changes = np.repeat([-1, 1], len(there))
        # Ends come first: the sort is stable.
        sorted_dates = np.argsort(dates, kind="stable")
        present = np.cumsum(changes[sorted_dates])
        place = np.empty_like(sorted_dates)
        place[sorted_dates] = np.arange(len(sorted_dates))
        for index, row in enumerate(rows[there].tolist()):
            since, until = place[len(there) + index], place[index]
            highest = int(present[since:until].max()) if until > since else 1
            most[row] = max(most[row], highest)
    return most
