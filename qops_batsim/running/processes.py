"""Child processes (programs and workers) that always end with this one."""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from multiprocessing import resource_tracker
from multiprocessing.context import SpawnContext, SpawnProcess
from typing import IO, Any, Self

GRACE_SECONDS = 5.0
"""Time that a program has to end by itself once it was told to (seconds)."""

MAX_LINE = 500
"""Letters of a line that are passed on; protocol messages make lines of megabytes."""

_POLL_SECONDS = 0.02
_MAX_READ = 1 << 16

# Ends this program and all that it starts once the pipe to it ends, with our process: a second
# process watches it. The kernel of Linux does so as well, should that one be killed with ours.
# preexec_fn could do all of this, but is not safe in a process with threads.
_GUARD = """
import os, signal, sys
program = os.getpid()
child = os.fork()
if not child:
    os.setsid()
    if not os.fork():
        os.closerange(1, 3)
        if not os.read(0, 1):
            os.killpg(program, signal.SIGKILL)
    os._exit(0)
os.waitpid(child, 0)
os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
if sys.platform == "linux":
    import ctypes
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)
if os.getppid() == int(sys.argv[1]):
    os.execv(sys.argv[2], sys.argv[2:])
"""
_RELEASE = b"."
"""Byte that ends the watching process, which then kills nothing."""


class ChildProcess:
    """A running program, ended with its children at the end of the ``with`` block.

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
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", _GUARD, str(os.getpid()), *command],
            stdin=subprocess.PIPE,
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
        """Process id, which is also its session's."""
        return self._process.pid

    def exit_code(self) -> int | None:
        """Return the exit code like a shell (128 + signal), None while it runs."""
        if self._process.returncode is not None:
            code = self._process.returncode
            return code if code >= 0 else 128 - code
        # The program stays a zombie, so that its id and its session stay its own.
        ended = os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        if ended is None:
            return None
        return ended.si_status + (0 if ended.si_code == os.CLD_EXITED else 128)

    def wait(self, seconds: float) -> int | None:
        """Wait for the end; return the exit code, None if it still runs after the timeout."""
        until = time.monotonic() + seconds
        while True:
            code = self.exit_code()
            if code is not None or time.monotonic() >= until:
                return code
            time.sleep(_POLL_SECONDS)

    def stop(self) -> None:
        """End the program and its children; kill those that still run after a grace period."""
        try:
            if self.exit_code() is None:
                self._signal(signal.SIGTERM)
                self.wait(self._grace)
        finally:
            if self._process.returncode is None:
                self._signal(signal.SIGKILL)
                self._release()
                self._process.wait()
            self._reader.join(1.0)
            if self._process.stdout is not None and not self._reader.is_alive():
                self._process.stdout.close()

    def last_words(self) -> str:
        """Return the log line that explains a failure: the first CRITICAL one, else the last.

        To be asked after the end: the log is read up to there.
        """
        self._reader.join(1.0)
        return self._first_critical or self._last_line

    def _release(self) -> None:
        """End the process that watches the program, before the program's id can be reused."""
        assert self._process.stdin is not None
        with suppress(OSError):  # It has gone already.
            self._process.stdin.write(_RELEASE)
            self._process.stdin.close()

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


def _printable(text: str) -> str:
    """Return a line of a log without control characters, cut if it is long."""
    line = "".join(each if each.isprintable() else " " for each in text.rstrip())
    return line if len(line) <= MAX_LINE else f"{line[: MAX_LINE - 1]}…"


_KILL_ME_WITH_MY_PARENT = 1
"""Linux's PR_SET_PDEATHSIG."""

_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class _Worker(SpawnProcess):
    """A worker process that ignores Ctrl-C and SIGTERM; only its parent ends it."""

    def start(self) -> None:
        with _deaf():
            super().start()

    def terminate(self) -> None:
        self.kill()  # It is deaf to anything less.

    def run(self) -> None:
        _end_with_parent()
        super().run()


class WorkerContext(SpawnContext):
    """A :mod:`multiprocessing` context of fresh processes that end with this one."""

    def __init__(self) -> None:
        super().__init__()
        with _deaf():  # It ends with this process and its workers, too.
            resource_tracker.ensure_running()
        self._processes: list[_Worker] = []

    def Process(self, *args: Any, **kwargs: Any) -> _Worker:  # type: ignore[override]  # noqa: N802 - as in multiprocessing
        process = _Worker(*args, **kwargs)
        self._processes.append(process)
        return process

    def kill(self) -> None:
        """Kill all worker processes at once."""
        for process in self._processes:
            if process.pid is not None:
                process.kill()


@contextmanager
def _deaf() -> Iterator[None]:
    """Block signals in this process; its children begin with them blocked."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _ENDING)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _end_with_parent() -> None:
    # A pipe that ends with its other end works on every system, and also for a parent that has
    # gone already; the kernel's signal does not wait for compiled code to let a thread run.
    threading.Thread(target=_outlive, daemon=True, name="end with the parent").start()
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_KILL_ME_WITH_MY_PARENT, signal.SIGKILL)


def _outlive() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os.kill(os.getpid(), signal.SIGKILL)
