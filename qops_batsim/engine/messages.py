"""The delays of Batsim's own messages, on a platform whose routes have latencies.

Batsim is made of actors: submitters, a server, one actor a running job, one an exchange
with the scheduler, and so on. They live on hosts and send each other messages of one byte
over the platform. A message takes the latency of the route between the two hosts, and the
time of one byte on its narrowest link. The server takes in one message at a time; the others
queue, in the order in which they were sent. The scheduler is asked once its last answer has
been taken in completely and no message is waiting. All lags follow from that (docs page
"Message delays").

Actors run in rounds, as in SimGrid: all that wake at a date run until each asks for something
(to send, receive, sleep, or begin another actor); then the requests are granted in that order.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator
from typing import Any, NamedTuple

from qops_batsim.engine.steps import SteppedWaits

Actor = Generator[Callable[[Any], None], None, None]
"""What an actor does: it yields requests, and goes on when they are granted."""

Request = Callable[[Actor], None]
"""What an actor asks for: called with the actor, it sees to it that the actor goes on."""

Transfer = Callable[[int | None, Callable[[Any], None], Any], None]
"""Brings a message from a host, None for the master, to the server, then calls back."""


class Letter(NamedTuple):
    """A message to the server: the host it comes from (None for the master), what it does there."""

    source: int | None
    effect: Callable[[], None]


class Mailbox:
    """The server's mailbox, and the actors that send to it.

    A request is a function of the actor that asks; :meth:`send` and the others return one.
    """

    def __init__(self, waits: SteppedWaits, transfer: Transfer) -> None:
        self._waits = waits
        self._transfer = transfer
        self._ready: list[Actor] = []
        self._asked: dict[Actor, Request | None] = {}
        self._queue: deque[tuple[Letter, Actor]] = deque()
        self._receiver: Actor | None = None
        self.letter: Letter | None = None
        self.crowded = False
        """Whether more than one actor runs in this round."""

    @property
    def empty(self) -> bool:
        """Whether no message waits to be taken in."""
        return not self._queue

    def begin(self, actor: Actor) -> None:
        """Let an actor run in the round that comes."""
        self._ready.append(actor)

    def begin_at_once(self, actor: Actor) -> None:
        """Let an actor run up to its first request, to be granted in the round that comes."""
        self._asked[actor] = next(actor, None)
        self._ready.append(actor)

    def run(self) -> None:
        """Run rounds until every actor waits for a date or a message."""
        asked = self._asked
        while self._ready:
            ready, self._ready = self._ready, []
            self.crowded = len(ready) > 1
            requests = [
                (asked.pop(actor) if actor in asked else next(actor, None), actor)
                for actor in ready
            ]
            for request, actor in requests:
                if request is not None:
                    request(actor)

    # Requests

    def send(self, effect: Callable[[], None], source: int | None = None) -> Request:
        """Send a message, and go on when it has arrived."""

        def request(actor: Actor) -> None:
            letter = Letter(source, effect)
            if self._receiver is None:
                self._queue.append((letter, actor))
            else:
                receiver, self._receiver = self._receiver, None
                self._travel(letter, (receiver, actor))

        return request

    def receive(self, actor: Actor) -> None:
        """Take in the next message, which is then :attr:`letter`."""
        if self._queue:
            letter, sender = self._queue.popleft()
            self._travel(letter, (sender, actor))
        else:
            self._receiver = actor

    def sleep(self, seconds: float) -> Request:
        """Go on after a time (seconds)."""
        return lambda actor: self._wake_after(seconds, actor)

    def do(self, effect: Callable[[], object]) -> Request:
        """Let something happen after this round, and go on in the next."""

        def request(actor: Actor) -> None:
            effect()
            self._ready.append(actor)

        return request

    def beget(self, other: Actor) -> Request:
        """Begin another actor, which runs first, and go on."""

        def request(actor: Actor) -> None:
            self._ready += [other, actor]

        return request

    def _wake_after(self, seconds: float, actor: Actor) -> None:
        self._waits.after(self._waits.now, seconds, self.begin, actor)

    def _travel(self, letter: Letter, awaiting: tuple[Actor, Actor]) -> None:
        self._transfer(letter.source, self._arrive, (letter, awaiting))

    def _arrive(self, what: tuple[Letter, tuple[Actor, Actor]]) -> None:
        # Who came first, sender or receiver, goes on first.
        self.letter, awaiting = what
        self._ready += awaiting
