"""The profile of hosts with amounts against lists of reservations (support.node_oracles)."""

from __future__ import annotations

import math
import random
from pathlib import Path

import pytest

from qops_batsim.core.job import Job
from qops_batsim.core.node_profile import NodeProfile, request_of
from qops_batsim.core.node_request import NodeLayout, Places
from qops_batsim.platform import read_platform
from qops_batsim.timing import end_of
from support.node_cases import platform_of, random_jobs, random_machine, workload_of
from support.node_oracles import LICENCES, NaiveNodes, NodeJob, Placement, SharedMachine

MOST = 24
"""Most requests of a case."""


def layout_of(shared: SharedMachine, folder: Path) -> NodeLayout:
    path = folder / "machine.xml"
    path.write_text(platform_of(shared))
    machine = read_platform(path).machine
    assert machine is not None
    return NodeLayout(machine)


def asked_by(layout: NodeLayout, shared: SharedMachine, jobs: list[NodeJob]) -> list[Job]:
    """Return jobs of the package with their requests."""
    made = [Job.from_fields(fields, where="case") for fields in workload_of(shared, jobs)["jobs"]]
    for job in made:
        job.request = request_of(layout, job)
    return made


def held_by(layout: NodeLayout, places: Places) -> Placement:
    """Return the amounts of places by host, as the naive profile has them."""
    held: Placement = {}
    kinds = len(layout.machine.kinds)
    cells = bytes(places.cells)
    numbers = memoryview(cells).cast("q").tolist() if cells else []
    for place in range(places.size):
        row, number, times = numbers[3 * place : 3 * place + 3]
        part = places.parts[number]
        if part.is_licence:
            held[LICENCES] = tuple(part.amounts)[: len(layout.licences)]
        elif part.is_whole:
            held[row] = layout.machine.amounts[row]
        else:
            held[row] = tuple(times * amount for amount in tuple(part.amounts)[:kinds])
    return held


def check_case(seed: int, folder: Path) -> int:
    """Check a random case; return how many fits were compared."""
    rng = random.Random(f"profile {seed}")
    shared = random_machine(rng, bare=seed % 10 == 0)
    asked = random_jobs(rng, shared, MOST)
    layout = layout_of(shared, folder)
    jobs = asked_by(layout, shared, asked)
    naive = NaiveNodes(shared)
    profile = NodeProfile(layout)
    other = NodeProfile(layout)
    now = 0.0
    planned: list[tuple[Job, NodeJob, Placement]] = []

    for job, request in zip(jobs, asked, strict=True):
        after = now + rng.choice([0, 0, 0, rng.randint(0, 9)])
        start = profile.fit(job, after)
        expected, placement = naive.fit(request, after)
        if job.request.refusal is not None:
            # Such a request finds nothing on the empty machine either.
            assert NaiveNodes(shared).found_at(request, 0) is None
            continue
        assert start == expected
        if start == math.inf:
            continue
        assert held_by(layout, job.request.held) == placement
        end = end_of(start, job.duration)
        profile.take(job, start, end)
        naive.take(placement, start, end)
        job.start = start
        planned.append((job, request, placement))

        step = rng.random()
        if step < 0.2:
            # The rest of a job that ends early is given back.
            job, request, placement = planned.pop(rng.randrange(len(planned)))
            end = end_of(job.start, job.duration)
            profile.give(job, job.start, end)
            naive.give(placement, job.start, end)
        elif step < 0.4:
            other.copy_from(profile)
            profile, other = other, profile
        elif step < 0.55:
            now += rng.randint(0, 3)
            profile.trim(now)
        elif step < 0.75:
            # One moves to an earlier fit, or stays where it is.
            place = rng.randrange(len(planned))
            job, request, placement = planned[place]
            if job.start < now:
                continue
            end = end_of(job.start, job.duration)
            naive.give(placement, job.start, end)
            earlier, elsewhere = naive.fit(request, now)
            is_moved = earlier < job.start
            assert profile.move(job, now, math.inf) is is_moved
            if is_moved:
                placement = elsewhere
                assert job.start == earlier
            assert held_by(layout, job.request.held) == placement
            naive.take(placement, job.start, end_of(job.start, job.duration))
            planned[place] = job, request, placement
        profile.check(layout.hosts)
    return len(planned)


BLOCKS = 20


@pytest.mark.parametrize("block", range(BLOCKS))
def test_fits_equal_brute_force(block: int, tmp_path: Path) -> None:
    """500 machines, each with up to 24 fits."""
    assert sum(check_case(BLOCKS * case + block, tmp_path) for case in range(25)) > 0


@pytest.mark.sweep
@pytest.mark.parametrize("block", range(BLOCKS))
def test_many_fits_equal_brute_force(block: int, tmp_path: Path) -> None:
    """20,000 machines."""
    assert sum(check_case(BLOCKS * case + block, tmp_path) for case in range(25, 1025)) > 0


def test_what_is_taken_and_given_back_leaves_nothing(tmp_path: Path) -> None:
    rng = random.Random(3)
    shared = random_machine(rng)
    layout = layout_of(shared, tmp_path)
    jobs = asked_by(layout, shared, random_jobs(rng, shared, MOST))
    profile = NodeProfile(layout)
    before = [profile.row_steps(row) for row in range(layout.rows)]
    taken = []
    for job in jobs:
        start = profile.fit(job, 0.0)
        if start < math.inf:
            profile.take(job, start, end_of(start, job.duration))
            taken.append((job, start))
    assert taken
    rng.shuffle(taken)
    for job, start in taken:
        profile.give(job, start, end_of(start, job.duration))
    assert [profile.row_steps(row) for row in range(layout.rows)] == before


def test_copies_take_over_what_differs(tmp_path: Path) -> None:
    rng = random.Random(5)
    shared = random_machine(rng)
    layout = layout_of(shared, tmp_path)
    jobs = asked_by(layout, shared, random_jobs(rng, shared, MOST))
    profile = NodeProfile(layout)
    copy = NodeProfile(layout)
    for job in jobs:
        start = profile.fit(job, 0.0)
        profile.take(job, start, end_of(start, job.duration))
        copy.copy_from(profile)
        rows = range(layout.rows)
        assert [copy.row_steps(row) for row in rows] == [profile.row_steps(row) for row in rows]
        # A change of the copy does not change the profile.
        copy.give(job, start, end_of(start, job.duration))
        assert profile.fit(job, 0.0) >= 0.0
        copy.copy_from(profile)
