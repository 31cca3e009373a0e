"""Schedulers of other people: from a file, from another package, whole and broken."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from importlib.metadata import EntryPoint
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest

from qops_batsim import InputError, simulate
from qops_batsim.errors import InterfaceError
from qops_batsim.protocol import make_scheduler
from qops_batsim.schedulers import registry, scheduler_class
from qops_batsim.schedulers.loading.plugins import frames_of_plugins, scheduler_of_data, short_name

Cli = Callable[..., Any]

SOURCE = '''
from typing import Annotated

import msgspec

import {helper}
from qops_batsim.schedulers.easy import Easy
from qops_batsim.core.options import SchedulerOptions


class Options(SchedulerOptions, frozen=True, kw_only=True):
    factor: Annotated[
        float, msgspec.Meta(ge=0, description="how much", extra={{"unit": "s"}})
    ] = 2.0


class Mine(Easy):
    """Does what EASY does."""

    summary = {helper}.SUMMARY
    Options = Options

    def schedule(self):
        if self.options.factor > 5:
            return {{}}["missing"]
        super().schedule()
'''


@pytest.fixture
def plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A scheduler in a file, with a module beside it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    helper = f"helper_{abs(hash(tmp_path))}"
    (tmp_path / f"{helper}.py").write_text("SUMMARY = 'one line'\n")
    path = tmp_path / "mine.py"
    path.write_text(SOURCE.format(helper=helper))
    return path


def test_a_class_of_a_file_is_a_scheduler(plugin: Path) -> None:
    kind = scheduler_class("mine.py:Mine")
    assert kind.summary == "one line"
    assert scheduler_class(f"{plugin}:Mine") is kind
    assert make_scheduler("mine.py:Mine", {"factor": "3"}).options.factor == 3.0  # type: ignore[attr-defined]
    with pytest.raises(InputError, match="option factor is -1"):
        make_scheduler("mine.py:Mine", {"factor": -1})


def test_a_changed_file_is_read_anew(plugin: Path) -> None:
    scheduler_class("mine.py:Mine")
    plugin.write_text(plugin.read_text().replace("    summary = ", "    summary = 'now ' + "))
    os.utime(plugin, ns=(1, 1))
    assert scheduler_class("mine.py:Mine").summary == "now one line"


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("mine.py:Mime", None, "a class of that file is expected; did you mean 'Mine'"),
        ("mine.py", None, r"a class of that file is expected \(known: Options, Mine\)"),
        ("none.py:Mine", None, "none.py cannot be read: No such file"),
        ("mine.py:Mine", "import no_such", r"cannot be loaded \(ModuleNotFoundError: No module"),
        ("mine.py:Mine", "def", r"cannot be loaded \(SyntaxError: "),
        ("mine.py:Mine", "Mine = 3", "mine.py:Mine is not a Scheduler"),
        ("mine.py:Mine", "class Mine: pass", "mine.py:Mine is not a Scheduler"),
        ("mine.txt:Mine", None, "unknown scheduler 'mine.txt:Mine'"),
        ("\0.py:Mine", None, "FILE.py:CLASS is expected"),
    ],
)
def test_what_is_no_scheduler_is_one_clear_error(
    plugin: Path, name: str, content: str | None, message: str
) -> None:
    if content is not None:
        plugin.write_text(content)
    with pytest.raises(InputError, match=message):
        scheduler_class(name)


def test_files_of_one_name_are_kept_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("a/own.py", "b/own.py"):
        Path(name).parent.mkdir()
        Path(name).touch()
    both = ["a/own.py", "b/own.py"]
    assert scheduler_of_data("b/own.py:Own", both) == "b/own.py:Own"
    assert scheduler_of_data("c/own.py:Own", both) == "a/own.py:Own"
    assert scheduler_of_data("easy", []) == "easy"
    for code in ([], ["a/other.py"], False):
        with pytest.raises(InputError, match="'b/own.py:Own' is a Python file named in the data"):
            scheduler_of_data("b/own.py:Own", code)


def test_names_for_files_and_tables() -> None:
    assert short_name("easy") == "easy"
    assert short_name("/a/b.py:Mine") == "Mine"


def test_a_plug_in_runs_and_is_described(plugin: Path, cli: Cli) -> None:
    result = cli("run", "mine.py:Mine", "-w", "tiny_8")
    assert result.exit_code == 0, result.err
    assert (plugin.parent / "out" / "Mine_jobs.csv").exists()
    described = cli("schedulers", "mine.py:Mine")
    assert "factor = 2.0 s   (float)" in described.out
    assert "Does what EASY does." in described.out


def test_an_error_of_a_plug_in_shows_its_own_frames(plugin: Path, cli: Cli) -> None:
    result = cli("run", "mine.py:Mine", "-w", "tiny_8", "--set", "factor=6", "-q")
    assert (result.exit_code, result.out) == (2, "")
    lines = result.err.splitlines()
    assert lines[0].endswith('mine.py", line 25, in schedule')
    assert lines[1].strip() == 'return {}["missing"]'
    assert lines[-1] == "qops-batsim: error: KeyError: 'missing'"
    assert len([line for line in lines if line.startswith("  File ")]) == 1
    assert not Path("out").exists()


def test_a_plug_in_that_cannot_be_loaded_shows_where(plugin: Path, cli: Cli) -> None:
    plugin.write_text("def make():\n    return 1 / 0\n\n\nmake()\n")
    result = cli("run", "mine.py:Mine", "-w", "tiny_8")
    assert result.exit_code == 2
    lines = result.err.splitlines()
    assert [line.rpartition(", ")[2] for line in lines if "File" in line] == [
        "in <module>",
        "in make",
    ]
    assert lines[-1].endswith("mine.py cannot be loaded (ZeroDivisionError: division by zero)")


def simulate_mine() -> None:
    simulate("mine.py:Mine", "tiny_8", settings={"factor": 6})


def test_an_error_in_another_process_shows_them_as_well(plugin: Path) -> None:
    scheduler_class("mine.py:Mine")
    with ProcessPoolExecutor(1, mp_context=get_context("fork")) as pool:
        there = pool.submit(simulate_mine)
        with pytest.raises(KeyError) as caught:
            there.result()
    (frame,) = frames_of_plugins(caught.value)
    assert "in schedule" in frame
    assert 'return {}["missing"]' in frame


def test_errors_of_ours_have_no_such_frames() -> None:
    with pytest.raises(InputError) as caught:
        make_scheduler("easy", {"x": 1})
    assert frames_of_plugins(caught.value) == []


@pytest.fixture
def broken(monkeypatch: pytest.MonkeyPatch) -> None:
    """Register a plug-in of another package that cannot be imported."""
    ours = registry._registered()
    entry = EntryPoint("broken", "no_such_package:Scheduler", registry.GROUP)
    monkeypatch.setattr(registry, "_registered", lambda: {**ours, "broken": entry})


@pytest.mark.usefixtures("broken")
def test_a_broken_plug_in_is_listed_with_its_reason(cli: Cli) -> None:
    result = cli("schedulers")
    assert result.exit_code == 0
    assert "BROKEN: scheduler 'broken': no_such_package:Scheduler cannot be loaded" in result.out
    assert "EASY backfilling" in result.out
    assert cli("run", "easy", "-w", "tiny_8", "-q").exit_code == 0
    refused = cli("run", "broken")
    assert refused.exit_code == 2
    assert "No module named 'no_such_package'" in refused.err


def test_an_override_that_nothing_calls_names_the_file(tmp_path: Path) -> None:
    path = tmp_path / "both.py"
    path.write_text(
        "from qops_batsim import Qops\n\n\nclass Both(Qops):\n"
        "    def key(self, job):\n        return job.duration\n\n"
        "    def try_points(self, line, new):\n        return True\n"
    )
    told = rf"scheduler '{re.escape(str(path))}:Both': Both\.try_points overrides Qops\.try_points"
    for _ in range(2):
        with pytest.raises(InterfaceError, match=told):
            scheduler_class(f"{path}:Both")
