"""Schedulers of one's own on machines whose jobs share hosts by amounts."""

from __future__ import annotations

import json
import math
import random
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import pytest

from qops_batsim import (
    DeadlineScheduler,
    Easy,
    Job,
    Qops,
    QueueScheduler,
    Scheduler,
    read_platform,
    simulate,
)
from qops_batsim.adapters import ADMIT, FEATURES, LEAST_LAXITY, Steered
from qops_batsim.core.availability import AvailabilityProfile, NotFreeError
from qops_batsim.core.hostset import HostSet
from qops_batsim.engine.simulation import Simulation
from qops_batsim.errors import CountsHostsError, SimulationError
from qops_batsim.jobs import REJECTED
from qops_batsim.protocol import ModuleDriver, make_scheduler
from qops_batsim.running.simulate import default_engine
from qops_batsim.workload.batsim_json import parse_workload
from support.node_cases import platform_of, workload_of
from support.node_drawn import host, machine, part
from support.node_drawn import job as asking
from support.node_oracles import NodeJob, SharedMachine
from support.node_runs import broken_promises, count_promises, outcome_of, random_case

BLOCK = 25
"""Workloads of a test."""


class LargestFirst(Easy):
    def key(self, job: Job) -> float:
        return -job.size


class LastFirst(Easy):
    def order(self, now: float) -> list[Job]:
        return self.queue[::-1]


class TwoAtOnce(Easy):
    def may_start(self, job: Job) -> bool:
        self.availability().fit(job)  # Looking changes nothing.
        return sum(other.user == job.user for other in self.running) < 2


class InTime(Easy):
    def arrived(self, job: Job) -> None:
        end = self.expected_end(job)
        if end > job.deadline:
            self.manager.reject(job, f"is expected to end at {end:g} s")
        else:
            super().arrived(job)


class Patient(QueueScheduler):
    def schedule(self) -> None:
        free, now = self.availability(), self.manager.now
        for job in self.queue:
            fit = free.fit(job)
            if fit.start <= now or now - job.submission_time > 5:
                free.reserve(job, fit.start)
            if fit.start <= now:
                self.start(job, fit.hosts)


class EarliestDeadline(DeadlineScheduler):
    def admit(self, job: Job) -> object:
        free, starts = self.availability(), {}
        for each in sorted([*self.plan.waiting, job], key=lambda each: each.target):
            fit = free.fit(each)
            if fit.start + each.duration > each.target:
                return f"{each.id} would end after its deadline"
            free.reserve(each, fit.start)
            starts[each] = fit
        self.adopt_starts(starts)
        return None


class Appending(DeadlineScheduler):
    """Adopts mere starts: those that are planned keep their hosts."""

    def admit(self, job: Job) -> object:
        free, starts = self.availability(), {}
        for planned in self.plan.waiting:
            starts[planned] = planned.start
            free.reserve(planned, planned.start)
        fit = free.fit(job, self.now)
        if fit.start + job.duration > job.target:
            return f"could end at {fit.start + job.duration:g} s at the earliest"
        self.adopt_starts({**starts, job: fit.start})
        return None


class Placing(DeadlineScheduler):
    def admit(self, job: Job) -> object:
        free = AvailabilityProfile.like(self.plan.profile, self.plan.machine_size)
        if free.fit(job, self.now).start + job.duration > job.target:
            return "too late"
        self.plan.place_new(job)
        return None


class Asking(Placing):
    """Asks itself what it would answer, before it does."""

    def answer(self, job: Job) -> None:
        if self.why_impossible(job) is None:
            self.prepare()
            before = {each: each.start for each in self.plan.waiting}
            self.try_admission(job)
            assert before == {each: each.start for each in self.plan.waiting}
        super().answer(job)


class Searching(Qops):
    def try_admission(self, job: Job) -> object:
        refusal = super().try_admission(job)
        free = self.availability()  # Looking does not change the plan that was found.
        for each in [*self.plan.waiting, job]:
            free.reserve(each, free.fit(each).start)
        return refusal


class ShortestFirst(Qops):
    def key(self, job: Job) -> float:
        return job.duration

    def insertion_points(self, job: Job, waiting: list[Job]) -> list[int]:
        return [0, len(waiting)]


QUEUES = [LargestFirst, LastFirst, TwoAtOnce, InTime, Patient]
PROMISING = [EarliestDeadline, Appending, Placing, Asking, Searching, ShortestFirst]


@pytest.mark.parametrize("kind", [*QUEUES, *PROMISING])
def test_no_host_gives_more_than_it_has_and_no_promise_is_broken(kind: Any, tmp_path: Path) -> None:
    promised = 0
    for seed in range(BLOCK):
        case = random_case(random.Random(f"own {kind.__name__} {seed}"))
        outcome = outcome_of(kind, {}, case, tmp_path)
        assert broken_promises(outcome) == [], f"seed {seed}"
        promised += count_promises(outcome)
    assert (promised > BLOCK) == (kind in PROMISING)


def test_looking_changes_no_decision(tmp_path: Path) -> None:
    for seed in range(BLOCK):
        case = random_case(random.Random(f"looking {seed}"))
        ours, theirs = (outcome_of(kind, {}, case, tmp_path).runs for kind in (Qops, Searching))
        assert [run[:5] for run in ours] == [run[:5] for run in theirs], f"seed {seed}"


# Seen by hand

#  cores  n0 (4)            n1 (4, 1 gpu)
#    4  | .  .              .  .
#    3  | A  .              .  C   C's turn comes when A ends
#    2  | A  C              B  C
#    1  | A  C              B  B
#        0  10             0  10
DRAWN = machine(host(cores=4), host(cores=4, gpus=1))
TWO = part(2, cores=2)


def made(kind: Any, shared: SharedMachine, jobs: list[NodeJob], folder: Path) -> list[Any]:
    (folder / "m.xml").write_text(platform_of(shared))
    (folder / "w.json").write_text(json.dumps(workload_of(shared, jobs)))
    return simulate(kind, folder / "w.json", folder / "m.xml").ended


def test_what_availability_shows(tmp_path: Path) -> None:
    seen = []

    class Looks(QueueScheduler):
        def schedule(self) -> None:
            free = self.availability()
            if self.manager.now == 1:
                seen.append(free.steps())
                last = self.queue[0]
                fit = free.fit(last)
                assert (fit.start, fit.hosts) == (10.0, HostSet.parse("0-1"))
                assert free.fit(last, after=12.5).start == 12.5
                copy = free.copy()
                copy.reserve(last, fit.start)
                assert copy.fit(last).start == 20.0
                assert free.fit(last).start == 10.0
                copy.release(last, fit.start)
                assert copy.steps() == free.steps()
                with pytest.raises(
                    NotFreeError, match="w0!002 cannot have a reservation at 5 s, w"
                ):
                    free.reserve(last, 5.0)
                with pytest.raises(NotFreeError, match="nothing was reserved for job w0!002 at 5"):
                    free.release(last, 5.0)
            for job in self.queue:
                fit = free.fit(job)
                if fit.start <= self.manager.now:
                    free.reserve(job, fit.start)
                    self.start(job, fit.hosts)

    jobs = [asking(0, 10, part(cores=3)), asking(0, 20, part(cores=2, gpus=1)), asking(1, 10, TWO)]
    made(Looks, DRAWN, jobs, tmp_path)
    assert seen[0] == {
        "n0": [(1.0, {"cores": 1, "gpus": 0}), (10.0, {"cores": 4, "gpus": 0})],
        "n1": [(1.0, {"cores": 2, "gpus": 0}), (20.0, {"cores": 4, "gpus": 1})],
    }


def test_the_expected_end_on_shared_hosts(tmp_path: Path) -> None:
    found = []

    class Arrives(Easy):
        def arrived(self, job: Job) -> None:
            found.append((job.id, self.expected_end(job)))
            super().arrived(job)

    # The last one fits beside A and B on n1, and the third waits for A.
    jobs = [
        *(asking(0, 10, part(cores=3)), asking(0, 20, part(cores=2, gpus=1))),
        *(asking(1, 10, TWO), asking(2, 3, part(cores=1))),
    ]
    ended = made(Arrives, DRAWN, jobs, tmp_path)
    assert dict(found) == {"w0!000": 10, "w0!001": 20, "w0!002": 20, "w0!003": 5}
    assert {each.job.id: each.finish for each in ended} == dict(found)


class Expects(Easy):
    found: ClassVar[dict[str, float]] = {}

    def decide(self) -> None:
        for job in self.queue:
            if self.manager.now == 0 and not self.running:
                self.found[job.id] = self.expected_end(job)
        super().decide()


def test_expected_ends_are_those_of_the_schedule_where_nothing_else_comes(tmp_path: Path) -> None:
    for seed in range(BLOCK):
        case = random_case(random.Random(f"ends {seed}"), deadlines=False)
        jobs = [replace(each, submission=0, run_time=each.estimate) for each in case.jobs]
        Expects.found.clear()
        ended = made(Expects, case.machine, jobs, tmp_path)
        finished = {each.job.id: each.finish for each in ended if each.state != REJECTED}
        assert finished == Expects.found, f"seed {seed}"


# Who counts


class Fifo(Scheduler):
    def begin(self, manager: Any) -> None:
        super().begin(manager)
        self.queue: list[Job] = []

    def submitted(self, job: Job) -> None:
        self.queue.append(job)

    def decide(self) -> None:
        while self.queue and self.queue[0].processors <= self.manager.free:
            self.manager.start(self.queue.pop(0))


class FirstFit(QueueScheduler):
    def schedule(self) -> None:
        for job in self.queue:
            if job.processors <= self.manager.free:
                self.start(job)


class Counting(QueueScheduler):
    def schedule(self) -> None:
        for job in self.queue:
            self.availability().earliest_fit(self.manager.now, job.estimate, job.processors)


class Reserving(QueueScheduler):
    def schedule(self) -> None:
        self.availability().reserve(self.manager.now, 10.0, 1)


class Starts(DeadlineScheduler):
    """Plans all jobs for now."""

    def admit(self, job: Job) -> object:
        self.adopt_starts(dict.fromkeys([*self.plan.waiting, job], self.now))
        return None


class Refuses(Fifo):
    counts_hosts = True


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        (Fifo, r"w0!000, .* cannot start at 0 s: jobs share .*; availability\(\)\.fit\(job\) of a"),
        (FirstFit, r"w0!000, .* cannot start at 0 s: jobs share .*; availability\(\)\.fit\(job\)"),
        (
            Counting,
            r"earliest_fit of an AvailabilityProfile counts .* availability\(\)\.fit\(job\)",
        ),
        (Reserving, r"reserve of an AvailabilityProfile counts .* availability\(\)\.fit\(job\)"),
        (Starts, r"gave w0!001 a start at 0 s and no hosts, .* availability\(\)\.fit\(job\)"),
        (Refuses, "Refuses reserves whole hosts or none, but jobs share the hosts of this machine"),
    ],
)
@pytest.mark.parametrize("kills", [False, True])
def test_who_counts_gets_one_error(kind: Any, message: str, kills: bool, tmp_path: Path) -> None:
    # Jobs of one that kills are followed one by one.
    kind = type(kind.__name__, (kind,), {"kills": kills})
    jobs = [asking(0, 10, part(cores=3)), asking(0, 10, part(2, cores=2))]
    with pytest.raises(CountsHostsError, match=message):
        made(kind, DRAWN, jobs, tmp_path)


@pytest.mark.parametrize("kind", [Fifo, FirstFit])
def test_who_counts_gets_it_by_messages_as_well(kind: Any, tmp_path: Path) -> None:
    (tmp_path / "m.xml").write_text(platform_of(DRAWN))
    shared = read_platform(tmp_path / "m.xml")
    told = json.dumps(workload_of(DRAWN, [asking(0, 10, part(2, cores=2))]))
    workload = parse_workload(told, source="drawn")
    module = make_scheduler(kind)
    options = default_engine(module, shared)
    with pytest.raises(CountsHostsError, match=r"w0!000, .*; availability\(\)\.fit\(job\) of a"):
        Simulation(shared, [workload], ModuleDriver(module), options).run()


def test_a_policy_sees_dominant_shares(tmp_path: Path) -> None:
    seen = []

    class Sees(Steered):
        def act(self, observation: Any) -> tuple[int, int]:
            told = dict(zip(FEATURES, observation.tolist(), strict=True))
            seen.append((told["processors"], told["free_now"], told["delay_of_earliest_fit"]))
            return ADMIT, LEAST_LAXITY

    jobs = [
        *(asking(0, 10, part(cores=3), deadline=99), asking(1, 20, part(cores=2), deadline=99)),
        asking(2, 10, TWO, deadline=99),
    ]
    made(Sees, DRAWN, jobs, tmp_path)
    # Of 8 cores 3, 2 and 4 are asked for; the third one waits for 8 s until the first has ended.
    assert seen == [
        (pytest.approx(3 / 8), 1.0, 0.0),
        (pytest.approx(2 / 8), pytest.approx(5 / 8), 0.0),
        (pytest.approx(4 / 8), pytest.approx(3 / 8), pytest.approx(math.log1p(8))),
    ]


def test_aroma_refuses_machines_with_amounts(tmp_path: Path) -> None:
    with pytest.raises(
        CountsHostsError, match="Aroma reserves whole hosts or none, but jobs share"
    ):
        made("aroma", DRAWN, [asking(0, 10, part(cores=3))], tmp_path)


def test_hosts_that_are_not_free_are_an_error(tmp_path: Path) -> None:
    class Anywhere(QueueScheduler):
        def schedule(self) -> None:
            for job in self.queue:
                self.start(job, HostSet.parse("0"))

    with pytest.raises(SimulationError, match="start on hosts 0 at 0 s: they do not give now wh"):
        made(Anywhere, DRAWN, [asking(0, 10, part(cores=3))] * 2, tmp_path)


def test_availability_needs_starts_that_it_knows(tmp_path: Path) -> None:
    class Hides(QueueScheduler):
        def schedule(self) -> None:
            for job in self.queue:
                self.manager.start(job, self.availability().fit(job).hosts)

    with pytest.raises(SimulationError, match=r"nothing of; start jobs by self\.start\(job\)"):
        made(Hides, DRAWN, [asking(0, 10, part(cores=1))] * 2, tmp_path)


def test_one_class_runs_on_whole_hosts_as_well() -> None:
    # The second one overruns: what it has counts as about to end, and is not given away.
    class Checks(Patient):
        def start(self, job: Job, hosts: Any = None) -> None:
            assert job.processors <= self.manager.free
            assert hosts is None
            super().start(job, hosts)

    assert len(simulate(Checks, "kth_sp2_mixed_500").ended) == 500
    assert len(simulate(EarliestDeadline, "sdsc_sp2_deadlines_500").ended) == 500
