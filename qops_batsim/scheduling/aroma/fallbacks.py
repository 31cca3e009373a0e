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
import numpy as np

from qops_batsim.scheduling.aroma.application import Application, Work
from qops_batsim.scheduling.aroma.book import Book, Mapped
from qops_batsim.scheduling.aroma.mapping import Mapper

YOUNGEST = 1.0
"""Seconds that an application has run at least when it is stopped.

Batsim breaks off if it is told to kill a job that has not really started yet, which
takes moments on a platform with latencies.
"""


class Stopped(msgspec.Struct, frozen=True):
    """A running job that has to be stopped, and what goes on of it later."""

    stopped: Mapped
    rest: Application


class Fallbacks:
    """Makes room for applications.

    Parameters
    ----------
    mapper
        Maps applications.
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
        mapper, book = self._mapper, self._mapper.book
        for slots in self._weaker(parts, book.planned_slots().tolist(), self._moves):
            moved = [book.take(slot) for slot in slots]
            book.refresh()
            if map_all(mapper, parts):
                if map_all(mapper, [each.application for each in moved]):
                    return True
                forget_all(book, parts)
            self._put_back(moved)
        return False

    def _by_stopping(self, parts: Sequence[Application]) -> list[Stopped] | None:
        mapper, book = self._mapper, self._mapper.book
        for slots in self._weaker(parts, book.running_slots().tolist(), self._stops):
            names = [self._name_of_rest(book.application(slot)) for slot in slots]
            young = book.starts[slots].max() > book.date - YOUNGEST
            if young or None in names or book.left[slots].min() <= 0:
                continue
            running = [book.take(slot) for slot in slots]
            book.refresh()
            if map_all(mapper, parts):
                rests = [
                    _rest(name, each, book.date - each.start)
                    for name, each in zip(names, running, strict=True)
                ]
                if map_all(mapper, rests):
                    return [Stopped(*pair) for pair in zip(running, rests, strict=True)]
                forget_all(book, parts)
            self._put_back(running)
        return None

    def _put_back(self, taken: Sequence[Mapped]) -> None:
        book = self._mapper.book
        for each in taken:
            book.put_back(each)
        book.refresh()

    def _weaker(self, parts: Sequence[Application], slots: list[int], most: int) -> list[list[int]]:
        """Return the slots of applications of weaker classes, with all of their jobs.

        The weakest class comes first, in a class the last one to start.
        """
        book = self._mapper.book
        slots = [slot for slot in slots if book.application(slot).rank > parts[0].rank]
        slots.sort(
            key=lambda slot: (
                -book.application(slot).rank,
                -book.starts[slot],
                -book.application(slot).arrival,
            )
        )
        found: dict[str, list[int]] = {}
        for slot in slots:
            found.setdefault(book.application(slot).name, []).append(slot)
        return list(found.values())[:most]


def map_all(mapper: Mapper, parts: Sequence[Application]) -> bool:
    """Map the parts of an application one after the other, all or none; tell which.

    A part that is like the one before it is not tried at dates at which that one found no
    place: there is less room since.
    """
    after = -math.inf
    for index, part in enumerate(parts):
        if index and not _alike(part, parts[index - 1]):
            after = -math.inf
        slot = mapper.map(part, after=after)
        if slot is None:
            forget_all(mapper.book, parts[:index])
            if index:
                mapper.book.refresh()
            return False
        after = float(mapper.book.starts[slot])
    return True


def _alike(part: Application, other: Application) -> bool:
    """Whether two parts ask for the same."""
    return (
        part.service_class == other.service_class
        and part.exclusive == other.exclusive
        and part.work == other.work
        and part.tasks == other.tasks
        and part.memory == other.memory
        and part.deadline == other.deadline
        and part.latest_start == other.latest_start
        and part.walltime == other.walltime
        and part.only_hosts == other.only_hosts
    )


def forget_all(book: Book, parts: Sequence[Application]) -> None:
    """Take the parts of an application out again."""
    for part in parts:
        book.remove(book.slot_of[part.job.id])


def _rest(name: str | None, running: Mapped, ran: float) -> Application:
    """Return what is left of a job that ran so long (s), as one that may only use its hosts."""
    application = running.application
    share = float(np.clip(running.left, 0.0, 1.0))
    work = application.work
    rest = Application(
        application.job.renamed(name or application.job.id),
        application.service_class,
        Work(flop=work.flop * share, seconds=work.seconds * share, sent=work.sent * share),
        application.arrival,
        exclusive=application.exclusive,
    )
    rest.walltime = max(application.walltime - ran, 0.0)
    rest.only_hosts = tuple(running.hosts.tolist())
    rest.known = False
    return rest
