"""Submitters of jobs and of external events, without message delays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import attrgetter

import msgspec

from qops_batsim.engine.options import AVAILABLE, UNAVAILABLE, ExternalEvent
from qops_batsim.engine.world import World
from qops_batsim.jobs import Job
from qops_batsim.protocol.events import NO_MORE_EXTERNAL_EVENTS, NO_MORE_STATIC_JOBS, Notify

OnLast = Callable[[Notify], None]
"""Called when a submitter has nothing left to submit, with what to notify then."""


class JobSubmitters:
    """Submitters of jobs: every workload has one, which sleeps until its next job."""

    def __init__(self, world: World, on_last: OnLast) -> None:
        self._world = world
        self._on_last = on_last
        # Reversed, so that the next job is the last of the list.
        self._queues = [
            (name, submission_order(each.jobs)[::-1])
            for name, each in world.workloads.items()
            if each.jobs
        ]

    def __bool__(self) -> bool:
        return bool(self._queues)

    def begin(self) -> None:
        """Wait for the first job of each workload."""
        for workload in self._queues:
            date = max(0.0, workload[1][-1].submission_time)
            self._world.waits.at(date, self._submit, workload)

    def _submit(self, workload: tuple[str, list[Job]]) -> None:
        name, queue = workload
        world = self._world
        latest = max(world.now, queue[-1].submission_time)
        if world.energy is not None:
            world.energy.note_submission(world.now)
        while queue and queue[-1].submission_time <= latest:
            world.submit(name, queue.pop())
        if queue:
            world.waits.at(queue[-1].submission_time, self._submit, workload)
        elif not any(jobs for _, jobs in self._queues):
            self._on_last(Notify.of(NO_MORE_STATIC_JOBS))


def submission_order(jobs: Sequence[Job]) -> list[Job]:
    """Return the jobs of a workload in the order of submission, at one date by identifier."""
    ordered = sorted(jobs, key=attrgetter("id"))
    ordered.sort(key=attrgetter("submission_time"))
    return ordered


class ClosingNotices:
    """Notifications of submitters that have nothing left to submit.

    They are told with the other events of their date if any of these follows, else after the
    answer to them, at the same date. ``noted`` are those not told yet.
    """

    def __init__(self, world: World) -> None:
        self.noted: list[Notify] = []
        self._world = world
        self._told_before = 0

    def note(self, notice: Notify) -> None:
        self._told_before = self._told_before or len(self._world.outbox)
        self.noted.append(notice)

    def tell_if_due(self, *, is_heard: bool) -> None:
        """Tell them now if other events of this date follow, or if these are not heard yet."""
        told = len(self._world.outbox)
        if told > self._told_before or not told or not is_heard:
            self.tell()
        self._told_before = 0

    def tell(self) -> None:
        for notice in self.noted:
            self._world.tell(notice)
        self.noted = []


class ExternalEventSubmitter:
    """Submitter of external events, in the order of their dates."""

    def __init__(
        self, world: World, events: Sequence[ExternalEvent] | None, on_last: OnLast
    ) -> None:
        self._world = world
        self._on_last = on_last
        self._events = list(reversed(events or ()))

    def begin(self) -> None:
        if self._events:
            self._world.waits.at(max(0.0, self._events[-1].timestamp), self._submit_due, None)

    def _submit_due(self, _: None) -> None:
        events = self._events
        # One of them is due: it may still be a rounding error ahead of the others of its date.
        latest = max(self._world.now, events[-1].timestamp)
        while events:
            if events[-1].timestamp > latest:
                self._world.waits.at(events[-1].timestamp, self._submit_due, None)
                return
            apply_external_event(self._world, events.pop())
        self._on_last(Notify.of(NO_MORE_EXTERNAL_EVENTS))


def apply_external_event(world: World, event: ExternalEvent) -> None:
    """Carry out an external event now, and tell the module."""
    if event.type not in (UNAVAILABLE, AVAILABLE):
        world.tell(Notify(event.fields))
    elif event.hosts:
        carry_out_event(world, event)
        world.tell(Notify.of(f"event_{event.type}", resources=str(event.hosts)))


def carry_out_event(world: World, event: ExternalEvent) -> None:
    """Have hosts leave or return now, if that is the event."""
    if event.type not in (UNAVAILABLE, AVAILABLE) or not event.hosts:
        return
    world.happened.append(msgspec.structs.replace(event, timestamp=world.now))
    occupation = world.occupation
    change = occupation.leave if event.type == UNAVAILABLE else occupation.come_back
    change(event.hosts, world.now)
