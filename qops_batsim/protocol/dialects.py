"""The protocol's dialects, recognised by an engine's first frame."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from qops_batsim.protocol.decisions import Decision
from qops_batsim.protocol.events import Event
from qops_batsim.protocol.messages import Message, decode_events, encode_message
from qops_batsim.protocol.v5.decision_side import Batsim5Dialect
from qops_batsim.protocol.v5.handshake import Features, is_greeting


class Dialect(Protocol):
    """Reads and writes the messages of one version of Batsim's protocol, on the scheduler's side.

    If :attr:`configuration` is not None, the engine expects :meth:`hello` before its first message.
    """

    @property
    def configuration(self) -> str | None:
        """The scheduler's configuration, a text, from Batsim 5's command line; None in Batsim 4."""

    def hello(self, name: str, version: str, features: Features) -> bytes:
        """Return the frame that answers the engine's first frame: the scheduler's name and
        requested features.
        """

    def decode(
        self, text: bytes, on_unknown: Callable[[str, float], None] | None = None
    ) -> Message[Event] | None:
        """Return the events in an engine's message, None if no event concerns the scheduler."""

    def encode(self, answer: Message[Decision] | None) -> bytes:
        """Return the message with the scheduler's decisions (None: no decisions) for the engine."""


class Batsim4Dialect:
    """Messages of Batsim 3.1 to 4.2, which has no greeting before the first message."""

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
    """Return the version of Batsim's protocol that an engine speaks, recognised by its first frame.

    >>> dialect_of(bytes(4)).configuration
    ''
    """
    return Batsim5Dialect(first_frame) if is_greeting(first_frame) else Batsim4Dialect()
