"""What commands print beside their results."""

from __future__ import annotations

import io
import time
from contextlib import redirect_stderr
from types import SimpleNamespace

import pytest

from qops_batsim.cli import console
from qops_batsim.cli.console import (
    command_line,
    note,
    print_answer,
    print_error,
    print_table,
    progress_bar,
    say,
)


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
    with redirect_stderr(io.StringIO()), progress_bar(None, "reading") as bar:
        assert bar is None


def test_lines_now_and_then_where_there_is_no_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(console, "time", SimpleNamespace(monotonic=lambda: now[0]))
    with redirect_stderr(io.StringIO()) as log, progress_bar(9, "jobs") as bar:
        for done, seconds in ((1, 1.0), (2, 16.0), (3, 17.0), (9, 40.0)):
            now[0] = seconds
            bar(done)
    assert log.getvalue() == "jobs: 2 of 9\njobs: 9 of 9\n"


def test_long_lines_are_folded_at_blanks(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = f"{'word ' * 12}99.9 %\n  as it  is"
    for width, lines in ((None, 2), (60, 3)):
        if width:
            monkeypatch.setenv("COLUMNS", str(width))
        say(text)
        note(text)
        out, err = capsys.readouterr()
        assert out == err
        assert len(out.splitlines()) == lines
        assert out.endswith("99.9 %\n  as it  is\n")
    print_answer("w0!1: refused", [("asked for", "one\ntwo " + "more " * 12)])
    assert capsys.readouterr().out.splitlines()[2:] == [
        "asked for          one",
        f"{'':19}two more more more more more more more",
        f"{'':19}more more more more more",
    ]
    print_error(text)
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_the_command_of_an_anonymous_page_has_no_accounts(monkeypatch: pytest.MonkeyPatch) -> None:
    words = ["queue", "starts", "q.json", "--account", "bio 1", "--account=phy", "--qos", "normal"]
    monkeypatch.setattr("sys.argv", ["qops-batsim", *words])
    monkeypatch.setattr(console, "program", "qops-batsim")
    told = "qops-batsim queue starts q.json --account 'bio 1' --account=phy --qos normal"
    assert command_line() == told
    hidden = "qops-batsim queue starts q.json --account ... --account=... --qos normal"
    assert command_line(anonymous=True) == hidden
