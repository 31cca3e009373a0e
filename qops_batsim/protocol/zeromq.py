"""Batsim's transport: one JSON text per ZeroMQ frame, strict request and reply.

The engine is the REQ side and connects; the decision process binds, and talks to one engine at a
time: whatever else speaks to it is refused. Either may start first. ZeroMQ itself never says that
the other side has gone: here a monitor of the socket's connections does. An endpoint that cannot be
used is an InputError.
"""

from __future__ import annotations

import ipaddress
import os
import stat
import struct
import time
from collections.abc import Callable
from typing import Any, TypedDict, Unpack

import zmq
from zmq.backend import Socket as BackendSocket

from qops_batsim.errors import InputError, QopsError, SimulationError, shown
from qops_batsim.limits import MAX_MESSAGE_BYTES
from qops_batsim.protocol.decisions import Decision
from qops_batsim.protocol.events import Event, SimulationEnds
from qops_batsim.protocol.messages import (
    Message,
    check_now,
    decode_decisions,
    encode_message,
    rounded_message,
)
from qops_batsim.protocol.redis_descriptions import RedisDescriptions


def tcp_address(endpoint: str) -> tuple[str, str] | None:
    """Return host and port of an endpoint ``tcp://HOST:PORT``, None for one ``ipc://PATH``."""
    transport, separator, address = endpoint.partition("://")
    if transport == "ipc" and separator and address and "\0" not in address:
        return None
    host, _, port = address.rpartition(":")
    is_port = port == "*" or (port.isascii() and port.isdigit() and int(port[:9]) < 1 << 16)
    if transport != "tcp" or not host or not is_port:
        raise InputError(
            f"endpoint is {shown(endpoint)}; tcp://HOST:PORT (port 0 to 65535) or ipc://PATH "
            "is expected"
        )
    return host, port


def endpoint_to_bind(endpoint: str, any_interface: bool) -> str:
    """Return the address to listen at; InputError if other machines could reach it, unless
    ``any_interface``.
    """
    address = tcp_address(endpoint)
    if address is None:
        _refuse_other_files(endpoint.removeprefix("ipc://"))
        return endpoint
    host, port = address
    if host == "localhost":
        return f"tcp://127.0.0.1:{port}"
    if not any_interface and not _is_loopback(host):
        raise InputError(
            f"endpoint {shown(endpoint)} would let anyone on other machines connect; give "
            "tcp://127.0.0.1:PORT, or allow it by --any-interface"
        )
    return endpoint


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def _refuse_other_files(path: str) -> None:
    """Raise an InputError if the path is a file other than a socket: ZeroMQ would delete
    the file.
    """
    if path.startswith("@"):
        return  # Linux's abstract names are no files.
    try:
        mode = os.lstat(path).st_mode
    except OSError:
        return  # Nothing there, or ZeroMQ will say what is wrong.
    if not stat.S_ISSOCK(mode):
        raise InputError(
            f"ipc://{path}: a file of that name exists and is no socket; the name of a new file is "
            "expected"
        )


_LOOK_UP_MS = 100
"""Time between two looks at signals while a message is waited for (milliseconds)."""

_MESSAGES_AHEAD = 10
"""Messages of a peer that are read before they are asked for; one that waits for answers sends one.

Fewer would make ZeroMQ ask for more after every message.
"""

_WAITING_ROOM = 4096
"""Connections that may wait to be taken in. The system puts off those beyond it by a second."""

_REFUSAL = b"refused: another engine is being served, and one at a time is"
"""Answer to all others. Batsim aborts on an answer that is no JSON, and waits for ever on none."""

_option: Callable[[zmq.Socket[bytes], int], Any] = BackendSocket.get
_send: Callable[[zmq.Socket[bytes], bytes], Any] = BackendSocket.send
_send_part: Callable[[zmq.Socket[bytes], bytes, int], Any] = BackendSocket.send
_receive: Callable[[zmq.Socket[bytes], int], bytes] = BackendSocket.recv
"""Read an option and send a frame, without a look at what kind of either it is."""

_MONITORED = struct.Struct("=HI")
"""A message of a monitor: number and value of an event; for connections, the latter tells them."""


class ConnectionLost(QopsError):
    """The peer closed the connection or did not answer in time; its text has no subject, since
    the caller adds the peer's name.
    """


class Silence(ConnectionLost):
    """The peer has not sent a message within the time limit."""


class _Connections:
    """Tracks which connections of a ZeroMQ socket are open, silent or closed.

    Programs that do not speak ZeroMQ may connect, too; they may come and go unnoticed.

    Attributes
    ----------
    open
        Connections that there are, whatever they speak, by their file descriptors.
    silent
        Those that speak ZeroMQ and have sent no message since :meth:`forget`.
    left
        Those that have gone since :meth:`forget`; True for one that was silent.
    is_foreign
        Whether something has connected that breaks ZeroMQ's rules. What was connected to it is
        not connected again.
    """

    def __init__(self, socket: zmq.Socket[bytes]) -> None:
        began = zmq.EVENT_ACCEPTED | zmq.EVENT_CONNECTED | zmq.EVENT_HANDSHAKE_SUCCEEDED
        ended = zmq.EVENT_DISCONNECTED | zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL
        address = f"inproc://connections-{id(self)}"
        socket.monitor(address, began | ended)
        self._monitor: zmq.Socket[bytes] = socket.context.socket(zmq.PAIR)
        # Without a limit: at one, ZeroMQ's own thread would wait for us, and we at the end for it.
        self._monitor.setsockopt(zmq.RCVHWM, 0)
        self._monitor.connect(address)
        self.open: set[int] = set()
        self._greeting: set[int] = set()
        self.silent: set[int] = set()
        self.left: dict[int, bool] = {}
        self.is_foreign = False

    def update(self) -> None:
        while True:
            try:
                told = self._monitor.recv_multipart(zmq.NOBLOCK)[0]
            except zmq.Again:
                return

            event, connection = _MONITORED.unpack(told)
            if event == zmq.EVENT_HANDSHAKE_SUCCEEDED:
                # It does not say whose; where that may be several's, none is taken to be known.
                if len(self._greeting) == 1:
                    self.silent |= self._greeting
                    self._greeting.clear()
            elif event == zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL:
                self.is_foreign = True
            elif event == zmq.EVENT_DISCONNECTED:
                self.left[connection] = connection in self.silent
                for connections in (self.open, self._greeting, self.silent):
                    connections.discard(connection)
            else:
                self.open.add(connection)
                self._greeting.add(connection)

    def note_word(self, connection: int) -> None:
        """Mark a connection as one over which a message has come, so that it is not silent."""
        self.update()
        self.silent.discard(connection)

    def forget(self) -> None:
        """Clear the records of closed and of silent connections."""
        self.update()
        self.silent.clear()
        self.left.clear()

    def close(self) -> None:
        self._monitor.close(linger=0)


class SocketBounds(TypedDict, total=False):
    """Limits of a message socket: longest wait, longest message, and a function called while
    waiting.

    ``timeout`` is the longest wait for a message (seconds), None for no end. On a message longer
    than ``max_message_bytes``, ZeroMQ closes the connection before reading it. ``while_waiting`` is
    called about ten times a second, and may raise to end the wait.
    """

    timeout: float | None
    max_message_bytes: int
    while_waiting: Callable[[], None] | None


class MessageSocket:
    """A ZeroMQ socket with limits on the length of messages and on waits; see
    :class:`SocketBounds`.
    """

    def __init__(
        self,
        kind: int,
        *,
        timeout: float | None = None,
        max_message_bytes: int = MAX_MESSAGE_BYTES,
        while_waiting: Callable[[], None] | None = None,
    ) -> None:
        self._timeout = timeout
        self._max_message_bytes = max_message_bytes
        self._while_waiting = while_waiting
        self._context = zmq.Context()
        self.socket: zmq.Socket[bytes] = self._context.socket(kind)
        self.socket.setsockopt(zmq.LINGER, 0)
        self.socket.setsockopt(zmq.MAXMSGSIZE, max_message_bytes)
        self.socket.setsockopt(zmq.RCVHWM, _MESSAGES_AHEAD)
        self.socket.setsockopt(zmq.RCVTIMEO, _LOOK_UP_MS)
        self._connections = _Connections(self.socket)

    def send(self, text: bytes) -> None:
        """Send a message to the peer; the message is lost if the peer has left."""
        _send(self.socket, text)

    def receive(self) -> bytes:
        """Wait for the peer's next message and return it.

        ConnectionLost if the peer has left or has sent nothing within the time limit.
        """
        began = time.monotonic()
        while True:
            try:
                text = self._next()
                if text is not None:
                    return text
            except zmq.Again:
                pass

            if self._while_waiting is not None:
                self._while_waiting()
            if self._lost():
                return self._last()
            if self._timeout is not None and time.monotonic() - began >= self._timeout:
                raise Silence(f"has said nothing for {self._timeout:g} s")

    def close(self, linger: float = 0.0) -> None:
        """Close the socket, after at most ``linger`` seconds for messages that are still being
        sent.
        """
        if not self.socket.closed:
            self.socket.disable_monitor()
            self._connections.close()
            self.socket.close(linger=round(1000 * linger))
            self._context.term()

    def _next(self, flags: int = 0) -> bytes | None:
        """Return the peer's next message, None if one came from another peer; zmq.Again if there is
        none.
        """
        return self._whole(_receive(self.socket, flags))

    def _lost(self) -> bool:
        self._connections.update()
        return bool(self._connections.left)

    def _last(self) -> bytes:
        """Return a message that came just before the peer left; ConnectionLost if there is none."""
        try:
            text = self._next(zmq.NOBLOCK)
        except zmq.Again:
            text = None
        if text is None:
            raise self._gone()
        return text

    def _gone(self) -> ConnectionLost:
        return ConnectionLost(
            "has closed the connection (which also happens when it sends more than "
            f"{self._max_message_bytes} bytes in a message)"
        )

    def _whole(self, frame: bytes) -> bytes:
        if self._skip_frames():
            raise InputError("the message has several ZeroMQ frames; one is expected")
        return frame

    def _skip_frames(self) -> int:
        """Discard the remaining frames of a message and return their number."""
        skipped = 0
        while _option(self.socket, zmq.RCVMORE):
            self.socket.recv(copy=False)
            skipped += 1
        return skipped


class ConnectedSocket(MessageSocket):
    """The engine's socket, connected to a decision process that may start later."""

    def __init__(self, **bounds: Unpack[SocketBounds]) -> None:
        super().__init__(zmq.REQ, **bounds)
        self.socket.setsockopt(zmq.SNDTIMEO, _LOOK_UP_MS)

    def send(self, text: bytes) -> None:
        """Send a message, also to a decision process that has not started yet."""
        try:
            super().send(text)
        except zmq.Again:
            raise self._gone() from None

    def _lost(self) -> bool:
        # One that leaves before it has greeted is none: the decision process may still come.
        self._connections.update()
        return self._connections.is_foreign or any(self._connections.left.values())

    def _gone(self) -> ConnectionLost:
        self._connections.update()
        if self._connections.is_foreign:
            return ConnectionLost("does not speak ZeroMQ as a decision process does")
        return super()._gone()


class ListeningSocket(MessageSocket):
    """The scheduler's socket: it serves one engine at a time and refuses others meanwhile.

    The peer that sends the first message is the engine. ``check_first`` is called with that message
    and may refuse it (and its peer) by an InputError. ``on_refused`` is called with the reason of
    each refusal.
    """

    def __init__(
        self,
        *,
        check_first: Callable[[bytes], None] | None = None,
        on_refused: Callable[[str], None] | None = None,
        **bounds: Unpack[SocketBounds],
    ) -> None:
        super().__init__(zmq.ROUTER, **bounds)
        # Any bytes could be of ZeroMQ before its version 4, which had no greeting: its library
        # aborts at the end of a socket to which one speaks like that, and knows no connection of
        # its messages. It does not listen to them at all where there is an authentication domain.
        self.socket.setsockopt(zmq.ZAP_DOMAIN, b"qops-batsim")
        self.socket.setsockopt(zmq.BACKLOG, _WAITING_ROOM)
        self._check_first = check_first
        self._on_refused = on_refused
        self._engine = b""
        self._connection = -1
        self._speaker = b""
        self._is_held = False
        self._asked = False

    def send(self, text: bytes) -> None:
        """Answer the engine; the answer is lost if the engine has left."""
        self._reply(self._engine, text)
        self._asked = False

    def receive(self, *, from_new_peer: bool = False) -> bytes:
        """Wait for the engine's next message, or with ``from_new_peer`` for a new engine's first
        one; return it.

        ConnectionLost if the engine has left or sent nothing within the time limit; without
        ``check_first`` also if a new peer has left before its first message.
        """
        if from_new_peer and self._engine:
            self._connections.forget()
            self._engine = b""
        return super().receive()

    def dismiss(self, last_word: bytes, patience: float = 0.0) -> None:
        """Send ``last_word`` as the final answer if a message has come or comes within ``patience``
        seconds.

        Without an answer Batsim would wait for ever: it does not notice that the scheduler is gone.
        """
        if self._skip_frames():  # An interrupt has come within a message.
            self._asked = self._speaker == self._engine
        if self._asked:
            self.send(last_word)

        # An interrupt may also come between an answer and a note of that: there may be more to say.
        until = time.monotonic() + patience
        while time.monotonic() < until and not self._is_alone():
            try:
                if self._next() is not None:
                    self.send(last_word)
                    return
            except zmq.Again:
                pass
            except InputError:
                self.send(last_word)
                return

    def _next(self, flags: int = 0) -> bytes | None:
        if not self._is_held:
            self._speaker = _receive(self.socket, flags)
        self._is_held = False

        if self._speaker == self._engine:
            delimiter = _receive(self.socket, 0)
        elif not self._engine:
            return self._first()
        elif self._lost():
            self._is_held = True  # It is the next engine's.
            raise self._gone()
        else:
            self._skip_frames()
            self._refuse(
                _REFUSAL, "another engine, or something else; one engine at a time is served"
            )
            return None
        self._asked = True
        return self._request(delimiter)

    def _first(self) -> bytes | None:
        """Return a new engine's first message; None if the message was refused."""
        frame = self.socket.recv(copy=False)
        if self._check_first is not None:
            try:
                text = self._request(frame.bytes)
                self._check_first(text)
            except InputError as error:
                self._connections.note_word(frame.get(zmq.SRCFD))
                self._refuse(f"refused: {error}".encode(errors="backslashreplace"), str(error))
                return None

        self._engine = self._speaker
        self._connection = frame.get(zmq.SRCFD)
        self._connections.forget()
        self._asked = True
        return text if self._check_first is not None else self._request(frame.bytes)

    def _request(self, delimiter: bytes) -> bytes:
        """Return the text of a message of which the first frame (``delimiter``) has been read."""
        if delimiter or not _option(self.socket, zmq.RCVMORE):
            self._skip_frames()
            raise InputError(
                "the message has no empty frame before it; a message from a ZeroMQ REQ socket is "
                "expected"
            )
        return self._whole(_receive(self.socket, 0))

    def _refuse(self, answer: bytes, reason: str) -> None:
        self._reply(self._speaker, answer)
        if self._on_refused is not None:
            self._on_refused(reason)

    def _lost(self) -> bool:
        self._connections.update()
        left = self._connections.left
        if not self._engine:
            has_left = any(left.values())
            if not has_left or self._check_first is None:
                return has_left
            left.clear()
            if self._on_refused is not None:
                self._on_refused(f"a peer before its first message: it {self._gone()}")
            return False
        # Its number may have been given to another connection since.
        return self._connection in left or self._connection not in self._connections.open

    def _is_alone(self) -> bool:
        return self._lost() if self._engine else not self._connections.open

    def _reply(self, peer: bytes, text: bytes) -> None:
        _send_part(self.socket, peer, zmq.SNDMORE)
        _send_part(self.socket, b"", zmq.SNDMORE)
        _send(self.socket, text)


def listen(
    endpoint: str,
    *,
    any_interface: bool = False,
    check_first: Callable[[bytes], None] | None = None,
    on_refused: Callable[[str], None] | None = None,
    **bounds: Unpack[SocketBounds],
) -> tuple[ListeningSocket, str]:
    """Open a scheduler's socket at an endpoint; return the socket and its endpoint with the actual
    port.

    ``tcp://127.0.0.1:*`` chooses a free port; ``ipc://PATH`` is accepted, too. ``any_interface``
    allows addresses that other machines can reach.
    """
    address = endpoint_to_bind(endpoint, any_interface)
    listening = ListeningSocket(check_first=check_first, on_refused=on_refused, **bounds)
    _attach(listening, listening.socket.bind, address, f"listen at {shown(endpoint)}")
    return listening, listening.socket.getsockopt_string(zmq.LAST_ENDPOINT).rstrip("\0")


def connect(endpoint: str, **bounds: Unpack[SocketBounds]) -> ConnectedSocket:
    """Open an engine's socket to a decision process's endpoint; the decision process may start
    later.
    """
    tcp_address(endpoint)
    connected = ConnectedSocket(**bounds)
    _attach(connected, connected.socket.connect, endpoint, f"connect to {shown(endpoint)}")
    return connected


def _attach(sockets: MessageSocket, attach: Callable[[str], Any], address: str, what: str) -> None:
    """Bind or connect a socket to an address; ``what`` says for an error message what was tried."""
    try:
        # Only on request: else "localhost" is ::1, where no process listens.
        sockets.socket.setsockopt(zmq.IPV6, "[" in address)
        attach(address)
    except zmq.ZMQError as error:
        sockets.close()
        raise InputError(f"cannot {what}: {zmq.strerror(error.errno or 0)}") from None


_WORDS_SHOWN = 200
"""Most of an answer that is no JSON object that a message shows (bytes)."""


class RemoteDecisionSide:
    """A scheduler in another process that speaks Batsim 4's protocol over ZeroMQ.

    Use it as a context manager, or :meth:`close` it.

    The decision process listens at ``tcp://HOST:PORT`` or ``ipc://PATH``, and may start later. The
    ``timeout`` of :class:`SocketBounds` also holds for the first answer. ``on_message`` is called
    for each message with its date (seconds), ``"Sending"`` or ``"Received"``, and its text. With
    ``descriptions``, jobs' descriptions go through Redis. Numbers are rounded to six decimals as by
    Batsim, unless ``all_digits``.
    """

    def __init__(
        self,
        endpoint: str,
        *,
        on_message: Callable[[float, str, bytes], None] | None = None,
        descriptions: RedisDescriptions | None = None,
        all_digits: bool = False,
        **bounds: Unpack[SocketBounds],
    ) -> None:
        self.endpoint = endpoint
        self._all_digits = all_digits
        self._on_message = on_message
        self._descriptions = descriptions
        self._socket = connect(endpoint, **bounds)

    def exchange(self, message: Message[Event]) -> Message[Decision]:
        """Send events to the decision process; return its decisions, SimulationError if it gives
        none.
        """
        descriptions = self._descriptions
        if not self._all_digits:
            message = rounded_message(message)

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
            told = decode_decisions(answer if descriptions is None else descriptions.put_in(answer))
            check_now(told.now)
            return told
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

    def __enter__(self) -> RemoteDecisionSide:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _misunderstood(self, now: float, trouble: str) -> SimulationError:
        return SimulationError(
            f"at {now:.6f} s: the decision process at {self.endpoint} sent an invalid "
            f"answer: {trouble}"
        )
