"""Foresight that takes starts back, against QoPS and its rivals: the study of docs/restarts.md.

    python benchmarks/restarts_study.py out/restarts
    python benchmarks/restarts_study.py out/restarts --write docs/restarts.md
    python benchmarks/restarts_study.py out/restarts --random 1000000
    python benchmarks/restarts_study.py out/restarts --checkpoint 3600 --log "KTH 100"

The first makes the runs, the most wanted first, each checked and kept as a line of
out/restarts/restarts.jsonl, so that it can be interrupted; the second writes the tables of what is
there between the marks of a page, the third runs random jobs from seeds 0, 1, ... instead and
counts late promises, the fourth compares a log with the same one whose jobs save their work.
Logs are read from QOPS_SHARED (default ../shared). Three are those of the study of foresight; three
were never tuned on: other windows of CTC on a machine of another size, and workloads of the model
of Lublin and Feitelson for machines that no log here has.
"""

from __future__ import annotations

import argparse
import json
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np
from tables_in_page import print_or_put

from qops_batsim.analysis.metrics.admission import AdmissionMetrics, admission_metrics
from qops_batsim.experiments.deadline_runs import DeadlineRuns, Scenario, checked_outcomes
from qops_batsim.experiments.statistics import AMOUNT, UNLIMITED, nested_interval
from qops_batsim.experiments.traces import find_trace
from qops_batsim.jobs import Job, QosRequest
from qops_batsim.platform.generate import make_cluster
from qops_batsim.scheduling.registry import make_scheduler
from qops_batsim.workload.generate import generate_workload
from qops_batsim.workload.model import Workload, delay_profile
from qops_batsim.workload.traces import read_trace

JOBS, LOAD, SEEDS = 3000, 1.4, 4


class Log(NamedTuple):
    """A log of a number of processors: its file or preset, and jobs before each window."""

    source: str
    processors: int
    windows: tuple[int, ...]
    tuned: bool


KTH, SDSC, CTC = (
    f"{name}.swf.gz" for name in ("KTH-SP2-1996-2", "SDSC-SP2-1998-rebuilt", "CTC-SP2-1996-rebuilt")
)
LOGS = {
    "KTH 100": Log(KTH, 100, (5000, 15000, 20000), True),
    "SDSC 128": Log(SDSC, 128, (5000, 25000, 45000), True),
    "CTC 338": Log(CTC, 338, (20000, 50000, 65000), True),
    "CTC 430, other windows": Log(CTC, 430, (10000, 42000, 57000), False),
    "Lublin 64": Log("lublin-batch", 64, (0, 3000, 6000), False),
    "Lublin 256": Log("lublin-batch", 256, (0, 3000, 6000), False),
}
KILLS = {"kill_and_restart": True}
CONTESTANTS: dict[str, tuple[str, dict[str, Any]]] = {
    "qops": ("qops", {}),
    "foresight": ("foresight", {}),
    "fqops, kills, no tolerance": ("fqops", KILLS),
    "foresight, restarts": ("foresight", KILLS),
    "foresight, restarts, prices .75, .75": (
        "foresight",
        {**KILLS, "admission_price": 0.75, "placement_price": 0.75},
    ),
}


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
    if log.source.endswith(".gz"):
        path = find_trace(log.source, Path())
        workload = read_trace(path, processors=log.processors).workload
    else:
        count = max(log.windows) + JOBS
        workload = generate_workload(
            log.source, jobs=count, seed=7, processors=log.processors, load=0.75
        )
    return DeadlineRuns({name: workload})


def measure(metrics: AdmissionMetrics) -> Found:
    assert metrics.unadmitted_work is not None
    kills = 100.0 * metrics.kills / metrics.jobs
    return Found(
        metrics.unadmitted_jobs, metrics.unadmitted_work, kills, metrics.wasted_work or 0.0
    )


def make_runs(path: Path) -> None:
    kept = read_kept(path)
    with path.open("a") as lines:
        for seed, place, name in product(range(1, SEEDS + 1), range(3), LOGS):
            skip = LOGS[name].windows[place]
            missing = [each for each in CONTESTANTS if (name, skip, seed, each) not in kept]
            if not missing:
                continue
            scenario = Scenario(log=name, skip=skip, first=JOBS, load=LOAD, seed=seed)
            workload = runs_of(name).workload(scenario)
            for each in missing:
                scheduler, options = CONTESTANTS[each]
                module = make_scheduler(scheduler, options)
                # Broken promises are an error.
                found = checked_outcomes(workload, make_cluster(workload.processors), module, each)
                row = [name, skip, seed, each, measure(admission_metrics(*found))]
                print(json.dumps(row), file=lines, flush=True)
            print(f"{name}, from {skip} on, seed {seed}: {len(missing)} runs", flush=True)


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
        base = results.get((name, skip, seed, "qops"))
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


def tables(results: Results) -> str:
    tuned = [name for name, log in LOGS.items() if log.tuned]
    fresh = [name for name in LOGS if name not in tuned]
    groups = {"three of the study": tuned, "three never tuned on": fresh, "all six": list(LOGS)}
    groups |= {name: [name] for name in LOGS}
    head = (
        "| | contestant | windows, cases | QoPS refuses (% of jobs) | refused jobs, of QoPS's | "
        "jobs (points) | work (points) | kills per 100 jobs | work wasted (%) |\n"
        "|---|---|---|---|---|---|---|---|---|\n"
    )
    others = [each for each in CONTESTANTS if each != "qops"]
    return (
        f"Refused at load {LOAD}, S = 0.2, {JOBS} jobs a window and their duplicates, less what "
        f"QoPS refuses; 95 % intervals over windows:\n\n{head}"
        + "".join(
            row(results, where, each, names) for where, names in groups.items() for each in others
        )
    )


def random_promises(count: int) -> str:
    """Run random jobs in lots of 5,000; a broken promise is an error."""
    refused = kills = 0
    lots = -(-count // 5000)
    for seed in range(lots):
        rng = np.random.default_rng(seed)
        dates = np.cumsum(np.round(rng.exponential(250, 5000), 3))
        seconds = np.ceil(rng.lognormal(6, 1.8, 5000))
        laxities = rng.choice([0.0, 0.3, 1.0, 5.0], 5000) * seconds
        processors = rng.integers(1, 40, 5000)
        jobs, profiles = [], {}
        columns = (each.tolist() for each in (dates, seconds, laxities, processors))
        for index, (date, run_time, laxity, needed) in enumerate(zip(*columns, strict=True)):
            profile, content = delay_profile(run_time)
            profiles[profile] = content
            asked = QosRequest(deadline=date + run_time + laxity, estimated_runtime=run_time)
            jobs.append(Job(str(index), date, needed, profile, qos=asked))
        workload = Workload(jobs=jobs, profiles=profiles, processors=128)
        module = make_scheduler("foresight", KILLS)
        found, _ = checked_outcomes(workload, make_cluster(128), module, f"seed {seed}")
        refused += int(found.refused.sum())
        kills += sum(module.qos_log.kills.values())
        if seed % 10 == 9:
            print(f"{5000 * (seed + 1):,} jobs: {refused:,} refused, {kills:,} kills", flush=True)
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
    found: dict[str, list[list[Found]]] = {"none": [], f"each {seconds:g} s": [], "difference": []}
    for skip in LOGS[name].windows:
        groups: list[list[Found]] = [[] for _ in found]
        for seed in range(1, SEEDS + 1):
            scenario = Scenario(log=name, skip=skip, first=JOBS, load=LOAD, seed=seed)
            workload = runs_of(name).workload(scenario)
            for place, each in enumerate((workload, with_checkpoints(workload, seconds))):
                module = make_scheduler("foresight", KILLS)
                outcomes = checked_outcomes(each, make_cluster(each.processors), module, name)
                groups[place].append(measure(admission_metrics(*outcomes)))
            pair = zip(groups[1][-1], groups[0][-1], strict=True)
            groups[2].append(Found(*(one - other for one, other in pair)))
        for rows, group in zip(found.values(), groups, strict=True):
            rows.append(group)
    lines = [
        "| checkpoints | refused jobs (%) | refused work (%) | kills per 100 jobs | wasted (%) |",
        "|---|---|---|---|---|",
    ]
    for told, windows in found.items():
        cells = [
            nested_interval(
                [[each[place] for each in group] for group in windows],
                limits=UNLIMITED if told == "difference" else AMOUNT,
            ).text(sign="+" if told == "difference" else "")
            for place in range(4)
        ]
        lines.append(f"| {told} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("directory", type=Path)
    parser.add_argument("--write", type=Path, help="page to put the tables into")
    parser.add_argument("--random", type=int, help="run so many random jobs instead")
    parser.add_argument("--checkpoint", type=float, help="compare with jobs that save their work")
    parser.add_argument("--log", choices=LOGS, default="KTH 100", help="log of that comparison")
    asked = parser.parse_args()
    if asked.checkpoint:
        print(checkpointing(asked.log, asked.checkpoint))
        return
    if asked.random:
        print(random_promises(asked.random))
        return
    asked.directory.mkdir(parents=True, exist_ok=True)
    path = asked.directory / "restarts.jsonl"
    if asked.write is None:
        make_runs(path)
    print_or_put(tables(read_kept(path)), asked.write)


if __name__ == "__main__":
    main()
