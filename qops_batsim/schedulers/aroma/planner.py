"""Keeping the book up to date: ends, wrong estimates, due starts.

The book is in the dates of :mod:`~qops_batsim.schedulers.aroma.nominal`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import NamedTuple

import msgspec

from qops_batsim.core.job import Job
from qops_batsim.core.news import News
from qops_batsim.core.refusal import Refusal, RefusalKind
from qops_batsim.schedulers.aroma.application import DEADLINE, Application, Placement, SharedHost
from qops_batsim.schedulers.aroma.fallbacks import Fallbacks, Stopped, map_all
from qops_batsim.schedulers.aroma.mapping import Mapper
from qops_batsim.schedulers.aroma.nominal import Nominal, Presence
from qops_batsim.timing import PLAN_TOLERANCE


class Prediction(msgspec.Struct, frozen=True, kw_only=True):
    """Predicted and real end of an application (seconds).

    ``first`` was predicted when it was mapped, ``last`` when something was mapped or started for
    the last time before it ended.
    """

    first: float
    last: float
    end: float


class MappingRenewal(NamedTuple):
    """A promised start or end (seconds) that a loss of hosts broke, and the new one."""

    application: Application
    broken: float
    promise: float
    loss: Refusal


class PlanKeeper:
    """The plan of all mapped applications, updated with the news of the engine.

    Attributes
    ----------
    waiting
        Applications that can be mapped only once something has ended that has no predicted end.
    predictions
        What was predicted of each application that has ended by itself, by job.
    renewals
        Promises renewed since the list was last emptied.
    outlived
        Jobs seen to run longer than predicted since the list was last emptied, and how long they
        were predicted to (seconds).
    """

    def __init__(self, mapper: Mapper, fallbacks: Fallbacks, news: News) -> None:
        self.book = mapper.book
        self.waiting: list[Application] = []
        self.predictions: dict[str, Prediction] = {}
        self.renewals: list[MappingRenewal] = []
        self.outlived: list[tuple[Job, float]] = []
        self._mapper = mapper
        self._fallbacks = fallbacks
        self._gone: list[str] = []
        self._hosts_changed = False
        self._lost = 0
        # Whether ends have to be predicted again before the next look at them.
        self._outdated = False
        # Whether anything was mapped or started since the last conclusion.
        self._mapped = False
        # Whether anything that runs cannot keep its deadline any more.
        self._relaxed = False
        self._now = 0.0
        self._presence = Presence()
        self._nominal = Nominal(mapper.book, news)

    # What happens

    def left(self, job_id: str) -> None:
        """Record that an ended or stopped application has left its hosts."""
        self._presence.leave(job_id)
        self._gone.append(job_id)

    def withdraw(self, application: Application) -> None:
        """Remove an application that need not run, such as the rest of a job that ended before it
        was stopped.
        """
        placement = self.book.of(application.job.id)
        if placement is None:
            self.waiting.remove(application)
        else:
            self.book.remove(placement)
            self._nominal.forget(placement)
        self._hosts_changed = True

    def set_available(self, hosts: Iterable[SharedHost], available: bool) -> None:
        """Mark hosts as available or unavailable."""
        for host in hosts:
            self._lost += host.available and not available
            host.available = available
        self._hosts_changed = True

    def withdraw_wider(self, hosts: int) -> list[Application]:
        """Remove and return waiting applications that need more than ``hosts``, the hosts that
        remain for good.
        """
        wider = [each for each in self.waiting if each.known and each.tasks > hosts]
        self.waiting = [each for each in self.waiting if each not in wider]
        return wider

    def update(self, now: float, date: float | None = None) -> None:
        """Update the plan after all events of a message, which happened at ``date`` (seconds).

        If news is late, the book's date becomes the one that the message is about: when its ends
        were predicted, or ``date``, when anything else in it happened (seconds; None for now).

        Applications that have ended make room: planned ones are mapped again if they can start
        earlier. Those that run longer than estimated are assumed to run as long again, and what
        is planned where that breaks a constraint is mapped again.
        """
        book = self.book
        nominal = self._nominal
        self._now = now
        behind = nominal.shift_plan()
        if behind:
            book.refresh()
            self._relax()

        if nominal.slip:
            self._refresh()
            told = now if date is None else date
            date = max(nominal.date_of_ends(self._gone, now), told, book.date)
            nominal.replay(now, date)
        else:
            date = now

        book.advance(date)
        early, late, freed = self._forget()
        late = self._extend_overdue() or late or behind
        changed = self._hosts_changed
        self._hosts_changed = False
        if not (freed or late or changed):
            return
        book.settle()
        self._outdated = True
        broken = changed or ((late or self._relaxed) and not book.is_kept())
        if broken:
            self._map_anew(self._loss(now))
        elif self._relaxed:
            self._refresh()
            self._relax()

        if early or broken:
            self._bring_forward()
        waiting = self.waiting
        self.waiting = []
        for application in waiting:
            self._map_or_wait(application)

    # What is decided

    def map(self, parts: Sequence[Application]) -> list[Stopped] | None:
        """Plan all jobs of an application (its parts) or none: see :meth:`Fallbacks.map`.

        What is never refused waits where no date is known at which it might start.
        """
        self._refresh()
        stops = self._fallbacks.map(parts)
        if stops is None:
            if any(part.may_be_refused for part in parts):
                return None
            self.waiting += parts
            return []

        for part in parts:
            self._note_mapped(part)
        for each in stops:
            self._presence.stop(each.stopped.application.job.id)
            self._note_mapped(each.rest)

        if stops:
            self.book.settle()
        return stops

    def due(self) -> list[Placement]:
        """Start and return the applications that are due and whose hosts the engine has reported
        free.

        They are returned in the order of their planned starts.
        """
        book = self.book
        nominal = self._nominal
        started = [each for each in nominal.held_up if self._order_start(each)]
        for placement in started:
            nominal.note_start(placement, self._now)
        soon = book.date + PLAN_TOLERANCE
        if book.next_start(-math.inf) > soon:
            return started
        for placement in book.planned():
            if placement.start > soon:
                break
            if not self._order_start(placement):
                continue  # What should have ended has not yet: the end will be told.
            placement.start = book.date
            placement.latest_end = placement.demanded_end()
            placement.running = True
            self._mapped = True
            started.append(placement)

        return started

    def _order_start(self, placement: Placement) -> bool:
        """Record an application's start if it can start; return whether it can."""
        if (
            not placement.application.known
            or not placement.is_available()
            or not self._presence.has_room(placement)
        ):
            return False
        self._presence.enter(placement)
        placement.ordered = self._now
        return True

    def conclude(self) -> None:
        """Predict all ends again if anything was mapped or started; called after all decisions at a
        date.
        """
        if self._mapped:
            self._mapped = False
            self.book.settle()
            self._outdated = True
            self._refresh()

    def _refresh(self) -> None:
        if self._outdated:
            self.book.refresh()
            self._outdated = False

    def _map_or_wait(self, application: Application) -> None:
        self._refresh()
        self._let_go_elsewhere(application)
        if map_all(self._mapper, [application]):
            self._note_mapped(application)
            self._renew(application)
        else:
            self.waiting.append(application)

    def _renew(self, application: Application) -> None:
        """Renew the promises of an application that a loss of hosts broke, with the dates planned
        now.
        """
        loss = application.loss
        application.loss = None
        if loss is None:
            return
        placement = self.book.placement_of(application)
        if application.service_class == DEADLINE:
            promise = placement.end
            application.deadline = placement.end
            placement.latest_end = placement.end
        else:
            promise = placement.start
            application.latest_start = placement.start

        self.renewals.append(MappingRenewal(application, application.broken, promise, loss))

    def _let_go_elsewhere(self, application: Application) -> None:
        """If a host of a stopped application is away, let the application continue on any hosts."""
        hosts = application.only_hosts
        if hosts is not None and not all(host.available for host in hosts):
            application.only_hosts = None

    def _note_mapped(self, application: Application) -> None:
        self._mapped = True
        if math.isnan(application.first_end):
            application.first_end = self.book.placement_of(application).end

    # What has happened

    def _forget(self) -> tuple[bool, bool, bool]:
        """Remove applications reported as ended from the plan; return whether any ended early, any
        late, and whether there were any.
        """
        book = self.book
        now = self._now
        early = False
        late = False
        gone = self._gone
        self._gone = []
        for job_id in gone:
            untold = self._nominal.note_end(job_id)
            mapped = book.of(job_id)
            placement = untold or mapped
            if placement is None:
                continue  # Stopped by this scheduler, or never started by it.
            end = placement.end
            if now > end + PLAN_TOLERANCE:
                self.outlived.append((placement.application.job, end - placement.start))
            first = placement.application.first_end
            self.predictions[job_id] = Prediction(first=first, last=end, end=now)
            if mapped is None or self._nominal.keeps_until_end(mapped, now):
                continue
            early = early or end > now + PLAN_TOLERANCE
            late = late or end < now - PLAN_TOLERANCE
            book.remove(mapped)

        return early, late, bool(gone)

    def _extend_overdue(self) -> bool:
        """Double the expected run time of applications that exceed it; return whether there are
        any.

        What had to wait for it all that time has not started after all.
        """
        now = self._now
        overdue = self.book.overdue() + self._nominal.restore_outlived(now)
        for placement in overdue:
            expected = placement.end - placement.start
            self.outlived.append((placement.application.job, expected))
            placement.left = placement.rate * max(now - placement.start, 1.0)
        return self._nominal.replan_overdue(now) or bool(overdue)

    def _loss(self, now: float) -> Refusal | None:
        """Return the refusal that counts hosts lost since the last message, None if none was."""
        lost = self._lost
        self._lost = 0
        return Refusal(kind=RefusalKind.HOSTS_LOST, date=now, hosts=lost) if lost else None

    def _map_anew(self, loss: Refusal | None) -> None:
        """Map planned applications again whose hosts or dates no longer fit, important classes
        first.

        What was promised to it and cannot be kept any more, because an estimate was wrong or
        hosts have gone (``loss`` says so), is from now on the earliest end that is possible.
        """
        book = self.book
        planned = self.book.planned()
        for placement in planned:
            book.remove(placement)
        book.refresh()
        self._outdated = False
        self._relax()
        planned.sort(key=_rank)
        for _, of_class in groupby(planned, key=_rank):
            for placement in [each for each in of_class if not self._put_back(each)]:
                application = placement.application
                self._let_go_elsewhere(application)
                if map_all(self._mapper, [application]):
                    self._mapped = True
                    continue

                promised = application.deadline < math.inf
                broken = min(application.deadline, application.latest_start)
                if loss is not None and broken < math.inf:
                    application.broken = broken
                    application.loss = loss

                application.deadline = math.inf
                application.latest_start = math.inf
                self._map_or_wait(application)
                found = book.of(application.job.id)
                if promised and found is not None:
                    application.deadline = found.end
                    found.latest_end = found.end

    def _put_back(self, placement: Placement) -> bool:
        """Plan an application as it was planned before, if every constraint still holds; return
        whether it does.
        """
        if not placement.is_available():
            return False
        self.book.add(placement)
        if self.book.keeps(placement):
            return True
        self.book.remove(placement)
        return False

    def _relax(self) -> None:
        """Set the latest end of running applications to the demanded one, or the predicted if
        later.
        """
        self._relaxed = False
        for placement in self.book.running():
            demanded = placement.demanded_end()
            if demanded < math.inf:
                missed = placement.end > demanded + PLAN_TOLERANCE
                placement.latest_end = placement.end if missed else demanded
                self._relaxed |= missed

    def _bring_forward(self) -> None:
        """Map planned applications again if they can start earlier, in order of start."""
        book = self.book
        for placement in book.planned():
            if placement.start <= book.date + PLAN_TOLERANCE:
                continue
            self._refresh()
            book.remove(placement)
            if self._mapper.map(placement.application, before=placement.start) is None:
                book.add(placement)
            else:
                self._mapped = True


def _rank(placement: Placement) -> int:
    return placement.application.rank
