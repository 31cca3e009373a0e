"""A scheduler that uses what few of ours do: calls, kills, metadata, own jobs."""

from __future__ import annotations

from qops_batsim import Job, QueueScheduler, SchedulerOptions
from qops_batsim.core import ResourceManager


class TimeLimitOptions(SchedulerOptions, frozen=True, kw_only=True):
    limit: float = 10.0


class TimeLimit(QueueScheduler):
    """First come, first served; what runs for ``limit`` seconds is killed.

    Where dynamic jobs are allowed, a killed job comes back once, half as long as the limit.
    """

    summary = "FCFS with a time limit"
    Options = TimeLimitOptions
    kills = True

    def begin(self, manager: ResourceManager) -> None:
        super().begin(manager)
        self.dynamic = self.registering = manager.system.dynamic_jobs
        self.more_to_come = True
        self.notes: list[tuple[str, str]] = []
        self.was_called = False

    def ended(self, job: Job) -> None:
        self.notes.append((job.state, job.id))
        super().ended(job)

    def killed(self, job: Job) -> None:
        self.notes.append(("killed", job.id))

    def all_submitted(self) -> None:
        self.notes.append(("all submitted", ""))
        self.more_to_come = False

    def called(self) -> None:
        self.was_called = True

    def schedule(self) -> None:
        limit, manager = self.options.limit, self.manager
        if self.was_called:
            self.was_called = False
            overdue = [job for job in self.running if manager.now - job.start >= limit]
            for job in overdue:
                manager.kill(job)
            for job in overdue:
                manager.note_metadata(job, f"cut at {manager.now:g}")
                if self.dynamic and not job.id.endswith("-again"):
                    self._bring_back(job)
        for job in self.queue:
            if job.processors > manager.free:
                break
            self.start(job)
            manager.call_at(manager.now + limit)
        self.queue.close_up(0)
        if self.registering and not (self.more_to_come or self.waiting() or self.running):
            self.registering = False
            manager.finish_registering()

    def _bring_back(self, job: Job) -> None:
        name = f"{job.id.partition('!')[2]}-rest"
        now, limit = self.manager.now, self.options.limit
        again = Job(f"{job.id}-again", now, job.processors, name, 1000.0)
        self.manager.register(again, {"type": "delay", "delay": limit / 2})
        self.arrived(again)
