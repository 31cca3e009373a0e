"""Growth of arrays of eight-byte numbers."""

from __future__ import annotations

from array import array
from typing import Any

LEAST_ROOM = 16
"""Numbers for which an array has room, at least."""


def grown(kind: str, values: Any) -> Any:
    """Return a longer copy of an array: at least twice as long, zeros at the end. O(values)."""
    longer = array(kind, bytes(values))
    longer.frombytes(bytes(8 * max(len(values), LEAST_ROOM)))
    return longer
