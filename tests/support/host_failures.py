"""Random small runs in which hosts go away and return, with and without notice."""

from __future__ import annotations

import csv
import random
from pathlib import Path
from typing import Any

from qops_batsim import Job, QosRequest, run
from qops_batsim.core import HostSet
from qops_batsim.engine import UNAVAILABLE, ExternalEvent, events_in_order, maintenance_events
from qops_batsim.engine.engine_options import AVAILABLE
from qops_batsim.platform import make_cluster
from qops_batsim.running import Run
from qops_batsim.workload import Workload, delay_profile

Events = tuple[ExternalEvent, ...]
Case = tuple[int, Workload, Events]
"""Number of hosts, jobs, and what happens beside."""

KILLS = {"kill_and_restart": True, "tolerance_factor": 4.0, "slack_factor": 2.0}
SCHEDULERS: list[tuple[str, dict[str, Any]]] = [
    ("fcfs", {}),
    ("easy", {}),
    ("easy", {"order": "lxf", "backfill_order": "sjf"}),
    ("easy", {"run_times": "predicted", "backfill_order": "sjf"}),
    ("nqs", {}),
    ("priced-queues", {"history": 2}),
    ("slurm", {"bf_interval": 5.0, "bf_resolution": 3.0}),
    ("conservative", {}),
    ("conservative", {"reserve": "processors"}),
    ("slack", {}),
    ("slack", {"slack_factor": 3.0, "removal": "cheapest"}),
    ("qops", {}),
    ("msb", {}),
    ("mrt", {}),
    ("fqops", KILLS),
    ("fqops", {"kill_and_restart": True, "restart_price": 4.0}),
    ("aroma", {}),
]
"""Those that pages and tests of hosts that go away name."""


def names(schedulers: list[tuple[str, dict[str, Any]]]) -> list[str]:
    """Return names of tests."""
    return ["-".join([name, *map(str, options.values())]) for name, options in schedulers]


def verified_run(
    scheduler: str, options: dict[str, Any], case: Case, out: Path
) -> tuple[Run, dict[str, dict[str, str]], dict[str, dict[str, str]]]:
    """Run a case without a violation; return the run, and rows of jobs and of QoS by local id.

    It would be an error if a job waited at the end; the verifier holds each job against its last
    promise, and each start against the hosts that are there and announced maintenance.
    """
    hosts, workload, events = case
    done = run(scheduler, workload, make_cluster(hosts), options, out=out, events=events)
    assert done.violations == []
    found = []
    for kind in ("jobs", "qos"):
        with open(f"{out}_{kind}.csv", newline="") as stream:
            rows = csv.DictReader(stream)
            found.append({row["job_id"].removeprefix("w0!"): row for row in rows})
    return done, found[0], found[1]


def reservation_case(seed: int) -> Case:
    """Return jobs, a third with fixed starts, maintenance known ahead, and all that goes wrong.

    In half of the cases estimates are too short; in two thirds hosts go away without notice as
    well, mostly so that they return just before they have maintenance; in half users cancel jobs.
    """
    rng = random.Random(f"reservations {seed}")
    whole = rng.random() < 0.3

    def date(low: float, high: float) -> float:
        return float(round(rng.uniform(low, high), 0 if whole else 3))

    hosts, overruns = rng.randint(2, 7), rng.random() < 0.5
    jobs = []
    profiles = {}
    events = []
    cancels = rng.random() < 0.5
    for index in range(rng.randint(4, 12)):
        submission, estimate = date(0, 50), date(1, 30)
        run_time = rng.choice([estimate, date(1, estimate)])
        limit = None
        if overruns and rng.random() < 0.3:
            run_time = date(estimate, 3 * estimate)
            limit = rng.choice([None, estimate, date(estimate, 2 * estimate)])
        name, profile = delay_profile(run_time)
        profiles[name] = profile
        deadline = start = None
        if rng.random() < 0.35:
            start = submission + rng.choice([0.0, date(0, 40)])
            deadline = rng.choice([None, None, start + estimate + date(-1, 9)])
        elif rng.random() < 0.6:
            deadline = submission + date(estimate, 6 * estimate)
        qos = QosRequest(estimated_runtime=estimate, deadline=deadline, start=start)
        needed = rng.choice([hosts, rng.randint(1, hosts)])
        jobs.append(Job(str(index), submission, needed, name, walltime=limit, qos=qos))
        if cancels and rng.random() < 0.3:
            cancelled = submission + date(0, 30)
            fields = {"timestamp": cancelled, "type": "job_cancelled", "job_id": f"w0!{index}"}
            events.append(ExternalEvent(cancelled, "job_cancelled", HostSet(), fields))
    jobs.sort(key=lambda job: job.submission_time)
    back = 0.0
    for _ in range(rng.randint(1, 3)):
        start = back + date(2, 40)
        end, notice = start + date(1, 20), max(0.0, start - date(0, 60))
        some = HostSet.of(rng.sample(range(hosts), rng.randint(1, hosts)))
        chosen = rng.choice([HostSet.first(hosts), some])
        if rng.random() < 0.66:
            leaves = date(back, start - 1.5)
            returns = rng.choice([start - 1.0, date(leaves, start - 1)])
            if leaves < returns:
                gone = rng.choice([chosen, HostSet.first(hosts)])
                events.append(ExternalEvent(leaves, UNAVAILABLE, gone, {}))
                events.append(ExternalEvent(returns, AVAILABLE, gone, {}))
        every = date(end - start, 60) if rng.random() < 0.3 else None
        windows = maintenance_events(notice, chosen, start, end, every=every, until=start + 60)
        events += windows
        back = max(each.timestamp for each in windows) + 1
    return hosts, Workload(jobs=jobs, profiles=profiles, processors=hosts), events_in_order(events)


def random_case(seed: int) -> tuple[int, Workload, Events]:
    """Return a number of hosts, jobs with and without deadlines, and what happens to the hosts.

    Estimates are exact or too long, so that every promise can be held against the schedule.
    """
    rng = random.Random(seed)
    hosts = rng.randint(2, 8)
    jobs, profiles = [], {}
    for index in range(rng.randint(4, 14)):
        submission, estimate = rng.randint(0, 60), rng.randint(1, 40)
        name, profile = delay_profile(max(1, estimate - rng.choice([0, 0, rng.randint(0, 40)])))
        profiles[name] = profile
        deadline = submission + rng.randint(estimate, 6 * estimate) if rng.random() < 0.7 else None
        qos = QosRequest(estimated_runtime=float(estimate), deadline=deadline)
        jobs.append(Job(str(index), float(submission), rng.randint(1, hosts), name, qos=qos))
    jobs.sort(key=lambda job: job.submission_time)
    return (
        hosts,
        Workload(jobs=jobs, profiles=profiles, processors=hosts),
        random_losses(rng, hosts),
    )


def random_losses(rng: random.Random, hosts: int) -> Events:
    """Return hosts that leave without notice, and some that return."""
    events: list[ExternalEvent] = []
    away: set[int] = set()
    date = 0
    for _ in range(rng.randint(1, 6)):
        date += rng.randint(0 if not events else 1, 30)
        returns = bool(away) and (rng.random() < 0.5 or len(away) == hosts)
        some = sorted(away if returns else set(range(hosts)) - away)
        chosen = rng.sample(some, rng.randint(1, len(some)))
        away ^= set(chosen)
        kind = AVAILABLE if returns else UNAVAILABLE
        events.append(ExternalEvent(float(date), kind, HostSet.of(chosen), {}))
    return tuple(events)
