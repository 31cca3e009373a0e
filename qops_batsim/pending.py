"""Files on their way: written beside those that they are to replace, then put in their place.

A writer holds a lock on what it writes. What a killed one has left behind is not locked: that
tells it from the file of a run that is still going on, also of one on another machine.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Self

from qops_batsim.errors import InputError, shown

_LEFTOVER = re.compile(r"\..+\.[0-9a-f]{8}\.part")
_TRIES = 20


class PendingFile:
    """A file that takes the place of ``path`` when it is published, or is removed.

    Missing directories are made, and removed again with the file. A symbolic link stays one:
    the file that it leads to is replaced. A file that exists keeps its rights, a new one has
    those that the umask allows.

    Parameters
    ----------
    content
        A file on the same file system that is moved there; by default the file begins empty.
    """

    def __init__(self, path: str | Path, content: Path | None = None) -> None:
        self.path = Path(path)
        with errors_of_writing(path):
            self.target = final_target(self.path)
            mode = self.target.stat().st_mode if self.target.exists() else None
            folders = (self.target.parent, *self.target.parent.parents)
            self._made = [folder for folder in folders if not folder.exists()]
            self.temporary = self.target
            self.stream = self._open(content, mode)
            if mode is not None:
                os.fchmod(self.stream.fileno(), stat.S_IMODE(mode))

    def _open(self, content: Path | None, mode: int | None) -> IO[bytes]:
        for _ in range(_TRIES):
            temporary = beside(self.target)
            # A private file is never readable by others, not even for a moment.
            flags = os.O_WRONLY | (os.O_CREAT | os.O_EXCL if content is None else 0)
            try:
                self.target.parent.mkdir(parents=True, exist_ok=True)
                handle = os.open(content or temporary, flags, 0o666 if mode is None else 0o600)
            except FileNotFoundError:
                # Another writer has just removed the directory, which was empty.
                continue
            stream = os.fdopen(handle, "wb")
            if _take(handle):
                if content is not None:
                    os.rename(content, temporary)
                self.temporary = temporary
                return stream
            stream.close()
        raise FileNotFoundError(2, "no file can be made in its directory")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.discard()

    def digest(self) -> str:
        """Return the SHA-256 of what has been written. O(bytes)."""
        from hashlib import file_digest

        with errors_of_writing(self.path):
            self.stream.flush()
            with open(self.temporary, "rb") as written:
                return file_digest(written, "sha256").hexdigest()

    def sync(self) -> None:
        """Have the content on the disk, and not only in memory."""
        with errors_of_writing(self.path):
            self.stream.flush()
            os.fsync(self.stream.fileno())

    def publish(self) -> None:
        """Take the place of the other file."""
        with errors_of_writing(self.path):
            os.replace(self.temporary, self.target)
        self.temporary = self.target
        self.stream.close()

    def discard(self) -> None:
        """Remove the file, unless it is published."""
        if self.temporary == self.target:
            return
        # A full disk is noticed once more when what is buffered is to be written.
        with suppress(OSError):
            self.stream.close()
        self.temporary.unlink(missing_ok=True)
        self.temporary = self.target
        for folder in self._made:
            with suppress(OSError):
                folder.rmdir()


@contextmanager
def pending_directory(path: str | Path) -> Iterator[Path]:
    """Make a directory of which nothing stays, beside ``path`` and on its file system."""
    with errors_of_writing(path):
        target = Path(path).absolute()
        target.parent.mkdir(parents=True, exist_ok=True)
        directory, handle = _made_directory(target)
    try:
        yield directory
    finally:
        os.close(handle)
        shutil.rmtree(directory, ignore_errors=True)


def _made_directory(target: Path) -> tuple[Path, int]:
    """Make a directory for ``target``; return it with a handle that holds its lock."""
    for _ in range(_TRIES):
        directory = beside(target)
        directory.mkdir(0o700)
        try:
            handle = os.open(directory, os.O_RDONLY)
        except FileNotFoundError:
            # Another writer has taken it for what a killed one left.
            continue
        if _take(handle):
            return directory, handle
        os.close(handle)
    raise FileNotFoundError(2, "no file can be made in its directory")


def beside(target: Path) -> Path:
    """Return a name for what is to become ``target``, or serves to make it."""
    return target.with_name(f".{target.name}.{os.urandom(4).hex()}.part")


def sweep(directory: Path) -> None:
    """Remove what killed writers have left in a directory. O(entries)."""
    with suppress(OSError), os.scandir(directory) as entries:
        for entry in entries:
            if _LEFTOVER.fullmatch(entry.name):
                _remove_unless_locked(Path(entry.path))


def check_writable(path: str | Path, room: int = 0) -> None:
    """Raise an InputError if a file cannot be written, as far as that can be known before.

    ``room`` are the bytes that it will need at least.
    """
    with PendingFile(path) as probe, errors_of_writing(path):
        probe.stream.write(bytes(4096))
        probe.stream.flush()
        system = os.statvfs(probe.temporary)
        if system.f_bavail * system.f_frsize < room:
            raise InputError(
                f"{path}: cannot be written (at least {room:,} bytes are needed, and "
                f"{system.f_bavail * system.f_frsize:,} are free)"
            )


@contextmanager
def errors_of_writing(path: str | Path) -> Iterator[None]:
    """Turn what the system says against writing a file into an InputError that names it."""
    try:
        yield
    except OSError as error:
        raise InputError(f"{path}: cannot be written ({error.strerror or error})") from None


def final_target(path: Path) -> Path:
    """Return the file that is replaced, at the end of symbolic links; check that it can be."""
    try:
        if path.is_dir():
            raise InputError(f"{path}: is a directory; the name of a file to write was expected")
        # Renaming over a device such as /dev/null would destroy it.
        if path.exists() and not path.is_file():
            raise InputError(f"{path}: is a device or a pipe; a file to write was expected")
        return path.resolve()
    except (ValueError, RuntimeError) as error:
        # A zero byte in the name, or symbolic links in a circle.
        raise InputError(f"{shown(str(path))} is no name of a file ({error})") from None


def _take(handle: int) -> bool:
    """Lock what was just made; tell whether it is still there."""
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        # Another writer is about to remove it.
        return False
    except OSError:
        # A file system without locks, on which nothing is ever swept.
        return True
    return os.fstat(handle).st_nlink > 0


def _remove_unless_locked(path: Path) -> None:
    with suppress(OSError):
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink()
        finally:
            os.close(handle)
