"""The benchmark with schedulers of ours: the tables of README.md.

    python studies/benchmark --deadlines both --write studies/benchmark/tables.md
    python studies/benchmark --quick
    python studies/benchmark --bounds --workers 2

The last one searches the workloads of all versioned cases and of their twins of the published seed,
with the logs in QOPS_SHARED (default ../shared) and with what stands in for them (no log may be in
the current directory or in what ``workload fetch`` keeps), and writes
``qops_batsim/experiments/benchmark_bounds.json``. It goes on where it was; equal versions of
OR-tools give equal values.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from tempfile import mkdtemp

import msgspec

if __name__ == "__main__":  # the checkout, which has the studies
    sys.path.append(str(Path(__file__).resolve().parents[2]))

from qops_batsim.experiments import (
    KeptRuns,
    ScoreBound,
    ScoredRuns,
    StudyRuns,
    bound_key,
    page_tables,
    read_study,
    run_cases,
    run_study,
    study_inputs,
    with_schedulers,
)
from studies.shared import (
    arguments,
    by_turns,
    deadlines_text,
    print_or_put,
    run_main,
    settings_of,
    told,
    with_deadlines,
)

BOUNDS = Path(__file__).parents[2] / "qops_batsim" / "experiments" / "benchmark_bounds.json"


def tables(runs: StudyRuns) -> str:
    """Return the tables of the study in Markdown."""
    tables = ("\n".join(each.markdown()) for each in page_tables(runs))
    return "\n\n".join((deadlines_text(runs.study), *tables))


def search(out: Path, workers: int) -> None:
    """Search all workloads, and write the bounds."""
    found = {}
    for there in (True, False):
        if not there:  # no log is found in an empty directory
            os.environ["QOPS_SHARED"] = mkdtemp()
        cases, runs = study_inputs(read_study("benchmark"))
        kept = KeptRuns(out / "bounds", ScoreBound, "benchmark bounds")
        wanted = dict.fromkeys(case.scenario for case in cases)
        work = ScoredRuns(runs).bound
        found |= run_cases(work, wanted, workers=workers, kept=kept, on_progress=told())
    bounds = {bound_key(scenario): bound for scenario, bound in found.items()}
    text = msgspec.json.format(msgspec.json.encode(bounds, order="sorted"), indent=1)
    BOUNDS.write_text(text.decode() + "\n")


def main() -> None:
    parser = arguments(__file__, __doc__, by_need=True)
    parser.add_argument("--bounds", action="store_true", help="make the kept bounds again")
    asked = parser.parse_args()
    if asked.bounds:
        search(asked.out, asked.workers)
        return
    study = with_schedulers(
        read_study("benchmark", quick=asked.quick),
        settings_of(__file__, quick=asked.quick)["schedulers"],
    )

    def made(by: str) -> str:
        own = with_deadlines(study, by)
        out = asked.out / by if own.need else asked.out
        runs = run_study(own, out, workers=asked.workers, on_progress=told(), retry=True)
        return tables(runs)

    print_or_put(by_turns(asked, made), asked.write)


if __name__ == "__main__":
    run_main(main)
