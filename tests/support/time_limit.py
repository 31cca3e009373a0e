"""A decision module that uses what our schedulers do not: calls, kills, metadata, own jobs."""

from __future__ import annotations

from collections import deque

from qops_batsim.jobs import Job
from qops_batsim.protocol.decisions import (
    CallMeLater,
    KillJob,
    RegisterJob,
    RegisterProfile,
    SetJobMetadata,
)
from qops_batsim.protocol.events import NO_MORE_STATIC_JOBS, JobCompleted, Notify
from qops_batsim.scheduling.module import SchedulerOptions, System
from qops_batsim.scheduling.space_sharing import SpaceSharingScheduler


class TimeLimitOptions(SchedulerOptions, frozen=True, kw_only=True):
    limit: float = 10.0


class TimeLimit(SpaceSharingScheduler):
    """First come, first served; what runs for ``limit`` seconds is killed.

    Where dynamic jobs are allowed, a killed job comes back once, half as long as the limit.
    """

    summary = "FCFS with a time limit"
    Options = TimeLimitOptions

    def begin(self, system: System) -> None:
        super().begin(system)
        self.queue: deque[Job] = deque()
        self.running: dict[str, tuple[float, Job]] = {}
        self.dynamic = self.registering = system.dynamic_jobs
        self.more_to_come = True
        self.notes: list[tuple[str, object]] = []
        self.called = False

    def arrived(self, job: Job) -> None:
        self.queue.append(job)

    def left(self, job: Job) -> None:
        self.running.pop(job.id)

    def completed(self, event: JobCompleted) -> None:
        self.notes.append((event.job_state, event.return_code))
        super().completed(event)

    def killed(self, job_ids: list[str]) -> None:
        self.notes.append(("killed", job_ids))

    def notified(self, notification: Notify) -> None:
        self.notes.append((notification.type, notification.fields.get("resources")))
        if notification.type == NO_MORE_STATIC_JOBS:
            self.more_to_come = False

    def call(self) -> None:
        self.called = True

    def schedule(self, now: float) -> None:
        limit = self.options.limit
        decisions = self._decisions
        if self.called:
            self.called = False
            overdue = [
                (job_id, job)
                for job_id, (start, job) in self.running.items()
                if now - start >= limit
            ]
            if overdue:
                decisions.append(KillJob([job_id for job_id, _ in overdue]))
            for job_id, job in overdue:
                decisions.append(SetJobMetadata(job_id, f"cut at {now:g}"))
                if self.dynamic and not job_id.endswith("-again"):
                    self._bring_back(job, now)
        while self.queue and self.queue[0].processors <= self.free_count:
            job = self.queue.popleft()
            self.start(job)
            self.running[job.id] = (now, job)
            decisions.append(CallMeLater(now + limit))
        if self.registering and not (self.more_to_come or self.queue or self.running):
            self.registering = False
            decisions.append(Notify.of("registration_finished"))

    def _bring_back(self, job: Job, now: float) -> None:
        workload, _, name = job.id.partition("!")
        profile = f"{name}-rest"
        again = Job(f"{job.id}-again", now, job.processors, profile, 1000.0)
        self._decisions.append(
            RegisterProfile(workload, profile, {"type": "delay", "delay": self.options.limit / 2})
        )
        self._decisions.append(RegisterJob(again.id, again))
