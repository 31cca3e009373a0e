"""What a run tells whoever watches it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from qops_batsim.running.progress import ProgressListener
from qops_batsim.running.run import run

MAIN = [sys.executable, "-c", "from qops_batsim.cli.main import main; main()"]


class Heard(ProgressListener):
    """Notes everything."""

    def __init__(self) -> None:
        self.parts: list[tuple[str, int | None, list[int]]] = []
        self.open = 0

    @contextmanager
    def phase(self, title: str, steps: int | None = None) -> Iterator[Callable[[int], None]]:
        assert not self.open
        self.open += 1
        self.parts.append((title, steps, []))
        yield self.parts[-1][2].append
        self.open -= 1


def test_the_parts_of_a_run_follow_each_other(tmp_path: Path) -> None:
    heard = Heard()
    done = run("easy", "tiny_8", out=tmp_path / "a", progress=heard)
    titles = [title for title, _, _ in heard.parts]
    assert titles == [
        "reading the workload",
        "easy on tiny_8",
        "writing",
        "reading back",
        "verifying",
    ]
    assert heard.parts[1][1] == 8
    assert heard.parts[1][2][-1] == 8
    assert heard.parts[4][1:] == (done.rules, list(range(done.rules)))


AT_ONCE = "from qops_batsim import kernels; kernels.LOADING = kernels.COMPILING = 0.01"


def command(tmp_path: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run a command whose kernels lie in a directory of its own, and are soon compiled."""
    return subprocess.run(
        [*MAIN[:2], f"{AT_ONCE}; {MAIN[2]}", *words],
        cwd=tmp_path,
        env={**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "cache")},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.sweep
def test_compiling_is_told_when_something_compiles(tmp_path: Path) -> None:
    refused = command(tmp_path, "run", "easy", "--hosts", "2")
    assert refused.returncode == 2
    assert "compiling" not in refused.stderr, "a mistake is told before anything is compiled"
    assert not (tmp_path / "cache").exists()
    long = ("run", "easy", "--workload", "kth_sp2_1000")
    assert "compiling" not in command(tmp_path, "run", "easy", "--workload", "tiny_8").stderr
    assert command(tmp_path, *long).stderr.count("compiling the scheduling kernels") == 1
    assert "compiling" not in command(tmp_path, *long).stderr
    (tmp_path / "other").mkdir()
    assert (
        command(tmp_path / "other", "run", "easy", "--workload", "tiny_8", "--quiet").stderr == ""
    )
