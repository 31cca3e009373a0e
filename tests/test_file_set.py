"""Files that belong together: what a reader sees when their writer is killed, or cannot write."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from qops_batsim import InputError
from qops_batsim.file_set import FileSet, document_with_digests, run_files
from qops_batsim.files import (
    atomic_write,
    beside,
    check_writable,
    pending_directory,
    sweep,
    write_text,
)
from qops_batsim.measures import find_run


class Killed(BaseException):
    """What no program can catch, as far as a test can play that."""


def publish(prefix: Path, text: str, names: tuple[str, ...] = ("_jobs.csv", "_qos.csv")) -> None:
    """Write a run of which each file holds a text."""
    with run_files(prefix) as files:
        for name in names:
            with files.open(name) as stream:
                stream.write(f"{text}{name}\n".encode())
        files.publish(document_with_digests(files, {"workload": text}))


def contents(folder: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in folder.iterdir()}


def run_at(prefix: Path) -> str:
    """Return whose run is at a prefix as its readers see it: a workload, nothing, or mixed."""
    try:
        found = find_run(prefix)
    except InputError as error:
        said = str(error)
        return "none" if "no such run" in said else "mixed" if "interrupted" in said else said
    texts = [path.read_text() for path in (found.jobs, found.qos, found.decisions) if path]
    assert len({text.partition("_")[0] for text in texts}) == 1
    return texts[0].partition("_")[0]


def test_a_set_appears_with_its_digests_and_replaces_an_earlier_one(tmp_path: Path) -> None:
    prefix = tmp_path / "new" / "x"
    publish(prefix, "one", ("_jobs.csv", "_qos.csv", "_decisions.jsonl"))
    publish(prefix, "two")
    assert set(contents(prefix.parent)) == {"x_run.json", "x_jobs.csv", "x_qos.csv"}
    told = json.loads(Path(f"{prefix}_run.json").read_text())["files"]
    assert told == {
        name: sha256(f"two{name}\n".encode()).hexdigest() for name in ("_jobs.csv", "_qos.csv")
    }
    assert run_at(prefix) == "two"


# Every call by which writing touches the file system; what comes after the n-th never happens.
CALLS = ("open", "mkdir", "replace", "rename", "unlink", "rmdir", "fchmod")


def killed_at(moment: int, work: Callable[[], None]) -> bool:
    """Do work up to its n-th call that changes the file system; tell whether there was one."""
    left = moment
    with pytest.MonkeyPatch.context() as patch:
        for name in CALLS:
            original = getattr(os, name)

            def call(*given, original=original, **options):
                nonlocal left
                left -= 1
                if left < 0:
                    raise Killed
                return original(*given, **options)

            patch.setattr(os, name, call)
        try:
            work()
        except Killed:
            return True
    return False


@pytest.mark.parametrize("earlier", ["none", "one", "foreign"])
def test_wherever_a_writer_is_killed_readers_see_one_run_or_say_so(
    tmp_path: Path, earlier: str
) -> None:
    seen = []
    for moment in range(200):
        prefix = tmp_path / str(moment) / "x"
        if earlier == "one":
            publish(prefix, "one", ("_jobs.csv", "_qos.csv", "_decisions.jsonl"))
        if earlier == "foreign":
            write_text(f"{prefix}_jobs.csv", "foreign\n")
        if not killed_at(moment, lambda prefix=prefix: publish(prefix, "two")):
            break
        if earlier == "foreign" and not Path(f"{prefix}_run.json").exists():
            assert Path(f"{prefix}_jobs.csv").read_text() == "foreign\n"
            assert not Path(f"{prefix}_qos.csv").exists()
            continue
        seen.append(run_at(prefix))
        # The next run puts all in order.
        publish(prefix, "three")
        assert run_at(prefix) == "three"
        assert len(contents(prefix.parent)) == 3
    assert 10 < moment < 199
    first = earlier if earlier != "foreign" else "mixed"
    assert list(dict.fromkeys([first, *seen])) == [*dict.fromkeys([first, "mixed", "two"])]


def test_a_set_without_a_lasting_record_never_looks_like_another(tmp_path: Path) -> None:
    def engine(prefix: Path) -> None:
        with run_files(prefix) as files:
            for name in ("_jobs.csv", "_schedule.csv"):
                with files.open(name) as stream:
                    stream.write(f"two{name}\n".encode())
            files.publish_alone()

    seen = []
    for moment in range(200):
        prefix = tmp_path / str(moment) / "x"
        publish(prefix, "one")
        if not killed_at(moment, lambda prefix=prefix: engine(prefix)):
            break
        seen.append(run_at(prefix))
        if seen[-1] == "two":
            assert Path(f"{prefix}_schedule.csv").read_text() == "two_schedule.csv\n"
            assert not Path(f"{prefix}_qos.csv").exists()
    assert list(dict.fromkeys(seen)) == ["one", "mixed", "two"]
    assert set(contents(prefix.parent)) == {"x_jobs.csv", "x_schedule.csv"}


def test_what_another_program_writes_meanwhile_is_left(tmp_path: Path) -> None:
    prefix = tmp_path / "x"
    publish(prefix, "one")
    with run_files(prefix) as files:
        with files.open("_jobs.csv") as stream:
            stream.write(b"engine")
        write_text(f"{prefix}_qos.csv", "of the scheduler that is asked")
        files.publish_alone()
    assert contents(tmp_path) == {
        "x_jobs.csv": "engine",
        "x_qos.csv": "of the scheduler that is asked",
    }


def test_an_error_leaves_the_earlier_set_and_nothing_else(tmp_path: Path) -> None:
    prefix = tmp_path / "x"
    publish(prefix, "one")
    before = contents(tmp_path)

    def fail(files: FileSet) -> None:
        with files.open("_jobs.csv") as stream:
            stream.write(b"two")
        with files.open("_qos.csv"):
            raise OSError(28, "No space left on device")

    with (
        pytest.raises(InputError, match=r"x_qos.csv: cannot be written \(No space"),
        run_files(prefix) as files,
    ):
        fail(files)
    assert contents(tmp_path) == before


def test_what_cannot_be_written_is_noticed_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "taken_qos.csv").mkdir()
    (tmp_path / "packed_jobs.csv.gz").touch()
    for prefix, message in (
        ("file/x", "cannot be written"),
        ("n" * 230, "cannot be written .File name too long"),
        ("n" * 250, "cannot be written .File name too long"),
        ("taken", "taken_qos.csv: is a directory"),
        ("packed", "packed_jobs.csv.gz: exists, and would stand next to"),
        ("a\0b", "is no name of a file"),
    ):
        with pytest.raises(InputError, match=message):
            run_files(tmp_path / prefix)
    with pytest.raises(InputError, match=r"at least 1,000,\S+ bytes are needed, and .* are free"):
        run_files(tmp_path / "new" / "x", room=10**18)

    def refuse(path: object, flags: int, mode: int = 0) -> int:
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(InputError, match="Read-only file system"):
        check_writable(tmp_path / "x")
    monkeypatch.undo()
    # Not even an empty directory is left.
    names = {"file", "taken_qos.csv", "packed_jobs.csv.gz"}
    assert {path.name for path in tmp_path.iterdir()} == names


def test_leftovers_are_swept_but_not_those_of_a_live_run(tmp_path: Path) -> None:
    prefix = tmp_path / "x"
    left = beside(Path(f"{prefix}_decisions.jsonl"))
    left.write_text("of a killed run")
    directory = beside(Path(f"{prefix}_batsim"))
    (directory / "deep").mkdir(parents=True)
    others = [tmp_path / ".x_jobs.csv.swp", tmp_path / ".x_jobs.csv.1a2b3c4d.part"]
    for other in others:
        other.write_text("of another program")
    with run_files(prefix) as live, pending_directory(f"{prefix}_batsim") as working:
        with live.open("_jobs.csv") as stream:
            stream.write(b"live")
        assert not left.exists()
        assert not directory.exists()
        publish(prefix, "two")
        assert working.is_dir()
        live.publish(document_with_digests(live, {"workload": "live"}))
    assert run_at(prefix) == "live"
    assert set(tmp_path.glob(".x_*")) == set(others)


def test_a_directory_swept_as_it_is_made_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Another writer's sweep comes between making the directory and locking it.
    made, make = [], Path.mkdir

    def mkdir(path: Path, *arguments: Any, **named: Any) -> None:
        make(path, *arguments, **named)
        if path.name.endswith(".part"):
            made.append(path)
            if len(made) == 1:
                sweep(path.parent)

    monkeypatch.setattr(Path, "mkdir", mkdir)
    with pending_directory(tmp_path / "x_batsim") as directory:
        assert directory.is_dir()
        assert [path.exists() for path in made] == [False, True]


def test_a_leftover_of_a_single_file_is_swept(tmp_path: Path) -> None:
    left = beside(tmp_path / "w.json")
    left.write_text("half")
    with atomic_write(tmp_path / "w.json") as first:
        first.write(b"first")
        assert not left.exists()
        sweep(tmp_path)
        write_text(tmp_path / "w.json", "second")
    assert contents(tmp_path) == {"w.json": "first"}


@pytest.mark.parametrize("mode", [0o600, 0o664, 0o640])
def test_a_file_keeps_its_rights(tmp_path: Path, mode: int) -> None:
    publish(tmp_path / "x", "one")
    path = tmp_path / "x_jobs.csv"
    path.chmod(mode)
    publish(tmp_path / "x", "two")
    assert stat.S_IMODE(path.stat().st_mode) == mode


def test_a_private_file_is_never_readable_by_others(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.touch(0o600)
    before = os.umask(0)
    try:
        with atomic_write(path) as stream:
            assert stat.S_IMODE(os.fstat(stream.fileno()).st_mode) == 0o600
            stream.write(b"secret")
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
