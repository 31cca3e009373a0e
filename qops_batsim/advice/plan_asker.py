"""Questions to a deadline scheduler about one more job, in any state of its plan.

:class:`PlanAsker` puts the plan of a past moment together from the decision log, anew for every
question, since an answer changes the plan. :func:`earliest_promise` asks only the search of a plan
that is there, which takes a hundredth of the time. Nothing of the run or the plan is changed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import msgspec
import numpy as np

from qops_batsim.advice.history import RUNNING, DecisionHistory, JobStory, PlanState, or_infinite
from qops_batsim.errors import InputError
from qops_batsim.jobs import Job, QosRequest
from qops_batsim.platform.hostset import HostSet
from qops_batsim.scheduling.admission.bisection import earliest_deadline
from qops_batsim.scheduling.admission.feedback import promise
from qops_batsim.scheduling.admission.policy import Admission
from qops_batsim.scheduling.answers import Answer, Held
from qops_batsim.scheduling.capacity import Capacity
from qops_batsim.scheduling.decision_events import Submitted
from qops_batsim.scheduling.module import DecisionModule
from qops_batsim.scheduling.news import News
from qops_batsim.scheduling.plan import Plan
from qops_batsim.scheduling.plugins import digest_of_file
from qops_batsim.scheduling.profile import earliest_fit
from qops_batsim.scheduling.refusal import Refusal, sentence
from qops_batsim.scheduling.registry import make_scheduler
from qops_batsim.scheduling.space_sharing import SpaceSharingScheduler
from qops_batsim.timing import duration_on_grid, end_of, on_grid

RESOLUTION = 1.0
"""Seconds by which an earliest deadline may be too late."""

MOST_DOUBLINGS = 20
"""How often a deadline that is not feasible yet is put off to twice the distance."""

ANY_OFFER = 1e12
"""Tolerance factor of a user who takes any offer; 0 is that of one who takes none."""


class Commitment(msgspec.Struct, frozen=True, kw_only=True):
    """A job that the scheduler has admitted, as it was planned at one moment (seconds)."""

    job: str
    processors: int
    running: bool
    start: float | None
    """The promised one unless it runs."""
    end: float | None
    """The expected one; None, as the others, if it cannot be told."""
    deadline: float | None
    """The one that the plan aims at."""


class PlanAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """What the scheduler answers; dates in seconds."""

    admitted: bool
    """Whether it takes the job, with the requested deadline or an offered one."""
    offered: float | None = None
    """Deadline offered instead of the requested one."""
    refusal: Refusal | None = None
    """Why it does not take the job, or not as requested."""
    blamed: str | None = None
    """The job whose deadline stood in the way, if it is not the new job's own."""
    start: float | None = None
    end: float | None = None
    """Expected; the start is the promised one."""
    killed: list[str] = []
    """Full ids of the running jobs that would be killed, to be run again."""
    moved: dict[str, tuple[float | None, float | None]] = {}
    """Promised start before and after of the waiting jobs that would be moved."""

    @property
    def reason(self) -> str:
        """The refusal in words, empty for none."""
        return "" if self.refusal is None else sentence(self.refusal)


class PlanAsker:
    """Asks what a scheduler would answer in one state of its plan, ``now`` (seconds)."""

    def __init__(self, history: DecisionHistory, state: PlanState, now: float) -> None:
        self.history = history
        self.now = now
        self.state = state
        self.machine_size = history.header.processors
        self._capacity = Capacity(self.machine_size)
        self._capacity.is_final = state.is_final
        if state.present is not None:
            self._capacity.away = HostSet.first(self.machine_size - state.present)
        self.free_processors = self._capacity.present - state.used_processors
        self._module = logged_scheduler(history)
        self._held = [_held(story) for story in state.held]

    @property
    def can_answer(self) -> bool:
        """Whether the scheduler keeps a plan, which can be asked."""
        return self._empty_plan() is not None

    def _empty_plan(self) -> Plan | None:
        if not isinstance(self._module, SpaceSharingScheduler):
            return None
        plan = self._module.new_plan(self.machine_size)
        if plan is not None:
            plan.news = News.of(self._module.options)
        return plan

    def _recall(self, plan: Plan) -> None:
        """Let a search that learns from arrivals know those before this state."""
        recall = getattr(getattr(plan.policy, "search", None), "recall", None)
        if recall is None:
            return
        recall(
            [
                (
                    each.asked.date,
                    each.asked.processors,
                    duration_on_grid(or_infinite(each.asked.estimate)),
                    or_infinite(each.asked.deadline),
                )
                for each in self.state.jobs.values()
                if 1 <= each.asked.processors <= self.machine_size
            ],
            self.now,
        )

    def commitments(self) -> list[Commitment]:
        """Return what was promised, by start."""
        found = [_commitment(story) for story in self.state.held]
        return sorted(found, key=lambda each: (or_infinite(each.start), each.job))

    def ask(self, asked: Submitted) -> PlanAnswer:
        """Return the answer to a request; O(jobs²) and a search."""
        impossible = self._capacity.never_fits(asked.processors)
        if impossible:
            return PlanAnswer(admitted=False, refusal=impossible)
        plan = self._empty_plan()
        if plan is None:
            raise InputError(
                f"{self.history.path}: line 1: scheduler {self.history.header.scheduler!r} has no "
                "plan that can be asked; one whose new_plan returns a plan is expected"
            )
        plan.resume(self.now, self._held, late_news=self.state.late_news)
        self._recall(plan)
        if self.state.present is not None:
            under = {slot: self.state.under(story) for slot, story in enumerate(self.state.held)}
            plan.resizing.restore(plan, self.now, self.state.present, under)
        job = job_of(asked)
        plan.news.submitted(job, self.now)
        plan.arrived(job)
        slot = plan.table.slot_of(job.id)
        # What is to be killed counts as gone in the plan.
        dying = sum(each.asked.processors for each in self.state.dying.values())
        plan.decide(self.now, HostSet.first(self.free_processors + dying))
        answer, starts = plan.answers[slot], plan.jobs.starts
        offered, why = answer.offered, None if answer.offer is None else answer.offer.refusal
        own = answer.blamed in (-1, slot)
        blamed = None if own else plan.table.jobs[answer.blamed].id
        if answer.refusal:
            return PlanAnswer(
                admitted=False, offered=offered, refusal=answer.refusal, blamed=blamed
            )
        start = float(starts[slot])
        return PlanAnswer(
            admitted=True,
            offered=offered,
            refusal=why,
            blamed=None if offered is None else blamed,
            start=_finite(start),
            end=_finite(start + job.estimate),
            killed=[] if answer.kill is None else [answer.kill.victim.id],
            moved={
                held.job.id: (_finite(held.start), _finite(float(starts[place])))
                for place, held in enumerate(self._held)
                if held.end is None and starts[place] != held.start
            },
        )

    def earliest_deadline(self, asked: Submitted) -> tuple[float, PlanAnswer] | None:
        """Return the earliest deadline that would be granted, and the answer to it.

        The bisection of Islam et al. (2004, Figure 2), between the requested deadline, or
        the end of a job that starts now if the request has none or would be granted, and
        the end in the plan for the job without deadline. A user who asks for the deadline
        gets it: every one that counts as feasible was asked for. Since searches are
        heuristic, an earlier one might be granted as well. The deadline (seconds, absolute) is
        not more than :data:`RESOLUTION` too late; a job without estimate has none.
        """
        if asked.estimate is None:
            return None

        def answer_to(deadline: float | None) -> PlanAnswer:
            return self.ask(msgspec.structs.replace(asked, deadline=deadline, tolerance=0.0))

        low = asked.deadline
        if low is None or answer_to(low).admitted:
            low = self.now + asked.estimate
            soonest = answer_to(low)
            if soonest.admitted:
                return low, soonest
        relaxed = answer_to(None)
        if relaxed.end is None:
            return None
        return bisect_deadline(answer_to, low, max(relaxed.end, low))


def logged_scheduler(history: DecisionHistory) -> DecisionModule:
    """Return a scheduler as the one that made a decision log."""
    header = history.header
    try:
        module = make_scheduler(history.made_by or header.scheduler, header.options)
    except InputError as error:
        raise InputError(f"{history.path}: line 1: {error}") from None
    _check_file(history)
    if not module.keeps_decisions:
        raise InputError(
            f"{history.path}: line 1: scheduler {header.scheduler!r} does not admit jobs by "
            "deadline; one that does is expected"
        )
    return module


def bisect_deadline(
    ask: Callable[[float], PlanAnswer], low: float, high: float
) -> tuple[float, PlanAnswer] | None:
    """Return the earliest deadline granted (seconds), to :data:`RESOLUTION`, and the answer.

    ``low`` is refused; ``high`` should be granted, and later ones are tried if it is not.
    """
    answer = ask(high)
    for _ in range(MOST_DOUBLINGS):
        if answer.admitted:
            break
        low, high = high, high + max(high - low, RESOLUTION)
        answer = ask(high)
    if not answer.admitted:
        return None

    def works(deadline: float) -> bool:
        nonlocal answer
        found = ask(deadline)
        if found.admitted:
            answer = found
        return found.admitted

    low, high = earliest_deadline(works, low, high, resolution=RESOLUTION)
    # The job may end a little before: a date that a user rather reads.
    if answer.end is not None and low < answer.end < high:
        exact = ask(answer.end)
        if exact.admitted:
            return answer.end, exact
    return high, answer


def job_of(asked: Submitted) -> Job:
    """Return the job that asked."""
    qos = QosRequest(
        deadline=asked.deadline, estimated_runtime=asked.estimate, tolerance_factor=asked.tolerance
    )
    return Job(asked.job, asked.submission, asked.processors, "", qos=qos)


def _held(story: JobStory) -> Held:
    asked = story.asked
    job = job_of(msgspec.structs.replace(asked, job=story.name, deadline=story.promise))
    running = story.outcome == RUNNING
    return Held(
        job,
        on_grid(or_infinite(story.start) - story.late) if running else or_infinite(story.planned),
        or_infinite(story.expected_end) if running else None,
        or_infinite(story.target),
        None if story.name == asked.job else job.renamed(asked.job),
        len(story.kills),
        story.late if running else 0.0,
    )


def _commitment(story: JobStory) -> Commitment:
    asked = story.asked
    running = story.outcome == RUNNING
    start, end = (story.start, story.expected_end) if running else (story.planned, None)
    if not running and start is not None and asked.estimate is not None:
        end = start + asked.estimate
    return Commitment(
        job=story.name,
        processors=asked.processors,
        running=running,
        start=start,
        end=end,
        deadline=story.target,
    )


def _finite(number: float) -> float | None:
    return number if abs(number) < math.inf else None


def _check_file(history: DecisionHistory) -> None:
    """Refuse to ask a scheduler whose file is another one than that of the run."""
    written = history.info.sha256.get("scheduler") if history.info is not None else None
    if history.made_by is not None or written is None:
        return
    scheduler = history.header.scheduler
    if digest_of_file(scheduler) != written:
        raise InputError(
            f"{history.path}: scheduler {scheduler!r} has changed since, and may answer otherwise; "
            "its file as it was, or a new run, is expected"
        )


class Promised(NamedTuple):
    """An end that can be promised, and the start in the plan for it (seconds)."""

    end: float
    start: float


NOTHING = Promised(math.inf, math.inf)


def earliest_promise(
    plan: Plan, now: float, slot: int, *, within: float = RESOLUTION, share: float = 0.0
) -> Promised:
    """Return the earliest end that a plan could promise to a job that has just arrived.

    A bisection as in Islam et al. (2004, Figure 2), between the end with no other job waiting and
    that in the first gap of the plan, or else without deadline; :data:`NOTHING` if there is none.
    Who asks for the date gets it: it was asked for. A date before it was refused that is not more
    than ``within`` (seconds) earlier, or than a ``share`` of the time from now to it. What
    policies do beside their search, as killing, is not tried. O(log(span)) searches.
    """
    admission = plan.policy
    assert isinstance(admission, Admission)
    jobs, estimate = plan.jobs, float(plan.jobs.estimates[slot])
    question = admission.question(plan, now, slot)
    draft, count = question.draft, plan.waiting_count + 1
    asked = float(jobs.promises[slot]), float(jobs.targets[slot])

    def start_for(deadline: float) -> float:
        promise(jobs, slot, deadline, 0.0)
        if not admission.search(question).found:
            return math.inf
        place = int(np.flatnonzero(draft.order[:count] == slot)[0])
        return float(draft.starts[place])

    try:
        start = earliest_fit(question.running, now, estimate, int(jobs.processors[slot]))
        low = end_of(start, estimate)
        if low == math.inf:
            return NOTHING
        if (start := start_for(low)) < math.inf:
            return Promised(low, start)
        gap = earliest_fit(plan.profile, now, estimate, int(jobs.processors[slot]))
        high = end_of(gap, estimate)
        if high == math.inf or start_for(high) == math.inf:
            high = end_of(start_for(math.inf), estimate)
        for _ in range(MOST_DOUBLINGS):
            if high == math.inf or (start := start_for(high)) < math.inf:
                break
            high += high - low
        else:
            return NOTHING
        best = Promised(high, start)
        while max(within, share * (best.end - now)) < best.end - low < math.inf:
            middle = (low + best.end) / 2
            start = start_for(middle)
            if start == math.inf:
                low = middle
                continue
            best, end = Promised(middle, start), end_of(start, estimate)
            # The end that was found can be promised as a rule: worth a try if it is far earlier.
            if low < end <= (low + middle) / 2 and (start := start_for(end)) < math.inf:
                best = Promised(end, start)
        # The job may end a little before: a date that a user rather reads.
        end = end_of(best.start, estimate)
        if low < end < best.end and (start := start_for(end)) < math.inf:
            return Promised(end, start)
        return best
    finally:
        jobs.promises[slot], jobs.targets[slot] = asked


class EarliestPromises:
    """Notes for each new job of a simulation what could have been promised to it.

    ``responses`` are the seconds from its submission to the earliest end, by full id.
    """

    def __init__(self) -> None:
        self.responses: dict[str, float] = {}
        self._plan: Plan | None = None

    def watch(self, plan: Plan) -> None:
        """Look at every new job of a plan."""
        plan.observer, self._plan = self, plan

    def asked(self, now: float, slot: int) -> None:
        """Ask before the scheduler does; the answer to that does not depend on it."""
        plan = self._plan
        assert plan is not None
        job = plan.table.jobs[slot]
        end = earliest_promise(plan, plan.nominal(now), slot).end
        self.responses[job.id] = end - max(job.submission_time, 0.0)

    def answered(self, now: float, slot: int, answer: Answer) -> None:
        """Nothing more is to be noted."""


def deadline_plan(name: str, settings: Mapping[str, Any], machine_size: int = 1) -> Plan:
    """Return an empty plan of a scheduler; an InputError if it promises nothing."""
    module = make_scheduler(name, settings)
    plan = module.new_plan(machine_size) if isinstance(module, SpaceSharingScheduler) else None
    if plan is None or not isinstance(plan.policy, Admission):
        raise InputError(
            f"scheduler {name!r} promises nothing; one that admits jobs by deadline, as qops, is "
            "expected"
        )
    return plan


def watched_scheduler(
    name: str, settings: Mapping[str, Any], promises: EarliestPromises
) -> DecisionModule:
    """Return a deadline scheduler whose new jobs are all asked about first."""
    deadline_plan(name, settings)
    kind: Any = type(make_scheduler(name, settings))

    class Watched(kind):  # type: ignore[misc]
        def new_plan(self, machine_size: int) -> Plan | None:
            plan = super().new_plan(machine_size)
            if plan is not None:
                promises.watch(plan)
            return plan  # type: ignore[no-any-return]

    return make_scheduler(Watched, settings)
