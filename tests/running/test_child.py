from __future__ import annotations

import os
import signal
import sys
import time

import pytest

from qops_batsim.running.processes import MAX_LINE, ChildProcess
from support.fake_batsim import is_running


def python(code):
    return [sys.executable, "-I", "-S", "-c", code]


def pids_of(lines, count):
    """Wait until a child has printed that many process ids."""
    until = time.monotonic() + 120
    while len(lines) < count:
        assert time.monotonic() < until
        time.sleep(0.01)
    return [int(line) for line in lines[:count]]


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("pass", 0),
        ("raise SystemExit(3)", 3),
        ("import os; os.abort()", 134),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", 137),
    ],
)
def test_exit_codes_are_those_of_a_shell(code, expected):
    with ChildProcess(python(code)) as child:
        assert child.wait(240) == expected
        assert child.exit_code() == expected
    assert child.exit_code() == expected


def test_a_running_child_has_no_exit_code_and_is_ended():
    with ChildProcess(python("import time; time.sleep(60)")) as child:
        assert child.wait(0.05) is None
    assert child.exit_code() == 128 + signal.SIGTERM
    assert not is_running(child.pid)


def test_a_stubborn_child_is_killed_after_the_grace_period():
    lines = []
    code = """
import os, signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print(os.getpid(), flush=True)
time.sleep(60)
"""
    with ChildProcess(python(code), lines.append, grace=0.1) as child:
        assert pids_of(lines, 1) == [child.pid]
    assert child.exit_code() == 128 + signal.SIGKILL


@pytest.mark.parametrize("ending", ["time.sleep(60)", "raise SystemExit(0)"])
def test_what_the_child_started_is_ended_too(ending):
    lines = []
    code = f"""
import subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
print(child.pid, flush=True)
{ending}
"""
    with ChildProcess(python(code), lines.append) as child:
        (grandchild,) = pids_of(lines, 1)
        assert is_running(grandchild)
        child.wait(0.2)
    until = time.monotonic() + 120
    while is_running(grandchild):
        assert time.monotonic() < until
        time.sleep(0.01)


def test_an_exception_ends_the_child():
    with pytest.raises(ZeroDivisionError), ChildProcess(python("input()")) as child:
        raise ZeroDivisionError
    assert not is_running(child.pid)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGHUP])
def test_neither_a_child_nor_what_it_started_survives_the_parent(number):
    lines = []
    child = """
import os, subprocess, sys, time
print(os.getpid(), flush=True)
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
print(child.pid, flush=True)
time.sleep(60)
"""
    code = f"""
import sys
sys.path[:0] = {sys.path!r}
from qops_batsim.running.processes import ChildProcess
ChildProcess([sys.executable, "-c", {child!r}], lambda line: print(line, flush=True)).wait(60)
"""
    with ChildProcess(python(code), lines.append) as parent:
        pids = pids_of(lines, 2)
        assert all(map(is_running, pids))
        os.kill(parent.pid, number)
        until = time.monotonic() + 120
        while any(map(is_running, pids)):
            assert time.monotonic() < until
            time.sleep(0.01)


def test_the_log_is_passed_on_line_by_line():
    lines = []
    code = r"""
import os, sys
os.write(1, b"first\n\n  \x1b[31mred\x1b[0m \xff\n" + b"x" * 200_000 + b"\n")
os.write(2, b"no newline")
"""
    with ChildProcess(python(code), lines.append) as child:
        assert child.wait(240) == 0
    assert lines[:2] == ["first", "   [31mred [0m �"]
    assert all(set(line) <= {"x", "…"} and len(line) <= MAX_LINE for line in lines[2:-1])
    assert lines[-1] == child.last_words() == "no newline"


def test_last_words_are_the_first_critical_line_if_any():
    code = r"""
print("[0.0] [batsim/INFO] loading")
print("[1.0] server.cpp:96: [root/CRITICAL] it went wrong")
print("[1.0] [root/CRITICAL] Current backtrace:")
print("  at main")
"""
    with ChildProcess(python(code)) as child:
        child.wait(60)
        assert child.last_words() == "[1.0] server.cpp:96: [root/CRITICAL] it went wrong"
    with ChildProcess(python("")) as silent:
        silent.wait(60)
        assert silent.last_words() == ""


def test_a_program_that_cannot_be_started(tmp_path):
    with ChildProcess([str(tmp_path / "nothing")]) as child:
        assert child.wait(240) == 1
        assert "No such file or directory" in child.last_words()
