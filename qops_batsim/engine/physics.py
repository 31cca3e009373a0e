"""What jobs do beyond sleeping on hosts of their own, for the loop of events.

They compute, communicate, read and write files, use energy, share hosts, are killed and registered;
a job may be a sequence of steps.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from qops_batsim.core.job import Job
from qops_batsim.core.scheduler import Scheduler
from qops_batsim.engine.decisions import apply_decision
from qops_batsim.engine.loop import PHYSICS, Turns
from qops_batsim.engine.loop import Waits as Heap
from qops_batsim.engine.submitters import carry_out_event
from qops_batsim.engine.waits import Wait, Waits
from qops_batsim.engine.world import World
from qops_batsim.jobs import SUBMITTED
from qops_batsim.protocol.events import JobCompleted, JobKilled, RequestedCall
from qops_batsim.scheduling.port import MessageManager


class LoopWaits(Waits):
    """Waits in the heap of a loop, where they have their place among all others."""

    __slots__ = ("_expected", "_heap_of_loop", "_turns")

    def __init__(self, heap: Heap, turns: Turns) -> None:
        super().__init__()
        self._heap_of_loop, self._turns = heap, turns
        self._expected: dict[int, Wait] = {}

    def at(self, date: float, action: Callable[[Any], None], argument: Any = None) -> Wait:
        wait = self.some_time(action, argument)
        self._expect(wait, date)
        return wait

    def some_time(self, action: Callable[[Any], None], argument: Any) -> Wait:
        return Wait(float("nan"), self._turns.next(), action, argument)

    def reschedule(self, wait: Wait, now: float, seconds: float, rate: float = 0.0) -> None:
        wait.date = now + seconds
        if wait.date < float("inf"):
            self._expect(wait, wait.date)

    def _expect(self, wait: Wait, date: float) -> None:
        wait.date = date
        self._expected[wait.number] = wait
        self._heap_of_loop.push(date, wait.number, PHYSICS)

    def has(self, number: int, date: float) -> bool:
        """Return whether a wait still ends at a date (seconds): it was not withdrawn or moved."""
        wait = self._expected.get(number)
        if wait is None:
            return False
        if wait.date != wait.date:
            del self._expected[number]
        return wait.date == date

    def end_one(self, number: int, date: float) -> None:
        """End a wait, unless it was withdrawn or moved."""
        if self.has(number, date):
            wait = self._expected.pop(number)
            wait.cancel()
            wait.action(wait.argument)


class Physics(World):
    """The world of a loop of events: it runs the jobs, and the loop does all else.

    Attributes
    ----------
    manager
        What collects the decisions on each message, to be set before :meth:`use_waits`.
    """

    manager: MessageManager

    def use_waits(self, heap: Heap, turns: Turns) -> None:
        """Keep all waits in the heap of a loop, numbered by its turns."""
        self.waits = self._loop_waits = LoopWaits(heap, turns)

    def waits_for(self, number: int, date: float) -> bool:
        """Return whether a wait still ends at a date (seconds)."""
        return self._loop_waits.has(number, date)

    def end_wait(self, number: int, date: float) -> None:
        """End a wait, unless it was withdrawn or moved."""
        self._loop_waits.end_one(number, date)

    def submit_job(self, job: Job) -> None:
        """Record the submission of a job."""
        if self.energy is not None:
            self.energy.note_submission(self.now)
        self.manager.jobs[job.id] = job
        self.new_record(job.id.partition("!")[0], job).state = SUBMITTED

    def happen(self, number: int) -> None:
        """Carry out one of the external events."""
        carry_out_event(self, (self.options.external_events or ())[number])

    def tell_all(self, scheduler: Scheduler) -> int:
        """Tell the scheduler the events since its last decisions; return their number."""
        if not self.outbox:
            return 0
        events, _ = self.empty_outbox()
        for event in events:
            if isinstance(event, JobCompleted):
                job = self.manager.end(event.job_id, event.job_state)
                if job is not None:
                    scheduler.ended(job)
                    self.manager.forget(job)
            elif isinstance(event, RequestedCall):
                scheduler.called()
            elif isinstance(event, JobKilled):
                self.manager.qos_log.kills.update(event.job_ids)
                self.manager.tell_progress(scheduler, event.job_progress)
                self.manager.tell_killed(scheduler, event.job_ids)
        return len(events)

    def carry_out(self) -> int:
        """Carry out the decisions; return how many jobs have ended so far."""
        manager = self.manager
        decisions, manager.decisions = manager.decisions, []
        for decision in decisions:
            apply_decision(self, decision)
        return len(self.ended)
