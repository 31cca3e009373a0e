"""How fast is it, how does that grow, and how does it compare: one command, tables, a picture.

    python benchmarks/speed                     # about ten minutes
    python benchmarks/speed --quick             # one workload, one round
    python benchmarks/speed --peer batsim --peer accasim --write docs/speed.md \
        --picture docs/pictures/speed.png --save benchmarks/speed/baseline.json
    python benchmarks/speed --check             # against the committed baseline; exit code 1

Everything is CPU time of one core after a first run, except over ZeroMQ, where two processes
work in turns by the clock. Each measurement takes turns with a reference loop in plain Python,
EASY and nothing else, and the ratio to that is taken within a round, so it holds on a noisy machine
and on another one, where seconds do not. ``--check`` fails where such a ratio is less than 70 % of
the baseline's.

Real logs are used where they are at hand (QOPS_SHARED, default ../shared); the real Batsim
(``--peer batsim``) where it is on the PATH, AccaSim where it is installed.
"""

from __future__ import annotations

import argparse
import datetime
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from cases import CONTESTANTS, DECIDERS, Case, logs, synthetic, with_deadlines
from measure import answer_parent, in_child, over_zeromq, whole_command
from page import draw, machine, tables, write_into
from peers import PEERS, TITLES, beside, check_peers

BASELINE = Path(__file__).with_name("baseline.json")
TOLERATED = 0.7
"""A ratio to the reference may fall to so much of the baseline's."""

CHECKED_JOBS = 30_000
MOST_JOBS_FOR_PEERS = 30_000
OVER_ZEROMQ = "easy over ZeroMQ"


def throughput(case: Case, rounds: int, peers: list[str]) -> dict[str, Any]:
    """Measure all contestants, and the peers, on one workload."""
    rows: dict[str, Any] = {}
    for name in CONTESTANTS:
        say(f"{case.title}: {name}")
        rows[name] = {
            "in_process": in_child("in_process", case, name, rounds),
            "whole_command": whole_command(case, name, rounds),
        }
    say(f"{case.title}: {OVER_ZEROMQ}")
    rows[OVER_ZEROMQ] = {"in_process": in_child(over_zeromq.__name__, case, "easy", rounds)}
    measured = {}
    for name in peers if case.jobs <= MOST_JOBS_FOR_PEERS else ():
        say(f"{case.title}: {TITLES[name]}")
        measured[TITLES[name]] = beside(name, case, rounds)
    return {
        "jobs": case.jobs,
        "hosts": case.hosts,
        "reference": in_child("reference", case, rounds),
        "rows": rows,
        "peers": measured,
    }


def growth(directory: Path, sizes: list[int], rounds: int) -> dict[str, Any]:
    """Measure EASY on workloads of several sizes."""
    points = {}
    for jobs in sizes:
        say(f"growth: {jobs:,} jobs")
        case = synthetic(directory, jobs)
        here = in_child("in_process", case, "easy", rounds)
        whole = whole_command(case, "easy", rounds)
        points[str(jobs)] = {
            "in_process": jobs / here["jobs_per_second"],
            "whole_command": whole["seconds"],
            "mebibytes": whole["mebibytes"],
        }
    return points


def check(directory: Path, rounds: int) -> int:
    """Compare ratios to the reference with the baseline's; return the exit code."""
    before = json.loads(BASELINE.read_text())["check"]
    after = ratios(throughput(synthetic(directory, CHECKED_JOBS), rounds, []))
    worse = 0
    print(f"{'ratio to the reference loop':<42}{'baseline':>10}{'now':>10}")
    for name, ratio in before.items():
        is_worse = after[name] < TOLERATED * ratio
        worse += is_worse
        print(f"{name:<42}{ratio:>10.3f}{after[name]:>10.3f}{'  WORSE' if is_worse else ''}")
    return 1 if worse else 0


def ratios(measured: dict[str, Any]) -> dict[str, float]:
    """Return the ratios to the reference by name."""
    return {
        f"{name}, {kind.replace('_', ' ')}": row["to_reference"]
        for name, kinds in measured["rows"].items()
        for kind, row in kinds.items()
    }


def say(what: str) -> None:
    print(f"measuring {what}", file=sys.stderr, flush=True)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="one workload, one round, to 30,000")
    parser.add_argument("--sizes", default="1000,10000,100000,1000000", help="jobs, for the growth")
    parser.add_argument("--peer", action="append", choices=list(PEERS), default=[])
    parser.add_argument("--write", type=Path, help="document to put the tables into")
    parser.add_argument("--picture", type=Path, help="picture to draw (PNG, PDF, SVG)")
    parser.add_argument("--save", type=Path, help="file for all numbers (JSON)")
    parser.add_argument("--check", action="store_true", help="compare with the baseline")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    return parser.parse_args()


def main() -> int:
    given = arguments()
    if given.child is not None:
        answer_parent(given.child)
        return 0
    check_peers(given.peer)
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        if given.check:
            return check(directory, given.rounds)
        rounds = 1 if given.quick else given.rounds
        sizes = [1000, 30_000] if given.quick else [int(each) for each in given.sizes.split(",")]
        first = synthetic(directory, CHECKED_JOBS)
        cases = [first] if given.quick else [first, *logs(directory)]
        measured = {case.title: throughput(case, rounds, given.peer) for case in cases}
        results = {
            "date": datetime.date.today().isoformat(),
            "machine": machine(),
            "throughput": measured,
            "growth": growth(directory, sizes, rounds),
            "latency": {},
            "check": ratios(measured[first.title]),
        }
        crowded = with_deadlines(directory, 1_000 if given.quick else 5_000)
        for scheduler in DECIDERS:
            say(f"answers of {scheduler}")
            results["latency"][scheduler] = in_child("latencies", crowded, scheduler)
    text = tables(results)
    print(text)
    if given.write is not None:
        write_into(given.write, text)
    if given.picture is not None:
        draw(results, given.picture)
    if given.save is not None:
        given.save.write_text(json.dumps(results, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
