"""Termination signals as exceptions, so that unfinished work is undone."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

EXIT_CODES = {130: "interrupted", 143: "terminated", 129: "hung up"}
"""Last words of a command that a signal has ended, by its exit code: that of a shell."""


class EndingSignal(SystemExit):
    """SIGTERM or SIGHUP; uncaught, it ends Python with the exit code of that signal."""

    code: int


@contextmanager
def ending_signals_raise() -> Iterator[None]:
    """Let SIGTERM and SIGHUP raise an exception in this block, as Ctrl-C does.

    Where they have handlers already, or outside the main thread, nothing changes.
    """
    replaced: list[signal.Signals] = []
    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(number) == signal.SIG_DFL:
                signal.signal(number, _raise_ending)
                replaced.append(number)
    try:
        yield
    finally:
        for number in replaced:
            signal.signal(number, signal.SIG_DFL)


def _raise_ending(number: int, frame: FrameType | None) -> None:
    raise EndingSignal(128 + number)
