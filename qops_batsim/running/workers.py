"""Worker processes that end with the process that started them, whatever ends that."""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import resource_tracker
from multiprocessing.context import SpawnContext, SpawnProcess
from typing import Any

_KILL_ME_WITH_MY_PARENT = 1
"""Linux's PR_SET_PDEATHSIG."""

_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class _Worker(SpawnProcess):
    """A process that its parent alone ends: signals to a whole group are the parent's to tell."""

    def start(self) -> None:
        with _deaf():
            super().start()

    def terminate(self) -> None:
        self.kill()  # It is deaf to anything less.

    def run(self) -> None:
        _end_with_parent()
        super().run()


class WorkerContext(SpawnContext):
    """A context of :mod:`multiprocessing` whose processes are fresh and never outlive this one."""

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
        """End the processes at once, in the midst of their work."""
        for process in self._processes:
            if process.pid is not None:
                process.kill()


@contextmanager
def _deaf() -> Iterator[None]:
    """Hold signals back: a child inherits that, and so is deaf from its very beginning."""
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
