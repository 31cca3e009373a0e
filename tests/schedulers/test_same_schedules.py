"""Schedulers of compiled classes against those they replace: the same schedules, to the byte."""

from __future__ import annotations

import random
from typing import Any

import msgspec
import numpy as np
import pytest

from qops_batsim.core.job import Job
from qops_batsim.core.scheduler import Scheduler
from qops_batsim.engine.delay_jobs import Outcome
from qops_batsim.engine.simulation import Simulation
from qops_batsim.errors import SimulationError
from qops_batsim.jobs import QosRequest
from qops_batsim.platform.generate import make_cluster
from qops_batsim.running.simulate import default_engine, simulate
from qops_batsim.schedulers.conservative import Conservative, ConservativeOptions
from qops_batsim.schedulers.easy import SHORT_QUEUE, Easy, EasyOptions
from qops_batsim.schedulers.fcfs import Fcfs
from qops_batsim.scheduling.driver import ModuleDriver
from qops_batsim.scheduling.registry import make_scheduler
from qops_batsim.workload.model import Workload, delay_profile
from support.loop_runs import run_sleeping

HOSTS = 8


def random_workload(seed: int, fixed_starts: bool = False) -> Workload:
    """Return jobs that keep a machine busy, with ties, and two that never fit."""
    rng = random.Random(seed)
    jobs, profiles, date = [], {}, 0.0
    grain = rng.choice([1.0, 0.001])
    for number in range(60):
        date += rng.choice([0.0, rng.randint(1, 20) * grain])
        name, profile = delay_profile(rng.randint(1, 30) * grain)
        profiles[name] = profile
        limit = profile["delay"] * rng.choice([0.5, 1.0, 1.5, 4.0])
        qos = None
        if fixed_starts and rng.random() < 0.15:
            qos = QosRequest(start=date + rng.randint(0, 40) * grain)
        processors = rng.choice([1, 1, 2, 3, 4, HOSTS])
        if number in (20, 40):
            processors = number - 20 and HOSTS + 1
        fields = {"user": f"u{rng.randint(1, 3)}"}
        job = Job(str(number), date, processors, name, limit, qos)
        jobs.append(Job.from_fields({**job.fields, **fields}, where="here"))
    return Workload(jobs=jobs, profiles=profiles, processors=HOSTS)


def outcome(workload: Workload, scheduler: Scheduler) -> Outcome:
    module = make_scheduler("fcfs")
    driver = ModuleDriver(module, any_engine=True)
    simulation = Simulation(make_cluster(HOSTS), [workload], driver, default_engine(module))
    jobs = simulation.delay_jobs()
    assert jobs is not None
    return run_sleeping(jobs, workload.jobs, HOSTS, scheduler)


def expected(workload: Workload, name: Any, settings: dict[str, Any] | None = None) -> Simulation:
    return simulate(name, workload, make_cluster(HOSTS), settings, allow_smaller_machine=True)


def assert_same(simulation: Simulation, found: Outcome) -> None:
    """Check what became of each job, the order in which they ended, and the changes of hosts."""
    ids = found.jobs.full_ids()
    assert [each.job.id for each in simulation.ended] == [ids[place] for place in found.ended]
    for record, place, hosts in zip(
        simulation.ended, found.ended.tolist(), found.hosts.sets(), strict=True
    ):
        start, finish = float(found.starts[place]), float(found.finishes[place])
        if record.state == "REJECTED":
            assert np.isnan(start)
        else:
            assert (record.start, record.finish, record.hosts) == (start, finish, hosts)
    changes = simulation.host_changes
    assert changes.dates.tobytes() == found.change_dates.tobytes()
    assert changes.computing.tolist() == found.computing.tolist()


EASY = [
    {},
    *({"order": order} for order in ("sjf", "ljf", "saf", "lxf", "wfp3", "unicef")),
    *({"order": order} for order in ("f1", "f2", "f3", "f4")),
    {"backfill_order": "sjf"},
    {"order": "saf", "backfill_order": "lxf"},
    {"order": "sjf", "starvation_bound": 20.0},
    {"order": "wfp3", "backfill_order": "sjf", "starvation_bound": 5.0},
    {"run_times": "predicted"},
    {"run_times": "predicted", "backfill_order": "sjf"},
    {"run_times": "predicted", "order": "saf"},
]


@pytest.mark.parametrize("settings", EASY, ids=str)
def test_easy(settings: dict[str, Any]) -> None:
    for seed in range(4):
        workload = random_workload(seed)
        scheduler = Easy(msgspec.convert(settings, EasyOptions))
        assert_same(expected(workload, "easy", settings), outcome(workload, scheduler))


def test_fcfs() -> None:
    for seed in range(6):
        workload = random_workload(seed)
        assert_same(expected(workload, "fcfs"), outcome(workload, Fcfs()))


class Checked(Conservative):
    """Conservative backfilling whose plan is checked after every message."""

    def decide(self) -> None:
        super().decide()
        self.plan.check()


@pytest.mark.parametrize("reserve", ["hosts", "processors"])
@pytest.mark.parametrize("fixed_starts", [False, True])
def test_conservative(reserve: str, fixed_starts: bool) -> None:
    for seed in range(8):
        workload = random_workload(seed, fixed_starts)
        found = outcome(workload, Checked(ConservativeOptions(reserve=reserve)))
        assert_same(expected(workload, "conservative", {"reserve": reserve}), found)


class Widest(Easy):
    """EASY with an order of a user's own."""

    def key(self, job: Job) -> float:
        return -job.processors


def test_a_key_in_python_orders_the_queue() -> None:
    from qops_batsim import Easy as Former

    class FormerWidest(Former):
        def key(self, job: Job) -> float:
            return -job.processors

    for seed in range(4):
        workload = random_workload(seed)
        assert_same(expected(workload, FormerWidest), outcome(workload, Widest()))


@pytest.mark.parametrize("key", ["7", None, float("nan")])
def test_a_key_that_is_no_number_is_an_error_that_names_the_job(key: Any) -> None:
    class Wrong(Easy):
        def key(self, job: Job) -> Any:
            return key

    with pytest.raises(SimulationError, match=r"Wrong.key\(w0!0\) returned .*; a number is exp"):
        outcome(random_workload(1), Wrong())


def test_decide_can_be_overridden() -> None:
    class Watched(Easy):
        times = 0

        def decide(self) -> None:
            super().decide()
            Watched.times += 1

    workload = random_workload(2)
    assert_same(expected(workload, "easy"), outcome(workload, Watched()))
    assert Watched.times > 60


def test_a_long_queue_has_summaries_of_its_jobs() -> None:
    class Checked(Easy):
        longest = 0

        def decide(self) -> None:
            super().decide()
            self.queue.check()
            Checked.longest = max(Checked.longest, len(self.queue.jobs))

    rng, jobs, profiles = random.Random(5), list[Job](), dict[str, Any]()
    for number in range(700):
        name, profile = delay_profile(rng.randint(1, 40))
        profiles[name] = profile
        processors = rng.choice([1, 2, 3, 5, HOSTS])
        jobs.append(Job(str(number), float(number // 3), processors, name, 60.0))
    workload = Workload(jobs=jobs, profiles=profiles, processors=HOSTS)
    assert_same(expected(workload, "easy"), outcome(workload, Checked()))
    assert Checked.longest > SHORT_QUEUE
