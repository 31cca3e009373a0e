"""Orders of EASY's waiting jobs by name, and its pass where an order changes with time.

In each, the job with the least key comes first, ties by arrival. With the time *w* that a job has
waited, its estimate *r* and its arrival *s* (all in seconds), and its processors *n*:

======  ==============================  ================================================
fcfs    0                               order of arrival
sjf     r                               shortest job first
ljf     -r                              longest job first
saf     r n                             smallest area first
lxf     -(w + r) / r                    largest expansion factor first
wfp3    -(w / r)³ n                     Tang, Lan, Desai, Buettner (2009)
unicef  -w / (log2(n) r)                the same; one processor counts as two, for log2(1) is 0
f1      log10(r) n + 870 log10(s)       Carastan-Santos, de Camargo (2017), as the next three
f2      √r n + 25,600 log10(s)
f3      r n + 6,860,000 log10(s)
f4      r √n + 530,000 log10(s)
======  ==============================  ================================================

Arrivals before 1 s count as at 1 s in the last four. A job that has waited for the starvation
bound comes before all that have not, in order of arrival. What the formulas were compared with is
told in docs/schedulers.md.

W. Tang, Z. Lan, N. Desai, D. Buettner, "Fault-aware, utility-based job scheduling on Blue Gene/P
systems", IEEE Cluster 2009. D. Carastan-Santos, R. Y. de Camargo, "Obtaining dynamic scheduling
policies with simulation and machine learning", SC 2017.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from qops_batsim.kernels import kernel
from qops_batsim.limits import MAX_SECONDS
from qops_batsim.scheduling.arrays import Floats, Ints, Queue
from qops_batsim.scheduling.easy_kernel import (
    NO_JOB,
    NO_WIDTH,
    USED,
    Line,
    Running,
    close_up,
    ending,
    insert_running,
    remove_running,
    shadow_of,
)
from qops_batsim.timing import PLAN_TOLERANCE

ORDERS = ("fcfs", "sjf", "ljf", "saf", "f1", "f2", "f3", "f4", "lxf", "wfp3", "unicef", "own")
"""Names of the orders by their codes; ``own`` is that of keys by slot."""

FCFS, SJF, LJF, SAF, F1, F2, F3, F4, LXF, WFP3, UNICEF, OWN = range(len(ORDERS))

CHANGING = (LXF, WFP3, UNICEF)
"""Orders that change as time passes."""


LOGARITHMS = np.array([1.0, 1.0, *(math.log2(processors) for processors in range(2, 1025))])
"""Base-2 logarithms of numbers of processors, at least 1, which take long to calculate."""


class LineOrder(NamedTuple):
    """Order in which jobs get a reservation, that in which others are started, and patience.

    The orders are codes; after so much patience (seconds) a job comes before those with more.
    """

    reserving: int
    backfilling: int
    patience: float


@kernel
def key_of(order: int, wait: float, arrival: float, processors: int, estimate: float) -> float:
    """Return the key of a job in an order; the least comes first."""
    if order == SJF:
        return estimate
    if order == LJF:
        return -min(estimate, MAX_SECONDS)
    if order == SAF:
        return estimate * processors
    if order == LXF:
        return -wait / estimate
    if order == WFP3:
        ratio = wait / estimate
        return -ratio * ratio * ratio * processors
    if order == UNICEF:
        if processors < len(LOGARITHMS):
            return float(-wait / (LOGARITHMS[processors] * estimate))
        return -wait / (math.log2(processors) * estimate)
    since = math.log10(max(arrival, 1.0))
    if order == F1:
        return math.log10(estimate) * processors + 870.0 * since
    if order == F2:
        return math.sqrt(estimate) * processors + 25600.0 * since
    if order == F3:
        return estimate * processors + 6860000.0 * since
    if order == F4:
        return estimate * math.sqrt(processors) + 530000.0 * since
    return 0.0


@kernel
def set_keys(
    order: int, arrivals: Floats, processors: Ints, estimates: Floats, keys: Floats
) -> None:
    """Write the keys of all jobs in an order that does not change."""
    for job in range(len(arrivals)):
        keys[job] = key_of(order, 0.0, arrivals[job], processors[job], estimates[job])


@kernel
def ordered_pass(
    now: float,
    grace: float,
    free: int,
    present: int,
    arrivals: Floats,
    processors: Ints,
    estimates: Floats,
    keys: Floats,
    order: LineOrder,
    line: Line,
    jobs: Running,
    gone: Queue,
    started: Ints,
) -> int:
    """Decide which jobs of a line, which is by arrival, start now: see :func:`easy_pass`.

    Of the jobs that may start, the first in order is chosen again and again: O(started × line).
    There is room in ``keys`` for those of an order that changes.
    """
    remove_running(jobs, gone.slots, gone.size[0])
    slots, used = line.slots, line.sizes[USED]
    nominal = free + ending(now, jobs, grace)
    narrowest = NO_WIDTH
    for place in range(used):
        narrowest = min(narrowest, processors[slots[place]])
        if narrowest <= nominal:
            break
    if narrowest > nominal:
        return 0
    count = extra = chosen = 0
    # With patience the first look ends at a job that has lost it, and each key is made anew.
    has_keys = order.reserving == OWN
    keeps_keys = has_keys or order.patience == np.inf
    latest, first, last = np.inf, used, len(started)
    is_reserved = False
    while True:
        code, best, place = order.reserving, np.inf, NO_JOB
        if is_reserved:
            code = order.backfilling
        for index in range(used):
            slot = slots[index]
            if slot < 0:
                continue
            needed = processors[slot]
            if is_reserved:
                if needed > nominal or (needed > extra and now + estimates[slot] > latest):
                    continue
            elif needed > max(nominal, present):
                continue
            wait = now - arrivals[slot]
            if code == FCFS or wait >= order.patience:
                key = -np.inf
            elif code == order.reserving and has_keys:
                key = keys[slot]
            else:
                key = key_of(code, wait, arrivals[slot], needed, estimates[slot])
                if not is_reserved:
                    keys[slot] = key
            if place == NO_JOB or key < best:
                best, place = key, index
            if key == -np.inf:
                break
        if place == NO_JOB:
            break
        has_keys = keeps_keys
        slot = slots[place]
        needed, end = processors[slot], now + estimates[slot]
        if needed > nominal:
            is_reserved = True
            shadow, extra = shadow_of(now, nominal, needed, jobs, grace)
            latest = shadow + max(grace, PLAN_TOLERANCE)
            continue
        nominal -= needed
        if end > latest:
            extra -= needed
        insert_running(jobs, slot, end, needed)
        if needed <= free:
            free -= needed
            started[count] = slot
            count += 1
            first = min(first, place)
            slots[place] = NO_JOB
        else:
            chosen += 1
            started[last - chosen] = slot
            slots[place] = NO_JOB - 1 - slot  # It keeps its place.
    if chosen:
        for place in range(used):
            if slots[place] < NO_JOB:
                slots[place] = NO_JOB - 1 - slots[place]
    if count:
        close_up(line, first)
    remove_running(jobs, started[last - chosen :], chosen)
    return count
