"""A clock that goes in steps: exact rests of waits, order, moving."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qops_batsim.engine.waits import SteppedWaits


def ended(waits: SteppedWaits, said: list[Any]) -> list[tuple[float, Any]]:
    """End all waits; return clock and argument of each."""
    found = []
    while waits.advance():
        waits.end_due()
        found += [(waits.now, each) for each in said]
        said.clear()
    return found


def test_waits_end_by_date_and_then_in_the_order_in_which_they_began() -> None:
    waits, said = SteppedWaits(), list[str]()
    for seconds, name in ((3.0, "a"), (1.0, "b"), (3.0, "c"), (2.0, "d")):
        waits.after(0.0, seconds, said.append, name)
    assert ended(waits, said) == [(1.0, "b"), (2.0, "d"), (3.0, "a"), (3.0, "c")]


def test_a_wait_ends_when_less_than_its_precision_is_left() -> None:
    waits, said = SteppedWaits(), list[str]()
    waits.after(0.0, 1.0, said.append, "first")
    waits.after(0.0, 1.0 + 1e-10, said.append, "imprecise")
    waits.go_on(waits.some_time(said.append, "precise"), 1 / (1.0 + 1e-10))
    assert [name for _, name in ended(waits, said)] == ["first", "imprecise", "precise"]
    waits.after(waits.now, 1.0, said.append, "next")
    assert ended(waits, said) == [(pytest.approx(2.0), "next")]


def test_a_computation_goes_on_at_another_rate_or_stops() -> None:
    waits, said = SteppedWaits(), list[str]()
    whole = waits.some_time(said.append, "whole")
    waits.go_on(whole, 0.1)
    waits.after(0.0, 1.0, said.append, "gone").cancel()
    waits.after(0.0, 5.0, lambda _: waits.go_on(whole, 0.0))
    waits.after(0.0, 8.0, lambda _: waits.go_on(whole, 0.5))
    assert ended(waits, said) == [(9.0, "whole")]
    waits.go_on(waits.some_time(said.append, "at once"), math.inf)
    assert ended(waits, said) == [(9.0, "at once")]


class Naive:
    """The same by taking every step off every wait."""

    def __init__(self) -> None:
        self.now = 0.0
        self.left: dict[int, float] = {}

    def advance(self) -> list[int]:
        step = min(self.left.values())
        self.now += step
        for name in self.left:
            self.left[name] -= step
        over = [name for name, left in self.left.items() if left < 1e-9]
        for name in over:
            del self.left[name]
        return over


@given(st.lists(st.tuples(st.floats(1e-7, 50.0), st.floats(1e-7, 50.0)), min_size=1, max_size=30))
def test_rests_are_exactly_those_of_step_by_step(chains: list[tuple[float, float]]) -> None:
    """Each wait is followed by a second one, also many seconds after it began."""
    waits, naive, said = SteppedWaits(), Naive(), list[int]()
    second = {}
    for name, (first, then) in enumerate(chains):
        waits.after(0.0, first, said.append, name)
        naive.left[name] = first
        second[name] = then
    while naive.left:
        expected = naive.advance()
        assert waits.advance()
        waits.end_due()
        assert (waits.now, sorted(said)) == (naive.now, sorted(expected))
        said.clear()
        for name in expected:
            if name in second:
                then = second.pop(name)
                waits.after(waits.now, then, said.append, 1000 + name)
                naive.left[1000 + name] = then
    assert not waits.advance()
