"""What AROMA tries when an application finds no place (section 3.1, "Mapping").

First a planned application of a weaker class is moved: taken out, and mapped again
after the new one. Then a running one is stopped, to go on later on the same hosts.
Each is undone unless both find a place that keeps every promise, also those made to
the one that makes room.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import msgspec

from qops_batsim.scheduling.aroma.application import Application
from qops_batsim.scheduling.aroma.book import Book, Taken
from qops_batsim.scheduling.aroma.mapping import Mapper

YOUNGEST = 1.0
"""Seconds that an application has run at least when it is stopped.

Batsim breaks off if it is told to kill a job that has not really started yet, which
takes moments on a platform with latencies.
"""


class Stopped(msgspec.Struct, frozen=True):
    """A running job that has to be stopped, and what goes on of it later."""

    stopped: Taken
    rest: Application


class Fallbacks:
    """Makes room for applications.

    Parameters
    ----------
    moves, stops
        How many applications are tried to be moved and stopped, at most.
    name_of_rest
        Returns the name of the job by which a job would go on; None if it cannot be
        stopped.
    """

    def __init__(
        self,
        mapper: Mapper,
        moves: int,
        stops: int,
        name_of_rest: Callable[[Application], str | None],
    ) -> None:
        self._mapper = mapper
        self._moves = moves
        self._stops = stops
        self._name_of_rest = name_of_rest

    def map(self, parts: Sequence[Application]) -> list[Stopped] | None:
        """Map the parts of an application, all or none; make room for them if need be.

        Returns
        -------
        list of Stopped or None
            What has to be stopped for that, mostly nothing; None if they find no place.
        """
        if map_all(self._mapper, parts) or self._by_moving(parts):
            return []
        return self._by_stopping(parts)

    def _by_moving(self, parts: Sequence[Application]) -> bool:
        book = self._mapper.book
        for slots in self._weaker(parts, book.planned_slots(), self._moves):
            moved = [book.take(slot) for slot in slots]
            if self._fit(parts, [each.application for each in moved]):
                return True
            self._put_back(moved)
        return False

    def _by_stopping(self, parts: Sequence[Application]) -> list[Stopped] | None:
        book = self._mapper.book
        for slots in self._weaker(parts, book.running_slots().tolist(), self._stops):
            names = [self._name_of_rest(book.application(slot)) for slot in slots]
            young = book.mapped["ordered"][slots].max() > book.date - YOUNGEST
            if young or None in names or book.mapped["left"][slots].min() <= 0:
                continue
            running = [book.take(slot) for slot in slots]
            rests = [
                each.application.rest(
                    name or "",
                    each.left,
                    book.date - each.ordered,
                    tuple(each.hosts.tolist()),
                )
                for name, each in zip(names, running, strict=True)
            ]
            if self._fit(parts, rests):
                return [Stopped(*pair) for pair in zip(running, rests, strict=True)]
            self._put_back(running)
        return None

    def _fit(self, parts: Sequence[Application], others: Sequence[Application]) -> bool:
        """Map the parts of an application, then others, all or none; tell which."""
        self._mapper.book.refresh()
        if map_all(self._mapper, parts):
            if map_all(self._mapper, others):
                return True
            forget_all(self._mapper.book, parts)
        return False

    def _put_back(self, taken: Sequence[Taken]) -> None:
        book = self._mapper.book
        for each in taken:
            book.put_back(each)
        book.refresh()

    def _weaker(self, parts: Sequence[Application], slots: list[int], most: int) -> list[list[int]]:
        """Return the slots of applications of weaker classes, with all of their jobs.

        The weakest class comes first, in a class the last one to start.
        """
        book = self._mapper.book
        starts = book.mapped["start"]
        weaker = [(slot, book.application(slot)) for slot in slots]
        weaker = [each for each in weaker if each[1].rank > parts[0].rank]
        weaker.sort(key=lambda each: (-each[1].rank, -starts[each[0]], -each[1].arrival))
        found: dict[str, list[int]] = {}
        for slot, application in weaker:
            found.setdefault(application.name, []).append(slot)
        return list(found.values())[:most]


def map_all(mapper: Mapper, parts: Sequence[Application]) -> bool:
    """Map the parts of an application one after the other, all or none; tell which.

    A part that is like the one before it is not tried at dates at which that one found no
    place: there is less room since.
    """
    after = -math.inf
    for index, part in enumerate(parts):
        if index and not part.is_like(parts[index - 1]):
            after = -math.inf
        slot = mapper.map(part, after=after)
        if slot is None:
            forget_all(mapper.book, parts[:index])
            if index:
                mapper.book.refresh()
            return False
        after = float(mapper.book.mapped["start"][slot])
    return True


def forget_all(book: Book, parts: Sequence[Application]) -> None:
    """Take the parts of an application out again."""
    for part in parts:
        book.remove(book.slot_of[part.job.id])
