"""Bounds on hosts that jobs share, against every schedule on the hosts."""

from __future__ import annotations

import json
import math
import os
import random
from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest

from qops_batsim import InputError, read_platform
from qops_batsim.workload import Workload, read_workload
from support import node_drawn as drawn
from support.node_cases import GB, platform_of, random_jobs, random_machine, workload_of
from support.node_oracles import NaiveNodes, NodeJob, Part, Placement, SharedMachine

pytest.importorskip("ortools", reason="the extra bound (OR-tools) is not installed")

from qops_batsim.optimum import Limits, best_possible
from qops_batsim.optimum.clairvoyant import write_best
from qops_batsim.optimum.pooled_kinds import MOST, pooled_kinds
from qops_batsim.optimum.problem import worth_of
from qops_batsim.platform.platform_model import Platform

CASES = int(os.environ.get("QOPS_BOUND_CASES", "60"))
SHORT = Limits(seconds=2.0, by_clock=False)
LICENCES = -1


def read(machine: SharedMachine, jobs: list[NodeJob], directory: Path) -> tuple[Workload, Platform]:
    """Return the workload and platform of a case, read from files."""
    (directory / "w.json").write_text(json.dumps(workload_of(machine, jobs)))
    (directory / "p.xml").write_text(platform_of(machine))
    return read_workload(directory / "w.json"), read_platform(directory / "p.xml")


# Every schedule


def divided(tasks: int, room: list[int]) -> Iterator[list[int]]:
    """Yield every way to divide tasks among hosts with room for so many."""
    if not room:
        if tasks == 0:
            yield []
        return
    for count in range(min(tasks, room[0]) + 1):
        for others in divided(tasks - count, room[1:]):
            yield [count, *others]


def of_part(machine: SharedMachine, part: Part, used: set[int]) -> Iterator[Placement]:
    """Yield all that a part may take of an empty machine, on hosts that are not used."""
    asked = machine.vector(part.asked)
    able = [
        host
        for host, each in enumerate(machine.hosts)
        if host not in used
        and part.labels <= each.labels
        and all(has >= want for has, want in zip(machine.capacity(host), asked, strict=True))
    ]
    if not part.tasks:
        for hosts in combinations(able, part.hosts):
            yield {h: machine.capacity(h) if part.takes_whole else asked for h in hosts}
        return
    room = [
        min(has // want for has, want in zip(machine.capacity(h), asked, strict=True) if want)
        for h in able
    ]
    for counts in divided(part.tasks, room):
        taken = {h: n for h, n in zip(able, counts, strict=True) if n}
        if len(taken) <= part.hosts:
            yield {
                h: machine.capacity(h) if part.takes_whole else tuple(n * each for each in asked)
                for h, n in taken.items()
            }


def placements(machine: SharedMachine, job: NodeJob) -> Iterator[Placement]:
    """Yield all that a job may take of an empty machine."""

    def extend(parts: tuple[Part, ...], taken: Placement) -> Iterator[Placement]:
        if not parts:
            yield taken
            return
        for own in of_part(machine, parts[0], set(taken)):
            yield from extend(parts[1:], taken | own)

    names = machine.licences
    licences = {LICENCES: tuple(job.licences.get(name, 0) for name in names)}
    yield from extend(job.parts, licences if job.licences else {})


def best_of_all(machine: SharedMachine, jobs: list[NodeJob], worth: list[float]) -> float:
    """Return the most that jobs can be worth: every choice, every start, all hosts."""
    horizon = max(job.submission + job.lasts for job in jobs) + 20
    free = {
        host: np.array([[*machine.capacity(host), 1]] * horizon)
        for host in (*range(len(machine.hosts)), LICENCES)
    }
    choices = []
    for job, each in zip(jobs, worth, strict=True):
        # Jobs that find no hosts on the empty machine are refused at once.
        fits = NaiveNodes(machine).found_at(job, 0) is not None
        found = list(placements(machine, job)) if fits else []
        choices.append((job, each, found))
    choices.sort(key=lambda choice: len(choice[2]))
    best = 0.0

    def extend(place: int, total: float) -> None:
        nonlocal best
        best = max(best, total)
        rest = choices[place:]
        if not rest or total + math.fsum(each for _, each, _ in rest) <= best:
            return
        job, each, found = rest[0]
        assert job.deadline is not None
        for start in range(job.submission, job.deadline - job.lasts + 1):
            now = slice(start, start + job.lasts)
            for placement in found:
                # A host without amounts has one of a kind that nobody else asks for.
                taken = {
                    host: np.array([*amounts, int(not any(machine.capacity(host)))])
                    for host, amounts in placement.items()
                }
                if all((free[host][now] >= amounts).all() for host, amounts in taken.items()):
                    for host, amounts in taken.items():
                        free[host][now] -= amounts
                    extend(place + 1, total + each)
                    for host, amounts in taken.items():
                        free[host][now] += amounts
        extend(place + 1, total)

    extend(0, 0.0)
    return best


def random_case(rng: random.Random) -> tuple[SharedMachine, list[NodeJob]]:
    """Return up to four hosts, and jobs with deadlines that compete for them."""
    while True:
        machine = random_machine(rng, bare=rng.random() < 0.2)
        if len(machine.hosts) <= 4:
            break
    jobs = []
    for job in random_jobs(rng, machine, 5):
        lasts = rng.randint(1, 4)
        submission = job.submission // 2
        deadline = submission + lasts + rng.choice([0, 1, 2, 3])
        jobs.append(
            replace(job, submission=submission, run_time=lasts, estimate=lasts, deadline=deadline)
        )
    return machine, jobs


@pytest.mark.parametrize("first", range(0, CASES, 20))
def test_no_schedule_on_the_hosts_exceeds_the_bound(first: int, tmp_path: Path) -> None:
    tight = 0
    for seed in range(first, min(first + 20, CASES)):
        machine, jobs = random_case(random.Random(seed))
        workload, platform = read(machine, jobs, tmp_path)
        for found in best_possible(workload, ["jobs", "work"], SHORT, platform=platform):
            worth = worth_of(workload, found.objective, platform).tolist()
            best = best_of_all(machine, jobs, worth)
            assert found.best_known <= best * (1 + 1e-9), seed
            assert best <= found.bound * (1 + 1e-9), seed
            assert found.bound <= found.checked_bound <= found.total * (1 + 1e-9)
            tight += found.bound < sum(worth) * (1 - 1e-9)
    assert tight


# By hand


def pools(machine: SharedMachine, jobs: list[NodeJob], directory: Path) -> list[tuple[list, int]]:
    workload, platform = read(machine, jobs, directory)
    assert platform.machine is not None
    found = pooled_kinds(workload, platform.machine, np.ones(len(jobs), np.bool_))
    return [(each.demand.tolist(), each.capacity) for each in found]


def test_a_pool_has_what_all_hosts_have(tmp_path: Path) -> None:
    machine = drawn.machine(
        drawn.host(cores=4, memory=10 * GB, licences=2),
        drawn.host(cores=6, memory=30 * GB),
        drawn.host("gpu", cores=8, memory=30 * GB, gpus=2),
    )
    jobs = [
        drawn.job(0, 1, drawn.part(2, cores=2, memory=10 * GB)),
        drawn.job(0, 1, drawn.part(3, tasks=5, cores=2)),
        # Whole hosts: the two smallest; that with the label; one of those with 6 cores.
        drawn.job(0, 1, drawn.part(2)),
        drawn.job(0, 1, drawn.part(1, "gpu", exclusive=True, gpus=1)),
        drawn.job(0, 1, drawn.part(2, exclusive=True, tasks=2, cores=5), licences=1),
        drawn.job(0, 1, drawn.part(1, gpus=1), drawn.part(1, cores=4)),
    ]
    assert pools(machine, jobs, tmp_path) == [
        ([2, 5, 5, 4, 5, 2], 9),  # Cores, of which every job takes an even number.
        ([2, 0, 4, 3, 3, 0], 7),  # Tens of GB.
        ([0, 0, 0, 2, 0, 1], 2),
        ([0, 0, 2, 1, 1, 0], 3),
        ([0, 0, 0, 0, 1, 0], 2),
    ]


def test_large_amounts_are_rounded_so_that_what_fits_still_fits(tmp_path: Path) -> None:
    machine = drawn.machine(drawn.host(cores=1, memory=2 * 10**12 + 1))
    halves = [10**12, 10**12 + 1]
    jobs = [drawn.job(0, 1, drawn.part(1, memory=each)) for each in halves]
    ((demand, capacity),) = pools(machine, jobs, tmp_path)
    assert sum(demand) <= capacity <= MOST
    assert sum(demand) >= capacity - 2


def test_the_dominant_share_is_no_pool(tmp_path: Path) -> None:
    # One host: A takes 6 of 10 cores, B 6 of 10 GB; both end in time, side by side.
    machine = drawn.machine(drawn.host(cores=10, memory=10 * GB))
    both = [drawn.part(1, cores=6, memory=GB), drawn.part(1, cores=1, memory=6 * GB)]
    jobs = [drawn.job(0, 5, each, deadline=5) for each in both]
    workload, platform = read(machine, jobs, tmp_path)
    found, work = best_possible(workload, ["jobs", "work"], SHORT, platform=platform)
    assert (found.best_known, found.bound, found.proof) == (2, 2, "every job")
    assert (work.best_known, work.bound, work.total) == (6, 6, 6)


def test_the_scarcest_kind_gives_the_bound_and_a_scheduler_the_run(tmp_path: Path) -> None:
    # Three jobs need a GPU of two at once; cores are no matter. Without deadline, D always runs.
    machine = drawn.machine(*[drawn.host(cores=8, gpus=1)] * 2)
    jobs = [drawn.job(0, 5, drawn.part(1, cores=1, gpus=1), deadline=6)] * 3
    jobs.append(drawn.job(0, 5, drawn.part(1, cores=1, gpus=1)))
    workload, platform = read(machine, jobs, tmp_path)
    (found,) = best_possible(workload, ["jobs"], SHORT, platform=platform)
    assert (found.total, found.best_known, found.bound, found.proof) == (4, 3, 3, "energy")
    done = write_best(found, workload, str(tmp_path / "best"), platform=platform)
    assert done.violations == []
    # EASY's run is written as it was, with the job that ends late.
    assert (found.found_by, len(found.starts), done.result.executed.sum()) == ("easy", 3, 4)


def test_jobs_that_the_machine_never_gives_hosts_count_as_refused(tmp_path: Path) -> None:
    machine = drawn.machine(drawn.host(cores=4), drawn.host(cores=4))
    jobs = [
        drawn.job(0, 1, drawn.part(1, cores=5), deadline=9),
        drawn.job(0, 1, drawn.part(1, cores=4), deadline=9),
    ]
    workload, platform = read(machine, jobs, tmp_path)
    (found,) = best_possible(workload, ["jobs"], SHORT, platform=platform)
    assert (found.total, found.best_known, found.bound) == (2, 1, 1)


def test_a_platform_without_amounts_is_refused(tmp_path: Path) -> None:
    from qops_batsim.platform import make_cluster

    machine = drawn.machine(drawn.host(cores=4))
    workload, _ = read(machine, [drawn.job(0, 1, drawn.part(1))], tmp_path)
    with pytest.raises(InputError, match="no host of .* has amounts that jobs share"):
        best_possible(workload, ["jobs"], SHORT, platform=make_cluster(1))
