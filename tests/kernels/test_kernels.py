"""Kernels: what they take and return, and where they are found again."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path
from types import FunctionType
from typing import Any, NamedTuple

import numpy as np
import pytest

from qops_batsim.kernels import Steady, interpreted, kernel, lean_kernel, listening, store
from qops_batsim.kernels.source import source_digest


class Pair(NamedTuple):
    """An array and a number."""

    values: Any
    factor: float


@lean_kernel
def weighted(rows: Any, pair: Pair, negative: bool) -> tuple[float, int, bool]:
    """Add the products of a row's numbers; count those of all rows."""
    total = 0.0
    for index in range(rows.shape[1]):
        total += rows[1, index] * pair.values[index]
    if negative:
        total = -total
    return total * pair.factor, rows.size, total > 0


@lean_kernel
def fill(values: Any, value: int) -> None:
    """Make all numbers the same."""
    for index in range(len(values)):
        values[index] = value


@lean_kernel
def filled(values: Any, value: int) -> int:
    """Fill through another kernel, which gets a constant."""
    fill(values, 7)
    return int(values[0]) + value


@kernel
def doubled(values: Any) -> Any:
    """Make an array."""
    return values * 2


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty place for kernels."""
    monkeypatch.setattr(store, "homes", lambda: (tmp_path / "kernels",))
    return tmp_path / "kernels"


def test_numbers_arrays_and_tuples_come_and_go() -> None:
    rows = np.arange(6.0).reshape(2, 3)
    pair = Pair(np.array([1, 0, 2]), 0.5)
    for call in (weighted, Steady(weighted)):
        assert call(rows, pair, False) == (6.5, 6, True)
        assert call(rows, pair, np.bool_(True)) == (-6.5, 6, False)
        assert call(rows[:, :], pair._replace(factor=1), False)[0] == 13.0
    values = np.zeros(3, np.int64)
    assert fill(values, np.int64(4)) is None
    assert values.tolist() == [4, 4, 4]
    assert filled(values, 1) == 8
    assert doubled(values).tolist() == [14, 14, 14]


def test_what_no_kernel_takes_is_an_error() -> None:
    with pytest.raises(TypeError, match="contiguous"):
        fill(np.zeros(6)[::2], 1)
    with pytest.raises(TypeError, match="a kernel takes numbers"):
        fill("abc", 1)
    steady = Steady(fill)
    steady(np.zeros(2, np.int64), 1)
    with pytest.raises(TypeError):
        steady(np.zeros(2, np.int64), "one")


def test_a_kernel_and_those_it_calls_run_as_python() -> None:
    values = np.zeros(2, np.int64)
    heard: list[str] = []
    with listening(heard.append):
        assert interpreted(filled)(values, 1) == 8
        assert interpreted(fill)([0, 0], 1) is None
    assert values.tolist() == [7, 7]
    assert heard == []
    assert interpreted(len) is len


def test_what_cannot_be_kept_is_left_to_numba(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from qops_batsim.kernels import compiling

    def fails(*_: Any) -> bytes:
        raise AttributeError("numba has no attribute 'cgutils'")

    monkeypatch.setattr(compiling, "machine_code_of", fails)
    values = np.zeros(2, np.int64)
    for call in (lean_kernel(filled.python), Steady(lean_kernel(filled.python))):
        with pytest.warns(RuntimeWarning, match="numba .* is not supported .*cgutils.*anew"):
            assert call(values, 1) == 8
        assert call(values, 2) == 9
    rows, pair = np.arange(6.0).reshape(2, 3), Pair(np.array([1, 0, 2]), 0.5)
    with pytest.warns(RuntimeWarning):
        assert lean_kernel(weighted.python)(rows, pair, False) == (6.5, 6, True)
    assert list(place.glob("*/*.o")) == []


def compiled(call: Any, *arguments: Any) -> list[str]:
    """Call a kernel as a new process would; return what had to be compiled."""
    heard: list[str] = []
    with listening(heard.append):
        (kernel if call is doubled else lean_kernel)(call.python)(*arguments)
    return heard


def test_what_was_compiled_is_found_again(place: Path) -> None:
    values = np.zeros(2, np.int64)
    for call, arguments in ((filled, (values, 1)), (doubled, (values,))):
        assert compiled(call, *arguments) == [call.__name__]
        assert compiled(call, *arguments) == []
    assert compiled(filled, np.zeros(2), 1) == ["filled"], "other kinds of arguments"
    assert compiled(filled, values, 1) == []
    names = [path.name for path in place.glob("*/*")]
    assert len(names) == 3
    assert all(name.endswith((".o", ".numba")) for name in names)


def test_a_damaged_file_counts_as_none(place: Path) -> None:
    values = np.zeros(2, np.int64)
    compiled(fill, values, 1)
    (path,) = place.glob("*/*")
    path.write_bytes(path.read_bytes()[:-1])
    assert compiled(fill, values, 1) == ["fill"]
    assert compiled(fill, values, 1) == []


def test_who_cannot_write_beside_the_package_writes_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    places = [tmp_path / "file" / "kernels", tmp_path / "own"]
    monkeypatch.setattr(store, "homes", lambda: tuple(places))
    values = np.zeros(2, np.int64)
    assert compiled(fill, values, 1) == ["fill"]
    assert compiled(fill, values, 1) == []
    assert list((tmp_path / "own").glob("*/*fill*"))
    # What lies beside the package is found by who may only read it.
    places.insert(0, tmp_path / "own")
    del places[2]
    assert compiled(fill, values, 1) == []
    # Without any place, each process compiles for itself.
    places[:] = [tmp_path / "file"]
    assert compiled(fill, values, 1) == compiled(fill, values, 1) == ["fill"]


def test_files_of_sources_and_environments_that_are_gone_are_removed(place: Path) -> None:
    old, young = place / "old", place / "young"
    for folder in (old, young):
        folder.mkdir(parents=True)
        (folder / "a-b-c.o").touch()
    os.utime(old, (0, 0))
    store.write("a-types-source.o", b"1")
    store.write("a-other-source.o", b"2")
    store.write("a-types-changed.o", b"3")
    assert not old.exists()
    assert young.exists()
    assert store.read("a-types-source.o") is None
    assert store.read("a-other-source.o") == b"2"
    assert store.read("a-types-changed.o") == b"3"


def function_of(source: str, **names: Any) -> FunctionType:
    """Return the function that a source defines."""
    exec(textwrap.dedent(source), names)
    found: FunctionType = names["f"]
    return found


def test_a_digest_changes_with_all_that_is_used_and_nothing_else() -> None:
    source = 'def f(a):\n    "Say."\n    return a + ONE + np.pi + helper(a)'
    names = {"ONE": 1, "np": np, "helper": fill}
    first = source_digest(function_of(source, **names))
    told = (
        "def f(a: int) -> int:\n    'Say more.'\n    # Why.\n    return a + ONE + np.pi + helper(a)"
    )
    assert source_digest(function_of(told, **names, unused=2)) == first
    others = [
        function_of(source.replace("a +", "a -"), **names),
        function_of(source, **{**names, "ONE": 2}),
        function_of(source, **{**names, "ONE": 1.0}),
        function_of(source.replace("np.pi", "np.e"), **names),
        function_of(source, **{**names, "helper": filled}),
    ]
    assert len({first, *map(source_digest, others)}) == 6
    with pytest.raises(TypeError, match="a kernel uses"):
        source_digest(function_of(source, **{**names, "ONE": [1]}))


HELPER = """
from qops_batsim.kernels import lean_kernel
STEP = 1

@lean_kernel
def step(value: int) -> int:
    return value + STEP
"""
PROGRAM = """
from helper import step
from qops_batsim.kernels import lean_kernel, listening

@lean_kernel
def twice(value: int) -> int:
    return step(step(value))

heard = []
with listening(heard.append):
    print(twice(1), heard)
"""


def start(folder: Path) -> subprocess.Popen[str]:
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(folder / "cache")}
    command = [sys.executable, "program.py"]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, cwd=folder, env=environment, stdout=pipe, text=True)


def test_kernels_of_other_processes_and_of_changed_files(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    (tmp_path / "helper.py").write_text(HELPER)
    together = [start(tmp_path) for _ in range(4)]
    told = [process.communicate()[0] for process in together]
    assert all(each.startswith("3 ") for each in told)
    (path,) = (tmp_path / "cache").glob("*/*/*")
    assert path.suffix == ".o", "one file, and no part of one"
    assert start(tmp_path).communicate()[0] == "3 []\n"
    (tmp_path / "helper.py").write_text(HELPER.replace("STEP = 1", "STEP = 5"))
    assert start(tmp_path).communicate()[0] == "11 ['twice']\n"
    assert start(tmp_path).communicate()[0] == "11 []\n"
    (other,) = (tmp_path / "cache").glob("*/*/*")
    assert other != path
