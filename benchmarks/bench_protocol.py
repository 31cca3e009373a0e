"""Jobs per second of engine and scheduler together: in one process and over ZeroMQ.

Over ZeroMQ there are two processes, the embedded engine and ``qops-batsim serve``,
joined by a TCP socket on the loopback interface: what a foreign engine or a foreign
decision process sees. Both modes take turns in every round and the ratio is taken
within a round, so it holds on a noisy machine where seconds do not. Timed is the
simulation from the first message to the last, without reading inputs and writing
files, except for what the two processes do about SIMULATION_BEGINS.

    python benchmarks/bench_protocol.py [--rounds 3] [--jobs 5000] [--scheduler easy]

Where the recorded real logs are at hand (QOPS_SHARED, default ../shared), they are
run as well, and the speed of the real Batsim 4.2.1 with batsched 1.4.0, both C++, on
the same log is printed beside: a number recorded once on another occasion on a quiet
machine with 2 cores, not measured here.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from qops_batsim.engine.simulation import Simulation
from qops_batsim.platform.generate import make_cluster
from qops_batsim.platform.model import Platform
from qops_batsim.protocol.zeromq_peer import RemotePeer
from qops_batsim.running.simulate import simulate
from qops_batsim.scheduling.registry import make_scheduler
from qops_batsim.workload import Workload, read_workload
from qops_batsim.workload.generate import generate_workload

ROOT = Path(__file__).resolve().parent.parent
SHARED = Path(os.environ.get("QOPS_SHARED", ROOT.parent / "shared"))
SERVE = [sys.executable, "-c", "from qops_batsim.cli.main import main; main()", "serve"]

RECORDED_PEER = {"SDSC SP2 log": 1600.0, "KTH SP2 log": 1800.0}
"""Jobs per second of Batsim 4.2.1 with batsched 1.4.0 (EASY), as recorded."""

SILENCE = 60.0
"""Neither side waits longer for the other (seconds)."""


@contextmanager
def serving(scheduler: str, directory: str) -> Iterator[str]:
    """Start a decision process that serves one simulation after the other."""
    command = [*SERVE, scheduler, "--loop", "--socket", "tcp://127.0.0.1:*"]
    command += ["--timeout", str(SILENCE), "--out", f"{directory}/served"]
    process = subprocess.Popen(
        command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True
    )
    try:
        assert process.stderr is not None
        for line in process.stderr:
            if "listens at" in line:
                break
        else:
            raise SystemExit("the decision process did not start")
        yield line.split()[-1]
    finally:
        process.terminate()
        process.communicate(timeout=SILENCE)


def over_zeromq(machine: Platform, workload: Workload, endpoint: str) -> float:
    """Return the seconds of one simulation with the decision process at the endpoint."""
    with RemotePeer(endpoint, timeout=SILENCE) as peer:
        simulation = Simulation(machine, [workload], peer)
        began = time.perf_counter()
        simulation.run()
        return time.perf_counter() - began


def in_process(machine: Platform, workload: Workload, scheduler: str) -> float:
    """Return the seconds of one simulation with the module in this process."""
    module = make_scheduler(scheduler)
    began = time.perf_counter()
    simulate(workload, machine, module)
    return time.perf_counter() - began


def report(title: str, workload: Workload, hosts: int, scheduler: str, rounds: int) -> None:
    machine = make_cluster(hosts)
    jobs = len(workload.jobs)
    wire: list[float] = []
    here: list[float] = []
    with tempfile.TemporaryDirectory() as directory, serving(scheduler, directory) as endpoint:
        in_process(machine, workload, scheduler)
        over_zeromq(machine, workload, endpoint)
        for _ in range(rounds):
            here.append(in_process(machine, workload, scheduler))
            wire.append(over_zeromq(machine, workload, endpoint))
    ratio = statistics.median(slow / fast for slow, fast in zip(wire, here, strict=True))
    print(f"\n{title}: {jobs:,} jobs, {hosts} hosts, {scheduler}, best of {rounds} rounds")
    print(f"{'':<34}{'jobs/s':>10}{'seconds':>10}{'x recorded peer':>18}")
    peer = RECORDED_PEER.get(title)
    for name, seconds in (("in process", min(here)), ("over ZeroMQ, two processes", min(wire))):
        times = f"{jobs / seconds / peer:.1f}" if peer else "-"
        print(f"{name:<34}{jobs / seconds:>10,.0f}{seconds:>10.3f}{times:>18}")
    if peer:
        name = "Batsim + batsched (recorded)"
        print(f"{name:<34}{peer:>10,.0f}{jobs / peer:>10.3f}{'1.0':>18}")
    print(f"in process is {ratio:.1f} times as fast as over ZeroMQ (median of rounds)")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--jobs", type=int, default=5_000, help="jobs of the synthetic workload")
    parser.add_argument("--scheduler", default="easy")
    arguments = parser.parse_args()
    make_scheduler(arguments.scheduler).prepare()
    synthetic = generate_workload("kth-sp2", jobs=arguments.jobs, seed=1)
    scheduler, rounds = arguments.scheduler, arguments.rounds
    report("synthetic (kth-sp2, seed 1)", synthetic, 100, scheduler, rounds)
    for title, name, hosts in (
        ("SDSC SP2 log", "sdsc5k_delay.json.gz", 128),
        ("KTH SP2 log", "kth_delay.json.gz", 100),
    ):
        path = SHARED / "batsim" / "inputs" / name
        if path.is_file():
            report(title, read_workload(path), hosts, scheduler, rounds)
        else:
            print(f"\n{title}: {name} is not at hand (set QOPS_SHARED)")


if __name__ == "__main__":
    main()
