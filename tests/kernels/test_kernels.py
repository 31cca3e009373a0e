"""Kernels: what they take and return, and where they are found again."""

from __future__ import annotations

import fcntl
import math
import os
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
import pytest

from qops_batsim import kernels
from qops_batsim.kernels import compiling, kernel, listening


class Pair(NamedTuple):
    """An array and a number."""

    values: Any
    factor: float


@kernel
def weighted(rows: Any, pair: Pair, negative: bool) -> tuple[float, int, bool]:
    """Add the products of a row's numbers; count those of all rows."""
    total = 0.0
    for index in range(rows.shape[1]):
        total += rows[1, index] * pair.values[index]
    if negative:
        total = -total
    return total * pair.factor, rows.size, total > 0


@kernel
def fill(values: Any, value: int) -> None:
    """Make all numbers the same."""
    for index in range(len(values)):
        values[index] = value


@kernel
def filled(values: Any, value: int) -> int:
    """Fill through another kernel, which gets a constant."""
    fill(values, 7)
    return int(values[0]) + value


@kernel
def divided(one: int, other: int) -> float:
    """Divide."""
    return one / other


@kernel
def type_told(value: int) -> Any:
    """Return a number of NumPy's, which a compiled kernel makes one of Python's."""
    return np.int64(value)


@kernel(allocates=True)
def doubled(values: Any) -> Any:
    """Make an array."""
    return values * 2


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty place for kernels."""
    monkeypatch.setattr(kernels, "homes", lambda: (tmp_path / "kernels",))
    kernels.directory.cache_clear()
    yield tmp_path / "kernels"
    kernels.directory.cache_clear()


@pytest.mark.usefixtures("only_compiled")
def test_numbers_arrays_and_tuples_come_and_go() -> None:
    rows = np.arange(6.0).reshape(2, 3)
    pair = Pair(np.array([1, 0, 2]), 0.5)
    assert weighted(rows, pair, False) == (6.5, 6, True)
    assert weighted(rows, pair, np.bool_(True)) == (-6.5, 6, False)
    assert weighted(rows[:, :], pair._replace(factor=1), False)[0] == 13.0
    values = np.zeros(3, np.int64)
    assert fill(values, np.int64(4)) is None
    assert values.tolist() == [4, 4, 4]
    assert filled(values, 1) == 8
    assert doubled(values).tolist() == [14, 14, 14]


@pytest.mark.usefixtures("only_compiled")
def test_what_no_kernel_takes_is_an_error() -> None:
    from numba import errors

    for wrong in ("abc", print):
        with pytest.raises(errors.TypingError):
            fill(wrong, 1)
    with pytest.raises(ZeroDivisionError):
        divided(1, 0)


def test_a_kernel_and_those_it_calls_run_as_python_at_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(kernels, "_interpreted_seconds", 0.0)
    values = np.zeros(2, np.int64)
    heard: list[str] = []
    with listening(heard.append):
        assert kernel(filled.python)(values, 1) == 8
        assert kernel(fill.python)([0, 0], 1) is None
    assert values.tolist() == [7, 7]
    assert heard == []
    assert kernels._interpreted_seconds > 0.0


def test_what_took_long_as_python_is_compiled(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def is_python(seconds: float) -> bool:
        kernels.directory.cache_clear()
        monkeypatch.setattr(kernels, "_interpreted_seconds", seconds)
        return type(kernel(type_told.python)(1)) is np.int64

    times = [0.0, kernels.LOADING, kernels.COMPILING]
    assert [is_python(each) for each in times] == [True, True, False]
    assert [is_python(each) for each in times] == [True, False, False], "to load it is shorter"


def test_what_is_compiled_with_few_others_is_compiled_sooner(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kernels, "MANY", 2)
    monkeypatch.setattr(kernels, "_interpreted_seconds", 0.6 * kernels.COMPILING)
    values, heard = np.zeros(2, np.int64), list[str]()
    with listening(heard.append):
        kernel(filled.python)(values, 1)
        assert heard == [], "it calls another one"
        kernel(fill.python)(values, 1)
    assert heard == ["fill"]


def test_what_takes_long_arrays_is_compiled(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "_interpreted_seconds", 0.0)
    monkeypatch.setattr(kernels, "MANY", 1)
    monkeypatch.setattr(kernels, "COMPILING", math.inf)
    short, long = np.zeros(10), np.zeros(int(kernels.LOADING / kernels.PER_ELEMENT) + 1)
    heard: list[str] = []
    with listening(heard.append):
        for most, told in ((math.inf, 0), (2 * kernels.LOADING, 0), (kernels.LOADING, 1)):
            monkeypatch.setattr(kernels, "COMPILING", most)
            for values in (short, long):
                kernel(weighted.python)(np.zeros((2, 1)), Pair(values, 1.0), False)
            assert len(heard) == told
    monkeypatch.setattr(kernels, "COMPILING", math.inf)
    kernels.directory.cache_clear()
    for values, is_loaded in ((short, False), (long, True)):
        call = kernel(weighted.python)
        call(np.zeros((2, 1)), Pair(values, 1.0), False)
        assert (call._dispatcher is not None) is is_loaded, "what is kept is sooner loaded"


def compiled(call: Any, *arguments: Any) -> list[str]:
    """Call a kernel as a new process would; return what had to be compiled."""
    kernels.directory.cache_clear()
    heard: list[str] = []
    with listening(heard.append), compiling():
        kernel(allocates=call.allocates)(call.python)(*arguments)
    return heard


def test_what_was_compiled_is_found_again(place: Path) -> None:
    values = np.zeros(2, np.int64)
    for call, arguments in ((filled, (values, 1)), (doubled, (values,))):
        assert compiled(call, *arguments) == [call.__name__]
        assert compiled(call, *arguments) == []
    assert compiled(filled, np.zeros(2), 1) == ["filled"], "other kinds of arguments"
    assert compiled(filled, values, 1) == []
    assert len(list(place.rglob("*.nbc"))) == 3


def test_compiling_is_told_before_it_begins_and_once(place: Path) -> None:
    def stop(name: str) -> None:
        heard.append(name)
        raise KeyboardInterrupt

    heard: list[str] = []
    compiled(filled, np.zeros(2, np.int64), 1)
    kernels.directory.cache_clear()
    other = kernel(filled.python)
    with compiling():
        for _ in range(2):
            with listening(stop), pytest.raises(KeyboardInterrupt):
                other(np.zeros(2), 1)
        assert heard == ["filled", "filled"], "files of other arguments are there"
        with listening(heard.append):
            other(np.zeros(2), 1)
            assert kernel(divided.python)(4, 2) == 2.0
    assert heard[2:] == ["filled", "divided"], "and not fill, which filled calls"


def test_a_link_of_ones_own_is_followed(place: Path) -> None:
    values = np.zeros(2, np.int64)
    (place.parent / "elsewhere").mkdir()
    place.symlink_to("elsewhere")
    assert compiled(filled, values, 1) == ["filled"]
    assert compiled(filled, values, 1) == []
    assert len(list((place.parent / "elsewhere").rglob("*.nbc"))) == 1


@pytest.mark.parametrize("kind", ["nbi", "nbc"])
@pytest.mark.parametrize("rest", [0, -1])
def test_a_damaged_file_counts_as_none(place: Path, kind: str, rest: int) -> None:
    values = np.zeros(2, np.int64)
    compiled(fill, values, 1)
    (path,) = place.rglob(f"*.{kind}")
    path.write_bytes(path.read_bytes()[:rest])
    assert compiled(fill, values, 1) == ["fill"]
    assert compiled(fill, values, 1) == []


def test_who_cannot_write_beside_the_package_writes_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    places = [tmp_path / "file" / "kernels", tmp_path / "own"]
    monkeypatch.setattr(kernels, "homes", lambda: tuple(places))
    values = np.zeros(2, np.int64)
    assert compiled(fill, values, 1) == ["fill"]
    assert compiled(fill, values, 1) == []
    assert list((tmp_path / "own").rglob("*fill*.nbc"))
    # What lies beside the package is found by who may only read it, with another place or without.
    places[:] = [tmp_path / "own", tmp_path / "third"]
    monkeypatch.setattr(kernels, "_may_write", lambda folder: "own" not in folder.parts)
    assert compiled(fill, values, 1) == []
    assert list((tmp_path / "third").rglob("*fill*.nbc"))
    del places[1]
    assert compiled(fill, values, 1) == []
    # Without any place, each process compiles for itself.
    places[:] = [tmp_path / "file"]
    assert compiled(fill, values, 1) == compiled(fill, values, 1) == ["fill"]


@pytest.mark.parametrize("mode", [0o777, 0o775, 0o1777, 0o755])
@pytest.mark.parametrize("depth", [0, 1, 2, 3, 4])
def test_what_others_may_have_put_there_is_not_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: int, depth: int
) -> None:
    home = tmp_path / "kernels"
    monkeypatch.setattr(kernels, "homes", lambda: (home,))
    kernels._warn_of_others.cache_clear()
    kernels.directory.cache_clear()
    module = fill.python.__module__
    folder = kernels.directory(module)
    assert folder is not None
    file = folder / "part" / "code.nbi"
    file.parent.mkdir()
    file.write_bytes(b"code")
    # The home, the environment's, the module's, numba's directory, and a file in it.
    place = (home, folder.parent, folder, file.parent, file)[depth]
    place.chmod(mode)
    if mode == 0o755:
        if os.geteuid() != 0:
            pytest.skip("only root gives files away")
        os.chown(place, 12345, -1)
    kernels.directory.cache_clear()
    if mode != 0o755 and depth < 3:
        # It is ours: its rights are mended, and what a module's directory held is gone.
        assert kernels.directory(module) == folder
        assert not place.stat().st_mode & 0o22
        assert file.exists() == (depth < 2)
    else:
        with pytest.warns(RuntimeWarning, match="others can write there, or have"):
            assert kernels.directory(module) is None


def test_a_home_in_a_directory_of_all_users_is_not_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared").chmod(0o777)
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "shared"))
    kernels._warn_of_others.cache_clear()
    kernels.directory.cache_clear()
    with pytest.warns(RuntimeWarning, match="others can write there"):
        assert kernels.directory(fill.python.__module__) is None
    (tmp_path / "shared").chmod(0o1777)
    kernels.directory.cache_clear()
    assert kernels.directory(fill.python.__module__) is not None


def test_the_umask_does_not_matter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "homes", lambda: (tmp_path / "kernels",))
    before = os.umask(0)
    try:
        values = np.zeros(2, np.int64)
        assert compiled(fill, values, 1) == ["fill"]
        assert compiled(fill, values, 1) == []
    finally:
        os.umask(before)


def test_what_cannot_be_written_is_compiled_all_the_same(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    values = np.zeros(2, np.int64)
    first = kernel(fill.python)
    with compiling():
        first(values, 3)
    folder = kernels.directory(fill.python.__module__)
    assert folder is not None
    shutil.rmtree(folder)
    folder.touch()
    first(np.zeros(2), 1.0)
    first(values, 4)
    assert values.tolist() == [4, 4]


def test_directories_of_sources_and_environments_that_are_gone_are_removed(place: Path) -> None:
    values = np.zeros(2, np.int64)
    old, young = place / "old", place / "young"
    for folder in (old, young):
        folder.mkdir(parents=True)
    os.utime(old, (0, 0))
    folder = kernels.directory(fill.python.__module__)
    assert folder is not None
    assert not old.exists()
    assert young.exists()
    older = folder.with_name(f"{fill.python.__module__}-0123")
    other = folder.with_name("another-0123")
    for each in (older, other):
        each.mkdir()
    folder.rmdir()
    compiled(fill, values, 1)
    assert not older.exists()
    assert other.exists()
    assert folder.exists()


def test_the_settings_of_numba_stay(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import numba

    monkeypatch.setattr(numba.config, "CACHE_DIR", "mine")
    compiled(fill, np.zeros(2, np.int64), 1)
    assert numba.config.CACHE_DIR == "mine"


def module_of(name: str, source: str, **names: Any) -> None:
    """Have a module with such a content."""
    module = ModuleType(name)
    sys.modules[name] = module
    vars(module).update(names)
    exec(textwrap.dedent(source), vars(module))


def test_a_digest_changes_with_all_that_is_used() -> None:
    def digest(step: int = 1, **names: Any) -> str:
        module_of("used", "def helper(a): return a + STEP", STEP=step)
        helper = kernel(sys.modules["used"].helper)
        module_of("user", "def f(a): return helper(a)", helper=helper, np=np, **names)
        return kernels._digest_of(*kernels._sources("user", set()))

    assert digest() == digest()
    table = np.arange(4)
    variants: list[dict[str, Any]] = [
        {},
        {"step": 2},
        {"ONE": 2},
        {"ONE": 1.0},
        {"TABLE": table},
        {"TABLE": table + 1},
        {"TABLE": table.astype(float)},
        {"Pair": Pair},
    ]
    assert len({digest(**each) for each in variants}) == len(variants)


def test_a_digest_does_not_change_with_what_a_module_imports_beside_kernels() -> None:
    def digest(size: int) -> str:
        module_of("qops_batsim.aside", "class Reader: pass\ndef read(): pass", SIZE=size)
        aside = vars(sys.modules["qops_batsim.aside"])
        module_of("user", "def f(a): return a", Reader=aside["Reader"], read=aside["read"])
        return kernels._digest_of(*kernels._sources("user", set()))

    try:
        assert digest(1) == digest(2)
    finally:
        del sys.modules["qops_batsim.aside"]


HELPER = """
from qops_batsim.kernels import kernel
STEP = 1

@kernel
def step(value: int) -> int:
    return value + STEP
"""
PROGRAM = """
from helper import step
from qops_batsim.kernels import compiling, kernel, listening

@kernel
def twice(value: int) -> int:
    return step(step(value))

heard = []
with listening(heard.append), compiling():
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
    files = [path for path in (tmp_path / "cache").rglob("*") if path.is_file()]
    kept = sorted(path.suffix for path in files if path.suffix != ".lock")
    assert kept == [".nbc", ".nbi"], "no part of one"
    assert start(tmp_path).communicate()[0] == "3 []\n"
    (tmp_path / "helper.py").write_text(HELPER.replace("STEP = 1", "STEP = 5"))
    assert start(tmp_path).communicate()[0] == "11 ['twice']\n"
    assert start(tmp_path).communicate()[0] == "11 []\n"
    assert not any(path.exists() for path in files), "what is stale is removed"


ALIVE = """
import sys
from qops_batsim import kernels, simulate
from qops_batsim.scheduling import profile
with kernels.compiling():
    results = [simulate(name, workload) for name, workload in {cases}]
modules = [each for each in sys.modules.values() if 'kernel' in each.__name__]
call = profile.trim
"""


TWINS = """
from qops_batsim.kernels import kernel

@kernel
def outer(value):
    return 2 * value
"""

AT_ONCE = """
import sys
sys.path.insert(0, {path!r})
from qops_batsim.kernels import compiling, listening
import twins
with compiling(), listening(print):
    assert twins.outer(3) == 6
"""


def test_processes_that_need_a_kernel_at_once_compile_it_once(tmp_path: Path) -> None:
    (tmp_path / "twins.py").write_text(TWINS)
    command = [sys.executable, "-c", AT_ONCE.format(path=str(tmp_path))]
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    started = [
        subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)
        for _ in range(3)
    ]
    told = [each.communicate()[0].split() for each in started]
    assert [each.returncode for each in started] == [0, 0, 0]
    assert sorted(told) == [[], [], ["outer"]]


def test_installations_of_the_same_source_share_what_they_compile(tmp_path: Path) -> None:
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    told = []
    for name in ("one", "other", "one", "other"):
        (tmp_path / name).mkdir(exist_ok=True)
        (tmp_path / name / "twins.py").write_text(TWINS)
        command = [sys.executable, "-c", AT_ONCE.format(path=str(tmp_path / name))]
        told.append(subprocess.check_output(command, env=environment, text=True).split())
    assert told == [["outer"], [], [], []]
    assert len([*(tmp_path / "cache").rglob("twins-*")]) == 1


@pytest.mark.parametrize("is_locked", [True, False])
def test_a_process_that_hangs_over_a_kernel_is_not_waited_for(
    place: Path, monkeypatch: pytest.MonkeyPatch, is_locked: bool
) -> None:
    monkeypatch.setattr(kernels, "WAITING", 0.1)
    folder = kernels.directory(divided.__module__)
    assert folder is not None
    with (folder / "divided.lock").open("wb") as other:
        if is_locked:
            fcntl.flock(other, fcntl.LOCK_EX)
        assert compiled(divided, 4, 2) == ["divided"]


@pytest.mark.sweep
def test_a_process_that_keeps_kernels_and_results_ends_well() -> None:
    cases = [("easy", "kth_sp2_1000"), ("fcfs", "tiny_8")]
    ended = subprocess.run(
        [sys.executable, "-c", ALIVE.format(cases=cases)],
        env={**os.environ, "PYTHONMALLOC": "malloc", "MALLOC_PERTURB_": "255"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ended.returncode, ended.stderr) == (0, "")
