"""Hosts that leave and return, maintenance, cancellations and fixed starts under a plan."""

from __future__ import annotations

import math
import random

import msgspec
import pytest

from qops_batsim import Conservative, InputError, Job
from qops_batsim.core import News, Plan, QosLog
from qops_batsim.core.refusal import Refusal, RefusalKind, no_time
from qops_batsim.engine.embedded_manager import EmbeddedManager
from qops_batsim.engine.wait_heap import Turns
from qops_batsim.schedulers.conservative import ConservativeOptions
from qops_batsim.schedulers.planning import PlanScheduler
from qops_batsim.timing import DEADLINE_TOLERANCE, end_of
from support.plan_checks import check_plan
from support.random_outages import HOSTS, random_events, random_workload, run
from support.replaced_modules import ReplacedModule


class CheckedConservative(Conservative):
    """Check the plan after each decision."""

    had_windows = False

    def decide(self) -> None:
        super().decide()
        capacity = self.manager.capacity
        self.had_windows = self.had_windows or bool(capacity and capacity.windows)
        check_plan(self.plan, is_exact=not self.had_windows)


@pytest.mark.parametrize("reserve", ["hosts", "processors"])
@pytest.mark.parametrize("seed", range(40))
def test_runs_in_the_loop_of_events_and_by_messages_are_the_same(reserve: str, seed: int) -> None:
    rng = random.Random(seed)
    workload = random_workload(rng, deadlines=seed % 2 == 1)
    events = random_events(rng, workload)
    settings = {"reserve": reserve}
    expected = run(CheckedConservative, settings, workload, events, by_messages=True)
    assert run("conservative", settings, workload, events) == expected


class Appending(PlanScheduler):
    """Plans a new job behind what is planned; refuses it if it would be late."""

    def empty_plan(self, machine_size: int) -> Plan:
        return Plan(machine_size, keeps_promises=True)

    def answer(self, job: Job) -> None:
        plan, left = self.plan, job.target - self.plan.nominal()
        if job.target < math.inf and job.processors > plan.hosts.present:
            size = plan.machine_size
            gone, kind = size - plan.hosts.present, RefusalKind.HOSTS_AWAY
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
    expected = run(make(), None, workload, events, by_messages=True)
    assert run(replaced, None, workload, events, by_messages=True) == expected
    assert replaced.replaced > 5


def test_a_standing_of_another_version_is_refused() -> None:
    scheduler = Conservative(ConservativeOptions(reserve="processors"))
    manager = EmbeddedManager(HOSTS, 1, Turns())
    manager.news, manager.qos_log = News(), QosLog()
    scheduler.begin(manager)
    standing = scheduler.standing()
    assert standing is not None
    scheduler.begin(manager)
    with pytest.raises(InputError, match="the snapshot has format version 1; 2 is accepted"):
        scheduler.go_on(msgspec.structs.replace(standing, version=1))
