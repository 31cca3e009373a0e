"""What commands print beside their results."""

from __future__ import annotations

import io
import time
from contextlib import redirect_stderr
from pathlib import Path

import numpy as np
import pytest

from qops_batsim.cli.console import (
    announce_compiling,
    note,
    print_table,
    progress_bar,
    say,
)
from qops_batsim.kernels import lean_kernel, store


class Terminal(io.StringIO):
    """Takes what a terminal would show."""

    def isatty(self) -> bool:
        return True


def test_a_bar_shows_what_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    with redirect_stderr(Terminal()) as terminal, progress_bar(9, "jobs", after=0) as bar:
        assert bar is not None
        while not terminal.getvalue():
            time.sleep(0.01)
        bar(4)
        bar.say("compiling")
        while "jobs: compiling" not in terminal.getvalue():
            time.sleep(0.01)
    assert "4/9" in terminal.getvalue()


def test_names_are_shown_and_not_obeyed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    name = "\x1b[31m[red]x[/y] :x:\x9b\r\u2028"
    say(f"two {name}\nlines")
    note(name)
    print_table(name, ["a"], [[name]])
    told = capsys.readouterr()
    shown = r"\x1b[31m[red]x[/y] :x:\x9b\r\u2028"
    assert told.out.startswith(f"two {shown}\nlines\n{shown}\na")
    assert told.out.splitlines()[-1] == shown
    assert told.err == f"{shown}\n"
    monkeypatch.setenv("TERM", "xterm")
    with redirect_stderr(Terminal()) as terminal, progress_bar(9, "[/x]", after=0):
        while not terminal.getvalue():
            time.sleep(0.01)
    assert "[/x]" in terminal.getvalue()


def test_a_table_is_folded_and_no_cell_is_cut(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    heads = ["scheduler", "jobs", "proc-s (hours)", "what it does all day"]
    rows = [["easy", "202,876", "40,237,179.25", "it starts what fits"]]
    rows += [["mine", "-", "1,729.93 [1.00, 2.00]", ""]]
    print_table("A title", heads, rows)
    assert (
        capsys.readouterr().out
        == """\
A title
scheduler │    jobs
──────────┼────────
easy      │ 202,876
mine      │       -

scheduler │        proc-s (hours)
──────────┼──────────────────────
easy      │         40,237,179.25
mine      │ 1,729.93 [1.00, 2.00]

scheduler │ what it does all day
──────────┼─────────────────────
easy      │ it starts what fits
mine      │
"""
    )


def test_there_is_no_bar_for_what_is_done_at_once() -> None:
    with redirect_stderr(Terminal()) as terminal, progress_bar(None, "reading", after=60) as bar:
        assert bar is not None
        bar(1)
    assert terminal.getvalue() == ""


def test_there_is_no_bar_where_there_is_no_terminal() -> None:
    with redirect_stderr(Terminal()), progress_bar(9, "jobs", quiet=True) as bar:
        assert bar is None
    with redirect_stderr(io.StringIO()), progress_bar(9, "jobs") as bar:
        assert bar is None


def test_compiling_is_announced_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def one(values: np.ndarray) -> int:
        return len(values)

    monkeypatch.setattr(store, "homes", lambda: (tmp_path,))
    compiled = lean_kernel(one)
    with announce_compiling():
        compiled(np.zeros(1))
        compiled(np.zeros((1, 1)))
    with announce_compiling():
        lean_kernel(one)(np.zeros(1))
    assert capsys.readouterr().err.count("compiling the scheduling kernels") == 1
