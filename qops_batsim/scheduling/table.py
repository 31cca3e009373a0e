"""Jobs by slot, with their numbers in arrays for kernels."""

from __future__ import annotations

import math

from qops_batsim.jobs import Job, QosRequest
from qops_batsim.scheduling.core.columns import IS_KEPT
from qops_batsim.scheduling.core.plan import set_job
from qops_batsim.scheduling.profile import grown_jobs, new_jobs

FIRST_CAPACITY = 1024


def is_kept(qos: QosRequest | None) -> bool:
    """Return whether a job must not be killed, because it cannot be run again."""
    return qos is not None and qos.rerunnable is False


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

    __slots__ = ("_by_host", "_originals", "_slots", "jobs", "numbers")

    def __init__(self, host_words: int = 0) -> None:
        self.jobs: list[Job] = []
        self._by_host = host_words > 0
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
        date, estimate = float(job.submission_time), float(job.estimate)
        set_job(numbers, slot, date, job.processors, estimate, limit, deadline)
        numbers.marks[IS_KEPT, slot] = is_kept(qos)
        self.reserve_all(slot)
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
