"""Sets of files that are published together, such as those of a run.

No file system puts several files in place at once. So the *record* of a set, ``PREFIX_run.json``
of a run, tells the digests of all others and is put in place first: whoever reads while it is
newer than the rest, or after a writer was killed in between, sees digests that disagree. Before,
everything has been written next to it and is on the disk; a full disk leaves the old set as it was.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Self

import msgspec

from qops_batsim.errors import InputError
from qops_batsim.files import (
    PendingFile,
    check_writable,
    errors_of_writing,
    final_target,
    sweep,
)

if TYPE_CHECKING:
    from qops_batsim.tables import Column

DESCRIPTION = "_run.json"
"""Ending of a run's record: how it was made, and the digests of its files."""

RUN_FILES = (
    "_jobs.csv",
    "_schedule.csv",
    "_machine_states.csv",
    "_consumed_energy.csv",
    "_pstate_changes.csv",
    "_qos.csv",
    "_decisions.jsonl",
    "_submitted.json",
    "_users.csv",
)
"""Endings of a run's other files; which of them exist depends on the run."""

PICTURE = "_deadlines.png"
"""Ending of a run's picture, which is drawn after the files."""

DEADLOCK = "_deadlock"
"""End of the prefix of files that have what had ended before a deadlock."""

WORKING_DIRECTORY = "_batsim"
"""Ending of the directory in which Batsim works, next to the files."""


class SetFile:
    """A file of a set, whose digest is computed as it is written."""

    def __init__(self, stream: IO[bytes]) -> None:
        from hashlib import sha256

        self._stream = stream
        self.sha256 = sha256()

    def write(self, content: bytes) -> None:
        self.sha256.update(content)
        self._stream.write(content)

    def writelines(self, parts: Iterable[bytes]) -> None:
        for part in parts:
            self.write(part)


class FileSet:
    """The files ``PREFIX + NAME`` of a run or report, put into place together or not at all.

    Files are written under temporary names until :meth:`publish`; a ``with`` block that ends before
    removes them. Paths that cannot be written raise an InputError when the set is made.

    Parameters
    ----------
    record
        Name of the file with the digests of the others.
    names
        Names that the other files may have: one that exists and is not written belongs to an
        earlier set, and is removed with it.
    room
        Bytes that will be needed at least.
    lasting
        Whether the files are to outlive a loss of power: it takes some milliseconds.
    """

    def __init__(
        self,
        prefix: str | Path,
        record: str,
        names: Iterable[str],
        *,
        room: int = 0,
        lasting: bool = True,
    ) -> None:
        self.prefix = os.fspath(prefix)
        self.record = record
        self.lasting = lasting
        self.published = b""
        """The record that was put in place."""
        self.tables: dict[str, dict[str, Column]] = {}
        """The columns of files that hold tables, by name: what was noted of it."""
        self._pending: dict[str, PendingFile] = {}
        self.digests: dict[str, str] = {}
        """The SHA-256 of each file by its name."""

        known = [record, *names]
        for name in known:
            with errors_of_writing(self.path(name)):
                final_target(self.path(name))
        sweep(self.path(record).absolute().parent)
        check_writable(self.path(max(known, key=len)), room)
        self._earlier = {name: _identity(self.path(name)) for name in known}

    def path(self, name: str) -> Path:
        return Path(f"{self.prefix}{name}")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        for file in reversed(self._pending.values()):
            file.discard()

    @contextmanager
    def open(self, name: str) -> Iterator[SetFile]:
        """Open one file of the set for writing, under a temporary name."""
        file = self._pending[name] = PendingFile(self.path(name))
        with errors_of_writing(file.path):
            opened = SetFile(file.stream)
            yield opened
        self.digests[name] = opened.sha256.hexdigest()

    def adopt(self, name: str, path: Path) -> None:
        """Add a file that another program has written; it is moved into place with the others."""
        from hashlib import file_digest

        self._pending[name] = PendingFile(self.path(name), path)
        with errors_of_writing(path), open(self._pending[name].temporary, "rb") as written:
            self.digests[name] = file_digest(written, "sha256").hexdigest()

    def publish(self, record: bytes, *, stays: bool = True) -> list[Path]:
        """Put all files into place, the record with their digests first; return their paths.

        Unless it ``stays``, the record is removed once all others are in place.
        """
        others = [*self._pending.values()]
        with self.open(self.record) as stream:
            stream.write(record)
        first = self._pending[self.record]

        if self.lasting:
            from concurrent.futures import ThreadPoolExecutor

            # All at the same time: one after another takes thrice as long.
            with ThreadPoolExecutor(len(self._pending)) as pool:
                list(pool.map(PendingFile.sync, self._pending.values()))

        # On the disk before the others: after a loss of power, digests disagree.
        first.publish()
        self._sync_directory()
        for file in others:
            file.publish()

        for name, before in self._earlier.items():
            # Files that appeared meanwhile are of the scheduler that decides for the engine.
            if name not in self._pending and (stays or before == _identity(self.path(name))):
                self._remove(name)
        self.published = record
        if not stays:
            self._remove(self.record)
        self._sync_directory()
        return [file.path for file in (*others, *[first] * stays)]

    def publish_alone(self) -> list[Path]:
        """Put all files into place, and no record; return their paths."""
        return self.publish(document_with_digests(self, {}), stays=False)

    def _sync_directory(self) -> None:
        if not self.lasting:
            return
        # Some file systems have no such thing for directories.
        with suppress(OSError):
            handle = os.open(self.path(self.record).parent, os.O_RDONLY)
            try:
                os.fsync(handle)
            finally:
                os.close(handle)

    def _remove(self, name: str) -> None:
        with errors_of_writing(self.path(name)):
            self.path(name).unlink(missing_ok=True)


def run_files(prefix: str | Path, *, room: int = 0, lasting: bool = True) -> FileSet:
    """Return the set of files that a run with this prefix will write; ``room`` in bytes."""
    files = FileSet(prefix, DESCRIPTION, (*RUN_FILES, PICTURE), room=room, lasting=lasting)
    for name in RUN_FILES:
        packed = Path(f"{prefix}{name}.gz")
        if packed.exists():
            raise InputError(
                f"{packed}: exists, and would stand next to {prefix}{name}; another prefix of the "
                "files to write, or no such file, is expected"
            )
    return files


def write_report(
    directory: Path, record: str, document: Mapping[str, Any], contents: Mapping[str, bytes]
) -> list[Path]:
    """Write a report into a directory, all files or none; return their paths.

    Parameters
    ----------
    record
        Name of the JSON file that gets ``document`` and the SHA-256 of each other file.
    contents
        Content of each other file by name.
    """
    with FileSet(f"{directory}{os.sep}", record, contents) as files:
        for name, content in contents.items():
            with files.open(name) as stream:
                stream.write(content)
        whole = {**document, "files": files.digests}
        text = json.dumps(whole, indent=2, allow_nan=False)
        *others, first = files.publish(f"{text}\n".encode())
    return [first, *others]


def document_with_digests(files: FileSet, document: Mapping[str, Any]) -> bytes:
    """Return a document as JSON, with the digests of the set's files added as ``files``."""
    content = {**document, "files": files.digests}
    return msgspec.json.format(msgspec.json.encode(content)) + b"\n"


def _identity(path: Path) -> tuple[int, int] | None:
    """Return the inode and date that identify a file; None if the file does not exist."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns
