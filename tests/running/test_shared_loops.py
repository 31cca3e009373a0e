"""Machines whose jobs share hosts: the loop of events and Batsim's messages tell the same.

All files of a run are compared to the byte, and what the scheduler recorded and logged.
"""

from __future__ import annotations

import csv
import json
import random
from typing import Any

import pytest

from qops_batsim import Fcfs, Job
from qops_batsim.core.needs import EngineNeeds
from qops_batsim.engine.host_states import machine_in_use
from qops_batsim.platform import parse_platform
from qops_batsim.workload import Workload
from qops_batsim.workload.batsim_json import parse_workload
from support.both_roads import check
from support.node_cases import platform_of, random_jobs, random_machine, workload_of
from support.node_drawn import host, job, machine, part
from support.random_outages import random_events

KILLS = {"kill_and_restart": True, "kill_after": 0.0}
SCHEDULERS: list[tuple[str, dict[str, Any]]] = [
    ("fcfs", {}),
    ("easy", {}),
    ("easy", {"order": "saf"}),
    ("conservative", {}),
    ("slack", {}),
    ("nqs", {}),
    ("priced-queues", {}),
    ("qops", {}),
    ("msb", {}),
    ("mrt", {}),
    ("fqops", {"tolerance_factor": 2.0}),
    ("fqops", KILLS),
    ("fqops", {**KILLS, "restart_price": 9.0}),
]


def case(rng: random.Random, *, deadlines: bool) -> tuple[Any, Workload]:
    """Return a platform whose hosts are shared, and jobs for it."""
    shared = random_machine(rng)
    jobs = random_jobs(rng, shared, 24, deadlines=deadlines)
    platform = parse_platform(platform_of(shared).encode(), source="shared.xml")
    described = workload_of(shared, jobs)
    for row in described["jobs"]:
        if rng.random() < 0.3:
            row["walltime"] = rng.randint(1, 12)  # Some reach it.
        if rng.random() < 0.1:
            del row["qos"]["estimated_runtime"]
        if rng.random() < 0.1:
            row["qos"]["start"] = row["subtime"] + rng.randint(0, 20)
        if rng.random() < 0.3:
            row["qos"]["checkpoint"] = rng.choice([1, 3])
    return platform, parse_workload(json.dumps(described), source="jobs.json")


@pytest.mark.parametrize(("scheduler", "options"), SCHEDULERS)
@pytest.mark.parametrize("goes_away", [False, True])
def test_both_roads_tell_the_same(scheduler: str, options: dict[str, Any], goes_away: bool) -> None:
    killed = 0
    for seed in range(30):
        rng = random.Random(f"{seed} {scheduler} {options} {goes_away}")
        platform, workload = case(rng, deadlines=scheduler not in ("fcfs", "easy"))
        hosts = len(platform.compute_hosts)
        events = random_events(rng, workload, hosts) if goes_away else None
        found = check(
            lambda: scheduler, workload, options, platform=platform, external_events=events
        )
        assert found["error"] == "", seed
        killed += len(found["log"][2])
    assert (killed > 0) == (KILLS.items() <= options.items())


class Registers(Fcfs):
    """Registers a job of three tasks with two cores each, which compute."""

    @property
    def needs(self) -> EngineNeeds:
        return EngineNeeds(dynamic_jobs=True)

    def all_submitted(self) -> None:
        fields = {"id": "w0!r", "subtime": self.manager.now, "res": 3, "profile": "compute"}
        tasks = {"tasks": 3, "per_task": {"cores": 2}}
        job = Job.from_fields(fields | tasks, where="job")
        self.manager.register(job, {"type": "parallel_homogeneous", "cpu": 10e9, "com": 0})
        self.manager.finish_registering()
        self.submitted(job)


def test_registered_tasks_compute_where_they_are() -> None:
    # n0 (4 cores, 1 Gf/s) has two of them, which take 20 s side by side, n1 (2 cores) has one.
    shared = machine(host(cores=4), host(cores=2))
    platform = parse_platform(platform_of(shared).encode(), source="shared.xml")
    described = workload_of(shared, [job(0, 1, part(cores=1))])
    workload = parse_workload(json.dumps(described), source="jobs.json")
    found = check(Registers, workload, platform=platform)
    assert found["error"] == ""
    assert ",1.000000,20.000000,21.000000," in found["_jobs.csv"].decode()


@pytest.mark.parametrize("scheduler", ["easy", "qops"])
def test_both_roads_use_the_first_hosts(scheduler: str) -> None:
    limited = 0
    for seed in range(30):
        rng = random.Random(f"{seed} {scheduler} first hosts")
        platform, workload = case(rng, deadlines=True)
        hosts = len(platform.compute_hosts) - 1
        if machine_in_use(platform, hosts) is not None:
            found = check(lambda: scheduler, workload, platform=platform, hosts=hosts)
            used = {int(row[14].split()[0].split("-")[0]) for row in _rows(found) if row[14]}
            assert max(used, default=0) < hosts
            limited += 1
    assert limited > 20


def _rows(found: dict[str, Any]) -> list[list[str]]:
    return list(csv.reader(found["_jobs.csv"].decode().splitlines()))[1:]
