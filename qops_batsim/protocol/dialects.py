"""The protocol's dialects, recognised by an engine's first frame."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from qops_batsim.protocol.decisions import Decision
from qops_batsim.protocol.events import Event
from qops_batsim.protocol.messages import Message, decode_events, encode_message
from qops_batsim.protocol.v5.decision_side import DecisionSide
from qops_batsim.protocol.v5.handshake import Features, is_greeting


class Dialect(Protocol):
    """The decision process's side of a conversation with an engine.

    With a ``configuration``, the engine has begun by handing that over, and expects a
    :meth:`hello` before its first message.
    """

    @property
    def configuration(self) -> str | None:
        """Scheduler's configuration from the engine's command line; None if messages carry it."""

    def hello(self, name: str, version: str, features: Features) -> bytes:
        """Return the answer to the engine's first frame."""

    def decode(
        self, text: bytes, on_unknown: Callable[[str, float], None] | None = None
    ) -> Message[Event] | None:
        """Decode an engine's message; None if the message has nothing for a scheduler."""

    def encode(self, answer: Message[Decision] | None) -> bytes:
        """Return the answer to the engine."""


class _Batsim4:
    """Batsim 3.1 to 4.2, whose first frame is a message."""

    configuration = None

    def hello(self, name: str, version: str, features: Features) -> bytes:
        raise NotImplementedError

    def decode(
        self, text: bytes, on_unknown: Callable[[str, float], None] | None = None
    ) -> Message[Event] | None:
        return decode_events(text, on_unknown)

    def encode(self, answer: Message[Decision] | None) -> bytes:
        assert answer is not None
        return encode_message(answer)


def dialect_of(first_frame: bytes) -> Dialect:
    """Return the dialect of an engine's first frame.

    >>> dialect_of(bytes(4)).configuration
    ''
    """
    return DecisionSide(first_frame) if is_greeting(first_frame) else _Batsim4()
