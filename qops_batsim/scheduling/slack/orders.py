"""The orders in which delayed jobs are placed again (Talby and Feitelson 1999, section 4.6)."""

from __future__ import annotations

import numpy as np

from qops_batsim.scheduling.kernels import kernel
from qops_batsim.scheduling.profile import Floats, Ints
from qops_batsim.timing import PLAN_TOLERANCE

AST, AAT, DU, DC, DP, EXHAUSTIVE = 0, 1, 2, 3, 4, 5
"""Orders in which delayed jobs are placed again; see :func:`keys_of`."""


@kernel
def keys_of(
    heuristic: int,
    waiting: Ints,
    count: int,
    starts: Floats,
    processors: Ints,
    estimates: Floats,
    priorities: Floats,
    latest: Floats,
    rates: Floats,
    keys: Floats,
) -> None:
    """Write what the order heuristic compares, ascending, for each waiting job."""
    for index in range(count):
        slot = waiting[index]
        if heuristic == AAT:
            keys[index] = slot
        elif heuristic == DU:
            keys[index] = -processors[slot] * estimates[slot]
        elif heuristic == DC:
            cannot = starts[slot] + 1.0 > latest[slot] + PLAN_TOLERANCE
            keys[index] = -np.inf if cannot else -rates[index]
            if priorities[slot] == -np.inf:
                keys[index] = 0.0
        elif heuristic == DP:
            keys[index] = -priorities[slot]
        else:
            keys[index] = index


@kernel
def sort_line(line: Ints, count: int, keys: Floats, waiting: Ints) -> None:
    """Write the places of the waiting jobs in order of their keys, ties by arrival.

    O(waiting²), and linear if they are nearly in order.
    """
    for index in range(count):
        place = index
        key, slot = keys[index], waiting[index]
        while place > 0 and (
            keys[line[place - 1]] > key
            or (keys[line[place - 1]] == key and waiting[line[place - 1]] > slot)
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
