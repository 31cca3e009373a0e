"""Making room for an application that has no place (Pascal et al. 2004, section 3.1).

If no date will do, a planned application of a weaker class is moved: taken out, and mapped again
after the new one. Then a running one is stopped, to go on later on the same hosts. Each is undone
unless both find a place that keeps every promise, also those made to the one that makes room.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

from qops_batsim.schedulers.aroma.application import Application, Placement
from qops_batsim.schedulers.aroma.mapping import Mapper
from qops_batsim.schedulers.aroma.recurrence import MappingPlan

YOUNGEST = 1.0
"""Seconds that an application has run at least when it is stopped.

Batsim breaks off if it is told to kill a job that has not really started yet, which takes moments
on a platform with latencies.
"""


class Stopped(NamedTuple):
    """A running application to be stopped, and the application that continues it later."""

    stopped: Placement
    rest: Application


class Fallbacks:
    """Maps applications; if one finds no place, weaker ones are moved or stopped for it.

    Parameters
    ----------
    moves, stops
        How many applications are tried to be moved and stopped, at most.
    name_of_rest
        Returns the name of the job by which a job would go on; None if it cannot be stopped.
    """

    def __init__(
        self,
        mapper: Mapper,
        moves: int,
        stops: int,
        name_of_rest: Callable[[Application], str | None],
    ) -> None:
        self._mapper = mapper
        self._book = mapper.book
        self._moves = moves
        self._stops = stops
        self._name_of_rest = name_of_rest

    def map(self, parts: Sequence[Application]) -> list[Stopped] | None:
        """Map all jobs of an application (its parts) or none, moving or stopping weaker ones if
        needed.

        Returns
        -------
        list of Stopped or None
            What has to be stopped for that, mostly nothing; None if they find no place.
        """
        if map_all(self._mapper, parts) or self._by_moving(parts):
            return []
        return self._by_stopping(parts)

    def _by_moving(self, parts: Sequence[Application]) -> bool:
        for moved in self._weaker(parts, self._book.planned(), self._moves):
            if self._fit(parts, moved, [each.application for each in moved]):
                return True
        return False

    def _by_stopping(self, parts: Sequence[Application]) -> list[Stopped] | None:
        now = self._book.date
        for running in self._weaker(parts, self._book.running(), self._stops):
            names = [self._name_of_rest(each.application) for each in running]
            young = max(each.ordered for each in running) > now - YOUNGEST
            if young or None in names or min(each.left for each in running) <= 0:
                continue
            rests = [
                each.application.rest(
                    name or "", min(each.left, 1.0), now - each.ordered, each.hosts()
                )
                for name, each in zip(names, running, strict=True)
            ]
            if self._fit(parts, running, rests):
                return [Stopped(*pair) for pair in zip(running, rests, strict=True)]

        return None

    def _fit(
        self,
        parts: Sequence[Application],
        instead: Sequence[Placement],
        others: Sequence[Application],
    ) -> bool:
        """Remove ``instead``, map an application, then ``others`` again; undo all if one fails."""
        book = self._book
        for each in instead:
            book.remove(each)
        book.refresh()
        if map_all(self._mapper, parts):
            if map_all(self._mapper, others):
                return True
            forget_all(book, parts)
        for each in instead:
            book.add(each)
        book.refresh()
        return False

    def _weaker(
        self, parts: Sequence[Application], placements: list[Placement], most: int
    ) -> list[list[Placement]]:
        """Return groups of placements to displace: applications of weaker classes, with all their
        jobs.

        The weakest class comes first, in a class the last one to start.
        """
        weaker = [each for each in placements if each.application.rank > parts[0].rank]
        weaker.sort(
            key=lambda each: (-each.application.rank, -each.start, -each.application.arrival)
        )
        found: dict[str, list[Placement]] = {}
        for each in weaker:
            found.setdefault(each.application.name, []).append(each)
        return list(found.values())[:most]


def map_all(mapper: Mapper, parts: Sequence[Application]) -> bool:
    """Map an application's parts (its jobs), all or none; return whether all fit.

    A part that asks for the same as the one before it is not tried at dates at which that one
    found no place: there is less room since.
    """
    after = -math.inf
    before = None
    for index, part in enumerate(parts):
        asked = part.request()
        if asked != before:
            after = -math.inf
            before = asked
        placement = mapper.map(part, after=after)
        if placement is None:
            forget_all(mapper.book, parts[:index])
            if index:
                mapper.book.refresh()
            return False
        after = placement.start

    return True


def forget_all(book: MappingPlan, parts: Sequence[Application]) -> None:
    """Remove all jobs of an application (its parts) from the plan."""
    for part in parts:
        book.remove(book.placement_of(part))
