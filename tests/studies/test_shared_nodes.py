"""The study of shared nodes: what jobs bind, and machines that give a load."""

from __future__ import annotations

import pytest

from qops_batsim import Job
from qops_batsim.job_fields import AskedPart, HostsAsked
from qops_batsim.workload import Workload, delay_profile

pytest.importorskip("studies", reason="no studies beside the tests")

from studies.shared_nodes.mix import demand_of, platform_of, stretches_of
from studies.shared_nodes.runs import Group, Run

MACHINE = {"cores": 4, "memory": 8, "gpus": 2, "with_gpus": 0.25}


def job(name: str, at: float, hosts: int, run_time: float, **amounts: int) -> Job:
    asked = HostsAsked(parts=(AskedPart(hosts=hosts, amounts=amounts),))
    profile, _ = delay_profile(run_time)
    return Job(name, at, hosts, profile, 100.0, None, None, asked)


def workload(*jobs: Job) -> Workload:
    profiles = {each.profile: {"type": "delay", "delay": float(each.profile[5:])} for each in jobs}
    return Workload(jobs=list(jobs), profiles=profiles, processors=1)


def test_dominant_shares_and_the_machine_of_a_load() -> None:
    # Hosts' worth: 2 × 2 / 4 of cores; 6 / 8 of memory; 1 / 2 of the GPUs, which a quarter has.
    jobs = (
        job("a", 0, 2, 10, cores=2, memory=1),
        job("b", 5, 1, 300, cores=1, memory=6),
        job("c", 10, 1, 20, cores=1, gpus=1),
    )
    demand = demand_of(workload(*jobs), MACHINE)
    assert demand.binding(MACHINE, 8) == ["cores", "memory", "gpus"]
    assert list(demand.shares(MACHINE, 8)) == [1 / 8, 0.75 / 8, 0.5 / 2]
    # b is killed after 100 s.
    assert demand.load(MACHINE, 8) == pytest.approx((10 / 8 + 75 / 8 + 20 / 4) / 10)
    # b's core and memory, c's core; two hosts have GPUs.
    assert demand.loads(MACHINE, 8) == pytest.approx(
        {
            "cores": (10 * 1 + 100 / 4 + 20 / 4) / 80,
            "memory": (10 * 2 / 8 + 100 * 6 / 8) / 80,
            "gpus": 20 * 0.5 / 20,
        }
    )
    hosts = demand.hosts_for(MACHINE, 1.0, 8)
    loads = {each: abs(demand.load(MACHINE, each) - 1.0) for each in range(8, 40)}
    assert hosts == min(loads, key=lambda each: loads[each])
    assert demand.hosts_for(MACHINE, 9.0, 8) == 8


def test_the_first_hosts_have_gpus() -> None:
    machine = platform_of(MACHINE, 8).machine
    assert machine is not None
    assert machine.totals == {"cores": 32, "memory": 64, "gpus": 4}
    assert machine.amounts[0] == (4, 8, 2)
    assert machine.amounts[2] == (4, 8, 0)


def test_stretches_share_no_job_and_leave_out_wide_and_long_ones() -> None:
    jobs = [job(str(each), each, 1 + each % 2, 5, cores=1) for each in range(40)]
    log = {"widest": 1, "longest": 100, "every": 2, "stretches": 3, "jobs": 3}
    parts = stretches_of(workload(*jobs), log)
    # Narrow ones have even numbers, every other of these counts, and the last nine are taken.
    assert [[each.id for each in part.jobs] for part in parts] == [
        ["4", "8", "12"],
        ["16", "20", "24"],
        ["28", "32", "36"],
    ]
    assert all(each.qos and each.qos.deadline for part in parts for each in part.jobs)


def test_shares_of_a_run() -> None:
    one = Group(jobs=10, work=50, admitted=8, admitted_work=20, late=2, late_work=5, unsafe=3)
    run = Run(4, 1.0, {"cores, one host": one, "gpus, one host": Group(jobs=10, work=50)}, 0, 0)
    assert run.share("late", "admitted") == 25
    assert run.share("admitted", "jobs", "gpus") == 0
    assert run.kept() == 30
    assert run.kept(jobs=False) == 15
