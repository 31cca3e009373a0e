"""Schedulers that kill and register jobs: told the same, with the same outcome, on both roads.

The loop of events serves them itself where the jobs of the workload only sleep; where Batsim's
messages forward profiles, it has a conversation.
"""

from __future__ import annotations

import random
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from qops_batsim import Fcfs, Job, Scheduler
from qops_batsim.core import WAITING
from qops_batsim.workload import Workload, delay_profile
from support.both_roads import check, outcome
from support.random_outages import random_events, random_workload
from support.restless import Restless


@given(seed=st.integers(0, 10**9))
@settings(max_examples=settings.default.max_examples * 2)
def test_a_restless_scheduler_is_told_the_same(seed: int) -> None:
    drawn = random.Random(seed)
    workload = random_workload(drawn, deadlines=False)
    events = random_events(drawn, workload) if drawn.random() < 0.6 else None

    def make() -> Restless:
        made = Restless()
        made.seed = seed
        return made

    announces = drawn.random() < 0.5
    check(make, workload, external_events=events, acknowledge_dynamic_jobs=announces)


@pytest.mark.parametrize("price", [None, 9.0])
@given(seed=st.integers(0, 10**9))
@settings(max_examples=settings.default.max_examples // 2)
def test_fqops_kills_alike_where_hosts_go_away(seed: int, price: float | None) -> None:
    drawn = random.Random(seed)
    workload = random_workload(drawn, deadlines=True)
    for job in workload.jobs:
        if job.qos is not None and drawn.random() < 0.5:
            job.qos = msgspec.structs.replace(job.qos, checkpoint=drawn.choice([0.5, 2.0]))
    options = {"kill_and_restart": True, "kill_after": 0.0, "restart_price": price}
    events = random_events(drawn, workload)
    check(lambda: "fqops", workload, options, external_events=events)


class Eager(Scheduler):
    """Start each job at once, if it can; kill what runs when a job comes that cannot."""

    kills = True

    def begin(self, manager: Any) -> None:
        super().begin(manager)
        self.waiting: list[Job] = []
        self.running: list[Job] = []
        self.told: list[Any] = []

    def submitted(self, job: Job) -> None:
        self.waiting.append(job)
        for each in self.running:
            if self.manager.free < job.processors:
                self.manager.kill(each)  # From a hook: it takes effect with the decision.

    def ended(self, job: Job) -> None:
        self.told.append((self.manager.now, job.id, job.state))
        self.running.remove(job)

    def decide(self) -> None:
        while self.waiting and self.waiting[0].processors <= self.manager.free:
            self.manager.start(self.waiting[0])
            self.running.append(self.waiting.pop(0))


def test_a_hook_kills_with_the_next_decision() -> None:
    # a on both hosts from 0; b comes at 4 and has a killed, c at 5 has b killed.
    name, profile = delay_profile(10.0)
    jobs = [Job("a", 0.0, 8, name), Job("b", 4.0, 8, name), Job("c", 5.0, 8, name)]
    workload = Workload(jobs=jobs, profiles={name: profile}, processors=8)
    told = check(Eager, workload)["told"]
    assert told == [
        (4.0, "w0!a", "COMPLETED_KILLED"),
        (5.0, "w0!b", "COMPLETED_KILLED"),
        (15.0, "w0!c", "COMPLETED_SUCCESSFULLY"),
    ]


class Forgetful(Restless):
    """Never say that no more jobs will be registered."""

    def decide(self) -> None:
        self.finishes = True
        super().decide()


def test_registration_that_is_never_finished_is_told() -> None:
    name, profile = delay_profile(1.0)
    workload = Workload(jobs=[Job("a", 0.0, 1, name)], profiles={name: profile}, processors=8)
    error = check(Forgetful, workload)["error"]
    assert "registration_finished" in error


class Wrong(Restless):
    """Register a job that cannot be."""

    wrong: tuple[str, str, dict[str, Any] | None]

    def decide(self) -> None:
        job_id, profile, told = self.wrong
        self.manager.register(Job(job_id, 0.0, 1, profile), told)


@pytest.mark.parametrize(
    ("job_id", "profile", "told"),
    [
        ("w0!a", "p", {"type": "delay", "delay": 1}),
        ("w0!b", "nothing", None),
        ("b", "p", None),
        ("w0!b", "p", {"type": "delay", "delay": -1}),
        ("w0!b", "p", {"type": "unheard of"}),
        ("other!b", "delay1", None),
    ],
)
def test_a_wrong_registration_is_the_same_error(
    job_id: str, profile: str, told: dict[str, Any] | None
) -> None:
    name, sleeps = delay_profile(1.0)
    workload = Workload(jobs=[Job("a", 0.0, 1, name)], profiles={name: sleeps}, processors=8)

    errors = []
    for by_messages in (False, True):
        wrong = Wrong()
        wrong.wrong = job_id, profile, told
        errors.append(outcome(wrong, workload, by_messages=by_messages)["error"])
    assert errors[0] == errors[1] != ""


class Asking(Fcfs):
    """Ask for the profile of each job, and see how it has ended."""

    def begin(self, manager: Any) -> None:
        super().begin(manager)
        self.told: list[Any] = []

    def submitted(self, job: Job) -> None:
        self.told.append((job.id, self.manager.profile_of(job)))
        super().submitted(job)

    def ended(self, job: Job) -> None:
        self.told.append((job.id, job.state))
        super().ended(job)


def test_the_loop_tells_profiles_and_final_states() -> None:
    sleep, fail = {"type": "delay", "delay": 2}, {"type": "delay", "delay": 2, "ret": 1}
    jobs = [
        Job("a", 0.0, 1, "sleep"),
        Job("b", 0.0, 1, "fail"),
        Job("c", 1.0, 1, "sleep", walltime=1.5),
    ]
    workload = Workload(jobs=jobs, profiles={"sleep": sleep, "fail": fail}, processors=8)
    assert check(Asking, workload)["told"] == [
        ("w0!a", sleep),
        ("w0!b", fail),
        ("w0!c", sleep),
        ("w0!a", "COMPLETED_SUCCESSFULLY"),
        ("w0!b", "COMPLETED_FAILED"),
        ("w0!c", "COMPLETED_WALLTIME_REACHED"),
    ]


class Idle(Scheduler):
    """Start the first job only."""

    def submitted(self, job: Job) -> None:
        self.job = job

    def decide(self) -> None:
        job = getattr(self, "job", None)
        if job is not None and job.id == "w0!a" and job.phase == WAITING:
            self.manager.start(job)


def test_files_of_a_deadlock_tell_what_was_decided_before() -> None:
    name, sleep = delay_profile(2.0)
    jobs = [Job("a", 0.0, 1, name), Job("b", 1.0, 1, name)]
    told = check(Idle, Workload(jobs=jobs, profiles={name: sleep}, processors=8))
    assert "1 jobs were submitted and neither started nor rejected" in told["error"]
    rows = told["_qos.csv"].decode().splitlines()
    assert [row.split(",")[4] for row in rows] == ["decision", "accepted", ""]
