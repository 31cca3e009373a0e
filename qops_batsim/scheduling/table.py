"""Jobs by slot, with their numbers in arrays for kernels."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from qops_batsim.jobs import Job, QosRequest
from qops_batsim.scheduling.arrays import Floats, Jobs, grown_jobs, new_jobs
from qops_batsim.scheduling.core.columns import (
    ARRIVALS,
    CHECKPOINTS,
    DEADLINES,
    ESTIMATES,
    FIXED_STARTS,
    IS_KEPT,
    LIMITS,
    PROMISES,
    TARGETS,
)
from qops_batsim.timing import SAME_DATE, SHORTEST, duration_on_grid, on_grid

FIRST_CAPACITY = 1024


def is_kept(qos: QosRequest | None) -> bool:
    """Return whether a job must not be killed, because it cannot be run again."""
    return qos is not None and qos.rerunnable is False


def fixed_start_of(qos: QosRequest | None) -> float:
    """Return the only start that a user accepts (seconds), infinite without."""
    return math.inf if qos is None or qos.start is None else on_grid(float(qos.start))


def durations_on_grid(durations: Floats) -> Floats:
    """Return durations as :func:`~qops_batsim.timing.duration_on_grid` does (seconds)."""
    rounded = np.maximum(durations, SHORTEST)
    finite = np.isfinite(durations)
    odd = np.flatnonzero(np.where(finite, durations, 0.0) % 1.0)
    rounded[odd] = [duration_on_grid(each) for each in durations[odd].tolist()]
    return rounded


def set_jobs(
    jobs: Jobs,
    slots: int | slice,
    *,
    submissions: Any,
    processors: Any,
    estimates: Any,
    whole_estimates: Any,
    limits: Any,
    deadlines: Any,
) -> None:
    """Write what the new job in a slot asks for, or those of a slice (seconds).

    Infinite is what it does not say. By what estimates were lengthened to be whole on the grid of
    dates, ends may come after the deadline.
    """
    numbers = jobs.numbers
    jobs.processors[slots] = processors
    if jobs.reserved.ndim == 1:
        jobs.reserved[slots] = processors
    numbers[ESTIMATES, slots], numbers[LIMITS, slots] = whole_estimates, limits
    # Engines submit a job with a negative submission time at 0.
    numbers[ARRIVALS, slots] = np.maximum(submissions, 0.0)
    numbers[DEADLINES, slots] = numbers[PROMISES, slots] = deadlines
    with np.errstate(invalid="ignore"):  # without an estimate both are infinite
        longer = whole_estimates - estimates
    numbers[TARGETS, slots] = deadlines + np.where(longer > SAME_DATE, longer, 0.0)


class SlotTable:
    """Jobs by slot: each job gets the next slot, which it keeps.

    Parameters
    ----------
    host_words
        Words of a row of hosts, where jobs reserve certain hosts rather than numbers
        of processors.

    Attributes
    ----------
    jobs
        The job in each slot.
    numbers
        Their numbers; other arrays, with more room, after :meth:`add`.
    """

    __slots__ = ("_originals", "_slots", "jobs", "numbers")

    def __init__(self, host_words: int = 0) -> None:
        self.jobs: list[Job] = []
        self._slots: dict[str, int] = {}
        self._originals: dict[int, Job] = {}
        self.numbers = new_jobs(FIRST_CAPACITY, host_words)

    def __len__(self) -> int:
        return len(self.jobs)

    def add(self, job: Job) -> int:
        """Return the new slot of a job. Amortised O(1)."""
        slot = len(self.jobs)
        if slot == len(self.numbers.processors):
            self.numbers = grown_jobs(self.numbers)
        numbers = self.numbers
        self.jobs.append(job)
        qos = job.qos
        deadline = math.inf if qos is None or qos.deadline is None else float(qos.deadline)
        limit = math.inf if job.walltime is None else float(job.walltime)
        estimate = float(job.estimate)
        set_jobs(
            numbers,
            slot,
            submissions=float(job.submission_time),
            processors=job.processors,
            estimates=estimate,
            whole_estimates=duration_on_grid(estimate),
            limits=limit,
            deadlines=deadline,
        )
        numbers.marks[IS_KEPT, slot] = is_kept(qos)
        numbers.numbers[FIXED_STARTS, slot] = fixed_start_of(qos)
        if qos is not None and qos.checkpoint is not None:
            numbers.numbers[CHECKPOINTS, slot] = duration_on_grid(qos.checkpoint)
        self._slots[job.id] = slot
        return slot

    def expect(self, slot: int, seconds: float) -> None:
        """Plan the new job in a slot with another run time than its estimate (seconds). O(1)."""
        job = self.jobs[slot]
        self.jobs[slot] = expected = job.renamed(job.id)
        expected.estimate = seconds

    def replace(self, slot: int, job: Job) -> None:
        """Put another job into a slot, whose numbers are the same. O(1).

        The slot is found under both identifiers.
        """
        self._originals.setdefault(slot, self.jobs[slot])
        self.jobs[slot] = job
        self._slots[job.id] = slot

    def was(self, slot: int, job: Job) -> None:
        """Learn as which job the one in a slot was submitted. O(1)."""
        self._originals[slot] = job

    def original(self, slot: int) -> Job:
        """Return the job that was added with a slot. O(1)."""
        return self._originals.get(slot) or self.jobs[slot]

    def known_slot(self, job_id: str) -> int | None:
        """Return the slot of a job, None if there is none. O(1)."""
        return self._slots.get(job_id)

    def slot_of(self, job_id: str) -> int:
        """Return the slot of a job that was added. O(1)."""
        return self._slots[job_id]
