"""Claim (c) beside another reading of its deadlines (README.md).

    python studies/islam2004/references.py

By what the QoS charge changes from TF = 1 to 10 (%), with deadlines from EASY on the jobs without
duplicates, as in section 5, and on all jobs, which makes deadlines laxer the higher the load.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

if __name__ == "__main__":  # the checkout, which has the studies
    sys.path.append(str(Path(__file__).resolve().parents[2]))

from qops_batsim.experiments import changes, find_trace, markdown_table, mean_interval
from qops_batsim.traces import read_trace
from studies.islam2004.runs import ChargedRuns
from studies.islam2004.study import FULL, Case
from studies.logs import BATCH_PARTITION, CTC
from studies.shared import run_main

REFERENCES = {"unscaled": "without duplicates", "scaled": "all jobs"}


def main() -> None:
    trace = read_trace(find_trace(CTC, Path()), processors=BATCH_PARTITION).workload
    loads = [load for load in FULL.loads if load > 1]
    rows = []
    for reference, text in REFERENCES.items():
        work = ChargedRuns(trace, FULL.jobs, FULL.every, reference)
        found = []
        for load in loads:
            cases = [Case(load=load, tolerance_factor=factor) for factor in (10.0, 1.0)]
            charges = [[work((case, seed)).qos_charge for case in cases] for seed in FULL.seeds]
            found.append(changes(*zip(*charges, strict=True)))
        means = [*found, np.mean(found, axis=0).tolist()]
        rows.append([text, *(mean_interval(each).as_changes().text(sign="+") for each in means)])
    heads = [f"load {load:g}" for load in loads]
    print("\n".join(markdown_table(["deadlines from EASY on", *heads, "mean"], rows)))


if __name__ == "__main__":
    run_main(main)
