"""Reliability of quotes where EASY is the site's scheduler.

Some copies of logs tell no waits, and a quote cannot be compared with what came. Here EASY takes
the place of the site: it runs the jobs with their users' walltimes, and its waits are the log's.

    python benchmarks/easy_backtest.py LOG [LOG ...] [--skip 20000] [--first 5000] [--quotes 2500]

The logs are read from QOPS_SHARED (default ../shared).
"""

from __future__ import annotations

import argparse
import os
from itertools import groupby
from pathlib import Path

import msgspec

from qops_batsim.advice.backtest import Calibration, backtest
from qops_batsim.advice.trace_runs import run_easy
from qops_batsim.economics.prices import Prices
from qops_batsim.workload.delay_jobs import run_times_until_killed
from qops_batsim.workload.traces import read_trace

ROOT = Path(__file__).resolve().parent.parent
TRACES = Path(os.environ.get("QOPS_SHARED", ROOT.parent / "shared")) / "traces"


def calibration(log: str, *, skip: int, first: int, quotes: int) -> list[Calibration]:
    """Return how often quotes to users of EASY held, by class and level."""
    trace = read_trace(TRACES / log, skip=skip, first=first)
    responses = run_easy(trace.workload, Prices()).responses
    records = trace.records.copy()
    run_times = run_times_until_killed(trace.workload)
    records["wait_time"] = [
        responses[job.id] - run_time
        for job, run_time in zip(trace.workload.jobs, run_times, strict=True)
    ]
    return backtest(msgspec.structs.replace(trace, records=records), asked=quotes).table()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("logs", nargs="+", metavar="LOG")
    parser.add_argument("--skip", type=int, default=20_000, help="jobs left out at the beginning")
    parser.add_argument("--first", type=int, default=5000, help="jobs after these")
    parser.add_argument("--quotes", type=int, default=2500)
    arguments = parser.parse_args()
    print("| log | quotes | level: said, came (added) |\n|---|---|---|")
    for log in arguments.logs:
        found = calibration(
            log, skip=arguments.skip, first=arguments.first, quotes=arguments.quotes
        )
        for group, levels in groupby(found, key=lambda each: each.group):
            known = [each for each in levels if each.said is not None]
            parts = (
                f"{x.said:.1f}, {x.came:.1f} ± {x.chance:.1f} ({x.margin / 3600:.1f} h)"
                for x in known
            )
            print(f"| {log}: {group} | {known[0].quotes:,} | {' | '.join(parts)} |", flush=True)


if __name__ == "__main__":
    main()
