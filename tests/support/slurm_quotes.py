"""Quotes beside the real Slurm's own answers, on nodes that jobs and partitions share, as root.

    python tests/support/slurm_quotes.py --rounds 10 --asks 15 --seed 1

In every round jobs drawn at random run and wait in two partitions on the same nodes of several
processors: jobs of some processors, of whole nodes (`--exclusive`), throttled arrays (`%k`), and
jobs that cannot start (held, `--begin`, a dependency, a limit beyond the partition's). Then asks
are drawn. Ours is that of `queue quote --nodes` on `squeue --json` and `scontrol show node`,
Slurm's those of `sbatch --test-only`, and of `squeue --start` for the job itself, submitted behind
all others and withdrawn after it.

Ours should not be earlier than possible. Slurm's own plan of jobs that wait reserves whole nodes
for them, so that it is later than possible on shared ones. Where ours is earlier, a schedule is
sought in which the job starts when ours says and no other one later than Slurm plans: jobs are put
behind each other at their earliest fits, written down once more. If there is none, the case is
printed. One line of JSON tells the counts.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import msgspec

from qops_batsim.queue import Ask, QueueSource
from qops_batsim.slurm import read_nodes
from support.slurm_cluster import SlurmCluster, missing

BACKFILL = (
    "EnforcePartLimits=NO",
    "SchedulerParameters=bf_interval=1,sched_interval=1,bf_resolution=1,bf_continue,"
    "bf_window=43200,bf_max_job_test=5000,defer_batch",
)
PARTITIONS = (
    "PartitionName=a Nodes=ALL Default=YES MaxTime=INFINITE State=UP OverSubscribe=NO",
    "PartitionName=b Nodes=ALL MaxTime=300 State=UP OverSubscribe=NO",
)
NEAR = 5.0
"""Seconds by which answers given one after the other may differ."""


def submit_some(
    cluster: SlurmCluster, draw: random.Random, count: int, size: int, whole: bool
) -> None:
    """Submit jobs of all kinds; the first fill the machine."""
    nodes = cluster.nodes
    first = cluster.submit("sleep 9999", "-n", "1", "-t", "45")
    for _ in range(count):
        part = ["-p", draw.choice(["a", "b", "a,b"])]
        limit = ["-t", str(draw.choice([7, 20, 33, 60, 90, 150]))]
        width = ["-n", str(draw.randint(1, max(1, size * 2 // 3)))]
        kind = draw.random()
        if kind < 0.15 and whole:
            width = ["-N", str(draw.randint(1, nodes)), "--exclusive"]
        elif kind < 0.3:
            tasks = draw.randint(2, 5)
            width = ["-n", str(draw.randint(1, size // 3))]
            width.append(f"--array=1-{tasks}%{draw.randint(1, tasks)}")
        elif kind < 0.35:
            limit.append("-H")
        elif kind < 0.4:
            limit.append("--begin=now+2hours")
        elif kind < 0.45:
            limit.append(f"--dependency=afterok:{first}")
        elif kind < 0.5:
            part, limit = ["-p", "b"], ["-t", "400"]
        cluster.submit("sleep 9999", *part, *limit, *width)


def queue_of(cluster: SlurmCluster) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(cluster.run("squeue", "--json"))["jobs"]
    return found


def is_planned(job: dict[str, Any]) -> bool:
    return job["job_state"] == "PENDING" and job["state_reason"] in (
        "Priority",
        "Resources",
        "None",
    )


def settled(cluster: SlurmCluster) -> list[dict[str, Any]]:
    """Return the queue once every job that waits for processors has a planned start."""
    until, last = time.monotonic() + 20, None
    while time.monotonic() < until:
        jobs = queue_of(cluster)
        now = [(job["job_id"], job["job_state"], job["start_time"]) for job in jobs]
        if now == last and all(job["start_time"] for job in jobs if is_planned(job)):
            return jobs
        last = now
        time.sleep(1.2)
    raise TimeoutError("Slurm does not plan all jobs that wait")


Span = tuple[float, float, int]
"""Start, end and processors of a job."""


def width_of(job: dict[str, Any], cpus: int) -> int:
    return max(job["cpus"], job["node_count"] * cpus if job.get("shared") == "none" else 0)


def earliest(spans: list[Span], size: int, now: float, time_: float, width: int) -> float:
    """Return when so many processors are free for so long."""
    for begin in sorted({now, *(end for _, end, _ in spans if end > now)}):
        dates = {begin, *(first for first, *_ in spans if begin < first < begin + time_)}
        if all(sum(w for s, e, w in spans if s <= d < e) + width <= size for d in dates):
            return begin
    raise ValueError(f"{width} processors of {size} are never free")


def is_possible(jobs: list[dict[str, Any]], size: int, cpus: int, now: float, ask: Span) -> bool:
    """Return whether a schedule has the job, and no other one later than Slurm plans it."""
    spans = [
        (job["start_time"], job["start_time"] + 60.0 * job["time_limit"], width_of(job, cpus))
        for job in jobs
        if job["job_state"] == "RUNNING"
    ]
    if earliest(spans, size, ask[0], ask[1] - ask[0], ask[2]) > ask[0]:
        return False
    spans.append(ask)
    for job in sorted(filter(is_planned, jobs), key=lambda each: each["start_time"]):
        time_, width = 60.0 * job["time_limit"], width_of(job, cpus)
        start = earliest(spans, size, now, time_, width)
        if start > job["start_time"] + NEAR:
            return False
        spans.append((start, start + time_, width))
    return True


def test_only(cluster: SlurmCluster, options: list[str]) -> float | None:
    done = subprocess.run(
        ["sbatch", "--test-only", *options, "--wrap", "true"],
        env=cluster.env, capture_output=True, text=True, check=False,
    )  # fmt: skip
    found = re.search(r"to start at (\d+)", done.stderr)
    return float(found[1]) if found else None


def start_of(cluster: SlurmCluster, options: list[str]) -> float | None:
    """Return when Slurm plans to start a job that is submitted, and withdraw it."""
    job_id = cluster.submit("sleep 9999", *options)
    try:
        for _ in range(15):
            time.sleep(1.2)
            (job,) = [each for each in queue_of(cluster) if str(each["job_id"]) == job_id]
            if job["start_time"]:
                return float(job["start_time"])
        return None
    finally:
        cluster.run("scancel", job_id)
        cluster.wait_for(
            lambda: all(str(each["job_id"]) != job_id or each["job_state"] == "CANCELLED"
                        for each in queue_of(cluster)), 20, "the job is withdrawn",
        )  # fmt: skip


def one_round(
    cluster: SlurmCluster, draw: random.Random, given: argparse.Namespace, whole: bool
) -> Counter[str]:
    """Return counts of a round."""
    counts: Counter[str] = Counter()
    size = cluster.nodes * given.cpus
    submit_some(cluster, draw, draw.randint(6, 18), size, whole)
    jobs = settled(cluster)
    listed = cluster.base / "nodes.txt"
    listed.write_text(cluster.run("scontrol", "show", "node"))
    source = QueueSource(Path("squeue"), "qops", {}, nodes=read_nodes(listed), max_age=60)
    for _ in range(given.asks):
        asker = source.read(cluster.run("squeue", "--json").encode(), "squeue")
        width, minutes = draw.randint(1, size), draw.choice([5, 12, 30, 75, 160])
        options = ["-p", draw.choice(["a", "b"]), "-n", str(width), "-t", str(minutes)]
        answer = asker.ask(Ask(processors=width, time=60.0 * minutes))
        tested, started = test_only(cluster, options), start_of(cluster, options)
        if answer.start is None or tested is None or started is None:
            counts["not compared"] += 1
            continue
        counts["compared"] += 1
        counts["earlier than sbatch --test-only"] += answer.start < tested - NEAR
        counts["as squeue --start"] += abs(answer.start - started) <= NEAR
        counts["later than squeue --start"] += answer.start > started + NEAR
        counts["earlier than squeue --start"] += answer.start < started - NEAR
        if answer.start < max(started, tested) - NEAR:
            counts["earlier than one of them"] += 1
            start = float(round(answer.start))  # Dates of Slurm are whole seconds.
            if start > asker.state.now:
                answer = msgspec.structs.replace(answer, start=start)
            end = answer.start + 60.0 * minutes
            possible = is_possible(
                jobs, size, given.cpus, asker.state.now, (answer.start, end, width)
            )
            counts["of these possible"] += possible
            if not possible:
                counts["earlier than possible"] += 1
                said = {"ours": answer.start, "start": started, "test-only": tested}
                print(json.dumps({"ask": options, **said, "now": asker.state.now}), file=sys.stderr)
                for job in (each for each in jobs if each["job_state"] in ("RUNNING", "PENDING")):
                    names = ("job_id", "job_state", "state_reason", "cpus", "node_count", "shared")
                    told = {name: job[name] for name in (*names, "start_time", "time_limit")}
                    print(json.dumps(told), file=sys.stderr)
    cluster.run("scancel", "--user=root", check=False)
    cluster.wait_for(lambda: cluster.idle() == cluster.nodes, 60, "all nodes are idle")
    return counts


def main() -> int:
    """Compare, and print the counts."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--asks", type=int, default=15, help="in each round")
    parser.add_argument("--nodes", type=int, default=4)
    parser.add_argument("--cpus", type=int, default=4, help="of each node")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--whole-nodes", action="store_true", help="also jobs of whole nodes")
    given = parser.parse_args()
    if why := missing():
        sys.exit(why)
    counts: Counter[str] = Counter()
    with (
        tempfile.TemporaryDirectory(prefix="quotes-", ignore_cleanup_errors=True) as name,
        SlurmCluster(
            Path(name), given.nodes, BACKFILL, cpus=given.cpus, partitions=PARTITIONS
        ) as cluster,
    ):
        for number in range(given.rounds):
            draw = random.Random(f"{given.seed} {number}")
            for name, count in one_round(cluster, draw, given, given.whole_nodes).items():
                counts[name] += count
    print(json.dumps(dict(sorted(counts.items()))))
    return 1 if counts["earlier than possible"] else 0


if __name__ == "__main__":
    sys.exit(main())
