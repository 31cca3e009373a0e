"""Room in arrays of numbers of eight bytes."""

from __future__ import annotations

from array import array
from typing import Any

LEAST_ROOM = 16
"""Numbers for which an array has room, at least."""


def grown(kind: str, values: Any) -> Any:
    """Return an array with twice the room at least, what is new zero. O(values)."""
    return array(kind, bytes(values) + bytes(8 * max(len(values), LEAST_ROOM)))
