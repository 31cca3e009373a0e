"""The engine's side of the wire: a decision process behind a socket, as a peer."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType

from qops_batsim.errors import InputError, SimulationError
from qops_batsim.limits import MAX_MESSAGE_BYTES
from qops_batsim.protocol.decisions import Decision
from qops_batsim.protocol.events import Event, SimulationEnds
from qops_batsim.protocol.messages import Message, decode_decisions, encode_message
from qops_batsim.protocol.zeromq import ConnectionLost, connect

_WORDS_SHOWN = 200
"""How much of an answer that is no JSON object is shown (bytes)."""


class RemotePeer:
    """Any Batsim decision process, asked over ZeroMQ.

    Use it as a context manager, or :meth:`close` it.

    Parameters
    ----------
    endpoint
        Where the decision process listens: ``tcp://HOST:PORT`` or ``ipc://PATH``.
        It may start later.
    timeout
        Longest wait for an answer (seconds), the first one included; None to
        wait without end, as Batsim does.
    max_message_bytes
        Longest answer accepted (bytes).
    on_message
        Called with ``"sent"`` or ``"received"`` and the text of each message.
    while_waiting
        Called about ten times a second while waiting; may raise to end the wait.

    Raises
    ------
    InputError
        The endpoint is none.
    """

    def __init__(
        self,
        endpoint: str,
        *,
        timeout: float | None = None,
        max_message_bytes: int = MAX_MESSAGE_BYTES,
        on_message: Callable[[str, bytes], None] | None = None,
        while_waiting: Callable[[], None] | None = None,
    ) -> None:
        self.endpoint = endpoint
        self._on_message = on_message
        self._socket = connect(
            endpoint,
            timeout=timeout,
            max_message_bytes=max_message_bytes,
            while_waiting=while_waiting,
        )

    def exchange(self, message: Message[Event]) -> Message[Decision]:
        """Return what the decision process answers.

        Raises
        ------
        SimulationError
            It has gone, is silent for too long, or answers something that is no
            message of decisions.
        """
        text = encode_message(message)
        if self._on_message is not None:
            self._on_message("sent", text)
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
            self._on_message("received", answer)
        try:
            return decode_decisions(answer)
        except InputError as error:
            trouble = str(error)
            if not answer.lstrip().startswith(b"{"):
                # No protocol at all: perhaps a word to the user, as ours when it gives up.
                trouble += f"; it says {answer[:_WORDS_SHOWN].decode(errors='replace')!r}"
            raise self._misunderstood(message.now, trouble) from None

    def close(self) -> None:
        """Leave the decision process."""
        self._socket.close()

    def __enter__(self) -> RemotePeer:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _misunderstood(self, now: float, trouble: str) -> SimulationError:
        return SimulationError(
            f"at {now:.6f} s: the decision process at {self.endpoint} answered a wrong "
            f"message: {trouble}"
        )
