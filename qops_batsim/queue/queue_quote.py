"""Quotes of ends that can be promised to new jobs, given a machine's queue as it is now."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from heapq import heappop, heappush
from threading import Lock
from typing import Any

import msgspec

from qops_batsim.core.job import RUNNING, WAITING, Job
from qops_batsim.core.plan import Plan
from qops_batsim.core.refusal import Refusal, sentence
from qops_batsim.errors import InputError, require, shown
from qops_batsim.jobs import QosRequest
from qops_batsim.limits import MAX_SECONDS
from qops_batsim.queue.queue_state import QueuedJob, QueueState, date_text, in_line
from qops_batsim.queue.unexplained_waits import why_no_date, without_date
from qops_batsim.running.plan_asker import (
    EarliestEnd,
    SearchAsker,
    deadline_scheduler,
    resume,
)
from qops_batsim.schedulers.standing import standing_of_jobs
from qops_batsim.timing import DEADLINE_TOLERANCE, duration_on_grid, end_of

WITHIN, SHARE = 60.0, 0.01
"""Tolerances of an earliest end: a minute, or a hundredth of the time until then."""

NEW_JOB = "the new job"


class Ask(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A job for which a promise is requested: processors, estimated run time (seconds), and
    deadline (seconds from now, None for the earliest end only).
    """

    processors: int
    time: float
    deadline: float | None = None


class QueueAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """What can be promised to one new job, given a queue; dates in seconds since 1970, durations in
    seconds.

    ``end`` is the earliest that could be promised, None if none could; ``start`` is planned for
    it, and may be moved. ``admitted`` tells whether the deadline asked for could be promised,
    ``reason`` why not, or why nothing can be.
    """

    processors: int
    time: float
    deadline: float | None
    admitted: bool | None
    reason: str
    start: float | None
    end: float | None
    wait: float | None
    """From now to the start."""
    response: float | None
    """From now to the end."""
    end_date: str | None
    """The end on this machine's clock."""


class QueueAsker:
    """Tells which ends can be promised to new jobs, given one state of a queue; several threads may
    ask at once.

    Waiting jobs are planned in the order of their planned starts, then by priority and submission,
    each at its earliest fit, of an array no more tasks at once than may run. What was promised to a
    job is kept; another waiting job keeps the end that is planned for it now, unless it
    ``may_wait`` longer. Nothing is promised behind a wait that the plan does not explain:
    ``unexplained`` has those.
    """

    def __init__(
        self,
        state: QueueState,
        scheduler: str = "qops",
        settings: Mapping[str, Any] | None = None,
        *,
        may_wait: bool = False,
    ) -> None:
        self.state = state
        self._lock = Lock()
        held, self.late = _held_jobs(state, may_wait=may_wait)
        planned = {job.id: job.start for job in held if job.phase == WAITING}
        self.unexplained = without_date(state, planned)[0]
        module = deadline_scheduler(scheduler, settings or {})
        snapshot = standing_of_jobs(held, 0.0)
        self._scheduler = resume(module, snapshot, state.processors)
        # One job for whatever is asked about: the plan never takes it.
        self._job = Job(NEW_JOB, 0.0, 1, "", qos=QosRequest(estimated_runtime=1.0))
        self._scheduler.plan.arrived(self._job)
        running = sum(each.phase == RUNNING for each in held)
        self.running = running - len(state.closed) + len(state.apart)
        self.waiting = len(held) - running
        self.free = state.processors - sum(
            job.processors for job in [*state.jobs, *state.closed] if job.start is not None
        )

    def ask(self, asked: Ask) -> QueueAnswer:
        """Return the earliest end that can be promised to a job, and whether its deadline can be;
        the queue does not change.
        """
        self._check(asked)
        if self.unexplained:
            return self._refused(asked)
        with self._lock:
            job = self._job
            job.processors = job.reserved = asked.processors
            job.estimate = asked.time + self.state.margin
            job.duration = duration_on_grid(job.estimate)
            asker = SearchAsker(self._scheduler, job)
            refusal = None if asked.deadline is None else asker.refusal(asked.deadline)
            found = asker.earliest(within=WITHIN, share=SHARE)
        return self._answer(asked, refusal, found)

    def _check(self, asked: Ask) -> None:
        self.state.check_width(asked.processors)
        for name, value in (("time", asked.time), ("deadline", asked.deadline)):
            accepted = f"a number of seconds above 0, up to {MAX_SECONDS:g}, is accepted"
            require(value is None or 0 < value <= MAX_SECONDS, name, value, accepted)

    def _refused(self, asked: Ask) -> QueueAnswer:
        """Return that nothing can be promised, since a wait in the queue has no explanation."""
        until = asked.deadline
        return QueueAnswer(
            processors=asked.processors,
            time=asked.time,
            deadline=None if until is None else self.state.now + until,
            admitted=None if until is None else False,
            reason=why_no_date(self.unexplained[0]),
            start=None,
            end=None,
            wait=None,
            response=None,
            end_date=None,
        )

    def _answer(self, asked: Ask, refusal: Refusal | None, found: EarliestEnd) -> QueueAnswer:
        now, known = self.state.now, found.end < math.inf

        def date(seconds: float) -> str:
            return date_text(now + seconds)

        return QueueAnswer(
            processors=asked.processors,
            time=asked.time,
            deadline=None if asked.deadline is None else now + asked.deadline,
            admitted=None if asked.deadline is None else refusal is None,
            reason="" if refusal is None else sentence(refusal, date),
            start=now + found.start if known else None,
            end=now + found.end if known else None,
            wait=found.start if known else None,
            response=found.end if known else None,
            end_date=date_text(now + found.end) if known else None,
        )


def parse_job(text: str) -> tuple[int, float]:
    """Parse a job such as ``64x2h``; return its processors and its run time (seconds)."""
    from qops_batsim.platform.units import parse_time

    count, times, duration = text.partition("x")
    if not times or not count.isdecimal() or len(count) > 9:
        raise InputError(f"{shown(text)}: PROCESSORSxTIME is expected, as 64x2h")
    run_time = parse_time(duration, where=f"time in {text}")
    require(run_time > 0, f"time in {text}", duration, "more than 0 is expected")
    return int(count), run_time


def _held_jobs(state: QueueState, *, may_wait: bool) -> tuple[list[Job], list[str]]:
    """Return the running and waiting jobs of a queue with planned starts (now is 0 s), and the ids
    of the waiting jobs that would end after their promise.
    """
    running = [_running(job, state.now) for job in state.jobs if job.start is not None]
    waiting = [job for job in state.jobs if job.start is None]
    waiting.sort(key=in_line)
    apart = [_running(job, state.now) for job in state.apart]
    lanes = _lanes([*state.jobs, *state.apart], [*running, *apart])
    running += [_running(job, state.now) for job in state.closed]
    starts, late = _planned(state, running, waiting, lanes)
    if late:
        # First those to whom something was promised, the least laxity first.
        ordered = sorted(waiting, key=lambda job: (job.deadline or math.inf) - (job.estimate or 0))
        others, fewer = _planned(state, running, ordered, lanes)
        if len(fewer) < len(late):
            waiting, starts, late = ordered, others, fewer
    held = list(running)
    for job, start in zip(waiting, starts, strict=True):
        end = end_of(start, math.inf if job.estimate is None else job.estimate)
        target = math.inf if may_wait else end
        if job.deadline is not None:
            target = max(job.deadline - state.now, end) if end < math.inf else math.inf
        deadline = None if target == math.inf else target
        # No search may move tasks that wait for each other.
        fixed = start if start < math.inf and job.array in lanes else None
        kept = _job(job, state.now, deadline, fixed)
        kept.phase, kept.start, kept.target = WAITING, start, target
        held.append(kept)
    return held, late


def _lanes(jobs: Sequence[QueuedJob], running: Sequence[Job]) -> dict[str, list[float]]:
    """Return, for each job array that limits its running tasks, the sorted seconds from now at
    which a further task may start (one for each task that may run at once).
    """
    tasks = Counter(job.array for job in jobs)
    limits = {job.array: job.at_once for job in jobs if 0 < job.at_once < tasks[job.array]}
    ends: dict[str, list[float]] = {array: [0.0] * most for array, most in limits.items()}
    arrays = [job.array for job in jobs if job.start is not None]
    for array, held in zip(arrays, running, strict=True):
        if array in ends:
            ends[array].append(held.end)
    return {array: sorted(each)[-limits[array] :] for array, each in ends.items()}


def _job(job: QueuedJob, now: float, deadline: float | None, start: float | None = None) -> Job:
    submission = min(0.0, (job.submission or now) - now)
    qos = QosRequest(deadline=deadline, estimated_runtime=job.estimate, start=start)
    return Job(job.id, submission, job.processors, "", qos=qos)


def _running(job: QueuedJob, now: float) -> Job:
    assert job.start is not None
    start = job.start - now
    end = math.inf if job.estimate is None else start + job.estimate
    if job.end is not None:
        end = job.end - now
    if end <= 0:
        # It outlives its estimate: as every plan has it, it is taken to run as long again.
        end = max(-start, 1.0)
    target = math.inf if job.deadline is None else job.deadline - now
    held = _job(job, now, None)
    held.phase, held.start, held.end, held.target = RUNNING, start, end, target
    return held


def _planned(
    state: QueueState,
    running: list[Job],
    waiting: list[QueuedJob],
    lanes: Mapping[str, Sequence[float]],
) -> tuple[list[float], list[str]]:
    """Plan the waiting jobs in their order, each at its earliest fit; return their starts (s from
    now), and the ids of those that would end after their promise.
    """
    plan = Plan(state.processors)
    plan.running = list(running)
    plan.reserve_plan(0.0)
    free = {array: list(ends) for array, ends in lanes.items()}
    starts: list[float] = []
    for job in waiting:
        line, asked = free.get(job.array), _job(job, state.now, None)
        plan.place(asked, 0.0 if line is None else heappop(line))
        starts.append(asked.start)
        if line is not None:
            heappush(line, end_of(asked.start, job.estimate or math.inf))
    late = [
        job.id
        for job, start in zip(waiting, starts, strict=True)
        if job.deadline is not None
        and end_of(start, job.estimate or math.inf) > job.deadline - state.now + DEADLINE_TOLERANCE
    ]
    return starts, late
