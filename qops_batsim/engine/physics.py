"""What jobs do beyond sleeping on hosts of their own, for the loop of events.

They compute, communicate, read and write files and use energy; a job may be a sequence of all that.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from qops_batsim.core.job import Job
from qops_batsim.engine.decisions import check_hosts
from qops_batsim.engine.options import ExternalEvent
from qops_batsim.engine.records import JobRecord
from qops_batsim.engine.submitters import carry_out_event
from qops_batsim.engine.waits import Wait, Waits
from qops_batsim.engine.world import World
from qops_batsim.jobs import REJECTED, SUBMITTED
from qops_batsim.platform.hostset import HostSet


class WaitingLoop(Protocol):
    """What a physics needs of its loop."""

    def next_number(self) -> int:
        """Return the number of a wait that begins now."""

    def wait_until(self, date: float, number: int) -> None:
        """Have a wait end at a date (seconds), unless it is withdrawn."""


class LoopWaits(Waits):
    """Waits in the heap of a loop, where they have their place among all others."""

    __slots__ = ("_expected", "_loop")

    def __init__(self, loop: WaitingLoop) -> None:
        super().__init__()
        self._loop = loop
        self._expected: dict[int, Wait] = {}

    def at(self, date: float, action: Callable[[Any], None], argument: Any = None) -> Wait:
        wait = self.some_time(action, argument)
        self._expect(wait, date)
        return wait

    def some_time(self, action: Callable[[Any], None], argument: Any) -> Wait:
        return Wait(float("nan"), self._loop.next_number(), action, argument)

    def reschedule(self, wait: Wait, now: float, seconds: float, rate: float = 0.0) -> None:
        wait.date = now + seconds
        if wait.date < float("inf"):
            self._expect(wait, wait.date)

    def _expect(self, wait: Wait, date: float) -> None:
        wait.date = date
        self._expected[wait.number] = wait
        self._loop.wait_until(date, wait.number)

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
    untold
        The jobs that have ended, as long as the scheduler has not heard of it.
    """

    def use_loop(self, loop: WaitingLoop, events: Sequence[ExternalEvent]) -> None:
        """Have a loop tell when waits have ended; ``events`` are those that happen in it."""
        self.waits = self._loop_waits = LoopWaits(loop)
        self._events = events
        self.untold: list[Job] = []

    def waits_for(self, number: int, date: float) -> bool:
        """Return whether a wait still ends at a date (seconds)."""
        return self._loop_waits.has(number, date)

    def end_wait(self, number: int, date: float) -> None:
        """End a wait, unless it was withdrawn or moved."""
        self._loop_waits.end_one(number, date)

    def submit_job(self, job: Job) -> None:
        """Begin to keep what is known of a job that is submitted now."""
        if self.energy is not None:
            self.energy.note_submission(self.now)
        self.new_record(job.id.partition("!")[0], job).state = SUBMITTED

    def start_job(self, job: Job, hosts: int) -> None:
        """Start a job on hosts (bits); SimulationError if these cannot take it."""
        record, given = self.records[job.id], HostSet(hosts)
        check_hosts(self, job, given)
        self.start(record, given)

    def reject_job(self, job: Job) -> None:
        """Reject a job."""
        record = self.records[job.id]
        record.state = REJECTED
        self.ended.append(record)

    def happen(self, number: int) -> None:
        """Have one of the external events happen."""
        carry_out_event(self, self._events[number])

    def completed(self, record: JobRecord) -> None:
        record.job.state = record.state
        self.ended.append(record)
        self.untold.append(record.job)
