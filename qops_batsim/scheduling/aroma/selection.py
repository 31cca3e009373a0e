"""Which hosts an application may have at a date, and which of them are best (section 3.2).

Dates closer than the tolerance of planning are equal.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from qops_batsim.kernels import kernel, lean_kernel
from qops_batsim.scheduling.aroma.recurrence import Flags, Floats, Ints, Rows
from qops_batsim.timing import PLAN_TOLERANCE


class Request(NamedTuple):
    """What an application asks for.

    Attributes
    ----------
    slot
        Its slot among the mapped applications.
    memory, sent
        Of each task (bytes).
    deadline
        Latest end (s).
    walltime
        How long it may run, of an exclusive one infinite: sharing does not stretch it (s).
    """

    slot: int
    tasks: int
    memory: float
    sent: float
    deadline: float
    walltime: float


FOUND = np.dtype(
    [
        ("load", np.int64),  # X_m at the date
        ("memory", np.float64),  # M_u(m) at the date (bytes)
        # When the next application that has to be alone starts (s); the date where one is.
        ("next_exclusive", np.float64),
        ("release", np.float64),  # when the last application ends, at least the date (s)
    ]
)
"""What is on a host at a date and what comes after."""


@kernel
def survey(date: float, slots: Ints, mapped: Rows, tasks: Rows, host_count: int) -> Rows:
    """Return what is on each host at a date and what comes after. O(hosts + entries)."""
    found = np.zeros(host_count, FOUND)
    for host in range(host_count):
        found[host].next_exclusive = np.inf
        found[host].release = date
    for slot in slots:
        row = mapped[slot]
        if row.end <= date + PLAN_TOLERANCE:
            continue
        present = row.start <= date + PLAN_TOLERANCE
        for entry in range(row.first, row.first + row.count):
            host = found[tasks[entry].host]
            host.release = max(host.release, row.end)
            if present:
                host.load += 1
                host.memory += row.memory
                if row.exclusive:
                    host.next_exclusive = date
            elif row.exclusive:
                host.next_exclusive = min(host.next_exclusive, row.start)
    return found


@kernel
def risky_hosts(
    date: float,
    needs: Floats,
    latest_end: float,
    slots: Ints,
    mapped: Rows,
    tasks: Rows,
    hosts: Rows,
    found: Rows,
) -> Flags:
    """Return the hosts where one more task from a date on may break a constraint.

    A rough upper estimate: the task meets all that is there now as long as it runs;
    each of these loses as much as the task needs, or in proportion to the share that
    it loses. What ends later than that allows is a risk. O(hosts + entries).
    """
    risky = np.empty(len(needs), np.bool_)
    for host in range(len(risky)):
        crowd = max(1.0, (found[host].load + 1) / hosts[host].processors)
        end = date + needs[host] * crowd
        risky[host] = end > min(latest_end, found[host].next_exclusive) + PLAN_TOLERANCE
    for slot in slots:
        row = mapped[slot]
        if row.end <= date + PLAN_TOLERANCE:
            continue
        latest = row.deadline
        for entry in range(row.first, row.first + row.count):
            latest = min(latest, max(found[tasks[entry].host].next_exclusive, date))
        if latest == np.inf:
            continue
        slack = latest - row.end
        lasting = row.end - max(row.start, date)
        for entry in range(row.first, row.first + row.count):
            host = tasks[entry].host
            crowd = max(found[host].load, 1)
            if crowd >= hosts[host].processors and min(needs[host], lasting / crowd) > slack:
                risky[host] = True
    return risky


@kernel
def release_after(date: float, needs: Floats, hosts: Rows, found: Rows) -> Floats:
    """Return when each host would be released if it got one more task, t_f(m, s) of (1).

    A host whose processors are all busy works on until what it has and the task are
    done; exact for one processor. O(hosts).
    """
    after = np.empty(len(needs))
    for host in range(len(needs)):
        if found[host].load < hosts[host].processors:
            after[host] = max(found[host].release, date + needs[host])
        else:
            after[host] = found[host].release + needs[host] / hosts[host].processors
    return after


@kernel
def best_hosts(
    now: float,
    date: float,
    request: Request,
    eligible: Flags,
    needs: Floats,
    hosts: Rows,
    bandwidths: Floats,
    memory_weight: float,
    found: Rows,
) -> Ints:
    """Return the hosts that are best by criterion (1), ascending."""
    after = release_after(date, needs, hosts, found)
    weights = 1.0 + (found["memory"] + request.memory) * memory_weight / hosts["memory"]
    wanted, sent = request.tasks, request.sent
    chosen = choose(wanted, now, eligible, after, weights, sent, hosts["group"], bandwidths)
    return np.sort(chosen)


@kernel
def choose(
    wanted: int,
    now: float,
    eligible: Flags,
    after: Floats,
    weights: Floats,
    sent: float,
    groups: Ints,
    bandwidths: Floats,
) -> Ints:
    """Choose hosts, the best first; fewer than wanted if there are not enough.

    The best host is the one with the least criterion (1): release date, counted from
    ``now`` (t_0), times ``weights`` (1 + M_u · M_f / M_t); ties go to the lowest
    host. Tasks that communicate are mapped one after the other, and the time for that
    over the worst bandwidth to the hosts chosen so far adds to the release date.
    O(hosts log hosts), with communication O(wanted × hosts).
    """
    chosen = np.empty(wanted, np.int64)
    found = 0
    if sent <= 0.0 or wanted < 2:
        order = np.argsort((after - now) * weights, kind="mergesort")
        for host in order:
            if found == wanted:
                break
            if eligible[host]:
                chosen[found] = host
                found += 1
        return chosen[:found]
    slowest = np.full(len(bandwidths), np.inf)
    worst = np.inf
    free = eligible.copy()
    while found < wanted:
        best = -1
        least = np.inf
        for host in range(len(free)):
            if free[host]:
                bandwidth = min(worst, slowest[groups[host]])
                key = (after[host] + sent / bandwidth - now) * weights[host]
                if key < least or best < 0:
                    best = host
                    least = key
        if best < 0:
            break
        worst = min(worst, slowest[groups[best]])
        free[best] = False
        chosen[found] = best
        found += 1
        for group in range(len(slowest)):
            slowest[group] = min(slowest[group], bandwidths[groups[best], group])
    return chosen[:found]


@kernel
def network_seconds(chosen: Ints, sent: float, groups: Ints, bandwidths: Floats) -> float:
    """Return D_r / min B for tasks on these hosts (s). O(tasks + groups²)."""
    if sent <= 0.0 or len(chosen) < 2:
        return 0.0
    tasks = np.zeros(len(bandwidths), np.int64)
    for host in chosen:
        tasks[groups[host]] += 1
    slowest = np.inf
    for one in range(len(bandwidths)):
        for other in range(one, len(bandwidths)):
            # Two different hosts are needed, also of one group.
            if tasks[one] and tasks[other] and (one != other or tasks[one] > 1):
                slowest = min(slowest, bandwidths[one, other])
    return sent / slowest


@kernel
def first_gap(
    dates: Floats,
    request: Request,
    eligible: Flags,
    needs: Floats,
    slots: Ints,
    mapped: Rows,
    tasks: Rows,
) -> tuple[int, Flags]:
    """Find the first date at which enough hosts are free for long enough.

    All tasks take as long as the slowest host does, so hosts are tried by their speed:
    those that need no longer than a certain time, as short as possible.

    Returns
    -------
    tuple
        Place of the date in ``dates`` (ascending), -1 if there is none, and the hosts
        that are free. O(dates × (hosts + entries)) for equal hosts.
    """
    latest_end = request.deadline + PLAN_TOLERANCE
    lengths = np.unique(needs[eligible])
    gaps = np.empty(len(needs))
    for index in range(len(dates)):
        date = dates[index]
        if len(lengths) == 0 or date + lengths[0] > latest_end:
            break
        _note_gaps(date, eligible, slots, mapped, tasks, gaps)
        for length in lengths:
            if date + length > latest_end:
                break
            found = 0
            for host in range(len(gaps)):
                if needs[host] <= length and gaps[host] >= length - PLAN_TOLERANCE:
                    found += 1
            if found >= request.tasks:
                return index, (needs <= length) & (gaps >= length - PLAN_TOLERANCE)
    return -1, eligible


@lean_kernel
def _note_gaps(
    date: float, eligible: Flags, slots: Ints, mapped: Rows, tasks: Rows, gaps: Floats
) -> None:
    """Write for how long each host is free from a date on (s), -1 where it is not."""
    for host in range(len(gaps)):
        gaps[host] = np.inf if eligible[host] else -1.0
    for slot in slots:
        row = mapped[slot]
        if row.end <= date + PLAN_TOLERANCE:
            continue
        gap = row.start - date
        if gap <= PLAN_TOLERANCE:
            gap = -1.0
        for entry in range(row.first, row.first + row.count):
            host = tasks[entry].host
            gaps[host] = min(gaps[host], gap)
