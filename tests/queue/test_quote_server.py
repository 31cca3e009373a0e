"""The endpoint for quotes: what it answers, and what it withstands."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import suppress
from http.client import HTTPConnection
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from starlette.exceptions import HTTPException

from qops_batsim import InputError
from qops_batsim.cli.queue import serve_quotes
from qops_batsim.queue import Ask as Asked
from qops_batsim.queue import QueueAsker, QueueSource, quote_server
from qops_batsim.queue.latest import StartCalculator
from qops_batsim.queue.quote_server import QuoteServer, StartTeller, parse_address
from qops_batsim.queue.starts import ForecastBasis
from support.drawn_queues import GPUS, gpu_queue

NOW = 1_780_000_000
QUEUE = {
    "processors": 8,
    "now": NOW,
    "jobs": [{"id": 1, "processors": 6, "estimate": 100, "start": NOW}],
}

Ask = Callable[..., tuple[int, Any]]


def served(
    asker: Callable[[], QueueAsker], seconds: float = 10.0, starts: StartTeller | None = None
) -> Iterator[tuple[Ask, int, QuoteServer]]:
    server = QuoteServer(("127.0.0.1", 0), asker, starts=starts, seconds=seconds)
    port = server.address[1]

    def ask(method: str, path: str, body: object = None, **headers: str) -> tuple[int, Any]:
        connection = HTTPConnection("127.0.0.1", port, timeout=240)
        content = body if isinstance(body, bytes | None) else json.dumps(body).encode()
        connection.request(method, path, content, headers)
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())

    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    yield ask, port, server
    server.should_exit = True
    thread.join(10)
    assert not thread.is_alive()


def source_of(path: Path, queue: object = QUEUE, **further: Any) -> QueueSource:
    path.write_text(json.dumps(queue))
    return QueueSource(path, "qops", {}, **further)


@pytest.fixture
def asker(tmp_path: Path) -> Callable[[], QueueAsker]:
    return source_of(tmp_path / "queue.json").asker


@pytest.fixture
def ask(asker: Callable[[], QueueAsker]) -> Iterator[Ask]:
    for found, _, _ in served(asker):
        yield found


def test_quotes(ask: Ask) -> None:
    status, found = ask("GET", "/quote?processors=4&time=2m")
    assert status == 200
    assert found["state"] == {
        "now": NOW,
        "processors": 8,
        "free": 2,
        "running": 1,
        "waiting": 0,
        "late": [],
        "left_out": {},
    }
    (job,) = found["jobs"]
    assert (job["wait"], job["response"], job["end"]) == (100.0, 220.0, NOW + 220.0)
    assert job["admitted"] is None
    status, found = ask("GET", "/quote?processors=4&time=120&deadline=130")
    (job,) = found["jobs"]
    assert (job["response"], job["admitted"]) == (220.0, False)
    assert ask("GET", "/state")[1]["free"] == 2
    assert ask("GET", "/health")[0] == 200


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "message"),
    [
        ("GET", "/quote", None, 400, "processors=N&time=DURATION is expected"),
        ("GET", "/quote?processors=4&time=2m&time=3m", None, 400, "is expected"),
        ("GET", "/quote?processors=4&time=-1", None, 400, "time is"),
        ("GET", "/quote?processors=9&time=60", None, 400, "a whole number from 1 to 8"),
        ("GET", "/quote?processors=%D9%A4&time=60", None, 400, "a whole number is expected"),
        ("GET", "/quote?" + "a" * 2000, None, 400, "at most 1,000 are accepted"),
        ("GET", "/etc/passwd", None, 404, "is not known"),
        ("GET", "/quote?processors=1.5&time=1", None, 400, "a whole number is expected"),
        ("GET", f"/quote?processors={2**70}&time=1", None, 400, "a whole number is expected"),
        ("GET", "/quote?processors=1&time=1e300", None, 400, "time is"),
        ("POST", "/quote", {"jobs": [{"processors": 1, "time": 1}]}, 404, "is not known"),
        ("POST", "/quote", b"[" * 60_000, 404, "is not known"),
        ("POST", "/state", {"jobs": 1}, 404, "is not known"),
    ],
)
def test_requests_that_are_refused(
    ask: Ask, method: str, path: str, body: object, status: int, message: str
) -> None:
    found, answer = ask(method, path, body)
    assert found == status
    assert message in answer["error"]
    # The state is as it was.
    assert ask("GET", "/quote?processors=2&time=60")[1]["jobs"][0]["response"] == 60.0


def test_pages_of_other_sites_are_not_answered(ask: Ask) -> None:
    status, answer = ask("GET", "/state", Origin="https://example.org")
    assert (status, answer["error"]) == (
        403,
        "requests from web pages (with a header Origin) are not answered",
    )
    for host in ("example.org", "example.org:8080", "127.0.0.1.example.org", "[::1", ""):
        status, answer = ask("GET", "/state", Host=host)
        assert status == 421
        assert "127.0.0.1 or localhost is expected" in answer["error"]
    for host in ("localhost", "LOCALHOST:80", "127.0.0.1:1", "[::1]:80"):
        assert ask("GET", "/state", Host=host)[0] == 200
    assert ask("POST", "/quote", b"{}", **{"Content-Length": "-1"})[0] in (400, 404)


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("PUT", "/state", 501),
        ('"><', "/state", 400),
        ("GET", "/" + "a" * 70_000, 414),
        ("GET", "http://[x/", 404),
        ("POST", "http://[x/", 404),
    ],
)
def test_what_is_no_request_is_told_in_json_too(
    ask: Ask, method: str, path: str, status: int
) -> None:
    found, answer = ask(method, path, Host="localhost")
    assert found == status
    assert answer["error"]


def test_clients_that_say_nothing_or_little_keep_nobody_out(
    asker: Callable[[], QueueAsker],
) -> None:
    """Idle ones, and those who begin a request of each kind and do not end it."""
    begun = (
        b"",
        b"GET /quote?proc",
        b"POST /quote HTTP/1.1\r\nHost: localhost\r\nContent-Length: 60000\r\n\r\n{",
    )
    for ask, port, _ in served(asker, seconds=60.0):
        idle = [socket.create_connection(("127.0.0.1", port)) for _ in range(200)]
        for number, each in enumerate(idle):
            each.sendall(begun[number % len(begun)])
        for _ in range(5):
            assert ask("GET", "/quote?processors=4&time=2m")[0] == 200
        for each in idle:
            each.close()


def test_slow_clients_are_cut_off(asker: Callable[[], QueueAsker]) -> None:
    for _, port, _ in served(asker, seconds=0.3):
        for begun in (b"", b"GET /quote?proc"):
            with socket.create_connection(("127.0.0.1", port), timeout=120) as slow:
                slow.sendall(begun)
                assert slow.recv(1000) == b""


def test_the_oldest_idle_client_makes_room(
    asker: Callable[[], QueueAsker], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(quote_server, "MOST_OPEN", 16)
    for ask, port, _ in served(asker, seconds=60.0):
        idle = []
        for _ in range(20):
            idle.append(socket.create_connection(("127.0.0.1", port), timeout=120))
            assert ask("GET", "/health")[0] == 200
        for each in idle[:4]:
            with suppress(ConnectionResetError):
                assert each.recv(1000) == b""
        for each in idle[5:]:
            each.setblocking(False)
            with pytest.raises(BlockingIOError):
                each.recv(1000)
            each.close()


class _Slow:
    """Asker of a queue that goes on when it is told to."""

    def __init__(self, asker: QueueAsker) -> None:
        self.go_on = threading.Event()
        self.state, self.asker = asker.state, asker

    def ask(self, asked: object) -> object:
        self.go_on.wait(120)
        return self.asker.ask(asked)  # type: ignore[arg-type]


def test_few_wait_in_line(asker: Callable[[], QueueAsker], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quote_server, "MOST_IN_LINE", 1)
    monkeypatch.setattr(quote_server, "MOST_AT_ONCE", 1)
    monkeypatch.setattr(quote_server, "_about", lambda found: {})
    slow: Any = _Slow(asker())
    for ask, _, _ in served(lambda: slow, seconds=60.0):
        with ThreadPoolExecutor(4) as pool:
            query = "/quote?processors=4&time=2m"
            answers = [pool.submit(ask, "GET", query) for _ in range(4)]
            # One is asked, one waits in line, and two are refused before the first goes on.
            refused = [each.result() for each in islice(as_completed(answers, 120), 2)]
            assert (
                refused == [(503, {"error": "too many requests are waiting; try again later"})] * 2
            )
            slow.go_on.set()
            statuses = sorted(each.result()[0] for each in answers)
    assert statuses == [200, 200, 503, 503]


def test_a_file_that_cannot_be_read_to_its_end_blocks_nobody(tmp_path: Path) -> None:
    path = tmp_path / "queue.json"
    for ask, _, server in served(source_of(path).asker, seconds=120.0):
        assert ask("GET", "/state")[0] == 200
        server._seconds = 0.3
        path.unlink()
        os.mkfifo(path)
        with ThreadPoolExecutor(8) as pool:
            answers = [pool.submit(ask, "GET", "/state") for _ in range(8)]
            assert ask("GET", "/health")[0] == 200
            assert {each.result()[0] for each in answers} == {503}
        server._seconds = 120.0
        # Whoever waits for the reader lets it go on.
        with path.open("w") as stream:
            stream.write(json.dumps({**QUEUE, "processors": 9}))
        path.unlink()
        path.write_text(json.dumps({**QUEUE, "processors": 10}))
        assert ask("GET", "/state")[1]["processors"] == 10


@pytest.mark.parametrize(
    "content",
    [
        '{"processors": 8, "now": 1, "processors": 9, "jobs": []}',
        '{"now": 1, "processors": 9, "jobs": [{"id": 1, "processors": 1, "id": 2}]}',
        '{"jobs": [{"job_id": 1, "cpus": {"number": 1, "number": 2}}]}',
    ],
)
def test_names_that_a_queue_gives_twice_are_refused(tmp_path: Path, content: str) -> None:
    path = tmp_path / "queue.json"
    path.write_text(content)
    with pytest.raises(InputError, match="is given twice; once is expected"):
        QueueSource(path, "qops", {}).asker()


def test_a_file_is_read_again_when_it_changes(tmp_path: Path) -> None:
    path = tmp_path / "queue.json"
    for ask, _, _ in served(source_of(path).asker):
        assert ask("GET", "/quote?processors=4&time=60")[1]["jobs"][0]["response"] == 160.0
        path.write_text(json.dumps({**QUEUE, "jobs": []}))
        assert ask("GET", "/quote?processors=4&time=60")[1]["jobs"][0]["response"] == 60.0
        path.write_text("{")
        status, answer = ask("GET", "/quote?processors=4&time=60")
        assert status == 503
        assert "queue.json: is not valid JSON" in answer["error"]
        path.unlink()
        assert "queue.json" in ask("GET", "/state")[1]["error"]
        path.write_text(json.dumps({**QUEUE, "processors": 9}))
        assert ask("GET", "/state")[1]["processors"] == 9


def test_a_file_without_date_is_of_when_it_was_written(tmp_path: Path) -> None:
    path = tmp_path / "queue.json"
    path.write_text(json.dumps({"processors": 8, "jobs": []}))
    os.utime(path, (NOW, NOW))
    asker = QueueSource(path, "qops", {}).asker()
    assert asker.state.now == NOW


def test_a_queue_that_nobody_brings_up_to_date_is_not_quoted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is fresh at first."""
    path, date = tmp_path / "queue.json", time.time()
    queue = {**QUEUE, "now": date, "jobs": []}
    for ask, _, _ in served(source_of(path, queue, max_age=600).asker):
        assert ask("GET", "/quote?processors=4&time=60")[0] == 200
        monkeypatch.setattr("qops_batsim.queue.source.time.time", lambda: date + 3 * 86_400)
        for request in (("GET", "/quote?processors=4&time=60"), ("GET", "/state")):
            status, answer = ask(*request)
            assert status == 503
            assert "3 days, 0:00:00 old; at most 0:10:00 is accepted" in answer["error"]
        monkeypatch.undo()
        assert ask("GET", "/quote?processors=4&time=60")[0] == 200


class Told:
    """Forecasts that tell what was asked."""

    reads_queue = False

    def of_waiting(self, state: Any, job: str | None = None, user: str | None = None) -> Any:
        if job == "none":
            raise HTTPException(503, "no forecast yet", {"Retry-After": "5"})
        return {"job": job, "user": user}

    def of_new(self, state: Any, ask: Asked) -> Any:
        return {"processors": ask.processors, "time": ask.time, "user": ask.user}


def test_starts_are_told_where_they_are_forecast(asker: Callable[[], QueueAsker]) -> None:
    for ask, port, _ in served(asker, starts=Told()):
        assert ask("GET", "/starts") == (200, {"job": None, "user": None})
        assert ask("GET", "/starts?job=8_1") == (200, {"job": "8_1", "user": None})
        assert ask("GET", "/starts?user=ann") == (200, {"job": None, "user": "ann"})
        new = {"processors": 4, "time": 120.0, "user": ""}
        assert ask("GET", "/starts?processors=4&time=2m") == (200, new)
        assert ask("GET", "/starts?processors=4&time=2m&user=ann") == (200, new | {"user": "ann"})
        for wrong in ("who=ann", "job=1&job=2", "processors=4", "processors=4&time=2m&job=8"):
            status, answer = ask("GET", f"/starts?{wrong}")
            assert (status, "is expected" in answer["error"]) == (400, True)
        assert "known: GET /health, /quote, /starts, /state" in ask("GET", "/start")[1]["error"]
        connection = HTTPConnection("127.0.0.1", port, timeout=240)
        connection.request("GET", "/starts?job=none")
        answer = connection.getresponse()
        assert (answer.status, answer.headers["Retry-After"]) == (503, "5")
        assert json.loads(answer.read()) == {"error": "no forecast yet"}


def test_no_start_is_told_where_none_is_calculated(ask: Ask) -> None:
    status, answer = ask("GET", "/starts")
    assert status == 404
    assert "'/starts' is not known" in answer["error"]


def test_a_missing_package_is_told_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [each for each in sys.modules if each.startswith("starlette")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "starlette", None)
    monkeypatch.delitem(sys.modules, "qops_batsim.queue.quote_server")
    with pytest.raises(InputError, match=r"needs the package starlette.*qops-batsim\[http\]"):
        serve_quotes(
            QueueSource(Path("queue.json"), "qops", {}), "127.0.0.1:0", any_interface=False
        )


def test_only_this_machine_may_ask_unless_allowed() -> None:
    assert parse_address("127.0.0.1:80", any_interface=False) == ("127.0.0.1", 80)
    assert parse_address("localhost:0", any_interface=False) == ("127.0.0.1", 0)
    assert parse_address("[::1]:80", any_interface=False) == ("::1", 80)
    assert parse_address("0.0.0.0:80", any_interface=True) == ("0.0.0.0", 80)
    for text in ("0.0.0.0:80", "10.0.0.1:80", "[::]:80"):
        with pytest.raises(InputError, match="every machine in the network could ask"):
            parse_address(text, any_interface=False)
    for text in ("127.0.0.1", "80", ":80", "127.0.0.1:x", "127.0.0.1:99999", "example.org:80"):
        with pytest.raises(InputError, match="ADDRESS:PORT is expected"):
            parse_address(text, any_interface=False)


def test_the_command_stops_at_a_signal(tmp_path: Path) -> None:
    path = tmp_path / "queue.json"
    jobs = [{"id": 1, "processors": 6, "estimate": 100, "start": (now := time.time())}]
    path.write_text(json.dumps({"processors": 8, "now": now, "jobs": jobs}))
    command = [sys.executable, "-m", "qops_batsim", "queue", "serve", str(path)]
    process = subprocess.Popen(
        [*command, "--listen", "127.0.0.1:0"],
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"NUMBA_DISABLE_JIT": "1"},  # Nothing is compiled.
    )
    try:
        assert process.stderr is not None
        told = ""
        while not (found := re.search(r"listens at http://127.0.0.1:(\d+)", told)):
            line = process.stderr.readline()
            assert line, told
            told += line
        connection = HTTPConnection("127.0.0.1", int(found[1]), timeout=240)
        connection.request("GET", "/quote?processors=8&time=1h")
        assert json.loads(connection.getresponse().read())["jobs"][0]["response"] == 3700.0
        process.send_signal(signal.SIGTERM)
        rest = process.communicate(timeout=240)[1]
    finally:
        process.kill()
    assert (process.returncode, rest) == (0, "GET /quote 200\nstopped\n")


def test_amounts_of_nodes_are_asked_for_as_behind_a_job_of_a_command(tmp_path: Path) -> None:
    (tmp_path / "nodes.txt").write_text(GPUS)
    (tmp_path / "queue.json").write_text(gpu_queue())
    nodes_file = tmp_path / "nodes.txt"
    now = 1_782_000_000.0
    source = QueueSource(tmp_path / "queue.json", now=now, nodes_file=nodes_file)
    starts = StartCalculator(ForecastBasis(), partition="cpu")
    new = "processors=1&time=10m"
    for ask, _, _ in served(source.asker, starts=starts):
        waits = []
        for asked in ("", "&gpus=1", "&gpus=2", "&memory=16GB", "&nodes=1&partition=gpu"):
            told = ask("GET", f"/starts?{new}{asked}")[1]["jobs"][0]["planned"] - now
            quoted = ask("GET", f"/quote?{new}{asked}&deadline=3h")[1]["jobs"][0]
            assert (quoted["wait"], quoted["admitted"]) == (told, True)
            waits.append(told)
        assert waits == [0.0, 1800.0, 4200.0, 4200.0, 0.0]
        for wrong in ("gpus=x", "gpus=", "partition=cpu", "deadline=2h", "job=20", "user="):
            path = "quote" if "user" in wrong or "job" in wrong else "starts"
            status, answer = ask("GET", f"/{path}?{new}&{wrong}")
            assert (status, "is expected" in answer["error"]) == (400, True), wrong
