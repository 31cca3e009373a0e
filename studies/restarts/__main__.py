"""Foresight that takes starts back, against QoPS and its rivals (README.md).

    python studies/restarts [--quick] [--write studies/restarts/tables.md]
    python studies/restarts --random 1000000
    python studies/restarts --checkpoints

The first makes the runs, each checked and kept as a line of OUT/restarts.jsonl, so that it can be
interrupted, and prints the tables; the second runs random jobs from seeds 0, 1, ... instead and
counts late promises; the third compares a log with the same one whose jobs save their work. Logs
are read from QOPS_SHARED (default ../shared).
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from functools import cache
from itertools import product
from pathlib import Path
from typing import NamedTuple

import msgspec
import numpy as np

if __name__ == "__main__":  # the checkout, which has the studies
    sys.path.append(str(Path(__file__).resolve().parents[2]))

from qops_batsim import Job, QosRequest
from qops_batsim.analysis import AdmissionMetrics, admission_metrics
from qops_batsim.experiments import (
    AMOUNT,
    UNLIMITED,
    DeadlineRuns,
    Scenario,
    checked_outcomes,
    find_trace,
    markdown_table,
    nested_interval,
)
from qops_batsim.platform import make_cluster
from qops_batsim.scheduling import make_scheduler
from qops_batsim.workload import Workload, generate_workload, read_trace
from studies.random_jobs import random_jobs
from studies.shared import arguments, print_or_put, run_main, settings_of

SETTINGS = settings_of(__file__)
LOGS = {log["name"]: log for log in SETTINGS["logs"]}
CONTESTANTS = SETTINGS["contestants"]
BASE, *OTHERS = CONTESTANTS
RESTARTS = CONTESTANTS["foresight, restarts"]
JOBS, LOAD, SEEDS = SETTINGS["jobs"], SETTINGS["load"], SETTINGS["seeds"]


class Found(NamedTuple):
    """Refused jobs and work (%), kills for 100 jobs, and work that they wasted (%)."""

    jobs: float
    work: float
    kills: float
    wasted: float


Results = dict[tuple[str, int, int, str], Found]


@cache
def runs_of(name: str) -> DeadlineRuns:
    log = LOGS[name]
    if log["source"].endswith(".gz"):
        path = find_trace(log["source"], Path())
        workload = read_trace(path, processors=log["processors"]).workload
    else:
        workload = generate_workload(
            log["source"],
            jobs=max(log["skips"]) + JOBS,
            seed=SETTINGS["generated_seed"],
            processors=log["processors"],
            load=SETTINGS["generated_load"],
        )
    return DeadlineRuns({name: workload})


def measure(metrics: AdmissionMetrics) -> Found:
    assert metrics.unadmitted_work is not None
    kills = 100.0 * metrics.kills / metrics.jobs
    return Found(
        metrics.unadmitted_jobs, metrics.unadmitted_work, kills, metrics.wasted_work or 0.0
    )


def make_runs(path: Path, names: list[str]) -> None:
    """Make the missing runs of some logs, the most wanted first."""
    path.parent.mkdir(parents=True, exist_ok=True)
    kept = read_kept(path)
    with path.open("a") as lines:
        for seed, place, name in product(range(1, SEEDS + 1), range(3), names):
            skip = LOGS[name]["skips"][place]
            missing = [each for each in CONTESTANTS if (name, skip, seed, each) not in kept]
            if not missing:
                continue
            workload = workload_of(name, skip, seed)
            for each in missing:
                scheduler, options = CONTESTANTS[each]
                module = make_scheduler(scheduler, options)
                # Broken promises are an error.
                found = checked_outcomes(workload, make_cluster(workload.processors), module, each)
                row = [name, skip, seed, each, measure(admission_metrics(*found))]
                print(json.dumps(row), file=lines, flush=True)
            told = f"{name}, from {skip} on, seed {seed}: {len(missing)} runs"
            print(told, file=sys.stderr, flush=True)


def workload_of(name: str, skip: int, seed: int) -> Workload:
    """Return the workload of a window and a seed."""
    return runs_of(name).workload(Scenario(log=name, skip=skip, first=JOBS, load=LOAD, seed=seed))


def read_kept(path: Path) -> Results:
    kept: Results = {}
    for line in path.read_text().splitlines() if path.is_file() else ():
        name, skip, seed, contestant, found = json.loads(line)
        kept[name, skip, seed, contestant] = Found(*found)
    return kept


def row(results: Results, where: str, contestant: str, names: list[str]) -> str:
    """Return differences to QoPS with intervals over windows, and what was killed."""
    windows: dict[tuple[str, int], list[Found]] = {}
    shares, relative, cases = [], [], 0
    for (name, skip, seed, who), found in results.items():
        base = results.get((name, skip, seed, BASE))
        if who == contestant and name in names and base is not None:
            cases += 1
            shares.append(base.jobs)
            relative.append(found.jobs)
            pair = Found(found.jobs - base.jobs, found.work - base.work, found.kills, found.wasted)
            windows.setdefault((name, skip), []).append(pair)
    if not cases:
        return ""
    cells = [where, contestant, f"{len(windows)}, {cases}", f"{np.mean(shares):.1f}"]
    cells.append(f"{100 * (sum(relative) / sum(shares) - 1):+.0f} %")
    for place in range(4):
        groups = [[each[place] for each in group] for group in windows.values()]
        # Kills and lost work are no differences.
        limits = UNLIMITED if place < 2 else AMOUNT
        found = nested_interval(groups, limits=limits)
        cells.append(found.text(sign="+" if place < 2 else ""))
    return f"| {' | '.join(cells)} |\n"


HEAD = (
    "| | contestant | windows, cases | QoPS refuses (% of jobs) | refused jobs, of QoPS's | "
    "jobs (points) | work (points) | kills per 100 jobs | work wasted (%) |\n"
    "|---|---|---|---|---|---|---|---|---|\n"
)


def tables(results: Results, names: list[str]) -> str:
    """Return the table of some logs; with all of them, also of groups of logs."""
    groups = {name: [name] for name in names}
    if len(names) == len(LOGS):
        tuned = [name for name in names if LOGS[name]["tuned"]]
        fresh = [name for name in names if name not in tuned]
        named = {"three of the study": tuned, "three never tuned on": fresh, "all six": names}
        groups = named | groups
    rows = [row(results, where, each, some) for where, some in groups.items() for each in OTHERS]
    return (
        f"Refused at load {LOAD}, S = 0.2, {JOBS} jobs a window and their duplicates, less what "
        f"QoPS refuses; 95 % intervals over windows:\n\n{HEAD}" + "".join(rows)
    )


def random_promises(count: int) -> str:
    """Run random jobs in lots of 5,000; a broken promise is an error."""
    refused = kills = 0
    lots = -(-count // 5000)
    scheduler, options = RESTARTS
    for seed in range(lots):
        module = make_scheduler(scheduler, options)
        found, _ = checked_outcomes(random_jobs(seed), make_cluster(128), module, f"seed {seed}")
        refused += int(found.refused.sum())
        kills += sum(module.qos_log.kills.values())
        if seed % 10 == 9:
            told = f"{5000 * (seed + 1):,} jobs: {refused:,} refused, {kills:,} kills"
            print(told, file=sys.stderr, flush=True)
    return f"{5000 * lots:,} random jobs: {refused:,} refused, {kills:,} kills, no promise late"


def with_checkpoints(workload: Workload, seconds: float) -> Workload:
    """Return a workload of which each job saves its work each time it has run so long more."""
    jobs = []
    for job in workload.jobs:
        asked = msgspec.structs.replace(job.qos or QosRequest(), checkpoint=seconds)
        given = job.submission_time, job.processors, job.profile, job.walltime
        jobs.append(Job(job.id, *given, qos=asked))
    return Workload(jobs=jobs, profiles=workload.profiles, processors=workload.processors)


def checkpointing(name: str, seconds: float) -> str:
    """Return what foresight with restarts refuses and wastes with and without checkpoints."""
    changes: list[Callable[[Workload], Workload]] = [
        lambda workload: workload,
        lambda workload: with_checkpoints(workload, seconds),
    ]
    windows: list[list[tuple[Found, Found]]] = []
    for skip in LOGS[name]["skips"]:
        windows.append([])
        for seed in range(1, SEEDS + 1):
            pair = []
            for change in changes:
                workload = change(workload_of(name, skip, seed))
                module = make_scheduler(*RESTARTS)
                machine = make_cluster(workload.processors)
                outcomes = checked_outcomes(workload, machine, module, name)
                pair.append(measure(admission_metrics(*outcomes)))
            windows[-1].append((pair[0], pair[1]))
    rows = []
    for told, value, limits, sign in (
        ("none", lambda pair, place: pair[0][place], AMOUNT, ""),
        (f"each {seconds:g} s", lambda pair, place: pair[1][place], AMOUNT, ""),
        ("difference", lambda pair, place: pair[1][place] - pair[0][place], UNLIMITED, "+"),
    ):
        cells = [
            nested_interval(
                [[value(pair, place) for pair in group] for group in windows], limits=limits
            ).text(sign=sign)
            for place in range(4)
        ]
        rows.append([told, *cells])
    heads = ["checkpoints", "refused jobs (%)", "refused work (%)", "kills per 100 jobs"]
    return "\n".join(markdown_table([*heads, "work wasted (%)"], rows))


def main() -> None:
    parser = arguments(__file__, __doc__)
    parser.add_argument("--random", type=int, help="run so many random jobs instead")
    parser.add_argument("--checkpoints", action="store_true", help="compare with jobs that save")
    asked = parser.parse_args()
    if asked.checkpoints:
        print(checkpointing(SETTINGS["log"], SETTINGS["checkpoint"]))
    elif asked.random:
        print(random_promises(asked.random))
    else:
        names = [log["name"] for log in settings_of(__file__, quick=asked.quick)["logs"]]
        path = asked.out / "restarts.jsonl"
        make_runs(path, names)
        print_or_put(tables(read_kept(path), names), asked.write)


if __name__ == "__main__":
    run_main(main)
