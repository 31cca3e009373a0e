"""Decision processes and engines for tests of the wire: plain ZeroMQ sockets in threads."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Thread
from typing import Any

import zmq

from qops_batsim.protocol import DecisionSession
from support.recordings import Case

LIMIT_MS = 120_000
"""No socket of a test waits longer (milliseconds)."""

Answer = Callable[[bytes], bytes | list[bytes] | None]


@contextmanager
def decision_process(answer: Answer, endpoint: str = "tcp://127.0.0.1:*") -> Iterator[str]:
    """Answer messages in a thread; yield the endpoint.

    ``answer`` returns the text of the reply, several frames, or None to leave
    without a reply. An error of it ends the thread and fails the test.
    """
    context = zmq.Context()
    socket = context.socket(zmq.REP)
    socket.setsockopt(zmq.LINGER, 1000)
    socket.setsockopt(zmq.RCVTIMEO, 50)
    socket.bind(endpoint)
    failures: list[BaseException] = []
    leaving = False

    def run() -> None:
        try:
            while not leaving:
                try:
                    text = socket.recv()
                except zmq.Again:
                    continue
                reply = answer(text)
                if reply is None:
                    return
                socket.send_multipart(reply if isinstance(reply, list) else [reply])
        except BaseException as error:  # noqa: BLE001 - told to the test below
            failures.append(error)
        finally:
            socket.close()

    thread = Thread(target=run)
    bound = socket.getsockopt_string(zmq.LAST_ENDPOINT).rstrip("\0")
    thread.start()
    try:
        yield bound
    finally:
        leaving = True
        thread.join(LIMIT_MS / 1000)
        context.term()
    assert not thread.is_alive()
    if failures:
        raise failures[0]


def scheduler_process(scheduler: str, settings: dict[str, Any] | None = None) -> Answer:
    """One of our schedulers as decision process, for a single simulation."""
    return DecisionSession(scheduler, settings).answer


def recorded_process(case: Case) -> Answer:
    """What answered in a recorded session, message by message."""
    answers = iter(each["raw"].encode() for each in case.messages() if each["from"] == "sched")
    return lambda _: next(answers)


class Engine:
    """The REQ side of a session, by hand."""

    def __init__(self, endpoint: str) -> None:
        self._context = zmq.Context()
        self.socket = self._context.socket(zmq.REQ)
        self.socket.setsockopt(zmq.LINGER, 0)
        self.socket.setsockopt(zmq.RCVTIMEO, LIMIT_MS)
        self.socket.setsockopt(zmq.SNDTIMEO, LIMIT_MS)
        self.socket.connect(endpoint)

    def say(self, message: str | bytes) -> bytes:
        self.socket.send(message.encode() if isinstance(message, str) else message)
        return self.socket.recv()

    def tell(self, now: float, *events: tuple[str, dict[str, Any]]) -> list[dict[str, Any]]:
        """Say events of that date; return the decisions."""
        said = [{"timestamp": now, "type": kind, "data": data} for kind, data in events]
        answer = json.loads(self.say(json.dumps({"now": now, "events": said})))
        assert answer["now"] == now
        return [each for each in answer["events"] if each["timestamp"] <= now]

    def begin(self, hosts: int = 4, **config: Any) -> list[dict[str, Any]]:
        return self.tell(0.0, ("SIMULATION_BEGINS", begins(hosts, **config)))

    def submit(self, now: float, name: str, processors: int, **fields: Any) -> list[dict[str, Any]]:
        job = {"id": f"w0!{name}", "subtime": now, "res": processors, "profile": "d", **fields}
        return self.tell(now, ("JOB_SUBMITTED", {"job_id": job["id"], "job": job}))

    def close(self) -> None:
        self.socket.close()
        self._context.term()

    def __enter__(self) -> Engine:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def begins(hosts: int = 4, **config: Any) -> dict[str, Any]:
    """The data of SIMULATION_BEGINS."""
    return {
        "nb_resources": hosts,
        "nb_compute_resources": hosts,
        "config": {name.replace("_", "-"): value for name, value in config.items()},
        "compute_resources": [{"id": n, "name": f"host{n}"} for n in range(hosts)],
    }
