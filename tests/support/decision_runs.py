"""Runs with a decision log, for tests of what reads it."""

from __future__ import annotations

import math
import random
from pathlib import Path

from qops_batsim import Job, QosRequest, simulate
from qops_batsim.engine import EngineOptions
from qops_batsim.platform import make_cluster
from qops_batsim.protocol import make_scheduler
from qops_batsim.running import DecisionHistory, write_run
from qops_batsim.running.history import parse_log
from qops_batsim.workload import Workload, delay_profile

Row = tuple[float, int, float, float | None, float]
"""Arrival, processors, run time, deadline, estimate."""


def workload_of(machine: int, rows: list[Row]) -> Workload:
    """Return the jobs A, B, C, ..., delays."""
    jobs, profiles = [], {}
    for index, (arrival, processors, run_time, deadline, estimate) in enumerate(rows):
        name, profile = delay_profile(run_time)
        profiles[name] = profile
        qos = QosRequest(
            deadline=deadline, estimated_runtime=estimate if estimate < math.inf else None
        )
        jobs.append(Job(chr(65 + index), arrival, processors, name, None, qos))
    return Workload(jobs=jobs, profiles=profiles, processors=machine)


def exact(arrival: float, processors: int, run_time: float, deadline: float | None = None) -> Row:
    """Return a job with an exact estimate."""
    return (arrival, processors, run_time, deadline, run_time)


def random_workload(rng: random.Random) -> Workload:
    """Jobs that arrive together, have odd estimates, no deadlines, or too many processors."""
    machine = rng.randint(1, 5)
    exact_estimates = rng.random() < 0.4
    rows = []
    for _ in range(rng.randint(1, 24)):
        run_time = float(rng.randint(1, 12))
        estimate = run_time
        if not exact_estimates:
            estimate = rng.choice([run_time, run_time * 2, run_time / 2])
            if rng.random() < 0.05:
                estimate = math.inf
        arrival = float(rng.randint(0, 30))
        deadline = arrival + run_time * rng.choice([1.0, 1.5, 2.0, 4.0, 9.0])
        processors = rng.randint(1, machine + (rng.random() < 0.05))
        no_deadline = rng.random() < 0.1
        rows.append((arrival, processors, run_time, None if no_deadline else deadline, estimate))
    rows.sort(key=lambda row: row[0])
    return workload_of(machine, rows)


def run_files(
    scheduler: str,
    workload: Workload,
    folder: Path,
    *,
    keep: bool = True,
    engine: EngineOptions | None = None,
    latency: float = 0.0,
    **options: object,
) -> Path:
    """Simulate and write all files; return the run's prefix."""
    module = make_scheduler(scheduler, options)
    if keep:
        module.keep_decisions()
    network = {"bandwidth": 1e9, "latency": latency} if latency else {}
    machine = make_cluster(workload.processors, **network)
    done = simulate(module, workload, machine, engine=engine, allow_smaller_machine=True)
    prefix = folder / "run"
    write_run(done, prefix, scheduler=scheduler, module=module, workload="tests", platform=None)
    return prefix


def history_of(
    scheduler: str,
    workload: Workload,
    folder: Path,
    *,
    engine: EngineOptions | None = None,
    latency: float = 0.0,
    **options: object,
) -> DecisionHistory:
    """Simulate and return the decision log; ``latency`` is that of each link (seconds)."""
    prefix = run_files(scheduler, workload, folder, engine=engine, latency=latency, **options)
    path = Path(f"{prefix}_decisions.jsonl")
    header, events = parse_log(path.read_bytes(), path)
    return DecisionHistory("run", path, header, events)
