"""Decisions by messages: the event loop runs a world, and a decision side answers.

So run all workloads in which a job does more than sleep on hosts of its own, and all whose
decisions come from another process.
"""

from __future__ import annotations

from collections.abc import Callable

from qops_batsim.core.job import Job
from qops_batsim.core.scheduler import ResourceManager, Scheduler
from qops_batsim.engine.decision_effects import apply_decision
from qops_batsim.engine.world import World
from qops_batsim.protocol.decisions import Decision
from qops_batsim.protocol.events import Event, Notify, SimulationBegins, SimulationEnds
from qops_batsim.protocol.messages import Message, Stamped
from qops_batsim.timing import SAME_DATE

Exchange = Callable[[Message[Event]], Message[Decision]]
"""Tells the decision side what happened, and returns its decisions."""


class Conversation(Scheduler):
    """Takes the scheduler's place in the event loop where it decides by Batsim messages.

    Attributes
    ----------
    world
        Where it happens.
    busy_until
        Date until which the decision side is "thinking" and hears nothing (seconds).
    """

    def __init__(self, world: World, exchange: Exchange, begins: SimulationBegins) -> None:
        super().__init__()
        self.world, self._exchange, self._begins = world, exchange, begins
        self.busy_until = 0.0

    def untold(self) -> int:
        """Return the number of events not yet sent to the decision process."""
        return len(self.world.outbox)

    def happen(self, number: int) -> None:
        """Execute the external event with this index in the simulation's options, and report it."""
        self.world.happen((self.world.options.external_events or ())[number])

    def begin(self, manager: ResourceManager) -> None:
        super().begin(manager)
        self.world.tell(self._begins)
        self.decide()

    def submitted(self, job: Job) -> None:
        if self.world.energy is not None:
            self.world.energy.note_submission(self.world.now)
        self.world.submit(job)

    def notified(self, notification: object) -> None:
        assert isinstance(notification, Notify)
        self.world.tell(notification)

    def decide(self) -> None:
        world = self.world
        events, dates = world.empty_outbox()
        told = [Stamped(date, event) for date, event in zip(dates, events, strict=True)]
        self._reply = self._exchange(Message(world.now, told))
        self.busy_until = max(world.now, self._reply.now)

    def carry_out(self) -> int:
        """Execute the received decisions at their dates; return how many jobs have ended so far."""
        world, reply = self.world, self._reply
        for item in reply.events:
            if item.timestamp > reply.now:
                raise world.error(
                    f"{item.body.TYPE} is dated {item.timestamp:.6f} s, "
                    f"later than its message ({reply.now:.6f} s)"
                )
            if item.timestamp > world.now + SAME_DATE:
                world.waits.at(item.timestamp, self._take_effect, item.body)
            else:
                world.now = max(world.now, item.timestamp)
                apply_decision(world, item.body)
        self.manager.now = world.now
        return len(world.ended)

    def end(self) -> None:
        """Send SIMULATION_ENDS to the decision process once it is no longer busy."""
        world = self.world
        world.now = max(world.now, self.busy_until)
        self._exchange(Message(world.now, [Stamped(world.now, SimulationEnds())]))

    def _take_effect(self, decision: Decision) -> None:
        apply_decision(self.world, decision)
