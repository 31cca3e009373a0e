"""Batsim's transport: one JSON text a ZeroMQ frame, strict request and reply.

The engine is the REQ side and connects, the decision process is the REP side and binds; either may
start first. ZeroMQ itself never says that the other side has gone: here a monitor of the socket's
connections does. An endpoint that cannot be used is an InputError.
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

from qops_batsim.errors import InputError, QopsError, shown
from qops_batsim.limits import MAX_MESSAGE_BYTES

DEFAULT_ENDPOINT = "tcp://127.0.0.1:28000"
"""Where a decision process listens unless told otherwise: Batsim's port, this machine only."""

_LOOK_UP_MS = 100
"""How often a wait for a message looks up from it (milliseconds)."""

_FAILED_HANDSHAKES = (
    zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL
    | zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL
    | zmq.EVENT_HANDSHAKE_FAILED_AUTH
)


_option: Callable[[zmq.Socket[bytes], int], Any] = BackendSocket.get
_send: Callable[[zmq.Socket[bytes], bytes], Any] = BackendSocket.send
"""Read an option and send a frame, without a look at what kind of either it is."""

_MONITORED = struct.Struct("=H")
"""How a message of a monitor begins: with the number of the event."""


class ConnectionLost(QopsError):
    """The other side has gone or is silent; the message says which, without naming it."""


class _Connections:
    """How many peers are connected to a socket, and whether one that was has left."""

    def __init__(self, socket: zmq.Socket[bytes]) -> None:
        self._monitor = socket.get_monitor_socket(
            zmq.EVENT_HANDSHAKE_SUCCEEDED | zmq.EVENT_DISCONNECTED | _FAILED_HANDSHAKES
        )
        self._failed = 0
        self.count = 0
        self.one_left = False

    def update(self) -> None:
        while self._monitor.poll(0):
            (event,) = _MONITORED.unpack_from(self._monitor.recv_multipart()[0])
            if event == zmq.EVENT_HANDSHAKE_SUCCEEDED:
                self.count += 1
            elif event == zmq.EVENT_DISCONNECTED:
                if self._failed:  # What had connected did not speak ZeroMQ.
                    self._failed -= 1
                else:
                    self.count -= 1
                    self.one_left = True
            else:
                self._failed += 1

    def lost(self) -> bool:
        """Whether peers have left since the last :meth:`forget`, and none is there now."""
        self.update()
        return self.one_left and self.count <= 0

    def forget(self) -> None:
        self.update()
        self.one_left = False

    def close(self) -> None:
        self._monitor.close(linger=0)


class Bounds(TypedDict, total=False):
    """What bounds the messages and waits of a socket.

    ``timeout`` is the longest wait for a message (seconds), None for no end. On a message longer
    than ``max_message_bytes``, ZeroMQ closes the connection before reading it. ``while_waiting`` is
    called about ten times a second, and may raise to end the wait.
    """

    timeout: float | None
    max_message_bytes: int
    while_waiting: Callable[[], None] | None


class MessageSocket:
    """A bound (``zmq.REP``) or connected (``zmq.REQ``) socket, with bounded messages and waits."""

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
        self.socket.setsockopt(zmq.RCVTIMEO, _LOOK_UP_MS)
        self._connections = _Connections(self.socket)

    def send(self, text: bytes) -> None:
        """Hand a message over; it is lost if the peer has left."""
        _send(self.socket, text)

    def dismiss(self, last_word: bytes, patience: float) -> None:
        """Answer, for the last time, what the peer has said or says within ``patience`` seconds.

        Batsim waits for an answer for ever, and never notices that nothing is there to give one.
        """
        # An interrupt may come between a message sent and a note of that: ask the socket itself.
        if not self.socket.poll(0, zmq.POLLOUT):
            self._connections.update()
            if self._connections.count <= 0 or not self.socket.poll(round(1000 * patience)):
                return
            self.socket.recv_multipart()
        self.send(last_word)

    def receive(self, *, from_new_peer: bool = False) -> bytes:
        """Return the next message; with ``from_new_peer``, even if an earlier peer has left.

        ConnectionLost if the peer has left, or said nothing for as long as the timeout.
        """
        if from_new_peer:
            self._connections.forget()
        began = time.monotonic()
        while True:
            try:
                return self._whole(self.socket.recv())
            except zmq.Again:
                pass
            if self._while_waiting is not None:
                self._while_waiting()
            if self._connections.lost() and not from_new_peer:
                try:  # Something may have come between the two.
                    return self._whole(self.socket.recv(zmq.NOBLOCK))
                except zmq.Again:
                    raise ConnectionLost(
                        "has closed the connection (which also happens when it sends more than "
                        f"{self._max_message_bytes} bytes in a message)"
                    ) from None
            if self._timeout is not None and time.monotonic() - began >= self._timeout:
                raise ConnectionLost(f"has said nothing for {self._timeout:g} s")

    def close(self, linger: float = 0.0) -> None:
        """Close the socket; wait at most ``linger`` seconds until all has been sent."""
        if not self.socket.closed:
            self.socket.disable_monitor()
            self._connections.close()
            self.socket.close(linger=round(1000 * linger))
            self._context.term()

    def _whole(self, frame: bytes) -> bytes:
        if _option(self.socket, zmq.RCVMORE):
            while _option(self.socket, zmq.RCVMORE):
                self.socket.recv()
            raise InputError("message of several frames; one frame is expected")
        return frame


def listen(
    endpoint: str, *, any_interface: bool = False, **bounds: Unpack[Bounds]
) -> tuple[MessageSocket, str]:
    """Open the decision process's side; return it with its endpoint, the port's number included.

    Port ``*`` in ``tcp://127.0.0.1:*`` is any free one; ``ipc://PATH`` is accepted as well. With
    ``any_interface``, so are addresses at which other machines may come in.
    """
    address = _endpoint_to_bind(endpoint, any_interface)
    sockets = _opened(zmq.REP, address, endpoint, **bounds)
    return sockets, sockets.socket.getsockopt_string(zmq.LAST_ENDPOINT).rstrip("\0")


def connect(endpoint: str, **bounds: Unpack[Bounds]) -> MessageSocket:
    """Open the engine's side; the decision process may come later."""
    _tcp_address(endpoint)
    return _opened(zmq.REQ, endpoint, endpoint, **bounds)


def _opened(kind: int, address: str, endpoint: str, **bounds: Unpack[Bounds]) -> MessageSocket:
    """Bind or connect a socket to an address, for which the user wrote the endpoint."""
    sockets = MessageSocket(kind, **bounds)
    attach, verb = sockets.socket.connect, "connect to"
    if kind == zmq.REP:
        attach, verb = sockets.socket.bind, "listen at"
    try:
        # Only on request: else "localhost" is ::1, where no process listens.
        sockets.socket.setsockopt(zmq.IPV6, "[" in address)
        attach(address)
    except zmq.ZMQError as error:
        sockets.close()
        why = zmq.strerror(error.errno or 0)
        raise InputError(f"cannot {verb} {shown(endpoint)}: {why}") from None
    return sockets


def _tcp_address(endpoint: str) -> tuple[str, str] | None:
    """Return host and port of a TCP endpoint, None for an IPC one."""
    transport, separator, address = endpoint.partition("://")
    if transport == "ipc" and separator and address and "\0" not in address:
        return None
    host, _, port = address.rpartition(":")
    is_port = port == "*" or (port.isascii() and port.isdigit() and int(port[:9]) < 1 << 16)
    if transport != "tcp" or not host or not is_port:
        raise InputError(
            f"{shown(endpoint)} is no endpoint; tcp://HOST:PORT (port 0 to 65535) or ipc://PATH "
            "is expected"
        )
    return host, port


def _endpoint_to_bind(endpoint: str, any_interface: bool) -> str:
    address = _tcp_address(endpoint)
    if address is None:
        _refuse_other_files(endpoint.removeprefix("ipc://"))
        return endpoint
    host, port = address
    if host == "localhost":
        return f"tcp://127.0.0.1:{port}"
    if not any_interface and not _is_loopback(host):
        raise InputError(
            f"{shown(endpoint)} is open to other machines, and serves each that connects; "
            "tcp://127.0.0.1:PORT, or --any-interface to allow it, is expected"
        )
    return endpoint


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def _refuse_other_files(path: str) -> None:
    """Refuse a path at which there is something else: ZeroMQ would remove it."""
    if path.startswith("@"):
        return  # Linux's abstract names are no files.
    try:
        mode = os.lstat(path).st_mode
    except OSError:
        return  # Nothing there, or ZeroMQ will say what is wrong.
    if not stat.S_ISSOCK(mode):
        raise InputError(f"ipc://{path}: the file exists and is no socket; a new name is expected")
