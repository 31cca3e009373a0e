"""What restarts, headroom and learned prices add to QoPS (README.md).

    python studies/restarts [--quick] [--workers 2] [--write studies/restarts/tables.md]
    python studies/restarts --checkpoints

The first makes the runs, each checked and kept in OUT, and prints the tables, with those of learned
prices that are kept; the second compares a log with the same one whose jobs save their work. Logs
are read from QOPS_SHARED (default ../shared).
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

if __name__ == "__main__":  # the checkout, which has the studies
    sys.path.append(str(Path(__file__).resolve().parents[2]))

from qops_batsim import Job, QosRequest
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
from qops_batsim.measures import Measures, study_measures
from qops_batsim.platform import make_cluster
from qops_batsim.protocol import make_scheduler
from qops_batsim.traces import read_trace
from qops_batsim.workload import Workload, generate_workload
from studies.shared import Settings, arguments, grid_runs, print_or_put, run_main, settings_of

LEARNED = Path(__file__).with_name("learned.csv")
BASE, RESTARTS = "qops", "restarts"


class Found(NamedTuple):
    """Refused jobs and work, and work that kills wasted (%)."""

    jobs: float
    work: float
    wasted: float


class Run(NamedTuple):
    """A run: how deadlines are made, the log, where its stretch begins, and the contestant."""

    kind: str
    log: str
    skip: int
    contestant: str


Results = dict[Run, Found]
Groups = list[list[Found]]


def generated(settings: Settings) -> dict[str, Workload]:
    """Return the workloads that are generated."""
    about, names = settings["generated"], [log["name"] for log in settings["grid"]["logs"]]
    return {
        name: generate_workload(
            about["preset"],
            jobs=about["jobs"],
            seed=processors,
            processors=processors,
            load=about["load"],
        )
        for name, processors in about["processors"].items()
        if name in names
    }


def make_runs(settings: Settings, out: Path, workers: int) -> Results:
    """Make the runs that are missing; return all."""
    made, found = generated(settings), Results()
    for kind, about in settings["kinds"].items():
        models = {
            "estimates": about["estimates"],
            "deadlines_by": about.get("made_from", about["estimates"]),
        }
        runs = grid_runs(
            settings["grid"] | models,
            out / kind,
            workers,
            about["deadlines"],
            workloads=made,
        )
        for each in runs.outcomes:
            assert isinstance(each.metrics, Measures)
            cell = each.cell
            run = Run(kind, cell.point.log, cell.window.skip, cell.contestant)
            found[run] = measure(each.metrics)
    return found


def measure(metrics: Measures) -> Found:
    assert metrics.unadmitted_work is not None
    return Found(metrics.unadmitted_jobs, metrics.unadmitted_work, metrics.wasted_work or 0.0)


def read_learned() -> Results:
    """Return the kept runs with learned prices."""
    with LEARNED.open(newline="") as lines:
        _, *rows = csv.reader(lines)
    return {
        Run(kind, log, int(skip), who): Found(*map(float, numbers))
        for kind, log, skip, who, *numbers in rows
    }


# Tables


def groups_of(results: Results, kind: str, logs: Sequence[str], who: str, less: str) -> Groups:
    """Return by log what each run of a contestant has more than that of another one.

    One log, or the model, on machines of several sizes is one: the name without its processors.
    """
    found: dict[str, list[Found]] = {}
    for run, one in results.items():
        if run.kind == kind and run.log in logs and run.contestant == who:
            other = results[run._replace(contestant=less)]
            more = Found(*(mine - its for mine, its in zip(one, other, strict=True)))
            found.setdefault(run.log.rpartition(" ")[0], []).append(more)
    return list(found.values())


def cells_of(groups: Groups) -> list[str]:
    """Return means with intervals over logs, over stretches where there is one log."""
    return [
        nested_interval([[each[place] for each in group] for group in groups]).text(sign="+")
        for place in range(len(Found._fields))
    ]


HEADS = ["deadlines, estimates", "logs", "logs, stretches", "contestant"]
NUMBERS = ["jobs (points)", "work (points)", "work wasted (points)"]


def rows_of(
    results: Results, settings: Settings, pairs: dict[str, tuple[str, str]], names: Sequence[str]
) -> Iterator[list[str]]:
    """Yield rows of differences: first where nothing was tuned, then where defaults were chosen."""
    tuned = [name for name in settings["tuned"] if name in names]
    fresh = [name for name in names if name not in tuned]
    for kind, about in settings["kinds"].items():
        for told, logs in (("untouched", fresh), ("tuned", tuned)):
            for name, (who, less) in pairs.items():
                groups = groups_of(results, kind, logs, who, less)
                if groups:
                    count = f"{len(groups)}, {sum(map(len, groups))}"
                    yield [about["text"], told, count, name, *cells_of(groups)]


def tables(results: Results, settings: Settings) -> str:
    """Return the tables in Markdown."""
    names = [log["name"] for log in settings["grid"]["logs"]]
    others = {run.contestant: (run.contestant, BASE) for run in results if run.contestant != BASE}
    contrasts = dict(settings["contrasts"])
    parts = [
        ("Less what QoPS refuses; 95 % intervals over logs:", others),
        ("One thing less another; 95 % intervals over logs:", contrasts),
    ]
    text = []
    for title, pairs in parts:
        rows = list(rows_of(results, settings, pairs, names))
        text += [title, "", *markdown_table([*HEADS, *NUMBERS], rows), ""]
    if len(names) > 1:
        by_log = [row for name in names for row in log_rows(results, settings, name, contrasts)]
        heads = [HEADS[0], "log", "stretches", HEADS[3], *NUMBERS]
        text += ["By log; 95 % intervals over stretches:", "", *markdown_table(heads, by_log), ""]
    return "\n".join(text)


def log_rows(
    results: Results, settings: Settings, name: str, pairs: dict[str, tuple[str, str]]
) -> Iterator[list[str]]:
    """Yield the rows of a log: what restarts change, and the contrasts."""
    for kind, about in settings["kinds"].items():
        for told, (who, less) in ({RESTARTS: (RESTARTS, BASE)} | pairs).items():
            for group in groups_of(results, kind, [name], who, less):
                # A stretch is a repetition here.
                cells = cells_of([[each] for each in group])
                yield [about["text"], name, str(len(group)), told, *cells]


# Jobs that save their work


def with_checkpoints(workload: Workload, seconds: float) -> Workload:
    """Return a workload of which each job saves its work each time it has run so long more."""
    jobs = []
    for job in workload.jobs:
        asked = msgspec.structs.replace(job.qos or QosRequest(), checkpoint=seconds)
        given = job.submission_time, job.processors, job.profile, job.walltime
        jobs.append(Job(job.id, *given, qos=asked))
    return Workload(jobs=jobs, profiles=workload.profiles, processors=workload.processors)


def checkpointing(settings: Settings, options: Settings) -> str:
    """Return what restarts refuse and waste on the first log with and without checkpoints."""
    log, seconds = settings["grid"]["logs"][0], settings["checkpoint"]
    trace = read_trace(find_trace(log["file"], Path()), processors=log["processors"]).workload
    runs = DeadlineRuns({log["name"]: trace})
    changes: list[Callable[[Workload], Workload]] = [
        lambda workload: workload,
        lambda workload: with_checkpoints(workload, seconds),
    ]
    found: list[list[list[tuple[float, ...]]]] = [[], []]
    for window in log["windows"]:
        for which, change in enumerate(changes):
            found[which].append([])
            for seed in range(1, settings["seeds"] + 1):
                case = Scenario(log=log["name"], skip=window["skip"], load=1.4, seed=seed)
                workload = change(runs.workload(case))
                module = make_scheduler("fqops", options)
                machine = make_cluster(workload.processors)
                metrics = study_measures(*checked_outcomes(workload, machine, module, str(case)))
                kills = 100 * metrics.kills / metrics.jobs
                found[which][-1].append((*measure(metrics), kills))
    difference = [
        [tuple(b - a for a, b in zip(*pair, strict=True)) for pair in zip(*groups, strict=True)]
        for groups in zip(*found, strict=True)
    ]
    rows = [
        [told, *(nested_interval([[each[place] for each in group] for group in groups],
                                 limits=limits).text(sign=sign) for place in range(4))]
        for told, groups, limits, sign in (
            ("none", found[0], AMOUNT, ""),
            (f"each {seconds:g} s", found[1], AMOUNT, ""),
            ("difference", difference, UNLIMITED, "+"),
        )
    ]  # fmt: skip
    heads = ["checkpoints", "refused jobs (%)", "refused work (%)", "work wasted (%)"]
    return "\n".join(markdown_table([*heads, "kills per 100 jobs"], rows))


def main() -> None:
    parser = arguments(__file__, __doc__)
    parser.add_argument("--checkpoints", action="store_true", help="compare with jobs that save")
    asked = parser.parse_args()
    settings = settings_of(__file__, quick=asked.quick)
    (chosen,) = (each for each in settings["grid"]["schedulers"] if each["name"] == RESTARTS)
    if asked.checkpoints:
        print(checkpointing(settings, chosen["settings"]))
    else:
        results = make_runs(settings, asked.out, asked.workers)
        names = {(run.kind, run.log, run.skip) for run in results}
        results |= {run: each for run, each in read_learned().items() if run[:3] in names}
        print_or_put(tables(results, settings), asked.write)


if __name__ == "__main__":
    run_main(main)
