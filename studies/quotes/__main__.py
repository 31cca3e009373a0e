"""How reliable is a quote? Quotes made at the submissions of logs, and what came (README.md).

    python studies/quotes [--quick]
    python studies/quotes jobs.txt --quotes 1000

The first asks about the logs of ``study.toml``, the second about logs of your own. The study's are
read from QOPS_SHARED (default ../shared).
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path

import msgspec

if __name__ == "__main__":  # the checkout, which has the studies
    sys.path.append(str(Path(__file__).resolve().parents[2]))

from qops_batsim.queue import past_of
from qops_batsim.running import easy_references
from qops_batsim.traces import read_trace
from qops_batsim.workload import Conversion
from studies.quotes.backtest import Backtest, backtest
from studies.shared import arguments, run_main, settings_of

SHARED = Path(os.environ.get("QOPS_SHARED", "../shared"))


def run_by_easy(trace: Conversion) -> Conversion:
    """Return a trace with the waits that EASY gives its jobs, as if the site had been EASY."""
    easy = easy_references(trace.workload)
    records = trace.records.copy()
    records["wait_time"] = [
        easy[job].response_time - easy[job].run_time for job in trace.workload.columns.ids
    ]
    return msgspec.structs.replace(trace, records=records)


def lines(name: str, found: Backtest) -> Sequence[str]:
    """Return the rows of the table in README.md, a class a line."""
    told = []
    for group, levels in groupby(found.table(), key=lambda each: each.group):
        known = [each for each in levels if each.said is not None]
        parts = (
            f"{x.said:.1f}, {x.came:.1f} ± {x.chance:.1f} ({x.margin / 3600:.1f} h)" for x in known
        )
        told.append(f"| {name}: {group} | {known[0].quotes:,} | {' | '.join(parts)} |")
    return told


def main() -> None:
    """Print a table of how often quotes held, and a sentence about each log."""
    parser = arguments(__file__, __doc__)
    parser.add_argument("logs", nargs="*", type=Path, metavar="LOG")
    parser.add_argument("--quotes", type=int, default=1000, help="asked about of a log of your own")
    given = parser.parse_args()
    asked = [{"file": each, "quotes": given.quotes} for each in given.logs]
    print("| log: kind | quotes | 80 %: said, came (added) | 90 % | 95 % |\n|---|---|---|---|---|")

    for log in asked or settings_of(__file__, quick=given.quick)["logs"]:
        path = log["file"] if given.logs else SHARED / "traces" / log["file"]
        chosen = {name: log[name] for name in ("skip", "first") if name in log}
        trace = read_trace(path, **chosen)
        past = past_of(run_by_easy(trace) if log.get("easy") else trace)
        found = backtest(past, asked=log["quotes"])
        print("\n".join(lines(log.get("name", str(path)), found)), flush=True)
        print(found.sentence(), file=sys.stderr)


if __name__ == "__main__":
    run_main(main)
