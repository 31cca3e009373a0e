"""Foresight: what it learns, what it refuses, and that it is QoPS where it has learned nothing."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from qops_batsim.advice.plan_asker import PlanAsker
from qops_batsim.core.profile import Profile
from qops_batsim.experiments.deadline_runs import checked_outcomes
from qops_batsim.jobs import REJECTED, Job, QosRequest
from qops_batsim.platform.generate import make_cluster
from qops_batsim.running.simulate import simulate
from qops_batsim.schedulers.foresight import HOUR, LENGTHS, Foresight, ForesightOptions, Market
from qops_batsim.schedulers.qops import Qops, QopsOptions
from qops_batsim.scheduling.decision_events import Refused
from qops_batsim.scheduling.registry import make_scheduler
from qops_batsim.workload.model import Workload, delay_profile
from support.admission_cases import random_case
from support.asked_schedulers import ask
from support.decision_runs import history_of

Many = Callable[[int], range]

COUNTING = ForesightOptions(weight=0.0, memory=1e12)
"""Each job counts as one, and nothing is forgotten."""


def market_after(hours: int, kinds: dict[tuple[int, float], int], machine: int) -> Market:
    """What was learned in so many hours with so many urgent jobs (processors, seconds) in each."""
    market = Market(COUNTING, machine)
    for hour in range(hours):
        for (processors, seconds), count in kinds.items():
            for _ in range(count):
                market.learn(hour * HOUR, processors, seconds, seconds)
    market.learn(hours * HOUR, 1, 1e9, 1e10)
    return market


def lost(kinds: dict[tuple[int, float], int], free: int) -> float:
    """Jobs lost in an hour with so many processors: the loss system, state by state."""
    loads = {kind: count * kind[1] / HOUR for kind, count in kinds.items()}
    total, blocked = 0.0, dict.fromkeys(kinds, 0.0)
    for state in itertools.product(range(free + 1), repeat=len(kinds)):
        used = sum(n * processors for n, (processors, _) in zip(state, kinds, strict=True))
        if used > free:
            continue
        weight = math.prod(
            load**n / math.factorial(n) for n, load in zip(state, loads.values(), strict=True)
        )
        total += weight
        for kind in kinds:
            blocked[kind] += weight if used + kind[0] > free else 0.0
    return sum(kinds[kind] * share / total for kind, share in blocked.items())


def test_losses_are_those_of_the_loss_system() -> None:
    rng = random.Random(3)
    for _ in range(20):
        kinds = {
            (rng.choice([1, 2]), rng.choice([30.0, 200.0])): rng.randint(1, 40),
            (rng.choice([3, 4]), rng.choice([50.0, 250.0])): rng.randint(1, 20),
        }
        market = market_after(5, kinds, machine=24)
        longer = LENGTHS.index(3600.0)
        for free in range(7):
            assert market.losses[longer * (market.most + 1) + free] * HOUR == pytest.approx(
                lost(kinds, free)
            )
        # For the shortest jobs, none are shorter.
        assert not any(market.losses[free] for free in range(market.most + 1))


def test_what_a_job_turns_away_adds_up_over_the_plan() -> None:
    # Four processors of 16 stay free for 100 s beside the job, then all.
    kinds = {(1, 50.0): 100}
    market = market_after(3, kinds, machine=16)
    profile = Profile(16)
    profile.reserve(0.0, 1000.0, 2)
    profile.reserve(0.0, 100.0, 10)
    per_second = (lost(kinds, 4) - lost(kinds, 6)) / HOUR
    # Up to a quarter of the machine has a price: with 4 free no more is lost than with 6.
    assert market.displaced(profile, 0.0, 1000.0, 2) == 0.0
    profile.reserve(0.0, 100.0, 2)
    per_second = (lost(kinds, 2) - lost(kinds, 4)) / HOUR
    assert market.displaced(profile, 0.0, 1000.0, 2) == pytest.approx(100 * per_second)


def test_the_past_fades() -> None:
    market = Market(ForesightOptions(memory=HOUR * 2, weight=0.0), 8)
    for _ in range(8):
        market.learn(0.0, 1, 30.0, 30.0)
    for hour, kept in ((1, 0.5), (2, 0.25), (5, 1 / 32)):
        market.learn(hour * HOUR, 1, 9e9, 1e11)
        assert sum(each.count for each in market.classes) == 8 * kept
    market.learn(1e12, 1, 9e9, 1e11)
    assert not any(each.count for each in market.classes)


def test_without_a_past_it_answers_as_qops(many: Many) -> None:
    rng = random.Random(5)
    for _ in many(300):
        case = random_case(rng)
        options = {"order": rng.choice(["least_laxity", "earliest_deadline"]), "headroom": 0.2}
        found = ask(Foresight(ForesightOptions(**options)), case)
        assert found == ask(Qops(QopsOptions(**options)), case)


# Eight processors. In each hour of a day four jobs of a minute come that have to start at once.
# Then L, a job of ten hours that has to start at once as well, asks for all processors but one,
# and in the hour after it P, which can wait, for the one that is left.
def day(of_l: int) -> Workload:
    jobs, profiles = [], {}

    def add(name: str, date: float, processors: int, seconds: float, laxity: float) -> None:
        qos = QosRequest(deadline=date + seconds + laxity, estimated_runtime=seconds)
        profile, content = delay_profile(seconds)
        profiles[profile] = content
        jobs.append(Job(name, date, processors, profile, qos=qos))

    for hour in range(24):
        for index in range(4):
            add(f"u{hour}.{index}", hour * HOUR + 600 * index, 1, 60.0, 0.0)
    add("L", 24 * HOUR, of_l, 36000.0, 0.0)
    return Workload(jobs=jobs, profiles=profiles, processors=8)


def outcome(workload: Workload, **options: Any) -> tuple[list[str], dict[str, str]]:
    module = make_scheduler("foresight", options)
    simulation = simulate(module, workload, make_cluster(8))
    log = module.qos_log
    refused = [each.job.id for each in simulation.ended if each.state == REJECTED]
    return refused, {job_id: log.record(job_id).reason for job_id in refused}


def test_a_job_that_costs_more_than_it_is_worth_is_refused() -> None:
    refused, reasons = outcome(day(8), weight=0.0)
    assert refused == ["w0!L"]
    assert reasons["w0!L"].startswith("admitting it now is expected to turn away ")
    assert reasons["w0!L"].endswith(" jobs; it is worth 1")
    # Its work is worth more than all of these together.
    assert outcome(day(8), weight=1.0)[0] == []
    assert outcome(day(8), weight=0.0, admission_price=0.0)[0] == []
    # Where three processors stay free, hardly any of them are turned away.
    assert outcome(day(5), weight=0.0)[0] == []


def test_quotes_know_the_past(tmp_path: Path) -> None:
    history = history_of("foresight", day(8), tmp_path, weight=0.0)
    asked = history.jobs["w0!L"]
    answer = PlanAsker(history, history.state_before("w0!L"), asked.date).ask(asked)
    assert not answer.admitted
    refused = next(each for each in history.events if isinstance(each, Refused))
    assert answer.reason == refused.reason
    assert answer.reason.startswith("admitting it now is expected to turn away ")


@pytest.mark.parametrize("options", [{}, {"worth": "charge"}, {"weight": 0.0, "memory": 7200.0}])
def test_promises_are_kept_and_runs_are_equal(options: dict[str, Any]) -> None:
    rng = np.random.default_rng(9)
    jobs, profiles, date = [], {}, 0.0
    for index in range(1500):
        date += float(rng.integers(0, 400))
        seconds = float(np.ceil(rng.lognormal(6, 1.5)))
        laxity = float(rng.choice([0.0, 0.5, 3.0])) * seconds
        profile, content = delay_profile(seconds)
        profiles[profile] = content
        qos = QosRequest(deadline=date + seconds + laxity, estimated_runtime=seconds)
        jobs.append(Job(str(index), date, int(rng.integers(1, 12)), profile, qos=qos))
    workload = Workload(jobs=jobs, profiles=profiles, processors=32)
    runs = []
    for _ in range(2):
        module = make_scheduler("foresight", options)
        found, _ = checked_outcomes(workload, make_cluster(32), module, "foresight")
        runs.append((found.start.tobytes(), found.refused.tobytes()))
    assert runs[0] == runs[1]
    assert 0 < found.refused.sum() < len(jobs) / 2
