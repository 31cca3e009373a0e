"""Speed of AROMA: mapping times on a log, and their growth with hosts and with mapped tasks.

    python benchmarks/bench_aroma.py [--jobs 10000] [--picture growth.png] [--network]

The log is the SDSC SP2's (QOPS_SHARED, default ../shared) on 128 equal hosts, its jobs in the four
classes of Pascal et al. (2004) drawn with the measured mix of queues and a seed. Mapping an
application includes the two fall-backs. Times are of the processor, so that other load on the
machine does not count, without compiling.

``--network`` tells instead how late one wide job is whose tasks all use the link between two sites.
"""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path

import numpy as np

from qops_batsim.jobs import QOS_CLASSES, Job
from qops_batsim.kernels import compiling
from qops_batsim.platform.generate import make_cluster
from qops_batsim.platform.simgrid_read import read_platform
from qops_batsim.protocol.events import HostDescription
from qops_batsim.running.simulate import simulate
from qops_batsim.scheduling.aroma.application import Application, Work
from qops_batsim.scheduling.aroma.book import Book
from qops_batsim.scheduling.aroma.machine import DEFAULT_SPEED, UnequalHosts
from qops_batsim.scheduling.aroma.mapping import Fallbacks, Mapper, forget_all
from qops_batsim.scheduling.aroma.scheduler import Aroma
from qops_batsim.shipped import find_input
from qops_batsim.workload.conversion import Repairs, convert_log
from qops_batsim.workload.model import Workload
from qops_batsim.workload.service_classes import APART, TOGETHER, ClassChoices, assign_classes
from qops_batsim.workload.swf import read_swf

SHARED = Path(
    os.environ.get("QOPS_SHARED", Path(__file__).resolve().parent.parent.parent / "shared")
)
HOSTS = (128, 1_000, 10_000)
TASKS = (64, 128, 256, 512, 1_024, 2_048)
TASKS_PER_HOST = 2
WIDEST = 32
"""Most tasks of an application in the measurements of growth."""


class Watched(Aroma):
    """AROMA that notes the milliseconds of each mapping by class."""

    def __init__(self) -> None:
        super().__init__()
        self.times: dict[str, list[float]] = {name: [] for name in QOS_CLASSES}

    def map_application(self, application: Application) -> bool:
        began = time.thread_time()
        mapped = super().map_application(application)
        self.times[application.service_class].append((time.thread_time() - began) * 1e3)
        return mapped


def log_with_classes(jobs: int, tasks: str) -> Workload | None:
    """Return the first jobs of the SDSC log with classes, or None where it is not at hand."""
    path = SHARED / "traces" / "SDSC-SP2-1998-rebuilt.swf.gz"
    if not path.is_file():
        return None
    repairs = Repairs(overrun="clip")
    trace = convert_log(read_swf(path), processors=128, repairs=repairs, first=jobs).workload
    return assign_classes(trace, ClassChoices(tasks=tasks, speed=DEFAULT_SPEED))


def log_times(jobs: int) -> None:
    for tasks in (TOGETHER, APART):
        workload = log_with_classes(jobs, tasks)
        if workload is None:
            print("the SDSC log is not at hand (set QOPS_SHARED)")
            return
        module = Watched()
        began = time.process_time()
        simulation = simulate(module, workload, make_cluster(128))
        seconds = time.process_time() - began
        print(f"SDSC, first {jobs:,} jobs, 128 hosts, tasks {tasks}: {seconds:.0f} s in all")
        print(f"{'mapping time (ms)':<20}{'count':>8}{'mean':>9}{'p99':>9}{'max':>9}{'refused':>9}")
        refused: dict[str, set[str]] = {name: set() for name in QOS_CLASSES}
        for record in simulation.ended:
            qos = record.job.qos
            if record.state == "REJECTED" and qos is not None and qos.service_class is not None:
                refused[qos.service_class].add(qos.application or record.job.id)
        everything = [each for times in module.times.values() for each in times]
        for name, times in {**module.times, "all": everything}.items():
            count = len(refused[name]) if name in refused else sum(map(len, refused.values()))
            print(
                f"{name:<20}{len(times):>8}{np.mean(times):>9.3f}{np.percentile(times, 99):>9.3f}"
                f"{max(times):>9.1f}{count:>9}"
            )
        print()


def occupied(hosts: int, tasks: int, seed: int) -> tuple[Mapper, Fallbacks, np.random.Generator]:
    """Return a machine with so many mapped tasks of all classes; half of them planned."""
    random = np.random.default_rng(seed)
    machine = UnequalHosts([HostDescription(number, f"host{number}") for number in range(hosts)])
    mapper = Mapper(machine, Book(machine.hosts), memory_weight=1.0, revisions=4)
    fallbacks = Fallbacks(mapper, 8, 8, lambda application: None)
    mapped = 0
    while mapped < tasks:
        application = new_application(random, mapped)
        if fallbacks.map([application]) is not None:
            mapped += application.tasks
    return mapper, fallbacks, random


def new_application(random: np.random.Generator, number: int) -> Application:
    chosen = QOS_CLASSES[int(random.choice(4, p=[0.57, 0.13, 0.12, 0.18]))]
    job = Job(f"{number}-{random.integers(1 << 60)}", 0.0, int(random.integers(1, WIDEST)), "p")
    seconds = float(random.integers(100, 20_000))
    deadline = 5 * seconds if chosen == "deadline" else np.inf
    latest = 5.0 if chosen == "high_priority" else np.inf
    work = Work(flop=seconds * DEFAULT_SPEED)
    return Application(job, chosen, work, number, deadline=deadline, latest_start=latest)


def growth(hosts: int, tasks: int, repeats: int = 100) -> tuple[float, float]:
    """Return mean and p99 of the milliseconds to map one more application."""
    mapper, fallbacks, random = occupied(hosts, tasks, seed=1)
    before = mapper.book
    times = []
    for number in range(repeats):
        application = new_application(random, 1_000_000 + number)
        kept = [before.take(slot) for slot in before.slots.tolist()]
        for each in kept:
            before.put_back(each)
        began = time.thread_time()
        mapped = fallbacks.map([application])
        times.append((time.thread_time() - began) * 1e3)
        if mapped is not None:
            # As it was before: a fall-back may have moved another job.
            forget_all(before, [application])
            for slot in before.slots.tolist():
                before.remove(slot)
            for each in kept:
                before.put_back(each)
        before.refresh()
    return float(np.mean(times)), float(np.percentile(times, 99))


def growths(picture: Path | None) -> None:
    print(f"one more application of 1 to {WIDEST - 1} tasks (ms)")
    print(f"{'hosts':>8}{'tasks':>8}{'mean':>10}{'p99':>10}", flush=True)
    by_hosts, by_tasks = [], []
    for hosts in HOSTS:
        tasks = hosts * TASKS_PER_HOST
        by_hosts.append(growth(hosts, tasks))
        print(f"{hosts:>8}{tasks:>8}{by_hosts[-1][0]:>10.3f}{by_hosts[-1][1]:>10.3f}")
    for tasks in TASKS:
        by_tasks.append(growth(128, tasks))
        print(f"{128:>8}{tasks:>8}{by_tasks[-1][0]:>10.3f}{by_tasks[-1][1]:>10.3f}")
    if picture is not None:
        draw(by_hosts, by_tasks, picture)


def draw(
    by_hosts: list[tuple[float, float]], by_tasks: list[tuple[float, float]], picture: Path
) -> None:
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(8, 3.5), sharey=True)
    for axes, sizes, times, label in (
        (left, HOSTS, by_hosts, f"Hosts ({TASKS_PER_HOST} mapped tasks each)"),
        (right, TASKS, by_tasks, "Mapped tasks (128 hosts)"),
    ):
        for index, name in enumerate(("mean", "99th percentile")):
            axes.loglog(sizes, [each[index] for each in times], marker="os"[index], label=name)
        axes.set_xlabel(label)
        axes.grid(alpha=0.3, which="both")
    left.set_ylabel("Mapping one application (ms)")
    left.legend()
    figure.savefig(picture, dpi=110, bbox_inches="tight", metadata={"Software": None})
    print(f"wrote {picture}")


def wide_job() -> None:
    """Print the predicted and the simulated end of a job of 24 tasks alone on aroma_grid."""
    jobs = [Job("1", 0.0, 24, "p")]
    profiles = {"p": {"type": "parallel_homogeneous", "cpu": 1e9, "com": 1e7}}
    module = Aroma()
    platform = read_platform(find_input("aroma_grid", "platforms"))
    simulation = simulate(module, Workload(jobs, profiles, 24), platform)
    (predicted,), (record,) = module.predictions.values(), simulation.ended
    print(f"predicted end {predicted.first:.1f} s, simulated {record.finish:.1f} s")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--jobs", type=int, default=10_000, help="of the log; 0 leaves it out")
    parser.add_argument("--picture", type=Path, help="draw the growth here")
    parser.add_argument("--network", action="store_true", help="one wide job on a narrow link")
    arguments = parser.parse_args()
    if arguments.network:
        wide_job()
        return
    with compiling():
        growth(4, 8, repeats=2)
    if arguments.jobs:
        log_times(arguments.jobs)
    growths(arguments.picture)


if __name__ == "__main__":
    main()
