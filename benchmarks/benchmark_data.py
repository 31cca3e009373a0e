"""Data of `qops-batsim benchmark`: the bounds that come with the package, and docs/benchmark.md.

    python benchmarks/benchmark_data.py bounds --out out/benchmark-bounds
    python benchmarks/benchmark_data.py table out/benchmark/benchmark.json --write docs/benchmark.md

The first searches the workloads of all versioned cases and of their twins of the published seed,
with the logs in QOPS_SHARED (default ../shared) and with what stands in for them, and writes
qops_batsim/experiments/benchmark_bounds.json. It goes on where it was; equal versions of OR-tools
give equal values.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import msgspec

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from qops_batsim.experiments.benchmark import BenchmarkResult, read_result
from qops_batsim.experiments.benchmark_cases import BenchmarkLogs, benchmark_cases, case_list
from qops_batsim.experiments.benchmark_report import tables_of
from qops_batsim.experiments.benchmark_runs import (
    BenchmarkBound,
    BenchmarkRuns,
    bound_key,
)
from qops_batsim.experiments.pool import KeptRuns, run_cases
from qops_batsim.experiments.report_table import markdown_table
from qops_batsim.files import write_text
from studies.shared import print_or_put

FILE = Path(__file__).parents[1] / "qops_batsim" / "experiments" / "benchmark_bounds.json"


def search(out: Path, workers: int) -> None:
    """Search all workloads, and write the bounds."""
    known = case_list()
    # In the second, no log is anywhere.
    nothing = {
        name: msgspec.structs.replace(log, file="-", others=()) for name, log in known.logs.items()
    }
    scenarios, workloads = [], {}
    for each in (known, msgspec.structs.replace(known, logs=nothing)):
        logs = BenchmarkLogs(each)
        scenarios += [case.scenario for case in benchmark_cases(each, logs)]
        workloads |= logs.workloads
    kept = KeptRuns(out, BenchmarkBound, "benchmark bounds")
    found = run_cases(
        BenchmarkRuns(workloads).bound,
        scenarios,
        workers=workers,
        kept=kept,
        on_progress=lambda done, all_: print(f"{done} of {all_}", flush=True),
    )
    bounds = {bound_key(scenario): bound for scenario, bound in found.items()}
    text = msgspec.json.format(msgspec.json.encode(bounds, order="sorted"), indent=1)
    write_text(FILE, text.decode() + "\n")


def table(result: BenchmarkResult) -> str:
    """Return the tables of a result in Markdown."""
    parts = []
    for each in tables_of(result):
        lines = markdown_table(each.headings, each.rows)
        parts += [f"### {each.title}", each.note, "\n".join(lines)]
    return "\n\n".join(part for part in parts if part)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    bounds = commands.add_parser("bounds")
    bounds.add_argument("--out", type=Path, default=Path("out/benchmark-bounds"))
    bounds.add_argument("--workers", type=int, default=1)
    shown = commands.add_parser("table")
    shown.add_argument("result", type=Path)
    shown.add_argument("--write", type=Path)
    arguments = parser.parse_args()
    if arguments.command == "bounds":
        search(arguments.out, arguments.workers)
    else:
        print_or_put(table(read_result(arguments.result)), arguments.write)


if __name__ == "__main__":
    main()
