"""Accounting of made centres: partitions of their own sizes and loads, whose jobs EASY has run.

``python tests/support/centre_dumps.py 500000 > dump.txt`` writes a dump of so many records.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass

import numpy as np

from qops_batsim.advice.trace_runs import run_easy
from qops_batsim.workload.delay_jobs import run_times_until_killed
from qops_batsim.workload.model import Workload, delay_profile, read_jobs

HEADER = "JobID|User|Account|Partition|QOS|Reservation|State|Submit|Start|End|ElapsedRaw"
HEADER += "|AllocCPUS|AllocNodes|AllocTRES|Timelimit"
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


def jobs_of(part: Partition, count: int, seed: int) -> Workload:
    """Return jobs that arrive at random so that the partition has its load."""
    rng = np.random.default_rng(seed)
    width = rng.choice(part.widths, count)
    run_time = np.maximum(rng.lognormal(np.log(part.run_time), 1.0, count), 30).round()
    walltime = np.ceil(run_time * rng.choice([1.1, 2.0, 4.0], count) / 60) * 60
    gap = (width * run_time).mean() / (part.cores * part.load)
    submitted = rng.exponential(gap, count).cumsum().round()
    names = dict(delay_profile(each) for each in set(run_time.tolist()))
    rows = [
        {"id": str(at), "subtime": s, "res": int(w), "walltime": limit, "profile": profile}
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
    parts: tuple[Partition, ...], jobs: int, seed: int = 1
) -> list[tuple[float, str, list[str]]]:
    """Return the rows of so many jobs a partition, with date of submission and partition."""
    rows: list[tuple[float, str, list[str]]] = []
    for number, part in enumerate(parts):
        workload = jobs_of(part, jobs, seed + number)
        responses = run_easy(workload).responses
        lasted = run_times_until_killed(workload)
        rng = np.random.default_rng(seed + 100 + number)
        users = rng.integers(1, 9, jobs).tolist()
        # Of a GPU partition, half of the jobs have one core a GPU: GPUs bind them.
        few = rng.random(jobs) < 0.5
        for at, job in enumerate(workload.jobs):
            run_time = workload.profiles[job.profile]["delay"]
            start = job.submission_time + responses[job.id] - lasted[at]
            cores, tres = job.processors, ""
            if part.gpus:
                gpus = max(job.processors * part.gpus // part.cores, 1)
                cores = gpus if few[at] else job.processors
                tres = f",gres/gpu={gpus},gres/gpu:a100={gpus}"
            cells = [f"u{users[at]}", f"acc{users[at] % 3}", part.name, "normal", "", "COMPLETED"]
            cells += [clock(job.submission_time), clock(start), clock(start + run_time)]
            cells += [str(int(run_time)), str(cores), "1", f"cpu={cores},node=1{tres}"]
            cells.append(f"{int(job.walltime or 0) // 60}:00")
            rows.append((job.submission_time, part.name, cells))
    return sorted(rows, key=lambda row: row[0])


def text_of(rows: list[tuple[float, str, list[str]]], *, pooled: bool = False) -> str:
    """Return rows as ``sacct --parsable2`` prints them, ``pooled`` without their partitions."""
    lines = [HEADER.replace("Partition|", "") if pooled else HEADER]
    for number, (_, _, cells) in enumerate(rows, start=1000):
        told = cells[:2] + cells[3:] if pooled else cells
        lines.append("|".join([str(number), *told]))
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.stdout.write(text_of(make_rows(CENTRE, int(sys.argv[1]) // len(CENTRE))))
