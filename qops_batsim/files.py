"""Reading input files and writing output files, the same way everywhere.

Inputs may be plain or gzip-compressed, are bounded in size, and every failure
becomes an :class:`~qops_batsim.errors.InputError` that names the file. Outputs
appear whole or not at all.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, NamedTuple, TypeVar, cast

import msgspec

from qops_batsim.errors import InputError, shown
from qops_batsim.limits import MAX_INFLATION, MAX_INPUT_BYTES, MAX_SMALL_CONTENT
from qops_batsim.pending import PendingFile, errors_of_writing, sweep

if TYPE_CHECKING:
    import hashlib

_Kind = TypeVar("_Kind")

_GZIP_MAGIC = b"\x1f\x8b"
_OTHERS = {b"\xfd7zX": "xz", b"BZh9": "bzip2", b"\x28\xb5\x2f\xfd": "zstd", b"PK\3\4": "zip"}
"""How files of other kinds of compression begin."""

_PART = 1 << 24
"""Bytes of a compressed file's content that are read at once."""


class Stored(NamedTuple):
    """The content of a file, decompressed, and the SHA-256 of the file as it is stored."""

    content: bytes
    sha256: str


def read_bytes(path: str | Path, *, what: str, max_bytes: int = MAX_INPUT_BYTES) -> bytes:
    """Return the content of a plain or gzip-compressed file.

    Compression is recognised by content, not by name; ``max_bytes`` counts after
    decompression. ``what`` the file should be ("a workload") is for the message.
    """
    return b"".join(read_parts(path, max_bytes + 1, what=what, max_bytes=max_bytes))


def read_stored(path: str | Path, *, what: str, max_bytes: int = MAX_INPUT_BYTES) -> Stored:
    """Return the content of a file and its digest, read once; see :func:`read_bytes`."""
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
    """Yield the content of a file, so many bytes at a time; see :func:`read_bytes`.

    A ``digest`` gets the bytes as they are stored.
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
    """A file as it is stored, perhaps a pipe, which is read once: counted, and told a digest."""

    def __init__(self, raw: IO[bytes], digest: hashlib._Hash | None) -> None:
        self._raw = raw
        self._digest = digest
        self.begin = self._begin = raw.read(4)
        self.is_compressed = self.begin.startswith(_GZIP_MAGIC)
        self._count = 0
        if raw.seekable():
            raw.seek(0)
            self._begin = b""

    @property
    def read_at_once(self) -> int:
        """How many bytes of the content may be asked for: it may be far more than is stored."""
        return _PART if self.is_compressed else MAX_INPUT_BYTES + 1

    def read(self, size: int) -> bytes:
        begin, self._begin = self._begin[:size], self._begin[size:]
        part = begin + self._raw.read(size - len(begin))
        self._count += len(part)
        if self._digest is not None:
            self._digest.update(part)
        return part

    def check(self, size: int, path: str | Path, what: str) -> None:
        """Refuse a content that is out of all proportion to what is stored."""
        if size > max(MAX_SMALL_CONTENT, MAX_INFLATION * self._count):
            raise InputError(
                f"{path}: {self._count} compressed bytes hold more than {MAX_INFLATION} times as "
                f"much; {what} was expected"
            )


def read_text(path: str | Path, *, what: str, max_bytes: int = MAX_INPUT_BYTES) -> str:
    """Return the UTF-8 text of a plain or gzip-compressed file; see :func:`read_bytes`."""
    return text_of(read_bytes(path, what=what, max_bytes=max_bytes), path, what=what)


def text_of(content: bytes, path: str | Path, *, what: str) -> str:
    """Return the UTF-8 text that was read from a file."""
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(
            f"{path}: not UTF-8 text (byte {error.start} is 0x{content[error.start]:02x}); "
            f"{what} was expected"
        ) from None


def decoded(
    content: bytes, decoder: msgspec.json.Decoder[_Kind], where: object, what: str
) -> _Kind:
    """Return what JSON says; ``where`` it is and ``what`` was expected are for messages."""
    try:
        return decoder.decode(content)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InputError(f"{where}: {error}; {what} is expected") from None


@contextmanager
def atomic_write(path: str | Path) -> Iterator[IO[bytes]]:
    """Open a binary file that replaces ``path`` only when the block ends without error.

    See :class:`~qops_batsim.pending.PendingFile`.
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
    """Return what a file of this name holds for a text."""
    content = text.encode()
    return gzip.compress(content, mtime=0) if str(path).endswith(".gz") else content
