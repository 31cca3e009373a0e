"""HTTP endpoint that portals and job-submit plug-ins ask for quotes (the extra ``http``).

One request a connection; requests, their number at a time and their time are bounded, so that no
client keeps others out for long.
"""

from __future__ import annotations

import asyncio
import ipaddress
import json
import socket
from collections.abc import Awaitable, Callable
from functools import partial
from http import HTTPStatus
from threading import Lock
from typing import Any
from urllib.parse import parse_qs, urlsplit

import h11
import msgspec
import uvicorn
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route
from uvicorn.protocols.http.h11_impl import H11Protocol

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

MAX_TARGET_BYTES = 1 << 16
"""Longest path and query of a request (bytes)."""

REQUEST_SECONDS = 10.0
"""Longest time from the connection to the end of the answer."""

Problem = HTTPException
"""Refusal of a request: a status of HTTP, and the reason."""


class Asks(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Jobs that a request asks about."""

    jobs: list[Ask]


class QueueKeeper:
    """Holder of the queue that quotes are about, which can be replaced.

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
        """Replace the queue by a posted one."""
        asker = self._read(content)
        with self._lock:
            self._asker = asker
        return asker

    def asker(self) -> QueueAsker:
        """Return the asker of the queue as it is now; raise an InputError if it cannot be read."""
        with self._lock:
            changed = self._refresh()
            if changed is not None:
                self._asker = changed
            if self._asker is None:
                raise Problem(503, "no queue is known yet; post one to /state")
            return self._asker


class QuoteServer(uvicorn.Server):
    """Endpoint on an address, served by :meth:`run` until ``should_exit`` is set or a signal."""

    def __init__(
        self,
        address: tuple[str, int],
        keeper: QueueKeeper,
        *,
        post_state: bool = True,
        on_request: Callable[[str], None] = lambda line: None,
        seconds: float = REQUEST_SECONDS,
    ) -> None:
        self.keeper, self.post_state, self.on_request = keeper, post_state, on_request
        self._on_loopback = _is_loopback(address[0])
        self._posting = asyncio.Lock()
        self._socket = socket.create_server(
            address, family=socket.AF_INET6 if ":" in address[0] else socket.AF_INET, backlog=64
        )
        self.address: tuple[str, int] = self._socket.getsockname()[:2]
        endpoints: list[tuple[str, str, _Endpoint]] = [
            ("GET", "/health", self._health),
            ("GET", "/state", self._state),
            ("GET", "/schema", self._schema),
            ("GET", "/quote", self._quote),
            ("POST", "/quote", self._quote_jobs),
            ("POST", "/state", self._post_state),
        ]
        app = Starlette(
            routes=[
                Route(path, partial(self._answer, endpoint), methods=[method])
                for method, path, endpoint in endpoints
            ],
            exception_handlers={404: self._no_route, 405: self._no_route},
        )
        app.router.redirect_slashes = False
        super().__init__(
            uvicorn.Config(
                app,
                http=partial(_LimitedProtocol, seconds),  # type: ignore[arg-type]
                ws="none",
                lifespan="off",
                log_config=None,
                log_level="error",
                access_log=False,
                proxy_headers=False,
                server_header=False,
                headers=[("Connection", "close")],
                timeout_graceful_shutdown=1,
                h11_max_incomplete_event_size=2 * MAX_TARGET_BYTES,
            )
        )

    def run(self, sockets: list[socket.socket] | None = None) -> None:
        """Serve until a signal, or until ``should_exit`` is set."""
        super().run(sockets or [self._socket])

    async def _answer(self, endpoint: _Endpoint, request: Request) -> JSONResponse:
        """Return the answer of an endpoint, or its refusal."""
        try:
            self._check(request)
            return self._response(request, 200, await endpoint(request))
        except Problem as problem:
            return self._response(request, problem.status_code, {"error": problem.detail})
        except QopsError as error:
            return self._response(request, 400, {"error": str(error)})

    async def _no_route(self, request: Request, error: Exception) -> JSONResponse:
        """Return the refusal of a request for which there is no endpoint."""
        if request.method not in ("GET", "POST"):
            why = f"Unsupported method ({request.method!r})"
            return self._response(request, 501, {"error": why})

        async def unknown(request: Request) -> Any:
            known = "GET /quote, /state, /schema, /health; POST /quote, /state"
            raise Problem(404, f"{shown(request.scope['path'])} is not known (known: {known})")

        return await self._answer(unknown, request)

    def _response(self, request: Request, status: int, content: Any) -> JSONResponse:
        self.on_request(f"{request.method} {request.scope['path']} {status}")
        return JSONResponse(content, status)

    def _check(self, request: Request) -> None:
        """Refuse too many requests, too long ones, and those of other sites' web pages.

        Names of such sites may have been made to mean this machine, so that a browser on it comes
        here: only its own names are answered.
        """
        state = self.server_state
        if max(len(state.connections), len(state.tasks)) > MOST_AT_ONCE:
            raise Problem(503, "too many requests")
        if len(request.scope["raw_path"]) + len(request.scope["query_string"]) > MAX_TARGET_BYTES:
            raise Problem(414, HTTPStatus.REQUEST_URI_TOO_LONG.phrase)
        if "origin" in request.headers:
            raise Problem(403, "requests of web pages are not answered")
        host = request.headers.get("host", "localhost")
        try:
            name = urlsplit(f"//{host}").hostname or ""
        except ValueError:
            name = ""
        if self._on_loopback and name != "localhost" and not _is_loopback(name):
            raise Problem(421, f"this is not {shown(host)}; 127.0.0.1 or localhost is expected")

    async def _health(self, request: Request) -> Any:
        return {"version": __version__}

    async def _schema(self, request: Request) -> Any:
        return schema()

    async def _state(self, request: Request) -> Any:
        return await run_in_threadpool(lambda: _about(self._asker()))

    async def _quote(self, request: Request) -> Any:
        query = request.scope["query_string"].decode("latin-1")
        if len(query) > 1000:
            raise Problem(400, "query longer than 1,000 letters")
        return await run_in_threadpool(lambda: _quotes(self._asker(), [_ask_of(query)]))

    async def _quote_jobs(self, request: Request) -> Any:
        content = await _body(request, MAX_ASK_BYTES)
        try:
            asked = msgspec.json.decode(content, type=Asks)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise Problem(400, str(error)) from None
        if not 1 <= len(asked.jobs) <= MOST_ASKS:
            raise Problem(400, f"{len(asked.jobs)} jobs; 1 to {MOST_ASKS} are expected")
        return await run_in_threadpool(lambda: _quotes(self._asker(), asked.jobs))

    async def _post_state(self, request: Request) -> Any:
        if not self.post_state:
            raise Problem(403, "the queue is read from a file here, and cannot be posted")
        async with self._posting:
            content = await _body(request, MAX_POSTED_BYTES)
            return _about(await run_in_threadpool(self.keeper.post, content))

    def _asker(self) -> QueueAsker:
        """Return the asker; that a file cannot be read is not the client's fault."""
        try:
            return self.keeper.asker()
        except QopsError as error:
            raise Problem(503, str(error)) from None


_Endpoint = Callable[[Request], Awaitable[Any]]


class _LimitedProtocol(H11Protocol):
    """HTTP of a connection that ends after some seconds, whatever the client does."""

    def __init__(self, seconds: float, **given: Any) -> None:
        super().__init__(**given)
        self._seconds = seconds

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._limit = self.loop.call_later(self._seconds, transport.abort)

    def connection_lost(self, exc: Exception | None) -> None:
        self._limit.cancel()
        super().connection_lost(exc)

    def send_400_response(self, msg: str) -> None:
        """Answer what is no request with JSON, as all else."""
        headers = [("content-type", "application/json"), ("connection", "close")]
        body = json.dumps({"error": msg}).encode()
        for event in (
            h11.Response(status_code=400, headers=headers),
            h11.Data(data=body),
            h11.EndOfMessage(),
        ):
            self.transport.write(self.conn.send(event) or b"")
        self.transport.close()


async def _body(request: Request, most: int) -> bytes:
    """Return the body of a request, if it tells its length and that is not too much."""
    length = request.headers.get("content-length")
    if length is None:
        raise Problem(411, "a Content-Length is expected")
    if int(length) > most:
        raise Problem(413, f"{int(length):,} bytes; at most {most:,} are expected")
    return await request.body()


def _is_loopback(name: str) -> bool:
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


def _ask_of(query: str) -> Ask:
    try:
        fields = parse_qs(query, keep_blank_values=True, strict_parsing=True, max_num_fields=9)
    except ValueError:
        fields = {}
    if not {"processors", "time"} <= set(fields) <= {"processors", "time", "deadline"} or any(
        len(values) != 1 for values in fields.values()
    ):
        raise Problem(
            400,
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
    from qops_batsim.advice.queue_state import WrittenQueue

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
