"""Who uses each host, in the prediction of ends."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from qops_batsim.kernels import kernel, lean_kernel
from qops_batsim.scheduling.profile import Ints

Rows = npt.NDArray[np.void]

USER = np.dtype([("index", np.int64), ("need", np.float64)])
"""A user of a host: its place among the applications, and how long its task there takes alone."""


@lean_kernel
def count_loads(slots: Ints, mapped: Rows, tasks: Rows, hosts: Rows) -> None:
    """Write how many of the applications use each host. O(hosts + tasks)."""
    for host in range(len(hosts)):
        hosts[host].load = 0
    for slot in slots:
        for entry in range(mapped[slot].first, mapped[slot].first + mapped[slot].count):
            hosts[tasks[entry].host].load += 1


@kernel
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


@kernel
def new_lists(slots: Ints, mapped: Rows, tasks: Rows, hosts: Rows) -> Rows:
    """Return room for lists of who uses each host, which ``hosts`` says are empty."""
    count_loads(slots, mapped, tasks, hosts)
    total = 0
    for host in range(len(hosts)):
        hosts[host].first_user = hosts[host].end_user = total
        total += hosts[host].load
    return np.empty(total, USER)


@lean_kernel
def add_user(index: int, task: Any, hosts: Rows, users: Rows) -> None:
    """Add an application to the users of the host of one of its tasks."""
    user = users[hosts[task.host].end_user]
    user.index, user.need = index, task.need
    hosts[task.host].end_user += 1


@lean_kernel
def strike_out(index: int, host: Any, users: Rows) -> None:
    """Take an application out of the users of a host."""
    place = host.first_user
    while users[place].index != index:
        place += 1
    host.end_user -= 1
    users[place].index = users[host.end_user].index
    users[place].need = users[host.end_user].need
