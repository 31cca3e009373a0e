"""Planning schedulers against naive whole schedules, hosts that leave and return among them."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from qops_batsim import Job, QosRequest, simulate
from qops_batsim.core import HostSet
from qops_batsim.engine import UNAVAILABLE, ExternalEvent
from qops_batsim.engine.engine_options import AVAILABLE
from qops_batsim.jobs import REJECTED
from qops_batsim.platform import make_cluster
from qops_batsim.protocol import make_scheduler
from qops_batsim.workload import Workload, delay_profile
from support import admission_oracles
from support import planning_oracles as oracles
from support.planning_oracles import Change, Outcome, SlackRules, Task
from support.slack_oracles import Weights

Many = Callable[[int], range]


def outcome_of(
    scheduler: str,
    machine: int,
    tasks: list[Task],
    changes: list[Change],
    settings: dict[str, Any],
    unit: float = 1.0,
) -> Outcome:
    """What the package makes of it; a second of the oracle is ``unit`` seconds."""
    jobs, profiles = [], {}
    for index, task in enumerate(tasks):
        name, profile = delay_profile(unit * task.run_time)
        profiles[name] = profile
        qos = QosRequest(
            deadline=None if task.deadline is None else unit * task.deadline,
            estimated_runtime=unit * task.estimate,
            user_priority=task.user,
            political_priority=task.political,
        )
        walltime = None if task.walltime is None else unit * task.walltime
        # Equal submissions arrive in the order of the identifiers as text.
        arrival = unit * task.submission
        jobs.append(Job(f"{index:03d}", arrival, task.processors, name, walltime, qos))
    workload = Workload(jobs=jobs, profiles=profiles, processors=machine)
    events = [
        ExternalEvent(
            unit * each.date, UNAVAILABLE if each.leave else AVAILABLE, HostSet.of(each.hosts), {}
        )
        for each in changes
    ]
    module = make_scheduler(scheduler, settings)
    done = simulate(module, workload, make_cluster(machine), events=events or None)
    found = Outcome()
    for each in done.ended:
        slot, record = int(each.local_id), module.qos_log.record(each.job.id)
        refused = each.state == REJECTED
        found.starts[slot] = None if refused else each.start / unit
        if not refused:
            found.hosts[slot] = list(each.hosts)
            promise = record.admitted_deadline
            promise = record.latest_start if promise is None else promise
            if promise is not None:
                found.promises[slot] = round(promise / unit, 6)
        if record.new_promises:
            found.renewals[slot] = record.new_promises
    return found


def check(found: Outcome, expected: Outcome) -> None:
    assert found.starts == expected.starts
    assert found.hosts == expected.hosts
    refused = {slot for slot, start in expected.starts.items() if start is None}
    promises = {s: round(p, 6) for s, p in expected.promises.items() if s not in refused}
    assert found.promises == promises
    kept = {slot: count for slot, count in expected.renewals.items() if slot not in refused}
    assert {s: c for s, c in found.renewals.items() if s not in refused} == kept


def random_tasks(
    rng: random.Random, machine: int, *, outlive: bool, deadlines: bool, count: int = 16
) -> list[Task]:
    """Return jobs that queue; estimates are exact, too long, or (``outlive``) too short."""
    tasks = []
    exact = rng.random() < 0.2
    span = rng.choice([1, 2, 3]) * count
    for _ in range(rng.randint(count // 3, count)):
        run_time = rng.randint(1, 12)
        estimate = run_time if exact else run_time + rng.choice([0, 0, 1, rng.randint(0, 12)])
        if outlive and rng.random() < 0.3:
            estimate = rng.randint(1, run_time)
        walltime = rng.choice([None, estimate, estimate + rng.randint(0, 5)])
        submission = rng.randint(0, span)
        deadline = None
        if deadlines and rng.random() < 0.75:
            patience = rng.choice([1, 2, 3, 6]) * estimate + rng.choice([0, 0, 5, 30])
            deadline = submission + patience
        user, political = rng.choice([0.0, 0.5, 1.0]), rng.choice([0.0, 0.0, 0.5, 1.0, None])
        processors = rng.randint(1, rng.choice([machine, (machine + 1) // 2]))
        tasks.append(
            Task(submission, processors, run_time, estimate, walltime, deadline, user, political)
        )
    return sorted(tasks, key=lambda task: task.submission)


LONG_AFTER = 900


def random_changes(rng: random.Random, machine: int) -> list[Change]:
    changes: list[Change] = []
    away: set[int] = set()
    date = 0
    for _ in range(rng.randint(1, 5)):
        date += rng.randint(0 if not changes else 1, 15)
        returns = bool(away) and (rng.random() < 0.5 or len(away) == machine)
        some = sorted(away if returns else set(range(machine)) - away)
        chosen = rng.sample(some, rng.randint(1, len(some)))
        away ^= set(chosen)
        changes.append(Change(date, not returns, tuple(sorted(chosen))))
        others = sorted((set(range(machine)) - away if returns else away) - set(chosen))
        if rng.random() < 0.4 and others:
            # Others go at the date at which some return, or the other way round.
            away ^= {others[0]}
            changes.append(Change(date, returns, (others[0],)))
    # That no more happens to hosts is told alone, once all that can run has ended.
    changes.append(Change(LONG_AFTER, not away, (min(away, default=0),)))
    return changes


@pytest.mark.parametrize("leaving", [False, True])
@pytest.mark.parametrize("reserve", ["hosts", "processors"])
def test_conservative_agrees_with_its_oracle(reserve: str, leaving: bool, many: Many) -> None:
    for seed in many(60):
        rng = random.Random(f"conservative {reserve} {leaving} {seed}")
        machine = rng.randint(2, 16)
        outlive = rng.random() < 0.3
        tasks = random_tasks(rng, machine, outlive=outlive, deadlines=False, count=30)
        changes = random_changes(rng, machine) if leaving else []
        expected = oracles.Planner(machine, tasks, changes, by_host=reserve == "hosts").run()
        check(outcome_of("conservative", machine, tasks, changes, {"reserve": reserve}), expected)


SEARCHES: list[tuple[str, dict[str, Any]]] = [
    ("qops", {"order": "least_laxity", "k_factor": 5, "on_failure": "next_point",
              "new_job": "in_order", "undo": "placed_later"}),
    ("qops", {"order": "earliest_deadline", "k_factor": 2, "on_failure": "reject",
              "new_job": "first", "undo": "starting_later"}),
    ("qops", {"order": "least_laxity", "k_factor": 20, "on_failure": "next_point",
              "new_job": "first", "undo": "all", "headroom": 0.3}),
    ("msb", {"price": "moves"}),
    ("msb", {"price": "delays"}),
    ("mrt", {"order": "least_laxity", "max_backtracks": 10}),
]  # fmt: skip


@pytest.mark.parametrize("leaving", [False, True])
@pytest.mark.parametrize(("scheduler", "settings"), SEARCHES)
def test_deadline_schedulers_agree_with_their_oracles(
    scheduler: str, settings: dict[str, Any], leaving: bool, many: Many
) -> None:
    ask = partial(getattr(admission_oracles, scheduler), **settings)
    accepted = refused = renewed = 0
    seeds = many(90)
    for seed in seeds:
        rng = random.Random(f"{scheduler} {settings} {leaving} {seed}")
        machine = rng.randint(2, 9)
        tasks = random_tasks(rng, machine, outlive=rng.random() < 0.5, deadlines=True, count=20)
        changes = random_changes(rng, machine) if leaving else []
        planner = oracles.DeadlinePlanner(machine, tasks, changes, lambda case: ask(case).starts)
        expected = planner.run()
        check(outcome_of(scheduler, machine, tasks, changes, settings), expected)
        accepted += sum(start is not None for start in expected.starts.values())
        refused += sum(start is None for start in expected.starts.values())
        renewed += len(expected.renewals)
    assert refused > len(seeds) / 2
    assert accepted > 2 * len(seeds)
    assert bool(renewed) == leaving


SLACKS = [
    SlackRules(),
    SlackRules(slack_factor=0.5, removal="compression"),
    SlackRules(slack_factor=6.0, heuristic="descending_utilization", removal="null_job"),
    SlackRules(heuristic="descending_cost", weights=Weights(1.0, 0.5, 1.0, 0.5)),
    SlackRules(heuristic="descending_priority", average_wait=30.0),
    SlackRules(heuristic="ascending_arrival_time", weights=Weights(0.0, 1.0, 0.0, 1.0)),
    SlackRules(heuristic="exhaustive", exhaustive_up_to=4),
    SlackRules(early_gain="promise", slack_factor=2.0),
]


@pytest.mark.parametrize("leaving", [False, True])
@pytest.mark.parametrize("rules", SLACKS, ids=lambda rules: rules.heuristic)
def test_slack_agrees_with_its_oracle(rules: SlackRules, leaving: bool, many: Many) -> None:
    settings = {
        "slack_factor": rules.slack_factor,
        "average_wait": rules.average_wait,
        "heuristic": rules.heuristic,
        "exhaustive_up_to": rules.exhaustive_up_to,
        "removal": rules.removal,
        "early_gain": rules.early_gain,
        "utilization_weight": rules.weights.utilization,
        "time_weight": rules.weights.time,
        "priority_weight": rules.weights.priority,
        "fairness_weight": rules.weights.fairness,
    }
    for seed in many(30):
        rng = random.Random(f"slack {rules} {leaving} {seed}")
        machine = rng.randint(2, 7)
        # What outlives its estimate is looked at by calls that depend on the last bits.
        tasks = random_tasks(rng, machine, outlive=rng.random() < 0.2, deadlines=False, count=12)
        changes = random_changes(rng, machine) if leaving else []
        expected = oracles.SlackPlanner(machine, tasks, changes, rules).run()
        check(outcome_of("slack", machine, tasks, changes, settings), expected)
