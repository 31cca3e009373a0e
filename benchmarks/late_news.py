"""How late promises are kept where Batsim's own messages take their time, and what a grace does.

    python benchmarks/late_news.py [--grace 0.001,0.01,0.1,1,10]

The deadline schedulers run 1,300 jobs of the KTH log on 100 hosts (QOPS_SHARED, default
../shared; without it the shipped jobs of SDSC on 128), AROMA its shipped example. Each is run
without latencies, with 50 µs and 1 ms on every link, and with random latencies of up to 5 ms a
link. Printed are what is refused, the mean wait, how late the latest promise was kept, and
with --grace the same for other values of that option on the links of 1 ms.
"""

from __future__ import annotations

import argparse
import math
import os
from collections.abc import Callable
from pathlib import Path

import msgspec
import numpy as np

from qops_batsim.engine.simulation import Simulation
from qops_batsim.platform.model import Host, Platform, Zone
from qops_batsim.platform.simgrid_read import read_platform
from qops_batsim.running.simulate import default_engine, simulate
from qops_batsim.scheduling.registry import make_scheduler
from qops_batsim.shipped import find_input
from qops_batsim.workload.batsim_json import read_workload
from qops_batsim.workload.model import Workload

SHARED = Path(
    os.environ.get("QOPS_SHARED", Path(__file__).resolve().parent.parent.parent / "shared")
)
KTH = SHARED / "batsim" / "networked" / "inputs" / "kth_1300_deadlines.json.gz"
KILLS = {"kill_and_restart": True, "tolerance_factor": 4.0, "slack_factor": 2.0}
RUNS: dict[str, dict[str, object]] = {
    "qops": {},
    "msb": {},
    "mrt": {},
    "fqops": KILLS,
    "aroma": {},
    "aroma grid": {},
}
"""Options of each run; the scheduler is its first word."""

LATENCIES: dict[str, tuple[float, float]] = {
    "none": (0.0, 0.0),
    "50 us": (50e-6, 50e-6),
    "1 ms": (1e-3, 1e-3),
    "0 to 5 ms": (0.0, 5e-3),
}
"""Least and greatest latency of a link (s)."""


def star(hosts: int, latency: Callable[[], float]) -> Platform:
    """Return equal hosts, each with a link of its own to the middle."""

    def host(name: str, role: str = "") -> Host:
        place = (0.0, 0.0, latency() * 1e3)
        return Host(name=name, speeds=(100e6,), role=role, zone="all", coordinates=place)

    return Platform(
        compute_hosts=tuple(host(f"host{index:03d}") for index in range(hosts)),
        master=host("master_host", "master"),
        zones=(Zone(name="all", routing="Vivaldi"),),
    )


def grid(latency: Callable[[], float]) -> Platform:
    """Return AROMA's three sites with other latencies."""
    platform = read_platform(find_input("aroma_grid", "platforms"))
    replace = msgspec.structs.replace
    links = {name: replace(link, latency=latency()) for name, link in platform.links.items()}
    clusters = tuple(
        replace(each, latency=latency(), backbone_latency=latency()) for each in platform.clusters
    )
    return replace(platform, links=links, clusters=clusters)


def run(scheduler: str, between: tuple[float, float], **settings: object) -> str:
    """Run a scheduler; return its line of the table."""
    random = np.random.default_rng(1)

    def latency() -> float:
        return float(random.uniform(*between))

    settings = RUNS[scheduler] | settings
    if scheduler == "aroma grid":
        workload, platform = _shipped("aroma_mixed"), grid(latency)
    elif KTH.is_file():
        workload, platform = read_workload(KTH), star(100, latency)
    else:
        workload, platform = _shipped("sdsc_sp2_deadlines_500"), star(128, latency)
    module = make_scheduler(scheduler.partition(" ")[0], settings)
    done = simulate(module, workload, platform, engine=default_engine(module))
    refused = sum(math.isnan(record.start) for record in done.ended)
    waits = [
        record.start - record.submission_time
        for record in done.ended
        if not math.isnan(record.start)
    ]
    promises = {
        job.id: record.admitted_deadline
        for job in module.qos_log.jobs
        if (record := module.qos_log.record(job.id)).admitted_deadline is not None
    }
    return (
        f"{len(workload.jobs):6d} {refused:8d} {sum(waits) / len(waits):10.2f} "
        f"{len(promises):9d} {_lateness(done, promises):10.6f}"
    )


def _lateness(done: Simulation, promises: dict[str, float]) -> float:
    """Return by how much the latest promise was kept late (s); 0 if none was."""
    ends: dict[str, float] = {}
    for record in done.ended:
        if not math.isnan(record.start):
            origin = record.job.id.partition("#")[0]
            ends[origin] = max(ends.get(origin, 0.0), record.finish)
    return max(
        (ends[name] - promise for name, promise in promises.items() if name in ends), default=0.0
    )


def _shipped(name: str) -> Workload:
    return read_workload(find_input(name, "workloads"))


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--grace", default="", help="values of the option to try on 1 ms")
    parser.add_argument("--only", default="", help="a scheduler")
    arguments = parser.parse_args()
    heading = "  jobs  refused  mean wait  promises   latest (s)"
    schedulers = [name for name in RUNS if arguments.only in ("", name)]
    print(f"{'':10s} {'latency':10s}{heading}")
    for scheduler in schedulers:
        for name, between in LATENCIES.items():
            print(f"{scheduler:10s} {name:10s}{run(scheduler, between)}", flush=True)
    if arguments.grace:
        print(f"\n{'':10s} {'grace (s)':10s}{heading}")
    for scheduler in schedulers if arguments.grace else []:
        for grace in map(float, arguments.grace.split(",")):
            line = run(scheduler, LATENCIES["1 ms"], grace=grace)
            print(f"{scheduler:10s} {grace:<10g}{line}", flush=True)


if __name__ == "__main__":
    main()
