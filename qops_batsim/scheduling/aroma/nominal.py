"""Nominal dates: starts and ends in the book where the engine's news is late.

On a platform with latencies Batsim tells an end a moment after it happened, and starts
what follows on the same hosts a moment after that. If the book were kept in those dates,
the moments would add up along a chain of applications, and one that was planned for the
date of an end would find its hosts taken then and be planned anew. So applications start
in the book when they were planned to and end when they were predicted to, told or not.
What the engine tells only decides when the next one on the same hosts can really start,
as long as it is no further off than the grace.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from qops_batsim.scheduling.aroma.book import Taken
from qops_batsim.scheduling.aroma.mapping import Mapper
from qops_batsim.scheduling.arrays import Ints
from qops_batsim.scheduling.news import News
from qops_batsim.timing import PLAN_TOLERANCE


class Nominal:
    """The difference between a book and what the engine has told.

    There is none while no news is late.
    """

    def __init__(self, mapper: Mapper, news: News) -> None:
        self._book = mapper.book
        self._mapper = mapper
        self._news = news
        # Started in the book, but their hosts are not known to be free yet.
        self._held_up: list[str] = []
        # Ended in the book, but not told to have; and the other way round.
        self._untold: dict[str, Taken] = {}
        self._told: set[str] = set()
        # By how much what has really started is behind the book's dates (s).
        self._behind = 0.0
        # The latest that an end was told (s).
        self._lag = 0.0

    @property
    def slip(self) -> float:
        """By how much news may be late without changing anything (s)."""
        return self._news.tolerance if self._news.late else 0.0

    # What the engine tells

    def date_of_ends(self, gone: Iterable[str], now: float) -> float:
        """Return when what is told to have ended did so (s); -inf if nothing has.

        That is when it was predicted to, if that was before now by less than the grace.
        """
        book, date = self._book, -math.inf
        for job_id in gone:
            untold, slot = self._untold.get(job_id), book.slot_of.get(job_id)
            end = math.inf
            if untold is not None:
                end = float(untold.row["end"])
            elif slot is not None:
                end = float(book.mapped["end"][slot])
            if now - self.slip < end <= now:
                self._lag = max(self._lag, now - end)
                date = max(date, end)
            else:
                date = max(date, now)
        return date

    def note_end(self, job_id: str) -> Taken | None:
        """Note that an end is told; return what had ended in the book before."""
        return self._untold.pop(job_id, None)

    def keeps_until_end(self, slot: int, now: float) -> bool:
        """Tell whether an application, told to have ended, stays in the book until its end.

        So it does if it is early by no more than other ends were late: it was a little
        faster because those that it shared hosts with really started a little later.
        """
        if not now < self._book.mapped["end"][slot] <= now + self._lag:
            return False
        self._told.add(self._book.application(slot).job.id)
        self._book.mapped["ordered"][slot] = math.inf
        return True

    def held_up(self) -> list[int]:
        """Return the slots of those that have started in the book only, by planned start."""
        return [self._book.slot_of[job_id] for job_id in self._held_up]

    def forget(self, job_id: str) -> None:
        """Note that an application is not needed any more."""
        if job_id in self._held_up:
            self._held_up.remove(job_id)

    def note_start(self, slot: int, now: float) -> None:
        """Note that an application that was held up is started now.

        Small delays along a chain of applications add up, since each really waits for
        the one before it. The plan comes along before they amount to the grace.
        """
        self._held_up.remove(self._book.application(slot).job.id)
        row = self._book.mapped[slot]
        behind = now - float(row["start"])
        if behind > self.slip / 2 or row["end"] <= self._book.date:
            row["start"] = now
            row["left"] = 1.0 + row["rate"] * (now - self._book.date)
            self._behind = max(self._behind, behind)

    def shift_plan(self) -> bool:
        """Move all that is planned along with what is too far behind; tell if anything is."""
        behind, self._behind = self._behind, 0.0
        if behind:
            planned = self._book.planned_slots()
            for field in ("start", "deadline"):
                self._book.mapped[field][planned] += behind
        return bool(behind)

    # What happens in the book

    def replay(self, now: float, date: float) -> None:
        """Start and end in the book what starts and ends up to a date, told or not."""
        book, skipped = self._book, set[int]()
        told = {book.slot_of[job_id] for job_id in self._told}
        while (found := self._next(now - self.slip, date, told, skipped)) is not None:
            slot, comes = found
            if comes and not self._fits(slot):
                skipped.add(slot)
                continue
            at = float(book.mapped["start" if comes else "end"][slot])
            book.advance(max(at, book.date))
            job_id = book.application(slot).job.id
            if comes:
                book.mapped["running"][slot] = True
                book.mapped["deadline"][slot] = book.demanded(slot)
                self._held_up.append(job_id)
            elif slot in told:
                self._told.remove(job_id)
                told.remove(slot)
                book.remove(slot)
            else:
                self._untold[job_id] = book.take(slot)
            book.settle()

    def _next(
        self, oldest: float, date: float, told: set[int], skipped: set[int]
    ) -> tuple[int, bool] | None:
        """Return the slot of the next application to start (True) or end up to a date."""
        book, rows = self._book, self._book.mapped
        events = [
            (float(rows["end"][slot]), False, slot)
            for slot in book.running_slots().tolist()
            if rows["end"][slot] <= date
            and ((oldest < rows["end"][slot] and rows["ordered"][slot] < math.inf) or slot in told)
        ]
        # An end within the tolerance after a start makes room for it, as in predictions.
        events += [
            (float(rows["start"][slot]) + PLAN_TOLERANCE, True, slot)
            for slot in book.planned_slots()
            if oldest < rows["start"][slot] <= date and slot not in skipped
        ]
        if not events:
            return None
        _, comes, slot = min(events, key=lambda event: event[:2])
        return slot, comes

    def _fits(self, slot: int) -> bool:
        """Tell whether an application can start now according to the book."""
        book, hosts = self._book, self._book.hosts_of(slot)
        if not self._mapper.available[hosts].all():
            return False
        if book.mapped["exclusive"][slot]:
            return not book.hosts["load"][hosts].any()
        running = book.running_slots()
        alone = running[book.mapped["exclusive"][running]].tolist()
        return not any(np.isin(book.hosts_of(other), hosts).any() for other in alone)

    def restore_outlived(self, now: float) -> list[int]:
        """Put back what was not told to have ended within the grace; return the slots."""
        oldest = now - self.slip
        late = [job_id for job_id, taken in self._untold.items() if taken.row["end"] <= oldest]
        return [self._book.put_back(self._untold.pop(job_id)) for job_id in late]

    def replan_overdue(self, now: float) -> bool:
        """Let what could not start within the grace be planned again; tell if anything is.

        So is at once what will not start because its hosts have left.
        """
        rows, available = self._book.mapped, self._mapper.available
        late = [
            slot
            for slot in self.held_up()
            if rows["start"][slot] <= now - self.slip
            or not available[self._book.hosts_of(slot)].all()
        ]
        for slot in late:
            self.forget(self._book.application(slot).job.id)
            rows["running"][slot] = False
            rows["left"][slot] = 1.0
        return bool(late)


class _Guest(NamedTuple):
    """The hosts of an application, and whether it keeps others off them."""

    hosts: Ints
    alone: bool


class Presence:
    """Applications that were told to start and not told to have left their hosts.

    On platforms with latencies that is not who runs according to the plan: an engine
    refuses to start a job where another one still is.
    """

    def __init__(self, host_count: int) -> None:
        self._guests: dict[str, _Guest] = {}
        self._load: Ints = np.zeros(host_count, np.int64)
        self._alone: Ints = np.zeros(host_count, np.int64)

    def has_room(self, hosts: Ints, *, alone: bool) -> bool:
        """Tell whether an application can start on these hosts. O(tasks)."""
        return not (self._load if alone else self._alone)[hosts].any()

    def enter(self, job_id: str, hosts: Ints, *, alone: bool) -> None:
        """Note that an application is told to start. O(tasks)."""
        self._guests[job_id] = _Guest(hosts, alone)
        self._load[hosts] += 1
        self._alone[hosts] += alone

    def stop(self, job_id: str) -> None:
        """Note that an application is being stopped: it keeps no others off any more."""
        hosts, alone = self._guests[job_id]
        self._alone[hosts] -= alone
        self._guests[job_id] = _Guest(hosts, False)

    def leave(self, job_id: str) -> None:
        """Note that an application has left its hosts, if it was there. O(tasks)."""
        guest = self._guests.pop(job_id, None)
        if guest is not None:
            self._load[guest.hosts] -= 1
            self._alone[guest.hosts] -= guest.alone
