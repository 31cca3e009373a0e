"""Which hosts an application may have at a date, and which of them are the best.

The arrays are those of :mod:`~qops_batsim.scheduling.aroma.recurrence`; ``ends`` are
the predicted ends (s). Dates closer than the tolerance of planning are equal.
"""

from __future__ import annotations

import numpy as np

from qops_batsim.scheduling.aroma.recurrence import Flags, Floats, Ints
from qops_batsim.scheduling.kernels import kernel
from qops_batsim.timing import PLAN_TOLERANCE


@kernel
def survey(
    date: float,
    slots: Ints,
    starts: Floats,
    ends: Floats,
    exclusive: Flags,
    memory: Floats,
    firsts: Ints,
    counts: Ints,
    hosts: Ints,
    load: Ints,
    next_exclusive: Floats,
    releases: Floats,
    used: Floats,
) -> None:
    """Note what is on each host at a date and what comes after.

    Out, by host: ``load`` (applications there), ``next_exclusive`` (when the next
    application that wants to be alone starts there; the date itself where one is),
    ``releases`` (when the last application ends, at least the date) and ``used``
    memory (bytes).
    O(hosts + entries).
    """
    load[:] = 0
    next_exclusive[:] = np.inf
    releases[:] = date
    used[:] = 0.0
    for slot in slots:
        if ends[slot] <= date + PLAN_TOLERANCE:
            continue
        present = starts[slot] <= date + PLAN_TOLERANCE
        for entry in range(firsts[slot], firsts[slot] + counts[slot]):
            host = hosts[entry]
            releases[host] = max(releases[host], ends[slot])
            if present:
                load[host] += 1
                used[host] += memory[slot]
                if exclusive[slot]:
                    next_exclusive[host] = date
            elif exclusive[slot]:
                next_exclusive[host] = min(next_exclusive[host], starts[slot])


@kernel
def note_risks(
    date: float,
    needs: Floats,
    deadline: float,
    processors: Ints,
    load: Ints,
    next_exclusive: Floats,
    slots: Ints,
    starts: Floats,
    ends: Floats,
    deadlines: Floats,
    firsts: Ints,
    counts: Ints,
    hosts: Ints,
    risky: Flags,
) -> None:
    """Note the hosts where one more task from a date on may break a constraint.

    A rough upper estimate: the task meets all that is there now as long as it runs;
    each of these loses as much as the task needs, or in proportion to the share that
    it loses. Whatever ends later than that allows is a risk. O(hosts + entries).
    """
    for host in range(len(risky)):
        crowd = max(1.0, (load[host] + 1) / processors[host])
        end = date + needs[host] * crowd
        risky[host] = end > min(deadline, next_exclusive[host]) + PLAN_TOLERANCE
    for slot in slots:
        if ends[slot] <= date + PLAN_TOLERANCE:
            continue
        latest = deadlines[slot]
        for entry in range(firsts[slot], firsts[slot] + counts[slot]):
            latest = min(latest, max(next_exclusive[hosts[entry]], date))
        if latest == np.inf:
            continue
        slack = latest - ends[slot]
        lasting = ends[slot] - max(starts[slot], date)
        for entry in range(firsts[slot], firsts[slot] + counts[slot]):
            host = hosts[entry]
            crowd = max(load[host], 1)
            if crowd < processors[host]:
                continue
            loss = min(needs[host], lasting / crowd)
            if loss > slack:
                risky[host] = True


@kernel
def release_after(
    date: float, needs: Floats, load: Ints, releases: Floats, processors: Ints, after: Floats
) -> None:
    """Estimate when each host would be released if it got one more task.

    A host whose processors are all busy works on until what it has and the task are
    done; exact for one processor. O(hosts).
    """
    for host in range(len(needs)):
        if load[host] < processors[host]:
            after[host] = max(releases[host], date + needs[host])
        else:
            after[host] = releases[host] + needs[host] / processors[host]


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
def first_alone(
    dates: Floats,
    latest_end: float,
    wanted: int,
    eligible: Flags,
    needs: Floats,
    slots: Ints,
    starts: Floats,
    ends: Floats,
    firsts: Ints,
    counts: Ints,
    hosts: Ints,
    gaps: Floats,
) -> tuple[int, float]:
    """Find the first date at which enough hosts are free for long enough.

    All tasks take as long as the slowest host does, so hosts are tried by their speed:
    those that need no longer than a certain time, as short as possible.

    Parameters
    ----------
    dates
        Candidates (s), ascending.
    latest_end
        Latest end (s).
    wanted
        Number of hosts.
    needs
        Seconds that a task needs alone, by host.
    gaps
        Out: for how long each host is free from that date on (s), -1 where it is not.

    Returns
    -------
    tuple
        Index of the date and seconds that the application takes; -1 and 0 if there
        is none. O(dates × (hosts + entries)) for equal hosts.
    """
    lengths = np.unique(needs[eligible])
    for index in range(len(dates)):
        date = dates[index]
        if len(lengths) == 0 or date + lengths[0] > latest_end + PLAN_TOLERANCE:
            break
        for host in range(len(gaps)):
            gaps[host] = np.inf if eligible[host] else -1.0
        for slot in slots:
            if ends[slot] <= date + PLAN_TOLERANCE:
                continue
            gap = starts[slot] - date
            if gap <= PLAN_TOLERANCE:
                gap = -1.0
            for entry in range(firsts[slot], firsts[slot] + counts[slot]):
                host = hosts[entry]
                gaps[host] = min(gaps[host], gap)
        for length in lengths:
            if date + length > latest_end + PLAN_TOLERANCE:
                break
            found = 0
            for host in range(len(gaps)):
                if needs[host] <= length and gaps[host] >= length - PLAN_TOLERANCE:
                    found += 1
            if found >= wanted:
                return index, length
    return -1, 0.0
