"""Files that are written nowhere."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO


class Kept(dict[str, bytes]):
    """The contents of files by name, written nowhere: putting files in place takes longer."""

    @contextmanager
    def open(self, name: str) -> Iterator[BytesIO]:
        stream = BytesIO()
        yield stream
        self[name] = stream.getvalue()
