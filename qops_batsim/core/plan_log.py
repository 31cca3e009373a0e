"""The log of a plan's decisions and their effects, in rows of numbers.

A row has a kind, the number of a job, that of another job, a code, and up to four numbers, usually
the date of the decision (seconds) first: what each kind means stands in
:mod:`~qops_batsim.core.log_rows`. Lines and sentences are made of them at the edge.
"""

from __future__ import annotations

import math
from array import array
from typing import Any

from qops_batsim.core.job import Job
from qops_batsim.core.job_sorting import sort_by_arrival
from qops_batsim.core.log_rows import (
    ADMITTED,
    BLAMED,
    BY_CANCELLATION,
    BY_EARLY_END,
    BY_LATE_START,
    BY_LEAVING,
    BY_OUTLIVING,
    BY_RETURNING,
    DROPPED,
    ENDED,
    KILLED,
    LATE,
    LATE_NEWS,
    MOVE,
    MOVED,
    NUMBERS,
    OUTLIVED,
    PLACED,
    REFUSED,
    RESIZED,
    SLIPPED,
    STARTED,
    SUBMITTED,
    UNDER,
    WITHDRAWN,
)
from qops_batsim.timing import GRACE, PLAN_TOLERANCE

INFINITY = math.inf

BLOCK = 2048
"""Rows in a block."""


class PlanLog:
    """Log of what a plan decided (answers, moves, kills, starts) and of the causes, as rows of
    numbers.

    :meth:`look` and others log what has changed since the last call: after an update of the plan,
    after each answer, and after jobs were started. O(jobs in the plan) each.

    Parameters
    ----------
    processors
        Size of the machine.

    Attributes
    ----------
    jobs
        Of each job by its number: identifier, date of submission, processors, estimate, request.
    worded
        Answers by the number of the new job, where these are more than an admission as asked for.
    given_up
        Why waiting jobs were dropped, by number.
    hosts_asked, placements
        Where hosts are shared: what jobs ask for of them, by number; and on which ones they were
        planned.
    now, is_late, grace
        Date of the decision; whether news is late, and up to what that changes no plan (seconds).
    """

    def __init__(self, processors: int) -> None:
        self.counts = NUMBERS
        self.block = BLOCK
        self.blocks: list[tuple[Any, Any, int]] = []
        self.begin_block()
        self.jobs: list[tuple[str, float, int, float, Any]] = []
        self.worded: dict[int, Any] = {}
        self.given_up: dict[int, Any] = {}
        self.hosts_asked: dict[int, Any] = {}
        self.placements: list[list[tuple[int, int, int]]] = []

        self.now = 0.0
        self.is_late = False
        self.grace = GRACE
        self.has_said_late = False
        self.has_looked = False

        self.culprits: list[tuple[int, int]] = []
        self.early = 0
        self.cancelled = 0
        self.resizing: list[Any] = []
        self.present = processors
        self.noted_present = processors

    # Rows

    def append(
        self,
        kind: int,
        job: Job | None,
        other: int = -1,
        code: int = 0,
        first: float = 0.0,
        second: float = 0.0,
        third: float = 0.0,
    ) -> None:
        """Append a row about a job and maybe another one; ``kind`` says what code and
        numbers mean.
        """
        if self.size == self.block:
            self.blocks.append((self.codes, self.numbers[: self.filled], self.block))
            self.begin_block()
        place = 4 * self.size
        self.size += 1
        self.codes[place] = kind
        self.codes[place + 1] = -1 if job is None else job.number
        self.codes[place + 2] = other
        self.codes[place + 3] = code

        count = self.counts[kind]
        place = self.filled
        self.filled += count
        if kind == MOVE:
            self.numbers[place] = first
            self.numbers[place + 1] = second
            return
        if count > 0:
            self.numbers[place] = self.now
        if count > 1:
            self.numbers[place + 1] = first
        if count > 2:
            self.numbers[place + 2] = second
        if count > 3:
            self.numbers[place + 3] = third

    def begin_block(self) -> None:
        """Begin a new block of rows: a single array that grows would be copied again and again."""
        self.codes = array("i", [0]) * (4 * self.block)
        self.numbers = array("d", [0.0]) * (4 * self.block)
        self.size = 0
        self.filled = 0

    def rows(self) -> list[tuple[Any, Any, int]]:
        """Return the rows in blocks of (codes, numbers, number of rows).

        In ``codes`` a row has a kind, the numbers of a job and of another one, and a code; in
        ``numbers`` it has as many as :data:`NUMBERS` says.
        """
        return [*self.blocks, (self.codes, self.numbers[: self.filled], self.size)]

    # What is told

    def arrived(self, job: Job) -> None:
        """Add a new job to :attr:`jobs`, where rows refer to it by its number."""
        self.jobs.append((job.id, job.submission_time, job.processors, job.estimate, job.qos))
        if job.hosts_asked is not None:
            self.hosts_asked[job.number] = job.hosts_asked

    def predicted(self, job: Job) -> None:
        """Replace a new job's estimate in :attr:`jobs` by its predicted run time."""
        job_id, date, processors, _, asked = self.jobs[job.number]
        self.jobs[job.number] = (job_id, date, processors, job.duration, asked)

    def begin(self, now: float, gone: list[Job], undone: list[Job], cancelled: list[Job]) -> None:
        """Start logging a decision: log ended jobs, and keep those that ended early as the cause of
        moves.

        Likewise the killed jobs that had ended by themselves (``undone``), and cancelled ones.
        """
        self.now = now
        self.has_looked = False
        if self.is_late and not self.has_said_late:
            self.has_said_late = True
            self.append(LATE_NEWS, None)

        self.culprits = []
        for job in gone:
            self.append(ENDED, job, -1, job.kills, job.end - now)
            if job.end > now + PLAN_TOLERANCE:
                self.culprits.append((job.number, job.kills))

        for job in undone:
            self.append(WITHDRAWN, job, -1, job.kills)
            self.culprits.append((job.number, job.kills))

        for job in cancelled:
            self.culprits.append((job.number, job.kills))
        self.early = len(self.culprits)
        self.cancelled = len(cancelled)

    def resized(self, present: int, is_final: bool, losing: list[tuple[Job, int]]) -> None:
        """Remember how many hosts are present and how many each running job lost, to be logged by
        :meth:`look`.
        """
        self.present = present
        self.resizing = [is_final, *losing]

    def look(self, waiting: list[Job], running: list[Job], starting: list[Job]) -> None:
        """Log running jobs' new expected ends and the moves of starts since the last call; once per
        decision.
        """
        if self.has_looked:
            return
        self.has_looked = True

        late = self.note_ends(running, starting)
        cause = BY_LATE_START
        if late > 0:
            # They are to blame, and not those that ended early.
            cause = BY_OUTLIVING
            self.culprits = self.culprits[self.early :]
        elif self.early > 0:
            # Where jobs ended early as well, all of them are named.
            cause = BY_CANCELLATION if self.early == self.cancelled else BY_EARLY_END

        if self.resizing:
            is_final = self.resizing[0]
            self.append(RESIZED, None, -1, is_final, self.present)
            for job, hosts in self.resizing[1:]:
                self.append(UNDER, job, hosts, job.kills)
            self.resizing = []
            if late == 0 and self.present != self.noted_present:
                cause = BY_LEAVING if self.present < self.noted_present else BY_RETURNING
            self.noted_present = self.present

        self.note_moves(cause, waiting, starting)

    def note_ends(self, running: list[Job], starting: list[Job]) -> int:
        """Log running jobs' new expected ends; return how many jobs outlived their estimates."""
        # Those that start now, with the highest turns, are told by their starts.
        first = starting[0] if starting else None
        changed: list[Job] = []
        for job in running:
            if job.end != job.noted_end and (first is None or job.turn < first.turn):
                changed.append(job)
        sort_by_arrival(changed)

        late = 0
        for job in changed:
            before = job.noted_end
            job.noted_end = job.end
            # What outlives its estimate does so by the grace, and is given a second more.
            if self.is_late and job.end - before <= self.grace:
                self.append(SLIPPED, job, -1, 0, job.end)
            else:
                self.append(OUTLIVED, job, -1, 0, job.end)
                self.culprits.append((job.number, job.kills))
                late += 1

        return late

    def note_moves(self, cause: int, waiting: list[Job], starting: list[Job]) -> None:
        """Log waiting jobs' moved starts, with their cause (a ``BY_`` constant), and their changed
        targets.

        Those of jobs that start now are logged if they start off their promises by more than dates
        may differ.
        """
        has_moved = False
        is_late = False
        for job in waiting:
            if job.request is not None:
                self.note_places(job)
            has_moved = has_moved or job.start != job.noted_start
            is_late = is_late or job.target != job.noted_target
        for job in starting:
            if job.request is not None:
                self.note_places(job)
            if abs(job.start - job.noted_start) > PLAN_TOLERANCE:
                has_moved = True
            else:
                job.noted_start = job.start

        if has_moved:
            moved: list[Job] = []
            for jobs in (waiting, starting):
                for job in jobs:
                    if job.start != job.noted_start:
                        moved.append(job)
            sort_by_arrival(moved)
            self.append(MOVED, None, -1, cause)
            for number, run in self.culprits:
                # Of a job that has left there is but the number.
                self.append(BLAMED, None, -1, run)
                self.codes[4 * self.size - 3] = number
            for job in moved:
                self.append(MOVE, job, -1, 0, job.noted_start, job.start)
                job.noted_start = job.start

        if self.culprits:
            self.culprits = []

        if is_late:
            late: list[Job] = []
            for job in waiting:
                if job.target != job.noted_target:
                    late.append(job)
            sort_by_arrival(late)
            for job in late:
                job.noted_target = job.target
                self.append(LATE, job, -1, 0, job.target, job.lost, job.lost_date)

    def note_places(self, job: Job) -> None:
        """Log on which shared hosts a job is planned if these are not those logged last; only where
        hosts are shared.
        """
        request = job.request
        if job.start == INFINITY or request.held.equals(request.noted):
            return
        request.noted.copy_from(request.held)
        self.append(PLACED, job, len(self.placements))
        self.placements.append(request.held.told())

    def moved_for(self, job: Job, cause: int, waiting: list[Job]) -> None:
        """Log the moves of waiting jobs that the admission of a new job caused."""
        self.culprits = [(job.number, job.kills)]
        self.note_moves(cause, waiting, [])

    # Answers

    def submitted(self, job: Job) -> None:
        """Log that a new job was submitted and asks for admission."""
        self.append(SUBMITTED, job)

    def joined(self, job: Job) -> None:
        """Log a running job that another scheduler has started, as if this one had admitted and
        started it.
        """
        self.submitted(job)
        self.append(ADMITTED, job, -1, 0, job.start, INFINITY, INFINITY)
        self.append(STARTED, job, -1, 0, job.end)

    def admitted(self, job: Job) -> None:
        """Log that a new job was admitted, with its planned start, promise and target."""
        self.append(ADMITTED, job, -1, 0, job.start, job.promise, job.target)
        if job.request is not None:
            self.note_places(job)
        job.noted_start = job.start
        job.noted_target = job.target

    def refused(self, job: Job, answer: object, blamed: int) -> None:
        """Log a refusal: the answer, and the number of the job whose deadline stood in the way (-1:
        none).
        """
        self.worded[job.number] = answer
        self.append(REFUSED, job, blamed)

    def dropped(self, job: Job, refusal: object) -> None:
        """Log that a waiting job was dropped from the queue, and why."""
        self.given_up[job.number] = refusal
        self.append(DROPPED, job)

    def killed(self, victim: Job, again: Job, for_job: Job, saved: float) -> None:
        """Log that ``victim`` is killed for another job and runs again as ``again``; ``saved``
        seconds of work are kept.
        """
        start = victim.start + victim.lag
        self.append(KILLED, again, for_job.number, victim.kills, again.start, start, saved)
        again.noted_start = again.start
        again.noted_target = victim.noted_target

    # The end of a decision

    def look_last(self, waiting: list[Job], running: list[Job], starting: list[Job]) -> None:
        """Log at the end of a decision which starts have moved since :meth:`look`."""
        if not self.has_looked:
            self.look(waiting, running, starting)
            return
        if self.is_late:
            self.note_ends(running, starting)
        self.culprits = []
        self.note_moves(BY_LATE_START, waiting, starting)

    def started(self, starting: list[Job]) -> None:
        """Log the jobs that start in this decision."""
        for job in starting:
            job.noted_end = job.end
            self.append(STARTED, job, -1, 0, job.end, job.lag)
