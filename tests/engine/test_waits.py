"""The heap of waits: order, moving, cancelling."""

from __future__ import annotations

import math

import pytest

from qops_batsim.engine.waits import SteppedWaits, Waits


def ended(waits: Waits, said: list[str]) -> list[tuple[float, str]]:
    """End all waits; return date and argument of each."""
    found = []
    while (date := waits.next_date()) < math.inf:
        waits.end(date)
        found += [(date, each) for each in said]
        said.clear()
    return found


def test_waits_end_by_date_and_then_in_the_order_in_which_they_began() -> None:
    waits, said = Waits(), list[str]()
    for date, name in ((3.0, "a"), (1.0, "b"), (3.0, "c"), (2.0, "d")):
        waits.at(date, said.append, name)
    assert ended(waits, said) == [(1.0, "b"), (2.0, "d"), (3.0, "a"), (3.0, "c")]


def test_a_moved_wait_keeps_its_place_among_those_of_one_date() -> None:
    waits, said = Waits(), list[str]()
    early = waits.some_time(said.append, "early")
    waits.at(5.0, said.append, "late")
    waits.reschedule(early, 0.0, 9.0)
    waits.reschedule(early, 0.0, math.inf)
    assert waits.next_date() == 5.0
    waits.reschedule(early, 0.0, 5.0)
    assert ended(waits, said) == [(5.0, "early"), (5.0, "late")]


def test_a_wait_that_comes_back_to_a_date_ends_once() -> None:
    waits, said = Waits(), list[str]()
    wait = waits.at(4.0, said.append, "once")
    waits.reschedule(wait, 0.0, 6.0)
    waits.reschedule(wait, 0.0, 4.0)
    assert ended(waits, said) == [(4.0, "once")]


def test_a_cancelled_wait_moves_no_clock() -> None:
    waits, said = Waits(), list[str]()
    waits.at(1.0, said.append, "gone").cancel()
    assert waits.next_date() == math.inf
    assert ended(waits, said) == []


def test_a_wait_begun_while_others_end_belongs_to_the_same_date() -> None:
    waits, said = Waits(), list[str]()
    waits.at(1.0, lambda _: waits.at(1.0, said.append, "second"))
    waits.end(1.0)
    assert said == ["second"]


def test_dates_a_rounding_error_apart_are_one_date() -> None:
    waits, said = Waits(), list[str]()
    waits.at(0.3, said.append, "first")
    waits.at(0.1 + 0.2 - 1e-10, said.append, "second")
    waits.end(0.3 + 1e-9)
    assert said == ["first", "second"]


def test_a_wait_can_put_off_or_cancel_another_of_its_date() -> None:
    waits, said = Waits(), list[str]()
    waits.at(1.0, lambda _: (gone.cancel(), waits.reschedule(later, 1.0, 4.0)))
    gone, later = waits.at(1.0, said.append, "gone"), waits.at(1.0, said.append, "later")
    waits.end(1.0)
    assert said == []
    assert ended(waits, said) == [(5.0, "later")]


@pytest.mark.parametrize(
    ("start", "order"),
    [
        # 0.479211 s of work end in the step to the timer, which comes after them,
        (0.0, ["computed", "killed"]),
        # but here rounding leaves 7.5e-14 of them, of which 1e-14 count.
        (848.5230579999999, ["killed", "computed"]),
    ],
)
def test_a_timer_is_a_date_of_the_clock(start: float, order: list[str]) -> None:
    waits, said = SteppedWaits(), list[str]()
    waits.now = start
    work = waits.some_time(said.append, "computed")
    waits.timer(start + 0.479211, said.append, "killed")
    waits.timer(start + 0.1, said.append, "cancelled").cancel()
    waits.go_on(work, 1 / 0.479211)
    while waits.advance():
        waits.end_due()
    assert said == order
