"""Speed of the deadline schedulers: whole runs, and single decisions by queue length.

    python benchmarks/bench_admission.py [--rounds 3] [--picture growth.png] [--feedback] [--long]

Whole runs are the KTH log (QOPS_SHARED, default ../shared) at load 1.3 with deadlines of
stringency 0.2, about 36,000 jobs, and the first 5,000 jobs of the CTC log on 338 processors at
load 1.6 (8,000 jobs, long queues), in process on one core after a first run to warm up; the
schedulers take turns and are compared with EASY of the same round. Single decisions are about one
new job beside a number of waiting jobs whose deadlines leave room, on a machine that is full.

``--feedback`` measures what offers and kills cost instead, on the CTC log as in the paper of 2004;
``--long`` how the cost of qops grows with the jobs of CTC at load 1.6, whose queue grows as well.
"""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from qops_batsim.jobs import COMPLETED_KILLED, REJECTED, Job, QosRequest
from qops_batsim.platform.generate import make_cluster
from qops_batsim.platform.hostset import HostSet
from qops_batsim.running.simulate import simulate
from qops_batsim.scheduling.registry import make_scheduler
from qops_batsim.scheduling.space_sharing import SpaceSharingScheduler
from qops_batsim.workload.model import Workload

SHARED = Path(
    os.environ.get("QOPS_SHARED", Path(__file__).resolve().parent.parent.parent / "shared")
)
SCHEDULERS = ("easy", "qops", "foresight", "msb", "mrt")
PROCESSORS = 100
QUEUES = (25, 50, 100, 200, 400)
FEEDBACK: tuple[dict[str, Any] | None, ...] = (
    None,
    *({"tolerance_factor": factor} for factor in (1, 2, 4, 10)),
    {"tolerance_factor": 4, "slack_factor": 2},
    {"tolerance_factor": 4, "slack_factor": 2, "kill_and_restart": True},
    {"tolerance_factor": 4, "kill_and_restart": True},
)
"""Options of fqops whose cost is measured; None is qops."""


class Log(NamedTuple):
    """A log to run: its file, and how it is made a workload."""

    name: str
    path: str
    processors: int
    load: float
    first: int | None
    schedulers: tuple[str, ...]


LOGS = (
    Log("KTH", "KTH-SP2-1996-2.swf.gz", PROCESSORS, 1.3, None, SCHEDULERS),
    Log("CTC", "CTC-SP2-1996-rebuilt.swf.gz", 338, 1.6, 5000, (*SCHEDULERS, "conservative")),
)


def with_deadlines(log: Log, **how: Any) -> Workload | None:
    """Return a log at its load with deadlines, or None where it is not at hand."""
    from qops_batsim.experiments.deadline_workload import deadline_workload
    from qops_batsim.workload.conversion import convert_log
    from qops_batsim.workload.deadlines import DeadlineChoices
    from qops_batsim.workload.swf import read_swf

    path = SHARED / "traces" / log.path
    if not path.is_file():
        return None
    trace = convert_log(read_swf(path), processors=log.processors).workload
    choices = DeadlineChoices(stringency=0.2, seed=1)
    first = log.first or len(trace.jobs)
    return deadline_workload(
        trace, choices, load=log.load, first=first, keep_estimates=False, **how
    )


def whole_runs(log: Log, rounds: int) -> None:
    workload = with_deadlines(log)
    if workload is None:
        print(f"the {log.name} log is not at hand (set QOPS_SHARED)")
        return
    machine = make_cluster(log.processors)
    best: dict[str, float] = {}
    ratios: dict[str, list[float]] = {name: [] for name in log.schedulers}
    for _ in range(rounds):
        seconds = {}
        for name in log.schedulers:
            began = time.process_time()
            simulate(name, workload, machine)
            seconds[name] = time.process_time() - began
            best[name] = min(best.get(name, np.inf), seconds[name])
        for name in log.schedulers:
            ratios[name].append(seconds[name] / seconds["easy"])
    jobs = f"{len(workload.jobs):,} jobs, {log.processors} processors"
    print(f"{log.name} at load {log.load}: {jobs}, S = 0.2")
    print(f"{'scheduler':<12}{'CPU seconds':>12}{'time/easy':>12}")
    for name in log.schedulers:
        ratio = sorted(ratios[name])[len(ratios[name]) // 2]
        print(f"{name:<12}{best[name]:>12.2f}{ratio:>12.2f}")


def feedback(rounds: int) -> None:
    """Print the time of whole runs with offers and kills, and what they admit."""
    log = Log("CTC", "CTC-SP2-1996-rebuilt.swf.gz", 430, 1.6, 5000, ())
    workload = with_deadlines(log, same_time=True, reference="unscaled")
    if workload is None:
        print("the CTC log is not at hand (set QOPS_SHARED)")
        return
    machine = make_cluster(log.processors)
    print("| options | seconds | admitted | kills |\n|---|---:|---:|---:|")
    for settings in FEEDBACK:
        name = "qops" if settings is None else "fqops"
        seconds = []
        for _ in range(rounds):
            module = make_scheduler(name, settings)
            began = time.process_time()
            simulation = simulate(module, workload, machine)
            seconds.append(time.process_time() - began)
        states = [record.state for record in simulation.ended]
        kills = states.count(COMPLETED_KILLED)
        admitted = len(states) - kills - states.count(REJECTED)
        options = ", ".join(f"{key}={value}" for key, value in (settings or {}).items()) or name
        print(f"| `{options}` | {min(seconds):.2f} | {admitted:,} | {kills:,} |")


def long_queues(rounds: int) -> None:
    """Print the time of qops on more and more jobs of CTC at load 1.6, and its growth."""
    before = None
    for first in (2500, 5000, 10_000):
        workload = with_deadlines(LOGS[1]._replace(first=first))
        if workload is None:
            print("the CTC log is not at hand (set QOPS_SHARED)")
            return
        seconds = []
        for _ in range(rounds):
            began = time.process_time()
            simulate("qops", workload, make_cluster(LOGS[1].processors))
            seconds.append(time.process_time() - began)
        jobs, least = len(workload.jobs), min(seconds)
        growth = f", {least / before:.1f} times as long" if before else ""
        print(f"qops, {jobs:,} jobs: {least:.2f} CPU seconds{growth}")
        before = least


def decision_times(name: str, waiting: int, repeats: int = 300) -> np.ndarray:
    """Return the milliseconds of single decisions beside so many waiting jobs."""
    random = np.random.default_rng(waiting)
    scheduler = make_scheduler(name)
    assert isinstance(scheduler, SpaceSharingScheduler)
    plan = scheduler.new_plan(PROCESSORS)
    assert plan is not None
    serial = 0

    def arrive(processors: int, estimate: float, deadline: float) -> None:
        nonlocal serial
        qos = QosRequest(deadline=deadline, estimated_runtime=estimate)
        plan.arrived(Job(f"j{serial}", 0.0, processors, "none", qos=qos))
        serial += 1

    for _ in range(PROCESSORS // 4):
        arrive(4, float(random.integers(1000, 20000)), 1e7)
    plan.decide(0.0, HostSet.first(PROCESSORS))
    while plan.waiting_count < waiting:
        estimate = float(random.integers(100, 20000))
        arrive(int(random.integers(1, 32)), estimate, 2e4 + waiting * 3e3 * random.random())
        plan.decide(1.0, HostSet())
    times = []
    for _ in range(repeats):
        # A job that needs the machine at once is refused, so the queue stays as long.
        arrive(int(random.integers(1, 32)), 5000.0, 5010.0)
        began = time.thread_time()
        plan.decide(1.0, HostSet())
        times.append(time.thread_time() - began)
    return np.array(times) * 1e3


def single_decisions(picture: Path | None) -> None:
    print(f"\none decision (ms), machine of {PROCESSORS} processors")
    print(f"{'waiting jobs':<14}" + "".join(f"{n + ' p50':>12}{'p99':>9}" for n in SCHEDULERS[1:]))
    medians: dict[str, list[float]] = {name: [] for name in SCHEDULERS[1:]}
    for waiting in QUEUES:
        row = f"{waiting:<14}"
        for name in SCHEDULERS[1:]:
            times = decision_times(name, waiting)
            medians[name].append(float(np.median(times)))
            row += f"{np.median(times):>12.3f}{np.percentile(times, 99):>9.3f}"
        print(row)
    for name, values in medians.items():
        growth = np.polyfit(np.log(QUEUES), np.log(values), 1)[0]
        print(f"{name}: time grows like waiting jobs to the power {growth:.2f}")
    if picture is not None:
        draw(medians, picture)


def draw(medians: dict[str, list[float]], picture: Path) -> None:
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(6, 4))
    for name, values in medians.items():
        axes.loglog(QUEUES, values, marker="o", label=name)
    axes.set_xlabel("Waiting jobs")
    axes.set_ylabel("One decision, median (ms)")
    axes.grid(alpha=0.3, which="both")
    axes.legend()
    figure.savefig(picture, dpi=110, bbox_inches="tight", metadata={"Software": None})
    print(f"wrote {picture}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--picture", type=Path, help="draw the growth with the queue here")
    parser.add_argument("--feedback", action="store_true", help="the cost of offers and kills")
    parser.add_argument("--long", action="store_true", help="the cost of long queues")
    arguments = parser.parse_args()
    if arguments.long:
        long_queues(arguments.rounds)
        return
    if arguments.feedback:
        feedback(arguments.rounds)
        return
    for log in LOGS:
        whole_runs(log, arguments.rounds)
    single_decisions(arguments.picture)


if __name__ == "__main__":
    main()
