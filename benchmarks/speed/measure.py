"""Measurements, each in a process of its own: CPU seconds and memory."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from figures import INPUTS, Figure

KIB_PER_UNIT = 1 if sys.platform != "darwin" else 1 / 1024
CHILD = str(Path(__file__).with_name("child.py"))


class Used(NamedTuple):
    """CPU time (seconds) and peak memory (MiB) of a finished command, and what it printed."""

    seconds: float
    mebibytes: float
    printed: str = ""


NO_BYTE_CODE = "PYTHONDONTWRITEBYTECODE"
"""Variable of the environment with which Python compiles all sources again in each run."""

LAUNCH = """
import json, os, subprocess, sys
process = subprocess.Popen(sys.argv[2:], stdout=sys.stderr)
_, status, usage = os.wait4(process.pid, 0)
with open(sys.argv[1], "w") as file:
    json.dump([usage.ru_utime + usage.ru_stime, usage.ru_maxrss], file)
sys.exit(os.waitstatus_to_exitcode(status))
"""
"""A small process that starts a command: a new one counts the memory of who made it as its own."""


class Started:
    """A command that runs; :meth:`used` waits for its end."""

    def __init__(self, command: Sequence[str], **options: Any) -> None:
        self._command = command
        number, self._report = tempfile.mkstemp()
        os.close(number)
        launch = [sys.executable, "-S", "-c", LAUNCH, self._report, *command]
        # As users have it: Python compiles its sources in the first run only.
        environment = {name: value for name, value in os.environ.items() if name != NO_BYTE_CODE}
        self._process = subprocess.Popen(
            launch, stderr=subprocess.PIPE, text=True, env=environment, **options
        )

    def used(self) -> Used:
        """Return what it took; SystemExit with what it said if it failed."""
        _, said = self._process.communicate()
        text = Path(self._report).read_text()
        os.unlink(self._report)
        if self._process.returncode:
            raise SystemExit(f"{' '.join(self._command)} failed:\n{said}")
        seconds, memory = json.loads(text)
        return Used(seconds, memory * KIB_PER_UNIT / 1024, said)


def spent(command: Sequence[str], **options: Any) -> Used:
    """Run a command to its end."""
    return Started(command, **options).used()


class Installation(NamedTuple):
    """The command ``qops-batsim`` of an environment, whose Python stands beside it."""

    command: str

    def child(self, what: str, *arguments: str) -> tuple[Any, Used]:
        """Return what a function of ``child.py`` returns, and what its process took."""
        python = str(Path(self.command).with_name("python"))
        used = spent([python, CHILD, what, *arguments])
        return json.loads(used.printed.splitlines()[-1]), used

    def measure(self, figure: Figure, workload: str) -> Used:
        """Measure a figure once; a command that is measured has run before."""
        settings = list(figure.settings)
        if figure.in_process:
            seconds, used = self.child("in_process", figure.scheduler, workload, *settings)
            return Used(seconds, used.mebibytes)
        with tempfile.TemporaryDirectory() as out:
            inputs = ["--quiet", "--workload", workload, "--out", f"{out}/x"]
            return spent([self.command, "run", figure.scheduler, *inputs])

    def make(self, workload: str, folder: Path) -> str:
        """Make a workload, unless it is there; return its file, or the name of a shipped one."""
        if workload not in INPUTS:
            return workload
        path = folder / f"{workload}.json"
        if not path.exists():
            command, source, options = INPUTS[workload]
            sources = [self.make(source, folder) if source in INPUTS else source] * bool(source)
            words = [command, *sources, str(path), *options.split()]
            spent([self.command, "workload", *words])
        return str(path)


def medians(
    figure: Figure, workload: str, installations: Sequence[Installation], rounds: int
) -> list[Used]:
    """Return the medians of some rounds in which installations take turns, after a first one."""
    turns = range(rounds if figure.in_process else rounds + 1)
    found = [[each.measure(figure, workload) for each in installations] for _ in turns]
    return [
        Used(
            statistics.median(used.seconds for used in every),
            statistics.median(used.mebibytes for used in every),
        )
        for every in zip(*found[-rounds:], strict=True)
    ]
