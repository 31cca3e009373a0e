"""Foresight against QoPS on real logs: tables and pictures (README.md).

    python studies/foresight [--quick] [--write studies/foresight/tables.md]
    python studies/foresight --draw studies/foresight [--best out/how_good]
    python studies/foresight --random 100000
    python studies/foresight --times

Every run is checked, and kept as a line of OUT/runs.jsonl, so that the study can be interrupted.
Logs are read from QOPS_SHARED (default ../shared). ``--random`` runs so many random jobs instead,
and counts broken promises; ``--times`` measures single answers.
"""

from __future__ import annotations

import sys
from pathlib import Path

if __name__ == "__main__":  # the checkout, which has the studies
    sys.path.append(str(Path(__file__).resolve().parents[2]))

from qops_batsim.experiments import checked_outcomes
from qops_batsim.platform import make_cluster
from qops_batsim.scheduling import make_scheduler
from studies.foresight import answers, pictures
from studies.foresight.runs import make_runs, quick_table, read_kept, tables
from studies.random_jobs import random_jobs
from studies.shared import arguments, print_or_put, run_main, settings_of


def random_promises(count: int) -> str:
    """Run random jobs in lots of 5,000; a broken promise is an error."""
    refused, lots = 0, -(-count // 5000)
    for seed in range(lots):
        module = make_scheduler("foresight")
        found, _ = checked_outcomes(random_jobs(seed), make_cluster(128), module, f"seed {seed}")
        refused += int(found.refused.sum())
    return f"{5000 * lots:,} random jobs: {refused:,} refused, no promise broken"


def main() -> None:
    parser = arguments(__file__, __doc__)
    parser.add_argument("--draw", type=Path, help="directory to put the pictures into")
    parser.add_argument("--best", type=Path, help="what studies/how_good has kept, to draw beside")
    parser.add_argument("--random", type=int, help="run so many random jobs instead")
    parser.add_argument("--times", action="store_true", help="time single answers instead")
    asked = parser.parse_args()
    path = asked.out / "runs.jsonl"
    if asked.times:
        print(answers.answer_times())
    elif asked.random:
        print(random_promises(asked.random))
    elif asked.draw is not None:
        pictures.draw(read_kept(path), asked.draw, asked.best)
    else:
        make_runs(path, settings_of(__file__, quick=asked.quick))
        kept = read_kept(path)
        print_or_put(quick_table(kept) if asked.quick else tables(kept), asked.write)


if __name__ == "__main__":
    run_main(main)
