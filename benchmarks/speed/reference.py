"""The yardstick: EASY backfilling of delay jobs in plain Python, and nothing else.

It knows no hosts, writes nothing and checks nothing, so it shows what the loop alone costs on
a machine. Speeds divided by its speed, measured in turns with it, can be compared between
machines.
"""

from __future__ import annotations

import heapq
import math
import time
from typing import NamedTuple

from qops_batsim.workload.model import Workload


class ReferenceJob(NamedTuple):
    """Dates and times in seconds."""

    submission: float
    processors: int
    run_time: float
    estimate: float


def reference_jobs(workload: Workload) -> list[ReferenceJob]:
    """Return the delay jobs of a workload that fit its machine, in the order of submission."""
    return [
        ReferenceJob(
            job.submission_time,
            job.processors,
            min(workload.profiles[job.profile]["delay"], job.walltime or math.inf),
            job.estimate,
        )
        for job in sorted(workload.jobs, key=lambda job: (job.submission_time, job.id))
        if 0 < job.processors <= workload.processors
    ]


def easy(jobs: list[ReferenceJob], processors: int) -> list[float]:
    """Return the start of each job (seconds). O(jobs × (queue + running × log running))."""
    free = processors
    waiting: list[int] = []
    ends: list[tuple[float, int]] = []
    expected: dict[int, tuple[float, int]] = {}
    starts = [math.nan] * len(jobs)
    following = 0
    while following < len(jobs) or ends:
        now = jobs[following].submission if following < len(jobs) else math.inf
        if ends:
            now = min(now, ends[0][0])
        while ends and ends[0][0] <= now:
            _, ended = heapq.heappop(ends)
            free += jobs[ended].processors
            del expected[ended]
        while following < len(jobs) and jobs[following].submission <= now:
            waiting.append(following)
            following += 1
        shadow, extra = math.inf, 0
        is_reserved = False
        left = []
        for index in waiting:
            _, needed, run_time, estimate = jobs[index]
            in_time = now + estimate <= shadow
            if needed <= free and (in_time or needed <= extra):
                extra -= 0 if in_time else needed
                free -= needed
                starts[index] = now
                heapq.heappush(ends, (now + run_time, index))
                expected[index] = (now + estimate, needed)
                continue
            if not is_reserved:
                is_reserved = True
                extra = free
                for end, returned in sorted(expected.values()):
                    if end > shadow:
                        break
                    extra += returned
                    if extra >= needed:
                        shadow = end
                extra -= needed
            left.append(index)
        waiting = left
    return starts


def reference_seconds(jobs: list[ReferenceJob], processors: int) -> float:
    """Return the CPU time of one pass (seconds)."""
    began = time.process_time()
    easy(jobs, processors)
    return time.process_time() - began
