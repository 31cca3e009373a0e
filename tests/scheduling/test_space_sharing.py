"""What schedulers of their own build on: starting jobs, running jobs, an order for EASY."""

from __future__ import annotations

import pytest

from qops_batsim.errors import SimulationError
from qops_batsim.jobs import Job
from qops_batsim.platform.generate import make_cluster
from qops_batsim.platform.hostset import HostSet
from qops_batsim.protocol.events import HostDescription
from qops_batsim.running.contract import check_scheduler
from qops_batsim.running.simulate import simulate
from qops_batsim.schedulers.easy import Easy
from qops_batsim.scheduling.module import System
from qops_batsim.scheduling.space_sharing import SpaceSharingScheduler
from qops_batsim.workload.model import Workload, delay_profile


def machine(hosts: int) -> System:
    return System(hosts=tuple(HostDescription(id=i, name=f"h{i}") for i in range(hosts)))


def job(name: str, processors: int, date: float = 0.0, estimate: float = 10.0) -> Job:
    return Job(name, date, processors, "p", walltime=estimate)


class Fcfs(SpaceSharingScheduler):
    """Nothing but the base."""

    def schedule(self, now: float) -> None:
        pass


def test_a_job_wider_than_the_free_hosts_cannot_start() -> None:
    module = Fcfs()
    module.begin(machine(4))
    module.start(job("A", 3))
    with pytest.raises(SimulationError, match=r"job B asks for 2 .* 1 hosts are free \(3\)"):
        module.start(job("B", 2))
    assert module.free_hosts == HostSet.parse("3")


@pytest.mark.parametrize("hosts", ["0-1", "2", "1-3"])
def test_given_hosts_have_to_be_free_and_as_many_as_asked(hosts: str) -> None:
    module = Fcfs()
    module.begin(machine(4))
    module.start(job("A", 2))
    with pytest.raises(SimulationError, match=f"job B asks for 2 .* on hosts {hosts} at 0 s"):
        module.start(job("B", 2), HostSet.parse(hosts))


def test_a_job_cannot_start_twice() -> None:
    module = Fcfs()
    module.begin(machine(4))
    module.start(job("A", 2))
    with pytest.raises(SimulationError, match=r"job A, which asks for 2 .* it runs already"):
        module.start(job("A", 2))


def test_running_jobs_and_the_availability_profile() -> None:
    module = Fcfs()
    module.begin(machine(4))
    module.decide(5.0)
    module.start(job("A", 3, estimate=20))
    (running,) = module.running_jobs()
    assert (running.job.id, running.start, str(running.hosts)) == ("A", 5, "0-2")
    assert module.availability(15.0).steps() == [(15, 1), (25, 4)]
    assert module.availability(40.0).steps() == [(40, 4)]


class ShortestFirst(Easy):
    """EASY, shortest estimate first."""

    summary = "EASY, shortest estimate first"

    def key(self, job: Job) -> float:
        return job.estimate


# One processor; all wait for A. By arrival: B (5 s), C (1 s), D (1 s).
def test_easy_in_another_order() -> None:
    jobs, profiles = [], {}
    for name, date, seconds in (("A", 0, 3), ("B", 1, 5), ("C", 1, 1), ("D", 2, 1)):
        profile, profiles[profile] = delay_profile(seconds)
        jobs.append(Job(name, date, 1, profile, walltime=seconds + 0.5))
    workload = Workload(jobs=jobs, profiles=profiles, processors=1)

    def starts(module: Easy) -> dict[str, float]:
        done = simulate(module, workload, make_cluster(1)).ended
        return {record.local_id: record.start for record in done}

    assert starts(Easy()) == {"A": 0, "B": 3, "C": 8, "D": 9}
    assert starts(ShortestFirst()) == {"A": 0, "C": 3, "D": 4, "B": 5}
    check_scheduler(ShortestFirst)
