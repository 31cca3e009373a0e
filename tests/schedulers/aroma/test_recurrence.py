"""The round robin recurrence: closed forms, naive references, and the engine itself."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from qops_batsim import Job, Scheduler, simulate
from qops_batsim.core import HostSet, ResourceManager
from qops_batsim.engine import EngineOptions
from qops_batsim.schedulers.aroma.application import Application, Placement, SharedHost, Task
from qops_batsim.schedulers.aroma.recurrence import MappingPlan
from qops_batsim.schedulers.aroma.work import Work
from support.aroma_oracles import coupled_ends, host_ends, machine, work

Planned = list[tuple[float, dict[int, float]]]


def predicted(jobs: Planned, processors: list[int], chosen: str = "best_effort") -> list[float]:
    """Return the predicted ends of jobs (start, seconds alone by host), none running yet."""
    hosts = [SharedHost(index, processors=count) for index, count in enumerate(processors)]
    book = MappingPlan()
    for index, (start, needs) in enumerate(jobs):
        job = Job(str(index), 0.0, len(needs), "")
        placement = Placement(Application(job, chosen, Work(), index))
        placement.start = start
        placement.tasks = [Task(placement, hosts[each], needs[each]) for each in sorted(needs)]
        book.add(placement)
    book.refresh()
    return [placement.end for placement in book.placements]


# Two tasks on one processor: closed forms.


@pytest.mark.parametrize(
    ("tasks", "ends"),
    [
        # A----   both at half speed until the shorter one, twice its time, is done
        # B--
        ([(0, 10), (0, 4)], [14, 8]),
        # A alone for 6 s, then both: 4 s of A take 8 s, B has 10 - 4 left
        ([(0, 10), (6, 10)], [14, 20]),
        # B comes when A is done
        ([(0, 10), (10, 5)], [10, 15]),
        # Equal ones end together
        ([(3, 5), (3, 5)], [13, 13]),
        # B is done in the middle of A
        ([(0, 10), (2, 1)], [11, 4]),
    ],
)
def test_two_tasks_on_one_processor(tasks, ends) -> None:
    assert predicted([(start, {0: need}) for start, need in tasks], [1]) == pytest.approx(ends)


@pytest.mark.parametrize(
    ("count", "processors", "factor"), [(1, 2, 1), (2, 2, 1), (3, 2, 1.5), (8, 2, 4), (5, 4, 1.25)]
)
def test_equal_tasks_on_several_processors(count, processors, factor) -> None:
    ends = predicted([(7.0, {0: 12.0})] * count, [processors])
    assert ends == pytest.approx([7 + 12 * factor] * count)


def test_a_job_goes_at_the_pace_of_its_worst_host() -> None:
    # host 0  A A A A A   host 0 is crowded, so A gets half of host 1 as well, where
    #         B B B B B   no other job is; its second half needs no less time there.
    # host 1  A A A A A
    assert predicted([(0, {0: 5, 1: 5}), (0, {0: 5})], [1, 1]) == pytest.approx([10, 10])


def test_a_slow_host_is_a_bound_even_if_no_other_job_is_there() -> None:
    assert predicted([(0, {0: 5, 1: 20})], [1, 1]) == [20]
    # On host 0 it leaves more than half idle; an equal share is all that B is promised.
    assert predicted([(0, {0: 5, 1: 20}), (0, {0: 10})], [1, 1]) == pytest.approx([20, 20])


tasks = st.lists(st.tuples(st.floats(0, 100), st.floats(0.1, 50)), min_size=1, max_size=12)


@given(tasks=tasks, processors=st.integers(1, 4))
def test_one_host_equals_the_recurrence_of_the_paper(tasks, processors) -> None:
    found = predicted([(start, {0: need}) for start, need in tasks], [processors])
    assert found == pytest.approx(host_ends(tasks, processors), rel=1e-9, abs=5e-6)


def planned(seed: int, hosts: int, jobs: int) -> tuple[Planned, list[int], np.ndarray]:
    random = np.random.default_rng(seed)
    processors = [int(random.choice([1, 1, 2, 3])) for _ in range(hosts)]
    speeds = random.choice([0.5, 1.0, 2.0], size=hosts)
    listed = []
    for _ in range(jobs):
        chosen = random.choice(hosts, size=int(random.integers(1, hosts + 1)), replace=False)
        seconds = float(random.integers(1, 60))
        start = float(random.integers(0, 60))
        listed.append((start, {int(host): seconds / speeds[host] for host in chosen}))
    return listed, processors, speeds


@pytest.mark.parametrize("seed", range(60))
def test_several_hosts_equal_the_naive_reference(seed: int) -> None:
    jobs, processors, _ = planned(seed, hosts=1 + seed % 6, jobs=15)
    expected = coupled_ends(jobs, processors)
    assert predicted(jobs, processors) == pytest.approx(expected, rel=1e-9, abs=5e-6)


class AsPlanned(Scheduler):
    """Starts every job when it is submitted, on given hosts."""

    def __init__(self, hosts: dict[str, HostSet]) -> None:
        super().__init__()
        self.hosts = hosts

    def begin(self, manager: ResourceManager) -> None:
        super().begin(manager)
        manager.shares_hosts = True

    def submitted(self, job: Job) -> None:
        self.manager.start(job, self.hosts[job.id])

    def decide(self) -> None:
        pass


def simulated(jobs: Planned, processors: list[int], speeds: np.ndarray) -> list[float]:
    """Return the ends of the same jobs in the engine."""
    described = [
        {"at": start, "tasks": len(needs), "seconds": needs[host] * speeds[host]}
        for start, needs in jobs
        for host in list(needs)[:1]
    ]
    hosts = {f"w0!{index}": HostSet.of(needs) for index, (_, needs) in enumerate(jobs)}
    simulation = simulate(
        AsPlanned(hosts),
        work(*described, processors=len(processors)),
        machine(speeds.tolist(), processors),
        engine=EngineOptions(compute_sharing=True),
    )
    ends = {int(record.local_id): record.finish for record in simulation.ended}
    return [ends[index] for index in range(len(jobs))]


@pytest.mark.parametrize("seed", range(40))
def test_one_host_equals_the_engine(seed: int) -> None:
    jobs, processors, speeds = planned(1000 + seed, hosts=1, jobs=20)
    assert predicted(jobs, processors) == pytest.approx(
        simulated(jobs, processors, speeds), rel=1e-6
    )


@pytest.mark.parametrize("seed", range(40))
def test_jobs_of_one_task_equal_the_engine(seed: int) -> None:
    jobs, processors, speeds = planned(2000 + seed, hosts=5, jobs=40)
    single = [(start, dict(list(needs.items())[:1])) for start, needs in jobs]
    assert predicted(single, processors) == pytest.approx(
        simulated(single, processors, speeds), rel=1e-6
    )


@pytest.mark.parametrize("seed", range(20))
def test_equal_loads_equal_the_engine(seed: int) -> None:
    random = np.random.default_rng(seed)
    hosts = int(random.integers(2, 6))
    processors = [int(random.integers(1, 4))] * hosts
    jobs = [
        (float(random.integers(0, 40)), dict.fromkeys(range(hosts), float(random.integers(1, 40))))
        for _ in range(20)
    ]
    assert predicted(jobs, processors) == pytest.approx(
        simulated(jobs, processors, np.ones(hosts)), rel=1e-6
    )


@pytest.mark.parametrize("seed", range(60))
def test_the_engine_is_never_later_than_predicted(seed: int) -> None:
    jobs, processors, speeds = planned(3000 + seed, hosts=6, jobs=30)
    ends = np.array(simulated(jobs, processors, speeds))
    assert (ends <= np.array(predicted(jobs, processors)) + 1e-6).all()


@pytest.mark.parametrize("seed", range(30))
def test_nor_if_jobs_do_less_than_estimated(seed: int) -> None:
    jobs, processors, speeds = planned(4000 + seed, hosts=5, jobs=30)
    random = np.random.default_rng(seed)
    shorter = [
        (start, {host: need * share for host, need in needs.items()})
        for (start, needs), share in zip(jobs, random.uniform(0.1, 1.0, len(jobs)), strict=True)
    ]
    ends = np.array(simulated(shorter, processors, speeds))
    assert (ends <= np.array(predicted(jobs, processors)) + 1e-6).all()
