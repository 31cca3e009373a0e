"""Other simulators on the same workload with EASY, in turns with our whole command."""

from __future__ import annotations

import importlib.util
import json
import shutil
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path

from cases import Case
from measure import COMMAND, Started, Used, spent
from reference import reference_jobs

from qops_batsim.workload import read_workload

ACCASIM = """
import collections, collections.abc
collections.Mapping = collections.abc.Mapping  # it was moved in Python 3.10
from accasim.base.allocator_class import FirstFit
from accasim.base.scheduler_class import EASYBackfilling
from accasim.base.simulator_class import Simulator
Simulator("jobs.swf", "machine.json", EASYBackfilling(FirstFit())).start_simulation()
"""


def batsim(case: Case, directory: Path) -> Used:
    """Run the real Batsim with batsched's EASY: CPU seconds and MiB of both together."""
    socket = f"ipc://{directory}/socket"
    decide = [
        "timeout",
        "1800",
        "batsched",
        "-v",
        "easy_bf",
        "-d",
        "0",
        "-s",
        socket,
        "--verbosity",
        "silent",
    ]
    simulate = ["timeout", "1800", "batsim", "-p", case.platform, "-w", case.workload]
    simulate += ["-e", str(directory / "batsim"), "-s", socket, "-q"]
    deciding = Started(decide)
    first = spent(simulate)
    second = deciding.used()
    return Used(first.seconds + second.seconds, first.mebibytes + second.mebibytes)


def accasim(case: Case, directory: Path) -> Used:
    """Run AccaSim with its EASY, which chooses hosts by first fit."""
    lines = (
        f"{number} {job.submission:.0f} 0 {job.run_time:.0f} {job.processors} 1 1 "
        f"{job.processors} {job.estimate:.0f} 1 1 1 1 1 1 1 -1 -1\n"
        for number, job in enumerate(reference_jobs(read_workload(case.workload)), 1)
    )
    (directory / "jobs.swf").write_text("".join(lines))
    machine = {
        "groups": {"host": {"core": 1, "mem": 1}},
        "resources": {"host": case.hosts},
        "equivalence": {"processor": {"core": 1}},
        "start_time": 0,
    }
    (directory / "machine.json").write_text(json.dumps(machine))
    return spent([sys.executable, "-c", ACCASIM], cwd=directory)


def check_peers(names: Iterable[str]) -> None:
    """SystemExit unless these peers are there."""
    if "batsim" in names and not (shutil.which("batsim") and shutil.which("batsched")):
        raise SystemExit("--peer batsim: batsim and batsched are expected on the PATH")
    if "accasim" in names and importlib.util.find_spec("accasim") is None:
        raise SystemExit("--peer accasim: the package accasim is not installed")


PEERS: dict[str, Callable[[Case, Path], Used]] = {"batsim": batsim, "accasim": accasim}
TITLES = {"batsim": "real Batsim + batsched", "accasim": "AccaSim"}


def beside(name: str, case: Case, rounds: int) -> dict[str, float]:
    """Return jobs/s and peak memory of a peer, and how many times faster our command is."""
    ratios = []
    best = Used(float("inf"), 0.0)
    for _ in range(rounds):
        with tempfile.TemporaryDirectory() as directory:
            inputs = ["-w", case.workload, "-p", case.platform, "--out", f"{directory}/ours"]
            ours = spent([*COMMAND, "run", "easy", "--quiet", *inputs])
            theirs = PEERS[name](case, Path(directory))
        ratios.append(theirs.seconds / ours.seconds)
        best = min(best, theirs)
    return {
        "jobs_per_second": case.jobs / best.seconds,
        "mebibytes": best.mebibytes,
        "ours_is_faster_by": statistics.median(ratios),
    }
