"""The search against the naive reference, on thousands of random small cases."""

from __future__ import annotations

import math
import random
from collections.abc import Callable

import pytest

from support import slack_oracles as oracles
from support.slack_cases import HEURISTICS, ask, random_case
from support.slack_oracles import Case, New, Schedule, Waiting

Many = Callable[[int], range]


def check(case: Case, found: Schedule | None, expected: Schedule | None) -> None:
    if found is None or expected is None:
        assert found is expected, case
        return
    assert found.price == pytest.approx(expected.price, rel=1e-8, abs=1e-8), case
    assert found.moved == expected.moved, case
    assert found.starts == expected.starts, case
    if case.new.processors:
        assert found.new_start == expected.new_start, case
    for job in case.waiting:
        assert found.starts[job.slot] <= job.latest, case


@pytest.mark.parametrize("endless", [0.0, 0.2])
@pytest.mark.parametrize("heuristic", HEURISTICS)
def test_inserting_agrees_with_its_oracle(heuristic: str, endless: float, many: Many) -> None:
    rng = random.Random(f"insert {heuristic} {endless}")
    jobs = 4 if heuristic == "exhaustive" else 6
    seen = set()
    for _ in many(500):
        case = random_case(rng, null=False, jobs=jobs, endless=endless)
        expected = oracles.cheapest(case, heuristic)
        check(case, ask(case, heuristic), expected)
        seen.add(None if expected is None else min(expected.moved, 2))
    assert seen == {None, 0, 1, 2}


@pytest.mark.parametrize("compresses", [True, False])
@pytest.mark.parametrize("heuristic", HEURISTICS)
def test_removing_agrees_with_its_oracle(heuristic: str, compresses: bool, many: Many) -> None:
    rng = random.Random(f"remove {heuristic} {compresses}")
    jobs = 4 if heuristic == "exhaustive" else 6
    seen = set()
    for _ in many(500):
        case = random_case(rng, null=True, jobs=jobs)
        expected = oracles.cheapest(case, heuristic, compresses=compresses)
        assert expected is not None
        assert expected.price <= 0.0
        check(case, ask(case, heuristic, compresses=compresses), expected)
        seen.add(min(expected.moved, 2))
    assert seen == {0, 1, 2}


@pytest.mark.sweep
@pytest.mark.parametrize("heuristic", list(HEURISTICS)[:-1])
def test_no_order_is_cheaper_than_all_of_them(heuristic: str) -> None:
    rng = random.Random(heuristic)
    cheaper = 0
    for _ in range(150):
        case = random_case(rng, null=rng.random() < 0.5)
        one, every = ask(case, heuristic), ask(case, "exhaustive")
        assert (one is None) >= (every is None), case
        if one is None or every is None:
            continue
        assert every.price <= one.price + 1e-9 * max(1.0, abs(one.price)), case
        cheaper += every.price < one.price - 1e-6
    assert cheaper > 4


@pytest.mark.parametrize("heuristic", HEURISTICS)
def test_compression_is_never_dearer_than_leaving_gaps(heuristic: str, many: Many) -> None:
    rng = random.Random(heuristic)
    for _ in many(500):
        case = random_case(rng, null=True, jobs=4)
        with_it = ask(case, heuristic, compresses=True)
        without = ask(case, heuristic)
        assert with_it is not None
        assert without is not None
        assert with_it.price <= without.price + 1e-9 * max(1.0, abs(without.price))


# Two processors. A job that waits for its start at 8 can move up to 2, which delays no other:
#
#   |RR       A      Without priority it gains next to nothing, and yet it moves up.
#    0 2      8
@pytest.mark.parametrize("priority", [0.0, -math.inf])
def test_jobs_without_priority_move_up_as_well(priority: float) -> None:
    job = Waiting(0, 1, 3, 8, priority, math.inf, math.inf)
    found = ask(Case(2, 0, ((2, 2),), (job,), New()), "ascending_scheduled_time")
    assert found is not None
    assert found.starts == {0: 2}
    assert -0.001 < found.price < 0
