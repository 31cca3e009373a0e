"""Schedulers as users write them, for :mod:`held_cases`: a key, a schedule, an admission."""

from __future__ import annotations

from typing import Any

from qops_batsim import (
    DeadlineScheduler,
    Easy,
    Job,
    QueueScheduler,
    SchedulerOptions,
)


class Widest(Easy):
    """EASY, widest job first, with all options of EASY."""

    def key(self, job: Job) -> float:
        return -job.processors


class AgingOptions(SchedulerOptions, frozen=True, kw_only=True):
    weight: float = 1.0


class Aging(Easy):
    """EASY in an order with an option of its own."""

    Options = AgingOptions

    def key(self, job: Job) -> float:
        return job.submission_time + float(self.options.weight) * job.estimate  # type: ignore[attr-defined]


class Guarded(Easy):
    """EASY whose ``schedule`` is overridden: nothing starts while a third of the machine is free.

    Unless nothing runs, or a message has come in vain twice.
    """

    def begin(self, manager: Any) -> None:
        super().begin(manager)
        self.passed_over = 0

    def schedule(self) -> None:
        free, size = self.manager.free, self.manager.machine_size
        if 3 * free > size or free > 2 * size // 3 or self.passed_over > 1:
            super().schedule()
            self.passed_over = 0
        else:
            self.passed_over += 1


class PatientOptions(SchedulerOptions, frozen=True, kw_only=True):
    patience: float = 60.0


class Patient(QueueScheduler):
    """First fit with a reservation for each job that has waited for long, all by itself."""

    Options = PatientOptions

    def schedule(self) -> None:
        free, now = self.availability(), self.manager.now
        for job in self.queue:
            if job.processors > free.processors:
                continue
            start = free.earliest_fit(now, job.estimate, job.processors)
            starts = start < now + 1e-6 and job.processors <= self.manager.free
            if starts or now - job.submission_time > self.options.patience:
                free.reserve(start, job.estimate, job.processors)
            if starts:
                self.start(job)


class EarliestDeadline(DeadlineScheduler):
    """Plans all jobs again in the order of their deadlines."""

    def admit(self, job: Job) -> str | None:
        free, starts = self.availability(), {}
        for each in sorted([*self.plan.waiting, job], key=lambda each: each.target):
            start = free.earliest_fit(self.now, each.estimate, each.processors)
            if start + each.estimate > each.target:
                return f"{each.id} would end after {each.target:g} s"
            free.reserve(start, each.estimate, each.processors)
            starts[each] = start
        self.adopt_starts(starts)
        return None


class Appending(DeadlineScheduler):
    """Plans a new job behind what is planned, and moves nothing."""

    def admit(self, job: Job) -> str | None:
        free = self.availability()
        for each in self.plan.waiting:
            free.reserve(each.start, each.estimate, each.processors)
        start = free.earliest_fit(self.now, job.estimate, job.processors)
        if start + job.estimate > job.target:
            return f"could end at {start + job.estimate:g} s at the earliest"
        self.adopt_starts({job: start, **{each: each.start for each in self.plan.waiting}})
        return None
