"""Waits that a plan by processors cannot explain: Slurm lacks something that the plan has not.

A job waits for ``Resources``, and the plan starts it at once. What it lacks (GPUs, memory, whole
nodes, ...) is not in the plan, so neither this job's start is known nor that of any job behind it
in its partition, nor in others that have the same nodes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from qops_batsim.advice.queue_state import QueuedJob, QueueState
from qops_batsim.advice.waiting_reasons import Waits, is_for_resources

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
    state: QueueState, line: Sequence[QueuedJob], waits: Iterable[float]
) -> tuple[list[UnexplainedWait], dict[str, Waits]]:
    """Return the waits that a plan of a queue does not explain, of each partition the first, and
    why jobs have no date, by id. O(jobs).

    Parameters
    ----------
    state
        The queue. Where its partitions are known to have the same nodes, a job is behind all jobs
        before it, else behind those of its own partitions.
    line
        The waiting jobs in their order.
    waits
        From now to their planned starts (seconds).
    """
    free = state.processors - sum(job.processors for job in state.jobs if job.start is not None)
    closed: set[str] = set()
    found: list[UnexplainedWait] = []
    why: dict[str, Waits] = {}
    for job, wait in zip(line, waits, strict=True):
        is_behind = bool(closed) if state.shares_nodes else not closed.isdisjoint(job.partitions)
        if wait < AT_ONCE and is_for_resources(job.reason):
            why[job.id] = Waits.THOUGH_IT_FITS
            first = UnexplainedWait(
                job=job.id, partition=job.partition, processors=job.processors, free=free
            )
            found += [] if is_behind else [first]
        elif is_behind:
            why[job.id] = Waits.BEHIND
        else:
            continue
        closed |= job.partitions
    return found, why
