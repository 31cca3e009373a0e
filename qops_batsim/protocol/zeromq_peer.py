"""The engine's side of the wire: a decision process behind a socket, as a peer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Unpack

from qops_batsim.errors import InputError, SimulationError
from qops_batsim.protocol.decisions import Decision
from qops_batsim.protocol.events import Event, SimulationEnds
from qops_batsim.protocol.messages import Message, decode_decisions, encode_message
from qops_batsim.protocol.redis_descriptions import RedisDescriptions
from qops_batsim.protocol.zeromq import Bounds, ConnectionLost, connect

_WORDS_SHOWN = 200
"""How much of an answer that is no JSON object is shown (bytes)."""


class RemotePeer:
    """Any Batsim decision process, asked over ZeroMQ.

    Use it as a context manager, or :meth:`close` it.

    The decision process listens at ``tcp://HOST:PORT`` or ``ipc://PATH``, and may start later. The
    timeout among the :class:`~qops_batsim.protocol.zeromq.Bounds` also holds for the first answer.
    ``on_message`` is called with the date (seconds), ``"Sending"`` or ``"Received"``, and the text
    of each message. With ``descriptions``, those of jobs travel by that way.
    """

    def __init__(
        self,
        endpoint: str,
        *,
        on_message: Callable[[float, str, bytes], None] | None = None,
        descriptions: RedisDescriptions | None = None,
        **bounds: Unpack[Bounds],
    ) -> None:
        self.endpoint = endpoint
        self._on_message = on_message
        self._descriptions = descriptions
        self._socket = connect(endpoint, **bounds)

    def exchange(self, message: Message[Event]) -> Message[Decision]:
        """Return what the decision process answers; SimulationError if it fails to."""
        descriptions = self._descriptions
        text = encode_message(message if descriptions is None else descriptions.take_out(message))
        if self._on_message is not None:
            self._on_message(message.now, "Sending", text)
        try:
            self._socket.send(text)
            answer = self._socket.receive()
        except ConnectionLost as error:
            if any(isinstance(item.body, SimulationEnds) for item in message.events):
                # It need not wait to be told goodbye.
                return Message(message.now, [])
            raise SimulationError(
                f"at {message.now:.6f} s: the decision process at {self.endpoint} {error}"
            ) from None
        except InputError as error:
            raise self._misunderstood(message.now, str(error)) from None
        if self._on_message is not None:
            self._on_message(message.now, "Received", answer)
        try:
            return decode_decisions(answer if descriptions is None else descriptions.put_in(answer))
        except InputError as error:
            trouble = str(error)
            if not answer.lstrip().startswith(b"{"):
                # No protocol at all: perhaps a word to the user, as ours when it gives up.
                trouble += f"; it says {answer[:_WORDS_SHOWN].decode(errors='replace')!r}"
            raise self._misunderstood(message.now, trouble) from None

    def close(self) -> None:
        self._socket.close()
        if self._descriptions is not None:
            self._descriptions.close()

    def __enter__(self) -> RemotePeer:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _misunderstood(self, now: float, trouble: str) -> SimulationError:
        return SimulationError(
            f"at {now:.6f} s: the decision process at {self.endpoint} answered a wrong "
            f"message: {trouble}"
        )
