"""Schedulers through messages: what they are told and decide is as in the loop of events."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import msgspec
import pytest

from qops_batsim import (
    Conservative,
    Easy,
    Fcfs,
    InputError,
    Job,
    Scheduler,
    SchedulerOptions,
    simulate,
)
from qops_batsim.core import HostSet
from qops_batsim.engine import EngineOptions
from qops_batsim.errors import SimulationError
from qops_batsim.platform import make_cluster
from qops_batsim.protocol import make_scheduler
from qops_batsim.running import default_engine
from qops_batsim.workload import Workload, delay_profile
from support.qos_rows import qos_rows

HOSTS = 8


class Fifo(Scheduler):
    """First come, first served, as a user would write it."""

    def begin(self, manager: Any) -> None:
        super().begin(manager)
        self.waiting: list[Job] = []

    def submitted(self, job: Job) -> None:
        if job.processors > self.manager.machine_size:
            self.manager.reject(job, "too wide")
        else:
            self.waiting.append(job)

    def decide(self) -> None:
        while self.waiting and self.waiting[0].processors <= self.manager.free:
            self.manager.start(self.waiting.pop(0))


def random_workload(seed: int) -> Workload:
    rng, jobs, profiles, date = random.Random(seed), [], {}, 0.0
    for number in range(50):
        date += rng.choice([0.0, rng.randint(1, 9)])
        name, profile = delay_profile(rng.randint(1, 30))
        profiles[name] = profile
        jobs.append(
            Job(str(number), date, rng.randint(1, HOSTS + 1), name, walltime=rng.randint(1, 40))
        )
    return Workload(jobs=jobs, profiles=profiles, processors=HOSTS)


@pytest.mark.parametrize("kind", [Fcfs, Easy, Conservative, Fifo])
@pytest.mark.parametrize("seed", range(5))
def test_the_loop_and_messages_give_the_same_run(kind: type[Scheduler], seed: int) -> None:
    workload, cluster = random_workload(seed), make_cluster(HOSTS)
    found = []
    for engine in (EngineOptions(), EngineOptions(forward_profiles=True)):
        module = make_scheduler(kind)
        done = simulate(module, workload, cluster, engine=engine)
        ends = [(each.job.id, each.state, each.start, str(each.hosts)) for each in done.ended]
        found.append((ends, qos_rows(module.qos_log)))
    assert found[0] == found[1]
    assert {row[5] for row in found[0][1]} > {""}  # Some are too wide, which is told.


@pytest.mark.parametrize("engine", [EngineOptions(), EngineOptions(forward_profiles=True)])
def test_a_start_on_hosts_that_are_taken_names_the_job(engine: EngineOptions) -> None:
    class Greedy(Fifo):
        def decide(self) -> None:
            for job in self.waiting:
                self.manager.start(job, HostSet.parse(f"0-{job.processors - 1}"))
            self.waiting.clear()

    name, profile = delay_profile(10)
    jobs = [Job("1", 0.0, 2, name), Job("2", 0.0, 2, name)]
    workload = Workload(jobs=jobs, profiles={name: profile}, processors=HOSTS)
    with pytest.raises(
        SimulationError, match=r"job w0!2, .*on hosts 0-1 at 0 s: hosts that are not free: 2"
    ):
        simulate(Greedy, workload, make_cluster(HOSTS), engine=engine)


class Misspelt(Easy):
    def keys(self, job: Job) -> float:
        return job.estimate


class Unheard(Easy):
    def priority_of(self, job: Job) -> float:
        return job.estimate


class Narrow(Easy):
    def key(self) -> float:  # type: ignore[override]
        return 0.0


class NoOptions(Easy):
    def __init__(self, options: SchedulerOptions | None = None) -> None:
        super().__init__(options)
        self.options = {"a": 1}


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        (Misspelt, "Misspelt.keys is called by nothing; did you mean 'key'"),
        (Unheard, "Unheard overrides no hook of Easy, so it would do the same; nothing calls its "),
        (Narrow, r"Narrow.key\(self\) .*cannot be called as key\(job\), as is expected"),
        (NoOptions, "NoOptions.options is of type dict; SchedulerOptions are expected"),
    ],
)
def test_what_does_not_look_as_a_scheduler_is_one_clear_error(
    kind: type[Scheduler], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        make_scheduler(kind)


@pytest.mark.parametrize("seed", range(10))
def test_hosts_that_leave_and_return(seed: int, tmp_path: Path) -> None:
    rng = random.Random(seed)
    lines, away = [], False
    for date in sorted(rng.sample(range(300), 6)):
        kind = "machine_available" if away else "machine_unavailable"
        lines.append(json.dumps({"timestamp": date, "type": kind, "resources": "2-4"}))
        away = not away
    workload, cluster = random_workload(seed), make_cluster(HOSTS)
    events = tmp_path / "events.txt"
    events.write_text("\n".join(lines))
    found = []
    for forwards in (False, True):
        module = make_scheduler(Conservative)
        engine = default_engine(module, events=events)
        engine = msgspec.structs.replace(engine, forward_profiles=forwards)
        done = simulate(module, workload, cluster, engine=engine)
        changes = done.host_changes
        found.append(
            (
                [(each.job.id, each.state, each.start, str(each.hosts)) for each in done.ended],
                qos_rows(module.qos_log),
                [each.tolist() for each in (changes.dates, changes.computing, changes.idle)],
                done.happened,
            )
        )
    assert found[0] == found[1]
