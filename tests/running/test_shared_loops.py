"""Machines whose jobs share hosts: the loop of events and Batsim's messages tell the same.

All files of a run are compared to the byte, and what the scheduler recorded and logged.
"""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from qops_batsim.workload import Workload
from qops_batsim.workload.batsim_json import parse_workload
from support.both_roads import check
from support.node_cases import platform_of, random_jobs, random_machine, workload_of
from support.platform_text import parse_platform
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
    machine = random_machine(rng)
    jobs = random_jobs(rng, machine, 24, deadlines=deadlines)
    platform = parse_platform(platform_of(machine).encode(), source="shared.xml")
    described = workload_of(machine, jobs)
    for row in described["jobs"]:
        if rng.random() < 0.3:
            row["walltime"] = rng.randint(1, 12)  # Some reach it.
        if rng.random() < 0.1:
            del row["qos"]["estimated_runtime"]
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
        if scheduler in ("fcfs", "easy", "priced-queues") and events:
            events = tuple(e for e in events if e.type != "maintenance")
        found = check(
            lambda: scheduler, workload, options, platform=platform, external_events=events
        )
        assert found["error"] == "", seed
        killed += len(found["log"][2])
    assert (killed > 0) == (KILLS.items() <= options.items())
