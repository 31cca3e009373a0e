"""Charges of one job, profit and the break-even weight."""

from __future__ import annotations

import math
import re
import tomllib

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from qops_batsim import InputError
from qops_batsim.economics import (
    Charge,
    Prices,
    ReferenceJob,
    SlowdownTable,
    break_even,
    category_slowdowns,
)
from qops_batsim.economics.charges import BreakEven, islam2004, load_price, served_job, total
from qops_batsim.economics.prices import EXAMPLE, read_prices

CATEGORY = "very-short-sequential"


@pytest.fixture
def table() -> SlowdownTable:
    """Slowdown 3 for very short sequential jobs, nothing for the others."""
    return category_slowdowns([ReferenceJob(100, 300, 1)])


def served(table: SlowdownTable, deadline: float | None, run_time: float = 100.0):
    return served_job(
        table,
        category=CATEGORY,
        processors=4,
        run_time=run_time,
        arrival=50.0,
        deadline=deadline,
    )


def test_a_job_with_a_deadline(table: SlowdownTable) -> None:
    # Obtained: (250 - 50) / 100 = 2; category: 3.
    assert islam2004(served(table, 250.0)) == Charge(resource=400.0, qos=1.5)


def test_the_tightest_deadline_pays_the_category_slowdown(table: SlowdownTable) -> None:
    assert islam2004(served(table, 150.0)).qos == 3.0


def test_without_deadline_only_resources_are_paid(table: SlowdownTable) -> None:
    job = served(table, None)
    assert job.obtained_slowdown is None
    assert islam2004(job) == Charge(resource=400.0, qos=0.0)


def test_a_job_of_no_run_time_pays_nothing(table: SlowdownTable) -> None:
    assert islam2004(served(table, 50.0, run_time=0.0)) == Charge()


def test_the_category_must_have_a_slowdown(table: SlowdownTable) -> None:
    with pytest.raises(InputError, match="'long-wide' has no mean slowdown"):
        served_job(
            table, category="long-wide", processors=1, run_time=1.0, arrival=0.0, deadline=9.0
        )


def test_a_deadline_before_the_arrival_is_refused(table: SlowdownTable) -> None:
    with pytest.raises(InputError, match="admitted deadline is 50 s, but the job arrives at 50 s"):
        served(table, 50.0)


def test_bounded_slowdowns_are_bounded_on_both_sides() -> None:
    table = category_slowdowns([ReferenceJob(1, 100, 1)], bound=10)
    # Category: 100 / 10; obtained: (90 - 50) / 10.
    assert islam2004(served(table, 90.0, run_time=1.0)).qos == 2.5


@given(st.floats(1, 1e5), st.floats(1, 10), st.floats(1.01, 10))
def test_later_deadlines_cost_less(run_time: float, slowdown: float, factor: float) -> None:
    table = category_slowdowns([ReferenceJob(100, 300, 1)])
    early, late = (
        islam2004(served(table, 50.0 + run_time * x, run_time))
        for x in (slowdown, slowdown * factor)
    )
    assert early.qos > late.qos > 0
    assert early.resource == late.resource == 4 * run_time


def test_total_and_profit() -> None:
    paid = total([Charge(resource=10.0, qos=0.1)] * 10)
    assert paid == Charge(resource=100.0, qos=1.0)
    assert Prices().profit(paid) == 101.0
    prices = Prices(currency="EUR", core_hour=7200.0, qos_charge=50.0)
    assert prices.profit(paid) == 250.0
    assert total([]) == Charge()


@pytest.mark.parametrize("price", [-1.0, math.inf, math.nan])
def test_unusable_prices_are_refused(price: float) -> None:
    with pytest.raises(InputError, match="prices: qos_charge is"):
        Prices(currency="EUR", core_hour=1.0, qos_charge=price).check()


def test_the_example_has_the_defaults() -> None:
    assert read_prices(EXAMPLE) == read_prices(None) == Prices()
    commented = re.findall(r"(?m)^# (\w+) = ", EXAMPLE.read_text("utf-8"))
    assert {*commented, *tomllib.loads(EXAMPLE.read_text("utf-8"))} == {*Prices.__struct_fields__}


def test_break_even_of_two_crossing_policies() -> None:
    # 100 + 10 x = 80 + 20 x at x = 2.
    found = break_even(Charge(resource=100, qos=10), Charge(resource=80, qos=20))
    assert found == BreakEven(ratio=2.0, below="first", above="second")


@pytest.mark.parametrize(
    ("first", "second", "better"),
    [
        ((100, 10), (80, 5), "first"),
        ((80, 5), (100, 10), "second"),
        ((100, 10), (100, 5), "first"),
        ((100, 5), (100, 10), "second"),
        ((100, 10), (80, 10), "first"),
        ((80, 10), (100, 10), "second"),
        ((80, 10), (80, 10), "equal"),
    ],
)
def test_no_break_even(first, second, better: str) -> None:
    one, two = (Charge(resource=r, qos=q) for r, q in (first, second))
    assert break_even(one, two) == BreakEven(ratio=None, below=better, above=better)


def _at(ratio: float) -> Prices:
    return Prices(currency="core-s", core_hour=3600.0, qos_charge=ratio)


amounts = st.integers(0, 10**6).map(float)


@given(amounts, amounts, amounts, amounts, st.floats(0.01, 100))
def test_the_better_policy_earns_more(r1, q1, r2, q2, factor: float) -> None:
    first, second = Charge(resource=r1, qos=q1), Charge(resource=r2, qos=q2)
    found = break_even(first, second)
    mirrored = break_even(second, first)
    other = {"first": "second", "second": "first", "equal": "equal"}
    assert (mirrored.below, mirrored.above) == (other[found.below], other[found.above])
    if found.ratio is None:
        ratio = factor
    else:
        at = _at(found.ratio)
        assert at.profit(first) == pytest.approx(at.profit(second))
        assert mirrored.ratio == found.ratio
        assume(abs(factor - 1) > 0.01)
        ratio = found.ratio * factor
    better = found.below if found.ratio is None or factor < 1 else found.above
    gain = _at(ratio).profit(first) - _at(ratio).profit(second)
    assert {"first": gain > 0, "second": gain < 0, "equal": gain == 0}[better]


def test_a_price_can_be_loaded() -> None:
    assert load_price("qops_batsim.economics.charges:islam2004") is islam2004


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("islam2004", "MODULE:FUNCTION is expected"),
        (":islam2004", "MODULE:FUNCTION is expected"),
        (".charges:islam2004", "MODULE:FUNCTION is expected"),
        ("no_such_module:price", "cannot be imported"),
        ("math:no_such_function", "module math has no function 'no_such_function'"),
        ("math:pi", "module math has no function 'pi'"),
    ],
)
def test_prices_that_cannot_be_loaded(name: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        load_price(name)
