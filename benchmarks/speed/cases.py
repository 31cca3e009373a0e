"""What is measured: workloads with their machines, and who runs them."""

from __future__ import annotations

import os
from collections import deque
from pathlib import Path
from typing import NamedTuple

from qops_batsim.jobs import Job
from qops_batsim.platform.generate import make_cluster
from qops_batsim.platform.simgrid_write import write_platform
from qops_batsim.scheduling.module import System
from qops_batsim.scheduling.space_sharing import SpaceSharingScheduler
from qops_batsim.workload.batsim_json import write_workload
from qops_batsim.workload.conversion import convert_log
from qops_batsim.workload.generate import DeadlineRule, generate_workload
from qops_batsim.workload.model import Workload
from qops_batsim.workload.swf import read_swf

ROOT = Path(__file__).resolve().parents[2]
SHARED = Path(os.environ.get("QOPS_SHARED", ROOT.parent / "shared")).resolve()
HERE = str(Path(__file__).parent)

PLAIN = f"{Path(__file__)}:PlainFcfs"

CONTESTANTS: dict[str, tuple[str, list[str]]] = {
    "fcfs": ("fcfs", []),
    "easy": ("easy", []),
    "conservative, processors": ("conservative", ["reserve=processors"]),
    "conservative, hosts": ("conservative", ["reserve=hosts"]),
    "plain Python module": (PLAIN, []),
}
"""Scheduler and its settings, by the name in tables."""

DECIDERS = ("easy", "conservative", "slack", "qops", "msb", "mrt")
"""Schedulers whose single decisions are timed."""

LOGS = {
    "KTH SP2": ("KTH-SP2-1996-2.swf.gz", 100),
    "CTC SP2": ("CTC-SP2-1996-rebuilt.swf.gz", 430),
}
"""File and processors of the logs that are used where they are at hand, by name."""


class PlainFcfs(SpaceSharingScheduler):
    """A module as a user would write one: first come, first served, in plain Python."""

    def begin(self, system: System) -> None:
        super().begin(system)
        self.queue: deque[Job] = deque()

    def arrived(self, job: Job) -> None:
        self.queue.append(job)

    def left(self, job: Job) -> None:
        pass

    def schedule(self, now: float) -> None:
        while self.queue and self.queue[0].processors <= self.free_count:
            self.start(self.queue.popleft())


class Case(NamedTuple):
    """A workload and a platform, in files."""

    title: str
    workload: str
    platform: str
    jobs: int
    hosts: int


def synthetic(directory: Path, jobs: int, *, hosts: int = 100) -> Case:
    """Write a generated workload like the KTH SP2's."""
    workload = generate_workload("kth-sp2", jobs=jobs, seed=1, processors=hosts)
    return written(directory, f"synthetic-{jobs}", "synthetic", workload)


def with_deadlines(directory: Path, jobs: int) -> Case:
    """Write a generated workload of load 1.3 in which every job has a deadline."""
    workload = generate_workload(
        "kth-sp2", jobs=jobs, seed=1, load=1.3, deadlines=DeadlineRule(share=1.0)
    )
    return written(directory, "deadlines", "synthetic, load 1.3, deadlines", workload)


def logs(directory: Path) -> list[Case]:
    """Write the real logs that are at hand."""
    found = []
    for title, (name, processors) in LOGS.items():
        path = SHARED / "traces" / name
        if path.is_file():
            workload = convert_log(read_swf(path), processors=processors).workload
            found.append(written(directory, path.name.split("-")[0], title, workload))
    return found


def written(directory: Path, name: str, title: str, workload: Workload) -> Case:
    jobs, platform = directory / f"{name}.json", directory / f"{name}.xml"
    write_workload(workload, jobs)
    write_platform(make_cluster(workload.processors), platform)
    return Case(title, str(jobs), str(platform), len(workload.jobs), workload.processors)
