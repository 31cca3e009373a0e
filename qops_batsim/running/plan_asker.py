"""Asking the scheduler of a finished run what it would answer to one more job, at any moment.

:class:`PlanAsker` rebuilds the plan of a past moment from the decision log, again for every
question, since an answer changes the plan. Nothing of the run is changed.
"""

from __future__ import annotations

import math
from functools import cached_property, reduce
from operator import or_

import msgspec

from qops_batsim.core.answers import AdmissionAnswer
from qops_batsim.core.capacity import Capacity, MaintenanceWindow
from qops_batsim.core.decision_events import Submitted
from qops_batsim.core.hostset import HostSet
from qops_batsim.core.job import RUNNING as RUNS
from qops_batsim.core.job import WAITING, Job
from qops_batsim.core.refusal import Refusal, sentence
from qops_batsim.errors import InputError, shown
from qops_batsim.jobs import QosRequest
from qops_batsim.protocol.port import SchedulerModule, make_scheduler
from qops_batsim.running.bisection import earliest_deadline
from qops_batsim.running.history import RUNNING, DecisionHistory, JobStory, PlanState, or_infinite
from qops_batsim.running.search_asker import RESOLUTION, resume
from qops_batsim.schedulers.loading.plugins import scheduler_of_data
from qops_batsim.schedulers.planning import PlanScheduler
from qops_batsim.schedulers.registry import check_code
from qops_batsim.schedulers.restarting import RestartingQops
from qops_batsim.schedulers.standing import Standing, standing_of_jobs
from qops_batsim.timing import (
    PLAN_TOLERANCE,
    duration_on_grid,
    on_grid,
    up_to_grid,
)

ANY_OFFER = 1e12
"""Tolerance factor of a user who takes any offer; 0 is that of one who takes none."""


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


class PlanAsker:
    """Asks the scheduler of a finished run about one more job, given the scheduler's plan at the
    date ``now`` (seconds).
    """

    def __init__(self, history: DecisionHistory, state: PlanState, now: float) -> None:
        self.history = history
        self.now = now
        self.state = state
        self.machine_size = history.header.processors
        self.machine = history.header.machine or None
        self._capacity = _capacity_at(history, state)
        self._module = logged_scheduler(history)
        if self._capacity.windows:
            self._refuse_moved()
        self._hosts = self._used_hosts()

        drains = self.machine is None and not getattr(self._module.scheduler, "by_host", True)
        used = reduce(or_, self._hosts.values(), self._capacity.closed(drains=drains))
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

    def _used_hosts(self) -> dict[str, HostSet]:
        """Return the hosts of each job that runs or is being killed, by its full id (``w0!15``):
        those that it had where maintenance is of certain hosts, else any.
        """
        state = self.state
        running = {story.name: story for story in state.held if story.outcome == RUNNING}
        running |= state.dying
        if self.machine is not None:
            return {name: _hosts_of(story, self.machine_size) for name, story in running.items()}
        if self._capacity.windows:
            try:
                return {name: self.history.allocations[name] for name in running}
            except KeyError as error:
                raise InputError(
                    f"{self.history.path}: the run had maintenance, but the hosts of job "
                    f"{shown(str(error.args[0]))} are not known; the run's other files "
                    "(…_jobs.csv) are expected next to the log"
                ) from None

        # Of those that have left under a job, only the number counts.
        there = HostSet.first(self.machine_size) - self._capacity.away
        hosts = {}
        for name, story in running.items():
            count = max(story.asked.processors - state.under.get(name, 0), 0)
            hosts[name] = there.lowest(min(count, len(there)))
            there -= hosts[name]
        return hosts

    @property
    def can_answer(self) -> bool:
        """Whether the scheduler keeps a plan of starts and so can be asked about a new job."""
        return isinstance(self._module.scheduler, PlanScheduler)

    def ask(self, asked: Submitted) -> PlanAnswer:
        """Return what the scheduler would answer to a request to admit one more job; the run is not
        changed. O(jobs²) and one search.
        """
        impossible = self._capacity.never_fits(asked.processors)
        if impossible and self.machine is None:
            return PlanAnswer(admitted=False, refusal=impossible)

        scheduler = self._resumed(asked)
        manager = self._module.manager
        log = scheduler.plan.log
        assert log is not None
        planned = [(job, job.start) for job in manager.jobs.values() if job.phase == WAITING]
        job = manager.submit(job_of(asked))
        scheduler.submitted(job)
        scheduler.decide()

        answer: AdmissionAnswer = log.worded.get(job.number, AdmissionAnswer())
        blamed = None
        if answer.blamed not in (-1, job.number):
            blamed = log.jobs[answer.blamed][0]
        if answer.refusal:
            return PlanAnswer(
                admitted=False, offered=answer.offered, refusal=answer.refusal, blamed=blamed
            )
        return PlanAnswer(
            admitted=True,
            offered=answer.offered,
            refusal=None if answer.offer is None else answer.offer.refusal,
            blamed=blamed,
            start=_finite(job.start),
            end=_finite(job.start + job.estimate),
            killed=list(manager.dying),
            moved={
                held.id: (_finite(start), _finite(held.start))
                for held, start in planned
                if held.start != start
            },
        )

    @cached_property
    def _snapshot(self) -> Standing:
        """The plan of the moment asked about. What is to be killed counts as gone in it."""
        state = self.state
        return standing_of_jobs(
            [_held(story) for story in state.held],
            up_to_grid(float(self.now)),
            hosts=self._hosts,
            capacity=None if state.present is None else self._capacity,
            shared={story.name: story.places for story in state.held if self.machine},
            is_late=state.late_news,
        )

    def _resumed(self, asked: Submitted) -> PlanScheduler:
        """Return the scheduler with the plan of the moment asked about, before it hears of the new
        job. O(jobs²).
        """
        module = self._module
        scheduler = module.scheduler
        if not isinstance(scheduler, PlanScheduler):
            raise InputError(
                f"{self.history.path}: line 1: scheduler {self.history.header.scheduler!r} keeps "
                "no plan of starts, so it cannot be asked about a new job; the log of a scheduler "
                "that keeps one (a PlanScheduler, as qops) is expected"
            )
        # The run has found out that jobs with checkpoints can be resumed.
        profiles = {asked.job.partition("!")[0]: {"": {"type": "delay"}}}
        scheduler.logs = True
        module.told_at(self.now)
        resume(module, self._snapshot, self.machine_size, profiles, self.machine)

        if isinstance(scheduler, RestartingQops):
            # It counts the jobs that were submitted before the moment asked about.
            for story in self.state.jobs.values():
                known = story.asked
                if known.start is None and 1 <= known.processors <= self.machine_size:
                    estimate = duration_on_grid(or_infinite(known.estimate))
                    scheduler.count(known.processors, estimate)
        if self.state.present is not None:
            # What maintenance reserves follows from the hosts of running jobs.
            scheduler.refit()
            scheduler.plan.is_resized = False
            scheduler.plan.reserve_plan(self._snapshot.profile_start)
        return scheduler

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

        # A refused deadline to begin with.
        low = asked.deadline
        if low is None or grant(low) is not None:
            low = self.now + asked.estimate
            soonest = grant(low)
            if soonest is not None:
                return low, soonest

        relaxed = grant(None)
        if relaxed is None or relaxed.end is None:
            return None
        return earliest_deadline(
            grant,
            low,
            max(relaxed.end, low),
            resolution=lambda deadline: RESOLUTION,
            planned_end=lambda answer: or_infinite(answer.end),
        )


def _capacity_at(history: DecisionHistory, state: PlanState) -> Capacity:
    """Return the hosts that are part of the machine in a state of the scheduler, and the
    maintenance announced by then.

    The log tells how many hosts are there; which these are, and when they have maintenance, the
    description of the run does.
    """
    date = state.sized + PLAN_TOLERANCE
    capacity = Capacity(history.header.processors)
    capacity.is_known = True
    capacity.is_final = state.is_final
    capacity.is_planned = True
    if state.present is None:
        return capacity
    capacity.away = HostSet.first(capacity.machine_size - state.present)
    # Where jobs share hosts, it matters which of them have left.
    is_shared = bool(history.header.machine) and bool(capacity.away)
    if not history.had_maintenance(date) and not is_shared:
        return capacity

    info = history.info
    known = [] if info is None else info.maintenance
    capacity.windows = [
        MaintenanceWindow(
            HostSet.parse(window.hosts), window.since, window.until, window.since <= date
        )
        for window in known
        if window.announced <= date < window.until
    ]
    if info is not None and (known or is_shared):
        gone = (outage.hosts for outage in info.outages if outage.since <= date < outage.until)
        capacity.away = reduce(or_, map(HostSet.parse, gone), HostSet())
        # Hosts under maintenance are in the list of outages, too, and count as present.
        for window in capacity.windows:
            capacity.away -= window.hosts if window.has_begun else HostSet()

    if not (known or is_shared) or capacity.present != state.present:
        raise InputError(
            f"{history.path}: hosts had {'left' if is_shared else 'maintenance'} at "
            f"{state.sized:g} s or before, but it is not known which hosts and when; a run "
            "whose description (…_run.json) lists its outages and maintenance is expected"
        )
    return capacity


def logged_scheduler(history: DecisionHistory) -> SchedulerModule:
    """Return a scheduler with the same options as the one that wrote a decision log."""
    header = history.header
    info = history.info
    try:
        if history.made_by is not None:
            module = make_scheduler(history.made_by, header.options)
        else:
            written = None if info is None else info.sha256.get("scheduler")
            name = scheduler_of_data(header.scheduler, history.code, sha256=written)
            module = make_scheduler(name, header.options)
            if info is not None:
                check_code(name, info.code)
    except InputError as error:
        raise InputError(f"{history.path}: line 1: {error}") from None

    if not module.scheduler.keeps_decisions:
        raise InputError(
            f"{history.path}: line 1: scheduler {header.scheduler!r} does not admit jobs by "
            "deadline; the log of a scheduler that does, as qops, is expected"
        )
    return module


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
    size = asked.processors
    return Job(asked.job, asked.submission, size, "", qos=qos, hosts_asked=asked.hosts)


def _hosts_of(story: JobStory, machine_size: int) -> HostSet:
    """Return the shared hosts of a job, without the place of its licences."""
    return HostSet.of(host for host, *_ in story.places if host < machine_size)


def _held(story: JobStory) -> Job:
    """Return a waiting or running job in the form in which the scheduler's plan contains it."""
    asked = msgspec.structs.replace(story.asked, job=story.name, estimate=story.estimate_left)
    job = job_of(asked)
    job.kills = len(story.kills)
    job.promise = or_infinite(story.promise)
    job.target = or_infinite(story.target)

    if story.outcome == RUNNING:
        job.phase = RUNS
        job.lag = story.late
        job.start = on_grid(or_infinite(story.start) - story.late)
        job.end = or_infinite(story.expected_end)
    else:
        job.phase = WAITING
        job.start = or_infinite(story.planned)
    return job


def _finite(number: float) -> float | None:
    return number if abs(number) < math.inf else None
