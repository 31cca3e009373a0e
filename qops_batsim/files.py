"""Reading and writing files, for all parts of the package.

Inputs may be plain or gzip-compressed, are bounded in size, and every failure
becomes an :class:`~qops_batsim.errors.InputError` that names the file.

Outputs appear whole or not at all: each is written to a temporary file next to its target, put on
the disk, and renamed. A writer holds a lock on its temporary files, which tells them from those
that a killed writer has left, also on another machine: these the next writer removes.
"""

from __future__ import annotations

import fcntl
import gzip
import os
import re
import shutil
import stat
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING, NamedTuple, Self, TypeVar, cast

import msgspec

from qops_batsim.data_problems import json_problem
from qops_batsim.errors import InputError, shown
from qops_batsim.limits import MAX_INFLATION, MAX_INPUT_BYTES, MAX_SMALL_CONTENT

if TYPE_CHECKING:
    import hashlib

_Kind = TypeVar("_Kind")

_GZIP_MAGIC = b"\x1f\x8b"
_OTHERS = {b"\xfd7zX": "xz", b"BZh9": "bzip2", b"\x28\xb5\x2f\xfd": "zstd", b"PK\3\4": "zip"}
"""First bytes of files of other kinds of compression."""

_MOST_PARTS = 1_000
"""Most names in a path that are followed; symbolic links in a circle have no end."""

_PART = 1 << 24
"""Bytes of a compressed file's content that are read at once."""


class Stored(NamedTuple):
    """A file's decompressed content, and the SHA-256 of its stored bytes."""

    content: bytes
    sha256: str


def read_bytes(path: str | Path, *, what: str, max_bytes: int = MAX_INPUT_BYTES) -> bytes:
    """Return the content of a plain or gzip-compressed file.

    Compression is recognised by content, not by name.

    Parameters
    ----------
    what
        What the file should be ("a Batsim workload"), for error messages.
    max_bytes
        Most bytes accepted, after decompression.

    Raises
    ------
    InputError
        If the file is missing, damaged, too large or cannot be read.
    """
    return b"".join(read_parts(path, max_bytes + 1, what=what, max_bytes=max_bytes))


def read_stored(path: str | Path, *, what: str, max_bytes: int = MAX_INPUT_BYTES) -> Stored:
    """Read a file once; return its content and its SHA-256. Arguments as for :func:`read_bytes`."""
    from hashlib import sha256

    digest = sha256()
    parts = read_parts(path, max_bytes + 1, what=what, max_bytes=max_bytes, digest=digest)
    return Stored(b"".join(parts), digest.hexdigest())


def read_parts(
    path: str | Path,
    size: int,
    *,
    what: str,
    max_bytes: int = MAX_INPUT_BYTES,
    digest: hashlib._Hash | None = None,
) -> Iterator[bytes]:
    """Yield a file's content in parts of ``size`` bytes; see :func:`read_bytes`.

    ``digest`` is updated with the bytes as they are stored (compressed).
    """
    total = 0
    try:
        with open(path, "rb") as raw:
            stored = _StoredBytes(raw, digest)
            if kind := _OTHERS.get(stored.begin):
                raise InputError(
                    f"{path}: is compressed with {kind}; {what} is expected plain or "
                    "gzip-compressed"
                )

            stream = (
                gzip.GzipFile(fileobj=cast("IO[bytes]", stored)) if stored.is_compressed else stored
            )
            while total <= max_bytes and (part := stream.read(min(size, stored.read_at_once))):
                total += len(part)
                stored.check(total, path, what)
                if total <= max_bytes:
                    yield part

    except FileNotFoundError:
        raise InputError(f"{path}: no such file ({what} was expected)") from None
    except IsADirectoryError:
        raise InputError(f"{path}: is a directory ({what} was expected)") from None
    except EOFError:
        raise InputError(f"{path}: truncated gzip file; {what} was expected") from None
    except (gzip.BadGzipFile, zlib.error) as error:
        raise InputError(f"{path}: damaged gzip file ({error}); {what} was expected") from None
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror or error})") from None
    except ValueError as error:
        raise InputError(f"{shown(str(path))} is no name of a file ({error})") from None

    if total > max_bytes:
        raise InputError(f"{path}: larger than {max_bytes} bytes, the most accepted for {what}")


class _StoredBytes:
    """Reads a file or pipe once, counting its stored bytes and updating their digest."""

    def __init__(self, raw: IO[bytes], digest: hashlib._Hash | None) -> None:
        self._raw = raw
        self._digest = digest
        self.begin = raw.read(4)
        self._begin = self.begin
        self.is_compressed = self.begin.startswith(_GZIP_MAGIC)
        self._count = 0
        self._size = os.fstat(raw.fileno()).st_size
        if raw.seekable():
            raw.seek(0)
            self._begin = b""

    @property
    def read_at_once(self) -> int:
        """Number of bytes to read at once: the whole file, but parts of a compressed one."""
        # Python makes room for all that is asked for.
        return _PART if self.is_compressed else max(_PART, self._size + 1)

    def read(self, size: int) -> bytes:
        begin = self._begin[:size]
        self._begin = self._begin[size:]
        part = begin + self._raw.read(size - len(begin))
        self._count += len(part)
        if self._digest is not None:
            self._digest.update(part)
        return part

    def check(self, size: int, path: str | Path, what: str) -> None:
        """Raise an InputError if the content is far larger than the stored bytes allow."""
        if size > max(MAX_SMALL_CONTENT, MAX_INFLATION * self._count):
            raise InputError(
                f"{path}: {self._count} compressed bytes hold more than {MAX_INFLATION} times as "
                f"much; {what} was expected"
            )


def read_text(path: str | Path, *, what: str, max_bytes: int = MAX_INPUT_BYTES) -> str:
    """Return the UTF-8 text of a plain or gzip-compressed file; see :func:`read_bytes`."""
    return text_of(read_bytes(path, what=what, max_bytes=max_bytes), path, what=what)


def text_of(content: bytes, path: str | Path, *, what: str) -> str:
    """Return the UTF-8 text of a file's content."""
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(
            f"{path}: not UTF-8 text (byte {error.start} is 0x{content[error.start]:02x}); "
            f"{what} was expected"
        ) from None


def decoded(
    content: bytes | msgspec.Raw, decoder: msgspec.json.Decoder[_Kind], where: object, what: str
) -> _Kind:
    """Decode JSON; an InputError names its place (``where``) and what was expected (``what``)."""
    try:
        return decoder.decode(content)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        problem = json_problem(error, bytes(content), decoder.type, what)
        raise InputError(f"{where}: {problem}") from None


@contextmanager
def atomic_write(path: str | Path) -> Iterator[IO[bytes]]:
    """Open a binary file that replaces ``path`` only if the block succeeds.

    See :class:`PendingFile`.
    """
    with PendingFile(path) as pending, errors_of_writing(path):
        sweep(pending.target.parent)
        yield pending.stream
        pending.sync()
        pending.publish()


def write_text(path: str | Path, text: str) -> None:
    """Write ``text`` as UTF-8, whole or not at all.

    A name that ends in ``.gz`` is compressed, without a time stamp, so equal
    texts give equal files.
    """
    with atomic_write(path) as stream:
        stream.write(as_stored(path, text))


def as_stored(path: str | Path, text: str) -> bytes:
    """Return a text's bytes as its file stores them: compressed if the name ends in ``.gz``."""
    content = text.encode()
    return gzip.compress(content, mtime=0) if str(path).endswith(".gz") else content


class PendingFile:
    """A temporary file that replaces ``path`` when published, and is removed otherwise.

    Missing directories are made, and removed again with the file. A symbolic link stays one:
    the file that it leads to is replaced, unless others can write the link's directory. A file
    that exists keeps its rights, a new one has those that the umask allows.

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

            # A private file is never readable by others, not even for a moment.
            flags = os.O_WRONLY | (os.O_CREAT | os.O_EXCL if content is None else 0)
            rights = 0o666 if mode is None else 0o600
            self.temporary, handle = _locked_beside(
                self.target, lambda temporary: os.open(content or temporary, flags, rights)
            )
            self.stream: IO[bytes] = os.fdopen(handle, "wb")

            if content is not None:
                os.rename(content, self.temporary)
            if mode is not None:
                os.fchmod(handle, stat.S_IMODE(mode))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.discard()

    def sync(self) -> None:
        """Flush the content to disk."""
        with errors_of_writing(self.path):
            self.stream.flush()
            os.fsync(self.stream.fileno())

    def publish(self) -> None:
        """Replace the target file."""
        with errors_of_writing(self.path):
            os.replace(self.temporary, self.target)
        self.temporary = self.target
        self.stream.close()

    def discard(self) -> None:
        """Remove the file unless it was published."""
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
    """Make a temporary directory next to ``path``, removed at the end of the block."""
    with errors_of_writing(path):
        directory, handle = _locked_beside(Path(path).absolute(), _make_directory)
    try:
        yield directory
    finally:
        os.close(handle)
        shutil.rmtree(directory, ignore_errors=True)


def _make_directory(path: Path) -> int:
    path.mkdir(0o700)
    return os.open(path, os.O_RDONLY)


def beside(target: Path) -> Path:
    """Return a new, random name for a temporary file or directory next to ``target``."""
    return target.with_name(f".{target.name}.qops-{os.urandom(4).hex()}.part")


_TEMPORARY = re.compile(r"\..+\.qops-[0-9a-f]{8}\.part")


def sweep(directory: Path) -> None:
    """Remove from a directory the temporary files of processes that were killed. O(entries)."""
    with suppress(OSError), os.scandir(directory) as entries:
        for entry in entries:
            if _TEMPORARY.fullmatch(entry.name):
                _remove_unless_locked(Path(entry.path))


def check_writable(path: str | Path, room: int = 0) -> None:
    """Raise an InputError if a file cannot be written, or the disk has less than ``room`` bytes."""
    with PendingFile(path) as probe, errors_of_writing(path):
        probe.stream.write(bytes(4096))
        probe.stream.flush()
        free = shutil.disk_usage(probe.temporary).free
        if free < room:
            raise InputError(
                f"{path}: cannot be written (at least {room:,} bytes are needed, and {free:,} "
                "are free)"
            )


def make_directory(path: Path, option: str) -> None:
    """Create the directory that an option names; InputError at once if that is impossible."""
    if path.exists() and not path.is_dir():
        raise InputError(f"{option} {path}: is a file; the name of a directory is expected")
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(
            f"{option} {path}: the directory cannot be created ({error.strerror or error})"
        ) from None
    check_writable(path / "report")


@contextmanager
def errors_of_writing(path: str | Path) -> Iterator[None]:
    """Turn an OSError in this block into an InputError that says ``path`` cannot be written."""
    try:
        yield
    except OSError as error:
        raise InputError(f"{path}: cannot be written ({error.strerror or error})") from None


def final_target(path: Path) -> Path:
    """Follow symbolic links to the file to write; InputError if no file can be there."""
    try:
        if path.is_dir():
            raise InputError(f"{path}: is a directory; the name of a file to write was expected")
        # Renaming over a device such as /dev/null would destroy it.
        if path.exists() and not path.is_file():
            raise InputError(f"{path}: is a device or a pipe; a file to write was expected")
        return _resolved(path)
    except (ValueError, RuntimeError) as error:
        # A zero byte in the name, or symbolic links in a circle.
        raise InputError(f"{shown(str(path))} is no name of a file ({error})") from None


def _resolved(path: Path) -> Path:
    """Follow all symbolic links of a path; InputError for links that another user may have made.

    That is any link in a directory that all users can write, sticky or not; and one of another user
    in a directory that is theirs, or which a group can write.
    """
    trusted = (0, os.geteuid())
    folder = Path("/")
    left = [*reversed((Path.cwd() / path).parts[1:])]
    for _ in range(_MOST_PARTS):
        if not left:
            return folder
        name = left.pop()
        if name == "..":
            folder = folder.parent
            continue

        place = folder / name
        try:
            status = place.lstat()
        except FileNotFoundError:
            return place.joinpath(*reversed(left))
        if not stat.S_ISLNK(status.st_mode):
            folder = place
            continue

        around = folder.stat()
        is_shared = around.st_mode & stat.S_IWGRP or around.st_uid not in trusted
        if around.st_mode & stat.S_IWOTH or (is_shared and status.st_uid not in trusted):
            raise InputError(
                f"{path}: {place} is a symbolic link in a directory that others can write, and is "
                "not followed; another place is expected"
            )

        aim = place.readlink()
        folder = Path("/") if aim.is_absolute() else folder
        left += reversed(aim.parts[1:] if aim.is_absolute() else aim.parts)
    raise RuntimeError("Symbolic links in a circle")


def _locked_beside(target: Path, make: Callable[[Path], int]) -> tuple[Path, int]:
    """Make a temporary file or directory next to ``target`` and lock it; return path and handle.

    ``make`` creates it at the path that it is given, and returns a handle.
    """
    for _ in range(20):
        temporary = beside(target)
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            handle = make(temporary)
        except FileNotFoundError:
            # Another writer has removed the empty directory, or swept this one.
            continue

        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            pass  # Another writer is about to sweep it.
        except OSError:
            return temporary, handle  # No locks on this file system: nothing is swept here.
        else:
            if os.fstat(handle).st_nlink:
                return temporary, handle
        os.close(handle)
    raise FileNotFoundError(2, "no file can be made in its directory")


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
