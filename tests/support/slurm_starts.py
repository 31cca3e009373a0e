"""Forecasts of starts beside a real Slurm that runs a stretch of a log, as root.

    python tests/support/slurm_starts.py DIR [--log LOG] [--burst SEED]

A second of this Slurm counts as :data:`FACTOR` seconds of the log, whose widths are scaled to 32
nodes; the job's name tells its user. It takes 17 minutes. DIR gets what `squeue --json` says every
15 s, dated as in the log (``queue-N.json``), the log's jobs before the stretch (``history.swf``),
what `scontrol show config` says (``config.txt``, in seconds of Slurm), and when each job started
(``starts.json``); also the history with the stretch as it ran (``ran.swf``) and when Slurm expected
its jobs to start (``looks.jsonl``), for `queue backtest --slurm-estimates`. slurm_starts_judge.py
compares forecasts with that. With --burst, one user submits ten times the work that waits on
average under EASY, at a date of the stretch's middle third that is drawn. Nothing else should keep
the machine busy: Slurm would start jobs later.
"""

from __future__ import annotations

import argparse
import gzip
import json
import math
import os
import sys
import threading
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from qops_batsim.live import SlurmManager
from qops_batsim.live.record import Recorder
from qops_batsim.queue import moment_of, past_of
from qops_batsim.queue.backtest import simulated_past
from qops_batsim.queue.queue_load import load_of
from qops_batsim.traces import read_partitions
from support.needs import shared_data
from support.slurm_cluster import SlurmCluster, missing

FACTOR = 240
"""Seconds of the log for one of Slurm's."""

NODES = 32
FIRST, COUNT = 17_964, 340
"""Stretch of the log: 60 h of KTH in which 289 of 380 jobs wait."""

SHORTEST, RELEASE = 4, 1.0
"""Shortest job, and how long its nodes are not free yet after it (seconds of Slurm)."""

BURST, MOST = "9999", 400
"""User of a burst, and its most jobs."""

LATER = 1300 * 7 * 86_400
"""By how much later the log is than it was (seconds): queues are of no date before 2000."""

POLL = 15.0
"""Seconds between two looks at the queue."""

SETTINGS = (
    "MinJobAge=20000",
    "PriorityType=priority/multifactor",
    "PriorityWeightAge=1000",
    "PriorityWeightJobSize=200",
    "PriorityMaxAge=42",
    "PriorityCalcPeriod=1",
    "SchedulerParameters=bf_interval=1,sched_interval=1,bf_resolution=1,bf_continue",
)
"""Priorities by age and size; a week of the log is 42 minutes."""

_DATES = ("submit_time", "start_time", "end_time", "eligible_time", "last_sched_eval")


def scaled(fields: list[str], processors: int) -> list[str]:
    """Return the fields of a job of SWF on this machine, its times in whole seconds of Slurm."""
    width = max(math.ceil(int(fields[7]) * NODES / processors), 1)
    limit = math.ceil(int(fields[8]) / (60 * FACTOR)) * 60 * FACTOR
    run_time = min(max(round(int(fields[3]) / FACTOR), SHORTEST) * FACTOR, limit)
    return [
        *fields[:3],
        str(run_time),
        str(width),
        *fields[5:7],
        str(width),
        str(limit),
        *fields[9:],
    ]


def with_burst(base: Path, rows: list[list[str]], stretch: list[list[str]], seed: int) -> Any:
    """Return a stretch of a log in which, once, one user submits jobs like those of the log before
    (SWF), with ten times the work that waits there on average if EASY decides.
    """
    rng = np.random.default_rng(seed)
    past = simulated_past(past_of(read_partitions(base / "history.swf")[0][""]))
    dates = rng.uniform(past.submissions[0], past.submissions[-1], 200)
    loads = [load_of(past, moment_of(past, date).waiting).hours for date in dates.tolist()]
    asked = 10 * 3600 * NODES * float(np.mean(loads))

    begin, end = int(stretch[0][1]), int(stretch[-1][1])
    date = round(float(rng.uniform(begin + (end - begin) / 3, begin + 2 * (end - begin) / 3)))
    added: list[list[str]] = []
    while asked > 0 and len(added) < MOST:
        row = rows[rng.integers(len(past.submissions))]
        asked -= int(row[7]) * int(row[8])
        added.append([f"9{len(added):05}", str(date), *row[2:11], BURST, *row[12:]])
    sys.stdout.write(
        f"burst: {len(added)} jobs at {(date - begin) / 3600:.1f} h, "
        f"{np.mean(loads):.1f} h of the machine wait on average\n"
    )
    return sorted([*stretch, *added], key=lambda row: int(row[1]))


def stretched(data: dict[str, Any], began: float, origin: float) -> dict[str, Any]:
    """Return what squeue says, with the dates and limits of the log; names of jobs are users."""
    for job in data["jobs"]:
        for name in _DATES:
            if job.get(name):
                job[name] = round(origin + (job[name] - began) * FACTOR)
        job["time_limit"] *= FACTOR
        job["user_name"] = job["name"]
        job["name"] = "1"
    return data


def replay(base: Path, log: Path, first: int, count: int, burst: int | None) -> None:
    """Run the stretch, and write what is told of it."""
    lines = gzip.decompress(log.read_bytes()).decode().splitlines()
    head = [line for line in lines if line.startswith(";")]
    told = {
        name: line.split(":", 1)[1].strip()
        for line in head
        for name in ("MaxProcs", "UnixStartTime")
        if line.startswith(f"; {name}:")
    }
    unix, processors = int(told["UnixStartTime"]) + LATER, int(told["MaxProcs"])
    rows = [line.split() for line in lines if line[:1] not in (";", "")]
    rows = [scaled(row, processors) for row in rows if int(row[3]) > 0 and int(row[8]) > 0]
    stretch = rows[first : first + count]
    head = [line for line in head if not line.startswith(("; Max", "; UnixStartTime"))]
    head += [f"; MaxProcs: {NODES}", f"; UnixStartTime: {unix}"]
    (base / "history.swf").write_text("\n".join([*head, *map(" ".join, rows[:first]), ""]))
    if burst is not None:
        stretch = with_burst(base, rows, stretch, burst)
    origin = unix + int(stretch[0][1])
    place = TemporaryDirectory(prefix="slurm-", ignore_cleanup_errors=True)
    with place as home, SlurmCluster(Path(home), NODES, SETTINGS) as cluster:
        (base / "config.txt").write_text(cluster.run("scontrol", "show", "config"))
        began = time.time()
        looked = began
        looks = 0
        ids = dict[str, int]()
        ended = threading.Event()

        def date_of(seconds: float) -> float:
            return origin + (seconds - began) * FACTOR

        class InTheLog(SlurmManager):
            """Slurm with the ids and dates of the log."""

            def expected_starts(self) -> dict[str, float | None]:
                return {
                    stretch[ids[job]][0]: None if start is None else date_of(start)
                    for job, start in super().expected_starts().items()
                    if job in ids
                }

        def record() -> None:
            os.environ |= {name: cluster.env[name] for name in ("SLURM_CONF", "PATH")}
            with Recorder(base / "looks.jsonl", InTheLog()) as recorder:
                while not ended.wait(1.0):
                    recorder.look(date_of(time.time()))

        recording = threading.Thread(target=record, daemon=True)
        recording.start()

        def look(name: str, *further: str) -> dict[str, Any]:
            date = time.time()
            data = json.loads(cluster.run("squeue", "-a", *further, "--json"))
            now = origin + (date - began) * FACTOR
            data = {**stretched(data, began, origin), "last_update": round(now)}
            (base / name).write_text(json.dumps(data))
            return data

        for number, row in enumerate(stretch):
            due = began + (int(row[1]) - int(stretch[0][1])) / FACTOR
            while (left := due - time.time()) > 0:
                if time.time() - looked >= POLL:
                    looked += POLL
                    look(f"queue-{looks}.json")
                    looks += 1
                time.sleep(min(left, 0.5))
            minutes = int(row[8]) // (60 * FACTOR)
            run_time = int(row[3]) / FACTOR
            options = ["-N", row[7], "-t", str(minutes), "-J", row[11]]
            ids[cluster.submit(f"exec sleep {run_time - RELEASE:g}", *options)] = number
        while cluster.run("squeue", "-h", "-t", "PD,R,CG", "-o", "%i").split():
            if time.time() - looked >= POLL:
                looked += POLL
                look(f"queue-{looks}.json")
                looks += 1
            time.sleep(1)
        last = look("ended.json", "-t", "all")
        ended.set()
        recording.join()
    (base / "ended.json").unlink()
    starts = {str(job["job_id"]): job["start_time"] for job in last["jobs"]}
    (base / "starts.json").write_text(json.dumps(starts))
    ran = []
    for job in last["jobs"]:
        submitted, start, end = (job[f"{name}_time"] - unix for name in ("submit", "start", "end"))
        row = stretch[ids[str(job["job_id"])]]
        ran.append([row[0], str(submitted), str(start - submitted), str(end - start), *row[4:]])
    ran.sort(key=lambda row: int(row[1]))
    rows = [*rows[:first], *ran]
    (base / "ran.swf").write_text("\n".join([*head, *map(" ".join, rows), ""]))
    sys.stdout.write(f"{len(starts)} jobs, {looks} looks, {time.time() - began:.0f} s\n")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("dir", type=Path)
    parser.add_argument("--log", type=Path, help="default: KTH's, from QOPS_SHARED")
    parser.add_argument("--first", type=int, default=FIRST)
    parser.add_argument("--jobs", type=int, default=COUNT)
    parser.add_argument("--burst", type=int, metavar="SEED")
    given = parser.parse_args()
    if why := missing():
        parser.error(why)
    log = given.log or Path(shared_data().required(), "traces", "KTH-SP2-1996-2.swf.gz")
    given.dir.mkdir(parents=True, exist_ok=True)
    replay(given.dir, log, given.first, given.jobs, given.burst)


if __name__ == "__main__":
    main()
