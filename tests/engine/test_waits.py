"""Waits of a world in the loop of events: order, moving, cancelling."""

from __future__ import annotations

import math
from types import SimpleNamespace

import pytest

from qops_batsim.engine.loop import Loop
from qops_batsim.engine.waits import SteppedWaits, WorldWaits


class Waiting(Loop):
    """A loop about a world in which nothing happens but that waits end, and say a word."""

    def __init__(self) -> None:
        waits = WorldWaits()
        self.world = SimpleNamespace(waits=waits, now=0.0, settle=lambda: None)
        super().__init__([], None, waits.heap, waits.turns, self.world)
        self.executes = self.withdraws = True
        self.said: list[str] = []
        self.heard: list[tuple[float, list[str]]] = []

    def hear_physics(self) -> None:
        self.told = len(self.said)

    def decide(self) -> None:
        if self.said:
            self.heard.append((self.world.now, self.said))
        self.said = []

    def say(self, word: str) -> None:
        self.said.append(word)

    def ended(self) -> list[tuple[float, list[str]]]:
        """End all waits; return what they said at each date."""
        self.run(lambda ended: None)
        return self.heard


def test_waits_end_by_date_and_then_in_the_order_in_which_they_began() -> None:
    some = Waiting()
    for date, name in ((3.0, "a"), (1.0, "b"), (3.0, "c"), (2.0, "d")):
        some.world.waits.at(date, some.say, name)
    assert some.ended() == [(1.0, ["b"]), (2.0, ["d"]), (3.0, ["a", "c"])]


def test_a_moved_wait_keeps_its_place_among_those_of_one_date() -> None:
    some = Waiting()
    waits = some.world.waits
    early = waits.some_time(some.say, "early")
    waits.at(5.0, some.say, "late")
    waits.reschedule(early, 0.0, 9.0)
    waits.reschedule(early, 0.0, math.inf)
    waits.at(4.0, lambda _: waits.reschedule(early, 4.0, 1.0))
    assert some.ended() == [(5.0, ["early", "late"])]


def test_a_wait_that_comes_back_to_a_date_ends_once() -> None:
    some = Waiting()
    wait = some.world.waits.at(4.0, some.say, "once")
    some.world.waits.reschedule(wait, 0.0, 6.0)
    some.world.waits.reschedule(wait, 0.0, 4.0)
    assert some.ended() == [(4.0, ["once"])]


def test_a_cancelled_wait_moves_no_clock() -> None:
    some = Waiting()
    some.world.waits.at(1.0, some.say, "gone").cancel()
    assert some.ended() == []
    assert some.world.now == 0.0


def test_a_wait_begun_while_others_end_belongs_to_the_same_date() -> None:
    some = Waiting()
    some.world.waits.at(1.0, lambda _: some.world.waits.at(1.0, some.say, "second"))
    some.world.waits.at(1.0, some.say, "first")
    assert some.ended() == [(1.0, ["first", "second"])]


def test_dates_a_rounding_error_apart_are_one_date() -> None:
    some = Waiting()
    some.world.waits.at(0.3, some.say, "first")
    some.world.waits.at(0.3 - 1e-10, some.say, "second")
    assert some.ended() == [(0.3 - 1e-10, ["first", "second"])]


def test_a_wait_can_put_off_or_cancel_another_of_its_date() -> None:
    some = Waiting()
    waits = some.world.waits
    waits.at(1.0, lambda _: (gone.cancel(), waits.reschedule(later, 1.0, 4.0)))
    gone, later = waits.at(1.0, some.say, "gone"), waits.at(1.0, some.say, "later")
    assert some.ended() == [(5.0, ["later"])]


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
