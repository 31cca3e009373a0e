"""Hosts that leave and return, maintenance, cancellations and fixed starts under a plan.

Schedules and logs of decisions are those of the schedulers that are replaced.
"""

from __future__ import annotations

import math
import random
from typing import Any

import msgspec
import pytest

from qops_batsim.core.job import Job
from qops_batsim.core.plan import Plan
from qops_batsim.engine.delay_jobs import ended_jobs_of_outcome
from qops_batsim.engine.ended_jobs import HostChanges
from qops_batsim.engine.loop import EmbeddedManager
from qops_batsim.engine.options import EngineOptions, ExternalEvent
from qops_batsim.engine.simulation import Simulation
from qops_batsim.errors import InputError
from qops_batsim.jobs import FINAL_STATES, REJECTED
from qops_batsim.platform.generate import make_cluster
from qops_batsim.running.simulate import default_engine, simulate
from qops_batsim.schedulers.conservative import Conservative, ConservativeOptions
from qops_batsim.schedulers.planning import PlanScheduler
from qops_batsim.scheduling.driver import ModuleDriver
from qops_batsim.scheduling.news import News
from qops_batsim.scheduling.qos_log import QosLog
from qops_batsim.scheduling.refusal import Refusal, RefusalKind, no_time
from qops_batsim.scheduling.registry import make_scheduler
from qops_batsim.timing import DEADLINE_TOLERANCE, end_of
from qops_batsim.workload.model import Workload
from support.loop_runs import run_sleeping
from support.random_outages import HOSTS, random_events, random_workload
from support.scheduler_module import ReplacedModule, SchedulerModule


def told(scheduler: Any, workload: Workload, events: tuple[ExternalEvent, ...]) -> list[Any]:
    """Return what became of each job, in the order of their ends."""
    settings = None
    if isinstance(scheduler, tuple):
        scheduler, settings = scheduler
    # With profiles an engine speaks in messages, which the module hears, not the scheduler.
    engine = EngineOptions(forward_profiles=isinstance(scheduler, SchedulerModule))
    done = simulate(
        scheduler,
        workload,
        make_cluster(HOSTS),
        settings,
        events=events,
        engine=engine,
        allow_smaller_machine=True,
    )
    return [
        (each.job.id, REJECTED)
        if each.state == REJECTED
        else (each.job.id, each.state, each.start, each.finish, str(each.hosts))
        for each in done.ended
    ]


@pytest.mark.parametrize("reserve", ["hosts", "processors"])
@pytest.mark.parametrize("seed", range(40))
def test_conservative(reserve: str, seed: int) -> None:
    rng = random.Random(seed)
    workload = random_workload(rng, deadlines=seed % 2 == 1)
    events = random_events(rng, workload)
    scheduler = Conservative(ConservativeOptions(reserve=reserve))
    module = SchedulerModule(scheduler, lambda: scheduler.plan.check())
    expected = told(("conservative", {"reserve": reserve}), workload, events)
    assert told(module, workload, events) == expected


class Appending(PlanScheduler):
    """Plans a new job behind what is planned; refuses it if it would be late."""

    def new_plan(self, machine_size: int) -> Plan:
        return Plan(machine_size, keeps_promises=True)

    def answer(self, job: Job) -> None:
        plan, left = self.plan, job.target - self.plan.nominal()
        if job.target < math.inf and job.processors > plan.present:
            size = plan.machine_size
            gone, kind = size - plan.present, RefusalKind.HOSTS_AWAY
            self.refused(
                job,
                Refusal(kind=kind, processors=job.processors, machine_size=size, hosts=gone),
            )
            return
        if job.duration > left + DEADLINE_TOLERANCE:
            self.refused(job, no_time(job.duration, left, job.target))
            return
        plan.aim_again()
        job.trial = plan.profile.fit(job, plan.nominal())
        end = end_of(job.trial, job.duration)
        if end > job.target + DEADLINE_TOLERANCE:
            self.refused(job, "too late")
            return
        plan.profile.take(job, job.trial, end)
        for waiting in plan.waiting:
            waiting.trial = waiting.start
        plan.adopt([*plan.waiting, job])
        self.note_admission(job)


def in_the_loop(
    scheduler: PlanScheduler, workload: Workload, events: tuple[ExternalEvent, ...]
) -> tuple[list[Any], HostChanges]:
    """Return what became of each job in the loop of compiled classes, and the changes of hosts."""
    made = make_scheduler("fcfs")
    driver = ModuleDriver(made, any_engine=True)
    simulation = Simulation(make_cluster(HOSTS), [workload], driver, default_engine(made))
    jobs = simulation.delay_jobs()
    assert jobs is not None
    found = run_sleeping(jobs, workload.jobs, HOSTS, scheduler, events=events)
    ends = ended_jobs_of_outcome(found)
    rows = zip(
        *(ends.ids, ends.states.tolist(), ends.starts.tolist(), ends.finishes.tolist()),
        ends.hosts.sets(),
        strict=True,
    )
    told_rows = [
        (f"w0!{name}", REJECTED)
        if FINAL_STATES[state] == REJECTED
        else (f"w0!{name}", FINAL_STATES[state], start, finish, str(hosts))
        for name, state, start, finish, hosts in rows
    ]
    return told_rows, found.host_changes(HOSTS)


@pytest.mark.parametrize("reserve", ["hosts", "processors"])
@pytest.mark.parametrize("seed", range(40))
def test_the_loop_of_compiled_classes(reserve: str, seed: int) -> None:
    rng = random.Random(seed)
    workload = random_workload(rng, deadlines=seed % 2 == 1)
    events = random_events(rng, workload)
    former = simulate(
        "conservative",
        workload,
        make_cluster(HOSTS),
        {"reserve": reserve},
        events=events,
        allow_smaller_machine=True,
    )
    ends, changes = in_the_loop(
        Conservative(ConservativeOptions(reserve=reserve)), workload, events
    )
    assert ends == told(("conservative", {"reserve": reserve}), workload, events)
    expected = former.host_changes
    assert changes.dates.tolist() == expected.dates.tolist()
    assert changes.computing.tolist() == expected.computing.tolist()
    assert changes.idle.tolist() == expected.idle.tolist()


@pytest.mark.parametrize("seed", range(25))
@pytest.mark.parametrize("kind", ["hosts", "processors", "promises"])
def test_a_fresh_scheduler_goes_on_from_a_standing(kind: str, seed: int) -> None:
    rng = random.Random(seed)
    workload = random_workload(rng, deadlines=True)
    events = random_events(rng, workload)

    def make() -> PlanScheduler:
        return (
            Appending() if kind == "promises" else Conservative(ConservativeOptions(reserve=kind))
        )

    replaced = ReplacedModule(make)
    assert told(replaced, workload, events) == told(SchedulerModule(make()), workload, events)
    assert replaced.replaced > 5


def test_a_standing_of_another_version_is_refused() -> None:
    scheduler = Conservative(ConservativeOptions(reserve="processors"))
    manager = EmbeddedManager(HOSTS, 1)
    manager.news, manager.qos_log = News(), QosLog()
    scheduler.begin(manager)
    standing = scheduler.standing()
    assert standing is not None
    scheduler.begin(manager)
    with pytest.raises(InputError, match="the standing has version 1; 2 is accepted"):
        scheduler.go_on(msgspec.structs.replace(standing, version=1))
