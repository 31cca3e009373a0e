"""Keeping Python's garbage collector out of the way."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def without_garbage_collection() -> Iterator[None]:
    """Keep the collector from walking through all jobs again and again.

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
