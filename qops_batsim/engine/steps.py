"""Waits that end when SimGrid ends them, to the last bit.

SimGrid goes from event to event, and takes the time of each step off what is left of every wait.
Their rounding errors decide which of two waits ends first that end within nanoseconds of each
other, as those of Batsim's messages often do, and add up in the clock. So dates alone do not do:
what is left of a wait is found by taking off, one by one, all steps since its beginning; that is
done once, when its end comes near.
"""

from __future__ import annotations

import heapq
import math
from array import array
from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any

from qops_batsim.engine.waits import Wait, Waits
from qops_batsim.timing import SAME_DATE

NEAR = 1e-3
"""How long before their end (seconds) waits are followed step by step.

Above all rounding errors of a clock, and most messages take less.
"""

WORK_PRECISION = 1e-14
"""A computation of which a smaller share is left is done, as in SimGrid."""


class SteppedWait(Wait):
    """A wait with what ``remains`` of it after the first ``steps`` steps.

    It goes down with a ``rate`` (per second), and the wait ends when it is below the
    ``precision``: a time, or the share of a computation. It is ``followed`` near its end.
    """

    remains: float = math.inf
    rate: float = 1.0
    precision: float = SAME_DATE
    steps: int = 0
    followed: bool = False


class SteppedWaits(Waits):
    """The waits of a simulation whose clock, ``now`` (seconds), goes in steps.

    Waits that end in one step do so in the order in which they began.
    """

    __slots__ = ("_near", "_steps", "now")

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self._steps = array("d")
        self._near: list[SteppedWait] = []

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
        """Begin a wait for the whole of a computation; :meth:`go_on` gives it a rate."""
        wait = self._begin(action, argument, WORK_PRECISION)
        wait.remains, wait.rate = 1.0, 0.0
        return wait

    def go_on(self, wait: Wait, rate: float) -> None:
        """Let a computation go on at a rate (share of the whole per second; infinite: end now)."""
        assert isinstance(wait, SteppedWait)
        self._catch_up(wait)
        wait.rate, wait.followed = rate, False
        if rate == math.inf:
            wait.remains, wait.rate = 0.0, 1.0
        self._plan(wait)

    def last(self, wait: Wait, now: float, seconds: float, rate: float = 0.0) -> None:
        self.go_on(wait, rate if seconds else math.inf)

    def advance(self) -> bool:
        """Set the clock to the next end of a wait; tell whether there is one.

        O(steps since it began + log waits).
        """
        self._follow()
        if not self._near:
            return False
        seconds = self._next()
        self.now += seconds
        self._steps.append(seconds)
        for wait in self._near:
            remains = wait.remains - wait.rate * seconds
            wait.remains = remains if remains >= wait.precision else 0.0
            wait.steps += 1
        return True

    def due(self) -> list[SteppedWait]:
        """Return the waits of which nothing is left, in their order."""
        due = [wait for wait in self._near if not wait.remains]
        if len(due) > 1:
            due.sort(key=attrgetter("number"))
        return due

    def end_due(self, due: Sequence[SteppedWait] | None = None) -> None:
        """End the waits of which nothing is left."""
        for wait in self.due() if due is None else due:
            if wait.date == wait.date:
                wait.date = math.nan
                wait.action(wait.argument)

    def _begin(self, action: Callable[[Any], None], argument: Any, precision: float) -> SteppedWait:
        self._began += 1
        wait = SteppedWait(math.nan, self._began - 1, action, argument, precision=precision)
        wait.steps = len(self._steps)
        return wait

    def _plan(self, wait: SteppedWait) -> None:
        """Expect a wait's end at about the date at which nothing of it will be left."""
        wait.date = self.now + wait.remains / wait.rate if wait.rate else math.inf
        if wait.date < math.inf:
            heapq.heappush(self._heap, (wait.date, wait.number, wait))

    def _catch_up(self, wait: SteppedWait) -> None:
        if wait.rate and wait.steps < len(self._steps):
            remains, rate = wait.remains, wait.rate
            for seconds in self._steps[wait.steps :]:
                remains -= rate * seconds
            wait.remains = remains if remains >= wait.precision else 0.0
        wait.steps = len(self._steps)

    def _next(self) -> float:
        """Return how long it takes until a wait near its end ends (seconds)."""
        return min([wait.remains / wait.rate for wait in self._near])

    def _follow(self) -> None:
        """Find out what is exactly left of the waits that have come near their end."""
        near = [wait for wait in self._near if wait.followed and wait.date == wait.date]
        self._near = near
        heap = self._heap
        horizon = self.now + NEAR + (self._next() if near else math.inf)
        while heap and heap[0][0] <= horizon:
            date, _, wait = heapq.heappop(heap)
            if wait.date == date and isinstance(wait, SteppedWait) and not wait.followed:
                if not near:
                    horizon = date + NEAR
                self._catch_up(wait)
                wait.followed = True
                near.append(wait)
