"""The end of a task (Pascal et al. 2004, section 3.2), for tasks that progress together.

The paper follows each host by itself: of X processes on U(m) processors each gets a
share min(1, U/X), and the next event is the start or the end of one of them. Batsim
executes all tasks of a job as one, at one rate. So here the events of all hosts are
followed together, and a job progresses at the least rate that one of its hosts
grants it as an equal share. What it leaves of the shares of its other hosts is lost.
For jobs of one task, or on hosts with equal loads, that is the paper's recurrence;
otherwise ends are predicted too late rather than too early (``docs/aroma.md`` has
the proof).

Applications, their tasks and hosts are rows of record arrays, which kernels read faster
than named tuples of arrays. Parameters that recur: ``now`` is t_0, the date of the
prediction (s); ``slots`` lists the rows of ``mapped`` concerned; the tasks of an
application are the rows ``first`` to ``first + count - 1`` of ``tasks``.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from qops_batsim.kernels import kernel
from qops_batsim.scheduling.arrays import Floats, Ints
from qops_batsim.timing import PLAN_TOLERANCE

Rows = npt.NDArray[np.void]

KEPT = -1
"""Blamed by :func:`predict` when every constraint is kept: nobody."""

APPLICATION = np.dtype(
    (
        np.record,
        np.dtype(
            [
                ("start", np.float64),  # t_b: planned, or real once it runs (s)
                ("end", np.float64),  # t_f as last predicted (s)
                ("left", np.float64),  # share of the work that is left, from 1 to 0
                ("rate", np.float64),  # share of the work that is done in a second now
                ("deadline", np.float64),  # latest end that has to be kept (s); infinite without
                ("ordered", np.float64),  # when the engine was told to start it (s); else infinite
                ("memory", np.float64),  # of each task (bytes)
                ("first", np.int64),
                ("count", np.int64),
                ("running", np.bool_),
                ("exclusive", np.bool_),  # no other application may be on its hosts while it is
            ],
            align=True,
        ),
    )
)
"""A mapped application."""

TASK = np.dtype((np.record, np.dtype([("host", np.int64), ("need", np.float64)])))
"""A task: where it is, and t_c(m), the seconds that it needs there alone."""

HOST = np.dtype(
    (
        np.record,
        np.dtype(
            [
                ("processors", np.int64),  # U(m)
                ("memory", np.float64),  # M_t(m) (bytes)
                ("group", np.int64),  # hosts of a group are alike to the network
                ("load", np.int64),  # X_m, applications that run there
                ("alone", np.int64),  # slot of the exclusive application there, or -1
                ("first_user", np.int64),  # its users are listed from here ...
                ("end_user", np.int64),  # ... up to here
            ]
        ),
    )
)
"""A host."""

PROGRESS = np.dtype(
    (
        np.record,
        np.dtype(
            [
                ("left", np.float64),  # t_c^k as a share of the work, at the date since
                ("rate", np.float64),  # share of the work that is done in a second from then on
                ("since", np.float64),
                (
                    "end",
                    np.float64,
                ),  # when it ends if nothing changes (s); infinite if it does not run
                ("touched", np.int64),  # number of the event that last settled the rate
                ("runs", np.bool_),
            ],
            align=True,
        ),
    )
)
"""An application in an execution that is followed from event to event."""


USER = np.dtype((np.record, np.dtype([("index", np.int64), ("need", np.float64)])))
"""A user of a host: its place among the applications, and how long its task there takes alone."""


@kernel
def count_loads(slots: Ints, mapped: Rows, tasks: Rows, hosts: Rows) -> None:
    """Write how many of the applications use each host. O(hosts + tasks)."""
    for host in range(len(hosts)):
        hosts[host].load = 0
    for slot in slots:
        for entry in range(mapped[slot].first, mapped[slot].first + mapped[slot].count):
            hosts[tasks[entry].host].load += 1


@kernel(allocates=True)
def list_users(slots: Ints, mapped: Rows, tasks: Rows, hosts: Rows) -> Rows:
    """Return who uses each host, as :data:`USER`; ``hosts`` says where to look.

    O(hosts + entries).
    """
    users = new_lists(slots, mapped, tasks, hosts)
    for index in range(len(slots)):
        row = mapped[slots[index]]
        for entry in range(row.first, row.first + row.count):
            add_user(index, tasks[entry], hosts, users)
    return users


@kernel(allocates=True)
def new_lists(slots: Ints, mapped: Rows, tasks: Rows, hosts: Rows) -> Rows:
    """Return room for lists of who uses each host, which ``hosts`` says are empty."""
    count_loads(slots, mapped, tasks, hosts)
    total = 0
    for host in range(len(hosts)):
        hosts[host].first_user = hosts[host].end_user = total
        total += hosts[host].load
    return np.empty(total, USER)


@kernel
def add_user(index: int, task: Any, hosts: Rows, users: Rows) -> None:
    """Add an application to the users of the host of one of its tasks."""
    user = users[hosts[task.host].end_user]
    user.index, user.need = index, task.need
    hosts[task.host].end_user += 1


@kernel
def strike_out(index: int, host: Any, users: Rows) -> None:
    """Take an application out of the users of a host."""
    place = host.first_user
    while users[place].index != index:
        place += 1
    host.end_user -= 1
    users[place].index = users[host.end_user].index
    users[place].need = users[host.end_user].need


@kernel
def demanded_end(deadline: float, walltime: float, longest: float, start: float) -> float:
    """Return the latest end that has to be kept (s); infinite if there is none.

    That is the deadline, and the walltime if it is enough for the longest task alone:
    sharing is not to get an application killed.
    """
    if longest > walltime + PLAN_TOLERANCE:
        return deadline
    return min(deadline, start + walltime)


@kernel
def granted_rate(slot: int, mapped: Rows, tasks: Rows, hosts: Rows) -> float:
    """Return the rate (share of the work per second) that equal shares grant. O(tasks)."""
    rate = np.inf
    for entry in range(mapped[slot].first, mapped[slot].first + mapped[slot].count):
        host = hosts[tasks[entry].host]
        share = 1.0
        if host.load > host.processors:
            share = host.processors / host.load
        rate = min(rate, share / tasks[entry].need)
    return rate


@kernel
def settle_rates(slots: Ints, mapped: Rows, tasks: Rows, hosts: Rows) -> None:
    """Write the present rates of the running applications ``slots`` and the hosts' loads.

    O(hosts + entries).
    """
    count_loads(slots, mapped, tasks, hosts)
    for slot in slots:
        mapped[slot].rate = granted_rate(slot, mapped, tasks, hosts)


@kernel(allocates=True)
def predict(
    now: float, slots: Ints, mapped: Rows, tasks: Rows, hosts: Rows, checked: bool
) -> tuple[int, int, Floats]:
    """Predict when each application ends.

    With ``checked``, stop at the first constraint that is broken.

    Returns
    -------
    blamed
        :data:`KEPT`, or the slot of an application whose constraint is broken.
    where
        The host where it is not alone; -1 when it misses its deadline.
    ends
        By place in ``slots`` (s); incomplete when a constraint is broken.
        O(events × (applications + tasks of those whose rate changes)).
    """
    ends = np.empty(len(slots))
    for index in range(len(slots)):
        ends[index] = np.inf
    hosts = hosts.copy()
    users = new_lists(slots, mapped, tasks, hosts)
    progress, order, starts = _present(now, slots, mapped, tasks, hosts, users)
    begun = 0
    event = 0
    while True:
        ending = _next_to_end(progress)
        first_end = progress[ending].end if ending >= 0 else np.inf
        next_start = starts[order[begun]] if begun < len(order) else np.inf
        if ending < 0 and next_start == np.inf:
            break
        event += 1
        # An end within the tolerance after a start makes room for it.
        if ending >= 0 and first_end <= next_start + PLAN_TOLERANCE:
            date, index, come = first_end, ending, 0
            slot = slots[index]
            ends[index] = date
            if checked and date > mapped[slot].deadline + PLAN_TOLERANCE:
                return slot, -1, ends
            _leave(index, slot, mapped, tasks, hosts, users, progress)
        else:
            date, index, come = next_start, order[begun], 1
            begun += 1
            slot = slots[index]
            if checked:
                blamed, where = _disturbed(slot, mapped, tasks, hosts)
                if blamed != KEPT:
                    return blamed, where, ends
            _enter(index, slot, mapped, tasks, hosts, users, progress)
            progress[index].touched = event
            _go_on(date, index, granted_rate(slot, mapped, tasks, hosts), progress)
        _share_anew(date, event, slot, come, slots, mapped, tasks, hosts, users, progress)
    for index in range(len(slots)):
        if checked and progress[index].runs and mapped[slots[index]].deadline < np.inf:
            return slots[index], -1, ends
    return KEPT, -1, ends


@kernel(allocates=True)
def keeps(
    now: float, slots: Ints, slot: int, mapped: Rows, tasks: Rows, hosts: Rows
) -> tuple[int, int]:
    """Predict the ends that may depend on one application, to see whether it fits.

    If every constraint is kept, these ends are written to ``mapped``.

    Returns
    -------
    tuple of int
        ``blamed`` and ``where`` as :func:`predict`.
    """
    concerned = _connected(slots, slot, mapped, tasks, hosts.copy())
    blamed, where, ends = predict(now, concerned, mapped, tasks, hosts, True)
    if blamed == KEPT:
        for index in range(len(concerned)):
            mapped[concerned[index]].end = ends[index]
    return blamed, where


@kernel(allocates=True)
def _connected(slots: Ints, seed: int, mapped: Rows, tasks: Rows, hosts: Rows) -> Ints:
    """Return those of ``slots`` whose ends or constraints may depend on one of them.

    These are the applications that share a host with it, those that share one with
    these, and so on. An application that is alone on its hosts passes nothing on: its
    end is fixed. O(hosts + entries).
    """
    users = list_users(slots, mapped, tasks, hosts)
    reached = np.zeros(len(hosts), np.bool_)
    found = np.zeros(len(slots), np.bool_)
    todo = np.empty(len(hosts), np.int64)
    waiting = 0
    for index in range(len(slots)):
        if slots[index] == seed:
            found[index] = True
    for entry in range(mapped[seed].first, mapped[seed].first + mapped[seed].count):
        host = tasks[entry].host
        reached[host] = True
        todo[waiting] = host
        waiting += 1
    while waiting:
        waiting -= 1
        user_of = hosts[todo[waiting]]
        for place in range(user_of.first_user, user_of.end_user):
            index = users[place].index
            if found[index]:
                continue
            found[index] = True
            row = mapped[slots[index]]
            if row.exclusive:
                continue
            for entry in range(row.first, row.first + row.count):
                host = tasks[entry].host
                if not reached[host]:
                    reached[host] = True
                    todo[waiting] = host
                    waiting += 1
    concerned, count = np.empty(len(slots), np.int64), 0
    for index in range(len(slots)):
        if found[index]:
            concerned[count] = slots[index]
            count += 1
    return concerned[:count]


@kernel(allocates=True)
def _present(
    now: float, slots: Ints, mapped: Rows, tasks: Rows, hosts: Rows, users: Rows
) -> tuple[Rows, Ints, Floats]:
    """Return the progress at this date, what waits in the order of starts, and the starts."""
    progress = np.zeros(len(slots), PROGRESS)
    starts = np.empty(len(slots))
    for host in range(len(hosts)):
        hosts[host].load = 0
        hosts[host].alone = -1
    order, waiting = np.empty(len(slots), np.int64), 0
    for index in range(len(slots)):
        row = mapped[slots[index]]
        progress[index].left = row.left
        progress[index].since = now
        progress[index].end = np.inf
        progress[index].touched = -1
        starts[index] = max(row.start, now)
        if row.running:
            starts[index] = -np.inf
            _enter(index, slots[index], mapped, tasks, hosts, users, progress)
            continue
        place = waiting
        waiting += 1
        while place > 0 and starts[order[place - 1]] > starts[index]:
            order[place] = order[place - 1]
            place -= 1
        order[place] = index
    for index in range(len(slots)):
        if progress[index].runs:
            _go_on(now, index, granted_rate(slots[index], mapped, tasks, hosts), progress)
    return progress, order[:waiting], starts


@kernel
def _next_to_end(progress: Rows) -> int:
    """Return the place of the first end, or -1."""
    found = -1
    first = np.inf
    for index in range(len(progress)):
        if progress[index].end < first:
            first = progress[index].end
            found = index
    return found


@kernel
def _disturbed(slot: int, mapped: Rows, tasks: Rows, hosts: Rows) -> tuple[int, int]:
    """Return who would not be alone if an application started now, and where, or KEPT."""
    for entry in range(mapped[slot].first, mapped[slot].first + mapped[slot].count):
        host = tasks[entry].host
        if hosts[host].alone >= 0:
            return hosts[host].alone, host
        if mapped[slot].exclusive and hosts[host].load > 0:
            return slot, host
    return KEPT, -1


@kernel
def _enter(
    index: int, slot: int, mapped: Rows, tasks: Rows, hosts: Rows, users: Rows, progress: Rows
) -> None:
    """Let an application use its hosts."""
    progress[index].runs = True
    for entry in range(mapped[slot].first, mapped[slot].first + mapped[slot].count):
        host = tasks[entry].host
        hosts[host].load += 1
        add_user(index, tasks[entry], hosts, users)
        if mapped[slot].exclusive:
            hosts[host].alone = slot


@kernel
def _leave(
    index: int, slot: int, mapped: Rows, tasks: Rows, hosts: Rows, users: Rows, progress: Rows
) -> None:
    """Let an application free its hosts."""
    progress[index].runs = False
    progress[index].end = np.inf
    for entry in range(mapped[slot].first, mapped[slot].first + mapped[slot].count):
        host = tasks[entry].host
        hosts[host].load -= 1
        strike_out(index, hosts[host], users)
        if hosts[host].alone == slot:
            hosts[host].alone = -1


@kernel
def _go_on(date: float, index: int, rate: float, progress: Rows) -> None:
    """Let an application progress at this rate from a date on."""
    progress[index].since = date
    progress[index].rate = rate
    end = date
    if progress[index].left > 0.0:
        end = date + progress[index].left / rate if rate > 0.0 else np.inf
    progress[index].end = end


@kernel
def _share_anew(
    date: float,
    event: int,
    slot: int,
    come: int,
    slots: Ints,
    mapped: Rows,
    tasks: Rows,
    hosts: Rows,
    users: Rows,
    progress: Rows,
) -> None:
    """Settle the rates on the hosts of an application that has come (1) or left (0).

    Who comes can only slow others, to what is left at the common host. Who leaves matters to
    those that got their rate from a common host: only then all their hosts are looked at.
    """
    for entry in range(mapped[slot].first, mapped[slot].first + mapped[slot].count):
        host = hosts[tasks[entry].host]
        if host.load < host.processors + come:
            continue  # Nothing there had to share before, or has to now.
        share = host.processors / (host.load + 1 - come)
        for place in range(host.first_user, host.end_user):
            other = users[place].index
            if progress[other].touched == event:
                continue
            old, rate = progress[other].rate, share / users[place].need
            if come:
                rate = min(rate, old)
            elif rate > old:
                continue
            else:
                progress[other].touched = event
                rate = granted_rate(slots[other], mapped, tasks, hosts)
            if rate != old:
                done = old * (date - progress[other].since)
                progress[other].left = max(0.0, progress[other].left - done)
                _go_on(date, other, rate, progress)
