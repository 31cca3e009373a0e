"""Idle and slow HTTP clients against ``queue serve``: how long an honest client waits meanwhile.

    python benchmarks/soak/idle_clients.py [--clients 200] [--seconds 600]

Of the clients, a quarter each sends nothing, the head of a request letter by letter, the body of
one letter by letter, or a request whose answer it never reads. Who is dropped comes again at once.
Beside them, an honest client asks for a quote every so often. Prints the honest client's times,
the memory of the server over time, and the load of the machine; exits with 1 if a quote was not
answered.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from contextlib import suppress
from http.client import HTTPConnection, HTTPException
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench_queue import random_queue
from hostile_sockets import free_port
from stray_openings import COMMAND, memory

PATIENCE = 15.0
"""How long the honest client waits for an answer (seconds)."""

HEAD = b"GET /quote?processors=4&time=2m HTTP/1.1\r\nHost: localhost\r\nX-Long: "
BODY = b"POST /quote HTTP/1.1\r\nHost: localhost\r\nContent-Length: 60000\r\n\r\n"
WHOLE = b"GET /quote?processors=4&time=2m HTTP/1.1\r\nHost: localhost\r\n\r\n"

KINDS = {"idle": b"", "slow head": HEAD, "slow body": BODY, "unread": WHOLE}
"""What clients begin with; those of the two in the middle go on with a letter at a time."""


class Clients:
    """Clients that are always there, in a thread of their own."""

    def __init__(self, port: int, number: int) -> None:
        self.port, self.number = port, number
        self.opened: Counter[str] = Counter()
        self.open = 0
        self._ends = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._all()), daemon=True)
        self._thread.start()

    def end(self) -> None:
        """Close all connections."""
        self._ends.set()
        self._thread.join(PATIENCE)

    async def _all(self) -> None:
        kinds = list(KINDS)
        clients = [
            asyncio.create_task(self._client(kinds[number % len(kinds)], number / self.number))
            for number in range(self.number)
        ]
        while not self._ends.is_set():
            await asyncio.sleep(0.1)
        for client in clients:
            client.cancel()
        await asyncio.gather(*clients, return_exceptions=True)

    async def _client(self, kind: str, first: float) -> None:
        await asyncio.sleep(first)
        while True:
            with suppress(OSError):
                reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
                self.opened[kind] += 1
                self.open += 1
                try:
                    await self._keep(kind, reader, writer)
                finally:
                    self.open -= 1
                    writer.transport.abort()
            await asyncio.sleep(0.05)

    async def _keep(
        self, kind: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """Stay until the server drops the connection."""
        writer.write(KINDS[kind])
        # The socket is not read, so that what is sent to it stays there.
        if kind == "unread":
            writer.transport.pause_reading()  # type: ignore[attr-defined]
            await asyncio.sleep(PATIENCE)
            return
        while not (reader.at_eof() or writer.transport.is_closing()):
            await asyncio.sleep(0.5)
            if kind.startswith("slow"):
                writer.write(b"x")


def ask(port: int) -> float:
    """Ask for a quote; return how long the answer took (seconds), infinite without one."""
    began = time.perf_counter()
    connection = HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
    try:
        connection.request("GET", "/quote?processors=64&time=2h")
        answer = connection.getresponse()
        told = json.loads(answer.read())
        good = answer.status == 200 and len(told["jobs"]) == 1
    except (OSError, HTTPException, ValueError):
        good = False
    finally:
        connection.close()
    return time.perf_counter() - began if good else np.inf


def main() -> int:
    """Let clients come and go for as long as asked, and tell what an honest one noticed."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--clients", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--every", type=float, default=0.1, help="between honest questions")
    parser.add_argument("--jobs", type=int, default=1000, help="in the queue")
    given = parser.parse_args()
    port, times, held, loads, opened = free_port(), list[float](), list[float](), list[float](), 0
    with tempfile.TemporaryDirectory() as name:
        queue = Path(name) / "queue.json"
        queue.write_text(json.dumps(random_queue(given.jobs, 1)))
        arguments = ["queue", "serve", str(queue), "--max-age", "9999d"]
        arguments += ["--listen", f"127.0.0.1:{port}"]
        server = subprocess.Popen(
            [*COMMAND, *arguments], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        try:
            while ask(port) == np.inf and server.poll() is None:
                time.sleep(0.2)
            for _ in range(50):
                ask(port)
            alone = [ask(port) for _ in range(100)]
            before, clients = memory(server.pid), Clients(port, given.clients)
            until = time.monotonic() + given.seconds
            while time.monotonic() < until and server.poll() is None:
                times.append(ask(port))
                if len(times) % 50 == 1:
                    held.append(memory(server.pid))
                    loads.append(os.getloadavg()[0])
                    opened = max(opened, clients.open)
                time.sleep(given.every)
            clients.end()
        finally:
            server.terminate()
            server.wait(PATIENCE)
    kinds = ", ".join(f"{number:,} {kind}" for kind, number in clients.opened.items())
    print(f"{given.clients} clients for {given.seconds:.0f} s, up to {opened} at once ({kinds})")
    for what, found in (("alone", alone), ("beside them", times)):
        half, most, last = 1000 * np.quantile(found, [0.5, 0.99, 1], method="higher")
        unanswered = int(np.isinf(found).sum())
        print(
            f"an honest quote {what}: median {half:.1f} ms, 99 % within {most:.1f} ms, "
            f"{last:.1f} ms at most, {unanswered} of {len(found):,} not answered"
        )
    quarter = max(1, len(held) // 4)
    print(
        f"memory of the server: {before:.1f} MiB before, then {np.mean(held[:quarter]):.1f} MiB in "
        f"the first quarter and {np.mean(held[-quarter:]):.1f} MiB in the last, {max(held):.1f} at "
        f"most; load of the machine {min(loads):.1f} to {max(loads):.1f} on {os.cpu_count()} cores"
    )
    return int(bool(np.isinf(times).any()) or not times)


if __name__ == "__main__":
    sys.exit(main())
