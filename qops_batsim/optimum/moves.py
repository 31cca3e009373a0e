"""Moves of the search: some jobs leave a schedule and return, each at its earliest fit."""

from __future__ import annotations

import math
from array import array
from typing import Any

from qops_batsim.core.profile import Profile
from qops_batsim.optimum.problem import NOT_CHOSEN
from qops_batsim.timing import end_of

MOST_TAKEN = 60
"""Most jobs that a move takes out of the schedule."""

MOST_LEFT_OUT = 30
"""Most jobs of a move that were left out before."""

SHORTEST, LONGEST = 60.0, 180_000.0
"""Shortest and longest stretch of time on either side of a move's job (seconds)."""

# What moves.pxd declares is a C variable where this is compiled, which Python does not see.
_MOST_TAKEN = MOST_TAKEN
_MOST_LEFT_OUT = MOST_LEFT_OUT
_NOT_CHOSEN = float(NOT_CHOSEN)
_SHORTEST = SHORTEST
_LENGTHS = math.log(LONGEST / SHORTEST)


class Moves:
    """The schedule that the search is changing, and the best schedule so far.

    Arrays are by job; dates are in seconds from one origin.

    Parameters
    ----------
    machine
        Number of processors.
    release, duration, last_start
        First date of each job, how long it runs, and its latest start.
    processors, worth
        Whole numbers.
    starts
        The schedule to begin with, NOT_CHOSEN for jobs that are left out; it is changed.
    draws
        Random numbers from 0 to 1, used one after the other.

    Attributes
    ----------
    best
        The best schedule so far.
    value, best_value
        What the schedule and the best one are worth.
    """

    def __init__(
        self,
        machine: int,
        release: Any,
        duration: Any,
        last_start: Any,
        processors: Any,
        worth: Any,
        starts: Any,
        draws: Any,
    ) -> None:
        self.release = release
        self.duration = duration
        self.last_start = last_start
        self.processors = processors
        self.worth = worth
        self.starts = starts
        self.best = starts.copy()
        self.total = len(starts)
        self.draws = draws
        self.count_of_draws = len(draws)
        self.next = 0

        self.profile = Profile(machine)
        self.before = Profile(machine)
        self.value = 0
        for place in range(self.total):
            if self.starts[place] != _NOT_CHOSEN:
                self.put(place, self.starts[place])
        self.best_value = self.value

        # Of a move: its jobs, what these are sorted by, and their starts before it.
        room = bytes(8 * (MOST_TAKEN + MOST_LEFT_OUT))
        self.places = array("q", room)
        self.keys = array("d", room)
        self.old_starts = array("d", room)
        self.first = -1
        self.date = 0.0

    def draw(self) -> float:
        """Return the next random number."""
        place = self.next
        self.next = place + 1 if place + 1 < self.count_of_draws else 0
        return self.draws[place]  # type: ignore[no-any-return]

    def put(self, place: int, start: float) -> None:
        """Add the job with index ``place`` to the schedule, starting at ``start``. O(steps)."""
        end = end_of(start, self.duration[place])
        self.profile.reserve(start, end, self.processors[place])
        self.starts[place] = start
        self.value += self.worth[place]

    def make(self, moves: int, heat: float) -> int:
        """Make ``moves`` random moves of the search (simulated annealing); return the number of
        fits.

        A schedule that is worth less is kept with a probability that grows with the heat.
        O(moves × (jobs + moved jobs × steps)).
        """
        fits = moves
        for _ in range(moves):
            self.before.copy_from(self.profile)
            before = self.value
            count = self.take_out()
            self.put_in_order(count)
            fits += count

            for index in range(count):
                place = self.places[index]
                after = self.release[place]
                if place == self.first:
                    after = self.date
                elif self.draw() < 0.05:
                    after += math.floor(self.draw() * (self.last_start[place] - after))
                start = self.profile.earliest_fit(
                    after, self.duration[place], self.processors[place]
                )
                if start <= self.last_start[place]:
                    self.put(place, start)

            # The better schedule stays, and sometimes a worse one: else all is as before.
            if self.value < before + heat * math.log(self.draw() + 1e-12):
                self.profile, self.before = self.before, self.profile
                self.value = before
                for index in range(count):
                    self.starts[self.places[index]] = self.old_starts[index]
            elif self.value > self.best_value:
                self.best_value = self.value
                for place in range(self.total):
                    self.best[place] = self.starts[place]
        return fits

    def take_out(self) -> int:
        """Take a random job and its neighbours in time out of the schedule; return how many.

        The drawn job is the ``first`` that is put back, at the ``date``, or -1 if none is.
        """
        # A job at a date, and a stretch of time on either side.
        centre = int(self.draw() * self.total)
        laxity = self.last_start[centre] - self.release[centre]
        date = self.release[centre] + math.floor(self.draw() * laxity)
        stretch = _SHORTEST * math.exp(self.draw() * _LENGTHS)
        begin = date - stretch * self.draw()
        end = date + self.duration[centre] + stretch * self.draw()

        # Jobs that could compute there, and a share of those that do.
        share = 0.2 + 0.8 * self.draw()
        offset = int(self.draw() * self.total)
        count = 0
        left_out = 0
        for index in range(self.total):
            place = (offset + index) % self.total
            start = self.starts[place]
            if start == _NOT_CHOSEN:
                if left_out == _MOST_LEFT_OUT or self.release[place] >= end:
                    continue
                if self.last_start[place] + self.duration[place] <= begin:
                    continue
                left_out += 1
            else:
                if count - left_out == _MOST_TAKEN or start >= end:
                    continue
                if start + self.duration[place] <= begin or self.draw() >= share:
                    continue
                until = end_of(start, self.duration[place])
                self.profile.release(start, until, self.processors[place])
                self.value -= self.worth[place]
                self.starts[place] = _NOT_CHOSEN
            self.places[count] = place
            self.old_starts[count] = start
            count += 1

        self.first = centre if self.draw() < 0.5 else -1
        self.date = date
        return count

    def put_in_order(self, count: int) -> None:
        """Choose the order in which the ``count`` removed jobs are put back into the schedule."""
        rule = int(self.draw() * 5)
        noise = 0.5 * self.draw() * count
        for index in range(count):
            place = self.places[index]
            size = self.duration[place] * self.processors[place]
            if rule == 0:
                self.keys[index] = -self.worth[place] / size
            elif rule == 1:
                self.keys[index] = -self.processors[place]
            elif rule == 2:
                self.keys[index] = self.last_start[place]
            elif rule == 3:
                self.keys[index] = -self.worth[place]
            else:
                self.keys[index] = self.release[place]
        self.sort(count)

        # Ranks with noise; the drawn job goes first.
        for index in range(count):
            ranked = self.places[index] != self.first
            self.keys[index] = index + self.draw() * noise if ranked else -1.0
        self.sort(count)

    def sort(self, count: int) -> None:
        """Sort the removed jobs by their keys (insertion sort: they are few)."""
        for index in range(1, count):
            key = self.keys[index]
            place = self.places[index]
            start = self.old_starts[index]
            at = index
            while at > 0 and self.keys[at - 1] > key:
                self.keys[at] = self.keys[at - 1]
                self.places[at] = self.places[at - 1]
                self.old_starts[at] = self.old_starts[at - 1]
                at -= 1
            self.keys[at] = key
            self.places[at] = place
            self.old_starts[at] = start
