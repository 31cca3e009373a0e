"""Pausing Python's garbage collector."""

from __future__ import annotations

import atexit
import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def without_garbage_collection() -> Iterator[None]:
    """Pause the garbage collector, which would visit all jobs again and again.

    Reading, simulating, writing and verifying make no reference cycles to speak of: what they
    drop goes at once.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


@contextmanager
def garbage_of_what_follows() -> Iterator[None]:
    """Have the garbage collector visit only what is made from now on, which has cycles, also where
    it is paused.
    """
    enabled = gc.isenabled()
    gc.freeze()
    gc.enable()
    try:
        yield
    finally:
        gc.unfreeze()
        if not enabled:
            gc.disable()


def no_garbage_collection_at_exit() -> None:
    """Skip garbage collection at the program's exit, where it takes a fifth of a run's time.

    All that is left goes with the process. What is to be closed is closed before.
    """
    atexit.register(gc.freeze)
