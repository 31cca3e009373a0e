"""Hostile peers at real sockets of this machine: of ``serve``, and of the embedded engine.

An honest engine must get the answers that it gets in one process, whatever else connects and
speaks; a hostile one, or a hostile scheduler, must end the command soon and in one line.
"""

from __future__ import annotations

import random
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import zmq
from commands import Ended, call
from hostile_peers import Session, damaged, honest_session

if TYPE_CHECKING:
    from harness import Tally

PATIENCE = 5.0
"""How long a command waits for a message (seconds)."""

LIMIT = 1000 * 4 * int(PATIENCE)
"""How long a peer of ours waits for an answer (milliseconds)."""

GREETING = b"\xff" + bytes(8) + b"\x7f\x03\x00NULL" + bytes(16) + b"\x00" + bytes(31)
READY = b"\x04\x19\x05READY\x0bSocket-Type\x00\x00\x00\x03REQ"

FRAMES = [
    *(b"", b"\x00", b"\xff", b"\x00\x00", b"\x01\x00", b"\x01\x00\x00\x02{}", b"\x07\x07\x07"),
    *(b"\x02" + b"\xff" * 8, b"\x02" + b"\x7f" + b"\xff" * 7, b"\x01\x00" * 1000, READY),
    b"\x04\x05\x04PING",
]
"""What can follow a greeting, or stand in its place."""


def raw_bytes(rng: random.Random) -> bytes:
    """Return what a program that does not speak ZeroMQ, or badly, may send."""
    what = rng.randrange(6)
    if what == 0:
        return rng.randbytes(rng.choice([0, 1, 2, 10, 100, 70_000]))
    if what == 1:
        return rng.choice([b"GET / HTTP/1.0\r\n\r\n", b"\x00", b"\x01\x00", b"\x16\x03\x01\x02"])
    if what == 2:
        return GREETING[: rng.randrange(len(GREETING))]
    if what == 3:
        greeting = bytearray(GREETING)
        greeting[rng.randrange(len(greeting))] = rng.randrange(256)
        return bytes(greeting) + READY
    return GREETING + READY + b"".join(rng.choice(FRAMES) for _ in range(rng.choice([1, 2, 5])))


def visit(port: int, content: bytes, rng: random.Random) -> None:
    """Connect, send, and leave, politely or not."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=1) as visitor:
            visitor.sendall(content)
            if rng.random() < 0.3:
                visitor.settimeout(0.05)
                visitor.recv(100)
    except OSError:
        pass


def intrude(context: zmq.Context[zmq.Socket[bytes]], endpoint: str, texts: list[bytes]) -> None:
    """Speak as another engine; be refused."""
    with context.socket(zmq.DEALER) as other:
        other.linger = 0
        other.connect(endpoint)
        for text in texts:
            other.send_multipart([b"", text])
        if texts and other.poll(LIMIT):
            assert other.recv_multipart()[1].startswith(b"refused: "), "is not refused"


def beside(play: Callable[[], None], command: Callable[[], Ended]) -> tuple[Ended, list[Exception]]:
    """Run a command while a peer plays in a thread; return what its failures were."""
    failures: list[Exception] = []

    def run() -> None:
        try:
            play()
        except Exception as error:  # noqa: BLE001
            failures.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    ended = command()
    thread.join(LIMIT / 1000)
    if thread.is_alive():
        failures.append(TimeoutError("the peer waits for ever"))
    return ended, failures


def free_port() -> int:
    """Return a port at which nothing listens at the moment."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def judge(ended: Ended, failures: list[Exception], codes: set[int], tally: Tally) -> None:
    """Tell what went wrong."""
    if ended.failure:
        tally.fail(ended.failure, ended.errors)
    elif ended.code not in codes:
        tally.fail(f"exit code {ended.code}", ended.errors)
    elif "Traceback" in ended.errors:
        tally.fail("a traceback", ended.errors)
    for failure in failures:
        tally.fail(f"the peer: {failure!r}", ended.errors)


def honest_engine(session: Session, rng: random.Random, folder: Path, tally: Tally) -> None:
    """Let an engine play its session with ``serve`` among others that connect and speak."""
    port = free_port()
    endpoint = f"tcp://127.0.0.1:{port}"
    context = zmq.Context()

    def play() -> None:
        with context.socket(zmq.REQ) as engine:
            engine.linger = 0
            engine.rcvtimeo = LIMIT
            engine.connect(endpoint)
            for number, text in enumerate(session.said):
                while rng.random() < 0.3:
                    visit(port, raw_bytes(rng), rng)
                    tally.count("strangers")
                if rng.random() < 0.2:
                    # While the engine is waited for, whoever begins a simulation is it.
                    odd = session.said if number else [*session.said[1:], b"", b"{", b"GET /"]
                    texts = [rng.choice(odd) for _ in range(rng.choice([0, 1, 3]))]
                    intrude(context, endpoint, texts)
                    tally.count("strangers")
                if rng.random() < 0.05:
                    time.sleep(0.25)
                engine.send(text)
                assert engine.recv() == session.answers[number], "another answer"

    arguments = ["serve", session.scheduler, "--socket", endpoint, "--any-engine", "-q"]
    arguments += settings_of(session)
    arguments += ["--timeout", str(2 * PATIENCE), "--out", str(folder / "run")]
    ended, failures = beside(play, lambda: call(arguments, 60))
    context.destroy(linger=0)
    tally.count("honest engines")
    judge(ended, failures, {0}, tally)


def settings_of(session: Session) -> list[str]:
    """Return the options of a command for the settings of a session's scheduler."""
    return [
        f"--set={name}={str(value).lower() if isinstance(value, bool) else value}"
        for name, value in session.settings.items()
    ]


def hostile_engine(session: Session, rng: random.Random, folder: Path, tally: Tally) -> None:
    """Let an engine send what is no message, or damaged ones, to ``serve``."""
    port = free_port()
    endpoint = f"tcp://127.0.0.1:{port}"
    context = zmq.Context()
    place = rng.randrange(len(session.said))
    texts = session.said[:place] + damaged(session.said, place, rng)
    frames = rng.choice([[], [], [], [b""], [b"x"] * 1000])

    def play() -> None:
        kind = rng.choice([zmq.REQ, zmq.REQ, zmq.DEALER])
        with context.socket(kind) as engine:
            engine.linger = 0
            engine.rcvtimeo = 500
            engine.connect(endpoint)
            for text in texts:
                envelope = [] if kind == zmq.REQ else [b""] * rng.choice([0, 1, 1, 1, 2])
                engine.send_multipart([*envelope, text, *(frames if text is texts[-1] else [])])
                try:
                    engine.recv_multipart()
                except zmq.Again:
                    return
        if rng.random() < 0.5:
            visit(port, raw_bytes(rng), rng)

    arguments = ["serve", session.scheduler, "--socket", endpoint, "--any-engine", "-q"]
    arguments += ["--timeout", "1.5", "--max-message-bytes", "1000000"]
    ended, failures = beside(play, lambda: call([*arguments, "--out", str(folder / "run")], 60))
    context.destroy(linger=0)
    tally.count("hostile engines")
    judge(ended, failures, {0, 2, 3}, tally)


def answer_all(
    context: zmq.Context[zmq.Socket[bytes]],
    endpoint: str,
    answers: list[bytes],
    rng: random.Random,
) -> None:
    """Answer an engine so, one message after the other, as long as it asks."""
    with context.socket(zmq.REP) as scheduler:
        scheduler.linger = 0
        scheduler.rcvtimeo = 1000
        scheduler.bind(endpoint)
        try:
            for answer in answers:
                scheduler.recv()
                scheduler.send_multipart([answer, *rng.choice([[], [], [b"x"]])])
            scheduler.recv()
        except zmq.Again:
            pass


def hostile_scheduler(session: Session, rng: random.Random, folder: Path, tally: Tally) -> None:
    """Let something that is no scheduler, or a hostile one, answer the embedded engine."""
    answers = session.answers[: rng.randrange(len(session.answers))]
    answers += damaged(session.answers, len(answers), rng)
    server = socket.create_server(("127.0.0.1", 0))
    port = server.getsockname()[1]
    is_raw = rng.random() < 0.5
    context = zmq.Context()

    def play() -> None:
        if is_raw:
            server.settimeout(0.5)
            for _ in range(3):
                try:
                    connection, _ = server.accept()
                    with connection:
                        connection.sendall(raw_bytes(rng))
                        time.sleep(0.1)
                except OSError:
                    pass
            return
        answer_all(context, f"tcp://127.0.0.1:{port}", answers, rng)

    if not is_raw:
        server.close()
    arguments = ["engine", "-p", str(folder / "p.xml"), "-w", str(folder / "w.json"), "-q"]
    arguments += ["-s", f"tcp://127.0.0.1:{port}", "--timeout", "1", "-e", str(folder / "engine")]
    ended, failures = beside(play, lambda: call(arguments, 60))
    server.close()
    context.destroy(linger=0)
    tally.count("hostile schedulers")
    judge(ended, failures, {0, 2}, tally)


def case(seed: int, folder: Path, tally: Tally) -> None:
    """Play a scene of each kind."""
    rng = random.Random(seed)
    session = honest_session(rng, folder)
    for scene in (honest_engine, hostile_engine, hostile_scheduler):
        scene(session, rng, folder, tally)
