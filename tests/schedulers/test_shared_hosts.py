"""Schedulers on machines whose jobs share hosts, against the naive ones."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from pathlib import Path

import pytest

from qops_batsim import QopsError, simulate
from qops_batsim.jobs import REJECTED
from support.node_cases import platform_of, random_jobs, random_machine, workload_of
from support.node_drawn import DRAWN, Drawn, host, job, machine, part
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


@pytest.fixture
def sharing(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """Give a folder; skip where the scheduler does not yet have two jobs share a host."""
    drawn = request.node.callspec.params.get("drawn")
    scheduler = drawn.scheduler if drawn else request.node.callspec.params["scheduler"]
    half = part(cores=1)
    try:
        found = found_by(
            scheduler, machine(host(cores=2)), [job(0, 5, half), job(0, 5, half)], tmp_path
        )
    except QopsError as error:
        pytest.skip(f"{scheduler} does not share hosts yet: {error}")
    if found != {0: (0.0, 5.0, [0]), 1: (0.0, 5.0, [0])}:
        pytest.skip(f"{scheduler} does not share hosts yet")
    return tmp_path


@pytest.mark.parametrize("drawn", DRAWN, ids=lambda drawn: drawn.name)
def test_drawn_schedules(drawn: Drawn, sharing: Path) -> None:
    found = found_by(drawn.scheduler, drawn.machine, drawn.jobs, sharing)
    starts = [each and (each[0], each[2]) for _, each in sorted(found.items())]
    assert starts == list(drawn.expected)


BLOCK = 20
"""Workloads of a test."""


@pytest.mark.parametrize("block", range(10))
@pytest.mark.parametrize("scheduler", ["fcfs", "easy", "conservative", "qops"])
def test_schedulers_agree_with_naive_ones(scheduler: str, block: int, sharing: Path) -> None:
    for seed in range(block * BLOCK, (block + 1) * BLOCK):
        rng = random.Random(f"{scheduler} {seed}")
        shared = random_machine(rng)
        jobs = random_jobs(rng, shared, 24, deadlines=scheduler == "qops")
        expected = expected_of(scheduler, shared, jobs)
        assert found_by(scheduler, shared, jobs, sharing) == expected, f"seed {seed}"


@pytest.mark.sweep
@pytest.mark.parametrize("scheduler", ["fcfs", "easy", "conservative", "qops"])
def test_schedulers_agree_with_naive_ones_on_many(scheduler: str, sharing: Path) -> None:
    for seed in range(1000):
        rng = random.Random(f"many {scheduler} {seed}")
        shared = random_machine(rng)
        jobs = random_jobs(rng, shared, rng.choice([6, 24, 40]), deadlines=scheduler == "qops")
        expected = expected_of(scheduler, shared, jobs)
        assert found_by(scheduler, shared, jobs, sharing) == expected, f"seed {seed}"
