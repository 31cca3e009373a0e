"""Schedulers on machines whose jobs share hosts, against the naive ones."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from pathlib import Path

import pytest

from qops_batsim import simulate
from qops_batsim.jobs import REJECTED
from support.node_cases import platform_of, random_jobs, random_machine, workload_of
from support.node_drawn import DRAWN, Drawn
from support.node_oracles import NodeJob, SharedMachine, schedule_of

Found = dict[int, "tuple[float, float, list[int]] | None"]
"""Start, end and hosts of each job, None of one that was refused."""


def found_by(scheduler: str, shared: SharedMachine, jobs: Sequence[NodeJob], folder: Path) -> Found:
    """Return what the package makes of it."""
    platform, workload = folder / "machine.xml", folder / "jobs.json"
    platform.write_text(platform_of(shared))
    workload.write_text(json.dumps(workload_of(shared, jobs)))
    ended = simulate(scheduler, workload, platform).ended
    return {
        int(each.local_id): None
        if each.state == REJECTED
        else (each.start, each.finish, sorted(each.hosts))
        for each in ended
    }


def expected_of(scheduler: str, shared: SharedMachine, jobs: Sequence[NodeJob]) -> Found:
    """Return what the naive scheduler makes of it."""
    outcome = schedule_of(scheduler, shared, jobs)
    return {slot: ran and (ran.start, ran.end, ran.hosts) for slot, ran in outcome.items()}


@pytest.mark.parametrize("drawn", DRAWN, ids=lambda drawn: drawn.name)
def test_drawn_schedules(drawn: Drawn, tmp_path: Path) -> None:
    found = found_by(drawn.scheduler, drawn.machine, drawn.jobs, tmp_path)
    starts = [each and (each[0], each[2]) for _, each in sorted(found.items())]
    assert starts == list(drawn.expected)


SCHEDULERS = ("fcfs", "easy", "conservative", "qops")

BLOCK = 10
"""Workloads of a test."""


def check_seed(scheduler: str, seed: int, folder: Path, most: int = 24, *, bare: bool) -> None:
    """Check that a random workload has the same schedule as under the naive scheduler."""
    rng = random.Random(f"{scheduler} {seed}")
    shared = random_machine(rng, bare=bare)
    jobs = random_jobs(rng, shared, most, deadlines=scheduler == "qops")
    expected = expected_of(scheduler, shared, jobs)
    assert found_by(scheduler, shared, jobs, folder) == expected, f"seed {seed}"


@pytest.mark.parametrize("block", range(20))
@pytest.mark.parametrize("scheduler", SCHEDULERS)
def test_schedulers_agree_with_naive_ones(scheduler: str, block: int, tmp_path: Path) -> None:
    for seed in range(block * BLOCK, (block + 1) * BLOCK):
        check_seed(scheduler, seed, tmp_path, bare=False)


@pytest.mark.parametrize("scheduler", SCHEDULERS)
def test_a_host_without_amounts_is_taken_whole(scheduler: str, tmp_path: Path) -> None:
    for seed in range(BLOCK):
        check_seed(scheduler, seed, tmp_path, bare=True)


@pytest.mark.sweep
@pytest.mark.parametrize("most", [6, 24, 40])
@pytest.mark.parametrize("scheduler", SCHEDULERS)
def test_schedulers_agree_with_naive_ones_on_many(
    scheduler: str, most: int, tmp_path: Path
) -> None:
    for seed in range(1000, 1400):
        check_seed(scheduler, seed, tmp_path, most, bare=False)
