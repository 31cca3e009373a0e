"""What will happen at later dates: a heap of callbacks with one documented order.

Waits end in the order of their dates and, at one date, in the order in which they
began. A wait can be moved, keeping its place among those of one date, or
cancelled. Both leave an entry behind that no longer counts and is dropped when it
comes up: an entry counts only while its date is the date of its wait.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable
from typing import Any

import msgspec

_NEVER = math.nan


class Wait(msgspec.Struct, eq=False):
    """A callback at a later date; ``date`` is NaN once it has ended or was cancelled."""

    date: float
    number: int
    action: Callable[[Any], None]
    argument: Any

    def cancel(self) -> None:
        """Never call back. O(1)."""
        self.date = _NEVER


class Waits:
    """The waits of a simulation. Adding, moving and ending one: O(log waits)."""

    __slots__ = ("_began", "_heap")

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, Wait]] = []
        self._began = 0

    def at(self, date: float, action: Callable[[Any], None], argument: Any = None) -> Wait:
        """Call ``action(argument)`` at a date (seconds)."""
        number = self._began
        self._began = number + 1
        wait = Wait(date, number, action, argument)
        heapq.heappush(self._heap, (date, number, wait))
        return wait

    def __len__(self) -> int:
        return len(self._heap)

    def restart(self, began: int) -> None:
        """Forget all waits; that many have begun so far."""
        self._heap.clear()
        self._began = began

    def put(self, wait: Wait, date: float, number: int) -> None:
        """Let a wait that began as such a number end at a date (seconds)."""
        wait.date, wait.number = date, number
        heapq.heappush(self._heap, (date, number, wait))

    def after(
        self, now: float, seconds: float, action: Callable[[Any], None], argument: Any = None
    ) -> Wait:
        """Call ``action(argument)`` some seconds after the current date."""
        return self.at(now + seconds, action, argument)

    def some_time(self, action: Callable[[Any], None], argument: Any) -> Wait:
        """Begin a wait whose date is not known yet; :meth:`last` gives it one."""
        self._began += 1
        return Wait(_NEVER, self._began - 1, action, argument)

    def last(self, wait: Wait, now: float, seconds: float, rate: float = 0.0) -> None:
        """Let a wait end so much later than now (seconds; infinity for not at present).

        ``rate`` is that of the computation waited for, where it is followed step by step.
        """
        date = wait.date = now + seconds
        if date < math.inf:
            heapq.heappush(self._heap, (date, wait.number, wait))

    def next_date(self) -> float:
        """Return when the next wait ends (seconds), infinity if there is none."""
        heap = self._heap
        while heap:
            date, _, wait = heap[0]
            if wait.date == date:
                return date
            heapq.heappop(heap)
        return math.inf

    def end(self, limit: float) -> None:
        """End all waits up to a date (seconds) in order, those begun meanwhile included.

        Those that have begun before are all of one date, also where rounding errors set them apart.
        """
        heap = self._heap
        while heap and heap[0][0] <= limit:
            date, number, wait = heapq.heappop(heap)
            if not heap or heap[0][0] > limit:
                # As good as always it is the only one.
                if wait.date == date:
                    wait.date = _NEVER
                    wait.action(wait.argument)
                continue
            due = [(number, date, wait)] if wait.date == date else []
            while heap and heap[0][0] <= limit:
                date, number, wait = heapq.heappop(heap)
                if wait.date == date:
                    due.append((number, date, wait))
            if len(due) > 1:
                due.sort()
            for _, date, wait in due:
                if wait.date == date:  # not cancelled or put off by one before it
                    wait.date = _NEVER
                    wait.action(wait.argument)
