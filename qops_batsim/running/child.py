"""A program that runs as our child and does not outlive us."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from types import FrameType
from typing import IO, Self

GRACE_SECONDS = 5.0
"""How long a program may take to end by itself once it was told to (seconds)."""

MAX_LINE = 500
"""Letters of a line that are passed on; protocol messages make lines of megabytes."""

_POLL_SECONDS = 0.02
_MAX_READ = 1 << 16

# Asks the kernel to kill this process with its parent, then becomes the program.
# preexec_fn could do so as well, but is not safe in a process with threads.
_GUARD = """
import ctypes, os, signal, sys
ctypes.CDLL(None).prctl(1, signal.SIGKILL)
if os.getppid() == int(sys.argv[1]):
    os.execv(sys.argv[2], sys.argv[2:])
"""


class ChildProcess:
    """A running program, as a context: at its end the program does not run any more.

    The program has a session of its own, so that Ctrl-C reaches us alone and
    whatever it starts itself can be ended with it. Its output and errors are one
    log.

    Parameters
    ----------
    command
        Path of the program, then its arguments.
    on_line
        Called with each line of the log, in another thread; long lines are cut.
    grace
        How long the program may take to end once it was told to (seconds).
    """

    def __init__(
        self,
        command: Sequence[str],
        on_line: Callable[[str], None] | None = None,
        *,
        grace: float = GRACE_SECONDS,
    ) -> None:
        self._on_line = on_line
        self._grace = grace
        self._last_line = ""
        self._first_critical = ""
        if sys.platform == "linux" and sys.executable:
            guard = [sys.executable, "-I", "-S", "-c", _GUARD, str(os.getpid())]
            command = [*guard, *command]
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        assert self._process.stdout is not None
        self._reader = threading.Thread(
            target=self._read, args=(self._process.stdout,), daemon=True, name="log of a child"
        )
        self._reader.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.stop()

    @property
    def pid(self) -> int:
        """Process id; also that of its session."""
        return self._process.pid

    def exit_code(self) -> int | None:
        """Return the exit code as a shell gives it (128 + signal), None while it runs."""
        if self._process.returncode is not None:
            code = self._process.returncode
            return code if code >= 0 else 128 - code
        # The program stays a zombie, so that its id and its session stay its own.
        ended = os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        if ended is None:
            return None
        return ended.si_status + (0 if ended.si_code == os.CLD_EXITED else 128)

    def wait(self, seconds: float) -> int | None:
        """Wait for the end; return the exit code, None if it still runs after that time."""
        until = time.monotonic() + seconds
        while True:
            code = self.exit_code()
            if code is not None or time.monotonic() >= until:
                return code
            time.sleep(_POLL_SECONDS)

    def stop(self) -> None:
        """End the program and all that it started, by force after the grace period."""
        try:
            if self.exit_code() is None:
                self._signal(signal.SIGTERM)
                self.wait(self._grace)
        finally:
            if self._process.returncode is None:
                self._signal(signal.SIGKILL)
                self._process.wait()
            self._reader.join(1.0)
            if self._process.stdout is not None and not self._reader.is_alive():
                self._process.stdout.close()

    def last_words(self) -> str:
        """Return the first line marked CRITICAL, as SimGrid does, else the last line; may be empty.

        To be asked after the end: the log is read up to there.
        """
        self._reader.join(1.0)
        return self._first_critical or self._last_line

    def _signal(self, number: int) -> None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, number)

    def _read(self, pipe: IO[bytes]) -> None:
        with suppress(OSError, ValueError):  # closed under our hands
            for raw in iter(lambda: pipe.readline(_MAX_READ), b""):
                line = _printable(raw[: 4 * MAX_LINE].decode("utf-8", errors="replace"))
                if not line:
                    continue
                self._last_line = line
                if not self._first_critical and "/CRITICAL]" in line:
                    self._first_critical = line
                if self._on_line is not None:
                    self._on_line(line)


@contextmanager
def ending_signals_raise() -> Iterator[None]:
    """Let SIGTERM and SIGHUP end the block as Ctrl-C does: by an exception.

    Where they have handlers already, or outside the main thread, nothing changes.
    """
    replaced: list[signal.Signals] = []
    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(number) == signal.SIG_DFL:
                signal.signal(number, _raise_exit)
                replaced.append(number)
    try:
        yield
    finally:
        for number in replaced:
            signal.signal(number, signal.SIG_DFL)


def _raise_exit(number: int, frame: FrameType | None) -> None:
    raise SystemExit(128 + number)


def _printable(text: str) -> str:
    """Return a line of a log without what could disturb a terminal, cut if it is long."""
    line = "".join(each if each.isprintable() else " " for each in text.rstrip())
    return line if len(line) <= MAX_LINE else f"{line[: MAX_LINE - 1]}…"
