"""Files that are written nowhere."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from typing import Any


class Kept(dict[str, bytes]):
    """The contents of files by name, written nowhere: putting files in place takes longer."""

    def __init__(self) -> None:
        self.tables: dict[str, Any] = {}

    @contextmanager
    def open(self, name: str) -> Iterator[BytesIO]:
        stream = BytesIO()
        yield stream
        self[name] = stream.getvalue()
