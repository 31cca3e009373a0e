"""Orders of waiting jobs by name: formulas of the literature, and by deadline."""

from __future__ import annotations

import math
from typing import Literal, get_args

from qops_batsim.core.job import Job
from qops_batsim.limits import MAX_SECONDS

OrderName = Literal[
    "fcfs",
    "sjf",
    "ljf",
    "saf",
    "lxf",
    "wfp3",
    "unicef",
    "f1",
    "f2",
    "f3",
    "f4",
    "least_laxity",
    "earliest_deadline",
]
"""Name of an order: see :func:`key_in`."""

ORDERS = (*get_args(OrderName), "scheduled_start", "own")
"""Names of the orders by their codes. ``scheduled_start`` is that of a plan, ``own`` that of a
method ``key``: neither has a formula.
"""

CHANGING = ("lxf", "wfp3", "unicef")
"""Orders whose keys change while jobs wait."""

FCFS, SJF, LJF, SAF, LXF, WFP3, UNICEF, F1, F2, F3, F4, LAXITY, DEADLINE = range(13)

LOGARITHMS = [1.0, 1.0, *(math.log2(processors) for processors in range(2, 1025))]
"""Base-2 logarithms of numbers of processors, at least 1, which take long to calculate."""

_INFINITY = math.inf


def key_in(order: int, wait: float, job: Job) -> float:
    """Return a job's sort key in the order with this index in :data:`ORDERS`, after a wait
    (seconds); the least key comes first.

    With the time *w* that a job has waited, its duration *r*, its arrival *s* and its promised
    deadline *d* (all in seconds), and its processors *n*:

    =================  ==============================  ===========================================
    fcfs               0                               order of arrival
    sjf                r                               shortest job first
    ljf                -r                              longest job first
    saf                r n                             smallest area first
    lxf                -(w + r) / r                    largest expansion factor first
    wfp3               -(w / r)³ n                     Tang, Lan, Desai, Buettner (2009)
    unicef             -w / (log2(n) r)                the same; one processor counts as two
    f1                 log10(r) n + 870 log10(s)       Carastan-Santos, de Camargo (2017), as the
                                                       next three
    f2                 √r n + 25,600 log10(s)
    f3                 r n + 6,860,000 log10(s)
    f4                 r √n + 530,000 log10(s)
    least_laxity       d - r                           latest start that keeps the deadline
    earliest_deadline  d                               Islam et al. (2003), as the one before
    =================  ==============================  ===========================================

    Arrivals before 1 s count as at 1 s in f1 to f4. Without a deadline *d* is infinite, and so are
    the last two, with an estimate or without.

    W. Tang, Z. Lan, N. Desai, D. Buettner, "Fault-aware, utility-based job scheduling on Blue
    Gene/P systems", IEEE Cluster 2009. D. Carastan-Santos, R. Y. de Camargo, "Obtaining dynamic
    scheduling policies with simulation and machine learning", SC 2017. M. Islam, P. Balaji, P.
    Sadayappan, D. K. Panda, "QoPS: a QoS based scheme for parallel job scheduling", JSSPP 2003.
    """
    duration = job.duration
    size = job.size
    if order == LAXITY:
        return job.promise - duration if job.promise < _INFINITY else _INFINITY
    if order == DEADLINE:
        return job.promise
    if order == SJF:
        return duration
    if order == LJF:
        return -min(duration, MAX_SECONDS)
    if order == SAF:
        return duration * size
    if order == LXF:
        return -wait / duration
    if order == WFP3:
        ratio = wait / duration
        return -ratio * ratio * ratio * size
    if order == UNICEF:
        is_known = job.request is None and job.processors <= 1024
        logarithm = LOGARITHMS[job.processors] if is_known else math.log2(max(size, 2.0))
        return -wait / (logarithm * duration)

    since = math.log10(max(job.arrival, 1.0))
    if order == F1:
        return math.log10(duration) * size + 870.0 * since
    if order == F2:
        return math.sqrt(duration) * size + 25600.0 * since
    if order == F3:
        return duration * size + 6860000.0 * since
    if order == F4:
        return duration * math.sqrt(size) + 530000.0 * since
    return 0.0
