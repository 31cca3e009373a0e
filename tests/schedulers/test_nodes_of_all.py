"""All schedulers on hosts that jobs share: random machines, jobs and losses of hosts.

Own checks of each outcome: no host ever gives more of a kind than it has, labels are kept, whole
hosts are whole, what was promised last is kept; and the plan's profile is that of its jobs.
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from qops_batsim import simulate
from qops_batsim.protocol import SchedulerModule, make_scheduler
from qops_batsim.schedulers.registry import scheduler_object
from support.node_runs import (
    NAMES,
    SCHEDULERS,
    Case,
    Outcome,
    broken_promises,
    count_promises,
    outcome_of,
    random_case,
    with_outages,
    written,
)
from support.replaced_modules import ReplacedModule


@pytest.fixture(params=[20, pytest.param(500, marks=pytest.mark.sweep)], ids=["few", "many"])
def seeds(request: pytest.FixtureRequest) -> range:
    """Give the numbers of random workloads."""
    return range(request.param)


PROMISING = ("slack", "msb", "mrt", "qops", "fqops")

SNAPSHOTS: list[tuple[str, dict[str, Any]]] = [
    ("conservative", {}),
    ("qops", {}),
    ("qops", {"insertion": "best"}),
    ("msb", {}),
    ("mrt", {}),
    ("fqops", {"tolerance_factor": 4.0, "slack_factor": 1.5}),
    ("fqops", {"kill_and_restart": True, "tolerance_factor": 4.0, "slack_factor": 2.0}),
]

every_scheduler = pytest.mark.parametrize(("scheduler", "settings"), SCHEDULERS, ids=NAMES)


def renewals(outcome: Outcome) -> int:
    log = outcome.module.qos_log
    slots = range(len(outcome.case.jobs))
    return sum(log.record(f"w0!{slot:03d}").new_promises for slot in slots)


@every_scheduler
def test_no_promise_is_broken_where_no_host_leaves(
    scheduler: str, settings: dict[str, Any], seeds: range, tmp_path: Path
) -> None:
    promises = kills = 0
    for seed in seeds:
        case = random_case(random.Random(f"all {scheduler} {settings} {seed}"))
        outcome = outcome_of(scheduler, settings, case, tmp_path)
        assert broken_promises(outcome) == [], f"seed {seed}"
        assert renewals(outcome) == 0, f"seed {seed}"
        promises += count_promises(outcome)
        kills += sum(ran.was_killed for ran in outcome.runs)
    assert (promises > 100) == (scheduler in PROMISING)
    assert (kills > 0) == ("kill_and_restart" in settings)


@every_scheduler
def test_hosts_that_leave_break_promises_only_as_recorded(
    scheduler: str, settings: dict[str, Any], seeds: range, tmp_path: Path
) -> None:
    renewed = 0
    for seed in seeds:
        rng = random.Random(f"outages {scheduler} {settings} {seed}")
        case = with_outages(rng, random_case(rng))
        outcome = outcome_of(scheduler, settings, case, tmp_path)
        assert broken_promises(outcome) == [], f"seed {seed}"
        renewed += renewals(outcome)
    assert (renewed > 0) == (scheduler not in ("nqs", "slurm"))


def schedule(module: SchedulerModule, case: Case, folder: Path) -> list[tuple[object, ...]]:
    """Return what becomes of each job, and what is recorded of it."""
    platform, workload = written(case, folder)
    done = simulate(module, workload, platform, events=case.events)
    records = {each.job.id: each for each in done.ended}
    return sorted(
        (name, each.state, each.start, each.finish, str(each.hosts), *promised(module, name))
        for name, each in records.items()
    )


def promised(module: SchedulerModule, name: str) -> tuple[object, ...]:
    record = module.qos_log.record(name)
    return repr(record.admitted_deadline), repr(record.latest_start), record.new_promises


@pytest.mark.parametrize(("scheduler", "settings"), SNAPSHOTS)
def test_a_fresh_scheduler_goes_on_from_a_snapshot(
    scheduler: str, settings: dict[str, Any], tmp_path: Path
) -> None:
    replaced = 0
    for seed in range(25):
        rng = random.Random(f"snapshots {scheduler} {settings} {seed}")
        case = random_case(rng)
        if seed % 2 == 1:
            case = with_outages(rng, case)

        module = ReplacedModule(lambda: scheduler_object(scheduler, settings))
        expected = schedule(make_scheduler(scheduler, settings), case, tmp_path)
        assert schedule(module, case, tmp_path) == expected, f"seed {seed}"
        replaced += module.replaced
    assert replaced > 200
