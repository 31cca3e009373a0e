"""How late promises are kept where Batsim's own messages take their time, and what a grace does.

    python studies/late_news [--quick]

The deadline schedulers run 1,300 jobs of the KTH log on 100 hosts (QOPS_SHARED, default
../shared; without it the shipped jobs of SDSC on 128), AROMA its shipped example. Each is run
without latencies, with 50 µs and 1 ms on every link, and with random latencies of up to 5 ms a
link. Printed are what is refused, the mean wait, how late the latest promise was kept, and the same
for other values of the option ``grace`` on the links of 1 ms. ``--quick`` is ``qops`` alone.
"""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Callable
from pathlib import Path

import msgspec
import numpy as np

if __name__ == "__main__":  # the checkout, which has the studies
    sys.path.append(str(Path(__file__).resolve().parents[2]))

from qops_batsim import read_platform, read_workload, simulate
from qops_batsim.engine.simulation import Simulation
from qops_batsim.platform import Host, Platform, Zone
from qops_batsim.protocol import make_scheduler
from qops_batsim.running.simulate import default_engine
from qops_batsim.shipped import find_input
from qops_batsim.workload import Workload
from studies.shared import arguments, run_main, settings_of

SHARED = Path(os.environ.get("QOPS_SHARED", Path(__file__).resolve().parents[3] / "shared"))
KTH = SHARED / "batsim" / "networked" / "inputs" / "kth_1300_deadlines.json.gz"
SETTINGS = settings_of(__file__, quick="--quick" in sys.argv)
RUNS: dict[str, dict[str, object]] = {
    name: options
    for name, options in SETTINGS["runs"].items()
    if name in (SETTINGS["only"] or SETTINGS["runs"])
}
LATENCIES: dict[str, tuple[float, float]] = SETTINGS["latencies"]


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
    arguments(__file__, __doc__).parse_args()
    heading = "  jobs  refused  mean wait  promises   latest (s)"
    print(f"{'':10s} {'latency':10s}{heading}")
    for scheduler in RUNS:
        for name, between in LATENCIES.items():
            print(f"{scheduler:10s} {name:10s}{run(scheduler, between)}", flush=True)
    print(f"\n{'':10s} {'grace (s)':10s}{heading}")
    for scheduler in RUNS:
        for grace in SETTINGS["graces"]:
            line = run(scheduler, LATENCIES[SETTINGS["at"]], grace=grace)
            print(f"{scheduler:10s} {grace:<10g}{line}", flush=True)


if __name__ == "__main__":
    run_main(main)
