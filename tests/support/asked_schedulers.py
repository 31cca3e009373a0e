"""Asking a deadline scheduler about one new job beside a plan that is given."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from qops_batsim import DeadlineScheduler, Job, QosRequest
from qops_batsim.core import RUNNING, WAITING, News, QosLog, ResourceManager
from qops_batsim.core.refusal import Refusal
from support.admission_oracles import Case, seconds_with


class Recorder(ResourceManager):
    """A manager that notes what it is asked for."""

    def __init__(self, machine_size: int) -> None:
        super().__init__(machine_size)
        self.qos_log = QosLog()
        self.news = News()
        self.reasons: dict[str, Any] = {}
        self.told: dict[str, str] = {}
        self.calls: list[float] = []
        self.started: list[Job] = []
        self.killed: list[Job] = []

    def start_job(self, job: Job, hosts: object) -> None:
        self.free -= job.processors
        self.started.append(job)

    def kill_job(self, job: Job) -> None:
        self.killed.append(job)

    def reject_job(self, job: Job, reason: object) -> None:
        self.reasons[job.id] = reason

    def check_saves(self, job: Job) -> None:
        """Do nothing: no execution profile is known here."""

    def note_metadata(self, job: Job, text: str) -> None:
        self.told[job.id] = text

    def call_at(self, date: float) -> None:
        self.calls.append(date)


class Found(NamedTuple):
    """What a search found: start by slot or None, who was blamed, and free processors."""

    starts: dict[int, float] | None
    blamed: int
    refusal: Refusal | None
    free: list[int]


def told(scheduler: DeadlineScheduler, case: Case) -> Job:
    """Have a scheduler run and plan what a case has; return the new job."""
    scheduler.begin(Recorder(case.machine))
    plan, free = scheduler.plan, case.machine
    jobs = {}
    for each in sorted(case.jobs, key=lambda job: job.slot):
        qos = QosRequest(
            deadline=None if each.deadline == math.inf else float(each.deadline),
            estimated_runtime=None if each.estimate == math.inf else float(each.estimate),
        )
        job = Job(f"w0!{each.slot}", float(each.arrival), each.processors, "p", qos=qos)
        job.phase = WAITING
        plan.arrived(job)
        jobs[each.slot] = job
    plan.new.clear()
    for number, (processors, end) in enumerate(case.running):
        job = Job(f"w0!r{number}", 0.0, processors, "p")
        job.phase = RUNNING
        job.number = len(jobs) + number
        plan.add_running(job, float(end), 0.0)
        free -= processors
    plan.tell(float(case.now), free)
    for each, start in case.waiting:
        jobs[each.slot].start = float(start)
        plan.waiting.append(jobs[each.slot])
    plan.reserve_plan(float(case.now))
    scheduler.prepare()
    return jobs[case.new.slot]


def ask(scheduler: DeadlineScheduler, case: Case, *, whole: bool = True) -> Found:
    """Ask a scheduler about the new job of a case; its plan stays as it is."""
    refusal = scheduler.try_admission(told(scheduler, case))
    if refusal is not None:
        assert isinstance(refusal, Refusal)
        return Found(None, int(str(refusal.blamed).removeprefix("w0!")), refusal, [])
    return Found(starts_in(scheduler), -1, None, free_by_second(scheduler, case) if whole else [])


def starts_in(scheduler: DeadlineScheduler) -> dict[int, float]:
    """The starts of the plan that a search has found, by slot."""
    return {int(job.id.removeprefix("w0!")): job.trial for job in scheduler.order}


def free_by_second(scheduler: DeadlineScheduler, case: Case) -> list[int]:
    """Free processors in each second that the references count."""
    seconds = range(case.now, seconds_with(case, {}).end)
    return [scheduler.draft.lowest_free(second, second + 1) for second in seconds]
