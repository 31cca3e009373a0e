"""Batsim's actors on a platform with latencies: submitters, server, messages.

Where every message takes no time, they give the same events as
:mod:`~qops_batsim.engine.simulation` without delays, in the same order.

The actors live on hosts and send each other messages of one byte over the platform. A message takes
the latency of the route between the two hosts, and the time of one byte on its narrowest link. The
server takes in one message at a time; the others queue, in the order in which they were sent. The
scheduler is asked once its last answer has been taken in completely and no message is waiting. All
lags follow from that (docs page "Message delays").

Actors run in rounds, as in SimGrid: all that wake at a date run until each asks for something
(to send, receive, sleep, or begin another actor); then the requests are granted in that order.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

from qops_batsim.engine.decision_effects import apply_decision
from qops_batsim.engine.engine_options import EngineOptions, ExternalEvent, Rules
from qops_batsim.engine.execution import Amounts
from qops_batsim.engine.fluid import Computation
from qops_batsim.engine.message_loop import Exchange
from qops_batsim.engine.records import JobRecord
from qops_batsim.engine.sleeping_jobs import submission_order
from qops_batsim.engine.waits import SteppedWaits, Wait, WorldWaits
from qops_batsim.engine.world import World
from qops_batsim.errors import InputError
from qops_batsim.jobs import Job
from qops_batsim.platform.platform_model import Platform
from qops_batsim.protocol.decisions import Decision, RegisterJob, StopSimulation
from qops_batsim.protocol.events import (
    NO_MORE_EXTERNAL_EVENTS,
    NO_MORE_STATIC_JOBS,
    Event,
    Notify,
    RequestedCall,
    SimulationBegins,
    SimulationEnds,
)
from qops_batsim.protocol.messages import Message, Stamped

Actor = Generator[Callable[[Any], None], None, None]
"""Steps of an actor: it yields requests, and goes on when they are granted."""

ActorRequest = Callable[[Actor], None]
"""Request of an actor: called with the actor, it sees to it that the actor goes on."""

Delivery = Callable[[int | None, Callable[[Any], None], Any], None]
"""Brings a message from a host, None for the master, to the server, then calls back."""


class Letter(NamedTuple):
    """A message to Batsim's server: the sending host (None: master), its effect on arrival."""

    source: int | None
    effect: Callable[[], None]


class Mailbox:
    """The server's mailbox and the actors that send to it.

    A request is a function of the actor that asks; :meth:`send` and the others return one.
    """

    def __init__(self, waits: SteppedWaits, transfer: Delivery) -> None:
        self._waits = waits
        self._transfer = transfer
        self._ready: list[Actor] = []
        self._asked: dict[Actor, ActorRequest | None] = {}
        self._queue: deque[tuple[Letter, Actor]] = deque()
        self._receiver: Actor | None = None
        self.letter: Letter | None = None
        self.crowded = False
        """Whether more than one actor runs in this round."""

    @property
    def empty(self) -> bool:
        """Whether no message is waiting."""
        return not self._queue

    def begin(self, actor: Actor) -> None:
        """Start a SimGrid actor in the next round of the simulation."""
        self._ready.append(actor)

    def begin_at_once(self, actor: Actor) -> None:
        """Run a SimGrid actor now, up to its first request, which is granted in the next round."""
        self._asked[actor] = next(actor, None)
        self._ready.append(actor)

    def run(self) -> None:
        """Run rounds until every actor waits for a date or a message."""
        asked = self._asked
        while self._ready:
            ready = self._ready
            self._ready = []
            self.crowded = len(ready) > 1
            requests = [
                (asked.pop(actor) if actor in asked else next(actor, None), actor)
                for actor in ready
            ]
            for request, actor in requests:
                if request is not None:
                    request(actor)

    # Requests

    def send(self, effect: Callable[[], None], source: int | None = None) -> ActorRequest:
        """Return an actor's request to send a message; the actor continues when it has arrived."""

        def request(actor: Actor) -> None:
            letter = Letter(source, effect)
            if self._receiver is None:
                self._queue.append((letter, actor))
            else:
                receiver = self._receiver
                self._receiver = None
                self._travel(letter, (receiver, actor))

        return request

    def receive(self, actor: Actor) -> None:
        """Receive the next message into :attr:`letter`."""
        if self._queue:
            letter, sender = self._queue.popleft()
            self._travel(letter, (sender, actor))
        else:
            self._receiver = actor

    def sleep(self, seconds: float) -> ActorRequest:
        """Return an actor's request to sleep; the actor continues after these seconds."""

        def request(actor: Actor) -> None:
            self._waits.after(self._waits.now, seconds, self.begin, actor)

        return request

    def do(self, effect: Callable[[], object]) -> ActorRequest:
        """Request a call of a function after this round; the actor continues in the next."""

        def request(actor: Actor) -> None:
            effect()
            self._ready.append(actor)

        return request

    def begin_other(self, other: Actor) -> ActorRequest:
        """Start another actor, which runs before this one continues."""

        def request(actor: Actor) -> None:
            self._ready += [other, actor]

        return request

    def _travel(self, letter: Letter, awaiting: tuple[Actor, Actor]) -> None:
        self._transfer(letter.source, self._arrive, (letter, awaiting))

    def _arrive(self, what: tuple[Letter, tuple[Actor, Actor]]) -> None:
        # Who came first, sender or receiver, goes on first.
        self.letter, awaiting = what
        self._ready += awaiting


ENDED_PER_PROGRESS_REPORT = 256
"""Ended jobs from one report of progress to the next."""

_LETTER = Amounts((), (0.0, 4.0, 0.0, 0.0))
"""Size of the message between two hosts when a rank of a trace has ended (bytes)."""


class NetworkedWorld(World):
    """A world whose news travels to the server from actor to actor.

    ``errands`` is the number of requested calls and kills that the server has yet to hear of,
    ``when_ready`` what begins once the scheduler has answered.
    """

    def __init__(self, platform: Platform, options: EngineOptions) -> None:
        super().__init__(platform, options)
        self.mailbox = Mailbox(self.steps, self.transfer)
        self.errands = 0
        self._periodic: dict[str, object] = {}
        self.when_ready: list[Callable[[], None]] = []
        self._outliving: dict[str, Computation] = {}
        self._waited_for: dict[Wait, Computation] = {}

    def _new_waits(self) -> WorldWaits:
        self.steps = SteppedWaits()
        return self.steps

    def step(self) -> bool:
        """Advance to the next date with events; return whether there is one."""
        self.settle()
        if not self.steps.advance():
            return False
        self.now = self.steps.now
        due = self.steps.due()
        if self.energy is not None:
            self.mailbox.crowded = len(due) > 1
            for wait in due:
                self._read_meters_of(wait)
        self.steps.end_due(due)
        return True

    def transfer(self, source: int | None, action: Callable[[Any], None], argument: Any) -> None:
        """Send one byte from a host (None: the master) to the master; then call back.

        Unless jobs compute, it has the network for itself.
        """
        if self.energy is not None and source is not None:
            action, argument = self._arrive_from, (source, action, argument)
        way = self.machine.message(source)
        if (self.computing or self._outliving) and way.uses:
            byte = Computation(way.uses, bound=way.bound, latency=way.latency)
            self.progress(byte, self._arrive, (byte, action, argument))
            return
        sent = self.steps.some_time(action, argument)
        if way.latency:
            self.waits.after(self.now, way.latency, self._send_byte, (sent, way.alone))
        else:
            self.steps.go_on(sent, way.alone)

    def letter(self, source: int, destination: int) -> Computation | None:
        """Return the transfer of a pointer-sized message, if a route connects the hosts."""
        try:
            return self.machine.computation(_LETTER, (source, destination))
        except InputError:
            return None  # SimGrid lets it pass at once.

    def progress(
        self, computation: Computation, action: Callable[[Any], None], argument: Any
    ) -> list[Wait]:
        waits = super().progress(computation, action, argument)
        self._waited_for[waits[0]] = computation
        return waits

    def stop(self, computation: Computation) -> None:
        del self._waited_for[self._ends[computation]]
        super().stop(computation)

    def _send_byte(self, what: tuple[Wait, float]) -> None:
        self.steps.go_on(*what)

    def _arrive(self, what: tuple[Computation, Callable[[Any], None], Any]) -> None:
        byte, action, argument = what
        self.stop(byte)
        action(argument)

    def _arrive_from(self, what: tuple[int, Callable[[Any], None], Any]) -> None:
        """Read the energy meter of the host from which a message comes, as SimGrid does."""
        source, action, argument = what
        assert self.energy is not None
        self.energy.read((source,), self.now)
        action(argument)

    def _walltime(self, record: JobRecord) -> tuple[Wait, ...]:
        left = record.walltime_left
        if left == math.inf or not self.options.rules.walltimes_are_dates:
            return super()._walltime(record)
        return (self.steps.timer(self.now + left, self._reach_walltime, record),)

    def _reach_walltime(self, record: JobRecord) -> None:
        """End a job at its walltime; as in Batsim, it computes on until the server hears of that.

        A computation that needs exactly its walltime has ended before, or first in this step.
        """
        computation = record.computation
        if computation is not None:
            end = self._ends[computation]
            end.action = self._give_up
            end.argument = record.job.id
            record.waits = tuple(wait for wait in record.waits if wait is not end)
            record.computation = None
            del self.computing[computation]
            self._outliving[record.job.id] = computation
        super()._reach_walltime(record)

    def _read_meters_of(self, wait: Wait) -> None:
        """Read the energy meters of the hosts where a wait ends, as SimGrid does before actors go
        on.
        """
        assert self.energy is not None
        computation = self._waited_for.get(wait)
        if computation is not None:
            self.energy.read(computation.parties, self.now)
        elif isinstance(wait.argument, JobRecord):
            self.energy.read((next(iter(wait.argument.hosts)),), self.now)

    def read_meters(self, first: Iterable[int] = ()) -> Iterator[ActorRequest]:
        """Read the energy meters of the ``first`` hosts, then of all, one in each round, as an
        actor does.

        Where several actors go on at one date, that decides which of them sends its news first.
        """
        if self.energy is None or not self.mailbox.crowded:
            return
        for host in (*first, *range(self.energy.count)):
            if self.energy.is_behind(host, self.now):
                yield self.mailbox.do(partial(self.energy.read, (host,), self.now))

    def _give_up(self, job_id: str) -> None:
        self.stop(self._outliving.pop(job_id))

    def report_end(self, record: JobRecord) -> None:
        """Send the news of a job's end from its first host."""
        self.mailbox.begin_at_once(self._report(record))

    def _report(self, record: JobRecord) -> Actor:
        yield from self.read_meters(record.hosts)
        self.account_for(record)
        yield self.mailbox.send(partial(self.completed, record), next(iter(record.hosts)))
        if record.job.id in self._outliving:
            self._give_up(record.job.id)

    def begin_switch(self) -> None:
        self.errands += 1

    def report_switch(self, host: int, report: Callable[[], None]) -> None:
        """Send the news that a host has switched its power state, then call ``report``."""
        self.mailbox.begin(_once(self.mailbox.send(partial(self._note_switch, report), host)))

    def _note_switch(self, report: Callable[[], None]) -> None:
        self.errands -= 1
        report()

    def report_kills(self, victims: list[JobRecord], progress: dict[str, dict[str, Any]]) -> None:
        """Send the news of kills from the killer on the master."""
        self.errands += 1
        self.mailbox.begin(_once(self.mailbox.send(partial(self._note_kills, victims, progress))))

    def call_at(self, date: float, call_id: str = "") -> None:
        """Start an actor on the master that sends the call at its date."""
        self.errands += 1
        self.mailbox.begin(self._wait(date, call_id))

    def call_each(self, period: float, count: int | None, call_id: str) -> None:
        """Start an actor that sends calls each period (seconds)."""
        self.errands += 1
        waiter = object()
        self._periodic[call_id] = waiter
        self._sleep_until(self.now + period, period, count, call_id, waiter)

    def _sleep_until(self, date: float, *calls: Any) -> None:
        self.mailbox.begin(self._wait_each(date, *calls))

    def stop_calls(self, call_id: str) -> None:
        if self._periodic.pop(call_id, None) is not None:
            self.errands -= 1

    def end_is_untold(self, record: JobRecord) -> bool:
        """Return whether a job has ended and the scheduler has not been told yet. O(ended jobs)."""
        on_its_way = record.finish == record.finish and record not in self.ended
        return on_its_way or super().end_is_untold(record)

    def _note_kills(self, victims: list[JobRecord], progress: dict[str, dict[str, Any]]) -> None:
        self.errands -= 1
        super().report_kills(victims, progress)

    def _wait(self, date: float, call_id: str) -> Actor:
        if date > self.now:
            yield self.mailbox.sleep(date - self.now)
        yield self.mailbox.send(partial(self._call, call_id))

    def _call(self, call_id: str) -> None:
        self.errands -= 1
        self.tell(RequestedCall(call_id))

    def _wait_each(
        self, date: float, period: float, left: int | None, call_id: str, waiter: object
    ) -> Actor:
        yield self.mailbox.sleep(date - self.now)
        if self._periodic.get(call_id) is not waiter:
            return
        yield self.mailbox.send(partial(self._called, call_id, left == 1))
        if left != 1:
            further = None if left is None else left - 1
            again = partial(self._sleep_until, date + period, period, further, call_id, waiter)
            self.when_ready.append(again)

    def _called(self, call_id: str, last: bool) -> None:
        if call_id in self._periodic:
            self.tell(RequestedCall(call_id, last))
            if last:
                self.stop_calls(call_id)


def _once(request: ActorRequest) -> Actor:
    yield request


def _nothing() -> None:
    """Do nothing: effect of a message, such as a submitter's greeting, that only takes time."""


def _lists_of(events: Sequence[ExternalEvent], rules: Rules) -> list[list[ExternalEvent]]:
    """Return each event list in order; a single list where they are not distinguished."""
    if not rules.lists_apart:
        return [list(events)]
    lists: dict[str, list[ExternalEvent]] = {}
    for event in events:
        name = str(event.fields.get("id", "")).partition("!")[0]
        lists.setdefault(name, []).append(event)
    return list(lists.values())


class Server:
    """One simulation with message delays, from SIMULATION_BEGINS to SIMULATION_ENDS.

    Parameters
    ----------
    world
        Where it happens.
    exchange
        The decision side.
    events
        External events, or None without a list of them.
    """

    def __init__(
        self,
        world: NetworkedWorld,
        exchange: Exchange,
        events: Sequence[ExternalEvent] | None,
    ) -> None:
        self._world = world
        self._mailbox = world.mailbox
        self._exchange = exchange
        self._submitted = 0

        workloads = world.workloads
        lists = [] if events is None else _lists_of(events, world.options.rules)
        self._lists_to_come = len(lists)
        self._submitters = len(workloads) + len(lists)

        self._scheduler_ready = False
        self._ending = False
        self.over = False

        self._jobs_to_come = len(workloads)

        for name, workload in workloads.items():
            places = submission_order(world.columns[name]).tolist()
            ordered = [workload.jobs[place] for place in places]
            dated = [(job.submission_time, job) for job in ordered]
            submit = partial(self._submit, name)
            self._mailbox.begin(self._submitter(dated, submit, self._last_jobs))
        for of_one_list in lists:
            listed = [(event.timestamp, event) for event in of_one_list]
            self._mailbox.begin(self._submitter(listed, self._happen, self._last_events))

    def run(self, begins: SimulationBegins, on_progress: Callable[[int], None]) -> None:
        """Run until the simulation is :attr:`over`, or nothing else will happen; report the number
        of ended jobs now and then.
        """
        world = self._world
        next_report = ENDED_PER_PROGRESS_REPORT
        self._mailbox.begin(self._serve(begins))  # After all submitters.
        self._mailbox.run()
        while not self.over and world.step():
            self._mailbox.run()
            if len(world.ended) >= next_report:
                next_report = len(world.ended) + ENDED_PER_PROGRESS_REPORT
                on_progress(len(world.ended))

    # The actors

    def _submitter(
        self,
        dated: Sequence[tuple[float, Any]],
        submit: Callable[[Sequence[Any]], None],
        farewell: Callable[[], None],
    ) -> Actor:
        """Return the actor that submits a workload: greets the server, submits each job, says
        goodbye.
        """
        box = self._mailbox
        world = self._world
        yield box.send(_nothing)
        reached = world.now
        due: list[Any] = []

        for date, entry in dated:
            if date > reached:
                if due:
                    yield box.send(partial(submit, due))
                    due = []
                # Counted from the last date, not from now: sending takes no time off the sleep.
                yield box.sleep(date - reached)
                reached = world.now

            if world.energy is not None and isinstance(entry, Job) and not self._submitted:
                yield from world.read_meters()
                world.energy.note_submission(world.now)
            due.append(entry)

        if due:
            yield box.send(partial(submit, due))
        yield box.send(farewell)

    def _serve(self, begins: SimulationBegins) -> Actor:
        box = self._mailbox
        world = self._world
        world.tell(begins)
        if world.options.rules.begins_first:
            yield box.begin_other(self._ask())
        else:
            self._scheduler_ready = True

        while not self.over:
            yield box.receive
            assert box.letter is not None
            box.letter.effect()
            if not self._scheduler_ready or not box.empty:
                continue

            if world.stopped and not self._ending:
                world.empty_outbox()

            if not world.outbox and not self._ending and (world.stopped or self._is_finished()):
                self._ending = True
                if world.options.rules.begins_first:
                    world.tell(SimulationEnds())
                else:
                    end = partial(world.tell, SimulationEnds())
                    yield box.begin_other(_once(box.send(end)))

            if world.outbox:
                self._scheduler_ready = False
                yield box.begin_other(self._ask())

    def _ask(self) -> Actor:
        """Return the actor that sends news to the scheduler, and brings back its decisions."""
        world = self._world
        events, dates = world.empty_outbox()
        decimals = world.options.rules.decimals
        pairs = zip(dates, events, strict=True)
        told = [Stamped(round(date, decimals), event) for date, event in pairs]
        return self._converse(Message(round(world.now, decimals), told))

    def _converse(self, message: Message[Event]) -> Actor:
        box = self._mailbox
        reply = self._exchange(message)
        for item in reply.events:
            yield from self._until(item.timestamp)
            yield box.send(partial(self._decided, item.body))
            if isinstance(item.body, StopSimulation):
                break  # What else was decided is of no use.
        yield from self._until(reply.now)
        yield box.send(self._become_ready)

    def _until(self, date: float) -> Iterator[ActorRequest]:
        seconds = date - self._world.now
        if seconds > 0:
            yield self._mailbox.sleep(seconds)

    # What messages do at the server

    def _submit(self, workload_name: str, jobs: Sequence[Job]) -> None:
        self._submitted += len(jobs)
        for job in jobs:
            self._world.submit(job.renamed(f"{workload_name}!{job.id}"))

    def _happen(self, events: Sequence[ExternalEvent]) -> None:
        for event in events:
            self._world.happen(event)

    def _decided(self, decision: Decision) -> None:
        apply_decision(self._world, decision)
        if isinstance(decision, RegisterJob):
            self._submitted += 1

    def _become_ready(self) -> None:
        self._scheduler_ready = True
        self.over = self._ending
        world = self._world
        todo = world.when_ready
        world.when_ready = []
        for begin in todo:
            begin()

    def _last_jobs(self) -> None:
        self._submitters -= 1
        self._jobs_to_come -= 1
        if not self._jobs_to_come:
            self._world.tell(Notify.of(NO_MORE_STATIC_JOBS))

    def _last_events(self) -> None:
        self._submitters -= 1
        self._lists_to_come -= 1
        if not self._lists_to_come:
            self._world.tell(Notify.of(NO_MORE_EXTERNAL_EVENTS))

    def _is_finished(self) -> bool:
        world = self._world
        return not (self._submitters or world.registering or world.errands) and (
            len(world.ended) == self._submitted
        )
