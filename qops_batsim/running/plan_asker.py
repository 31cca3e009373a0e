"""Asking a deadline scheduler what it would answer to one more job, at any moment of its plan.

:class:`PlanAsker` rebuilds the plan of a past moment from the decision log, again for every
question, since an answer changes the plan. :class:`SearchAsker` asks only the search of a plan that
is there, which takes a hundredth of the time. Nothing of the run or the plan is changed.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import reduce
from operator import or_
from typing import Any, NamedTuple

import msgspec

from qops_batsim.core.answers import AdmissionAnswer
from qops_batsim.core.capacity import Capacity, MaintenanceWindow
from qops_batsim.core.decision_events import Submitted
from qops_batsim.core.hostset import HostSet
from qops_batsim.core.job import RUNNING as RUNS
from qops_batsim.core.job import WAITING, Job
from qops_batsim.core.news import News
from qops_batsim.core.qos_log import QosLog
from qops_batsim.core.refusal import Refusal, free_text, no_time, sentence
from qops_batsim.core.scheduler import ResourceManager, Scheduler
from qops_batsim.errors import InputError, shown
from qops_batsim.jobs import QosRequest
from qops_batsim.protocol.port import SchedulerModule, make_scheduler
from qops_batsim.running.bisection import earliest_deadline
from qops_batsim.running.history import RUNNING, DecisionHistory, JobStory, PlanState, or_infinite
from qops_batsim.schedulers.deadline import DeadlineScheduler
from qops_batsim.schedulers.loading.plugins import scheduler_of_data
from qops_batsim.schedulers.planning import PlanScheduler
from qops_batsim.schedulers.registry import check_code
from qops_batsim.schedulers.restarting import RestartingQops
from qops_batsim.timing import (
    DEADLINE_TOLERANCE,
    PLAN_TOLERANCE,
    duration_on_grid,
    end_of,
    on_grid,
    up_to_grid,
)

RESOLUTION = 1.0
"""Seconds by which an earliest deadline may be too late."""

ANY_OFFER = 1e12
"""Tolerance factor of a user who takes any offer; 0 is that of one who takes none."""


class Commitment(msgspec.Struct, frozen=True, kw_only=True):
    """An admitted job and the time for which it is planned: its planned start and end as of one
    moment (seconds).
    """

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
    """A scheduler's answer to a request to admit one more job; dates in seconds."""

    admitted: bool
    """Whether it takes the job, with the requested deadline or an offered one."""
    offered: float | None = None
    """Deadline offered instead of the requested one."""
    refusal: Refusal | None = None
    """Why it does not take the job, or not as requested."""
    blamed: str | None = None
    """The job whose deadline blocked it, if it is not the new job's own."""
    start: float | None = None
    end: float | None = None
    """Expected; the start is the promised one."""
    killed: list[str] = []
    """Full ids of the running jobs that would be killed, to be run again."""
    moved: dict[str, tuple[float | None, float | None]] = {}
    """Promised start before and after of the waiting jobs that would be moved."""

    @property
    def reason(self) -> str:
        """Return why the job was not admitted as requested, as a sentence, "" if it was."""
        return "" if self.refusal is None else sentence(self.refusal)


class AskedManager(ResourceManager):
    """Resource manager for a scheduler that only answers questions about a job: it starts nothing,
    and records which jobs would be killed.

    Attributes
    ----------
    hosts
        The hosts (bits) of the running jobs by id, as far as they matter.
    killed
        Ids of the jobs that would be killed.
    """

    def __init__(self, machine_size: int, now: float, options: Any) -> None:
        super().__init__(machine_size)
        self.now, self.news, self.qos_log = now, News.of(options), QosLog()
        self.hosts: Mapping[str, int] = {}
        self.killed: list[str] = []

    def start_job(self, job: Job, hosts: object) -> None:
        """Do nothing: a scheduler that only answers questions starts no job."""

    def reject_job(self, job: Job, reason: object) -> None:
        """Do nothing: the reason of the refusal is in the scheduler's answer."""

    def kill_job(self, job: Job) -> None:
        self.killed.append(job.id)

    def check_saves(self, job: Job) -> None:
        """Do nothing: no execution profile is known here."""

    def note_metadata(self, job: Job, text: str) -> None:
        """Do nothing: no engine reads a job's metadata here."""

    def call_at(self, date: float) -> None:
        """Do nothing: a scheduler that only answers questions is never woken up."""

    def hosts_of(self, job: Job) -> int:
        return self.hosts.get(job.id, 0)

    def count_free(self) -> None:
        """Do nothing: the number of free hosts stays as it was given."""


class PlanAsker:
    """Asks the scheduler of a finished run about one more job, given the scheduler's plan at the
    date ``now`` (seconds).
    """

    def __init__(self, history: DecisionHistory, state: PlanState, now: float) -> None:
        self.history = history
        self.now = now
        self.state = state
        self.machine_size = history.header.processors
        self._capacity = _capacity_at(history, state)
        self._scheduler = logged_scheduler(history)
        self._hosts: dict[str, HostSet] = {}
        self.free_processors = self._capacity.present - state.used_processors
        if self._capacity.windows:
            self._refuse_moved()
            self._hosts = self._running_hosts()
            closed = self._capacity.closed(drains=not getattr(self._scheduler, "by_host", True))
            used = reduce(or_, self._hosts.values(), closed)
            self.free_processors = self.machine_size - len(used)

    def _refuse_moved(self) -> None:
        """Raise InputError if maintenance moved the fixed start of a waiting job, since the
        decision log does not tell the new start.
        """
        for story in self.state.held:
            begin = story.planned
            if story.asked.start is None or begin is None or story.outcome == RUNNING:
                continue
            end = begin + or_infinite(story.estimate_left)
            windows = [w for w in self._capacity.windows if w.since < end and begin < w.until]
            away = reduce(or_, (window.hosts for window in windows), HostSet())
            if windows and story.asked.processors > self._capacity.present - len(away):
                raise InputError(
                    f"{self.history.path}: job {story.name} was promised a start at "
                    f"{begin:g} s, but maintenance that was announced later moves this "
                    "start, and the log does not tell where to; a moment before the "
                    "announcement, or after the job's start, is expected"
                )

    def _running_hosts(self) -> dict[str, HostSet]:
        """Return the hosts of each job that runs or is being killed, by its full id (``w0!15``)."""
        running = [story.name for story in self.state.held if story.outcome == RUNNING]
        try:
            return {name: self.history.allocations[name] for name in (*running, *self.state.dying)}
        except KeyError as error:
            raise InputError(
                f"{self.history.path}: the run had maintenance, but the hosts of job "
                f"{shown(str(error.args[0]))} are not known; the run's other files (…_jobs.csv) "
                "are expected next to the log"
            ) from None

    @property
    def can_answer(self) -> bool:
        """Whether the scheduler keeps a plan of starts and so can be asked about a new job."""
        return isinstance(self._scheduler, PlanScheduler)

    def _recall(self, scheduler: RestartingQops) -> None:
        """Let the scheduler count, by processors and estimate, the jobs that were submitted before
        the moment asked about.
        """
        for each in self.state.jobs.values():
            asked = each.asked
            if asked.start is None and 1 <= asked.processors <= self.machine_size:
                scheduler.count(asked.processors, duration_on_grid(or_infinite(asked.estimate)))

    def commitments(self) -> list[Commitment]:
        """Return the waiting and running jobs with their planned starts and ends, in the order of
        the starts.
        """
        found = [_commitment(story) for story in self.state.held]
        return sorted(found, key=lambda each: (or_infinite(each.start), each.job))

    def ask(self, asked: Submitted) -> PlanAnswer:
        """Return what the scheduler would answer to a request to admit one more job; the run is not
        changed. O(jobs²) and one search.
        """
        impossible = self._capacity.never_fits(asked.processors)
        if impossible:
            return PlanAnswer(admitted=False, refusal=impossible)
        scheduler, waiting = self._restored()
        plan, manager = scheduler.plan, scheduler.manager
        planned = [job.start for job in waiting]
        # What is to be killed counts as gone in the plan.
        dying = sum(each.asked.processors for each in self.state.dying.values())
        manager.free = self.free_processors + dying
        job = job_of(asked)
        job.phase = WAITING
        scheduler.submitted(job)
        scheduler.decide()
        assert plan.log is not None
        assert isinstance(manager, AskedManager)
        answer: AdmissionAnswer = plan.log.worded.get(job.number, AdmissionAnswer())
        offered, why = answer.offered, None if answer.offer is None else answer.offer.refusal
        own = answer.blamed in (-1, job.number)
        blamed = None if own else plan.log.jobs[answer.blamed][0]
        if answer.refusal:
            return PlanAnswer(
                admitted=False, offered=offered, refusal=answer.refusal, blamed=blamed
            )
        return PlanAnswer(
            admitted=True,
            offered=offered,
            refusal=why,
            blamed=None if offered is None else blamed,
            start=_finite(job.start),
            end=_finite(job.start + job.estimate),
            killed=manager.killed,
            moved={
                held.id: (_finite(start), _finite(held.start))
                for held, start in zip(waiting, planned, strict=True)
                if held.start != start
            },
        )

    def _restored(self) -> tuple[PlanScheduler, list[Job]]:
        """Return a scheduler whose plan is that of the moment asked about, and the jobs that wait
        in it. O(jobs²).
        """
        scheduler, state, now = self._scheduler, self.state, up_to_grid(float(self.now))
        if not isinstance(scheduler, PlanScheduler):
            raise InputError(
                f"{self.history.path}: line 1: scheduler {self.history.header.scheduler!r} keeps "
                "no plan of starts, so it cannot be asked about a new job; the log of a scheduler "
                "that keeps one (a PlanScheduler, as qops) is expected"
            )
        manager = AskedManager(self.machine_size, self.now, scheduler.options)
        if state.late_news:
            manager.news.mark_late()
        scheduler.logs = True
        scheduler.begin(manager)
        plan = scheduler.plan
        if state.late_news:
            scheduler.hear_late()
        if isinstance(scheduler, RestartingQops):
            self._recall(scheduler)
        held = [_held(story) for story in state.held]
        if state.present is not None:
            capacity = manager.capacity = self._capacity
            manager.hosts = {name: hosts.mask for name, hosts in self._hosts.items()}
            plan.present = plan.everything = capacity.present
            plan.is_final = capacity.is_final
            for story, job in zip(state.held, held, strict=True):
                if not capacity.windows:
                    job.reserved -= state.under(story)
        plan.resume(now, held)
        if state.present is not None and self._capacity.windows:
            scheduler.refit()
            plan.is_resized = False
            plan.reserve_plan(now)
        return scheduler, [job for job in held if job.phase == WAITING]

    def earliest_deadline(self, asked: Submitted) -> tuple[float, PlanAnswer] | None:
        """Return the earliest deadline that would be granted, with the scheduler's answer to it.

        The bisection of Islam et al. (2004, Figure 2), between the requested deadline, or
        the end of a job that starts now if the request has none or would be granted, and
        the end in the plan for the job without deadline. A user who asks for the deadline
        gets it: every one that counts as feasible was asked for. Since searches are
        heuristic, an earlier one might be granted as well. The deadline (seconds, absolute) is
        not more than :data:`RESOLUTION` too late; a job without estimate has none.
        """
        if asked.estimate is None:
            return None

        def grant(deadline: float | None) -> PlanAnswer | None:
            answer = self.ask(msgspec.structs.replace(asked, deadline=deadline, tolerance=0.0))
            return answer if answer.admitted else None

        low = asked.deadline
        if low is None or grant(low) is not None:
            low = self.now + asked.estimate
            soonest = grant(low)
            if soonest is not None:
                return low, soonest
        relaxed = grant(None)
        if relaxed is None or relaxed.end is None:
            return None
        found = earliest_deadline(
            grant,
            low,
            max(relaxed.end, low),
            resolution=lambda deadline: RESOLUTION,
            planned_end=lambda answer: or_infinite(answer.end),
        )
        return None if found is None else (found.deadline, found.answer)


def _capacity_at(history: DecisionHistory, state: PlanState) -> Capacity:
    """Return the hosts that are part of the machine in a state of the scheduler, and the
    maintenance announced by then.

    The log tells how many hosts are there; which these are, and when they have maintenance, the
    description of the run does.
    """
    size, info, date = history.header.processors, history.info, state.sized + PLAN_TOLERANCE
    capacity = Capacity(size)
    capacity.is_known = True
    capacity.is_final = state.is_final
    capacity.is_planned = True
    if state.present is None:
        return capacity
    capacity.away = HostSet.first(size - state.present)
    if not history.had_maintenance(date):
        return capacity
    known = [] if info is None else info.maintenance
    capacity.windows = [
        MaintenanceWindow(HostSet.parse(each.hosts), each.since, each.until, each.since <= date)
        for each in known
        if each.announced <= date < each.until
    ]
    if info is not None and known:
        gone = (each.hosts for each in info.outages if each.since <= date < each.until)
        capacity.away = reduce(or_, map(HostSet.parse, gone), HostSet())
        for window in capacity.windows:
            capacity.away -= window.hosts if window.has_begun else HostSet()
    if not known or capacity.present != state.present:
        raise InputError(
            f"{history.path}: hosts had maintenance at {state.sized:g} s or before, but it is not "
            "known which hosts and when; a run whose description (…_run.json) lists its "
            "outages and maintenance is expected"
        )
    return capacity


def logged_scheduler(history: DecisionHistory) -> Scheduler:
    """Return a scheduler with the same options as the one that wrote a decision log."""
    header, made_by = history.header, history.made_by
    written = history.info.sha256.get("scheduler") if history.info is not None else None
    name = header.scheduler
    try:
        if made_by is None:
            name = scheduler_of_data(name, history.code, sha256=written)
        module = make_scheduler(made_by or name, header.options)
        if made_by is None and history.info is not None:
            check_code(name, history.info.code)
    except InputError as error:
        raise InputError(f"{history.path}: line 1: {error}") from None
    if not module.scheduler.keeps_decisions:
        raise InputError(
            f"{history.path}: line 1: scheduler {header.scheduler!r} does not admit jobs by "
            "deadline; the log of a scheduler that does, as qops, is expected"
        )
    return module.scheduler


def job_of(asked: Submitted) -> Job:
    """Return the job of an admission request in the form that schedulers work with."""
    qos = QosRequest(
        deadline=asked.deadline,
        estimated_runtime=asked.estimate,
        tolerance_factor=asked.tolerance,
        rerunnable=asked.rerunnable,
        checkpoint=asked.checkpoint,
        start=asked.start,
    )
    return Job(asked.job, asked.submission, asked.processors, "", qos=qos)


def _held(story: JobStory) -> Job:
    """Return a waiting or running job in the form in which the scheduler's plan contains it."""
    told = {"job": story.name, "deadline": story.promise, "estimate": story.estimate_left}
    job = job_of(msgspec.structs.replace(story.asked, **told))
    job.target, job.kills = or_infinite(story.target), len(story.kills)
    job.phase, job.start = WAITING, or_infinite(story.planned)
    if story.outcome == RUNNING:
        job.phase, job.lag = RUNS, story.late
        job.start = on_grid(or_infinite(story.start) - story.late)
        job.end = or_infinite(story.expected_end)
    return job


def _commitment(story: JobStory) -> Commitment:
    asked = story.asked
    running = story.outcome == RUNNING
    start, end = (story.start, story.expected_end) if running else (story.planned, None)
    left = story.estimate_left
    if not running and start is not None and left is not None:
        end = start + left
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


class EarliestEnd(NamedTuple):
    """The earliest end that can be promised to a job, and its planned start (seconds)."""

    end: float
    start: float


NO_END = EarliestEnd(math.inf, math.inf)


class SearchAsker:
    """Tries various deadlines for one new job with the admission search of a deadline scheduler,
    without changing its plan.

    The plan stays as it is, and so does what the job asked for. What schedulers do besides their
    search, such as killing, is not tried.
    """

    def __init__(self, scheduler: DeadlineScheduler, job: Job) -> None:
        self._scheduler, self._job = scheduler, job
        self._now = scheduler.plan.nominal()
        scheduler.prepare()

    def start_for(self, deadline: float) -> float | None:
        """Return the start that would be planned for the new job with this deadline (both in
        seconds), None if the deadline is refused.
        """
        return self._job.trial if self._refusal(deadline) is None else None

    def refusal(self, deadline: float) -> Refusal | None:
        """Return why the new job is refused this deadline (seconds), None if it is not."""
        duration, left = self._job.duration, deadline - self._now
        if duration > left + DEADLINE_TOLERANCE:
            return no_time(duration, left, deadline)
        return self._refusal(deadline)

    def earliest(self, *, within: float = RESOLUTION, share: float = 0.0) -> EarliestEnd:
        """Return the earliest end that can be promised to the new job, :data:`NO_END` if none can.

        A bisection as in Islam et al. (2004, Figure 2), between the end with no other job waiting
        and that in the first gap of the plan, or else without deadline. The end that is
        returned was tried and can be promised; an end that is earlier by at most ``within``
        (seconds), or by a ``share`` of the time from now to it, was refused. O(log(span)) searches.
        """
        scheduler, job, now = self._scheduler, self._job, self._now
        duration, processors = job.duration, job.processors

        def planned_end(start: float) -> float:
            return end_of(start, duration)

        low = planned_end(scheduler.running.earliest_fit(now, duration, processors))
        if low == math.inf:
            return NO_END
        start = self.start_for(low)
        if start is not None:
            return EarliestEnd(low, start)
        high = planned_end(scheduler.plan.profile.earliest_fit(now, duration, processors))
        start = None if high == math.inf else self.start_for(high)
        if start is None:
            relaxed = self.start_for(math.inf)
            high = math.inf if relaxed is None else planned_end(relaxed)
            if high == math.inf:
                return NO_END
        found = earliest_deadline(
            self.start_for,
            low,
            high,
            granted=start,
            resolution=lambda deadline: max(within, share * (deadline - now)),
            planned_end=planned_end,
        )
        return NO_END if found is None else EarliestEnd(found.deadline, found.answer)

    def _refusal(self, deadline: float) -> Refusal | None:
        job = self._job
        asked = job.promise, job.target
        job.promise = job.target = deadline
        try:
            refusal = self._scheduler.try_admission(job)
        finally:
            job.promise, job.target = asked
        if refusal is None or isinstance(refusal, Refusal):
            return refusal
        return free_text(str(refusal))


class EarliestPromises:
    """Records, for each new job of a simulation, the earliest end that could be promised to it.

    ``responses`` are the seconds from its submission to the earliest end, by full id.
    """

    def __init__(self) -> None:
        self.responses: dict[str, float] = {}

    def ask(self, scheduler: DeadlineScheduler, job: Job) -> None:
        """Record the earliest end that the scheduler could promise to a new job; the scheduler's
        own answer does not change.
        """
        end = SearchAsker(scheduler, job).earliest().end
        self.responses[job.id] = end - job.arrival


def deadline_scheduler(name: str, settings: Mapping[str, Any]) -> DeadlineScheduler:
    """Make the scheduler of this name with these options; raise InputError unless it promises
    deadlines.
    """
    module = make_scheduler(name, settings)
    made = module.scheduler
    if not isinstance(made, DeadlineScheduler):
        raise InputError(
            f"scheduler {name!r} promises nothing; a scheduler that admits jobs by deadline, as "
            "qops, is expected"
        )
    return made


def watched_scheduler(
    name: str, settings: Mapping[str, Any], promises: EarliestPromises
) -> SchedulerModule:
    """Make a deadline scheduler that, before it answers a new job, records in ``promises`` the
    earliest end that it could promise.
    """
    made = deadline_scheduler(name, settings)
    kind: Any = type(made)

    class Watched(kind):  # type: ignore[misc]
        def answer(self, job: Job) -> None:
            promises.ask(self, job)
            super().answer(job)

    return make_scheduler(Watched, settings)
