"""Jobs by slot, with their numbers in arrays for kernels."""

from __future__ import annotations

import math

import numpy as np

from qops_batsim.jobs import Job
from qops_batsim.scheduling.profile import Jobs, grown
from qops_batsim.timing import SAME_DATE, duration_on_grid

FIRST_CAPACITY = 1024


class JobTable:
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

    __slots__ = ("_by_host", "_slots", "jobs", "numbers")

    def __init__(self, host_words: int = 0) -> None:
        self.jobs: list[Job] = []
        self._by_host = host_words > 0
        self._slots: dict[str, int] = {}
        processors, rows = np.zeros((2, FIRST_CAPACITY), np.int64)
        if host_words:
            rows = np.zeros((FIRST_CAPACITY, host_words), np.uint64)
        columns = np.full((len(Jobs._fields) - 2, FIRST_CAPACITY), math.inf)
        self.numbers = Jobs(processors, columns[0], rows, *columns[1:])

    def __len__(self) -> int:
        return len(self.jobs)

    def add(self, job: Job) -> int:
        """Return the new slot of a job. Amortised O(1)."""
        slot = len(self.jobs)
        if slot == len(self.numbers.processors):
            self._grow()
        numbers = self.numbers
        self.jobs.append(job)
        numbers.processors[slot] = job.processors
        self.reserve_all(slot)
        estimate = numbers.estimates[slot] = duration_on_grid(job.estimate)
        if job.walltime is not None:
            numbers.limits[slot] = job.walltime
        if job.qos is not None and job.qos.deadline is not None:
            numbers.deadlines[slot] = numbers.promises[slot] = job.qos.deadline
            # What it was lengthened by to fit the grid does not count.
            longer = estimate - job.estimate
            numbers.targets[slot] = job.qos.deadline + (longer if longer > SAME_DATE else 0.0)
        self._slots[job.id] = slot
        return slot

    def reserve_all(self, slot: int) -> None:
        """Let a job reserve all processors that it asks for, where it reserves numbers. O(1)."""
        if not self._by_host:
            self.numbers.reserved[slot] = self.numbers.processors[slot]

    def replace(self, slot: int, job: Job) -> None:
        """Put another job into a slot, whose numbers are the same. O(1).

        The slot is found under both identifiers.
        """
        self.jobs[slot] = job
        self._slots[job.id] = slot

    def slot_of(self, job_id: str) -> int:
        """Return the slot of a job that was added. O(1)."""
        return self._slots[job_id]

    def _grow(self) -> None:
        size, larger = len(self.jobs), Jobs(*map(grown, self.numbers))
        for each in (larger.deadlines, larger.promises, larger.targets, larger.aims, larger.limits):
            each[size:] = math.inf
        self.numbers = larger
