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
from collections.abc import Callable
from operator import attrgetter
from typing import Any

from qops_batsim.engine.waits import Wait, Waits
from qops_batsim.timing import SAME_DATE

NEAR = 1e-3
"""How long before their end (seconds) waits are followed step by step.

Above all rounding errors of a clock, and most messages take less.
"""


class SteppedWait(Wait):
    """A wait with what is ``left`` of it (seconds) after the first ``steps`` steps.

    It ends when less than its ``precision`` is left (seconds). It is ``followed`` near its end.
    """

    left: float = math.inf
    steps: int = 0
    precision: float = SAME_DATE
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
        self,
        now: float,
        seconds: float,
        action: Callable[[Any], None],
        argument: Any = None,
        *,
        precision: float = SAME_DATE,
    ) -> Wait:
        """Call back when less than ``precision`` (seconds) is left of a time (seconds)."""
        wait = self.some_time(action, argument)
        wait.precision = precision
        self.last(wait, now, seconds)
        return wait

    def some_time(self, action: Callable[[Any], None], argument: Any) -> SteppedWait:
        self._began += 1
        return SteppedWait(math.nan, self._began - 1, action, argument, precision=0.0)

    def last(self, wait: Wait, now: float, seconds: float) -> None:
        assert isinstance(wait, SteppedWait)
        wait.date = now + seconds
        wait.left, wait.steps, wait.followed = seconds, len(self._steps), False
        if seconds < math.inf:
            heapq.heappush(self._heap, (wait.date, wait.number, wait))

    def advance(self) -> bool:
        """Set the clock to the next end of a wait; tell whether there is one.

        O(steps since it began + log waits).
        """
        self._follow()
        if not self._near:
            return False
        seconds = min(wait.left for wait in self._near)
        self.now += seconds
        self._steps.append(seconds)
        for wait in self._near:
            wait.left -= seconds
        return True

    def end_due(self) -> None:
        """End the waits of which nothing is left."""
        due = [wait for wait in self._near if wait.left < wait.precision or not wait.left]
        for wait in sorted(due, key=attrgetter("number")):
            if wait.date == wait.date:
                wait.date = math.nan
                wait.action(wait.argument)

    def _follow(self) -> None:
        """Find out what is exactly left of the waits that have come near their end."""
        near = [wait for wait in self._near if wait.followed and wait.date == wait.date]
        horizon = self.now + min((wait.left for wait in near), default=math.inf) + NEAR
        while self._heap and self._heap[0][0] <= horizon:
            date, _, wait = heapq.heappop(self._heap)
            if wait.date == date and isinstance(wait, SteppedWait) and not wait.followed:
                if not near:
                    horizon = date + NEAR
                for seconds in self._steps[wait.steps :]:
                    wait.left -= seconds
                wait.left, wait.followed = max(wait.left, 0.0), True
                near.append(wait)
        self._near = near
