"""WaitKind that a plan by processors cannot explain: Slurm lacks what the plan does not count.

A job waits for ``Resources``, and the plan starts it at once. What it lacks (GPUs, memory, whole
nodes, ...) is not in the plan, so neither this job's start is known nor that of any job behind it
in its partition, nor in others that have the same nodes.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence

import msgspec

from qops_batsim.queue.queue_state import QueuedJob, QueueState, by_priority
from qops_batsim.slurm.waiting_reasons import WaitKind, is_for_resources

AT_ONCE = 0.5
"""A planned start counts as at once if it is sooner (seconds)."""


class UnexplainedWait(msgspec.Struct, frozen=True, kw_only=True):
    """A job that waits for Resources though its processors are free, with the number that is."""

    job: str
    partition: str
    processors: int
    free: int


def why_no_date(wait: UnexplainedWait) -> str:
    """Return why nobody behind a job has a date, as a sentence for users."""
    where = f" (partition {wait.partition})" if wait.partition else ""
    return (
        f"job {wait.job}{where} waits for Resources, though it needs {wait.processors:,} "
        f"processors and {wait.free:,} are free; what it lacks (GPUs, memory, whole nodes, ...) is "
        "not planned here, so neither it nor any job behind it has a date"
    )


def without_date(
    state: QueueState, plan: Mapping[str, float]
) -> tuple[list[UnexplainedWait], dict[str, WaitKind]]:
    """Return the waits that a plan of a queue does not explain, of each partition the first, and
    why jobs have no date, by id. O(jobs x log jobs).

    Parameters
    ----------
    state
        The queue. Where its partitions are known to have the same nodes, a job is behind all of
        higher priority, else behind those of its own partitions.
    plan
        From now to the planned starts (seconds), by id; jobs that are not in it are passed over. In
        what goes first plans differ: a job also counts as started at once if EASY would. That
        nodes have to be powered up explains a wait: without these, EASY alone tells.
    """
    free = state.processors - sum(job.processors for job in _running(state))
    at_once = started_by_easy(state)
    if not state.asleep:
        at_once |= {job for job, wait in plan.items() if wait < AT_ONCE}
    closed: set[str] = set()
    found: list[UnexplainedWait] = []
    why: dict[str, WaitKind] = {}
    for job in sorted((job for job in state.jobs if job.id in plan), key=by_priority):
        is_behind = bool(closed) if state.shares_nodes else not closed.isdisjoint(job.partitions)
        if job.id in at_once and is_for_resources(job.reason):
            why[job.id] = WaitKind.THOUGH_IT_FITS
            first = UnexplainedWait(
                job=job.id, partition=job.partition, processors=job.processors, free=free
            )
            found += [] if is_behind else [first]
        elif is_behind:
            why[job.id] = WaitKind.BEHIND
        else:
            continue
        closed |= job.partitions
    return found, why


def started_by_easy(state: QueueState) -> set[str]:
    """Return the ids of the waiting jobs that EASY (Lifka 1995) would start now, by priority, on
    what is not powered down.

    Jobs start in their order until one does not fit. Later ones start if they fit and do not delay
    that one: they end, by their limits, before it could start, or leave it enough processors.
    """
    running = _running(state)
    ends = [(_left(job, state.now), job.processors) for job in running]
    free = state.processors - sum(job.processors for job in running) - state.asleep
    ends.append((0.0, state.asleep))
    tasks = Counter(job.array for job in [*running, *state.apart])
    shadow = spare = math.inf
    is_reserved = False
    started: set[str] = set()
    for job in sorted((job for job in state.jobs if job.start is None), key=by_priority):
        if job.at_once and tasks[job.array] >= job.at_once:
            continue
        limit = math.inf if job.estimate is None else job.estimate
        if job.processors > free:
            if not is_reserved:
                shadow, spare = _reservation(job.processors, free, ends)
                is_reserved = True
            continue
        if limit > shadow:
            if job.processors > spare:
                continue
            spare -= job.processors
        free -= job.processors
        tasks[job.array] += 1
        ends.append((limit, job.processors))
        started.add(job.id)
    return started


def _running(state: QueueState) -> list[QueuedJob]:
    return [job for job in state.jobs if job.start is not None] + state.closed


def _left(job: QueuedJob, now: float) -> float:
    """Return for how long a running job holds its processors at most (seconds)."""
    if job.end is not None:
        return max(job.end - now, 0.0)
    assert job.start is not None
    return math.inf if job.estimate is None else max(job.start + job.estimate - now, 0.0)


def _reservation(
    processors: int, free: int, ends: Sequence[tuple[float, int]]
) -> tuple[float, float]:
    """Return when so many processors are free, and how many more are free then."""
    for end, width in sorted(ends):
        free += width
        if free >= processors:
            return end, free - processors
    return math.inf, math.inf
