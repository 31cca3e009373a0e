"""EASY with each order, and EASY++, on whole logs: the table of docs/schedulers.md.

    python benchmarks/easy_orders.py
    python benchmarks/easy_orders.py --write docs/schedulers.md

Means over all jobs, planned with the users' estimates: wait (seconds) and bounded slowdown (10 s).
The logs are read from QOPS_SHARED (default ../shared).
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from qops_batsim import kernels
from qops_batsim.experiments.traces import find_trace
from qops_batsim.platform.generate import make_cluster
from qops_batsim.running.simulate import simulate
from qops_batsim.scheduling.registry import make_scheduler
from qops_batsim.workload.traces import read_trace
from studies.shared import print_or_put

LOGS = {
    "KTH": ("KTH-SP2-1996-2.swf.gz", 100),
    "CTC": ("CTC-SP2-1996-rebuilt.swf.gz", 338),
    "SDSC": ("SDSC-SP2-1998-rebuilt.swf.gz", 128),
}
ORDERS = ("fcfs", "sjf", "ljf", "saf", "lxf", "wfp3", "unicef", "f1", "f2", "f3", "f4")
PREDICTED = {"run_times": "predicted"}
RUNS: dict[str, dict[str, Any]] = {
    **{f"`order={order}`": {"order": order} for order in ORDERS},
    "`backfill_order=sjf` (SJBF)": {"backfill_order": "sjf"},
    "`run_times=predicted`": PREDICTED,
    "`run_times=predicted`, `backfill_order=sjf` (EASY++)": {**PREDICTED, "backfill_order": "sjf"},
}


def cells(log: str) -> dict[str, str]:
    """Return the columns of a log by run."""
    file, processors = LOGS[log]
    workload = read_trace(find_trace(file, Path()), processors=processors).workload
    machine, found = make_cluster(processors), {}
    for name, options in RUNS.items():
        with kernels.compiling():
            ended = simulate(make_scheduler("easy", options), workload, machine).ended_jobs
        waits, lasted = ended.starts - ended.submission_times, ended.finishes - ended.starts
        slowdowns = np.maximum(1.0, (waits + lasted) / np.maximum(lasted, 10.0))
        found[name] = f"{waits.mean():,.0f} | {slowdowns.mean():.1f}"
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--write", type=Path, help="page to put the table into")
    asked = parser.parse_args()
    columns = [cells(log) for log in LOGS]
    head = " | ".join(f"{log}: wait (s) | slowdown" for log in LOGS)
    text = f"| | {head} |\n|---|{'---:|' * 2 * len(LOGS)}\n"
    for name in RUNS:
        text += f"| {name} | {' | '.join(column[name] for column in columns)} |\n"
    print_or_put(text, asked.write)


if __name__ == "__main__":
    main()
