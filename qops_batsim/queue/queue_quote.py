"""Quotes of ends that can be promised to new jobs, given a machine's queue as it is now."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from heapq import heappop, heappush
from threading import Lock
from typing import Any

import msgspec

from qops_batsim.core.hostset import HostSet
from qops_batsim.core.job import RUNNING, WAITING, Job
from qops_batsim.core.plan import Plan
from qops_batsim.core.refusal import Refusal, sentence
from qops_batsim.errors import require
from qops_batsim.garbage import without_garbage_collection
from qops_batsim.jobs import QosRequest
from qops_batsim.limits import MAX_SECONDS
from qops_batsim.queue.node_plan import NodePlan
from qops_batsim.queue.queue_state import Ask, QueuedJob, QueueState, in_line, limit_of
from qops_batsim.queue.unexplained_waits import why_no_date, without_date
from qops_batsim.running.search_asker import (
    NO_END,
    EarliestEnd,
    SearchAsker,
    deadline_scheduler,
    resume,
)
from qops_batsim.schedulers.standing import places_of, standing_of_jobs
from qops_batsim.texts import date_text
from qops_batsim.timing import DEADLINE_TOLERANCE, duration_on_grid, end_of

WITHIN = 60.0
SHARE = 0.01
"""Tolerances of an earliest end: a minute, or a hundredth of the time until then."""

NEW_JOB = "the new job"


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
    start: float | None = None
    end: float | None = None
    wait: float | None = None
    """From now to the start."""
    response: float | None = None
    """From now to the end."""
    end_date: str | None = None
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

    @without_garbage_collection()
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
        self._nodes = None
        if state.nodes is not None:
            self._nodes = NodePlan(state, lambda job: _running(job, state.now).end)
        nodes = self._nodes
        running = [_running(job, state.now) for job in state.holding]
        if nodes is not None:
            running = nodes.running
        waiting, self.late = waiting_jobs(state, running, may_wait=may_wait, nodes=nodes)
        self.waiting = len(waiting)
        if nodes is None:
            self.unexplained, _ = without_date(state, {job.id: job.start for job in waiting})
        else:
            self.unexplained, _ = nodes.without_date({job.id: job for job in waiting})

        module = deadline_scheduler(scheduler, settings or {})
        listed = [*running, *waiting]
        shared = {} if nodes is None else {job.id: places_of(job) for job in listed}
        on = {} if nodes is None else {j.id: HostSet(j.request.hosts_mask()) for j in running}
        snapshot = standing_of_jobs(listed, 0.0, hosts=on, shared=shared, are_known=True)
        size, machine = (state.processors, None) if nodes is None else (nodes.size, nodes.machine)
        self._scheduler = resume(module, snapshot, size, amounts=machine)
        # One job for whatever is asked about: the plan never takes it.
        self._job = Job(NEW_JOB, 0.0, 1, "", qos=QosRequest(estimated_runtime=1.0))
        self._scheduler.plan.arrived(self._job)
        self._asker = SearchAsker(self._scheduler, self._job)

    def about(self) -> dict[str, Any]:
        """Return what is not sure of the queue, and which waits the plan does not explain, where
        there is any, for JSON.
        """
        doubts = {"unsure": self.state.unsure, "unexplained": self.unexplained}
        return {name: jobs for name, jobs in doubts.items() if jobs}

    def ask(self, ask: Ask) -> QueueAnswer:
        """Return the earliest end that can be promised to a job, and whether its deadline can be;
        the queue does not change.
        """
        state = self.state
        now = state.now
        state.check_width(ask.processors)
        ask.check_counted(state)
        for name, value in (("time", ask.time), ("deadline", ask.deadline)):
            accepted = f"a number of seconds above 0, up to {MAX_SECONDS:g}, is accepted"
            require(value is None or 0 < value <= MAX_SECONDS, name, value, accepted)

        if self.unexplained:
            reason = why_no_date(self.unexplained[0])
            found = NO_END
        else:
            refusal, found = self._search(ask)
            reason = (
                "" if refusal is None else sentence(refusal, lambda date: date_text(now + date))
            )

        dates: dict[str, Any] = {}
        if found.end < math.inf:
            dates = {
                "start": now + found.start,
                "end": now + found.end,
                "wait": found.start,
                "response": found.end,
                "end_date": date_text(now + found.end),
            }
        return QueueAnswer(
            processors=ask.processors,
            time=ask.time,
            deadline=None if ask.deadline is None else now + ask.deadline,
            admitted=None if ask.deadline is None else not reason,
            reason=reason,
            **dates,
        )

    def _search(self, ask: Ask) -> tuple[Refusal | None, EarliestEnd]:
        """Return why the job's deadline cannot be promised, if so, and the earliest end that can
        be.
        """
        with self._lock:
            job = self._job
            job.processors = ask.processors
            job.reserved = ask.processors
            if self._nodes is not None:
                # Its hosts are those of the scheduler's own layout of the machine.
                asked = self._nodes.asked(ask)
                job.hosts_asked = asked
                hosts = asked.parts[0].hosts
                job.processors = hosts
                job.reserved = hosts
                job.request = self._scheduler.manager.use.layout.request(asked, hosts)
                job.size = job.request.size
                if job.request.refusal is not None:
                    return job.request.refusal, NO_END
            job.estimate = ask.time + self.state.margin
            job.duration = duration_on_grid(job.estimate)
            refusal = None if ask.deadline is None else self._asker.refusal(ask.deadline)
            return refusal, self._asker.earliest(within=WITHIN, share=SHARE)


def waiting_jobs(
    state: QueueState, running: Sequence[Job], *, may_wait: bool, nodes: NodePlan | None = None
) -> tuple[list[Job], list[str]]:
    """Return the waiting jobs of a queue with planned starts (now is 0 s), and the ids of those
    that would end after their promise.
    """
    waiting = sorted((job for job in state.jobs if job.start is None), key=in_line)
    lanes = _lanes(state)
    planned = _planned(state, running, waiting, lanes, nodes)
    late = _late(planned, state.now)
    if late:
        # First those to whom something was promised, the least laxity first.
        waiting.sort(key=lambda job: (job.deadline or math.inf) - (job.estimate or 0))
        other = _planned(state, running, waiting, lanes, nodes)
        fewer = _late(other, state.now)
        if len(fewer) < len(late):
            planned = other
            late = fewer

    held: list[Job] = []
    for job, placed in planned:
        start = placed.start
        end = _end_of(job, start)
        target = math.inf if may_wait else end
        if job.deadline is not None and end < math.inf:
            target = max(job.deadline - state.now, end)
        # No search may move tasks that wait for each other.
        fixed = start if start < math.inf and job.array in lanes else None
        deadline = None if target == math.inf else target
        if nodes is None:
            kept = _job(job, state.now, deadline, fixed)
        else:
            qos = QosRequest(deadline=deadline, estimated_runtime=job.estimate, start=fixed)
            kept = nodes.as_placed(placed, qos)
        kept.phase = WAITING
        kept.start = start
        kept.target = target
        held.append(kept)
    return held, late


def _lanes(state: QueueState) -> dict[str, list[float]]:
    """Return, for each job array that limits its running tasks, the sorted seconds from now at
    which a further task may start (one for each task that may run at once).
    """
    jobs = [*state.jobs, *state.apart]
    tasks = Counter(job.array for job in jobs)
    limits = {job.array: job.at_once for job in jobs if 0 < job.at_once < tasks[job.array]}
    ends: dict[str, list[float]] = {array: [0.0] * most for array, most in limits.items()}
    for job in jobs:
        if job.start is not None and job.array in ends:
            ends[job.array].append(_running(job, state.now).end)
    return {array: sorted(dates)[-limits[array] :] for array, dates in ends.items()}


def _planned(
    state: QueueState,
    running: Sequence[Job],
    waiting: Sequence[QueuedJob],
    lanes: Mapping[str, Sequence[float]],
    nodes: NodePlan | None,
) -> list[tuple[QueuedJob, Job]]:
    """Plan the waiting jobs in their order, each at its earliest fit; return them with jobs that
    have their starts (s from now).
    """
    plan: Any = nodes.plan() if nodes is not None else Plan(state.processors)
    if nodes is None:
        plan.running = list(running)
        plan.reserve_plan(0.0)
    free = {array: list(ends) for array, ends in lanes.items()}
    planned: list[tuple[QueuedJob, Job]] = []
    for job in waiting:
        lane = free.get(job.array)
        after = 0.0 if lane is None else heappop(lane)
        placed = _job(job, state.now, None)
        if nodes is None:
            plan.place(placed, after)
        else:
            qos = QosRequest(estimated_runtime=job.estimate)
            placed = nodes.place(plan, job, qos, placed.submission_time, after)
        planned.append((job, placed))
        if lane is not None:
            heappush(lane, _end_of(job, placed.start))
    return planned


def _late(planned: Sequence[tuple[QueuedJob, Job]], now: float) -> list[str]:
    """Return the ids of the jobs that would end after their promise."""
    return [
        job.id
        for job, placed in planned
        if job.deadline is not None
        and _end_of(job, placed.start) > job.deadline - now + DEADLINE_TOLERANCE
    ]


def _end_of(job: QueuedJob, start: float) -> float:
    """Return the end of a job that starts at ``start`` and runs to its limit (s from now)."""
    return end_of(start, job.estimate or math.inf)


def _running(job: QueuedJob, now: float) -> Job:
    """Return a running job of the queue as one of a plan, in which now is 0 s."""
    assert job.start is not None
    held = _job(job, now, None)
    held.phase = RUNNING
    held.start = job.start - now
    held.end = limit_of(job) - now
    if held.end <= 0:
        # It outlives its estimate: as every plan has it, it is taken to run as long again.
        held.end = max(-held.start, 1.0)
    held.target = math.inf if job.deadline is None else job.deadline - now
    return held


def _job(job: QueuedJob, now: float, deadline: float | None, start: float | None = None) -> Job:
    """Return a job of the queue as one of a plan, in which now is 0 s."""
    submission = min(0.0, (job.submission or now) - now)
    qos = QosRequest(deadline=deadline, estimated_runtime=job.estimate, start=start)
    return Job(job.id, submission, job.processors, "", qos=qos)
