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
            if below + 1 < count and self.comes_before(below + 1, below):
                below += 1
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

    def comes_before(self, place: int, other: int) -> bool:
        """Return whether a wait ends before another one."""
        one, two = self.dates[place], self.dates[other]
        return one < two or (one == two and self.numbers[place] < self.numbers[other])

    def check(self) -> None:
        """Raise an AssertionError unless the heap order holds."""
        for place in range(1, self.size):
            assert not self.comes_before(place, (place - 1) >> 1), f"wait {place} is out of order"
