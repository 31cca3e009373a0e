"""The searches against the naive references, on thousands of random small cases."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise

import pytest

from qops_batsim import Mrt, Msb, Qops
from qops_batsim.core.refusal import sentence
from qops_batsim.schedulers import QopsOptions
from qops_batsim.schedulers.mrt import MrtOptions
from qops_batsim.schedulers.msb import MsbOptions
from support import admission_oracles as oracles
from support.admission_cases import random_case
from support.admission_oracles import Asking, Case
from support.asked_schedulers import Found, ask

Many = Callable[[int], range]

HEURISTIC = ("least_laxity", "earliest_deadline", "saf")
ORDERS = (*HEURISTIC, "scheduled_start")
BEST_BY = ("work", "response", "slack")


def check(case: Case, found: Found, expected: oracles.Answer, *, whole: bool = True) -> None:
    assert found.starts == expected.starts, case
    if found.starts is None:
        assert found.blamed == expected.blamed, case
    else:
        oracles.check_plan(case, found.starts)
        seconds = oracles.seconds_with(case, found.starts)
        assert not whole or found.free == [
            case.machine - used for used in seconds.used[case.now :]
        ], case


@pytest.mark.parametrize("on_failure", ["next_point", "reject"])
@pytest.mark.parametrize("new_job", ["in_order", "first"])
def test_qops_agrees_with_its_oracle(on_failure: str, new_job: str, many: Many) -> None:
    rng = random.Random(f"{on_failure} {new_job}")
    verdicts = set()
    for _ in many(500):
        case = random_case(rng)
        options = {
            "order": rng.choice(ORDERS),
            "k_factor": rng.randint(0, 5),
            "on_failure": on_failure,
            "new_job": new_job,
            "undo": rng.choice(["placed_later", "starting_later", "all"]),
        }
        found = ask(Qops(QopsOptions(**options)), case)
        expected = oracles.qops(case, **options)
        check(case, found, expected)
        verdicts.add(expected.starts is None)
        # To give up hopeless insertion points early spares work and changes nothing else.
        assert oracles.qops(case, **options, give_up_hopeless=False).starts == expected.starts
    assert verdicts == {True, False}


@pytest.mark.parametrize("undo", ["placed_later", "starting_later"])
def test_a_repair_in_a_long_queue_goes_back_to_a_profile_that_was_kept(undo: str) -> None:
    # One is kept after each sixteen jobs. The last of sixty is the longest, and critical.
    rng = random.Random(5)
    options = {
        "order": "earliest_deadline",
        "on_failure": "next_point",
        "new_job": "in_order",
        "undo": undo,
    }
    for _ in range(10):
        case = Case(4, 0, (), (), Asking(60, 1, 70, 125))
        seconds, waiting = oracles.seconds_with(case, {}), []
        for slot in range(60):
            job = Asking(slot, rng.randint(1, 3), rng.randint(1, 4), 124)
            waiting.append((job, start := seconds.earliest(job)))
            seconds.take(start, job.estimate, job.processors)
        waiting.sort(key=lambda entry: (entry[1], entry[0].slot))
        case = replace(case, waiting=tuple(waiting))
        expected = oracles.qops(case, **options, k_factor=5)
        assert oracles.qops(case, **options, k_factor=0).starts is None
        assert expected.starts
        check(case, ask(Qops(QopsOptions(**options)), case), expected)


@pytest.mark.parametrize("insertion", ["best", "last"])
def test_qops_that_compares_insertion_points_agrees_with_its_oracle(
    insertion: str, many: Many
) -> None:
    rng, verdicts, differ = random.Random(insertion), set(), dict.fromkeys(BEST_BY, 0)
    for _ in many(600):
        case = random_case(rng)
        best_by = rng.choice(BEST_BY)
        options = {
            "order": rng.choice(ORDERS),
            "k_factor": rng.randint(0, 5),
            "on_failure": rng.choice(["next_point", "next_point", "reject"]),
            "new_job": rng.choice(["in_order", "first"]),
            "insertion": insertion,
            "best_by": best_by,
        }
        expected = oracles.qops(case, **options)
        check(case, ask(Qops(QopsOptions(**options)), case), expected)
        verdicts.add(expected.starts is None)
        first = oracles.qops(case, **options | {"insertion": "first"})
        differ[best_by] += expected.starts != first.starts
        if options["on_failure"] == "next_point":
            assert (expected.starts is None) == (first.starts is None)
    assert verdicts == {True, False}
    assert min(differ.values()) > len(many(600)) // 60


def test_qops_with_headroom_agrees_with_its_oracle(many: Many) -> None:
    # Half a minute for each second of the oracle, for which two seconds are a minute.
    rng, differ, verdicts = random.Random(17), 0, set()
    for _ in many(500):
        case = random_case(rng)
        options = {
            "order": rng.choice(ORDERS),
            "k_factor": rng.randint(0, 5),
            "on_failure": "next_point",
            "new_job": "in_order",
            "headroom": rng.choice([0.2, 0.5, 1.0]),
        }
        found = ask(Qops(QopsOptions(**options)), slowed(case, 30), whole=False)
        expected = oracles.qops(case, **options, patient=2)
        starts = found.starts and {slot: start / 30 for slot, start in found.starts.items()}
        check(case, found._replace(starts=starts, free=[]), expected, whole=False)
        verdicts.add(expected.starts is None)
        differ += expected.starts != oracles.qops(case, **options | {"headroom": 0}).starts
    assert verdicts == {True, False}
    assert differ > len(many(500)) // 5


def slowed(case: Case, factor: int) -> Case:
    """The same case, in which everything takes so many times as long."""

    def slow(job: Asking) -> Asking:
        return replace(
            job, estimate=factor * job.estimate, deadline=factor * job.deadline, arrival=0
        )

    return Case(
        case.machine,
        factor * case.now,
        tuple((processors, factor * end) for processors, end in case.running),
        tuple((slow(job), factor * start) for job, start in case.waiting),
        slow(case.new),
    )


@pytest.mark.parametrize("fairness", [False, True])
@pytest.mark.parametrize("price", ["moves", "delays"])
@pytest.mark.parametrize("order", ORDERS)
def test_msb_agrees_with_its_oracle(order: str, price: str, fairness: bool, many: Many) -> None:
    rng = random.Random(f"{order} {price} {fairness}")
    verdicts, unfair, by_start = set(), False, False
    options = {"order": order, "price": price, "fairness": fairness}
    for _ in many(200):
        case = with_arrivals(random_case(rng), rng)
        expected = oracles.msb(case, **options)
        check(case, ask(Msb(MsbOptions(**options)), case), expected)
        verdicts.add(expected.starts is None)
        if not unfair:
            other = oracles.msb(case, **options | {"fairness": not fairness})
            unfair = expected.starts != other.starts
        if not by_start:
            other = oracles.msb(case, **options | {"order": "scheduled_start"})
            by_start = expected.starts != other.starts
    assert verdicts == {True, False}
    assert unfair
    assert by_start == (order != "scheduled_start")


def with_arrivals(case: Case, rng: random.Random) -> Case:
    """The same case, in which the waiting jobs have arrived at different dates."""
    waiting = [(replace(job, arrival=-rng.randint(0, 40)), start) for job, start in case.waiting]
    return replace(case, waiting=tuple(waiting), new=replace(case.new, arrival=case.now))


@pytest.mark.parametrize("order", HEURISTIC)
def test_mrt_agrees_with_its_oracle(order: str, many: Many) -> None:
    rng = random.Random(order)
    verdicts = set()
    for _ in many(1500):
        case = random_case(rng)
        limit = rng.choice([0, 1, 2, 3, 5, 10, 100])
        expected = oracles.mrt(case, order=order, max_backtracks=limit)
        found = ask(Mrt(MrtOptions(order=order, max_backtracks=limit)), case)
        check(case, found, expected)
        if expected.starts is None:
            assert found.refusal is not None
            assert found.refusal.steps_back == expected.tried
            verdicts.add("refused" if expected.tried <= limit else "gave up")
        else:
            verdicts.add("taken back" if expected.tried else "straight on")
    assert verdicts == {"refused", "gave up", "taken back", "straight on"}


# Four processors, all busy until 8. B, C and the new E have laxity 11, D has 12.
#
#   |AAADDBB         D needs all processors and must be the next, though by laxity it is the
#   |AAADDCCC        last. Qops finds this at its second insertion point, where D keeps its
#   |AAADDEEEEEEE    place. Mrt starts with B, learns only later that this was wrong, and
#   |AAADDEEEEEEE    takes too many steps back.
#       8 10     17
WIDE_LAST = Case(
    machine=4,
    now=5,
    running=((4, 8),),
    waiting=(
        (Asking(slot=2, processors=4, estimate=2, deadline=14), 8),
        (Asking(slot=0, processors=1, estimate=2, deadline=13), 10),
        (Asking(slot=1, processors=1, estimate=3, deadline=14), 10),
    ),
    new=Asking(slot=3, processors=2, estimate=7, deadline=18),
)


def test_qops_admits_what_mrt_refuses() -> None:
    plan = {2: 8, 0: 10, 1: 10, 3: 10}
    assert ask(Qops(QopsOptions()), WIDE_LAST).starts == plan
    assert ask(Qops(QopsOptions(on_failure="reject")), WIDE_LAST).starts is None
    refusal = ask(Mrt(MrtOptions()), WIDE_LAST).refusal
    assert refusal is not None
    assert sentence(refusal).endswith(" after 11 steps back")
    assert ask(Mrt(MrtOptions(max_backtracks=100)), WIDE_LAST).starts == plan


@pytest.mark.parametrize("count", range(20))
def test_insertion_points(count: int) -> None:
    points = list(oracles.insertion_points(count))
    assert points[0] == 0
    assert all(a < b for a, b in pairwise(points))
    assert points[-1] == max(count - 1, 0)
    assert len(points) <= 1 + math.ceil(math.log2(count + 1))


def test_a_job_of_no_length_needs_its_processors_when_it_starts() -> None:
    # One processor is busy until 5, the whole machine is asked for an instant.
    new = Asking(0, 2, 0, deadline=4)
    for search in (Qops(QopsOptions()), Msb(MsbOptions()), Mrt(MrtOptions())):
        assert ask(search, Case(2, 0, ((1, 5),), (), new)).starts is None
    later = Asking(0, 2, 0, deadline=5)
    for search in (Qops(QopsOptions()), Msb(MsbOptions()), Mrt(MrtOptions())):
        assert ask(search, Case(2, 0, ((1, 5),), (), later)).starts == {0: 5}


def test_dates_need_not_be_whole() -> None:
    case = Case(1, 0, ((1, 0.1 + 0.2),), (), Asking(0, 1, 0.1, deadline=0.4))
    found = ask(Qops(QopsOptions()), case, whole=False)
    assert found.starts == {0: pytest.approx(0.3)}
