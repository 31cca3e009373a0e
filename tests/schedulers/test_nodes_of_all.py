"""All schedulers on hosts that jobs share: random machines, jobs and losses of hosts.

Own checks of each outcome: no host ever gives more of a kind than it has, labels are kept, whole
hosts are whole, what was promised last is kept; and the plan's profile is that of its jobs.
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from support.node_runs import (
    NAMES,
    SCHEDULERS,
    Outcome,
    broken_promises,
    count_promises,
    outcome_of,
    random_case,
    with_outages,
)


@pytest.fixture(params=[20, pytest.param(500, marks=pytest.mark.sweep)], ids=["few", "many"])
def seeds(request: pytest.FixtureRequest) -> range:
    """Give the numbers of random workloads."""
    return range(request.param)


PROMISING = ("slack", "msb", "mrt", "qops", "fqops")

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
