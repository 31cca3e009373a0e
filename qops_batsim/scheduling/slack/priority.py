"""Priority and slack of a job (Talby and Feitelson 1999, sections 2.3 and 4.3).

Priorities are numbers from 0 to 1; that of a job over its quota is minus infinity,
which gives it endless slack.
"""

from __future__ import annotations

import math

from msgspec import UNSET

from qops_batsim.jobs import Job

FIRST_SCHEDULER_PRIORITY = 0.5
"""Scheduler priority before a job has a start: it is meant to wait the average time."""


def priority_of(job: Job, scheduler_priority: float) -> float:
    """Return a job's priority: the mean of the user's, the site's and the scheduler's.

    Parameters
    ----------
    job
        ``qos.user_priority`` and ``qos.political_priority`` count as 0 unless given;
        a political priority of None (over quota) as minus infinity.
    scheduler_priority
        From 0 to 1; see :func:`scheduler_priority`.

    Returns
    -------
    float
        From 0 to 1, or minus infinity.
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
    """Return the scheduler's priority of a job that has its first start.

    Parameters
    ----------
    wait
        Time until that start (seconds, possibly infinite).
    average_wait
        Average wait time of the system (seconds, above 0).

    Returns
    -------
    float
        0 for a job that starts at once, 1/2 for one that waits as long as the
        average, 1 from twice that on.
    """
    return min(wait / (2.0 * average_wait), 1.0)


def first_slack(priority: float, slack_factor: float, average_wait: float) -> float:
    """Return a job's initial slack (seconds): infinite over quota.

    Parameters
    ----------
    priority
        From 0 to 1, or minus infinity.
    slack_factor
        The average wait times granted to a job of priority 0.
    average_wait
        Average wait time of the system (seconds).
    """
    if priority == -math.inf:
        return math.inf
    return max(1.0 - priority, 0.0) * slack_factor * average_wait
