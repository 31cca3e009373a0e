"""Packed job sets: jobs that a perfect scheduler can all admit (Islam et al. 2003, section 4.1).

Jobs are cut out of a schedule without any hole. They are the synthetic job sets of the paper, and
of the real-time scheduling that it starts from (Ramamritham, Stankovic and Shiah, 1990). How jobs
are cut is not told there; here new jobs start whenever some end.
"""

from __future__ import annotations

import heapq
import math

import numpy as np

from qops_batsim import Job, QosRequest
from qops_batsim.workload import Workload, delay_profile

# A stream of the seed that nothing else uses.
_PACKED = 17


def packed_workload(
    processors: int,
    jobs: int,
    laxity: float,
    seed: int,
    *,
    run_times: tuple[int, int] = (60, 36_000),
) -> Workload:
    """Make jobs that a perfect scheduler can all admit.

    The schedule that is known keeps all processors busy from 0 to its end, T. Sizes and run times
    (whole seconds) are uniform in their logarithm; a size is cut to the processors that are free,
    and the jobs that are left at the end last until T, some of them longer than asked for. Jobs and
    known schedule do not depend on the laxity.

    Each job is submitted when the known schedule starts it, with the deadline
    start + (1 + ``laxity``) × run time. With 0 there is only one way to meet all deadlines, and
    any scheduler finds it; more laxity allows choices that end badly, so *fewer* jobs are
    admitted, which is why the paper gave this method up.
    """
    profiles: dict[str, dict[str, object]] = {}
    made: list[Job] = []
    for start, finish, size in zip(*_fill(processors, jobs, seed, run_times), strict=True):
        run_time = finish - start
        name, profiles[name] = delay_profile(run_time)
        qos = QosRequest(
            deadline=float(start + (1 + laxity) * run_time),
            estimated_runtime=float(run_time),
            has_user_deadline=True,
        )
        made.append(Job(str(len(made) + 1), float(start), size, name, qos=qos))
    source = f"the packed workload of seed {seed}"
    return Workload(made, profiles, processors, {"step": "packed", "seed": seed}, source)


def _fill(
    processors: int, jobs: int, seed: int, run_times: tuple[int, int]
) -> tuple[list[int], list[int], list[int]]:
    """Return start, end and size of each job, in the order of starts."""
    random = np.random.Generator(
        np.random.PCG64(np.random.SeedSequence(seed, spawn_key=(_PACKED,)))
    )
    drawn_sizes = _between(1, processors, random.random(jobs))
    drawn_times = _between(*run_times, random.random(jobs))
    starts, ends, sizes = list[int](), list[int](), list[int]()
    running: list[tuple[int, int]] = []
    now, free = 0, processors
    while True:
        while free and len(starts) < jobs:
            index = len(starts)
            # The last job takes all that is left, or the schedule would have a hole.
            size = free if index == jobs - 1 else min(drawn_sizes[index], free)
            starts.append(now)
            ends.append(now + drawn_times[index])
            sizes.append(size)
            heapq.heappush(running, (ends[index], index))
            free -= size
        if len(starts) == jobs:
            break
        now = running[0][0]
        while running and running[0][0] == now:
            free += sizes[heapq.heappop(running)[1]]
    last = max(when for when, _ in running)
    for _, index in running:
        ends[index] = last
    return starts, ends, sizes


def _between(low: int, high: int, position: np.ndarray) -> list[int]:
    """Return whole numbers from low to high, uniform in their logarithm."""
    values = np.floor(np.exp(math.log(low) + position * math.log((high + 1) / low)))
    whole: list[int] = np.clip(values, low, high).astype(np.int64).tolist()
    return whole
