"""A plan that only takes jobs whose deadline, and everybody else's, it can keep."""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable
from typing import NamedTuple, Protocol

import numpy as np

from qops_batsim.jobs import Job
from qops_batsim.scheduling.admission.common_kernels import REJECTED, reserve, running_profile
from qops_batsim.scheduling.plan import ProcessorPlan
from qops_batsim.scheduling.plan_kernels import adopt, insert_by_start
from qops_batsim.scheduling.profile import STEPS_PER_RESERVATION, Floats, Ints
from qops_batsim.scheduling.table import JobTable
from qops_batsim.timing import PLAN_TOLERANCE


class Question(NamedTuple):
    """What a search is asked: can the new job be taken, and how?

    The arrays ``base_times`` and ``base_free`` (running jobs alone), ``times``,
    ``free``, ``order`` and ``planned`` belong to the plan and may be written.

    Attributes
    ----------
    now
        Date (seconds).
    base_times, base_free, base_steps
        Availability profile of the running jobs.
    waiting, waiting_count
        Slots of the waiting jobs by promised start, and their number.
    new
        Slot of the new job.
    starts
        Promised start of the job in each slot (seconds).
    table
        Numbers of all jobs by slot.
    times, free, order, planned
        Where the search writes the plan that it found: profile, slots and starts.
    """

    now: float
    base_times: Floats
    base_free: Ints
    base_steps: int
    waiting: Ints
    waiting_count: int
    new: int
    starts: Floats
    table: JobTable
    times: Floats
    free: Ints
    order: Ints
    planned: Floats


class Verdict(NamedTuple):
    """What a search answers.

    Attributes
    ----------
    steps
        Steps of the plan's profile, or ``REJECTED``.
    blamed
        If rejected, slot of the job whose deadline stood in the way.
    detail
        If rejected, where the search gave up, in words.
    """

    steps: int
    blamed: int
    detail: str


class Search(Protocol):
    """How a scheduler proposes a plan for a new job, or refuses it."""

    def __call__(self, question: Question) -> Verdict:
        """Return a plan, or which deadline stood in the way."""

    def note(self, table: JobTable) -> None:
        """Take note of jobs with the deadlines that they were admitted with."""


class Held(NamedTuple):
    """A job that a plan holds.

    Attributes
    ----------
    job
        The job.
    start
        Promised start, or actual one if it runs (seconds).
    end
        Expected end if it runs (seconds), else None.
    deadline
        Deadline that holds now (seconds; infinite without one).
    original
        The job as it was submitted, if it was killed and is run again.
    kills
        How often it was killed.
    """

    job: Job
    start: float
    end: float | None
    deadline: float
    original: Job | None = None
    kills: int = 0


class Refusal(NamedTuple):
    """A job that was not taken, and why."""

    slot: int
    reason: str


class Observer(Protocol):
    """Who wants to know what becomes of each new job, and of the others for its sake."""

    def asked(self, now: float, slot: int) -> None:
        """Take note that the plan is about to answer a new job."""

    def answered(self, now: float, slot: int, reason: str, blamed: int) -> None:
        """Take note of the answer: why not and whose deadline (or -1), or no reason."""


class AdmissionPlan(ProcessorPlan):
    """A plan of numbers of processors in which every job keeps its deadline.

    Ends that come early compress the plan as in conservative backfilling, which
    moves no start to a later date. A running job that outlives its estimate
    moves promised starts; only then can deadlines be missed. A waiting job that will
    be late for such a reason gets its new promised end as deadline, in the table as
    well: otherwise no plan could keep its deadline, and nobody would be admitted any
    more.

    Parameters
    ----------
    machine_size
        Number of processors.
    search
        Proposes a plan for each new job.

    Attributes
    ----------
    refusals
        Jobs refused since the list was last emptied.
    blamed
        Slot of the job whose deadline stood in the way of the last refused job, or -1.
    observer
        Told of every answer to a new job, if any.
    """

    def __init__(self, machine_size: int, search: Search) -> None:
        super().__init__(machine_size)
        self.refusals: list[Refusal] = []
        self.blamed = -1
        self.observer: Observer | None = None
        self._search = search
        self._base_times: Floats = np.zeros(0)
        self._base_free: Ints = np.zeros(0, np.int64)
        self._new_times: Floats = np.zeros(0)
        self._new_free: Ints = np.zeros(0, np.int64)
        self._order: Ints = np.zeros(0, np.int64)
        self._planned: Floats = np.zeros(0)

    def resume(self, now: float, jobs: Iterable[Held]) -> None:
        """Put an empty plan into the state that another plan had at a date.

        It then answers as the other one would. O((jobs)²).

        Parameters
        ----------
        now
            Date (seconds).
        jobs
            The running and waiting jobs of the other plan, in the order of arrival.
        """
        held = list(jobs)
        for job in held:
            self.arrived(job.job)
        self._search.note(self.table)
        self._make_room()
        self._first_new = len(self.table)
        for slot, job in enumerate(held):
            self._starts[slot], self.table.deadlines[slot] = job.start, job.deadline
            if job.end is None:
                self._waiting_count = insert_by_start(
                    self._waiting, self._waiting_count, self._starts, slot
                )
                continue
            self._ends[slot] = job.end
            self._running[len(self._running_place)] = slot
            self._running_place[slot] = len(self._running_place)
            heapq.heappush(self._expected_ends, (job.end, slot))
        self._steps = running_profile(
            self._times,
            self._free,
            self.machine_size,
            now,
            self.running_slots,
            self._ends,
            self.table.processors,
        )
        for slot in self._waiting[: self._waiting_count]:
            self._steps = reserve(
                self._times,
                self._free,
                self._steps,
                self._starts[slot],
                self.table.estimates[slot],
                self.table.processors[slot],
            )

    def offered(self, slot: int) -> tuple[float, str] | None:
        """Return the deadline (seconds) that a new job was just offered, and why, if one was."""
        return None

    def victims_of(self, slot: int) -> list[tuple[str, int]]:
        """Return which jobs are to be killed for a new one: id of what runs, and slot."""
        return []

    def _rebuild(self, now: float) -> None:
        super()._rebuild(now)
        waiting = self._waiting[: self._waiting_count]
        ends = self._starts[waiting] + self.table.estimates[waiting]
        late = ends > self.table.deadlines[waiting] + PLAN_TOLERANCE
        self.table.deadlines[waiting[late]] = ends[late]

    def _place(self, now: float, first: int, end: int) -> None:
        for slot in range(first, end):
            if self.observer is not None:
                self.observer.asked(now, slot)
            self.blamed = -1
            reason = self._take(now, slot)
            if reason:
                self.refusals.append(Refusal(slot, reason))
            if self.observer is not None:
                self.observer.answered(now, slot, reason, self.blamed)

    def _impossible(self, now: float, slot: int) -> str:
        """Say why a job could not meet its deadline on an empty machine, if so."""
        left = float(self.table.deadlines[slot]) - now
        estimate = float(self.table.estimates[slot])
        if left == math.inf or estimate <= left + PLAN_TOLERANCE:
            return ""
        return f"needs {estimate:g} s and its deadline is {left:g} s away"

    def _take(self, now: float, slot: int) -> str:
        """Take a new job into the plan with the deadline in the table, or say why not."""
        return self._impossible(now, slot) or self._admit(now, slot)

    def _admit(self, now: float, slot: int) -> str:
        """Take a job into the plan by one search, or say why not."""
        verdict = self._search(self._question(now, slot))
        if verdict.steps == REJECTED:
            return self._blame(slot, verdict)
        self._install(verdict.steps)
        return ""

    def _question(self, now: float, slot: int) -> Question:
        """Return what a search is asked about a job, with a fresh profile of the running ones."""
        self._make_room_for_trials()
        steps = running_profile(
            self._base_times,
            self._base_free,
            self.machine_size,
            now,
            self.running_slots,
            self._ends,
            self.table.processors,
        )
        return Question(
            now,
            self._base_times,
            self._base_free,
            steps,
            self._waiting,
            self._waiting_count,
            slot,
            self._starts,
            self.table,
            self._new_times,
            self._new_free,
            self._order,
            self._planned,
        )

    def _blame(self, slot: int, verdict: Verdict) -> str:
        """Note whose deadline stood in the way of a job; return it in words."""
        self.blamed = verdict.blamed
        blamed = self.table.jobs[verdict.blamed]
        own = verdict.blamed == slot
        whose = "its own deadline" if own else f"the deadline of {blamed.id}"
        date = float(self.table.deadlines[verdict.blamed])
        return f"{whose} ({date:g} s) would be missed{verdict.detail}"

    def _install(self, steps: int, jobs: int = 1) -> None:
        """Make what the last question's search found, with so many jobs more, the plan."""
        count = self._waiting_count + jobs
        adopt(self._waiting, self._starts, self._order, self._planned, count)
        self._waiting_count = count
        # The trial's profile is the new one; the old arrays serve the next trial.
        self._times, self._new_times = self._new_times, self._times
        self._free, self._new_free = self._new_free, self._free
        self._steps = steps

    def _make_room_for_trials(self) -> None:
        size = len(self._times)
        if len(self._new_times) < size:
            self._base_times, self._base_free = np.zeros(size), np.zeros(size, np.int64)
            self._new_times, self._new_free = np.zeros(size), np.zeros(size, np.int64)
        jobs = len(self._waiting) + 1
        if len(self._order) < jobs:
            self._order, self._planned = np.zeros(jobs, np.int64), np.zeros(jobs)
        assert size >= STEPS_PER_RESERVATION * (self._waiting_count + len(self._running_place) + 1)
