"""A scheduler of compiled classes under the engine of today: all that this engine can tell it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from qops_batsim.core.job import OVER, RUNNING, WAITING, Job
from qops_batsim.core.scheduler import ResourceManager, Scheduler
from qops_batsim.jobs import QosRequest
from qops_batsim.platform.hostset import HostSet, lowest_bits
from qops_batsim.protocol.decisions import CallMeLater, Decision, ExecuteJob, RejectJob
from qops_batsim.protocol.events import (
    JOB_CANCELLED,
    JOB_RUNS,
    MAINTENANCE,
    NO_MORE_EXTERNAL_EVENTS,
    JobCompleted,
    Notify,
)
from qops_batsim.schedulers.planning import PlanScheduler
from qops_batsim.schedulers.standing import Standing
from qops_batsim.scheduling.capacity import Capacity
from qops_batsim.scheduling.module import DecisionModule, System


class CollectingManager(ResourceManager):
    """Collect what a scheduler asks for as decisions of a message."""

    def __init__(self, machine_size: int) -> None:
        super().__init__(machine_size)
        self.decisions: list[Decision] = []
        self.hosts: dict[str, int] = {}
        self.running: set[str] = set()
        self.reasons: dict[str, object] = {}
        self.mask = (1 << machine_size) - 1
        self.note_free(self.mask)

    def note_free(self, mask: int) -> None:
        self.mask, self.free = mask, mask.bit_count()

    def hosts_of(self, job: Job) -> int:
        return self.hosts[job.id]

    def free_mask(self) -> int:
        return self.mask

    def count_free(self) -> None:
        free = (1 << self.machine_size) - 1
        if self.capacity is not None:
            free &= ~self.capacity.closed(drains=self.drains).mask
        for name in self.running:
            free &= ~self.hosts[name]
        self.note_free(free)

    def start_job(self, job: Job, hosts: object) -> None:
        mask = lowest_bits(self.mask, job.processors) if hosts is None else hosts.mask
        assert mask & ~self.mask == 0, f"{job.id} starts on hosts that are not free"
        assert mask.bit_count() == job.processors
        self.hosts[job.id] = mask
        self.running.add(job.id)
        self.note_free(self.mask & ~mask)
        self.decisions.append(ExecuteJob(job.id, HostSet(mask)))

    def reject_job(self, job: Job, reason: object) -> None:
        self.reasons[job.id] = reason
        self.decisions.append(RejectJob(job.id))

    def goes_on(self, job: Job, hosts: int) -> None:
        self.hosts[job.id] = hosts
        self.running.add(job.id)

    def call_at(self, date: float) -> None:
        self.decisions.append(CallMeLater(date))


class SchedulerModule(DecisionModule):
    """Tell a scheduler what an engine tells a decision module, when that has to decide.

    ``check`` is called after each decision.
    """

    def __init__(self, scheduler: Scheduler, check: Callable[[], None] = lambda: None) -> None:
        super().__init__()
        self.scheduler, self.check = scheduler, check

    def begin(self, system: System) -> None:
        self.manager = CollectingManager(len(system.hosts))
        self.jobs: dict[str, Job] = {}
        self.told: list[Callable[[], None]] = []
        self.cancelled: list[str] = []
        self.scheduler.begin(self.manager)

    def submitted(self, job: Job) -> None:
        self.told.append(lambda: self.submit(job))

    def completed(self, event: JobCompleted) -> None:
        self.told.append(lambda: self.end_job(event.job_id))

    def notified(self, notification: Notify) -> None:
        self.told.append(lambda: self.notify(notification))

    def submit(self, job: Job) -> None:
        made = job.renamed(job.id)
        made.index, made.phase = len(self.jobs), WAITING
        self.jobs[job.id] = made
        self.scheduler.submitted(made)

    def end_job(self, job_id: str) -> None:
        if job_id not in self.manager.running:
            return
        job = self.jobs[job_id]
        self.manager.running.discard(job_id)
        job.phase = OVER
        self.manager.count_free()
        self.scheduler.ended(job)

    def notify(self, notice: Notify) -> None:
        manager, fields = self.manager, notice.fields
        if notice.type == JOB_CANCELLED:
            self.cancelled.append(str(fields["job_id"]))
            return
        if notice.type == JOB_RUNS:
            self.join(fields)
            return
        capacity = manager.capacity or Capacity(manager.machine_size)
        capacity.is_planned = manager.plans
        lost = capacity.note(notice)
        if lost is None and notice.type != NO_MORE_EXTERNAL_EVENTS:
            return
        manager.capacity = capacity
        manager.count_free()
        announced = len(lost) if lost is not None and notice.type == MAINTENANCE else 0
        self.scheduler.hosts_changed(announced)

    def join(self, fields: Mapping[str, Any]) -> None:
        hosts = HostSet.parse(str(fields["resources"]))
        job = Job(
            str(fields["job_id"]),
            float(fields["start"]),
            len(hosts),
            "",
            walltime=fields.get("walltime"),
            qos=QosRequest(rerunnable=False),
        )
        job.phase, job.start = RUNNING, float(fields["start"])
        self.jobs[job.id] = job
        self.manager.hosts[job.id] = hosts.mask
        self.manager.running.add(job.id)
        self.manager.count_free()
        self.scheduler.joined(job)

    def decide(self, now: float) -> list[Decision]:
        self.manager.now = now
        for tell in self.told:
            tell()
        # A job that is cancelled may have been submitted later in the same message.
        for name in self.cancelled:
            if name in self.jobs:
                self.scheduler.cancelled(self.jobs[name])
        self.told, self.cancelled = [], []
        self.scheduler.decide()
        self.check()
        decisions, self.manager.decisions = self.manager.decisions, []
        return decisions


class ReplacedModule(SchedulerModule):
    """Have a fresh scheduler go on from the standing of the one before, wherever that has one.

    ``replaced`` counts how often.
    """

    def __init__(self, make: Callable[[], PlanScheduler]) -> None:
        super().__init__(make())
        self.make, self.replaced = make, 0

    def decide(self, now: float) -> list[Decision]:
        decisions = super().decide(now)
        assert isinstance(self.scheduler, PlanScheduler)
        standing = self.scheduler.standing()
        if standing is not None:
            text = msgspec.json.encode(standing)
            manager = CollectingManager(self.manager.machine_size)
            manager.now, manager.reasons = now, self.manager.reasons
            fresh = self.make()
            fresh.begin(manager)
            jobs = fresh.go_on(msgspec.json.decode(text, type=Standing))
            self.jobs.update({job.id: job for job in jobs})
            fresh.plan.check()
            assert fresh.standing() == standing
            self.scheduler, self.manager = fresh, manager
            self.replaced += 1
        return decisions
