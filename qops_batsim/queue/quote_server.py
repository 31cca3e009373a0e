"""HTTP server for quotes, for portals and job-submit plug-ins (extra ``http``).

One request a connection. A connection counts once its request is complete: of those that are not,
the oldest is dropped when there are too many, and each after some seconds. Complete requests are
answered a few at a time, others wait in a short line, and each is answered or refused in time:
what was refused changes nothing. What is slow, as a file that cannot be read, blocks nobody.
"""

from __future__ import annotations

import asyncio
import ipaddress
import json
import resource
import socket
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from contextvars import copy_context
from functools import partial
from http import HTTPStatus
from threading import Thread
from typing import Any, Protocol, TypeVar
from urllib.parse import parse_qs, urlsplit

import h11
import msgspec
import uvicorn
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from uvicorn.protocols.http.h11_impl import H11Protocol

from qops_batsim.errors import InputError, QopsError, shown
from qops_batsim.quantities import TIME
from qops_batsim.queue.queue_quote import QueueAnswer, QueueAsker
from qops_batsim.queue.queue_state import Ask, ask_for
from qops_batsim.version import __version__

MOST_AT_ONCE = 4
"""Most requests that are answered at a time; others wait in line."""

MOST_IN_LINE = 32
"""Most complete requests that wait in line; others are told to come again."""

MOST_OPEN = 512
"""Most connections; a further one takes the place of the oldest without a complete request."""

MAX_TARGET_BYTES = 1 << 16
"""Longest path and query of a request (bytes)."""

REQUEST_SECONDS = 10.0
"""Longest time from the connection to the end of the request, and from there to the answer."""

WRITING_SECONDS = 2.0
"""Longest time for a client to take its answer."""

_Result = TypeVar("_Result")


class StartTeller(Protocol):
    """Protocol for what tells starts of waiting and of new jobs; the results can be written as
    JSON, and several threads may call it at once.

    Attributes
    ----------
    reads_queue
        Whether starts are calculated from the queue as it is now (``state``), which takes some
        time; else they were before, and are told at once.
    """

    reads_queue: bool

    def of_waiting(self, state: Any, job: str | None = None, user: str | None = None) -> Any:
        """Return the starts of one waiting job, of the waiting jobs of a user, or of all."""

    def of_new(self, state: Any, ask: Ask) -> Any:
        """Return the start of a job that is not submitted yet."""


class QuoteServer(uvicorn.Server):
    """HTTP server that quotes which ends can be promised to new jobs; :meth:`run` serves until a
    signal or ``should_exit``.

    ``asker`` returns that of the queue as it is now; one thread at a time calls it. Without
    ``starts`` nothing is said of these.
    """

    def __init__(
        self,
        address: tuple[str, int],
        asker: Callable[[], QueueAsker],
        *,
        starts: StartTeller | None = None,
        on_request: Callable[[str], None] = lambda line: None,
        seconds: float = REQUEST_SECONDS,
    ) -> None:
        self._current = asker
        self.on_request = on_request
        self._on_loopback = _is_loopback(address[0])
        self._seconds = seconds
        self._answering = _Line(MOST_AT_ONCE)
        self._refresh: asyncio.Task[QueueAsker] | None = None
        self._next_refresh: asyncio.Task[QueueAsker] | None = None
        self._socket = socket.create_server(
            address, family=socket.AF_INET6 if ":" in address[0] else socket.AF_INET, backlog=128
        )
        self.address: tuple[str, int] = self._socket.getsockname()[:2]

        endpoints: dict[str, _Endpoint] = {
            "/health": self._health,
            "/state": self._state,
            "/quote": self._quote,
        }
        if starts is not None:
            endpoints["/starts"] = partial(self._starts, starts)
        self._known = ", ".join(sorted(endpoints))
        app = Starlette(
            routes=[
                Route(path, partial(self._answer, endpoint)) for path, endpoint in endpoints.items()
            ],
            exception_handlers={404: self._no_route, 405: self._no_route},
        )
        app.router.redirect_slashes = False

        config = uvicorn.Config(
            app,
            http=partial(_LimitedProtocol, _Clients(), seconds),  # type: ignore[arg-type]
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
        super().__init__(config)

    def run(self, sockets: list[socket.socket] | None = None) -> None:
        """Serve requests until a signal arrives, or until the attribute ``should_exit`` is set."""
        super().run(sockets or [self._socket])

    async def _answer(self, endpoint: _Endpoint, request: Request) -> Response:
        """Return the HTTP response to a request: the endpoint's answer, or why the request is
        refused.
        """
        try:
            self._check(request)
            async with asyncio.timeout(self._seconds):
                return self._response(request, 200, await endpoint(request))
        except TimeoutError:
            why = f"no answer within {self._seconds:g} s"
            return self._response(request, 503, {"error": why})
        except HTTPException as problem:
            return self._refusal(request, problem)
        except QopsError as error:
            return self._response(request, 400, {"error": str(error)})

    async def _no_route(self, request: Request, error: Exception) -> Response:
        """Return the HTTP response to a request for an unknown path or with a method that is not
        supported.
        """
        if request.method not in ("GET", "POST"):
            why = f"Unsupported method ({request.method!r})"
            return self._response(request, 501, {"error": why})
        why = f"{shown(request.scope['path'])} is not known (known: GET {self._known})"
        try:
            self._check(request)
        except HTTPException as problem:
            return self._refusal(request, problem)
        return self._response(request, 404, {"error": why})

    def _refusal(self, request: Request, problem: HTTPException) -> Response:
        why = {"error": problem.detail}
        return self._response(request, problem.status_code, why, problem.headers)

    def _response(
        self,
        request: Request,
        status: int,
        content: Any,
        headers: Mapping[str, str] | None = None,
    ) -> Response:
        self.on_request(f"{request.method} {request.scope['path']} {status}")
        body = msgspec.json.encode(content)
        return Response(body, status, headers, media_type="application/json")

    def _check(self, request: Request) -> None:
        """Raise a refusal for a request that is too long, or that a browser may have sent for
        another site's page.

        Names of such sites may have been made to mean this machine, so that a browser on it comes
        here: only its own names are answered.
        """
        if len(request.scope["raw_path"]) + len(request.scope["query_string"]) > MAX_TARGET_BYTES:
            raise HTTPException(414, HTTPStatus.REQUEST_URI_TOO_LONG.phrase)
        if "origin" in request.headers:
            why = "requests from web pages (with a header Origin) are not answered"
            raise HTTPException(403, why)

        host = request.headers.get("host", "localhost")
        try:
            name = urlsplit(f"//{host}").hostname or ""
        except ValueError:
            name = ""
        if self._on_loopback and name != "localhost" and not _is_loopback(name):
            raise HTTPException(
                421, f"the header Host is {shown(host)}; 127.0.0.1 or localhost is expected"
            )

    async def _health(self, request: Request) -> Any:
        return {"version": __version__}

    async def _state(self, request: Request) -> Any:
        return _about(await self._asker())

    async def _quote(self, request: Request) -> Any:
        expected = "processors=N&time=DURATION is expected, and deadline=DURATION may be added"
        ask = _ask_of(request, expected, "deadline")
        asker = await self._asker()
        until = time.monotonic() + self._seconds

        def answers() -> list[QueueAnswer]:
            # When nobody waits any more, others may be answered.
            return [asker.ask(ask)] if time.monotonic() < until else []

        found = await self._answering.run(answers)
        return {"state": _about(asker), "jobs": found}

    async def _starts(self, starts: StartTeller, request: Request) -> Any:
        ask: Ask | None = None
        fields: dict[str, str] = {}
        if b"processors=" in request.scope["query_string"]:
            expected = "processors=N&time=DURATION is expected, and user=NAME may be added"
            ask = _ask_of(request, expected, "user")
        else:
            expected = "nothing, job=ID or user=NAME is expected; or processors=N&time=DURATION"
            fields = _fields_of(request, expected, job=False, user=False)

        state = (await self._asker()).state if starts.reads_queue else None
        if ask is not None:
            return await self._answering.run(partial(starts.of_new, state, ask))
        if starts.reads_queue:
            return await self._answering.run(partial(starts.of_waiting, state, **fields))
        return starts.of_waiting(state, **fields)

    async def _asker(self) -> QueueAsker:
        """Return what answers for the queue as it is now; a queue that cannot be read gives HTTP
        status 503.

        One thread reads the file, for all who came before it began.
        """
        if self._next_refresh is None:
            self._next_refresh = asyncio.ensure_future(self._refreshed_after(self._refresh))
            self._next_refresh.add_done_callback(_forget)
        try:
            return await asyncio.shield(self._next_refresh)
        except QopsError as error:
            raise HTTPException(503, str(error)) from None

    async def _refreshed_after(self, before: asyncio.Task[QueueAsker] | None) -> QueueAsker:
        if before is not None:
            await asyncio.wait([before])
        self._refresh = self._next_refresh
        self._next_refresh = None
        return await _in_thread(self._current)


_Endpoint = Callable[[Request], Awaitable[Any]]


class _Line:
    """Queue of requests, first come first served, of which only ``at_once`` are answered at the
    same time.
    """

    def __init__(self, at_once: int) -> None:
        self._free = asyncio.Semaphore(at_once)
        self._waiting = 0

    async def run(self, work: Callable[[], _Result]) -> _Result:
        """Run a function in a thread when its turn comes, and return its result; refuse it (HTTP
        status 503) if too many wait.

        Who does not wait for it any more does not end it.
        """
        if self._waiting >= MOST_IN_LINE:
            raise HTTPException(503, "too many requests are waiting; try again later")
        self._waiting += 1
        try:
            await self._free.acquire()
        finally:
            self._waiting -= 1
        done = _in_thread(work)
        done.add_done_callback(lambda _: self._free.release())
        return await asyncio.shield(done)


def _in_thread(work: Callable[[], _Result]) -> asyncio.Future[_Result]:
    """Run a function in a thread that does not keep the process alive."""
    loop = asyncio.get_running_loop()
    context = copy_context()
    future: asyncio.Future[_Result] = loop.create_future()

    def finish(result: Any, error: Exception | None) -> None:
        if future.cancelled():
            return
        if error is None:
            future.set_result(result)
        else:
            future.set_exception(error)

    def run() -> None:
        result = None
        error = None
        try:
            result = context.run(work)
        except Exception as raised:  # noqa: BLE001 - it is raised where it is waited for
            error = raised
        with suppress(RuntimeError):  # The server has ended.
            loop.call_soon_threadsafe(finish, result, error)

    future.add_done_callback(_forget)
    Thread(target=run, daemon=True).start()
    return future


def _forget(future: asyncio.Future[Any]) -> None:
    """Retrieve the error of abandoned work, so that asyncio does not report it."""
    if not future.cancelled():
        future.exception()


class _Clients:
    """Open connections, oldest first."""

    def __init__(self) -> None:
        self._open: dict[_LimitedProtocol, None] = {}
        limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        self._most = min(MOST_OPEN, max(limit // 2, 16)) if limit > 0 else MOST_OPEN

    def add(self, connection: _LimitedProtocol) -> None:
        """Add a connection; if there are too many, drop the oldest without a complete request."""
        self._open[connection] = None
        if len(self._open) > self._most:
            idle = (client for client in self._open if not client.is_complete)
            dropped = next(idle, connection)
            self.discard(dropped)
            dropped.transport.abort()

    def discard(self, connection: _LimitedProtocol) -> None:
        self._open.pop(connection, None)


class _LimitedProtocol(H11Protocol):
    """HTTP connection that is closed after some seconds, whatever the client does."""

    def __init__(self, connections: _Clients, seconds: float, **given: Any) -> None:
        super().__init__(**given)
        self._all = connections
        self._seconds = seconds

    @property
    def is_complete(self) -> bool:
        """Whether the request has been received completely."""
        return self.cycle is not None and not self.cycle.more_body

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._limit = self.loop.call_later(self._seconds, self._end_request)
        self._all.add(self)

    def _end_request(self) -> None:
        """Close a connection whose request is still incomplete; give a complete request time for
        its answer.
        """
        if self.is_complete:
            left = self._seconds + WRITING_SECONDS
            self._limit = self.loop.call_later(left, self.transport.abort)
        else:
            self.transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self._limit.cancel()
        self._all.discard(self)
        super().connection_lost(exc)

    def send_400_response(self, msg: str) -> None:
        """Answer a malformed HTTP request with status 400 and a JSON object."""
        headers = [("content-type", "application/json"), ("connection", "close")]
        body = json.dumps({"error": msg}).encode()
        for event in (
            h11.Response(status_code=400, headers=headers),
            h11.Data(data=body),
            h11.EndOfMessage(),
        ):
            self.transport.write(self.conn.send(event) or b"")
        self.transport.close()


def _is_loopback(name: str) -> bool:
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


_OTHER_QUESTIONS = {"job", "user", "deadline"}


def _fields_of(request: Request, expected: str, **allowed: bool) -> dict[str, str]:
    """Return the fields of a request's query; ``allowed`` has a field's name and whether it is
    required.

    A refusal tells what is ``expected``. Where "" is allowed, any field is that is of no other
    question.
    """
    query = request.scope["query_string"].decode("latin-1")
    if len(query) > 1000:
        raise HTTPException(
            400, f"the query has {len(query):,} characters; at most 1,000 are accepted"
        )
    options: dict[str, Any] = {"keep_blank_values": True, "strict_parsing": True}
    try:
        fields = parse_qs(query, max_num_fields=9, **options) if query else {}
    except ValueError:
        raise HTTPException(400, expected) from None
    needed = {name for name, is_needed in allowed.items() if is_needed}
    has_twins = any(len(values) != 1 for values in fields.values())
    others = fields.keys() - allowed.keys()
    if "" in allowed:
        others &= _OTHER_QUESTIONS
    if has_twins or others or not needed <= fields.keys():
        raise HTTPException(400, expected)
    return {name: value for name, (value,) in fields.items()}


def _ask_of(request: Request, expected: str, further: str) -> Ask:
    """Return the job that a request asks about: fields other than its processors, its time and the
    ``further`` one are what it takes of nodes, as behind the job of a command.
    """
    allowed = {"processors": True, "time": True, further: False, "": False}
    fields = _fields_of(request, expected, **allowed)
    count = fields["processors"]
    if not (count.isascii() and count.isdecimal() and len(count) < 10):
        raise InputError(f"processors is {shown(count)}; a whole number is expected")
    times: dict[str, Any] = {
        name: TIME.parse(fields[name], where=name)
        for name in ("time", "deadline")
        if name in fields
    }
    more = [pair for pair in fields.items() if pair[0] not in ("processors", "time", further)]
    ask = ask_for(int(count), times.pop("time"), more, "the request")
    return msgspec.structs.replace(ask, user=fields.get("user", ""), **times)


def _about(asker: QueueAsker) -> dict[str, Any]:
    state = asker.state
    return {
        "now": state.now,
        "processors": state.processors,
        "free": state.free,
        "running": state.count_running(),
        "waiting": asker.waiting,
        "late": asker.late[:10],
        "left_out": state.not_planned(),
        **asker.about(),
    }


def parse_address(text: str, *, any_interface: bool) -> tuple[str, int]:
    """Parse a host and port such as ``127.0.0.1:8080``; raise InputError for a host other than
    loopback unless ``any_interface``.
    """
    host, colon, port = text.rpartition(":")
    host = host.strip("[]") if host else host
    try:
        address = ipaddress.ip_address("127.0.0.1" if host == "localhost" else host)
    except ValueError:
        address = None

    is_port = port.isascii() and port.isdecimal() and len(port) < 6 and int(port) < 1 << 16
    if not colon or address is None or not is_port:
        raise InputError(f"--listen {text}: ADDRESS:PORT is expected, as 127.0.0.1:8080")
    if not (address.is_loopback or any_interface):
        raise InputError(
            f"--listen {text}: every machine in the network could ask, and nothing is encrypted; "
            "127.0.0.1:PORT, or --any-interface as well, is expected"
        )
    return str(address), int(port)
