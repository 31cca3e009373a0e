"""Jobs per second and peak memory of the embedded engine, scheduler by scheduler.

Each scheduler runs in a fresh process: one run to warm up, then several timed ones,
from the first message to the last, without reading inputs and writing files. The
schedulers take turns, and each is compared with ``fcfs`` of the same round, so the
ratios hold on a noisy machine where seconds do not. Peak memory is the process's,
everything included.

    python benchmarks/bench_engine.py [--rounds 3] [--jobs 30000]

Where the recorded real logs are at hand (QOPS_SHARED, default ../shared), they are
run as well.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
SHARED = Path(os.environ.get("QOPS_SHARED", ROOT.parent / "shared"))
CONTESTANTS: dict[str, tuple[str, dict[str, str]]] = {
    "fcfs": ("fcfs", {}),
    "easy": ("easy", {}),
    "conservative (processors)": ("conservative", {"reserve": "processors"}),
    "conservative (hosts)": ("conservative", {"reserve": "hosts"}),
}
PEAK_MIB = 1024 if sys.platform != "darwin" else 1024**2


def measure(workload: str, hosts: int, contestant: str, repeats: int) -> dict[str, Any]:
    """Run one scheduler in this process; return jobs per second and MiB."""
    from qops_batsim.platform.generate import make_cluster
    from qops_batsim.running.simulate import simulate
    from qops_batsim.workload import read_workload

    scheduler, settings = CONTESTANTS[contestant]
    jobs = read_workload(workload)
    machine = make_cluster(hosts)
    simulate(jobs, machine, scheduler, settings)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / PEAK_MIB
    seconds = []
    for _ in range(repeats):
        began = time.perf_counter()
        simulate(jobs, machine, scheduler, settings)
        seconds.append(time.perf_counter() - began)
    return {"jobs": len(jobs.jobs), "seconds": min(seconds), "peak_mib": peak}


def in_fresh_process(workload: str, hosts: int, contestant: str) -> dict[str, Any]:
    arguments = ["--measure", workload, str(hosts), contestant]
    answer = subprocess.run(
        [sys.executable, __file__, *arguments], check=True, capture_output=True, text=True
    )
    return dict(json.loads(answer.stdout))


def report(title: str, workload: str, hosts: int, rounds: int) -> None:
    best: dict[str, dict[str, Any]] = {}
    ratios: dict[str, list[float]] = {name: [] for name in CONTESTANTS}
    for _ in range(rounds):
        results = {name: in_fresh_process(workload, hosts, name) for name in CONTESTANTS}
        for name, result in results.items():
            ratios[name].append(results["fcfs"]["seconds"] / result["seconds"])
            if name not in best or result["seconds"] < best[name]["seconds"]:
                best[name] = result
    print(f"\n{title}: {best['fcfs']['jobs']:,} jobs, {hosts} hosts, best of {rounds} rounds")
    print(f"{'scheduler':<28}{'jobs/s':>10}{'seconds':>10}{'speed/fcfs':>12}{'peak MiB':>10}")
    for name, result in best.items():
        ratio = sorted(ratios[name])[len(ratios[name]) // 2]
        speed = result["jobs"] / result["seconds"]
        print(
            f"{name:<28}{speed:>10,.0f}{result['seconds']:>10.3f}{ratio:>12.2f}"
            f"{result['peak_mib']:>10.0f}"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--jobs", type=int, default=30_000, help="jobs of the synthetic workload")
    parser.add_argument("--measure", nargs=3, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.measure:
        workload, hosts, contestant = arguments.measure
        print(json.dumps(measure(workload, int(hosts), contestant, repeats=3)))
        return
    from qops_batsim.workload.batsim_json import write_workload
    from qops_batsim.workload.generate import generate_workload

    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "synthetic.json"
        write_workload(generate_workload("kth-sp2", jobs=arguments.jobs, seed=1), path)
        report("synthetic (kth-sp2, seed 1)", str(path), 100, arguments.rounds)
    for title, name, hosts in (
        ("KTH SP2 log", "kth_delay.json.gz", 100),
        ("SDSC SP2 log", "sdsc5k_delay.json.gz", 128),
    ):
        path = SHARED / "batsim" / "inputs" / name
        if path.is_file():
            report(title, str(path), hosts, arguments.rounds)
        else:
            print(f"\n{title}: {name} is not at hand (set QOPS_SHARED)")


if __name__ == "__main__":
    main()
