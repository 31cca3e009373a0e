"""The running jobs of a plan: their slots, and when they are expected to end."""

from __future__ import annotations

import heapq

from qops_batsim.scheduling.profile import Floats, Ints, new_queue
from qops_batsim.timing import on_grid


class RunningJobs:
    """Slots of running jobs in any order, and their expected ends in order.

    Parameters
    ----------
    most
        Most jobs that run at a time.

    Attributes
    ----------
    queue
        Their slots, for kernels.
    lags
        By how much jobs started later than planned (seconds), by slot; those on time, and
        what is counted from its actual start, have none.
    """

    def __init__(self, most: int) -> None:
        self.queue = new_queue(most)
        self.lags: dict[int, float] = {}
        self._places: dict[int, int] = {}
        self._expected: list[tuple[float, int]] = []

    def __len__(self) -> int:
        return len(self._places)

    def __contains__(self, slot: int) -> bool:
        return slot in self._places

    @property
    def slots(self) -> Ints:
        """A view of their slots, good until one starts or ends."""
        return self.queue.slots[: len(self._places)]

    def add(self, slot: int) -> None:
        """Count a job among the running ones. O(1)."""
        place = len(self._places)
        self.queue.slots[place] = slot
        self.queue.size[0] = place + 1
        self._places[slot] = place

    def remove(self, slot: int) -> None:
        """Take a job out of the running ones; the last of them takes its place. O(1)."""
        place = self._places.pop(slot)
        last = len(self._places)
        self.queue.size[0] = last
        if place < last:
            moved = int(self.queue.slots[last])
            self.queue.slots[place] = moved
            self._places[moved] = place
        if self.lags:
            self.lags.pop(slot, None)

    def expect(self, slot: int, end: float, ends: Floats) -> None:
        """Expect a job to end at a date (seconds), noted among the ends. O(log running)."""
        ends[slot] = end
        heapq.heappush(self._expected, (end, slot))

    def overdue(self, ends: Floats, date: float) -> list[int]:
        """Return the jobs that were expected to end before a date (seconds), once and for all.

        ``ends`` are the expected ends by slot.
        """
        expected, found = self._expected, list[int]()
        # As good as always there are none.
        while expected and expected[0][0] < date:
            end, slot = heapq.heappop(expected)
            if slot in self._places and ends[slot] == end:
                found.append(slot)
        return found

    def take_up_lags(self, starts: Floats, ends: Floats) -> None:
        """Count all jobs from their actual starts. O(running)."""
        for slot, lag in self.lags.items():
            starts[slot] = on_grid(float(starts[slot]) + lag)
            self.expect(slot, on_grid(float(ends[slot]) + lag), ends)
        self.lags.clear()
