"""The decision side of a simulation, as the engine sees it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from qops_batsim.protocol.decisions import Decision
from qops_batsim.protocol.events import Event
from qops_batsim.protocol.messages import Message


class Peer(Protocol):
    """The decision side: anything that answers a message with a message."""

    def exchange(self, message: Message[Event]) -> Message[Decision]:
        """Return the decisions that answer these events."""


@runtime_checkable
class DirectPeer(Protocol):
    """A decision side in this process, whose decisions take effect at once.

    It needs neither the dates of events, nor those of messages.
    """

    def decisions_on(self, now: float, events: Sequence[Event]) -> Sequence[Decision]:
        """Return the decisions that answer these events at a date (seconds)."""
