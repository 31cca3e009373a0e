"""Waits for dates: a heap of them, and the numbers by which those of one date are told apart."""

from __future__ import annotations

from array import array

from qops_batsim.core.arrays import grown

CALL = -1
"""In place of the index of a job: a call that a scheduler asked for."""
EVENT = -2
"""Likewise: the next external event."""
WORLD = -3
"""Likewise: a wait of the world."""
SUBMISSION = -4
"""Likewise: the next jobs of the first workload; of the second it is one less, and so on."""


class Turns:
    """Counter that numbers the waits for dates (ends, submissions, calls) in order."""

    def __init__(self) -> None:
        self.began = 0

    def next(self) -> int:
        """Return the number of a wait that begins now."""
        self.began += 1
        return self.began - 1


class Heap:
    """Waits in a heap, by date, then by the order in which they began.

    Each wait is for the end of a job, whose index it holds, or for what :data:`CALL` and the other
    negative numbers stand for.
    """

    def __init__(self) -> None:
        room = bytes(512)
        self.size = 0
        self.dates = array("d", room)
        self.numbers = array("q", room)
        self.jobs = array("q", room)

    def push(self, date: float, number: int, job: int) -> None:
        """Add a wait. O(log waits)."""
        place = self.size
        if place == len(self.dates):
            self.dates = grown("d", self.dates)
            self.numbers = grown("q", self.numbers)
            self.jobs = grown("q", self.jobs)
        self.size = place + 1

        # Those above that end later move down, until the new one has found its place.
        while place > 0:
            above = (place - 1) >> 1
            other = self.dates[above]
            if date > other or (date == other and number > self.numbers[above]):
                break
            self.dates[place] = other
            self.numbers[place] = self.numbers[above]
            self.jobs[place] = self.jobs[above]
            place = above

        self.dates[place] = date
        self.numbers[place] = number
        self.jobs[place] = job

    def pop(self) -> None:
        """Remove the first wait. O(log waits)."""
        count = self.size - 1
        self.size = count
        date = self.dates[count]
        number = self.numbers[count]

        # The last one takes the place of the first, below all that end earlier.
        place, below = 0, 1
        while below < count:
            other = self.dates[below]
            beside = below + 1
            if beside < count and (
                self.dates[beside] < other
                or (self.dates[beside] == other and self.numbers[beside] < self.numbers[below])
            ):
                below = beside
                other = self.dates[below]
            if date < other or (date == other and number < self.numbers[below]):
                break
            self.dates[place] = other
            self.numbers[place] = self.numbers[below]
            self.jobs[place] = self.jobs[below]
            place, below = below, 2 * below + 1

        self.dates[place] = date
        self.numbers[place] = number
        self.jobs[place] = self.jobs[count]

    def check(self) -> None:
        """Raise an AssertionError unless the heap order holds."""
        keys = [(self.dates[place], self.numbers[place]) for place in range(self.size)]
        for place in range(1, self.size):
            assert keys[(place - 1) >> 1] < keys[place], f"wait {place} is out of order"
