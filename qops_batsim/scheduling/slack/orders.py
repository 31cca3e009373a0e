"""The waiting jobs of a search, and the orders in which they are placed again.

Talby and Feitelson 1999, section 4.6. The jobs are rows of a record array, by planned
start: a search looks at all of them for every position of the new job, and a kernel that
takes one array is called faster than one that takes ten.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from qops_batsim.kernels import kernel
from qops_batsim.scheduling.arrays import Ints
from qops_batsim.scheduling.profile import end_of

AST, AAT, DU, DC, DP, EXHAUSTIVE = range(6)

HEURISTICS = {
    "ascending_scheduled_time": AST,
    "ascending_arrival_time": AAT,
    "descending_utilization": DU,
    "descending_cost": DC,
    "descending_priority": DP,
    "exhaustive": EXHAUSTIVE,
}
"""Orders in which delayed jobs are placed again; see :func:`key_of`."""

WAITING = np.dtype(
    (
        np.record,
        np.dtype(
            [
                ("slot", np.int64),
                ("processors", np.int64),
                ("estimate", np.float64),
                ("start", np.float64),  # as planned so far (seconds)
                ("latest", np.float64),  # latest start that its slack allows (seconds)
                ("over_quota", np.bool_),
                ("rate", np.float64),  # what moving it by a second costs
                ("least", np.float64),  # what it can gain at most, at most 0
                ("key", np.float64),  # what the order heuristic compares, ascending
                ("trial", np.float64),  # start in the schedule that is tried (seconds)
                ("best", np.float64),  # start in the cheapest schedule so far (seconds)
            ],
            align=True,
        ),
    )
)
"""A waiting job in a search."""

Rows = npt.NDArray[np.void]


@kernel
def key_of(heuristic: int, index: int, priority: float, row: Any) -> float:
    """Return what the order heuristic compares, ascending."""
    if heuristic == AAT:
        return float(row.slot)
    if heuristic == DU:
        return float(-row.processors * row.estimate)
    if heuristic == DC:
        if row.over_quota:
            return 0.0
        cannot = end_of(row.start, 1.0) > row.latest
        return -np.inf if cannot else float(-row.rate)
    if heuristic == DP:
        return -priority
    return float(index)


@kernel
def sort_line(line: Ints, rows: Rows) -> None:
    """Write the places of the waiting jobs in order of their keys, ties by arrival.

    O(waiting²), and linear if they are nearly in order.
    """
    for index in range(len(rows)):
        place = index
        key, slot = rows[index].key, rows[index].slot
        while place > 0 and (
            rows[line[place - 1]].key > key
            or (rows[line[place - 1]].key == key and rows[line[place - 1]].slot > slot)
        ):
            line[place] = line[place - 1]
            place -= 1
        line[place] = index


@kernel
def next_permutation(line: Ints, first: int, end: int) -> bool:
    """Turn ``line[first:end]`` into the next permutation; tell whether there is one."""
    place = end - 2
    while place >= first and line[place] >= line[place + 1]:
        place -= 1
    if place < first:
        return False
    other = end - 1
    while line[other] <= line[place]:
        other -= 1
    line[place], line[other] = line[other], line[place]
    low, high = place + 1, end - 1
    while low < high:
        line[low], line[high] = line[high], line[low]
        low, high = low + 1, high - 1
    return True
