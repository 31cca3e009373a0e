"""Files of two runs beside each other are told from those of one."""

from __future__ import annotations

import gzip
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from qops_batsim import InputError, read_run, run
from qops_batsim.measures import find_run

Files = dict[str, bytes]


def kept(folder: Path) -> Files:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def restore(folder: Path, files: Files) -> None:
    for path in folder.iterdir():
        path.unlink()
    for name, content in files.items():
        (folder / name).write_bytes(content)


@pytest.fixture(scope="module")
def two_runs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Files, Files]:
    """Return the files of two runs at the same prefix: the second has no decision log."""
    folder = tmp_path_factory.mktemp("runs")
    run("qops", "tiny_8", out=folder / "x")
    first = kept(folder)
    run("easy", "tiny_8", out=folder / "x")
    return first, kept(folder)


def test_each_of_two_runs_is_whole(two_runs: tuple[Files, Files], tmp_path: Path) -> None:
    for files in two_runs:
        restore(tmp_path, files)
        assert find_run(tmp_path / "x").info is not None
        assert len(read_run(tmp_path / "x").ids) == 8


def test_one_file_of_another_run_is_noticed(two_runs: tuple[Files, Files], tmp_path: Path) -> None:
    first, second = two_runs
    assert set(first) - set(second) == {"x_decisions.jsonl"}
    for one, other in ((first, second), (second, first)):
        for name in first:
            files = {**one, name: other.get(name, b"")}
            if name not in other:
                del files[name]
            if files == one:
                continue
            restore(tmp_path, files)
            with pytest.raises(
                InputError, match="x_run.json describes( it)?: the run was interrupted"
            ):
                find_run(tmp_path / "x")


def test_a_file_that_is_missing_or_not_of_the_run_is_noticed(
    two_runs: tuple[Files, Files], tmp_path: Path
) -> None:
    first, second = two_runs
    for name in second:
        restore(tmp_path, {key: value for key, value in second.items() if key != name})
        if name == "x_run.json":
            # As the real Batsim leaves its files.
            assert find_run(tmp_path / "x").info is None
            continue
        with pytest.raises(InputError, match=f"{name}: missing, though .*x_run.json describes"):
            find_run(tmp_path / "x")
    restore(tmp_path, {**second, "x_decisions.jsonl": first["x_decisions.jsonl"]})
    with pytest.raises(InputError, match="x_decisions.jsonl: is not the file that"):
        find_run(tmp_path / "x")


def test_compressed_files_are_those_of_the_run(
    two_runs: tuple[Files, Files], tmp_path: Path
) -> None:
    restore(tmp_path, {f"{name}.gz": gzip.compress(data) for name, data in two_runs[0].items()})
    assert len(read_run(tmp_path / "x").ids) == 8


def test_a_run_that_is_replaced_while_it_is_read_is_noticed(
    two_runs: tuple[Files, Files], tmp_path: Path
) -> None:
    restore(tmp_path, two_runs[0])
    found = find_run(tmp_path / "x")
    found.check_unchanged()
    restore(tmp_path, two_runs[1])
    with pytest.raises(InputError, match="x_run.json: another run replaced this file"):
        found.check_unchanged()


def test_a_run_is_its_own_at_each_moment_of_filling_it(
    two_runs: tuple[Files, Files], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    restore(tmp_path, two_runs[0])
    replace: Callable[..., Any] = os.replace

    def look(source: object, target: object) -> None:
        find_run(tmp_path / "x")
        replace(source, target)
        find_run(tmp_path / "x")

    monkeypatch.setattr(os, "replace", look)
    for text in ("filled once\n", "filled twice\n"):
        found = find_run(tmp_path / "x")
        assert found.qos is not None
        found.replace("_qos.csv", found.qos, text)
        assert found.qos.read_text() == text


def test_equal_runs_have_one_identifier_and_others_have_not(tmp_path: Path) -> None:
    runs = [run(name, "tiny_8", out=tmp_path / str(n)) for n, name in enumerate(["qops"] * 2)]
    runs.append(run("qops", "tiny_8", settings={"k_factor": 1}, out=tmp_path / "2"))
    infos = [find_run(each).info for each in runs]
    ids = [info.run_id for info in infos if info is not None]
    assert ids[0] == ids[1] != ids[2]
    assert ids[0] in (tmp_path / "0_decisions.jsonl").read_text().partition("\n")[0]
