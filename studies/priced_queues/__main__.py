"""Queues with prices compared with EASY and QoPS (README.md).

    python studies/priced_queues [--quick] [--write studies/priced_queues/README.md]
    python studies/priced_queues --deadlines need --write studies/priced_queues/need.md

Means over the windows with 95 % intervals. Paid is processors × run time × price, in % of what all
jobs would pay in a queue of price 1; turnaround is the mean of the jobs that ran (hours). Logs are
read from QOPS_SHARED (default ../shared).
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Iterable
from itertools import product
from pathlib import Path

import numpy as np

if __name__ == "__main__":  # the checkout, which has the studies
    sys.path.append(str(Path(__file__).resolve().parents[2]))

from qops_batsim import simulate
from qops_batsim.experiments import (
    AMOUNT,
    SHARE,
    Study,
    markdown_table,
    mean_interval,
    study_inputs,
    study_of,
)
from qops_batsim.measures import fates, outcomes_of_simulation
from qops_batsim.platform import make_cluster
from qops_batsim.protocol import make_scheduler
from qops_batsim.workload import Workload
from studies.shared import (
    Settings,
    arguments,
    by_turns,
    deadlines_text,
    interval_text,
    print_or_put,
    run_main,
    settings_of,
    with_deadlines,
)

QUEUES = ("premium", "regular", "low")
COLUMNS = ("met", "turnaround", "paid", *QUEUES, *(f"met in {name}" for name in QUEUES))


def measure(settings: Settings, workload: Workload) -> dict[str, dict[str, float]]:
    """Return the columns of each scheduler on a workload."""
    found = {}
    for scheduler in settings["schedulers"]:
        module = make_scheduler(scheduler)
        done = simulate(module, workload, make_cluster(workload.processors))
        outcomes = outcomes_of_simulation(done.ended_jobs, workload)
        met, asked, ran = fates(outcomes).met, outcomes.of_user, ~outcomes.refused
        records = [module.qos_log.record(f"w0!{job_id}") for job_id in outcomes.ids]
        prices = np.array([1.0 if each.price is None else each.price for each in records])
        work = outcomes.processors * outcomes.run_time
        row = {
            "met": 100.0 * float(met.sum() / asked.sum()),
            "turnaround": float((outcomes.finish - outcomes.submission)[ran].mean()) / 3600.0,
            "paid": 100.0 * float((work * prices)[ran].sum() / work.sum()),
        }
        names = np.array([each.queue for each in records])
        for name in QUEUES if scheduler == "priced-queues" else ():
            inside = names == name
            row[name] = 100.0 * float(inside.mean())
            if (inside & asked).any():
                row[f"met in {name}"] = 100.0 * float((met & inside).sum() / (asked & inside).sum())
        found[scheduler] = row
    return found


def study_on(settings: Settings, log: str, by: str) -> Study:
    """Return a log's windows, loads and shares as a study: what makes its workloads."""
    it = settings["logs"][log]
    windows = [{"skip": skip, "first": settings["jobs"]} for skip in it["skips"]]
    grid = {
        "name": "priced queues",
        "logs": [{"name": log, "file": it["file"], "processors": it["processors"]}],
        "windows": windows,
        "loads": settings["loads"],
        "deadline_shares": settings["shares"],
        "stringencies": [settings["stringency"]],
        "schedulers": settings["schedulers"],
        "estimates": "exact",
        "seeds": [1],
    }
    return with_deadlines(study_of(grid, source="study.toml"), by)


def rows_of(
    settings: Settings, log: str, load: float, share: float, workloads: Iterable[Workload]
) -> list[list[str]]:
    """Return the rows of the table for a log, a load and a share of users with deadlines."""
    values: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for workload in workloads:
        for scheduler, row in measure(settings, workload).items():
            for column, value in row.items():
                values[scheduler][column].append(value)
    lines = []
    for scheduler, columns in values.items():
        cells = []
        for column in COLUMNS:
            known = columns.get(column)
            if known is None:
                cells.append("")
                continue
            found = mean_interval(known, SHARE if column.startswith("met") else AMOUNT)
            digits = 1 if column in ("met", "turnaround") else 0
            text = interval_text(found, digits)
            cells.append(text if column in ("met", "turnaround", "paid") else text.split(" [")[0])
        lines.append([log, f"{load:g}", f"{100 * share:.0f}", f"`{scheduler}`", *cells])
    return lines


def table(settings: Settings, by: str) -> str:
    """Return the table with one kind of deadlines."""
    heads = [
        "log", "load", "users with deadlines (%)", "scheduler", "deadlines met (%)",
        "turnaround (h)", "paid (%)", *(f"in {name} (%)" for name in QUEUES),
        *(f"met in {name} (%)" for name in QUEUES),
    ]  # fmt: skip
    lines: list[list[str]] = []
    told = []
    for log in settings["logs"]:
        study = study_on(settings, log, by)
        told.append(f"{log}: {deadlines_text(study)}")
        cases, runs = study_inputs(study)
        scenarios = dict.fromkeys(case.scenario for case in cases)
        for load, share in product(settings["loads"], settings["shares"]):
            own = [each for each in scenarios if (each.load, each.share) == (load, share)]
            lines += rows_of(settings, log, load, share, map(runs.workload, own))
    return "\n".join([" ".join(told), "", *markdown_table(heads, lines)])


def main() -> None:
    asked = arguments(__file__, __doc__, by_need=True).parse_args()
    settings = settings_of(__file__, quick=asked.quick)
    print_or_put(by_turns(asked, lambda by: table(settings, by)) + "\n", asked.write)


if __name__ == "__main__":
    run_main(main)
