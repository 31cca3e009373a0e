"""Parts of the reproductions of papers, drawn by seed: rows of the tables of their reports.

python studies/reproduce/papers.py islam2003|islam2004|pascal2004 SEED
"""

from __future__ import annotations

import random
import sys
from collections.abc import Sequence
from pathlib import Path

from msgspec.structs import replace

if __name__ == "__main__":  # the checkout, which has the studies
    sys.path.append(str(Path(__file__).resolve().parents[2]))

from qops_batsim.experiments import PageTable
from qops_batsim.workload import convert_log
from studies.islam2003 import paper as paper2003
from studies.islam2003.runs import run_study as run_2003
from studies.islam2003.study import FULL as FULL_2003
from studies.islam2004 import paper as paper2004
from studies.islam2004.runs import run_study as run_2004
from studies.islam2004.study import FULL as FULL_2004
from studies.logs import BATCH_PARTITION, CTC, read_log
from studies.pascal2004 import paper as pascal
from studies.pascal2004 import runs
from studies.pascal2004.study import FULL, ORIGINAL, REBUILT
from studies.request import StudyRequest
from studies.shared import run_main

REQUEST = StudyRequest()


def part_of_islam2003(by: random.Random) -> Sequence[PageTable]:
    """Return two readings of the paper on one log, beside MSB as it is usually read."""
    full = FULL_2003
    usual = [each for each in full.readings if each.name == "msb (defaults)"]
    others = [each for each in full.readings if each not in usual]
    source = by.choice(full.reading_sources)
    part = replace(
        full,
        figures=(),
        laxities=(by.choice(full.laxities),),
        windows=(),
        reading_sources=(source,),
        readings=(*usual, *by.sample(others, 2)),
    )
    log = convert_log(read_log(REQUEST, source.file), processors=source.processors)
    traces = {source.machine: log.workload}
    return paper2003.tables(run_2003(traces, part, REQUEST))


def part_of_islam2004(by: random.Random) -> Sequence[PageTable]:
    """Return rows of kills, and tolerance by category, on the paper's machine."""
    full = FULL_2004
    first, *others = paper2004.shown_factors(full.tolerance_factors)
    factor = by.choice(others)
    part = replace(
        full,
        loads=(full.kill_load,),
        tolerance_factors=(first, factor),
        slack_loads=(full.kill_load,),
        slack_tolerance_factors=(factor,),
        slack_factors=(full.slack_factors[0], by.choice(full.slack_factors[1:4])),
        kill_tolerance_factors=(by.choice(full.kill_tolerance_factors),),
        large_factors=(),
        readings=(),
    )
    log = convert_log(read_log(REQUEST, CTC), processors=BATCH_PARTITION)
    results = run_2004(log.workload, part, REQUEST)
    return paper2004.tables(results, machine=f", {BATCH_PARTITION} processors")


def part_of_pascal2004(by: random.Random) -> Sequence[PageTable]:
    """Return the rows of the log's first jobs, with the queues that their users chose."""
    part = replace(FULL, sizes=(), dedicated_sizes=(), stretches=0, candidates=())
    logs = {name: REQUEST.find_log(name) for name in (REBUILT, ORIGINAL)}
    results = runs.run_trials(part.trials(), logs, REQUEST)
    wait, jobs = runs.recorded_wait(logs[ORIGINAL], usable_only=True)
    first = runs.table1(results, part, {"usable": wait, "usable_jobs": jobs})
    return pascal.tables(first, runs.table2(results, part), [])


def main() -> None:
    name, seed = sys.argv[1:3]
    tables = globals()[f"part_of_{name}"](random.Random(seed))
    for table in tables:
        print("\n".join(table.markdown()), end="\n\n")


if __name__ == "__main__":
    run_main(main)
