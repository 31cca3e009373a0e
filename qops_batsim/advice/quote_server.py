"""A small HTTP endpoint that portals and job-submit plug-ins ask for quotes.

One request a connection; requests, their number at a time and their time are bounded, so that no
client keeps others out for long.
"""

from __future__ import annotations

import ipaddress
import json
import socket
import sys
from collections.abc import Callable
from contextlib import suppress
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import BoundedSemaphore, Lock, Timer
from typing import Any
from urllib.parse import SplitResult, parse_qs, urlsplit

import msgspec

from qops_batsim.advice.queue_quote import Ask, QueueAsker
from qops_batsim.errors import InputError, QopsError, shown
from qops_batsim.platform.units import parse_time
from qops_batsim.version import __version__

MOST_ASKS = 100
"""Most jobs that one request asks about."""

MOST_AT_ONCE = 16
"""Most requests that are answered at a time; others are told to come again."""

MAX_POSTED_BYTES = 64 << 20
"""Largest queue that is posted, one at a time (bytes)."""

MAX_ASK_BYTES = 64 << 10
"""Longest request for quotes (bytes)."""

REQUEST_SECONDS = 10.0
"""Longest time that a request may take to arrive."""


class Asks(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a request asks about."""

    jobs: list[Ask]


class Problem(Exception):
    """What is wrong with a request: a status of HTTP, and why."""

    def __init__(self, status: HTTPStatus, why: str) -> None:
        super().__init__(why)
        self.status = status


class QueueKeeper:
    """Holds the state of a queue that quotes are about, and lets it be replaced.

    ``read`` makes an asker of what was posted, ``refresh`` returns one if the file has changed.
    """

    def __init__(
        self,
        read: Callable[[bytes], QueueAsker],
        refresh: Callable[[], QueueAsker | None] = lambda: None,
    ) -> None:
        self._read, self._refresh = read, refresh
        self._lock = Lock()
        self._asker: QueueAsker | None = None

    def post(self, content: bytes) -> QueueAsker:
        """Let quotes be about a queue that was posted."""
        asker = self._read(content)
        with self._lock:
            self._asker = asker
        return asker

    def asker(self) -> QueueAsker:
        """Return what answers now; an InputError if the queue cannot be read."""
        with self._lock:
            changed = self._refresh()
            if changed is not None:
                self._asker = changed
            if self._asker is None:
                raise Problem(
                    HTTPStatus.SERVICE_UNAVAILABLE, "no queue is known yet; post one to /state"
                )
            return self._asker


class QuoteServer(ThreadingHTTPServer):
    """The endpoint; :meth:`serve_forever` ends by :meth:`shutdown`."""

    daemon_threads = True
    block_on_close = False
    request_queue_size = 64

    def __init__(
        self,
        address: tuple[str, int],
        keeper: QueueKeeper,
        *,
        post_state: bool = True,
        on_request: Callable[[str], None] = lambda line: None,
        seconds: float = REQUEST_SECONDS,
    ) -> None:
        self.address_family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        self.keeper, self.post_state, self.on_request = keeper, post_state, on_request
        self.seconds, self.posting = seconds, Lock()
        self.on_loopback = _is_loopback(address[0])
        self._room = BoundedSemaphore(MOST_AT_ONCE)
        super().__init__(address, _Handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answer in a thread of its own, or at once that there are too many."""
        if not self._room.acquire(blocking=False):
            request.settimeout(0.2)
            with_body = _response(HTTPStatus.SERVICE_UNAVAILABLE, {"error": "too many requests"})
            with suppress(OSError):  # The client may have gone.
                request.sendall(with_body)
            self.shutdown_request(request)
            return
        try:
            super().process_request(request, client_address)
        except Exception:
            self._room.release()
            raise

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Answer, for a limited time."""
        limit = Timer(self.seconds, _cut, [request])
        limit.daemon = True
        limit.start()
        try:
            super().process_request_thread(request, client_address)
        finally:
            limit.cancel()
            self._room.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Tell of a defect; that a client has gone, or was cut off, is none."""
        if not isinstance(sys.exc_info()[1], OSError):
            super().handle_error(request, client_address)


def _is_loopback(name: str) -> bool:
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


def _cut(request: socket.socket) -> None:
    with suppress(OSError):  # It may be over already.
        request.shutdown(socket.SHUT_RDWR)


def _response(status: HTTPStatus, content: Any) -> bytes:
    """Return a whole response of HTTP/1.0."""
    body = json.dumps(content, allow_nan=False).encode() + b"\n"
    head = (
        f"HTTP/1.0 {status.value} {status.phrase}\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    )
    return head.encode() + body


class _Handler(BaseHTTPRequestHandler):
    """Reads a request and answers it with JSON."""

    server: QuoteServer
    timeout = REQUEST_SECONDS

    def do_GET(self) -> None:
        """Answer GET."""
        self._answer(self._get)

    def do_POST(self) -> None:
        """Answer POST."""
        self._answer(self._post)

    def _answer(self, work: Callable[[], Any]) -> None:
        try:
            self._check_host()
            status, content = HTTPStatus.OK, work()
        except Problem as problem:
            status, content = problem.status, {"error": str(problem)}
        except QopsError as error:
            status, content = HTTPStatus.BAD_REQUEST, {"error": str(error)}
        self._send(status, content, f"{self.command} {_target(self.path).path}")

    def _send(self, status: HTTPStatus, content: Any, asked: str) -> None:
        self.close_connection = True
        self.server.on_request(f"{asked} {status.value}")
        self.wfile.write(_response(status, content))

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Answer what is no request that is understood: with JSON, as all else."""
        status = HTTPStatus(code)
        self._send(status, {"error": message or status.phrase}, "a request")

    def _check_host(self) -> None:
        """Refuse pages of other sites that lead a browser on this machine here.

        Their names may have been made to mean this machine, so it answers to its own ones only.
        """
        if self.headers.get("Origin") is not None:
            raise Problem(HTTPStatus.FORBIDDEN, "requests of web pages are not answered")
        host = self.headers.get("Host", "localhost")
        try:
            name = urlsplit(f"//{host}").hostname or ""
        except ValueError:
            name = ""
        if self.server.on_loopback and name != "localhost" and not _is_loopback(name):
            why = f"this is not {shown(host)}; 127.0.0.1 or localhost is expected"
            raise Problem(HTTPStatus.MISDIRECTED_REQUEST, why)

    def _get(self) -> Any:
        parts = _target(self.path)
        if parts.path == "/health":
            return {"version": __version__}
        if parts.path == "/state":
            return _about(self._asker())
        if parts.path == "/schema":
            return schema()
        if parts.path != "/quote":
            raise _not_found(parts.path)
        if len(parts.query) > 1000:
            raise Problem(HTTPStatus.BAD_REQUEST, "query longer than 1,000 letters")
        return _quotes(self._asker(), [_ask_of(parts.query)])

    def _post(self) -> Any:
        path = _target(self.path).path
        if path == "/quote":
            content = self._body(MAX_ASK_BYTES)
            try:
                asked = msgspec.json.decode(content, type=Asks)
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
                raise Problem(HTTPStatus.BAD_REQUEST, str(error)) from None
            if not 1 <= len(asked.jobs) <= MOST_ASKS:
                why = f"{len(asked.jobs)} jobs; 1 to {MOST_ASKS} are expected"
                raise Problem(HTTPStatus.BAD_REQUEST, why)
            return _quotes(self._asker(), asked.jobs)
        if path != "/state":
            raise _not_found(path)
        if not self.server.post_state:
            raise Problem(
                HTTPStatus.FORBIDDEN, "the queue is read from a file here, and cannot be posted"
            )
        with self.server.posting:
            return _about(self.server.keeper.post(self._body(MAX_POSTED_BYTES)))

    def _asker(self) -> QueueAsker:
        """Return what answers now; that a file cannot be read is not the client's fault."""
        try:
            return self.server.keeper.asker()
        except QopsError as error:
            raise Problem(HTTPStatus.SERVICE_UNAVAILABLE, str(error)) from None

    def _body(self, most: int) -> bytes:
        text = self.headers.get("Content-Length", "")
        if not (text.isascii() and text.isdecimal() and len(text) < 12):
            raise Problem(HTTPStatus.LENGTH_REQUIRED, "a Content-Length is expected")
        length = int(text)
        if length > most:
            why = f"{length:,} bytes; at most {most:,} are expected"
            raise Problem(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, why)
        content = self.rfile.read(length)
        if len(content) < length:
            raise Problem(HTTPStatus.BAD_REQUEST, "the request ends too early")
        return content

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base's name
        """Say nothing: ``on_request`` is told."""


def _target(path: str) -> SplitResult:
    """Return path and query of what is asked for."""
    try:
        return urlsplit(path)
    except ValueError:
        return SplitResult("", "", path, "", "")


def _not_found(path: str) -> Problem:
    known = "GET /quote, /state, /schema, /health; POST /quote, /state"
    return Problem(HTTPStatus.NOT_FOUND, f"{shown(path)} is not known (known: {known})")


def _ask_of(query: str) -> Ask:
    try:
        fields = parse_qs(query, keep_blank_values=True, strict_parsing=True, max_num_fields=9)
    except ValueError:
        fields = {}
    if not {"processors", "time"} <= set(fields) <= {"processors", "time", "deadline"} or any(
        len(values) != 1 for values in fields.values()
    ):
        raise Problem(
            HTTPStatus.BAD_REQUEST,
            "processors=N&time=DURATION is expected, and deadline=DURATION may be added",
        )
    count = fields["processors"][0]
    if not (count.isascii() and count.isdecimal() and len(count) < 10):
        raise InputError(f"processors is {shown(count)}; a whole number is expected")
    times = {
        name: parse_time(fields[name][0], where=name)
        for name in ("time", "deadline")
        if name in fields
    }
    return Ask(processors=int(count), **times)


def _about(asker: QueueAsker) -> dict[str, Any]:
    state = asker.state
    return {
        "now": state.now,
        "processors": state.processors,
        "free": asker.free,
        "running": asker.running,
        "waiting": asker.waiting,
        "late": asker.late[:10],
        "left_out": state.left_out,
    }


def _quotes(asker: QueueAsker, asks: list[Ask]) -> dict[str, Any]:
    return {"state": _about(asker), "jobs": msgspec.to_builtins(asker.ask_all(asks))}


def schema() -> dict[str, Any]:
    """Return the JSON schema of a request for quotes, of its answer, and of a queue."""
    from qops_batsim.advice.queue_quote import QueueAnswer
    from qops_batsim.advice.queue_read import WrittenQueue

    schemas, definitions = msgspec.json.schema_components(
        [Asks, QueueAnswer, WrittenQueue], ref_template="#/$defs/{name}"
    )
    names = ("request", "answer", "queue")
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$defs": {**definitions, **dict(zip(names, schemas, strict=True))},
    }


def parse_address(text: str, *, any_interface: bool) -> tuple[str, int]:
    """Return host and port of ``127.0.0.1:8080``; only a loopback address unless allowed."""
    host, colon, port = text.rpartition(":")
    host = host.strip("[]") if host else host
    try:
        address = ipaddress.ip_address("127.0.0.1" if host == "localhost" else host)
    except ValueError:
        address = None
    valid = port.isascii() and port.isdecimal() and len(port) < 6 and int(port) < 1 << 16
    if not colon or address is None or not valid:
        raise InputError(f"--listen {text}: ADDRESS:PORT is expected, as 127.0.0.1:8080")
    if not (address.is_loopback or any_interface):
        raise InputError(
            f"--listen {text}: every machine in the network could ask, and nothing is encrypted; "
            "127.0.0.1:PORT, or --any-interface as well, is expected"
        )
    return str(address), int(port)
