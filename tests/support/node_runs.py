"""Runs of every scheduler on hosts that jobs share, and what must hold of each, from its outcome.

What a job asks for is read from the test's own model; of the package's records only which part of
a job is on which host is looked at, since no output tells that.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from qops_batsim import simulate
from qops_batsim.core import HostSet
from qops_batsim.core.job import Job
from qops_batsim.core.node_request import Places
from qops_batsim.engine import (
    UNAVAILABLE,
    ExternalEvent,
    Simulation,
    events_in_order,
    maintenance_events,
)
from qops_batsim.engine.engine_options import AVAILABLE
from qops_batsim.jobs import COMPLETED_KILLED, REJECTED
from qops_batsim.protocol import SchedulerModule, make_scheduler
from qops_batsim.schedulers.planning import PlanScheduler
from qops_batsim.schedulers.registry import scheduler_object
from support.host_failures import random_losses
from support.node_cases import platform_of, random_jobs, random_machine, workload_of
from support.node_oracles import LICENCES, NodeJob, SharedMachine
from support.plan_checks import check_plan

SCHEDULERS: list[tuple[str, dict[str, Any]]] = [
    ("fcfs", {}),
    ("easy", {}),
    ("easy", {"order": "sjf"}),
    ("easy", {"order": "wfp3", "backfill_order": "sjf", "starvation_bound": 15}),
    ("easy", {"run_times": "predicted", "backfill_order": "sjf"}),
    ("conservative", {}),
    ("conservative", {"reserve": "processors"}),
    ("nqs", {"time_limits": (5.0,)}),
    ("nqs", {"blocked": "machine"}),
    ("priced-queues", {"history": 3}),
    ("slack", {"average_wait": 10.0}),
    ("slack", {"average_wait": 5.0, "heuristic": "exhaustive", "early_gain": "promise"}),
    ("slack", {"average_wait": 10.0, "heuristic": "descending_cost", "removal": "null_job"}),
    (
        "slack",
        {"average_wait": 10.0, "heuristic": "descending_utilization", "removal": "compression"},
    ),
    ("msb", {}),
    ("msb", {"price": "delays", "fairness": True}),
    ("mrt", {}),
    ("qops", {}),
    ("qops", {"insertion": "best"}),
    ("qops", {"insertion": "last", "headroom": 0.3}),
    ("qops", {"insertion": "best", "best_by": "work"}),
    ("fqops", {"tolerance_factor": 4.0, "slack_factor": 1.5}),
    ("fqops", {"kill_and_restart": True, "tolerance_factor": 4.0, "slack_factor": 2.0}),
    ("fqops", {"kill_and_restart": True, "restart_price": 4.0}),
    ("slurm", {"bf_interval": 5.0, "bf_resolution": 2.0}),
    ("slurm", {"bf_interval": 5.0, "bf_resolution": 2.0, "whole_nodes": False}),
]
"""Every scheduler that can share hosts, with options that lead elsewhere in its code."""

NAMES = ["-".join([name, *map(str, options.values())]) for name, options in SCHEDULERS]


class Case(NamedTuple):
    """A machine, jobs for it, the workload with what only some schedulers look at, and events."""

    machine: SharedMachine
    jobs: list[NodeJob]
    workload: dict[str, Any]
    events: tuple[ExternalEvent, ...] = ()


def random_case(rng: random.Random, most: int = 24, *, deadlines: bool = True) -> Case:
    """Return jobs of users and queues, some with checkpoints."""
    machine = random_machine(rng)
    jobs = random_jobs(rng, machine, most, deadlines=deadlines)
    workload = workload_of(machine, jobs)
    for each in workload["jobs"]:
        each["user"] = rng.choice("abc")
        each["qos"]["queue"] = rng.choice(["premium", "regular", "low"])
        if rng.random() < 0.3:
            each["qos"]["checkpoint"] = rng.randint(1, 4)
    return Case(machine, jobs, workload)


def with_outages(rng: random.Random, case: Case) -> Case:
    """Let hosts leave and return, with maintenance known ahead, and give some jobs fixed starts."""
    hosts = len(case.machine.hosts)
    events = list(random_losses(rng, hosts)) if rng.random() < 0.7 else []
    last = max((event.timestamp for event in events), default=0.0)
    if not events or rng.random() < 0.4:
        # Only when all are back: a host in maintenance does not leave.
        gone = HostSet.of(away_at(events, last))
        if gone:
            events.append(ExternalEvent(last + 1.0, AVAILABLE, gone, {}))
        start = last + rng.randint(2, 20)
        notice = float(max(last + 1, start - rng.randint(0, 15)))
        some = HostSet.of(rng.sample(range(hosts), rng.randint(1, hosts)))
        events += maintenance_events(notice, some, start, start + rng.randint(1, 15))
    for fields, job in zip(case.workload["jobs"], case.jobs, strict=True):
        if rng.random() < 0.15:
            fields["qos"]["start"] = job.submission + rng.randint(0, 25)
            fields["qos"].pop("deadline", None)
    return case._replace(events=events_in_order(events))


def away_at(events: Sequence[ExternalEvent], date: float) -> set[int]:
    """Return the hosts that are away after the events of a date."""
    away: set[int] = set()
    for event in events:
        if event.timestamp <= date and event.type == UNAVAILABLE:
            away |= set(event.hosts)
        elif event.timestamp <= date and event.type == AVAILABLE:
            away -= set(event.hosts)
    return away


class Ran(NamedTuple):
    """A run of a job (by its place in the list of jobs), and which part of it is where."""

    slot: int
    name: str
    start: float
    finish: float
    hosts: list[int]
    places: Places
    was_killed: bool


class Outcome(NamedTuple):
    """What has become of a case."""

    case: Case
    module: SchedulerModule
    simulation: Simulation
    runs: list[Ran]
    refused: set[int]


def checking(scheduler: str, settings: Mapping[str, Any]) -> SchedulerModule:
    """Return a scheduler that keeps its jobs, and whose plan is checked after each decision."""
    kind: Any = type(scheduler_object(scheduler, settings))

    class Checking(kind):
        had_windows = False

        def begin(self, manager: Any) -> None:
            self.known: dict[str, Job] = {}
            super().begin(manager)

        def submitted(self, job: Job) -> None:
            self.known[job.id] = job
            super().submitted(job)

        def decide(self) -> None:
            super().decide()
            if isinstance(self, PlanScheduler):
                for job in self.plan.running:
                    self.known[job.id] = job
                self.had_windows = self.had_windows or bool(self.manager.capacity.windows)
                check_plan(self.plan, is_exact=not self.had_windows)

    Checking.__name__ = kind.__name__
    return make_scheduler(Checking, settings)


def written(case: Case, folder: Path) -> tuple[Path, Path]:
    """Write a case's platform and workload, and return their paths."""
    platform, workload = folder / "machine.xml", folder / "jobs.json"
    platform.write_text(platform_of(case.machine))
    workload.write_text(json.dumps(case.workload))
    return platform, workload


def outcome_of(scheduler: str, settings: Mapping[str, Any], case: Case, folder: Path) -> Outcome:
    """Run a case, and check that no host gives more than it has, and every job gets its due."""
    platform, workload = written(case, folder)
    module = checking(scheduler, settings)
    done = simulate(module, workload, platform, events=case.events)
    known = module.scheduler.known
    runs, refused = [], set()
    for each in done.ended:
        name = each.local_id
        slot = int(name.partition("#")[0])
        if each.state == REJECTED:
            refused.add(slot)
            continue
        places = known[each.job.id].request.used
        killed = each.state == COMPLETED_KILLED
        hosts = sorted(each.hosts)
        runs.append(Ran(slot, name, each.start, each.finish, hosts, places, killed))
    outcome = Outcome(case, module, done, runs, refused)
    check_shares(outcome)
    return outcome


Held = dict[int, tuple[int, ...]]
"""Amounts that are held, by host (LICENCES for those of the machine)."""


def held_by(case: Case, ran: Ran) -> tuple[Held, set[int]]:
    """Return what a run holds on each host, and which hosts it has to itself; check its parts."""
    machine, job = case.machine, case.jobs[ran.slot]
    assert sorted(host for host, _ in ran.places.listed()) == ran.hosts, "hosts of the outcome"
    held: Held = {}
    whole: set[int] = set()
    counted: Counter[int] = Counter()
    for row, number, times in placed(ran, job):
        part = job.parts[number]
        assert row not in held, f"{ran.name}: two parts on host {row}"
        assert part.labels <= machine.hosts[row].labels, f"{ran.name}: labels of host {row}"
        asked = machine.vector(part.asked)
        assert times >= 1
        assert part.tasks or times == 1
        amounts = tuple(times * amount for amount in asked)
        capacity = machine.capacity(row)
        assert all(a <= c for a, c in zip(amounts, capacity, strict=True)), f"{ran.name}: too small"
        counted[number] += times
        held[row] = capacity if part.takes_whole else amounts
        if part.takes_whole:
            whole.add(row)
    for number, part in enumerate(job.parts):
        assert counted[number] == (part.tasks or part.hosts), f"{ran.name}: part {number}"
        assert sum(of == number for _, of, _ in placed(ran, job)) <= part.hosts
    if job.licences:
        held[LICENCES] = tuple(job.licences.get(name, 0) for name in machine.licences)
    return held, whole


def placed(ran: Ran, job: NodeJob) -> list[tuple[int, int, int]]:
    """Return (host, part, how often) of each place; parts find their hosts in turn."""
    listed = ran.places.listed()
    if len(job.parts) == 1:
        return [(host, 0, times) for host, times in listed]
    numbers = [number for number, part in enumerate(job.parts) for _ in range(part.hosts)]
    return [(host, part, t) for (host, t), part in zip(listed, numbers, strict=True)]


def check_shares(outcome: Outcome) -> None:
    """Check that at no date a host gives more than it has, and that jobs are what they ask for."""
    case = outcome.case
    holding = [(ran, *held_by(case, ran)) for ran in outcome.runs]
    for ran, _, _ in holding:
        there = [each for each in holding if each[0].start <= ran.start < each[0].finish]
        for host in [*range(len(case.machine.hosts)), LICENCES]:
            on_it = [each for each in there if host in each[1]]
            used = [held[host] for _, held, _ in on_it]
            for has, *taken in zip(case.machine.capacity(host), *used, strict=True):
                assert sum(taken) <= has, f"host {host} at {ran.start}: {taken} of {has}"
            if any(host in whole for _, _, whole in on_it):
                names = [each.name for each, _, _ in on_it]
                assert len(names) == 1, f"host {host} at {ran.start} is not alone: {names}"

    by_slot: dict[int, list[Ran]] = {}
    for ran in sorted(outcome.runs, key=lambda each: (each.start, each.name)):
        by_slot.setdefault(ran.slot, []).append(ran)
    for slot, job in enumerate(case.jobs):
        runs = by_slot.get(slot, [])
        ran_last = bool(runs) and not runs[-1].was_killed
        assert ran_last != (slot in outcome.refused), f"{slot} ran and was refused, or neither"
        for before, after in pairwise(runs):
            assert before.finish <= after.start, f"{before.name} runs beside {after.name}"
        if not runs:
            continue
        assert runs[0].start >= job.submission
        assert all(run.was_killed for run in runs[:-1])
        if len(runs) == 1 and ran_last:
            assert runs[0].finish == runs[0].start + job.lasts
    for ran in outcome.runs:
        assert not away_at(case.events, ran.start) & set(ran.hosts), f"{ran.name} on hosts away"


def broken_promises(outcome: Outcome) -> list[tuple[str, float, float]]:
    """Return the runs that end after their promised deadlines or start after promised dates."""
    log = outcome.module.qos_log
    last = {ran.slot: ran for ran in outcome.runs}
    broken = []
    for slot, ran in last.items():
        record = log.record(f"w0!{slot:03d}")
        if record.admitted_deadline is not None and ran.finish > record.admitted_deadline:
            broken.append((ran.name, ran.finish, record.admitted_deadline))
        if record.latest_start is not None and ran.start > record.latest_start:
            broken.append((ran.name, ran.start, record.latest_start))
    return broken


def count_promises(outcome: Outcome) -> int:
    """Return how many jobs that ran were promised something."""
    log = outcome.module.qos_log
    records = [log.record(f"w0!{slot:03d}") for slot in {ran.slot for ran in outcome.runs}]
    return sum(r.admitted_deadline is not None or r.latest_start is not None for r in records)
