"""Jobs that share hosts."""

from __future__ import annotations

import numpy as np

from qops_batsim.analysis.results.allocations import Stays
from qops_batsim.analysis.results.rounding import real_ends
from qops_batsim.analysis.results.run import RunResult
from qops_batsim.analysis.results.tables import Integers


def stays_by_host(result: RunResult, hosts: Integers | None = None) -> Stays:
    """Return stays by host, start and finish; those for no time end at once.

    On all hosts, or on some of them.
    """
    stays = result.stays(hosts)
    stays = stays._replace(finish=real_ends(stays.start, stays.finish))
    return stays.where(np.lexsort((stays.finish, stays.start, stays.hosts)))


def most_at_once(result: RunResult) -> Integers:
    """Return the most jobs that any host of each job ran at a time while the job ran.

    1 for a job that was alone all the time, 0 for one that never ran. A job that
    starts when another one ends does not meet it. O(n log n) in the number of (job,
    host) pairs, plus the meetings.
    """
    stays = result.stays()
    most: Integers = np.zeros(len(result.executed), np.int64)
    for rows, _, begins, ends in stays.where(np.argsort(stays.hosts, kind="stable")).of_each_host():
        changes = np.repeat([-1, 1], len(rows))
        # Ends come first: the sort is stable.
        order = np.argsort(np.concatenate([ends, begins]), kind="stable")
        present = np.cumsum(changes[order])
        place = np.empty_like(order)
        place[order] = np.arange(len(order))
        for index, row in enumerate(rows.tolist()):
            since, until = place[len(rows) + index], place[index]
            highest = int(present[since:until].max()) if until > since else 1
            most[row] = max(most[row], highest)
    return most
