"""Finished runs in files, so that an interrupted study goes on where it was."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path
from typing import Any, Generic, TypeVar

import msgspec

from qops_batsim.files import PendingFile, decoded, errors_of_writing, read_bytes, sweep
from qops_batsim.version import __version__

Run = TypeVar("Run")


class _File(msgspec.Struct, frozen=True):
    """What a file holds: a run and everything that tells it from others."""

    package_version: str
    made_of: msgspec.Raw
    case: msgspec.Raw
    run: msgspec.Raw


_files = msgspec.json.Decoder(_File)


class KeptRuns(Generic[Run]):
    """Runs kept in a directory, one file each, written whole or not at all.

    A file's name is a digest of the package's version, of ``made_of`` and of the case: a run
    made of something else is never taken for the one that is wanted. Runs (of type ``kind``),
    cases and ``made_of``, what all runs depend on, such as the log, need a JSON form (msgspec).
    """

    def __init__(self, directory: Path, kind: type[Run], made_of: Any) -> None:
        self._directory = directory
        self._kind = kind
        self._made_of = msgspec.json.encode(made_of, order="deterministic")
        sweep(directory)

    def find(self, case: Any) -> Run | None:
        """Return the kept run of a case, or None."""
        path = self._path(_encoded(case))
        if not path.exists():
            return None
        content = read_bytes(path, what="a kept run")
        what = "a kept run, or no file,"
        file = decoded(content, _files, path, what)
        return decoded(file.run, msgspec.json.Decoder(self._kind), path, what)

    def add(self, case: Any, run: Run) -> None:
        """Keep the run of a case."""
        key = _encoded(case)
        parts = (msgspec.Raw(each) for each in (self._made_of, key, msgspec.json.encode(run)))
        file = _File(__version__, *parts)
        # The directory was swept when this began: there may be thousands of files in it.
        with PendingFile(self._path(key)) as pending, errors_of_writing(pending.path):
            pending.stream.write(msgspec.json.encode(file) + b"\n")
            pending.sync()
            pending.publish()

    def count(self, cases: Iterable[Any]) -> int:
        """Return how many of these cases have a kept run, without reading any."""
        there = {path.name for path in self._directory.glob("*.json")}
        return sum(self._path(_encoded(case)).name in there for case in cases)

    def clear(self) -> None:
        """Remove the directory's kept runs, and the directory if nothing else is in it."""
        for path in self._directory.glob("*.json"):
            path.unlink(missing_ok=True)
        with suppress(OSError):
            self._directory.rmdir()

    def _path(self, key: bytes) -> Path:
        parts = b"\n".join((__version__.encode(), self._made_of, key))
        return self._directory / f"{blake2b(parts, digest_size=8).hexdigest()}.json"


def _encoded(case: Any) -> bytes:
    return msgspec.json.encode(case, order="deterministic")
