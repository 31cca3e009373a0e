"""Running a scheduler where the engine speaks in messages: :class:`SchedulerModule`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from qops_batsim.core.hostset import HostSet, lowest_bits
from qops_batsim.core.job import COMING, OVER, RUNNING, WAITING, Job
from qops_batsim.core.needs import EngineNeeds
from qops_batsim.core.news import Hearing, News
from qops_batsim.core.overrides import check_attributes, is_overridden
from qops_batsim.core.qos_log import QosLog
from qops_batsim.core.scheduler import ResourceManager, Scheduler
from qops_batsim.core.system import System
from qops_batsim.errors import InputError
from qops_batsim.job_fields import hosts_unknown, read_hosts_asked
from qops_batsim.jobs import QosRequest
from qops_batsim.platform.network import longest_round_trip
from qops_batsim.protocol.decisions import (
    CallMeLater,
    Decision,
    ExecuteJob,
    KillJob,
    RegisterJob,
    RegisterProfile,
    RejectJob,
    SetJobMetadata,
)
from qops_batsim.protocol.events import (
    JOB_CANCELLED,
    JOB_RUNS,
    NO_MORE_STATIC_JOBS,
    JobCompleted,
    Notify,
)
from qops_batsim.protocol.host_news import note_hosts
from qops_batsim.schedulers.registry import options_given, scheduler_object
from qops_batsim.timing import GRACE, SHORTEST_CALL_DELAY, least_grace

if TYPE_CHECKING:
    from qops_batsim.platform.platform_model import Platform

Options = TypeVar("Options", bound=msgspec.Struct)


class MessageManager(ResourceManager):
    """The resource manager for engines that are reached by messages: it collects the scheduler's
    decisions.

    Attributes
    ----------
    jobs
        The jobs that wait or run, by id.
    dying
        Those of them that were killed and have not ended yet.
    decisions
        What was decided since the last message.
    """

    def __init__(self, system: System) -> None:
        super().__init__(len(system.hosts))
        self.system = system
        machine = system.machine()
        if machine is not None:
            self.share_by_amounts(machine)
        self.decisions: list[Decision] = []
        self.jobs: dict[str, Job] = {}
        self.dying: dict[str, Job] = {}
        self._hosts: dict[str, int] = {}
        self._free = HostSet.first(self.machine_size).mask
        self._closed = 0
        self._is_finished = False

    # What a scheduler calls

    def start_job(self, job: Job, hosts: object) -> None:
        mapping = None
        if self.use is not None:
            mask = self.take_shared(job, hosts)
            mapping = _mapping_of(job, mask)
        elif hosts is None:
            mask = lowest_bits(self._free, job.processors)
        else:
            mask = self.asked_hosts(job, hosts)
            is_free = self.shares_hosts or not mask & ~self._free
            if not is_free or mask.bit_count() != job.processors:
                raise self.refused_hosts(job, mask, str(HostSet(mask)))
        self._hosts[job.id] = mask
        self._set_free(self._free & ~mask)
        self.decisions.append(ExecuteJob(job.id, HostSet(mask), mapping))

    def reject_job(self, job: Job, reason: object) -> None:
        self.note_refusal(job, reason)
        self.jobs.pop(job.id, None)
        self.decisions.append(RejectJob(job.id))

    def kill_job(self, job: Job) -> None:
        self.dying[job.id] = job
        last = self.decisions[-1] if self.decisions else None
        if isinstance(last, KillJob):
            last.job_ids.append(job.id)
        else:
            self.decisions.append(KillJob([job.id]))

    def register_job(self, job: Job, profile: Any) -> None:
        self.know_registered(job, profile)
        if profile is not None:
            workload = job.id.partition("!")[0]
            self.decisions.append(RegisterProfile(workload, job.profile, profile))
        self._add(job)
        self.decisions.append(RegisterJob(job.id, job))

    def finish_registering(self) -> None:
        if not self._is_finished:
            self._is_finished = True
            self.decisions.append(Notify.of("registration_finished"))

    def runs_of(self, job_id: str) -> list[Job]:
        """Return the waiting and running jobs that are the job ``job_id`` or a restart of it.
        O(jobs).
        """
        if job_id in self.jobs:
            return [self.jobs[job_id]]
        return [job for job in self.jobs.values() if self.registered.get(job.id) == job_id]

    def note_metadata(self, job: Job, text: str) -> None:
        self.decisions.append(SetJobMetadata(job.id, text))

    def call_at(self, date: float) -> None:
        if date <= self.now:
            date = self.now + SHORTEST_CALL_DELAY
        asked = self.news.reachable(date, self.now, len(self.decisions))
        self.decisions.append(CallMeLater(asked))

    def hosts_of(self, job: Job) -> int:
        if job is None:
            raise self.refused(job, "have hosts")
        return self._hosts[job.id]

    def free_mask(self) -> int:
        return self._free

    def count_free(self) -> None:
        free = HostSet.first(self.machine_size).mask
        self._closed = self.capacity.closed(drains=self.drains).mask
        if self.use is not None:
            self.use.closed = self._closed
        for job in self.jobs.values():
            if job.phase == RUNNING:
                free &= ~self._hosts[job.id]
        self._set_free(free & ~self._closed)

    def restore_running(self, job: Job, hosts: int) -> None:
        self.jobs[job.id] = job
        self._hosts[job.id] = hosts
        if self.use is not None:
            held = self.asking(job).held
            self.take_shared(job, None if held.size else HostSet(hosts))

    # What an engine tells

    def submit(self, job: Job) -> Job:
        """Add a submitted job to the waiting ones and return it (a copy if another simulation has
        used it).
        """
        if job.phase != COMING:
            job = job.renamed(job.id)
        self._add(job)
        return job

    def join(self, fields: Mapping[str, Any]) -> Job:
        """Add a running job that was started by somebody else, from a notification's fields; return
        the job.
        """
        hosts = HostSet.parse(str(fields["resources"]))
        start = float(fields["start"])
        kept = QosRequest(rerunnable=False)
        limit = fields.get("walltime")
        asked = read_hosts_asked({**fields, "res": len(hosts)}, JOB_RUNS)
        name = str(fields["job_id"])
        job = Job(name, start, len(hosts), "", walltime=limit, qos=kept, hosts_asked=asked)
        job.phase = RUNNING
        job.start = start
        self.restore_running(job, hosts.mask)
        self._set_free(self._free & ~hosts.mask)
        return job

    def end(self, job_id: str, state: str) -> Job | None:
        """Free the hosts of a job that has ended and return the job; None if no such job runs."""
        job = self.jobs.get(job_id)
        if job is None or job.phase != RUNNING:
            return None
        del self.jobs[job_id]
        job.phase = OVER
        job.state = state
        left = self._hosts[job_id]
        if self.use is not None:
            self.use.give(job)
            left = sum(1 << host for host in HostSet(left) if not self.use.jobs[host])
        self._set_free(self._free | (left & ~self._closed))
        return job

    def forget(self, job: Job) -> None:
        """Forget which hosts an ended job had; called after the scheduler was told of the end."""
        del self._hosts[job.id]

    def _add(self, job: Job) -> None:
        if self.use is not None:
            self.asking(job)
        elif job.hosts_asked is not None:
            raise InputError(hosts_unknown(job.id, job.hosts_asked, "the engine's platform"))
        job.index = len(self.jobs)
        job.phase = WAITING
        self.jobs[job.id] = job

    def _set_free(self, mask: int) -> None:
        """Set the hosts that no job has; where jobs share hosts, each that is open takes more."""
        self._free = mask
        if self.use is None:
            self.free = mask.bit_count()
        else:
            self.free = self.machine_size - self._closed.bit_count()


def _mapping_of(job: Job, mask: int) -> dict[str, str] | None:
    """Return the place among a job's hosts of each of its executors; None if they are in order."""
    assert job.request is not None
    if job.request.is_single and not job.request.has_tasks():
        return None
    hosts = list(HostSet(mask))
    executors = job.request.mapping()
    if executors == hosts:
        return None
    places = {host: str(place) for place, host in enumerate(hosts)}
    return {str(executor): places[host] for executor, host in enumerate(executors)}


class SchedulerModule:
    """A scheduler together with its manager and logs, as an engine's driver calls it: events in,
    decisions out.

    For each message the driver tells the date and calls :meth:`submitted`, :meth:`completed` and
    the others in the order of the events, then :meth:`decide` once.

    Attributes
    ----------
    scheduler, options
        The scheduler, and its options.
    manager
        The scheduler's resource manager, from :meth:`begin` on.
    qos_log
        What is noted about jobs, for ``PREFIX_qos.csv``. The driver puts a new log here before
        :meth:`begin`.
    news_in_parts
        Whether the events of one date may come in several messages, as on links without latency.
        The program that starts the engine sets it, if it knows.
    """

    news_in_parts = False

    def __init__(self, scheduler: Scheduler) -> None:
        self.scheduler = scheduler
        self.options: Any = scheduler.options
        self.qos_log = QosLog()
        self._given_options = scheduler.options
        self._now = 0.0
        self._has_begun = False

    @property
    def needs(self) -> EngineNeeds:
        """Features that the scheduler, with its options, requires of the engine."""
        return self.scheduler.needs

    @property
    def hears_of_cancellations(self) -> bool:
        """Whether the scheduler can handle jobs that users cancel while they wait (needed by
        ``live``).
        """
        return is_overridden(self.scheduler, Scheduler, "cancelled")

    @property
    def hears_of_others(self) -> bool:
        """Whether the scheduler can handle running jobs that were started by somebody else."""
        return is_overridden(self.scheduler, Scheduler, "joined")

    def keep_decisions(self) -> bool:
        """Turn on the decision log; return False if the scheduler cannot log its decisions.

        Call it before the simulation; :func:`~qops_batsim.running.simulate.write_run` writes the
        log.
        """
        self.scheduler.logs = self.scheduler.keeps_decisions
        return self.scheduler.logs

    def use_platform(self, platform: Platform) -> None:
        """Raise the default grace to what the platform's latencies need, and tell the scheduler the
        platform.
        """
        self.options = with_least_grace(self._given_options, platform)
        self.scheduler.options = self.options
        self.scheduler.use_platform(platform)

    # What an engine tells

    def begin(self, system: System) -> None:
        manager = MessageManager(system)
        self.manager = manager
        manager.qos_log = self.qos_log
        manager.news_in_parts = self.news_in_parts
        manager.hides_profiles = getattr(self.scheduler, "hides_profiles", False)
        manager.news = News.of(self.options, system.profiles)
        manager.now = self._now
        self._has_begun = True
        self._cancelled: list[str] = []

        self.scheduler.begin(manager)
        check_attributes(self.scheduler)
        self._has_grace = manager.plans or hasattr(self.options, "grace")
        # Without a grace, too: calls have to be asked for in time.
        self._hearing = Hearing(manager.news)

    def told_at(self, now: float) -> None:
        """Set the current date (seconds) to that of a message, before its events are handled."""
        self._now = now
        if self._has_begun:
            self.manager.now = now

    def submitted(self, job: Job) -> None:
        if job.id in self.manager.registered:
            return  # The announcement of one that was registered here.
        told = self.manager.submit(job)
        self._hearing.newest = told
        self.scheduler.submitted(told)

    def completed(self, event: JobCompleted) -> None:
        job = self.manager.end(event.job_id, event.job_state)
        if job is None:
            return
        if self._hearing.is_of_use:
            self._hearing.ended.append((job, job.start))
        self.scheduler.ended(job)
        self.manager.forget(job)

    def progressed(self, progress: Mapping[str, Mapping[str, Any]]) -> None:
        for job_id, told in progress.items():
            job = self.manager.dying.get(job_id)
            if job is not None:
                self.scheduler.progressed(job, told)

    def killed(self, job_ids: list[str]) -> None:
        for job_id in job_ids:
            job = self.manager.dying.pop(job_id, None)
            if job is not None:
                self.scheduler.killed(job)

    def call(self) -> None:
        self.scheduler.called()

    def notified(self, notification: Notify) -> None:
        if notification.type == JOB_CANCELLED:
            # It may have been submitted later in the same message.
            self._cancelled.append(str(notification.fields.get("job_id", "")))
        elif notification.type == NO_MORE_STATIC_JOBS:
            self.scheduler.all_submitted()
        elif notification.type == JOB_RUNS:
            self.scheduler.joined(self.manager.join(notification.fields))
        else:
            announced = note_hosts(self.manager, notification)
            if announced is None:
                self.scheduler.notified(notification)
            else:
                self.scheduler.hosts_changed(announced)

    def end(self) -> None:
        check_attributes(self.scheduler)
        self.scheduler.finished()

    def decide(self, now: float) -> list[Decision]:
        manager = self.manager
        if self._hearing.is_of_use:
            self._hearing.judge(now)
        if self._has_grace or not manager.news.late:
            manager.grace = manager.news.under_way(in_parts=manager.news_in_parts)
        for job_id in self._cancelled:
            for job in manager.runs_of(job_id):
                self.scheduler.cancelled(job)
        self._cancelled.clear()
        self.scheduler.decide()
        decisions = manager.decisions
        manager.decisions = []
        return decisions

    # What others ask

    def planned_starts(self) -> dict[str, float]:
        """Return the planned starts (seconds) of waiting jobs by id; jobs without one are
        left out.
        """
        return self.scheduler.planned_starts()

    def decision_lines(self) -> Iterator[str]:
        """Yield the decisions so far, each as a line of JSON; see :meth:`keep_decisions`."""
        scheduler: Any = self.scheduler
        for text in scheduler.decision_lines():
            yield from map(bytes.decode, text.splitlines())

    def standing(self) -> Any:
        """Return a snapshot of plan and jobs from which a new scheduler can resume, None if it
        makes none.
        """
        ask = getattr(self.scheduler, "standing", None)
        return None if ask is None else ask()

    def go_on(self, standing: Any) -> None:
        """Resume from a snapshot of plan and jobs; call it directly after :meth:`begin`."""
        scheduler: Any = self.scheduler
        self.manager.jobs.update({job.id: job for job in scheduler.go_on(standing)})
        self.manager.count_free()
        self._hearing.is_of_use &= not self.manager.news.late


AnyScheduler = str | type[Scheduler] | Scheduler | SchedulerModule
"""A registered name, ``FILE.py:CLASS``, a class, or a scheduler that is ready."""


def make_scheduler(
    scheduler: AnyScheduler,
    settings: Mapping[str, Any] | None = None,
) -> SchedulerModule:
    """Return a scheduler, made from its name or class with the options ``settings``, ready for an
    engine.

    The parameters are those of :func:`~qops_batsim.schedulers.registry.scheduler_object`.
    """
    if not isinstance(scheduler, SchedulerModule):
        return SchedulerModule(scheduler_object(scheduler, settings))
    if settings:
        raise options_given(scheduler)
    return scheduler


def with_least_grace(options: Options, platform: Platform) -> Options:
    """Return the options with the default ``grace`` replaced by the least that the platform's
    latencies need.

    A grace other than the default was set by the user and stays.
    """
    if getattr(options, "grace", None) != GRACE:
        return options
    least = least_grace(longest_round_trip(platform))
    return options if least == GRACE else msgspec.structs.replace(options, grace=least)
