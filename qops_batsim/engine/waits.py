"""Waits: pending callbacks, ended in one documented order.

Waits end in the order of their dates and, at one date, in the order in which they began. A wait can
be moved, keeping its place among those of one date, or cancelled. Both leave an entry behind in the
heap of the loop of events that no longer counts and is dropped when it comes up: an entry counts
only while its date is the date of its wait.

Stepped waits end when SimGrid ends them, to the last bit. SimGrid goes from event to event, and
takes the time of each step off what is left of every wait. Their rounding errors decide which of
two waits ends first that end within nanoseconds of each other, as those of Batsim's messages often
do, and add up in the clock. So dates alone do not do: what is left of a wait is found by taking
off, one by one, all steps since its beginning; that is done once, when its end comes near.
"""

from __future__ import annotations

import heapq
import math
from array import array
from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any

import msgspec

from qops_batsim.engine.wait_heap import WORLD, Heap, Turns
from qops_batsim.timing import SAME_DATE

_NEVER = math.nan


class Wait(msgspec.Struct, eq=False):
    """A callback at a later date; ``date`` is NaN once it has ended or was cancelled."""

    date: float
    number: int
    action: Callable[[Any], None]
    argument: Any

    def cancel(self) -> None:
        """Cancel the wait, so that its callback is never called. O(1)."""
        self.date = _NEVER


class WorldWaits:
    """The waits of a simulated world (computations, transfers, timers), kept in the loop's heap.

    Attributes
    ----------
    heap, turns
        The loop's.
    """

    __slots__ = ("_expected", "heap", "turns")

    def __init__(self) -> None:
        self.heap = Heap()
        self.turns = Turns()
        self._expected: dict[int, Wait] = {}

    def at(self, date: float, action: Callable[[Any], None], argument: Any = None) -> Wait:
        """Call ``action(argument)`` at a date (seconds)."""
        wait = self.some_time(action, argument)
        self._expect(wait, date)
        return wait

    def after(
        self, now: float, seconds: float, action: Callable[[Any], None], argument: Any = None
    ) -> Wait:
        """Call ``action(argument)`` some seconds after the current date."""
        return self.at(now + seconds, action, argument)

    def some_time(self, action: Callable[[Any], None], argument: Any) -> Wait:
        """Begin a wait whose end is not known yet; :meth:`reschedule` sets it."""
        return Wait(_NEVER, self.turns.next(), action, argument)

    def reschedule(self, wait: Wait, now: float, seconds: float, rate: float = 0.0) -> None:
        """Set the end of a wait to ``seconds`` from now; infinite: not known at present.

        ``rate`` is that of the computation waited for, where it is followed step by step.
        """
        self._expect(wait, now + seconds)

    def has(self, number: int, date: float) -> bool:
        """Return whether the wait with this number is still due at ``date`` (seconds)."""
        wait = self._expected.get(number)
        if wait is None:
            return False
        if wait.date != wait.date:
            del self._expected[number]
        return wait.date == date

    def end_one(self, number: int, date: float) -> None:
        """Call back the wait with this number, unless it was cancelled or its date has changed."""
        if self.has(number, date):
            wait = self._expected.pop(number)
            wait.cancel()
            wait.action(wait.argument)

    def _expect(self, wait: Wait, date: float) -> None:
        wait.date = date
        if date < math.inf:
            self._expected[wait.number] = wait
            self.heap.push(date, wait.number, WORLD)


NEAR = 1e-3
"""Time before their end in which waits are followed step by step (seconds).

Above all rounding errors of a clock, and most messages take less.
"""

WORK_PRECISION = 1e-14
"""A computation of which a smaller share is left is done, as in SimGrid."""


class SteppedWait(Wait):
    """A wait that follows SimGrid's clock: the part ``remains`` is left after ``steps`` steps.

    It goes down with a ``rate`` (per second), and the wait ends when it is below the
    ``precision``: a time, or the share of a computation. It is ``followed`` near its end.
    """

    remains: float = math.inf
    rate: float = 1.0
    precision: float = SAME_DATE
    steps: int = 0
    followed: bool = False


class SteppedWaits(WorldWaits):
    """The waits of a simulation whose clock, ``now`` (s), advances in steps, as SimGrid's.

    Waits that end in one step do so in the order in which they began.
    """

    __slots__ = ("_expected_ends", "_near", "_steps", "_timers", "now")

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self._expected_ends: list[tuple[float, int, SteppedWait]] = []
        self._steps = array("d")
        self._near: list[SteppedWait] = []
        self._timers: list[tuple[float, int, Wait]] = []

    def at(self, date: float, action: Callable[[Any], None], argument: Any = None) -> Wait:
        return self.after(self.now, date - self.now, action, argument)

    def after(
        self, now: float, seconds: float, action: Callable[[Any], None], argument: Any = None
    ) -> Wait:
        wait = self._begin(action, argument, SAME_DATE)
        wait.remains = seconds
        self._plan(wait)
        return wait

    def some_time(self, action: Callable[[Any], None], argument: Any) -> SteppedWait:
        """Begin a wait for the end of a computation; :meth:`go_on` sets the computation's rate."""
        wait = self._begin(action, argument, WORK_PRECISION)
        wait.remains = 1.0
        wait.rate = 0.0
        return wait

    def timer(self, date: float, action: Callable[[Any], None], argument: Any) -> Wait:
        """Call ``action(argument)`` at a date (s) of the clock, whatever the steps to it."""
        wait = Wait(date, self.turns.next(), action, argument)
        heapq.heappush(self._timers, (date, wait.number, wait))
        return wait

    def go_on(self, wait: Wait, rate: float) -> None:
        """Set a computation's rate: the share of all its work per second; infinite ends it now."""
        assert isinstance(wait, SteppedWait)
        self._catch_up(wait)
        wait.rate = rate
        wait.followed = False
        if rate == math.inf:
            wait.remains = 0.0
            wait.rate = 1.0
        self._plan(wait)

    def reschedule(self, wait: Wait, now: float, seconds: float, rate: float = 0.0) -> None:
        self.go_on(wait, rate if seconds else math.inf)

    def advance(self) -> bool:
        """Advance the clock to the next end of a wait; return whether there is one.

        O(steps since it began + log waits).
        """
        self._follow()

        timers = self._timers
        while timers and timers[0][2].date != timers[0][0]:
            heapq.heappop(timers)  # It was cancelled.
        if not (self._near or timers):
            return False

        seconds = self._next() if self._near else math.inf
        if timers:
            seconds = min(seconds, timers[0][0] - self.now)

        self.now += seconds
        self._steps.append(seconds)
        for wait in self._near:
            remains = wait.remains - wait.rate * seconds
            wait.remains = remains if remains >= wait.precision else 0.0
            wait.steps += 1
        return True

    def due(self) -> list[Wait]:
        """Return the waits that end now, in the order in which they began."""
        due: list[Wait] = [wait for wait in self._near if not wait.remains]
        timers = self._timers
        while timers and timers[0][0] <= self.now:
            date, _, timer = heapq.heappop(timers)
            if timer.date == date:
                due.append(timer)
        if len(due) > 1:
            due.sort(key=attrgetter("number"))
        return due

    def end_due(self, due: Sequence[Wait] | None = None) -> None:
        """End the waits with nothing left."""
        for wait in self.due() if due is None else due:
            if wait.date == wait.date:
                wait.date = math.nan
                wait.action(wait.argument)

    def _begin(self, action: Callable[[Any], None], argument: Any, precision: float) -> SteppedWait:
        wait = SteppedWait(_NEVER, self.turns.next(), action, argument, precision=precision)
        wait.steps = len(self._steps)
        return wait

    def _plan(self, wait: SteppedWait) -> None:
        """Schedule a wait shortly before the date at which it will end."""
        wait.date = self.now + wait.remains / wait.rate if wait.rate else math.inf
        if wait.date < math.inf:
            heapq.heappush(self._expected_ends, (wait.date, wait.number, wait))

    def _catch_up(self, wait: SteppedWait) -> None:
        if wait.rate and wait.steps < len(self._steps):
            remains = wait.remains
            rate = wait.rate
            for seconds in self._steps[wait.steps :]:
                remains -= rate * seconds
            wait.remains = remains if remains >= wait.precision else 0.0
        wait.steps = len(self._steps)

    def _next(self) -> float:
        """Return the time to the first end among the waits that are near their ends (seconds)."""
        return min([wait.remains / wait.rate for wait in self._near])

    def _follow(self) -> None:
        """Compute what is left of the waits that end soon, with SimGrid's rounding."""
        near = [wait for wait in self._near if wait.followed and wait.date == wait.date]
        self._near = near
        heap = self._expected_ends
        horizon = self.now + NEAR + (self._next() if near else math.inf)
        while heap and heap[0][0] <= horizon:
            date, _, wait = heapq.heappop(heap)
            if wait.date == date and not wait.followed:
                if not near:
                    horizon = date + NEAR
                self._catch_up(wait)
                wait.followed = True
                near.append(wait)
