"""The loop of events of a run in which a world executes all jobs, and a decision side answers.

So run all workloads in which a job does more than sleep on hosts of its own, and all whose
decisions come from another process, which is a driver of the loop by messages.
"""

from __future__ import annotations

from collections.abc import Callable

from qops_batsim.core.job import Job
from qops_batsim.engine.decision_effects import apply_decision
from qops_batsim.engine.loop import Loop, Submissions
from qops_batsim.engine.world import World
from qops_batsim.protocol.decisions import Decision
from qops_batsim.protocol.events import Event, Notify, SimulationBegins, SimulationEnds
from qops_batsim.protocol.messages import Message, Stamped
from qops_batsim.timing import SAME_DATE

Exchange = Callable[[Message[Event]], Message[Decision]]
"""Tells the decision side what happened, and returns its decisions."""


class MessageLoop(Loop):
    """One run of workloads in a world, under decisions that come in messages.

    Parameters
    ----------
    world
        Where it happens: hosts, jobs, and the events that are told in the next message.
    workloads
        The jobs of each.
    exchange
        The decision side.
    begins
        What it is told first.
    """

    def __init__(
        self,
        world: World,
        workloads: list[Submissions],
        exchange: Exchange,
        begins: SimulationBegins,
    ) -> None:
        events = world.options.external_events
        dates = None if events is None else [event.timestamp for event in events]
        super().__init__(workloads, dates, world.waits.heap, world.waits.turns, world)
        self.executes = True
        self.withdraws = True
        self.world = world
        self._exchange = exchange
        self._begins = begins

    def begin(self) -> None:
        self.world.tell(self._begins)
        self.decide()

    def submit_job(self, job: Job) -> None:
        if self.world.energy is not None:
            self.world.energy.note_submission(self.now)
        self.world.submit(job)

    def hear_physics(self) -> None:
        self.told = len(self.world.outbox)

    def happen_one(self, place: int) -> None:
        events = self.world.options.external_events
        assert events is not None
        self.world.happen(events[place])
        self.told = len(self.world.outbox)

    def close(self, kind: str) -> None:
        self.world.tell(Notify.of(kind))

    def decide(self) -> None:
        world = self.world
        events, dates = world.empty_outbox()
        told = [Stamped(date, event) for date, event in zip(dates, events, strict=True)]
        self._reply = self._exchange(Message(world.now, told))
        self.busy_until = max(world.now, self._reply.now)

    def carry_out(self) -> None:
        """Execute the received decisions at their dates."""
        world = self.world
        reply = self._reply
        for item in reply.events:
            if item.timestamp > reply.now:
                raise world.error(
                    f"{item.body.TYPE} is dated {item.timestamp:.6f} s, "
                    f"later than its message ({reply.now:.6f} s)"
                )

            if item.timestamp > world.now + SAME_DATE:
                world.waits.at(item.timestamp, self._take_effect, item.body)
            else:
                self.come_to(max(world.now, item.timestamp))
                apply_decision(world, item.body)

        self.told = len(world.outbox)
        self.ended_count = len(world.ended)

    def finish(self) -> None:
        """Send SIMULATION_ENDS to the decision process once it is no longer busy."""
        world = self.world
        world.now = max(world.now, self.busy_until)
        self._exchange(Message(world.now, [Stamped(world.now, SimulationEnds())]))

    def _take_effect(self, decision: Decision) -> None:
        apply_decision(self.world, decision)
