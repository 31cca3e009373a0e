"""Speed and memory of two installations of this package, measured in turns in one run.

    python benchmarks/paired.py BEFORE AFTER [--rounds 5] [--only WORD]

BEFORE and AFTER are the Python interpreters of two environments. In each round every case
runs once in each, in a fresh process: a small run to load compiled code, then the timed
simulation, by CPU time. Printed are the least CPU seconds of each side and the median of
the rounds' ratios, after over before (below 1: faster), and the same for peak memory.
Real logs are used where they are at hand (QOPS_SHARED, default ../shared).
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SHARED = Path(os.environ.get("QOPS_SHARED", ROOT.parent / "shared")).resolve()
LOG = SHARED / "batsim" / "inputs" / "kth_delay.json.gz"
DEADLINES = ROOT / "workloads" / "sdsc_sp2_deadlines_500.json"
SHIPPED = ROOT / "workloads" / "kth_sp2_1000.json"
SHARING = ROOT / "workloads" / "aroma_mixed.json"
GRID = ROOT / "platforms" / "aroma_grid.xml"

CASES: dict[str, tuple[str, dict[str, object], Path, str]] = {
    "fcfs": ("fcfs", {}, LOG, "100"),
    "easy": ("easy", {}, LOG, "100"),
    "conservative processors": ("conservative", {"reserve": "processors"}, LOG, "100"),
    "conservative hosts": ("conservative", {"reserve": "hosts"}, SHIPPED, "100"),
    "nqs": ("nqs", {}, LOG, "100"),
    "slack": ("slack", {}, SHIPPED, "100"),
    "qops": ("qops", {}, DEADLINES, "128"),
    "msb": ("msb", {}, DEADLINES, "128"),
    "mrt": ("mrt", {}, DEADLINES, "128"),
    "fqops": ("fqops", {"tolerance_factor": 4.0, "slack_factor": 2.0}, DEADLINES, "128"),
    "fqops kills": ("fqops", {"kill_and_restart": True}, DEADLINES, "128"),
    "aroma": ("aroma", {}, SHARING, str(GRID)),
}
"""Scheduler, its options, workload, and platform or number of hosts."""

CHILD = """
import json, resource, sys, time
from qops_batsim import read_platform, read_workload, simulate
from qops_batsim.platform.generate import make_cluster
scheduler, settings, workload, machine, repeats = json.loads(sys.argv[1])
jobs = read_workload(workload)
platform = make_cluster(int(machine)) if machine.isdigit() else read_platform(machine)
simulate(jobs, platform, scheduler, settings, allow_smaller_machine=True)
began = time.process_time()
for _ in range(repeats):
    simulate(jobs, platform, scheduler, settings, allow_smaller_machine=True)
seconds = (time.process_time() - began) / repeats
print(json.dumps([seconds, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024]))
"""


def measure(python: str, case: str) -> tuple[float, float]:
    """Return CPU seconds of one simulation and peak MiB of its process."""
    scheduler, settings, workload, machine = CASES[case]
    repeats = 2 if workload is LOG else 10
    argument = json.dumps([scheduler, settings, str(workload), machine, repeats])
    done = subprocess.run(
        [python, "-c", CHILD, argument], check=True, capture_output=True, text=True, cwd="/"
    )
    seconds, mebibytes = json.loads(done.stdout)
    return seconds, mebibytes


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("before", help="Python of one environment")
    parser.add_argument("after", help="Python of the other")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", default="", help="only cases whose name holds this word")
    arguments = parser.parse_args()
    print(
        f"{'case':<26}{'before s':>10}{'after s':>10}{'ratio':>8}{'MiB':>8}{'MiB':>8}{'ratio':>8}"
    )
    for case, (_, _, workload, _) in CASES.items():
        if arguments.only not in case:
            continue
        if not workload.exists():
            print(f"{case:<26} left out: {workload.name} is not at hand")
            continue
        pairs = [
            (measure(arguments.before, case), measure(arguments.after, case))
            for _ in range(arguments.rounds)
        ]
        row = f"{case:<26}"
        for index, form in ((0, "10.4f"), (1, "8.0f")):
            before, after = ([side[index] for side in sides] for sides in zip(*pairs, strict=True))
            ratio = statistics.median(b / a for a, b in zip(before, after, strict=True))
            row += f"{min(before):{form}}{min(after):{form}}{ratio:8.2f}"
        print(row, flush=True)


if __name__ == "__main__":
    sys.exit(main())
