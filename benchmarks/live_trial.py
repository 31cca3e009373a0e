"""Trial of live decisions on a real Slurm on this machine, as root: a window of a log, scaled.

    python benchmarks/live_trial.py kth_sp2_1000 --scheduler qops --nodes 16
    python benchmarks/live_trial.py sdsc_sp2_1000 --alone --nodes 32

Times of the log are divided so that the submissions take so many seconds, widths are scaled to the
nodes, run times cut at a minute, limits rounded up to whole minutes. Every job asks for a deadline:
its submission plus its limit and the margin, times a factor drawn evenly from 1.05 to 4. The job
itself sleeps for its run time. Prints one line of JSON; docs/live.md has the table.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

from qops_batsim.live.journal import Journal
from qops_batsim.live.manager import JobPhase
from qops_batsim.live.report import report
from qops_batsim.shipped import find_input
from qops_batsim.workload.batsim_json import read_workload
from qops_batsim.workload.delay_jobs import run_times_until_killed
from qops_batsim.workload.scale import subset
from support.live_agreement import agreement
from support.slurm_cluster import SlurmCluster, missing

MARGIN = 2.0
LONGEST = 60.0
"""Longest run time (seconds) of a job after scaling; limits are at most three times as long."""

KILLS = ["--set", "kill_and_restart=true", "--set", "tolerance_factor=1.5"]


def window(trace: str, nodes: int, count: int, skip: int, seconds: float, seed: int) -> list[dict]:
    """Return jobs in order: seconds until submission, nodes, minutes, run time, deadline."""
    jobs = subset(read_workload(find_input(trace, "workloads")), first=count, skip=skip)
    first, last = jobs.jobs[0].submission_time, jobs.jobs[-1].submission_time
    factor, draw = (last - first) / seconds, random.Random(seed)
    found = []
    for job, run_time in zip(jobs.jobs, run_times_until_killed(jobs), strict=True):
        run_time = min(run_time / factor, LONGEST)
        minutes = math.ceil(min(max((job.walltime or 0) / factor, run_time), 3 * LONGEST) / 60)
        found.append(
            {
                "at": (job.submission_time - first) / factor,
                "nodes": max(1, math.ceil(job.processors * nodes / jobs.processors)),
                "minutes": minutes,
                "run_time": max(1.0, round(run_time, 1)),
                "deadline": round((60 * minutes + MARGIN) * draw.uniform(1.05, 4.0)),
            }
        )
    return found


def trial(arguments: argparse.Namespace, base: Path) -> dict:
    """Run the jobs on a Slurm of its own, and return what came of them."""
    jobs = window(
        *(arguments.trace, arguments.nodes, arguments.jobs, arguments.skip),
        *(arguments.seconds, arguments.seed),
    )
    journal = base / "journal.db"
    command = [sys.executable, "-m", "qops_batsim", "live"]
    if arguments.alone:
        command += ["decide"]
    else:
        command += [arguments.scheduler, "--margin", f"{MARGIN:g}s"]
        command += KILLS if arguments.scheduler == "fqops" else []
    command += ["--journal", str(journal), "--poll", "0.5s"]
    with SlurmCluster(base / "slurm", arguments.nodes) as cluster:
        log = (base / "live.log").open("w")
        live = subprocess.Popen(command, env=cluster.env, stdout=log, stderr=log)
        time.sleep(5)  # Kernels are loaded.
        restarts, run_times = 0, {}
        begun = time.monotonic()
        next_kill = arguments.kill_every
        for job in jobs:
            while (left := begun + job["at"] - time.monotonic()) > 0:
                time.sleep(min(left, 1.0))
                if arguments.kill_every and time.monotonic() - begun > next_kill:
                    live.kill()
                    live.wait()
                    live = subprocess.Popen(command, env=cluster.env, stdout=log, stderr=log)
                    restarts, next_kill = restarts + 1, next_kill + arguments.kill_every
            date = time.strftime("%FT%T", time.localtime(time.time() + job["deadline"]))
            options = ["-N", str(job["nodes"]), "-t", str(job["minutes"])]
            hold = [] if arguments.alone else ["--hold"]
            asked = [f"--deadline={date}"] if arguments.alone else [f"--comment=deadline={date}"]
            number = cluster.submit(f"exec sleep {job['run_time']}", *options, *hold, *asked)
            run_times[number] = job["run_time"]
        until = time.monotonic() + 900
        while cluster.run("squeue", "-h", "-t", "PD,R,CG", "-o", "%i").split():
            if time.monotonic() > until:
                raise TimeoutError(f"jobs still wait or run; see {base}")
            time.sleep(1)
        time.sleep(2)
        live.terminate()
        live.wait()
    with Journal(journal) as found:
        if arguments.alone:
            return alone(found)
        told, same = report(found, run_times=run_times), agreement(found, run_times)
        lags = [
            each.start - each.ordered
            for each in found.entries()
            if each.start is not None and each.ordered is not None
        ]
        lags.sort()
        return {
            **{name: getattr(told.decided, name) for name in ("promised", "kept", "refused")},
            "in_time": told.decided.in_time,
            "told_after": [round(each, 2) for each in told.told_after or ()],
            "embedded": [told.embedded.promised, told.embedded.kept, told.embedded.refused],
            "embedded_in_time": told.embedded.in_time,
            "agreeing": f"{same.told_the_same}/{same.compared}",
            "agreeing_by_dates": same.by_dates,
            "kills": sum(each.is_victim for each in found.entries()),
            "alarms": told.alarms,
            "restarts": restarts,
            "start_lag_median": round(lags[len(lags) // 2], 2) if lags else None,
        }


def alone(journal: Journal) -> dict:
    """Return what Slurm made of the jobs by itself."""
    jobs = [job for job, _ in journal.seen()]
    ended = [job for job in jobs if job.start is not None and job.phase is JobPhase.ENDED]
    refused = [job for job in jobs if job.start is None or job.start == job.end]
    waits = sorted((job.end or 0) - job.submitted for job in refused)
    in_time = [job for job in ended if job not in refused and job.outcome != "COMPLETED_KILLED"]
    return {
        "promised": 0,
        "in_time": len(in_time),
        "cancelled": len(refused),
        "cancelled_after": [waits[len(waits) // 2], waits[-1]] if waits else [],
        "jobs": len(jobs),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("trace")
    parser.add_argument("--scheduler", default="qops")
    parser.add_argument("--alone", action="store_true", help="Slurm decides, with --deadline")
    parser.add_argument("--nodes", type=int, default=16)
    parser.add_argument("--jobs", type=int, default=100)
    parser.add_argument("--skip", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=300.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--kill-every", type=float, default=0.0, help="kill -9, each so many s")
    parser.add_argument("--keep", type=Path, help="directory for all files")
    arguments = parser.parse_args()
    if why := missing():
        raise SystemExit(f"no Slurm here: {why}")
    with tempfile.TemporaryDirectory(prefix="live-trial-") as place:
        base = arguments.keep or Path(place)
        base.mkdir(parents=True, exist_ok=True)
        base.chmod(0o755)
        found = trial(arguments, base)
    asked = {name: getattr(arguments, name) for name in ("trace", "nodes", "jobs", "skip")}
    by = "slurm alone" if arguments.alone else arguments.scheduler
    print(json.dumps({**asked, "by": by, **found}))


if __name__ == "__main__":
    main()
