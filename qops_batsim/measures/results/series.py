"""Step functions of time: busy hosts, waiting jobs, waiting processors.

A step function changes only at events. What happens at one date is one change:
a job that starts at the date of its submission is never in the queue.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from qops_batsim.core.hostset import HostSet
from qops_batsim.measures.results.occupancy import Occupancy, occupancy
from qops_batsim.measures.results.result_tables import Booleans, Floats, Integers, real_ends
from qops_batsim.measures.results.run_result import RunResult


@dataclass(frozen=True)
class StepSeries:
    """A right-continuous step function of time, 0 before its first date.

    ``dates`` (seconds) ascend strictly; ``values[i]`` holds from ``dates[i]`` (included) to
    ``dates[i + 1]`` (excluded), the last one for ever. Both have shape (n,).
    """

    dates: Floats
    values: Floats

    def at(self, dates: Floats) -> Floats:
        """Return the value at each date; O(log n) each."""
        index = np.searchsorted(self.dates, dates, side="right")
        return np.concatenate([[0.0], self.values])[index]

    def primitive(self, dates: Floats) -> Floats:
        """Return the integral from the first step up to each date (value × seconds)."""
        if not len(self.dates):
            return np.zeros(len(dates))
        areas = np.concatenate([[0.0], np.cumsum(np.diff(self.dates) * self.values[:-1])])
        index = np.maximum(np.searchsorted(self.dates, dates, side="right") - 1, 0)
        since = np.maximum(dates - self.dates[index], 0.0)
        return areas[index] + since * self.values[index]

    def integral(self, begin: float, end: float) -> float:
        """Return the integral between two dates (value × seconds)."""
        first, last = self.primitive(np.array([begin, end], dtype=np.float64))
        return float(last - first)

    def maximum(self, begin: float, end: float) -> float:
        """Return the maximum in ``[begin, end)``, or the value at ``begin`` if both dates are
        equal.
        """
        inside = (self.dates > begin) & (self.dates < end)
        start = float(self.at(np.array([begin]))[0])
        return max(start, float(self.values[inside].max(initial=start)))

    def means(self, edges: Floats) -> Floats:
        """Return the time-weighted mean of each interval between ascending ``edges``."""
        return np.diff(self.primitive(edges)) / np.diff(edges)


def step_series(begins: Floats, ends: Floats, weights: Floats) -> StepSeries:
    """Return a step function of time: the sum of the weights of the intervals ``[begin, end)`` that
    contain each date.

    O(n log n). Empty and reversed intervals count for nothing.
    """
    real = ends > begins
    begins = begins[real]
    ends = ends[real]
    weights = weights[real]
    return _summed(np.concatenate([begins, ends]), np.concatenate([weights, -weights]))


def _summed(dates: Floats, changes: Floats) -> StepSeries:
    """Return the step function that changes by ``changes`` at ``dates``; several changes may share
    a date.
    """
    order = np.argsort(dates, kind="stable")  # of dates that ascend in parts, it is fast
    dates = dates[order]
    changes = changes[order]
    del order
    np.cumsum(changes, out=changes)
    is_last = np.append(dates[1:] > dates[:-1], True)[: len(dates)]
    return StepSeries(dates[is_last], changes[is_last].astype(np.float64, copy=False))


def busy_hosts(result: RunResult) -> StepSeries:
    """Return the number of hosts that run at least one job, over time.

    Where jobs share a host, the host counts once. O(n log n), and the hosts of the jobs.
    """
    return _busy(result.occupancy, *result.columns("starting_time", "finish_time"))


def busy_hosts_between(result: RunResult, slack: float, dates: Floats) -> tuple[Floats, Floats]:
    """Return the least and the greatest number of hosts that can have been busy at each of the
    ascending ``dates``, as dates are only known to ``slack`` seconds.

    Starts and ends may be so much earlier or later (seconds), and jobs that are written to have
    run for next to no time may have run for none.
    """
    start, finish = result.columns("starting_time", "finish_time")

    def busy(begins: Floats, ends: Floats) -> Floats:
        # Only jobs that run at one of the dates count.
        place = np.searchsorted(dates, begins)
        rows = np.flatnonzero(np.append(dates, np.inf)[place] < ends)
        return _busy(occupancy(result.allocations, begins, ends, rows), begins, ends).at(dates)

    least = busy(start + slack, real_ends(start, finish) - slack)
    return least, busy(start - slack, finish + slack)


def _busy(hosts: Occupancy, start: Floats, finish: Floats) -> StepSeries:
    opened = hosts.opened
    closed = hosts.closed
    begins = hosts.order[opened[hosts.order] > 0]
    ends = np.flatnonzero(closed)
    changes = np.concatenate([opened[begins], -closed[ends]])
    return _summed(np.concatenate([start[begins], finish[ends]]), changes)


def computing_periods(result: RunResult) -> tuple[Floats, Floats, Floats]:
    """Return every period in which a host computes without a break, outages cut out, as three
    arrays: host, begin and end (seconds).

    A job that ran when its hosts went away goes on there, but Batsim does not count them
    as computing.
    """
    stays = result.stays()
    stays = stays.where(stays.finish > stays.start)
    _, busy, start, finish = stays.where(np.lexsort((stays.start, stays.hosts)))
    latest = np.take(finish, running_latest(busy, finish))
    opens: Booleans = np.ones(len(busy), dtype=np.bool_)
    opens[1:] = (busy[1:] != busy[:-1]) | (start[1:] > latest[:-1])
    closes = np.append(opens[1:], True)[: len(busy)]
    hosts = busy[opens].astype(np.float64)
    begins = start[opens]
    ends = latest[closes]

    for outage in result.outages:
        away = np.isin(hosts, list(HostSet.parse(outage.hosts)))
        away &= (begins < outage.until) & (ends > outage.since)
        host = hosts[away]
        begin = begins[away]
        end = ends[away]
        hosts = np.concatenate([hosts[~away], host, host])
        begins = np.concatenate([begins[~away], begin, np.maximum(begin, outage.until)])
        ends = np.concatenate([ends[~away], np.minimum(end, outage.since), end])
        real = ends > begins
        hosts = hosts[real]
        begins = begins[real]
        ends = ends[real]

    return hosts, begins, ends


def running_latest(hosts: Integers, finish: Floats) -> Integers:
    """Return, for each stay of a job on a host, the index of the stay on this host that ends last
    so far.

    ``hosts`` ascend.
    """
    # Ranks instead of dates keep the segmented maximum exact: (host, rank) pairs
    # are integers, and a new host always beats every earlier one.
    size = len(finish)
    order = np.argsort(finish, kind="stable")
    rank = np.empty(size, dtype=np.int64)
    rank[order] = np.arange(size)
    best = np.maximum.accumulate(hosts * size + rank) if size else rank
    return order[best % size] if size else order


def queue_length(result: RunResult) -> StepSeries:
    """Return the number of waiting jobs as a step function of time.

    A job waits from its submission (a date before 0 counts as 0, when Batsim
    submits it) to its start, and from the end of a run that is killed to the start of
    the next one. Rejected jobs do not count: nothing tells when they were rejected.
    """
    ran = result.executed
    begins = waits_from(result)[ran]
    return step_series(begins, result.column("starting_time")[ran], np.ones(ran.sum()))


def waits_from(result: RunResult) -> Floats:
    """Return the date from which each run of a job waits (seconds): its submission, or the end of
    the run before.
    """
    begins = np.maximum(result.column("submission_time"), 0.0)
    if result.earlier_runs:
        later = list(result.earlier_runs)
        earlier = list(result.earlier_runs.values())
        begins[later] = result.column("finish_time")[earlier]
    return begins


def window(result: RunResult) -> tuple[float, float]:
    """Return the run's first submission and last completion (seconds), the window of time over
    which metrics are computed.

    The first submission is that of any job, rejected ones included, and not
    before 0; without an executed job, the window is empty.
    """
    submitted = np.maximum(result.column("submission_time"), 0.0)
    begin = float(submitted.min(initial=np.inf))
    if not np.isfinite(begin):
        return 0.0, 0.0
    finish = result.column("finish_time")[result.executed]
    return begin, max(begin, float(finish.max(initial=begin)))
