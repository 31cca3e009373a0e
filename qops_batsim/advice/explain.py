"""Why a job was refused, delayed or killed: the story of one job in a decision log."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from qops_batsim.advice.history import DecisionHistory, or_infinite
from qops_batsim.advice.plan_asker import Commitment, PlanAsker, Request, logged_scheduler
from qops_batsim.advice.prices import Price, PriceList
from qops_batsim.advice.quote import Desk, Possible
from qops_batsim.economics.tolerance import FactorTolerance
from qops_batsim.jobs import Job, QosRequest
from qops_batsim.scheduling.decision_events import (
    Admitted,
    Ended,
    Event,
    Killed,
    Moved,
    Outlived,
    Refused,
    Started,
    Submitted,
    Withdrawn,
)
from qops_batsim.timing import PLAN_TOLERANCE

REFUSED, WAITING, RUNNING, ENDED = "refused", "waiting", "running", "ended"
"""What has become of a job at the end of the log."""


class Promise(msgspec.Struct, frozen=True, kw_only=True):
    """A promised start, and why it was promised.

    Attributes
    ----------
    date
        When it was promised (seconds).
    start
        Promised start (seconds), or None if there was none to promise.
    cause
        Cause of the move, see
        :class:`~qops_batsim.scheduling.decision_events.Moved`; ``"own admission"`` first.
    by
        The jobs that caused it.
    """

    date: float
    start: float | None
    cause: str
    by: list[str] = []


class Kill(msgspec.Struct, frozen=True, kw_only=True):
    """A run that the scheduler killed, to run the job again from scratch.

    Attributes
    ----------
    date
        When (seconds).
    by
        Full id of the job that was admitted thereby.
    again
        Full id under which the job was run again.
    wasted
        Processor-seconds of the run.
    """

    date: float
    by: str
    again: str
    wasted: float


class Explanation(msgspec.Struct, frozen=True, kw_only=True):
    """The story of a job.

    Attributes
    ----------
    run, scheduler, machine_processors
        Of which run.
    job, processors, estimate, submission, requested_deadline
        What was asked for (seconds).
    outcome
        One of :data:`REFUSED`, :data:`WAITING`, :data:`RUNNING`, :data:`ENDED`.
    reason
        Why the requested deadline was refused, in the scheduler's words.
    blamed
        The commitment that stood in the way, if it was not the job's own deadline.
    offered_deadline
        What was offered instead (seconds), or None.
    admitted_deadline
        What was promised (seconds), or None.
    price
        What the job pays for the admitted deadline, or would have for the requested one.
    earliest
        The earliest deadline that would have been promised at the submission, or None
        if there is none, or the job has no estimate.
    latest_accepted
        Latest deadline that the user would have taken (seconds), or None without a
        requested one.
    cheapest
        The latest such deadline that would have been promised: the later, the cheaper.
        None if none was acceptable.
    free_processors
        Processors that no job used when it asked.
    in_the_way
        What had been promised in the window that the job asked for, or up to its
        promised start, by start.
    waited_for
        The chain of jobs that the first promised start rested on, or for a refused job
        the start for the earliest deadline; last one first: each had to end for the one
        before it, or the job, to start.
    promises
        The promised starts of the job.
    kills
        Runs of the job that were killed.
    killed_for_it
        Full ids of the jobs that were killed to admit it.
    start, end
        When it ran (seconds), the last time if it was killed; or None.
    waited
        Seconds from submission to that start, or None.
    expected_end
        When it was expected to end at its start (seconds).
    """

    run: str
    scheduler: str
    machine_processors: int
    job: str
    processors: int
    estimate: float | None
    submission: float
    requested_deadline: float | None
    outcome: str
    reason: str = ""
    blamed: Commitment | None = None
    offered_deadline: float | None = None
    admitted_deadline: float | None = None
    price: Price | None = None
    earliest: Possible | None = None
    latest_accepted: float | None = None
    cheapest: Possible | None = None
    free_processors: int | None = None
    in_the_way: list[Commitment] = []
    waited_for: list[Commitment] = []
    promises: list[Promise] = []
    kills: list[Kill] = []
    killed_for_it: list[str] = []
    start: float | None = None
    end: float | None = None
    waited: float | None = None
    expected_end: float | None = None


def explain(
    history: DecisionHistory, job_id: str, prices: PriceList, *, tolerance: float | None = None
) -> Explanation:
    """Tell the story of a job.

    Parameters
    ----------
    history
        The run.
    job_id
        Full id.
    prices
        What deadlines cost.
    tolerance
        The user's tolerance factor; None: the job's own, else the scheduler's.

    Raises
    ------
    InputError
        The log cannot be used.
    """
    asked = history.jobs[job_id]
    story = _Story(history, job_id)
    asker = PlanAsker(history, history.state_before(job_id), asked.date)
    request = Request(
        asked.processors,
        or_infinite(asked.estimate),
        or_infinite(asked.deadline),
        asked.submission,
        asked.tolerance,
        asked.job,
    )
    desk = Desk(asker, request, prices, of_user=asked.user_deadline is not False)
    commitments = asker.commitments()
    fits = asked.processors <= asker.machine_size
    earliest = desk.earliest() if fits else None
    latest = _latest_accepted(history, asked, tolerance)
    paid = story.admitted_deadline if story.admitted else asked.deadline
    return Explanation(
        run=history.name,
        scheduler=history.header.scheduler,
        machine_processors=asker.machine_size,
        job=job_id,
        processors=asked.processors,
        estimate=asked.estimate,
        submission=asked.submission,
        requested_deadline=asked.deadline,
        outcome=story.outcome,
        reason=story.reason,
        blamed=next((each for each in commitments if each.job == story.blamed), None),
        offered_deadline=story.offered,
        admitted_deadline=story.admitted_deadline,
        price=desk.price(paid),
        earliest=earliest,
        latest_accepted=latest,
        cheapest=desk.cheapest(latest, earliest),
        free_processors=asker.free_processors,
        in_the_way=_in_the_way(commitments, asked, story.promises),
        waited_for=_chain(history, job_id, story, commitments, earliest),
        promises=story.promises,
        kills=story.kills,
        killed_for_it=story.killed_for_it,
        start=story.start,
        end=story.end if story.outcome == ENDED else None,
        waited=None if story.start is None else story.start - asked.submission,
        expected_end=story.expected_end,
    )


class _Story:
    """What the log says of one job, by whichever of its ids."""

    def __init__(self, history: DecisionHistory, job_id: str) -> None:
        self.outcome = WAITING
        self.admitted = False
        self.reason = ""
        self.blamed: str | None = None
        self.offered: float | None = None
        self.admitted_deadline: float | None = None
        self.promises: list[Promise] = []
        self.kills: list[Kill] = []
        self.killed_for_it: list[str] = []
        self.start: float | None = None
        self.end: float | None = None
        self.expected_end: float | None = None
        self._processors = history.jobs[job_id].processors
        for event in history.events:
            if isinstance(event, Moved):
                for job, _, after in event.moves:
                    if history.origins.get(job, job) == job_id:
                        self._promise(event.date, after, event.cause, event.by)
                continue
            if isinstance(event, Killed) and event.by == job_id:
                self.killed_for_it.append(event.job)
            if history.origins.get(event.job, event.job) == job_id:
                self._apply(event)

    def _promise(self, date: float, start: float | None, cause: str, by: list[str]) -> None:
        self.promises.append(Promise(date=date, start=start, cause=cause, by=by))

    def _apply(self, event: Event) -> None:
        match event:
            case Refused():
                self.outcome, self.reason = REFUSED, event.reason
                self.blamed, self.offered = event.blamed, event.offered
            case Admitted():
                self.admitted = True
                self.admitted_deadline = event.deadline
                if event.offered:
                    self.offered, self.blamed = event.deadline, event.blamed
                    self.reason = event.reason
                self._promise(event.date, event.start, "own admission", [])
            case Started():
                self.outcome, self.start, self.expected_end = RUNNING, event.date, event.end
            case Outlived():
                self.expected_end = event.end
            case Killed():
                self._killed(event)
            case Ended():
                self.end = event.date
                if self.outcome == RUNNING:
                    self.outcome = ENDED
            case Withdrawn():
                # It had ended by itself, which the log said just before.
                self.outcome = ENDED
                self.kills.pop()

    def _killed(self, event: Killed) -> None:
        assert self.start is not None
        wasted = self._processors * (event.date - self.start)
        self.kills.append(Kill(date=event.date, by=event.by, again=event.again, wasted=wasted))
        self.outcome = WAITING
        self._promise(event.date, event.start, "killed", [event.by])


def _latest_accepted(
    history: DecisionHistory, asked: Submitted, tolerance: float | None
) -> float | None:
    """Return the latest deadline that the user would take (seconds)."""
    if asked.deadline is None:
        return None
    factor = asked.tolerance if tolerance is None else tolerance
    if factor is None:
        factor = _scheduler_tolerance(history, asked)
    arrival = max(asked.submission, 0.0)
    return max(asked.deadline, arrival + factor * (asked.deadline - arrival))


def _scheduler_tolerance(history: DecisionHistory, asked: Submitted) -> float:
    """Return what the scheduler's options say of the user's tolerance; 1 if nothing."""
    speaks = getattr(logged_scheduler(history), "tolerance", None)
    users = speaks() if callable(speaks) else None
    if not isinstance(users, FactorTolerance):
        return 1.0
    qos = QosRequest(deadline=asked.deadline)
    return users.factor_of(Job(asked.job, asked.submission, asked.processors, "", qos=qos))


def _in_the_way(
    commitments: Iterable[Commitment], asked: Submitted, promises: list[Promise]
) -> list[Commitment]:
    """Return what overlaps the window that the job asked for, or in which it had to wait."""
    until = or_infinite(promises[0].start if promises else asked.deadline)
    if promises and until <= asked.date + PLAN_TOLERANCE:
        return []  # It started at once.
    return [
        each
        for each in commitments
        if or_infinite(each.start) < until - PLAN_TOLERANCE
        and or_infinite(each.end) > asked.date + PLAN_TOLERANCE
    ]


def _chain(
    history: DecisionHistory,
    job_id: str,
    story: _Story,
    commitments: list[Commitment],
    earliest: Possible | None,
) -> list[Commitment]:
    """Return the jobs that had to end one after the other for the job to start."""
    date = history.jobs[job_id].date
    if story.promises:
        start = story.promises[0].start
        asker = PlanAsker(history, history.state_after_admission(job_id), date)
        commitments = asker.commitments()
    else:
        start = None if earliest is None else earliest.start
    others = [each for each in commitments if each.job != job_id]
    chain: list[Commitment] = []
    while start is not None and start > date + PLAN_TOLERANCE:
        ending = [each for each in others if abs(or_infinite(each.end) - start) <= PLAN_TOLERANCE]
        if not ending:
            break
        found = max(ending, key=lambda each: (each.processors, each.job))
        chain.append(found)
        others.remove(found)
        if found.running:
            break
        start = found.start
    return chain
