"""Decisions of all kinds in this process and in texts, and what is refused."""

import random
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given

from qops_batsim import Job
from qops_batsim.core import HostSet, System
from qops_batsim.engine import Simulation
from qops_batsim.engine import world as engine
from qops_batsim.errors import SimulationError
from qops_batsim.platform import make_cluster
from qops_batsim.protocol import (
    CallMeLater,
    Decision,
    ExecuteJob,
    JobCompleted,
    KillJob,
    ModuleDriver,
    Notify,
    RejectJob,
)
from qops_batsim.protocol.decisions import SetJobMetadata
from qops_batsim.workload import Workload
from support.only_texts import OnlyTexts
from support.scripted_module import ScriptedModule


class Whims(ScriptedModule):
    """Starts jobs in order of arrival, and from some decision on does other things as well.

    ``wrong`` is what it answers at last, if anything.
    """

    def __init__(self, seed: int, patience: int, wrong: list[Decision]) -> None:
        super().__init__()
        self._random = random.Random(seed)
        self._patience = patience
        self._wrong = wrong
        self.heard: list[Any] = []

    def begin(self, system: System) -> None:
        self.free = HostSet.first(len(system.hosts))
        self.waiting: list[Job] = []
        self.running: list[str] = []

    def submitted(self, job: Job) -> None:
        self.heard.append(job.id)
        self.waiting.append(job)

    def completed(self, event: JobCompleted) -> None:
        self.heard.append((event.job_id, event.job_state, event.return_code, str(event.alloc)))
        self.free |= event.alloc
        self.running.remove(event.job_id)

    def killed(self, job_ids: list[str]) -> None:
        self.heard.append(job_ids)

    def call(self) -> None:
        self.heard.append("call")

    def notified(self, notification: Notify) -> None:
        self.heard.append(notification.type)

    def decide(self, now: float) -> list[Decision]:
        self.heard.append(now)
        self._patience -= 1
        decisions: list[Decision] = []
        if self._patience < 0:
            decisions += self._wrong or self._whim(now)
        while self.waiting and self.waiting[0].processors <= len(self.free):
            job = self.waiting.pop(0)
            if not job.processors or self._random.random() < 0.1:
                decisions.append(RejectJob(job.id))
                continue
            hosts = self.free.lowest(job.processors)
            self.free -= hosts
            self.running.append(job.id)
            decisions.append(ExecuteJob(job.id, hosts))
        return decisions

    def _whim(self, now: float) -> list[Decision]:
        if not self.running:
            return []
        job_id = self._random.choice(self.running)
        whims: list[Decision] = [
            KillJob([job_id]),
            CallMeLater(now + self._random.choice([0.5, 1.0, 3.0])),
            SetJobMetadata(job_id, "seen"),
        ]
        return [self._random.choice(whims)]


def lives(workload: Workload, *, in_texts: bool, **options: Any) -> list[Any]:
    """Return what a module heard, and what became of the jobs."""
    module = Whims(**options)
    driver = ModuleDriver(module)
    simulation = Simulation(make_cluster(4), [workload], OnlyTexts(driver) if in_texts else driver)
    trouble = ""
    try:
        simulation.run()
    except SimulationError as error:
        trouble = str(error)
    records = [
        (repr(each), each.return_code, each.metadata) for each in simulation.records.values()
    ]
    ended = [each.job.id for each in simulation.ended]
    changes = list(simulation.computing_changes)
    return [module.heard, records, ended, changes, simulation.now, trouble]


@st.composite
def workloads(draw: st.DrawFn) -> Workload:
    jobs = []
    profiles = {f"p{delay}": {"type": "delay", "delay": delay} for delay in (1, 2, 3.5)}
    for number in range(draw(st.integers(1, 12))):
        date = draw(st.sampled_from([0.0, 1.0, 1.0 + 5e-10, 2.0, 3.0, 4.5, 9.0]))
        profile = draw(st.sampled_from(sorted(profiles)))
        walltime = draw(st.sampled_from([None, 2.0, 3.0]))
        jobs.append(Job(str(number), date, draw(st.integers(0, 4)), profile, walltime))
    return Workload(jobs=jobs, profiles=profiles, processors=4)


@given(workload=workloads(), seed=st.integers(0, 99), patience=st.integers(0, 30))
def test_both_sides_hear_the_same_whatever_they_decide(
    workload: Workload, seed: int, patience: int
) -> None:
    options: dict[str, Any] = {"seed": seed, "patience": patience, "wrong": []}
    assert lives(workload, in_texts=False, **options) == lives(workload, in_texts=True, **options)


@pytest.mark.parametrize(
    "wrong",
    [
        ExecuteJob("w0!9", HostSet.of([0])),
        ExecuteJob("w0!0", HostSet.of([0])),
        ExecuteJob("w0!2", HostSet.of([3, 4])),
        ExecuteJob("w0!2", HostSet.of([3])),
        ExecuteJob("w0!2", HostSet.of([0])),
        ExecuteJob("w0!2", HostSet()),
        RejectJob("w0!0"),
        RejectJob("w0!7"),
        KillJob(["w0!2"]),
        CallMeLater(0.0),
    ],
)
def test_what_is_refused_is_refused_in_the_same_words(wrong: Decision) -> None:
    jobs = [Job("0", 0.0, 1, "p"), Job("1", 0.0, 4, "p"), Job("2", 1.0, 1, "p")]
    jobs.append(Job("7", 9.0, 1, "p"))
    profiles = {"p": {"type": "delay", "delay": 5}}
    workload = Workload(jobs=jobs, profiles=profiles, processors=4)
    options: dict[str, Any] = {"seed": 3, "patience": 2, "wrong": [wrong]}
    told = lives(workload, in_texts=False, **options)
    assert told == lives(workload, in_texts=True, **options)
    assert told[-1]


def test_jobs_that_are_never_started_are_named() -> None:
    class Idle(ScriptedModule):
        def decide(self, now: float) -> list[Decision]:
            return []

    jobs = [Job("0", 0.0, 1, "p"), Job("1", 0.0, 4, "p")]
    workload = Workload(jobs=jobs, profiles={"p": {"type": "delay", "delay": 5}}, processors=4)
    simulation = Simulation(make_cluster(4), [workload], ModuleDriver(Idle()))
    with pytest.raises(SimulationError, match="2 jobs were submitted .*: w0!0, w0!1"):
        simulation.run()


def test_on_many_hosts_those_of_ended_jobs_are_kept_as_texts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    jobs = [Job(f"{number:03}", number // 3, 1 + number % 3, "p") for number in range(700)]
    workload = Workload(jobs=jobs, profiles={"p": {"type": "delay", "delay": 1.5}}, processors=4)
    options: dict[str, Any] = {"seed": 1, "patience": 10**6, "wrong": []}
    expected = lives(workload, in_texts=True, **options)
    monkeypatch.setattr(engine, "MANY_HOSTS", 2)
    assert lives(workload, in_texts=False, **options) == expected
