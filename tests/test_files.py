import bz2
import gzip
import hashlib
import lzma
import os
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest

from qops_batsim import InputError
from qops_batsim.file_set import FileSet
from qops_batsim.files import atomic_write, read_bytes, read_stored, read_text, write_text

TEXT = "".join(f"line {i}\n" for i in range(500))


def refusal(path: Path, **options: int) -> str:
    """Return the one line with which a file is refused."""
    with pytest.raises(InputError) as caught:
        read_text(path, what="a workload", **options)
    message = str(caught.value)
    assert message.startswith(str(path))
    assert "\n" not in message
    return message.removeprefix(f"{path}: ")


@pytest.mark.parametrize("name", ["plain.json", "named.gz"])
def test_plain_text_is_read_whatever_the_name(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text(TEXT)
    assert read_text(tmp_path / name, what="a text") == TEXT
    assert read_bytes(str(tmp_path / name), what="a text") == TEXT.encode()


def test_a_small_file_is_read_into_little_memory(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(TEXT)
    tracemalloc.start()
    try:
        assert read_text(tmp_path / "a.json", what="a text") == TEXT
        assert tracemalloc.get_traced_memory()[1] < 100e6
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("name", ["plain.json", "named.gz"])
def test_gzip_is_recognised_by_content(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(gzip.compress(TEXT.encode()))
    assert read_text(tmp_path / name, what="a text") == TEXT


def test_several_gzip_members_are_one_text(tmp_path: Path) -> None:
    (tmp_path / "a.gz").write_bytes(gzip.compress(b"one ") + gzip.compress(b"two"))
    assert read_text(tmp_path / "a.gz", what="a text") == "one two"


def test_a_byte_order_mark_is_dropped_and_an_empty_file_is_empty(tmp_path: Path) -> None:
    (tmp_path / "bom").write_bytes(b"\xef\xbb\xbftext")
    (tmp_path / "empty").write_bytes(b"")
    assert read_text(tmp_path / "bom", what="a text") == "text"
    assert read_text(tmp_path / "empty", what="a text") == ""


@pytest.mark.parametrize("content", [b"", b"t", b"text", gzip.compress(b"text", mtime=0)])
def test_a_pipe_is_read_once_with_its_digest(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "file").write_bytes(content)
    reader, writer = os.pipe()
    os.write(writer, content)
    os.close(writer)
    try:
        found = read_stored(f"/dev/fd/{reader}", what="a text")
    finally:
        os.close(reader)
    assert found.content == (b"text" if len(content) > 4 else content)
    assert found.sha256 == hashlib.sha256(content).hexdigest()
    assert read_stored(tmp_path / "file", what="a text") == found


@pytest.mark.parametrize("kept", [2, 5, 10, 100, -8, -1])
def test_truncated_gzip(tmp_path: Path, kept: int) -> None:
    (tmp_path / "a.gz").write_bytes(gzip.compress(TEXT.encode())[:kept])
    assert refusal(tmp_path / "a.gz") == "truncated gzip file; a workload was expected"


@pytest.mark.parametrize(("pack", "name"), [(lzma.compress, "xz"), (bz2.compress, "bzip2")])
def test_other_compressions_are_named(
    tmp_path: Path, pack: Callable[[bytes], bytes], name: str
) -> None:
    (tmp_path / "a.gz").write_bytes(pack(b"text"))
    expected = f"is compressed with {name}; a workload is expected plain or gzip-compressed"
    assert refusal(tmp_path / "a.gz") == expected


@pytest.mark.parametrize("position", [2, 40, -6, -2])
def test_corrupt_gzip(tmp_path: Path, position: int) -> None:
    content = bytearray(gzip.compress(TEXT.encode()))
    content[position] ^= 0xFF
    (tmp_path / "a.gz").write_bytes(content)
    assert refusal(tmp_path / "a.gz").startswith("damaged gzip file (")


def test_rubbish_after_gzip(tmp_path: Path) -> None:
    (tmp_path / "a.gz").write_bytes(gzip.compress(b"text") + b"rubbish")
    assert refusal(tmp_path / "a.gz").startswith("damaged gzip file (")


@pytest.mark.parametrize("content", [b"x" * 101, gzip.compress(b"x" * 101, mtime=0)])
def test_the_bound_counts_bytes_after_decompression(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a").write_bytes(content)
    assert len(read_bytes(tmp_path / "a", what="a workload", max_bytes=101)) == 101
    message = refusal(tmp_path / "a", max_bytes=100)
    assert message == "larger than 100 bytes, the most accepted for a workload"


def test_a_gzip_bomb_is_not_unpacked(tmp_path: Path) -> None:
    with gzip.open(tmp_path / "bomb.gz", "wb", compresslevel=1) as stream:
        for _ in range(64):
            stream.write(bytes(1 << 20))
    tracemalloc.start()
    try:
        message = refusal(tmp_path / "bomb.gz", max_bytes=1000)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert message.startswith("larger than 1000 bytes")
    assert peak < 4 << 20


def test_what_is_compressed_out_of_all_proportion_is_refused(tmp_path: Path) -> None:
    with gzip.open(tmp_path / "bomb.gz", "wb", compresslevel=9) as stream:
        for _ in range(100):
            stream.write(b"\n" * (1 << 20))
    message = refusal(tmp_path / "bomb.gz")
    assert "compressed bytes hold more than 16 times as much; a workload was" in message


def test_missing_file_directory_and_path_below_a_file(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert refusal(tmp_path / "none") == "no such file (a workload was expected)"
    assert refusal(tmp_path) == "is a directory (a workload was expected)"
    assert refusal(tmp_path / "file" / "x") == "cannot be read (Not a directory)"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_unreadable_file(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "file").chmod(0)
    assert refusal(tmp_path / "file") == "cannot be read (Permission denied)"


def test_a_name_that_no_file_can_have() -> None:
    with pytest.raises(InputError, match=r"'a\\x00b' is no name of a file"):
        read_bytes("a\0b", what="a text")
    with pytest.raises(InputError, match=r"'a\\x00b' is no name of a file"):
        write_text("a\0b", "text")
    with pytest.raises(InputError, match="cannot be read"):
        read_bytes("a" * 5000, what="a text")


def test_text_that_is_not_utf8_names_the_byte(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"abc\xe9d")
    expected = "not UTF-8 text (byte 3 is 0xe9); a workload was expected"
    assert refusal(tmp_path / "a") == expected


def test_writing_makes_directories_and_replaces(tmp_path: Path) -> None:
    path = tmp_path / "new" / "deep" / "a.txt"
    write_text(path, "öne\n")
    write_text(path, "two\n")
    assert path.read_bytes() == b"two\n"
    assert [each.name for each in path.parent.iterdir()] == ["a.txt"]


def test_a_written_file_has_the_rights_of_the_umask(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        write_text(tmp_path / "a", "text")
    finally:
        os.umask(before)
    assert (tmp_path / "a").stat().st_mode & 0o777 == 0o640


def write_half(path: Path, error: BaseException) -> None:
    with atomic_write(path) as stream:
        stream.write(b"half")
        raise error


@pytest.mark.parametrize("error", [ValueError(), KeyboardInterrupt()])
def test_nothing_is_left_when_the_block_raises(tmp_path: Path, error: BaseException) -> None:
    (tmp_path / "old").write_text("old")
    for name in ("old", "new"):
        with pytest.raises(type(error)):
            write_half(tmp_path / name, error)
    assert [each.name for each in tmp_path.iterdir()] == ["old"]
    assert (tmp_path / "old").read_text() == "old"


def test_a_full_disk_is_an_input_error_and_leaves_nothing(tmp_path: Path) -> None:
    full = OSError(28, "No space left on device")
    with pytest.raises(InputError, match=r"a: cannot be written \(No space left on device\)"):
        write_half(tmp_path / "a", full)
    assert not list(tmp_path.iterdir())


def test_targets_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("kept")
    with pytest.raises(InputError, match=r"file/a: cannot be written \("):
        write_text(tmp_path / "file" / "a", "text")
    with pytest.raises(InputError, match="is a directory; the name of a file"):
        write_text(tmp_path, "text")
    with pytest.raises(InputError, match="cannot be written"):
        write_text(tmp_path / ("a" * 300), "text")
    assert [each.name for each in tmp_path.iterdir()] == ["file"]
    assert (tmp_path / "file").read_text() == "kept"


def test_devices_and_pipes_are_not_replaced_by_a_file(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    (tmp_path / "link").symlink_to(pipe)
    for name in ("pipe", "link"):
        with pytest.raises(InputError, match="is a device or a pipe; a file"):
            write_text(tmp_path / name, "text")
    assert pipe.is_fifo()


def test_a_symbolic_link_stays_and_its_file_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "data" / "a")
    write_text(tmp_path / "link", "one")
    write_text(tmp_path / "link", "two")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "data" / "a").read_text() == "two"
    assert len(list((tmp_path / "data").iterdir())) == 1


@pytest.mark.parametrize("mode", [0o777, 0o1777, 0o1773])
def test_no_symbolic_link_is_followed_where_others_can_write(tmp_path: Path, mode: int) -> None:
    victim, shared = tmp_path / "victim", tmp_path / "shared"
    for directory in (victim, shared):
        directory.mkdir()
    (victim / "file").write_text("kept")
    (shared / "link").symlink_to(victim / "file")
    (shared / "folder").symlink_to("../victim")
    (tmp_path / "mine").symlink_to(shared / "folder" / ".." / "victim")
    shared.chmod(mode)
    said = "is a symbolic link in a directory that others can write, and is not followed"
    for name in ("shared/link", "shared/folder/file", "shared/folder/new", "mine/file"):
        with pytest.raises(InputError, match=f"{name}: .*{said}"):
            write_text(tmp_path / name, "text")
    with pytest.raises(InputError, match=said):
        FileSet(shared / "li", "nk", ["a"])
    assert (victim / "file").read_text() == "kept"
    assert [each.name for each in victim.iterdir()] == ["file"]
    write_text(shared / "new" / ".." / "file", "text")
    assert (shared / "file").read_text() == "text"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_of_links_in_a_shared_directory_only_ones_own_are_followed(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).symlink_to(f"to-{name}")
    os.lchown(tmp_path / "b", 12345, -1)
    tmp_path.chmod(0o775)
    write_text(tmp_path / "a", "text")
    with pytest.raises(InputError, match="b is a symbolic link in a directory that others can"):
        write_text(tmp_path / "b", "text")
    tmp_path.chmod(0o755)
    write_text(tmp_path / "b", "text")
    assert (tmp_path / "to-b").read_text() == "text"


def test_symbolic_links_in_a_circle_raise_no_other_error(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to(tmp_path / "b")
    (tmp_path / "b").symlink_to(tmp_path / "a")
    with pytest.raises(InputError):
        read_bytes(tmp_path / "a", what="a text")
    with pytest.raises(InputError):
        write_text(tmp_path / "a", "text")


def test_gz_is_compressed_and_the_same_every_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_text(tmp_path / "a.json.gz", TEXT)
    monkeypatch.setattr("time.time", lambda: 1e9)
    write_text(tmp_path / "other.json.gz", TEXT)
    content = (tmp_path / "a.json.gz").read_bytes()
    assert content == (tmp_path / "other.json.gz").read_bytes()
    assert len(content) < len(TEXT)
    assert read_text(tmp_path / "a.json.gz", what="a text") == TEXT
