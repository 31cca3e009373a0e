import gzip
import hashlib
import random
import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from qops_batsim import InputError, QopsError
from qops_batsim.traces.archive import (
    LOGS,
    ArchivedLog,
    DownloadError,
    FetchedLog,
    copy_log,
    fetch_log,
)

CONTENT = gzip.compress(random.Random(1).randbytes(400_000), mtime=0)
OTHER = gzip.compress(b"another version", mtime=0)
SHA256 = hashlib.sha256(CONTENT).hexdigest()


class Archive:
    """A server on the loopback interface whose file and manners can be changed."""

    def __init__(self) -> None:
        self.content = CONTENT
        self.break_after: int | None = None
        self.requests: list[str] = []
        archive = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                archive.answer(self)

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}/"
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.01,))
        self.thread.start()

    def answer(self, handler: BaseHTTPRequestHandler) -> None:
        self.requests.append(handler.path)
        if handler.path != "/l_test/log.swf.gz":
            handler.send_error(404)
            return
        handler.send_response(200)
        body = self.content
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body[: self.break_after])

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()


@pytest.fixture
def archive(monkeypatch: pytest.MonkeyPatch) -> Iterator[Archive]:
    monkeypatch.setenv("NO_PROXY", "*")
    server = Archive()
    yield server
    server.close()


def fetch(archive: Archive, cache: Path, sha256: str | None = None, **more: object) -> FetchedLog:
    logs = {"test": ArchivedLog(path="l_test/log.swf.gz", sha256=sha256)}
    return fetch_log("test", cache=cache, base_url=archive.url, logs=logs, **more)


def test_known_checksum_is_checked_and_the_cache_used(archive: Archive, tmp_path: Path) -> None:
    seen: list[tuple[int, int | None]] = []
    cache = tmp_path / "new" / "cache"
    found = fetch(archive, cache, SHA256, progress=lambda got, of: seen.append((got, of)))
    assert found.path.read_bytes() == CONTENT
    assert (found.sha256, found.checked_against) == (SHA256, "package")
    assert found.url == archive.url + "l_test/log.swf.gz"
    assert seen[-1] == (len(CONTENT), len(CONTENT))
    assert [path.name for path in cache.iterdir()] == ["log.swf.gz"]
    assert fetch(archive, cache, SHA256).path == found.path
    assert len(archive.requests) == 1


def test_damaged_cached_file_is_downloaded_again(archive: Archive, tmp_path: Path) -> None:
    found = fetch(archive, tmp_path, SHA256)
    found.path.write_bytes(b"damaged")
    assert fetch(archive, tmp_path, SHA256).path.read_bytes() == CONTENT


def test_wrong_checksum_is_refused_and_nothing_kept(archive: Archive, tmp_path: Path) -> None:
    with pytest.raises(DownloadError, match=r"differs from the one that this package expects \(00"):
        fetch(archive, tmp_path, "00" * 32)
    assert not list(tmp_path.glob("log*"))


def test_first_checksum_is_recorded_and_later_ones_must_agree(
    archive: Archive, tmp_path: Path
) -> None:
    first = fetch(archive, tmp_path)
    assert (first.sha256, first.checked_against) == (SHA256, "nothing")
    record = tmp_path / "log.swf.gz.sha256"
    assert record.read_text() == f"{SHA256}  log.swf.gz\n"
    assert fetch(archive, tmp_path).checked_against == "record"
    first.path.unlink()
    archive.content = OTHER
    with pytest.raises(DownloadError, match="remove that record to accept a new version"):
        fetch(archive, tmp_path)
    record.unlink()
    assert fetch(archive, tmp_path).path.read_bytes() == OTHER


@pytest.mark.parametrize("content", [b"<html>Please log in</html>", CONTENT[:-9]])
def test_what_is_no_whole_log_is_not_recorded(
    archive: Archive, tmp_path: Path, content: bytes
) -> None:
    archive.content = content
    with pytest.raises(DownloadError, match=r"http.*: not a complete gzip file"):
        fetch(archive, tmp_path)
    assert not list(tmp_path.iterdir())
    (tmp_path / "log.swf.gz").write_bytes(content)
    with pytest.raises(DownloadError, match="remove it and run the command again"):
        fetch(archive, tmp_path)


def test_spoilt_record_is_told(archive: Archive, tmp_path: Path) -> None:
    (tmp_path / "log.swf.gz.sha256").write_text("no checksum\n")
    with pytest.raises(InputError, match="holds no sha256 checksum"):
        fetch(archive, tmp_path)


def test_a_broken_download_is_told_and_leaves_nothing(archive: Archive, tmp_path: Path) -> None:
    archive.break_after = 100_000
    with pytest.raises(DownloadError, match="broken off .*; run the command again"):
        fetch(archive, tmp_path, SHA256)
    assert not list(tmp_path.iterdir())
    archive.break_after = None
    assert fetch(archive, tmp_path, SHA256).path.read_bytes() == CONTENT


def test_offline_tells_the_address_and_the_way_by_hand(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_PROXY", "*")
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{closed.getsockname()[1]}/"
    with pytest.raises(DownloadError) as caught:
        fetch_log("kth-sp2", cache=tmp_path, base_url=url)
    message = str(caught.value)
    assert "\n" not in message
    assert message.startswith(f"{url}l_kth_sp2/KTH-SP2-1996-2.swf.gz: cannot be reached")
    assert f"save it as {tmp_path / 'KTH-SP2-1996-2.swf.gz'}" in message


def test_file_saved_by_hand_is_taken(tmp_path: Path, archive: Archive) -> None:
    (tmp_path / "log.swf.gz").write_bytes(CONTENT)
    assert fetch(archive, tmp_path, SHA256).checked_against == "package"
    assert not archive.requests


def test_missing_file_on_the_server(archive: Archive, tmp_path: Path) -> None:
    logs = {"test": ArchivedLog(path="l_test/gone.swf.gz")}
    with pytest.raises(DownloadError, match="the server answers 404 Not Found"):
        fetch_log("test", cache=tmp_path, base_url=archive.url, logs=logs)


def test_unknown_log_and_unusable_cache(archive: Archive, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="did you mean 'ctc-sp2'"):
        fetch_log("ctc-sp1", cache=tmp_path, base_url=archive.url)
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot be used as a cache"):
        fetch(archive, tmp_path / "file" / "cache")


def test_copy_to_a_file_or_a_directory(archive: Archive, tmp_path: Path) -> None:
    found = fetch(archive, tmp_path / "cache")
    assert copy_log(found, tmp_path) == tmp_path / "log.swf.gz"
    assert copy_log(found, tmp_path / "new.swf.gz").read_bytes() == CONTENT
    with pytest.raises(QopsError, match="cannot be written"):
        copy_log(found, tmp_path / "new.swf.gz" / "below")


def test_kth_checksum_is_that_of_the_real_log(shared: Path) -> None:
    content = (shared / "traces" / LOGS["kth-sp2"].file).read_bytes()
    assert hashlib.sha256(content).hexdigest() == LOGS["kth-sp2"].sha256
