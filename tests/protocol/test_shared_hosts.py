"""Hosts with amounts through messages: starts are checked by amounts, tasks have a mapping."""

from __future__ import annotations

from typing import Any

import pytest

from qops_batsim import InputError, Job, QopsError, Scheduler
from qops_batsim.core import HostSet
from qops_batsim.core.node_profile import NodeProfile
from qops_batsim.core.system import HostDescription, System
from qops_batsim.errors import SimulationError
from qops_batsim.protocol import (
    ExecuteJob,
    JobCompleted,
    JobSubmitted,
    Message,
    Notify,
    SimulationBegins,
    Stamped,
)
from qops_batsim.protocol.driver import ModuleDriver
from qops_batsim.protocol.events import MACHINES_AWAY, EngineConfig
from qops_batsim.protocol.port import SchedulerModule

SMALL, LARGE = {"cores": "4"}, {"cores": "8", "memory": "64GB", "gpus:v100": "2"}


class FirstFit(Scheduler):
    """Start jobs in their order where they fit now."""

    def begin(self, manager: Any) -> None:
        super().begin(manager)
        self.profile = NodeProfile(manager.use.layout)
        self.waiting: list[Job] = []

    def submitted(self, job: Job) -> None:
        self.waiting.append(job)

    def ended(self, job: Job) -> None:
        self.profile.give(job, self.manager.now, float("inf"))

    def decide(self) -> None:
        now = self.manager.now
        self.profile.trim(now)
        while self.waiting and self.profile.fit(self.waiting[0], now) == now:
            job = self.waiting.pop(0)
            self.profile.take(job, now, float("inf"))
            self.manager.start(job)


class Stubborn(Scheduler):
    """Start each job at once on the hosts of its name, or on those that it holds."""

    def submitted(self, job: Job) -> None:
        name = job.id.partition("!")[2]
        self.manager.start(job, HostSet.parse(name) if name[0].isdigit() else None)


class Engine:
    """An engine by hand, with three small hosts and a large one."""

    def __init__(self, scheduler: Scheduler, sharing: bool = True, **options: Any) -> None:
        hosts = [SMALL, SMALL, LARGE]
        self.driver = ModuleDriver(SchedulerModule(scheduler), **options)
        told = [HostDescription(n, f"h{n}", properties=each) for n, each in enumerate(hosts)]
        begins = SimulationBegins(
            nb_resources=3,
            nb_compute_resources=3,
            allow_compute_sharing=sharing,
            config=EngineConfig(),
            compute_resources=told,
        )
        self.tell(0.0, begins)

    def tell(self, now: float, *events: Any) -> list[Any]:
        message = Message(now, [Stamped(now, event) for event in events])
        return [item.body for item in self.driver.exchange(message).events]

    def submit(self, now: float, name: str, **asked: Any) -> list[Any]:
        fields = {"id": f"w0!{name}", "subtime": now, "res": 1, "profile": "p", "walltime": 10}
        job = Job.from_fields(fields | asked, where="job")
        return self.tell(now, JobSubmitted(job.id, job))

    def end(self, now: float, name: str, hosts: str) -> list[Any]:
        alloc = HostSet.parse(hosts)
        return self.tell(now, JobCompleted(f"w0!{name}", "COMPLETED_SUCCESSFULLY", 0, alloc))


def started(name: str, hosts: str, mapping: dict[str, str] | None = None) -> list[Any]:
    return [ExecuteJob(f"w0!{name}", HostSet.parse(hosts), mapping)]


def test_jobs_share_hosts_as_long_as_they_have_the_amounts() -> None:
    #        0 (4 cores)   1 (4 cores)   2 (8 cores, 2 GPUs)
    #  t=0   a a a .       whole job     . . . .
    #  t=1   a a a b       whole job     c c c c c c . .    c takes both GPUs; d waits for one
    #  t=5   a a a b       . . . .       d
    engine = Engine(FirstFit())
    assert engine.submit(0.0, "a", per_host={"cores": 3}) == started("a", "0")
    assert engine.submit(0.0, "whole") == started("whole", "1")
    assert engine.submit(1.0, "b", per_host={"cores": 1}) == started("b", "0")
    asked = {"cores": 6, "gpus:v100": 2}
    assert engine.submit(1.0, "c", per_host=asked) == started("c", "2")
    manager = engine.driver.module.manager
    assert manager.free_mask() == 0
    assert engine.submit(2.0, "d", per_host={"gpus": 1}) == []
    assert engine.end(4.0, "whole", "1") == []
    assert manager.free_mask() == 0b010
    assert engine.end(5.0, "c", "2") == started("d", "2")
    assert engine.end(6.0, "a", "0") == []
    assert manager.free_mask() == 0b010  # b is still on host 0.
    assert engine.end(7.0, "b", "0") == []
    assert manager.free_mask() == 0b011


def test_tasks_on_fewer_hosts_than_res_are_given_a_mapping() -> None:
    # Eight tasks of a core on at most three hosts: all on the large one.
    engine = Engine(FirstFit())
    tasks = {"tasks": 8, "per_task": {"cores": 1}}
    mapping = {"0": "0", "1": "0", "2": "0"}
    assert engine.submit(0.0, "a", res=3, **tasks) == started("a", "2", mapping)
    # As many hosts as it may have: none is needed.
    assert engine.submit(0.0, "b", res=2, **tasks) == started("b", "0-1")
    # Ten tasks on two of three hosts: executor 0 is on the first, 1 and 2 are on the other.
    engine = Engine(FirstFit())
    tasks["tasks"] = 10
    mapping = {"0": "0", "1": "1", "2": "1"}
    assert engine.submit(0.0, "c", res=3, **tasks) == started("c", "0 2", mapping)


def test_each_task_has_its_executor_where_there_are_as_many() -> None:
    # Six tasks of two cores: four are on the large host, two on the first small one.
    engine = Engine(FirstFit())
    tasks = {"tasks": 6, "per_task": {"cores": 2}}
    mapping = {"0": "0", "1": "0", "2": "1", "3": "1", "4": "1", "5": "1"}
    assert engine.submit(0.0, "a", res=6, **tasks) == started("a", "0 2", mapping)
    # Five executors for six tasks: one of the three on the large host has two.
    engine = Engine(FirstFit())
    mapping = {"0": "0", "1": "0", "2": "1", "3": "1", "4": "1"}
    assert engine.submit(0.0, "b", res=5, **tasks) == started("b", "0 2", mapping)


def test_executors_of_parts_stand_in_their_order() -> None:
    # The first part needs the large host, whose number is the highest.
    engine = Engine(FirstFit())
    large = {"res": 1, "per_host": {"gpus": 1}}
    small = {"res": 2, "per_host": {"cores": 4}}
    mapping = {"0": "2", "1": "0", "2": "1"}
    assert engine.submit(0.0, "a", res=3, parts=[large, small]) == started("a", "0-2", mapping)
    engine = Engine(FirstFit())
    assert engine.submit(0.0, "b", res=3, parts=[small, large]) == started("b", "0-2")


def test_a_scheduler_may_name_the_hosts() -> None:
    engine = Engine(Stubborn())
    assert engine.submit(0.0, "2", per_host={"cores": 5}) == started("2", "2")
    assert engine.submit(0.0, "0-1", res=2, per_host={"cores": 4}) == started("0-1", "0-1")
    with pytest.raises(SimulationError) as caught:
        engine.submit(0.0, "2 ", per_host={"cores": 4})
    assert str(caught.value) == (
        "job w0!2 , which asks for 1 processors, cannot start on hosts 2 at 0 s: they do not give "
        "now what it asks for"
    )


@pytest.mark.parametrize("hosts", ["3", "0-1", "0 2"])
def test_hosts_that_are_not_those_asked_for_are_refused(hosts: str) -> None:
    engine = Engine(Stubborn())
    with pytest.raises(SimulationError, match="do not give now what it asks for"):
        engine.submit(0.0, hosts, per_host={"cores": 4})


def test_a_start_before_hosts_were_found_names_what_finds_them() -> None:
    with pytest.raises(SimulationError, match=r"start at 0 s: .*availability\(\).fit\(job\) of a"):
        Engine(Stubborn()).submit(0.0, "job", per_host={"cores": 1})


def test_no_job_starts_on_a_host_that_is_away() -> None:
    engine = Engine(Stubborn())
    engine.submit(0.0, "1", per_host={"cores": 1})
    engine.tell(1.0, Notify.of(MACHINES_AWAY, resources="1"))
    with pytest.raises(SimulationError, match="hosts 1 at 2 s: they do not give now"):
        engine.submit(2.0, "1 ", per_host={"cores": 1})
    engine.end(3.0, "1", "1")
    assert engine.driver.module.manager.free_mask() == 0b101


def test_amounts_without_hosts_that_have_some_are_an_error() -> None:
    system = System(hosts=(HostDescription(0, "h0", properties={"memory": "64GB"}),))
    module = SchedulerModule(Stubborn())
    module.begin(system)
    fields = {"id": "w0!1", "subtime": 0, "res": 1, "profile": "p", "per_host": {"cores": 1}}
    with pytest.raises(InputError) as caught:
        module.submitted(Job.from_fields(fields, where="job"))
    assert str(caught.value) == (
        "job 'w0!1' asks for per_host, but no host of the engine's platform tells what it has; "
        "a platform whose hosts have amounts, such as cores, is expected"
    )


def test_an_engine_whose_hosts_are_not_shared_is_refused() -> None:
    with pytest.raises(QopsError) as caught:
        Engine(FirstFit(), sharing=False, any_engine=True)
    assert str(caught.value) == (
        "host 'h0' has amounts that jobs share, but the engine was not started with "
        "--enable-compute-sharing"
    )
