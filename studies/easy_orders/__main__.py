"""EASY with each order of its queue, and EASY++, on whole logs (README.md).

    python studies/easy_orders [--quick] [--write studies/easy_orders/README.md]

Means over all jobs, planned with the users' estimates: wait (seconds) and bounded slowdown (10 s).
Logs are read from QOPS_SHARED (default ../shared).
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np

if __name__ == "__main__":  # the checkout, which has the studies
    sys.path.append(str(Path(__file__).resolve().parents[2]))

from qops_batsim import simulate
from qops_batsim.experiments import find_trace
from qops_batsim.platform import make_cluster
from qops_batsim.scheduling import make_scheduler
from qops_batsim.workload import read_trace
from studies.shared import Settings, arguments, print_or_put, run_main, settings_of


def cells(settings: Settings, log: str) -> dict[str, str]:
    """Return the columns of a log by run."""
    file, processors = settings["logs"][log]
    workload = read_trace(find_trace(file, Path()), processors=processors).workload
    machine = make_cluster(processors)
    found: dict[str, str] = {}
    runs: dict[str, dict[str, Any]] = settings["runs"]
    for name, options in runs.items():
        ended = simulate(make_scheduler("easy", options), workload, machine).ended_jobs
        waits, lasted = ended.starts - ended.submission_times, ended.finishes - ended.starts
        slowdowns = np.maximum(1.0, (waits + lasted) / np.maximum(lasted, 10.0))
        found[name] = f"{waits.mean():,.0f} | {slowdowns.mean():.1f}"
    return found


def main() -> None:
    asked = arguments(__file__, __doc__).parse_args()
    settings = settings_of(__file__, quick=asked.quick)
    logs = [log for log, told in settings["logs"].items() if told]
    columns = [cells(settings, log) for log in logs]
    head = " | ".join(f"{log}: wait (s) | slowdown" for log in logs)
    text = f"| | {head} |\n|---|{'---:|' * 2 * len(logs)}\n"
    for name in settings["runs"]:
        text += f"| {name} | {' | '.join(column[name] for column in columns)} |\n"
    print_or_put(text, asked.write)


if __name__ == "__main__":
    run_main(main)
