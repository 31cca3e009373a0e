"""Tiny cases against a search over all orders, which overlooks no plan."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable

import pytest

from qops_batsim import DeadlineScheduler, Mrt, Msb, Qops
from qops_batsim.schedulers import QopsOptions
from qops_batsim.schedulers.mrt import MrtOptions
from qops_batsim.schedulers.msb import MsbOptions
from support import admission_oracles as oracles
from support.admission_cases import random_case
from support.asked_schedulers import ask

Many = Callable[[int], range]


def searches(rng: random.Random) -> dict[str, DeadlineScheduler]:
    order = rng.choice(["least_laxity", "earliest_deadline"])
    qops = QopsOptions(
        order=order,
        k_factor=rng.choice([0, 1, 5, 50]),
        on_failure=rng.choice(["next_point", "reject"]),
        new_job=rng.choice(["in_order", "first"]),
    )
    return {
        "qops": Qops(qops),
        "msb": Msb(MsbOptions(price=rng.choice(["moves", "delays"]))),
        "mrt": Mrt(MrtOptions(order=order, max_backtracks=rng.choice([0, 10, 1000]))),
    }


def test_what_a_search_admits_some_order_admits_and_its_plan_is_feasible(many: Many) -> None:
    rng = random.Random(11)
    admitted = dict.fromkeys(("qops", "msb", "mrt", "exhaustive"), 0)
    for _ in many(1500):
        case = random_case(rng, most_waiting=5)
        plan = oracles.some_order(case)
        if plan is not None:
            oracles.check_plan(case, plan)
            admitted["exhaustive"] += 1
        for name, search in searches(rng).items():
            found = ask(search, case)
            if found.starts is not None:
                oracles.check_plan(case, found.starts)
                assert plan is not None, case
                admitted[name] += 1
    # How often each refuses what some order admits is in studies/how_good; here only
    # that the cases tell the searches apart.
    for name in ("qops", "msb", "mrt"):
        assert 0 < admitted[name] < admitted["exhaustive"]


def test_mrt_with_every_step_back_overlooks_no_order(many: Many) -> None:
    rng = random.Random(12)
    for _ in many(500):
        case = random_case(rng, most_waiting=4)
        found = ask(Mrt(MrtOptions(max_backtracks=10**6)), case)
        assert (found.starts is None) == (oracles.some_order(case) is None), case


def test_the_reference_tries_every_order() -> None:
    rng = random.Random(13)
    for _ in range(100):
        case = random_case(rng, most_waiting=3)
        assert (oracles.some_order(case) is None) == (_by_permutations(case) is None), case


def _by_permutations(case: oracles.Case) -> dict[int, float] | None:
    for order in itertools.permutations(case.jobs):
        starts: dict[int, float] = {}
        for job in order:
            starts[job.slot] = oracles.seconds_with(case, starts).earliest(job)
        if all(oracles.in_time(job, starts[job.slot]) for job in order):
            return starts
    return None


@pytest.mark.parametrize("name", ["qops", "msb", "mrt"])
def test_alone_on_the_machine_every_search_is_perfect(name: str, many: Many) -> None:
    rng = random.Random(14)
    for _ in many(200):
        case = random_case(rng, most_waiting=0)
        found = ask(searches(rng)[name], case)
        assert found.starts == oracles.some_order(case)
