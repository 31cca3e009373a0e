"""Other simulators on the same workload with EASY, in turns with our whole command."""

from __future__ import annotations

import importlib.util
import json
import math
import shutil
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path

from measure import Installation, Started, Used, spent

from qops_batsim import read_workload

ACCASIM = """
import collections, collections.abc
collections.Mapping = collections.abc.Mapping  # it was moved in Python 3.10
from accasim.base.allocator_class import FirstFit
from accasim.base.scheduler_class import EASYBackfilling
from accasim.base.simulator_class import Simulator
Simulator("jobs.swf", "machine.json", EASYBackfilling(FirstFit())).start_simulation()
"""


def batsim(workload: str, folder: Path) -> Used:
    """Run the real Batsim with batsched's EASY: CPU seconds and MiB of both together."""
    socket = f"ipc://{folder}/socket"
    decide = ["timeout", "1800", "batsched", "-v", "easy_bf", "-d", "0", "-s", socket]
    simulate = ["timeout", "1800", "batsim", "-p", str(folder / "machine.xml"), "-w", workload]
    simulate += ["-e", str(folder / "batsim"), "-s", socket, "-q"]
    deciding = Started([*decide, "--verbosity", "silent"])
    first = spent(simulate)
    second = deciding.used()
    return Used(first.seconds + second.seconds, first.mebibytes + second.mebibytes)


def accasim(workload: str, folder: Path) -> Used:
    """Run AccaSim with its EASY, which chooses hosts by first fit."""
    found = read_workload(workload)
    lines = []
    for number, job in enumerate(sorted(found.jobs, key=lambda job: job.submission_time), 1):
        seconds = min(found.profiles[job.profile]["delay"], job.walltime or math.inf)
        lines.append(
            f"{number} {job.submission_time:.0f} 0 {seconds:.0f} {job.processors} 1 1 "
            f"{job.processors} {job.estimate:.0f} 1 1 1 1 1 1 1 -1 -1\n"
        )
    (folder / "jobs.swf").write_text("".join(lines))
    machine = {
        "groups": {"host": {"core": 1, "mem": 1}},
        "resources": {"host": found.processors},
        "equivalence": {"processor": {"core": 1}},
        "start_time": 0,
    }
    (folder / "machine.json").write_text(json.dumps(machine))
    return spent([sys.executable, "-c", ACCASIM], cwd=folder)


def check_peers(names: Iterable[str]) -> None:
    """SystemExit unless these peers are there."""
    if "batsim" in names and not (shutil.which("batsim") and shutil.which("batsched")):
        raise SystemExit("--peer batsim: batsim and batsched are expected on the PATH")
    if "accasim" in names and importlib.util.find_spec("accasim") is None:
        raise SystemExit("--peer accasim: the package accasim is not installed")


PEERS: dict[str, Callable[[str, Path], Used]] = {"batsim": batsim, "accasim": accasim}
TITLES = {"batsim": "The real Batsim with batsched's EASY", "accasim": "AccaSim's EASY"}


def beside(name: str, ours: Installation, workload: str, rounds: int) -> str:
    """Return how many times the CPU time of our command a peer takes on a workload."""
    ratios, hosts = [], str(read_workload(workload).processors)
    for _ in range(rounds):
        with tempfile.TemporaryDirectory() as directory:
            machine = f"{directory}/machine.xml"
            spent([ours.command, "platform", "cluster", machine, "--hosts", hosts])
            run = ["run", "easy", "--quiet", "-w", workload, "-p", machine]
            own = spent([ours.command, *run, "--out", f"{directory}/ours"])
            theirs = PEERS[name](workload, Path(directory))
        ratios.append(theirs.seconds / own.seconds)
    return (
        f"{TITLES[name]} takes {statistics.median(ratios):.1f} times the CPU time of "
        f"`run easy --quiet` on KTH, and {theirs.mebibytes:,.0f} MiB beside {own.mebibytes:,.0f}."
    )
