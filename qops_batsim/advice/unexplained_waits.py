"""Waits that a plan by processors cannot explain: Slurm lacks something that the plan has not.

A job waits for ``Resources``, and the plan starts it at once. What it lacks (GPUs, memory, whole
nodes, ...) is not in the plan, so neither this job's start is known nor that of any job behind it
in its partition.
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
    line: Sequence[QueuedJob], waits: Iterable[float]
) -> tuple[list[QueuedJob], dict[str, Waits]]:
    """Return the first jobs of their partitions whose wait a plan does not explain, and why jobs
    have no date, by id. O(jobs).

    Parameters
    ----------
    line
        The waiting jobs in their order.
    waits
        From now to their planned starts (seconds).

    A job of several partitions stands behind those of each.
    """
    closed: set[str] = set()
    first: list[QueuedJob] = []
    why: dict[str, Waits] = {}
    for job, wait in zip(line, waits, strict=True):
        is_behind = not closed.isdisjoint(job.partitions)
        if wait < AT_ONCE and is_for_resources(job.reason):
            why[job.id] = Waits.THOUGH_IT_FITS
            first += [] if is_behind else [job]
        elif is_behind:
            why[job.id] = Waits.BEHIND
        else:
            continue
        closed |= job.partitions
    return first, why


def as_told(state: QueueState, jobs: Iterable[QueuedJob]) -> list[UnexplainedWait]:
    """Return what is told of jobs of a queue whose waits its plan does not explain."""
    used = sum(job.processors for job in state.jobs if job.start is not None)
    return [
        UnexplainedWait(
            job=job.id,
            partition=job.partition,
            processors=job.processors,
            free=state.processors - used,
        )
        for job in jobs
    ]
