"""Downloading logs of the Parallel Workloads Archive, once and checked.

The archive (D. G. Feitelson, https://www.cs.huji.ac.il/labs/parallel/workload/) asks
users to acknowledge it and the site that gave the log.
"""

from __future__ import annotations

import gzip
import os
import re
import shutil
import ssl
import urllib.error
import urllib.request
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.client import HTTPException
from pathlib import Path
from typing import Any

import msgspec
import pooch

from qops_batsim.errors import InputError, QopsError, require_one_of
from qops_batsim.files import atomic_write, write_text

ARCHIVE_URL = "https://www.cs.huji.ac.il/labs/parallel/workload/"
TIMEOUT = 30.0
"""Seconds of silence after which a download is given up."""

_CHUNK = 1 << 16


class DownloadError(QopsError):
    """A log that cannot be downloaded, or is not the expected one."""


class ArchivedLog(msgspec.Struct, frozen=True, kw_only=True):
    """A log in the archive: its path below :data:`ARCHIVE_URL`, and its file's checksum.

    Without a checksum known to this package the first download's is recorded next to the file,
    and later downloads must agree with it.
    """

    path: str
    sha256: str | None = None

    @property
    def file(self) -> str:
        return self.path.rpartition("/")[2]


LOGS = {
    "kth-sp2": ArchivedLog(
        path="l_kth_sp2/KTH-SP2-1996-2.swf.gz",
        sha256="b29822e563c96aaa88207d636c007f342b3d369ae85ca189851d42bd34bab1c1",
    ),
    "sdsc-sp2": ArchivedLog(path="l_sdsc_sp2/SDSC-SP2-1998-4.2-cln.swf.gz"),
    "ctc-sp2": ArchivedLog(path="l_ctc_sp2/CTC-SP2-1996-3.1-cln.swf.gz"),
    "hpc2n": ArchivedLog(path="l_hpc2n/HPC2N-2002-2.2-cln.swf.gz"),
    "sdsc-blue": ArchivedLog(path="l_sdsc_blue/SDSC-BLUE-2000-4.2-cln.swf.gz"),
    "cea-curie": ArchivedLog(path="l_cea_curie/CEA-Curie-2011-2.1-cln.swf.gz"),
    "ricc": ArchivedLog(path="l_ricc/RICC-2010-2.swf.gz"),
    "thunder": ArchivedLog(path="l_llnl_thunder/LLNL-Thunder-2007-1.1-cln.swf.gz"),
    "metacentrum": ArchivedLog(path="l_metacentrum2/METACENTRUM-2013-3.swf.gz"),
}
"""Logs that can be fetched, by name; of ``-cln`` files flurries have been removed."""


class FetchedLog(msgspec.Struct, frozen=True):
    """A log that was fetched from the archive: its file, its URL, its checksum, and how that was
    checked.

    ``checked_against`` is ``"package"`` (the checksum is part of this package), ``"record"``
    (of an earlier download) or ``"nothing"`` (this was the first download).
    """

    path: Path
    url: str
    sha256: str
    checked_against: str


Progress = Callable[[int, int | None], None]
"""Takes the bytes of a download received so far, and expected in all (None: unknown)."""


def fetch_log(
    name: str,
    *,
    cache: Path | None = None,
    progress: Progress | None = None,
    base_url: str = ARCHIVE_URL,
    logs: dict[str, ArchivedLog] = LOGS,
) -> FetchedLog:
    """Return a log of the Parallel Workloads Archive from the cache; download it first if
    necessary.

    A file in the cache whose checksum is wrong is downloaded again. Raises
    :class:`DownloadError` where it fails for reasons of the network or the server.

    The ``name`` is one of :data:`LOGS`. The ``cache`` is by default ``qops-batsim`` in the
    user's cache directory; ``base_url`` and ``logs`` are for tests and mirrors.
    """
    require_one_of("log", name, logs)
    log = logs[name]
    cache = Path(pooch.os_cache("qops-batsim")) if cache is None else cache
    url = base_url + log.path
    record = cache / f"{log.file}.sha256"
    recorded = _read_record(record)
    expected = log.sha256 or recorded
    was_there = (cache / log.file).is_file()
    pooch.get_logger().setLevel("WARNING")

    def download(url: str, file: str, _pooch: Any) -> None:
        with _download_errors(url, cache / log.file):
            _download(url, file, progress)

    try:
        path = pooch.retrieve(
            url,
            known_hash=None if expected is None else f"sha256:{expected}",
            fname=log.file,
            path=cache,
            downloader=download,
        )
        sha256 = expected or str(pooch.file_hash(path, alg="sha256"))
    except ValueError:
        # pooch's only one: the checksum; it has removed the file.
        known = (
            "this package expects" if log.sha256 else f"{record} recorded at an earlier download"
        )
        hint = "" if log.sha256 else "; remove that record to accept a new version"
        raise DownloadError(
            f"{url}: not the expected file: its sha256 checksum differs from the one that {known} "
            f"({expected}){hint}"
        ) from None
    except OSError as error:
        reason = error.strerror or error
        raise InputError(
            f"{cache}: cannot be used as a cache ({reason}); a writable directory is expected"
        ) from None
    if expected is None:
        _check_whole(Path(path), url, was_there=was_there)
        write_text(record, f"{sha256}  {log.file}\n")
    checked = "package" if log.sha256 else "record" if recorded else "nothing"
    return FetchedLog(Path(path), url, sha256, checked)


def copy_log(log: FetchedLog, out: Path) -> Path:
    """Copy a fetched log to a file or into an existing directory; return the file."""
    target = out / log.path.name if out.is_dir() or str(out).endswith(os.sep) else out
    with open(log.path, "rb") as source, atomic_write(target) as copy:
        shutil.copyfileobj(source, copy)
    return target


def _download(url: str, file: str, progress: Progress | None) -> None:
    """Download a URL to a file; call ``progress`` after each part that was received."""
    request = urllib.request.Request(url, headers={"User-Agent": "qops-batsim"})
    with urllib.request.urlopen(request, timeout=TIMEOUT) as response, open(file, "wb") as part:
        length = response.headers.get("Content-Length")
        total = int(length) if length and length.isdigit() else None
        received = 0
        while chunk := response.read(_CHUNK):
            part.write(chunk)
            received += len(chunk)
            if progress is not None:
                progress(received, total)
    if total is not None and received != total:
        raise HTTPException(f"the connection ended after {received} of {total} bytes")


@contextmanager
def _download_errors(url: str, target: Path) -> Iterator[None]:
    """Turn a network error within this block into a DownloadError that says what to do; ``target``
    is where to save the file by hand.
    """
    by_hand = f"download it by hand, with a browser or another machine, and save it as {target}"
    try:
        yield
    except urllib.error.HTTPError as error:
        error.close()
        answer = f"the server answers {error.code} {error.reason}"
        raise DownloadError(f"{url}: {answer}; {by_hand}") from None
    except urllib.error.URLError as error:
        raise DownloadError(f"{url}: cannot be reached ({error.reason}); {by_hand}") from None
    except (TimeoutError, ConnectionError, ssl.SSLError, HTTPException) as error:
        reason = str(error) or type(error).__name__
        again = "run the command again"
        raise DownloadError(f"{url}: the download was broken off ({reason}); {again}") from None


def _check_whole(path: Path, url: str, *, was_there: bool) -> None:
    """Raise a DownloadError unless a downloaded file is complete gzip data, as logs are and login
    pages are not. One that ``was_there`` before is kept, another is removed.
    """
    try:
        with gzip.open(path) as stream:
            while stream.read(_CHUNK):
                pass
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        if not was_there:
            path.unlink()
        raise DownloadError(
            f"{path if was_there else url}: not a complete gzip file ({error}), which a log is; "
            f"{'remove it and ' if was_there else ''}run the command again"
        ) from None


def _read_record(record: Path) -> str | None:
    """Return the checksum recorded at an earlier download, None if there is no record of one."""
    try:
        words = record.read_text("utf-8").split()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(
            f"{record}: the checksum of an earlier download cannot be read ({error})"
        ) from None

    if not words or not re.fullmatch("[0-9a-f]{64}", words[0]):
        raise InputError(
            f"{record}: holds no sha256 checksum (64 hexadecimal digits are expected); remove this "
            "file to accept whatever is downloaded next"
        )
    return words[0]
