"""The end of a task (Pascal et al. 2004, section 3.2), for tasks that progress together.

The paper follows each host by itself: of X processes on U(m) processors each gets a
share min(1, U/X), and the next event is the start or the end of one of them. Batsim
executes all tasks of a job as one, at one rate. So here the events of all hosts are
followed together, and a job progresses at the least rate that one of its hosts
grants it as an equal share. What it leaves of the shares of its other hosts goes to
nobody. For jobs of one task, or on hosts with equal loads, that is the paper's
recurrence; otherwise ends are predicted too late rather than too early
(``docs/aroma.md`` has the proof).

Parameters that recur: ``slots`` lists the applications concerned; all other arrays
are indexed by slot, host, or entry. ``starts`` (s) are planned or, for those
``running``, real dates; ``left`` is the share of the work that is left, from 1 to 0.
The entries ``firsts[slot]`` to ``firsts[slot] + counts[slot] - 1`` name the ``hosts``
of an application and in ``needs`` the seconds that its task needs there alone.
``processors`` holds U(m) of each host.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from qops_batsim.scheduling.kernels import kernel
from qops_batsim.timing import PLAN_TOLERANCE

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]

KEPT = -1
"""What :func:`predict` blames when every constraint is kept."""

_WAITS, _RUNS, _ENDED = 0, 1, 2


@kernel
def granted_rate(
    slot: int,
    load: Ints,
    firsts: Ints,
    counts: Ints,
    hosts: Ints,
    needs: Floats,
    processors: Ints,
) -> float:
    """Return the rate (share of the work per second) that equal shares grant. O(tasks)."""
    rate = np.inf
    for entry in range(firsts[slot], firsts[slot] + counts[slot]):
        host = hosts[entry]
        share = 1.0
        if load[host] > processors[host]:
            share = processors[host] / load[host]
        rate = min(rate, share / needs[entry])
    return rate


@kernel
def running_rates(
    slots: Ints,
    rates: Floats,
    load: Ints,
    firsts: Ints,
    counts: Ints,
    hosts: Ints,
    needs: Floats,
    processors: Ints,
) -> None:
    """Write the present rate of the running applications ``slots`` and the hosts' loads.

    O(hosts + entries).
    """
    load[:] = 0
    for slot in slots:
        for entry in range(firsts[slot], firsts[slot] + counts[slot]):
            load[hosts[entry]] += 1
    for slot in slots:
        rates[slot] = granted_rate(slot, load, firsts, counts, hosts, needs, processors)


@kernel
def predict(
    now: float,
    slots: Ints,
    starts: Floats,
    left: Floats,
    running: Flags,
    exclusive: Flags,
    deadlines: Floats,
    firsts: Ints,
    counts: Ints,
    hosts: Ints,
    needs: Floats,
    processors: Ints,
    checked: bool,
    ends: Floats,
) -> tuple[int, int]:
    """Predict when each application ends.

    Parameters
    ----------
    now
        Date of the prediction, t_0 (s).
    exclusive
        Whether no other application may be on a host while this one is.
    deadlines
        Latest end of each application (s); infinite where nothing was promised.
    checked
        Whether to stop at the first constraint that is broken.
    ends
        Out: end by slot (s); incomplete when a constraint is broken.

    Returns
    -------
    tuple of int
        :data:`KEPT`, or the slot of an application whose constraint is broken, and
        the host where it is not alone (-1 when it misses its deadline).

    Notes
    -----
    O(events × (applications + entries of those whose rate changes)).
    """
    count = len(slots)
    state = np.zeros(count, np.int8)
    rest = np.empty(count)
    rate = np.zeros(count)
    since = np.empty(count)
    end = np.full(count, np.inf)
    load = np.zeros(len(processors), np.int64)
    alone = np.full(len(processors), -1)  # The exclusive application there.
    began = np.empty(count)
    waiting = 0
    entries = 0
    for index in range(count):
        slot = slots[index]
        rest[index] = left[slot]
        since[index] = now
        entries += counts[slot]
        if running[slot]:
            began[index] = -np.inf
        else:
            began[index] = max(starts[slot], now)
            waiting += 1
    # The applications on each host, and the waiting ones by their starts.
    first_on, users = _users(slots, firsts, counts, hosts, len(processors), entries)
    order = np.argsort(began, kind="mergesort")[count - waiting :]
    for index in range(count):
        if began[index] == -np.inf:
            _enter(index, slots[index], state, load, alone, exclusive, firsts, counts, hosts)
    for index in range(count):
        if state[index] == _RUNS:
            rate[index] = granted_rate(slots[index], load, firsts, counts, hosts, needs, processors)
            end[index] = _end_of(now, rest[index], rate[index])
    stamp = np.full(count, -1)
    event = 0
    next_waiting = 0
    while True:
        ending = -1
        first_end = np.inf
        for index in range(count):
            if end[index] < first_end:
                first_end = end[index]
                ending = index
        next_start = np.inf
        if next_waiting < waiting:
            next_start = began[order[next_waiting]]
        if ending < 0 and next_start == np.inf:
            break
        event += 1
        # An end within the tolerance after a start makes room for it.
        if ending >= 0 and first_end <= next_start + PLAN_TOLERANCE:
            index = ending
            date = first_end
            slot = slots[index]
            state[index] = _ENDED
            end[index] = np.inf
            ends[slot] = date
            if checked and date > deadlines[slot] + PLAN_TOLERANCE:
                return slot, -1
            change = -1
            for entry in range(firsts[slot], firsts[slot] + counts[slot]):
                host = hosts[entry]
                load[host] -= 1
                if alone[host] == slot:
                    alone[host] = -1
        else:
            index = order[next_waiting]
            next_waiting += 1
            date = next_start
            slot = slots[index]
            if checked:
                for entry in range(firsts[slot], firsts[slot] + counts[slot]):
                    host = hosts[entry]
                    if alone[host] >= 0:
                        return alone[host], host
                    if exclusive[slot] and load[host] > 0:
                        return slot, host
            _enter(index, slot, state, load, alone, exclusive, firsts, counts, hosts)
            since[index] = date
            rate[index] = granted_rate(slot, load, firsts, counts, hosts, needs, processors)
            end[index] = _end_of(date, rest[index], rate[index])
            stamp[index] = event
            change = 1
        for entry in range(firsts[slot], firsts[slot] + counts[slot]):
            host = hosts[entry]
            if load[host] < processors[host] or (load[host] == processors[host] and change > 0):
                continue  # Nobody there had to share before or has to now.
            for place in range(first_on[host], first_on[host + 1]):
                other = users[place]
                if state[other] != _RUNS or stamp[other] == event:
                    continue
                stamp[other] = event
                new = granted_rate(slots[other], load, firsts, counts, hosts, needs, processors)
                if new != rate[other]:
                    rest[other] = max(0.0, rest[other] - rate[other] * (date - since[other]))
                    since[other] = date
                    rate[other] = new
                    end[other] = _end_of(date, rest[other], new)
    for index in range(count):
        if state[index] == _RUNS:
            ends[slots[index]] = np.inf
            if checked and deadlines[slots[index]] < np.inf:
                return slots[index], -1
    return KEPT, -1


@kernel
def connected(
    slots: Ints,
    seed: int,
    exclusive: Flags,
    firsts: Ints,
    counts: Ints,
    hosts: Ints,
    host_count: int,
) -> Ints:
    """Return those of ``slots`` whose ends or constraints may depend on one of them.

    That is whoever shares a host with it, whoever shares one with those, and so on.
    An application that is alone on its hosts passes nothing on: its end is fixed.
    O(hosts + entries).
    """
    entries = 0
    for slot in slots:
        entries += counts[slot]
    first_on, users = _users(slots, firsts, counts, hosts, host_count, entries)
    reached = np.zeros(host_count, np.bool_)
    found = np.zeros(len(slots), np.bool_)
    todo = np.empty(host_count, np.int64)
    waiting = 0
    for index in range(len(slots)):
        if slots[index] == seed:
            found[index] = True
    for entry in range(firsts[seed], firsts[seed] + counts[seed]):
        reached[hosts[entry]] = True
        todo[waiting] = hosts[entry]
        waiting += 1
    while waiting:
        waiting -= 1
        host = todo[waiting]
        for place in range(first_on[host], first_on[host + 1]):
            index = users[place]
            if found[index]:
                continue
            found[index] = True
            slot = slots[index]
            if exclusive[slot]:
                continue
            for entry in range(firsts[slot], firsts[slot] + counts[slot]):
                if not reached[hosts[entry]]:
                    reached[hosts[entry]] = True
                    todo[waiting] = hosts[entry]
                    waiting += 1
    return slots[found]


@kernel
def _end_of(date: float, rest: float, rate: float) -> float:
    if rest <= 0.0:
        return date
    return date + rest / rate if rate > 0.0 else np.inf


@kernel
def _enter(
    index: int,
    slot: int,
    state: npt.NDArray[np.int8],
    load: Ints,
    alone: Ints,
    exclusive: Flags,
    firsts: Ints,
    counts: Ints,
    hosts: Ints,
) -> None:
    """Let an application use its hosts."""
    state[index] = _RUNS
    for entry in range(firsts[slot], firsts[slot] + counts[slot]):
        load[hosts[entry]] += 1
        if exclusive[slot]:
            alone[hosts[entry]] = slot


@kernel
def _users(
    slots: Ints, firsts: Ints, counts: Ints, hosts: Ints, host_count: int, entries: int
) -> tuple[Ints, Ints]:
    """Return the indices into ``slots`` by host: where each host's begin, and all of them."""
    first_on = np.zeros(host_count + 1, np.int64)
    for slot in slots:
        for entry in range(firsts[slot], firsts[slot] + counts[slot]):
            first_on[hosts[entry] + 1] += 1
    for host in range(host_count):
        first_on[host + 1] += first_on[host]
    place = first_on[:-1].copy()
    users = np.empty(entries, np.int64)
    for index in range(len(slots)):
        slot = slots[index]
        for entry in range(firsts[slot], firsts[slot] + counts[slot]):
            users[place[hosts[entry]]] = index
            place[hosts[entry]] += 1
    return first_on, users
