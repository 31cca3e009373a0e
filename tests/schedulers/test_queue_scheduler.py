"""What schedulers of their own build on: starting jobs, running jobs, an order for EASY."""

from __future__ import annotations

import inspect

import pytest

import qops_batsim
from qops_batsim import Easy, Job, QueueScheduler, check_scheduler, simulate
from qops_batsim.core import HostDescription, HostSet, System
from qops_batsim.errors import SimulationError
from qops_batsim.platform import make_cluster
from qops_batsim.protocol import SchedulerModule
from qops_batsim.schedulers import scheduler_class, scheduler_names
from qops_batsim.workload import Workload, delay_profile


def machine(hosts: int) -> System:
    return System(hosts=tuple(HostDescription(id=i, name=f"h{i}") for i in range(hosts)))


class Idle(QueueScheduler):
    """Starts what the test starts."""

    def schedule(self) -> None:
        pass


class Centre:
    """Four hosts, and a scheduler that was told of jobs."""

    def __init__(self) -> None:
        self.scheduler = Idle()
        self.module = SchedulerModule(self.scheduler)
        self.module.begin(machine(4))

    def job(self, name: str, processors: int, estimate: float = 10.0) -> Job:
        job = Job(name, 0.0, processors, "p", walltime=estimate)
        self.module.submitted(job)
        return job


def test_a_job_wider_than_the_free_hosts_cannot_start() -> None:
    it = Centre()
    it.scheduler.start(it.job("A", 3))
    with pytest.raises(SimulationError, match=r"job B, which asks for 2 .*: only 1 host is free"):
        it.scheduler.start(it.job("B", 2))
    assert HostSet(it.module.manager.free_mask()) == HostSet.parse("3")


@pytest.mark.parametrize("hosts", ["0-1", "2", "1-3"])
def test_given_hosts_have_to_be_free_and_as_many_as_asked(hosts: str) -> None:
    it = Centre()
    it.scheduler.start(it.job("A", 2))
    with pytest.raises(SimulationError, match=f"job B, .* 2 .* start on hosts {hosts} at 0 s"):
        it.scheduler.start(it.job("B", 2), HostSet.parse(hosts))


def test_a_job_cannot_start_twice() -> None:
    it = Centre()
    job = it.job("A", 2)
    it.scheduler.start(job)
    with pytest.raises(SimulationError, match=r"job A, which asks for 2 .* it runs already"):
        it.scheduler.start(job)


def test_running_jobs_and_the_availability_profile() -> None:
    it = Centre()
    it.module.told_at(5.0)
    it.scheduler.start(it.job("A", 3, estimate=20))
    (running,) = it.scheduler.running
    hosts = HostSet(it.module.manager.hosts_of(running))
    assert (running.id, running.start, str(hosts)) == ("A", 5, "0-2")
    it.module.told_at(15.0)
    assert it.scheduler.availability().steps() == [(15, 1), (25, 4)]
    it.module.told_at(40.0)
    assert it.scheduler.availability().steps() == [(40, 4)]


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


def test_a_queue_is_a_sequence_of_the_waiting_jobs() -> None:
    it = Centre()
    jobs = [it.job(name, 1) for name in "ABCD"]
    queue = it.scheduler.queue
    it.scheduler.start(jobs[1])
    assert [queue[0], queue[1], queue[-1]] == [jobs[0], jobs[2], jobs[3]]
    assert queue[1:] == [jobs[2], jobs[3]]
    with pytest.raises(IndexError):
        queue[3]
    assert len(queue) == 3
    assert jobs[1] not in queue


def test_dates_between_two_microseconds_end_no_simulation_early() -> None:
    class Exactly(QueueScheduler):
        """Starts what fits at just this date."""

        def schedule(self) -> None:
            free = self.availability()
            now = self.manager.now
            for job in self.queue:
                start = free.earliest_fit(now, job.estimate, job.processors)
                free.reserve(start, job.estimate, job.processors)
                if start == now and job.processors <= self.manager.free:
                    self.start(job)

    name, profile = delay_profile(10 / 7)
    jobs = [Job(str(i), i / 3, 1 + i % 3, name, walltime=2.0) for i in range(9)]
    workload = Workload(jobs=jobs, profiles={name: profile}, processors=4)
    done = simulate(Exactly, workload, make_cluster(4)).ended
    assert sorted(each.start for each in done)[0] == 0
    assert len(done) == 9


@pytest.mark.parametrize("name", scheduler_names())
def test_hooks_have_signatures(name: str) -> None:
    kind = scheduler_class(name)
    assert getattr(qops_batsim, kind.__name__) is kind
    for hook, arguments in kind.HOOKS.items():
        parameters = list(inspect.signature(getattr(kind, hook)).parameters)
        assert parameters == ["self", *arguments.split()], hook
