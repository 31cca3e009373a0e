"""The simulator of Talby and Feitelson (1999), as far as their numbers tell what it did.

Their conservative column is that of a simulator that wakes at arrivals and at the
beginnings of the time slots of its plan (``Tick``, section 2.1), and notices only then
that a job has ended early. See ``docs/talby1999.md``.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from qops_batsim.jobs import Job
from qops_batsim.protocol.decisions import CallMeLater, Decision, ExecuteJob
from qops_batsim.protocol.events import JobCompleted, Notify
from qops_batsim.scheduling.module import DecisionModule, System
from qops_batsim.timing import PLAN_TOLERANCE

if TYPE_CHECKING:
    from qops_batsim.platform.model import Platform


class SlotClock(DecisionModule):
    """Wakes a scheduler only when a job arrives or a time slot of its plan begins.

    Time slots begin where running jobs are expected to end, and at the dates at which the
    scheduler asks to be called because it has planned a start there. A job that ends
    before that is noticed at the next such date, and its processors are idle until then.
    The scheduler must start each job on hosts of its own. All else is passed on at once.
    """

    def __init__(self, scheduler: DecisionModule) -> None:
        super().__init__(scheduler.options)
        self._scheduler = scheduler
        self._jobs: dict[str, Job] = {}
        self._expected_ends: list[tuple[float, str]] = []
        self._calls: list[float] = []
        self._unnoticed: list[JobCompleted] = []
        self._awake = False

    def use_platform(self, platform: Platform) -> None:
        self._scheduler.use_platform(platform)

    def begin(self, system: System) -> None:
        """Start with nothing running."""
        self._scheduler.qos_log = self.qos_log
        self._scheduler.begin(system)

    def submitted(self, job: Job) -> None:
        self._awake = True
        self._jobs[job.id] = job
        self._scheduler.submitted(job)

    def completed(self, event: JobCompleted) -> None:
        """Keep it until the scheduler is woken."""
        self._unnoticed.append(event)

    def progressed(self, progress: Mapping[str, Mapping[str, Any]]) -> None:
        self._scheduler.progressed(progress)

    def killed(self, job_ids: list[str]) -> None:
        self._awake = True
        self._scheduler.killed(job_ids)

    def notified(self, notification: Notify) -> None:
        self._scheduler.notified(notification)

    def end(self) -> None:
        self._scheduler.end()

    def decide(self, now: float) -> list[Decision]:
        """Let the scheduler decide if this date wakes it."""
        if not (self._slot_begins(now) or self._awake):
            return []
        self._awake = False
        for event in self._unnoticed:
            self._jobs.pop(event.job_id)
            self._scheduler.completed(event)
        self._unnoticed.clear()
        decisions = self._scheduler.decide(now)
        for decision in list(decisions):
            if isinstance(decision, CallMeLater):
                heapq.heappush(self._calls, decision.timestamp)
            elif isinstance(decision, ExecuteJob):
                end = now + self._jobs[decision.job_id].estimate
                heapq.heappush(self._expected_ends, (end, decision.job_id))
                decisions.append(CallMeLater(end))
        return decisions

    def _slot_begins(self, now: float) -> bool:
        """Whether a call is due, or the end of a job that the scheduler thinks runs."""
        begins = False
        while self._calls and self._calls[0] <= now + PLAN_TOLERANCE:
            heapq.heappop(self._calls)
            self._scheduler.call()
            begins = True
        while self._expected_ends and self._expected_ends[0][0] <= now + PLAN_TOLERANCE:
            _, job_id = heapq.heappop(self._expected_ends)
            begins = begins or job_id in self._jobs
        return begins
