"""A Redis server of five commands, for tests: it keeps texts under keys."""

from __future__ import annotations

import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager


class FakeRedis:
    """What the server holds, by key; ``broken`` makes it refuse every command."""

    def __init__(self) -> None:
        self.held: dict[str, bytes] = {}
        self.broken = False
        self.port = 0

    def answer(self, command: bytes, *arguments: bytes) -> bytes:
        match command.upper(), arguments:
            case _ if self.broken:
                return b"-LOADING not now\r\n"
            case b"PING", ():
                return b"+PONG\r\n"
            case b"CLIENT" | b"SELECT", _:
                return b"+OK\r\n"
            case b"MSET", _:
                self.held |= {
                    key.decode(): value
                    for key, value in zip(arguments[::2], arguments[1::2], strict=True)
                }
                return b"+OK\r\n"
            case b"GET", (key,):
                value = self.held.get(key.decode())
                return b"$-1\r\n" if value is None else b"$%d\r\n%b\r\n" % (len(value), value)
            case _:
                return b"-ERR unknown command\r\n"


@contextmanager
def fake_redis() -> Iterator[FakeRedis]:
    """Run a server on a free port of this machine."""
    server_state = FakeRedis()

    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            while head := self.rfile.readline():
                parts = []
                for _ in range(int(head[1:])):
                    length = int(self.rfile.readline()[1:])
                    parts.append(self.rfile.read(length))
                    self.rfile.readline()
                self.wfile.write(server_state.answer(*parts))

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        server_state.port = server.server_address[1]
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server_state
        finally:
            server.shutdown()
            thread.join()
