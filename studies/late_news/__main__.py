"""How late promises are kept where Batsim's own messages take their time, and what a grace does.

    python studies/late_news [--quick] [--write studies/late_news/README.md]

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
from typing import NamedTuple

import msgspec
import numpy as np

if __name__ == "__main__":  # the checkout, which has the studies
    sys.path.append(str(Path(__file__).resolve().parents[2]))

from qops_batsim import read_platform, read_workload, simulate
from qops_batsim.engine.simulation import Simulation
from qops_batsim.experiments import markdown_table
from qops_batsim.platform import Host, Platform, Zone
from qops_batsim.protocol import make_scheduler
from qops_batsim.running.simulate import default_engine
from qops_batsim.shipped import find_input
from qops_batsim.workload import Workload
from studies.shared import arguments, print_or_put, run_main, settings_of

SHARED = Path(os.environ.get("QOPS_SHARED", Path(__file__).resolve().parents[3] / "shared"))
KTH = SHARED / "batsim" / "networked" / "inputs" / "kth_1300_deadlines.json.gz"
SETTINGS = settings_of(__file__, quick="--quick" in sys.argv)
RUNS: dict[str, dict[str, object]] = {
    name: options
    for name, options in SETTINGS["runs"].items()
    if name in (SETTINGS["only"] or SETTINGS["runs"])
}
LATENCIES: dict[str, tuple[float, float]] = SETTINGS["latencies"]
GRACES: list[float] = SETTINGS["graces"]


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


class Found(NamedTuple):
    """A run: refused jobs, mean wait, and by how much the latest promise was kept late (s)."""

    refused: int
    wait: float
    latest: float

    @property
    def late(self) -> str:
        """The latest promise in words."""
        return f"{1000 * self.latest:.2g} ms" if self.latest > 0 else "none"


def run(scheduler: str, between: tuple[float, float], **settings: object) -> Found:
    """Run a scheduler on links whose latencies lie between two (s)."""
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
    return Found(refused, sum(waits) / len(waits), _lateness(done, promises))


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
    asked = arguments(__file__, __doc__).parse_args()
    first, *others = LATENCIES
    heads = ["", "refused, no latency"]
    for name in others:
        heads += [name, "latest"]
    rows, differences = [], []
    for scheduler in RUNS:
        without = run(scheduler, LATENCIES[first])
        found = [run(scheduler, LATENCIES[name]) for name in others]
        told = (text for each in found for text in (f"{each.refused}", each.late))
        rows.append([f"`{scheduler}`", f"{without.refused}", *told])
        differences += [abs(each.wait - without.wait) for each in found]
    graces = [
        [
            f"`{scheduler}`",
            *(f"{run(scheduler, LATENCIES[SETTINGS['at']], grace=it).refused}" for it in GRACES),
        ]
        for scheduler in RUNS
    ]
    text = [*markdown_table(heads, rows), ""]
    text += [*markdown_table(["refused with a grace of", *(f"{it:g} s" for it in GRACES)], graces)]
    text += ["", f"Mean waits differ by at most {max(differences):.2f} s."]
    print_or_put("\n".join(text) + "\n", asked.write)


if __name__ == "__main__":
    run_main(main)
