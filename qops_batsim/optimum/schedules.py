"""Schedules in ticks: what is used when, and which job fits where."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from qops_batsim.optimum.problem import NOT_CHOSEN, Ints, Tasks


class Room:
    """Processors in use over time, as steps. Every change and question is O(steps)."""

    def __init__(self, machine: int) -> None:
        self.machine = machine
        self.dates: Ints = np.array([np.iinfo(np.int64).min, np.iinfo(np.int64).max])
        self.used: Ints = np.zeros(1, np.int64)

    @classmethod
    def of(cls, tasks: Tasks, starts: Ints, machine: int) -> Room:
        """Return what a schedule uses."""
        room = cls(machine)
        chosen = np.flatnonzero(starts != NOT_CHOSEN)
        begins, ends = starts[chosen], starts[chosen] + tasks.duration[chosen]
        dates, where = np.unique(np.concatenate([begins, ends]), return_inverse=True)
        sizes = tasks.processors[chosen]
        change = np.zeros(len(dates), np.int64)
        np.add.at(change, where, np.concatenate([sizes, -sizes]))
        room.dates = np.concatenate([room.dates[:1], dates, room.dates[1:]])
        room.used = np.concatenate([[0], np.cumsum(change)])
        return room

    def earliest_fit(self, after: int, duration: int, processors: int, last: int) -> int:
        """Return the first tick from ``after`` up to ``last`` with room, or NOT_CHOSEN."""
        place = int(np.searchsorted(self.dates, after, "right")) - 1
        most, start = self.machine - processors, after
        while start <= last:
            end = int(np.searchsorted(self.dates, start + duration, "left"))
            full = np.flatnonzero(self.used[place:end] > most)
            if not len(full):
                return start
            place += int(full[-1]) + 1
            start = int(self.dates[place])
        return NOT_CHOSEN

    def take(self, start: int, duration: int, processors: int) -> None:
        """Use processors from a tick on."""
        for date in (start, start + duration):
            place = int(np.searchsorted(self.dates, date, "left"))
            if self.dates[place] != date:
                self.dates = np.insert(self.dates, place, date)
                self.used = np.insert(self.used, place, self.used[place - 1])
        first, last = np.searchsorted(self.dates, [start, start + duration])
        self.used[first:last] += processors


def is_feasible(tasks: Tasks, starts: Ints, machine: int) -> bool:
    """Whether the chosen jobs run within their dates, on no more processors than there are."""
    chosen = starts != NOT_CHOSEN
    in_time = (starts >= tasks.release) & (starts <= tasks.last_start)
    return bool(in_time[chosen].all() and Room.of(tasks, starts, machine).used.max() <= machine)


def filled(tasks: Tasks, starts: Ints, machine: int, order: Iterable[int]) -> Ints:
    """Return a schedule with more jobs, each at its earliest fit, in an order of places."""
    starts, room = starts.copy(), Room.of(tasks, starts, machine)
    columns = tasks.release, tasks.duration, tasks.processors, tasks.last_start
    for place in order:
        if starts[place] == NOT_CHOSEN:
            release, duration, processors, last = (int(column[place]) for column in columns)
            start = room.earliest_fit(release, duration, processors, last)
            if start != NOT_CHOSEN:
                starts[place] = start
                room.take(start, duration, processors)
    return starts


def by_density(tasks: Tasks, worth: Ints) -> list[int]:
    """Return the places of all jobs, those first that are worth the most for their size."""
    size = np.maximum(tasks.duration, 1) * tasks.processors
    order: list[int] = np.lexsort((size, -worth / size)).tolist()
    return order
