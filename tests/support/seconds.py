"""A machine's processors in use second by second, on which the naive references plan."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Protocol


class Sized(Protocol):
    """What takes processors (``inf`` seconds: for ever)."""

    @property
    def processors(self) -> int: ...

    @property
    def estimate(self) -> float: ...


class Seconds:
    """Processors in use from a date on; whatever is in use in the last second stays so.

    ``running`` are (processors, expected end); ``dates`` and the lengths of ``jobs`` are what has
    to find room.
    """

    def __init__(
        self,
        machine: int,
        now: int,
        running: Iterable[tuple[int, float]],
        dates: Iterable[float],
        jobs: Iterable[Sized],
    ) -> None:
        running = list(running)
        known = [now, *(end for _, end in running), *dates]
        work = sum(job.estimate for job in jobs if job.estimate < math.inf)
        self.first = now
        self.end = int(max(date for date in known if date < math.inf) + work) + 2
        self.machine = machine
        self.used = [0] * self.end
        for processors, end in running:
            self.take(now, end - now, processors)

    def take(self, start: float, duration: float, processors: int) -> None:
        """Put processors into use."""
        if start < math.inf:
            for second in range(int(start), int(min(start + duration, self.end))):
                self.used[second] += processors

    def earliest(self, job: Sized) -> float:
        """Return the first second from which a job's processors are free; infinite if none."""
        for start in range(self.first, self.end):
            # A job of no length still needs its processors when it starts.
            until = int(min(start + max(job.estimate, 1), self.end))
            if all(self.used[s] + job.processors <= self.machine for s in range(start, until)):
                return start
        return math.inf

    def place(self, job: Sized) -> float:
        """Let a job start as early as it can; return when."""
        start = self.earliest(job)
        self.take(start, job.estimate, job.processors)
        return start
