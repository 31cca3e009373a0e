"""Worker processes and what ends them: signals to their parent, and to all of a terminal."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from support.fake_batsim import is_running

WORKERS = """
import os, sys, time
from qops_batsim.experiments.pool import run_cases


def work(case):
    os.write(1, b"%d\\n" % os.getpid())  # at once: two workers write
    time.sleep(60)


if __name__ == "__main__":
    run_cases(work, range(3), workers=2)
"""

COMPARE = """
import sys
from qops_batsim.cli.main import main

if __name__ == "__main__":
    sys.argv = ["qops-batsim", "compare", "own.py:Slow", "easy", "--first", "50",
                "--workers", "2", "--seeds", "2", "--loads", "1.2", "--out", "out"]
    main()
"""

SLOW = """
import os, time
from qops_batsim import Easy


class Slow(Easy):
    def begin(self, manager):
        os.write(1, b"%d\\n" % os.getpid())  # at once: two workers write
        time.sleep(60)
"""


def start(directory: Path, program: str) -> tuple[subprocess.Popen[str], list[int]]:
    """Start a program in a session of its own; return it with its two workers at work."""
    (directory / "program.py").write_text(program)
    (directory / "own.py").write_text(SLOW)
    process = subprocess.Popen(
        [sys.executable, "program.py"],
        cwd=directory,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert process.stdout is not None
    workers = {int(process.stdout.readline()), int(process.stdout.readline())}
    return process, sorted(workers - {process.pid})


def children_of(pid: int) -> list[int]:
    """Return the processes that a process has started and that still run (Linux)."""
    return [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def wait_until_gone(pids: list[int]) -> None:
    until = time.monotonic() + 240
    while any(map(is_running, pids)):
        assert time.monotonic() < until, pids
        time.sleep(0.01)


@pytest.mark.skipif(sys.platform != "linux", reason="lists processes in /proc")
def test_no_worker_outlives_a_killed_parent(tmp_path: Path) -> None:
    process, workers = start(tmp_path, WORKERS)
    try:
        everything = children_of(process.pid)  # Also what looks after shared resources.
        assert set(workers) < set(everything)
        process.kill()
        process.communicate(timeout=120)
        wait_until_gone(everything)
    finally:
        os.killpg(process.pid, signal.SIGKILL) if process.poll() is None else None


@pytest.mark.parametrize(
    ("number", "code", "said", "to_all"),
    [
        (signal.SIGTERM, 143, "terminated", False),
        (signal.SIGINT, 130, "interrupted", True),  # as from a terminal
        (signal.SIGHUP, 129, "hung up", True),
    ],
)
def test_a_command_with_workers_ends_in_one_line(
    tmp_path: Path, number: int, code: int, said: str, to_all: bool
) -> None:
    process, workers = start(tmp_path, COMPARE)
    try:
        (os.killpg if to_all else os.kill)(process.pid, number)
        _, err = process.communicate(timeout=120)
    finally:
        os.killpg(process.pid, signal.SIGKILL) if process.poll() is None else None
    lines = [line for line in err.splitlines() if not line.startswith("compiling")]
    assert (process.returncode, lines) == (code, [f"qops-batsim: error: {said}"])
    wait_until_gone(workers)
    # Which runs are wanted is known; the next call makes them.
    assert [each.name for each in (tmp_path / "out").iterdir()] == ["study.json"]


def test_a_worker_that_is_killed_is_one_error(tmp_path: Path) -> None:
    process, workers = start(tmp_path, COMPARE)
    try:
        os.kill(workers[0], signal.SIGKILL)
        _, err = process.communicate(timeout=120)
    finally:
        os.killpg(process.pid, signal.SIGKILL) if process.poll() is None else None
    assert process.returncode == 2
    assert "error: a worker process was killed in the midst of its work" in err
    assert "Traceback" not in err
    wait_until_gone(workers)
