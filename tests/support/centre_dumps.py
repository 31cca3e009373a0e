"""Accounting of made centres: partitions of their own sizes and loads, whose jobs a scheduler has
run, EASY by default.

``python tests/support/centre_dumps.py 500000 > dump.txt`` writes a dump of so many records,
``--scheduler slurm:weight_age=1000`` one of another scheduler, ``--patience 12`` one whose users
cancel jobs that wait: half of them within 12 h times ln 2 of waiting, some users sooner.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from qops_batsim.core import HostSet
from qops_batsim.engine import ExternalEvent
from qops_batsim.experiments import contestant_of, outcomes_of
from qops_batsim.platform import make_cluster
from qops_batsim.protocol import make_scheduler
from qops_batsim.workload import Workload, delay_profile, run_times_until_killed
from qops_batsim.workload.workload_model import read_jobs

HEADER = "JobID|User|Account|Partition|QOS|Reservation|State|Submit|Start|End|ElapsedRaw"
HEADER += "|AllocCPUS|AllocNodes|ReqTRES|AllocTRES|Timelimit"
BEGIN = 1704067200


@dataclass(frozen=True)
class Partition:
    """A partition: its size in cores, load, widths of jobs, and median run time (seconds)."""

    name: str
    cores: int
    load: float
    widths: tuple[int, ...]
    run_time: float
    gpus: int = 0


CENTRE = (
    Partition("bigmem", 256, 0.45, (1, 8, 32, 64), 7200.0),
    Partition("cpu", 1024, 0.75, (1, 4, 16, 64, 256), 3600.0),
    Partition("gpu", 512, 0.95, (8, 16, 64, 256), 9000.0, gpus=64),
    Partition("short", 128, 0.3, (1, 2, 4), 300.0),
)
OPPOSITE = (
    Partition("busy", 256, 1.05, (8, 16, 64, 128), 7200.0),
    Partition("idle", 256, 0.1, (1, 2, 4), 1800.0),
)


def jobs_of(part: Partition, count: int, seed: int, users: list[int]) -> Workload:
    """Return jobs that arrive at random so that the partition has its load."""
    rng = np.random.default_rng(seed)
    width = rng.choice(part.widths, count)
    run_time = np.maximum(rng.lognormal(np.log(part.run_time), 1.0, count), 30).round()
    walltime = np.ceil(run_time * rng.choice([1.1, 2.0, 4.0], count) / 60) * 60
    gap = (width * run_time).mean() / (part.cores * part.load)
    submitted = rng.exponential(gap, count).cumsum().round()
    names = dict(delay_profile(each) for each in set(run_time.tolist()))
    rows = [
        {
            "id": str(at),
            "subtime": s,
            "res": int(w),
            "walltime": limit,
            "profile": profile,
            "user": f"u{users[at]}",
            "group": f"acc{users[at] % 3}",
        }
        for at, (s, w, limit, r) in enumerate(
            zip(
                submitted.tolist(),
                width.tolist(),
                walltime.tolist(),
                run_time.tolist(),
                strict=True,
            )
        )
        for profile in [delay_profile(r)[0]]
    ]
    return Workload(jobs=read_jobs(rows, names, "made"), profiles=names, processors=part.cores)


def clock(seconds: float) -> str:
    """Return a date as sacct shows it."""
    return str(np.datetime64(int(BEGIN + seconds), "s"))


def make_rows(
    parts: tuple[Partition, ...],
    jobs: int,
    seed: int = 1,
    *,
    scheduler: str = "easy",
    settings: Mapping[str, Any] | None = None,
    patience: float | None = None,
) -> list[tuple[float, str, list[str]]]:
    """Return the rows of so many jobs a partition, with date of submission and partition.

    With ``patience``, users cancel jobs that wait, at random dates with that mean (seconds) of
    their wait; of user u1 two ninths of it, of u8 sixteen ninths.
    """
    rows: list[tuple[float, str, list[str]]] = []
    for number, part in enumerate(parts):
        rng = np.random.default_rng(seed + 100 + number)
        users = rng.integers(1, 9, jobs).tolist()
        # Of a GPU partition, half of the jobs have one core a GPU: GPUs bind them.
        few = rng.random(jobs) < 0.5
        workload = jobs_of(part, jobs, seed + number, users)
        waits = np.full(jobs, np.inf)
        if patience is not None:
            waits = rng.standard_exponential(jobs) * patience * np.array(users) / 4.5
        outcomes, _ = outcomes_of(
            workload,
            make_cluster(workload.processors),
            make_scheduler(scheduler, dict(settings or {})),
            events=cancellations(workload, waits) if patience is not None else None,
        )
        finishes = dict(zip(outcomes.ids, outcomes.finish.tolist(), strict=True))
        refused = dict(zip(outcomes.ids, outcomes.refused.tolist(), strict=True))
        lasted = run_times_until_killed(workload)
        for at, job in enumerate(workload.jobs):
            run_time = workload.profiles[job.profile]["delay"]
            cores, tres = job.processors, ""
            if part.gpus:
                gpus = max(job.processors * part.gpus // part.cores, 1)
                cores = gpus if few[at] else job.processors
                tres = f",gres/gpu={gpus},gres/gpu:a100={gpus}"
            asked = f"cpu={cores},node=1{tres}"
            cells = [f"u{users[at]}", f"acc{users[at] % 3}", part.name, "normal", ""]
            if refused[job.id]:
                gone = clock(job.submission_time + waits[at])
                cells += ["CANCELLED by 1000", clock(job.submission_time), "None", gone]
                cells += ["0", "0", "0", asked, ""]
            else:
                start = finishes[job.id] - lasted[at]
                cells += ["COMPLETED", clock(job.submission_time), clock(start)]
                cells += [clock(start + run_time), str(int(run_time)), str(cores), "1"]
                cells += [asked, asked]
            cells.append(f"{int(job.walltime or 0) // 60}:00")
            rows.append((job.submission_time, part.name, cells))
    return sorted(rows, key=lambda row: row[0])


def cancellations(workload: Workload, waits: np.ndarray) -> list[ExternalEvent]:
    """Return the cancellations of jobs that wait so long (seconds), in their order."""
    dates = [job.submission_time + wait for job, wait in zip(workload.jobs, waits, strict=True)]
    found = []
    for place in np.argsort(dates, kind="stable").tolist():
        fields = {"type": "job_cancelled", "job_id": f"w0!{workload.jobs[place].id}"}
        event = ExternalEvent(dates[place], "job_cancelled", HostSet(0), fields)
        found.append(event)
    return found


def text_of(rows: list[tuple[float, str, list[str]]], *, pooled: bool = False) -> str:
    """Return rows as ``sacct --parsable2`` prints them, ``pooled`` without their partitions."""
    lines = [HEADER.replace("Partition|", "") if pooled else HEADER]
    for number, (_, _, cells) in enumerate(rows, start=1000):
        told = cells[:2] + cells[3:] if pooled else cells
        lines.append("|".join([str(number), *told]))
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("records", type=int)
    parser.add_argument("--scheduler", default="easy")
    parser.add_argument("--patience", type=float, help="mean patience in hours")
    given = parser.parse_args()
    chosen = contestant_of(given.scheduler)
    sys.stdout.write(
        text_of(
            make_rows(
                CENTRE,
                given.records // len(CENTRE),
                scheduler=chosen.scheduler,
                settings=dict(chosen.settings),
                patience=None if given.patience is None else 3600 * given.patience,
            )
        )
    )
