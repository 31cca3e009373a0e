"""Numbers of jobs in arrays, for the kernels."""

from __future__ import annotations

import math
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from qops_batsim.jobs import Job

FIRST_CAPACITY = 1024

Numbers = TypeVar("Numbers", npt.NDArray[np.int64], npt.NDArray[np.float64])


class JobTable:
    """Jobs by slot: each job gets the next slot, which it keeps.

    Attributes
    ----------
    jobs
        The job in each slot.
    processors
        Processors of the job in each slot (array with room to grow).
    estimates
        Estimated run time of the job in each slot (seconds; infinite when unknown).
    deadlines
        Latest completion date of the job in each slot (seconds; infinite without one):
        the requested one, until a plan has to put it off.
    """

    __slots__ = ("_slots", "deadlines", "estimates", "jobs", "processors")

    def __init__(self) -> None:
        self.jobs: list[Job] = []
        self.processors: npt.NDArray[np.int64] = np.zeros(FIRST_CAPACITY, np.int64)
        self.estimates: npt.NDArray[np.float64] = np.zeros(FIRST_CAPACITY, np.float64)
        self.deadlines: npt.NDArray[np.float64] = np.zeros(FIRST_CAPACITY, np.float64)
        self._slots: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self.jobs)

    def add(self, job: Job) -> int:
        """Return the new slot of a job. Amortised O(1)."""
        slot = len(self.jobs)
        if slot == len(self.processors):
            self.processors = grown(self.processors)
            self.estimates = grown(self.estimates)
            self.deadlines = grown(self.deadlines)
        self.jobs.append(job)
        self.processors[slot] = job.processors
        self.estimates[slot] = job.estimate
        deadline = None if job.qos is None else job.qos.deadline
        self.deadlines[slot] = math.inf if deadline is None else deadline
        self._slots[job.id] = slot
        return slot

    def replace(self, slot: int, job: Job) -> None:
        """Put another job into a slot, whose numbers are the same. O(1).

        The slot is found under both identifiers.
        """
        self.jobs[slot] = job
        self._slots[job.id] = slot

    def slot_of(self, job_id: str) -> int:
        """Return the slot of a job that was added. O(1)."""
        return self._slots[job_id]


def grown(array: Numbers) -> Numbers:
    """Return a copy with twice the room, the new part zero."""
    larger = np.zeros_like(array, shape=2 * len(array))
    larger[: len(array)] = array
    return larger
