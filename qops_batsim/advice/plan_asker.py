"""Asking a deadline scheduler about one more job, in any state that its plan had in a run.

The scheduler's plan is put together anew from the decision log, and asked; nothing of
the run is changed. Every question is put to a plan of its own, because an answer
changes the plan.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import msgspec

from qops_batsim.advice.history import DecisionHistory, PlanState, or_infinite
from qops_batsim.errors import InputError
from qops_batsim.jobs import Job, QosRequest
from qops_batsim.platform.hostset import HostSet
from qops_batsim.scheduling.admission.plan import Held
from qops_batsim.scheduling.admission.scheduler import AdmissionScheduler
from qops_batsim.scheduling.decision_events import Submitted
from qops_batsim.scheduling.registry import make_scheduler

RESOLUTION = 1.0
"""Seconds by which an earliest deadline may be too late."""

MOST_DOUBLINGS = 20
"""How often a deadline that is not feasible yet is put off to twice the distance."""

ANY_OFFER = 1e12
"""Tolerance factor of a user who takes any offer."""


class Request(NamedTuple):
    """What a user asks for.

    Attributes
    ----------
    processors
        Processors, all at once.
    run_time
        Estimated run time (seconds).
    deadline
        Latest completion (seconds, absolute; infinite for none).
    submission
        Date of submission (seconds).
    tolerance
        The user takes offers up to this many times the requested response time; None: as
        the scheduler's options have it. With :data:`ANY_OFFER` or 0 everything or nothing.
    job
        Identifier, which decides about a random tolerance.
    """

    processors: int
    run_time: float
    deadline: float
    submission: float
    tolerance: float | None = None
    job: str = "the new job"


class Commitment(msgspec.Struct, frozen=True, kw_only=True):
    """A job that the scheduler has admitted, as it was planned at one moment.

    Attributes
    ----------
    job
        Full id.
    processors
        Processors.
    running
        Whether it ran.
    start
        Start, or promised start (seconds), or None if it cannot be told.
    end
        Expected end (seconds), or None.
    deadline
        Deadline that held (seconds), or None.
    """

    job: str
    processors: int
    running: bool
    start: float | None
    end: float | None
    deadline: float | None


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """What the scheduler answers.

    Attributes
    ----------
    admitted
        Whether it takes the job, with the requested deadline or an offered one.
    offered
        Deadline offered instead of the requested one (seconds, absolute), or None.
    reason
        Why it does not take the job, or not as requested, in the scheduler's words.
    blamed
        Full id of the job whose deadline stood in the way of the requested one, if it is
        not the new job's own.
    start, end
        Promised start and expected end if admitted (seconds, absolute).
    killed
        Full ids of the running jobs that would be killed, to be run again.
    moved
        Promised start before and after of the waiting jobs that would be moved
        (seconds), by full id.
    """

    admitted: bool
    offered: float | None = None
    reason: str = ""
    blamed: str | None = None
    start: float | None = None
    end: float | None = None
    killed: list[str] = []
    moved: dict[str, tuple[float | None, float | None]] = {}


class PlanAsker:
    """Asks what a scheduler would answer in one state of its plan.

    Parameters
    ----------
    history
        The run.
    state
        The state.
    now
        Its date (seconds).

    Raises
    ------
    InputError
        There is no such scheduler, or its options are wrong.

    Attributes
    ----------
    machine_size
        Processors of the machine.
    free_processors
        Processors that no job uses.
    """

    def __init__(self, history: DecisionHistory, state: PlanState, now: float) -> None:
        self.now = now
        self.state = state
        self.machine_size = history.header.processors
        self._history = history
        self._module = logged_scheduler(history)
        self._held = [self._held_job(job_id) for job_id in self._in_order_of_arrival()]
        self.free_processors = self.machine_size - sum(
            self._asked(job_id).processors for job_id in (*state.running, *state.dying)
        )

    def commitments(self) -> list[Commitment]:
        """Return what was promised, by start."""
        found = [self._commitment(held) for held in self._held]
        return sorted(found, key=lambda each: (or_infinite(each.start), each.job))

    def ask(self, request: Request) -> Answer:
        """Return the answer to a request; O(jobs²) and a search."""
        if not 1 <= request.processors <= self.machine_size:
            wanted = f"asks for {request.processors} processors"
            return Answer(admitted=False, reason=f"{wanted}, the machine has {self.machine_size}")
        plan = self._module.empty_plan(self.machine_size)
        plan.resume(self.now, self._held)
        job = _job(request)
        plan.arrived(job)
        slot = plan.table.slot_of(job.id)
        # What is to be killed counts as gone in the plan.
        dying = sum(self._asked(job_id).processors for job_id in self.state.dying)
        plan.decide(self.now, HostSet.first(self.free_processors + dying))
        offered, why = plan.offered(slot) or (None, "")
        own = plan.blamed in (-1, slot)
        blamed = None if own else plan.table.jobs[plan.blamed].id
        if plan.refusals:
            reason = plan.refusals[0].reason
            return Answer(admitted=False, offered=offered, reason=reason, blamed=blamed)
        start = float(plan.starts[slot])
        return Answer(
            admitted=True,
            offered=offered,
            reason=why,
            blamed=None if offered is None else blamed,
            start=_finite(start),
            end=_finite(start + request.run_time),
            killed=[victim for victim, _ in plan.victims_of(slot)],
            moved={
                held.job.id: (_finite(held.start), _finite(float(plan.starts[place])))
                for place, held in enumerate(self._held)
                if held.end is None and plan.starts[place] != held.start
            },
        )

    def earliest_deadline(self, request: Request) -> tuple[float, Answer] | None:
        """Return the earliest deadline that would be granted, and the answer to it.

        The bisection of Islam et al. (2004, Figure 2), between the requested deadline, or
        the end of a job that starts now if the request has none or would be granted, and
        the end in the plan for the job without deadline. A user who asks for the deadline
        gets it: every one that counts as feasible was asked for. Since searches are
        heuristic, an earlier one might be granted as well.

        Returns
        -------
        tuple or None
            Deadline (seconds, absolute; not more than :data:`RESOLUTION` too late) and
            answer; None if none is granted.
        """
        request = request._replace(tolerance=0.0)
        low = request.deadline
        if low == math.inf or self.ask(request).admitted:
            low = self.now + request.run_time
            soonest = self.ask(request._replace(deadline=low))
            if soonest.admitted:
                return low, soonest
        relaxed = self.ask(request._replace(deadline=math.inf))
        if relaxed.end is None:
            return None
        return bisect_deadline(
            lambda deadline: self.ask(request._replace(deadline=deadline)),
            low,
            max(relaxed.end, low),
        )

    def _in_order_of_arrival(self) -> list[str]:
        """Return the ids of what runs and waits; what runs again keeps its place."""
        state = self.state
        now_called = {state.origin(job_id): job_id for job_id in (*state.running, *state.waiting)}
        return [now_called[job_id] for job_id in self._history.jobs if job_id in now_called]

    def _asked(self, job_id: str) -> Submitted:
        return self._history.jobs[self.state.origin(job_id)]

    def _held_job(self, job_id: str) -> Held:
        state, asked = self.state, self._asked(job_id)
        job = _job(
            Request(
                asked.processors,
                or_infinite(asked.estimate),
                state.admitted[job_id],
                asked.submission,
                job=job_id,
            )
        )
        running = state.running.get(job_id)
        return Held(
            job,
            state.waiting[job_id] if running is None else running.start,
            None if running is None else running.end,
            state.deadlines[job_id],
            None if job_id == asked.job else job.renamed(asked.job),
            state.kills.get(asked.job, 0),
        )

    def _commitment(self, held: Held) -> Commitment:
        end = held.start + held.job.estimate if held.end is None else held.end
        return Commitment(
            job=held.job.id,
            processors=held.job.processors,
            running=held.end is not None,
            start=_finite(held.start),
            end=_finite(end),
            deadline=_finite(held.deadline),
        )


def logged_scheduler(history: DecisionHistory) -> AdmissionScheduler:
    """Return a scheduler as the one that made a decision log.

    Raises
    ------
    InputError
        There is no such scheduler, or its options are wrong.
    """
    try:
        module = make_scheduler(history.header.scheduler, history.header.options)
    except InputError as error:
        raise InputError(f"{history.path}: line 1: {error}") from None
    if not isinstance(module, AdmissionScheduler):
        raise InputError(
            f"{history.path}: line 1: scheduler {history.header.scheduler!r} does not admit jobs "
            "by deadline; one that does is expected"
        )
    return module


def bisect_deadline(
    ask: Callable[[float], Answer], low: float, high: float
) -> tuple[float, Answer] | None:
    """Return the earliest deadline granted, to :data:`RESOLUTION`, and the answer.

    Parameters
    ----------
    ask
        Answers a deadline (seconds, absolute).
    low
        A deadline that is refused.
    high
        One that should be granted; if not, later ones are tried.
    """
    answer = ask(high)
    for _ in range(MOST_DOUBLINGS):
        if answer.admitted:
            break
        low, high = high, high + max(high - low, RESOLUTION)
        answer = ask(high)
    if not answer.admitted:
        return None
    while high - low > RESOLUTION:
        middle = (low + high) / 2
        found = ask(middle)
        if found.admitted:
            high, answer = middle, found
        else:
            low = middle
    # The job may end a little before: a date that a user rather reads.
    if answer.end is not None and low < answer.end < high:
        exact = ask(answer.end)
        if exact.admitted:
            return answer.end, exact
    return high, answer


def _job(request: Request) -> Job:
    qos = QosRequest(
        deadline=_finite(request.deadline),
        estimated_runtime=_finite(request.run_time),
        tolerance_factor=request.tolerance,
    )
    return Job(request.job, request.submission, request.processors, "", qos=qos)


def _finite(number: float) -> float | None:
    return number if abs(number) < math.inf else None
