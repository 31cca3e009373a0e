"""The planner, which keeps the book up to date: ends, wrong estimates, starts that are due.

The book is in the dates of :mod:`~qops_batsim.scheduling.aroma.nominal`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import groupby

import msgspec

from qops_batsim.platform.hostset import HostSet
from qops_batsim.scheduling.aroma.application import DEADLINE, Application
from qops_batsim.scheduling.aroma.book import Taken
from qops_batsim.scheduling.aroma.mapping import Fallbacks, Mapper, Stopped, map_all
from qops_batsim.scheduling.aroma.nominal import Nominal, Presence
from qops_batsim.scheduling.arrays import Ints
from qops_batsim.scheduling.news import News
from qops_batsim.scheduling.refusal import Refusal, RefusalKind
from qops_batsim.timing import PLAN_TOLERANCE


class Prediction(msgspec.Struct, frozen=True, kw_only=True):
    """Predicted ends and real end of an application (s).

    ``first`` was predicted when it was mapped, ``last`` when something was mapped or
    started for the last time before it ended.
    """

    first: float
    last: float
    end: float


class MappingRenewal(msgspec.Struct, frozen=True, kw_only=True):
    """A promise (s) that could not be kept because hosts had left, and the new one."""

    application: Application
    broken: float
    promise: float
    loss: Refusal


class Planner:
    """The mapped applications over time.

    Attributes
    ----------
    waiting
        Applications that can be mapped only once something has ended that has no
        predicted end.
    predictions
        What was predicted of each application that has ended by itself, by job.
    renewals
        Promises made anew since the list was last emptied.
    outlived
        Jobs seen to run longer than predicted since the list was last emptied, and how long they
        were predicted to (seconds).
    """

    def __init__(self, mapper: Mapper, fallbacks: Fallbacks, news: News) -> None:
        self.book = mapper.book
        self.waiting: list[Application] = []
        self.predictions: dict[str, Prediction] = {}
        self.renewals: list[MappingRenewal] = []
        self.outlived: list[tuple[str, float]] = []
        self._mapper = mapper
        self._fallbacks = fallbacks
        self._first_ends: dict[str, float] = {}
        self._gone: list[str] = []
        self._hosts_changed = False
        self._lost = 0
        # What hosts' leaving broke and no start is known to renew it with, by job.
        self._suspended: dict[str, tuple[float, Refusal]] = {}
        # Whether ends have to be predicted anew before the next look at them.
        self._outdated = False
        # Whether anything was mapped or started since the last conclusion.
        self._mapped = False
        # Whether anything that runs cannot keep its deadline any more.
        self._relaxed = False
        self._now = 0.0
        self._presence = Presence(len(mapper.machine))
        self._nominal = Nominal(mapper, news)

    # What happens

    def left(self, job_id: str) -> None:
        """Note that an application has left its hosts."""
        self._presence.leave(job_id)
        self._gone.append(job_id)

    def withdraw(self, application: Application) -> None:
        """Take an application out that is not needed any more."""
        slot = self.book.slot_of.get(application.job.id)
        if slot is None:
            self.waiting.remove(application)
        else:
            self.book.remove(slot)
        self._nominal.forget(application.job.id)
        self._hosts_changed = True

    def set_available(self, hosts: HostSet, available: bool) -> None:
        """Note that hosts may be used from now on, or not."""
        chosen = list(hosts)
        if not available:
            self._lost += int(self._mapper.available[chosen].sum())
        self._mapper.available[chosen] = available
        self._hosts_changed = True

    def withdraw_wider(self, hosts: int) -> list[Application]:
        """Take what waits for more hosts than that out, for good, and return it."""
        wider = [each for each in self.waiting if each.known and each.tasks > hosts]
        self.waiting = [each for each in self.waiting if each not in wider]
        return wider

    def update(self, now: float, date: float | None = None) -> None:
        """Bring the book up to date, after all events of a message that is told now.

        If news is late, the book's date becomes the one that the message is about: when
        its ends were predicted, or ``date``, when anything else in it happened (s; None
        for now).

        Applications that have ended make room: planned ones are mapped anew if they
        can start earlier. Those that run longer than estimated are assumed to run as
        long again, and what is planned where that breaks a constraint is mapped anew.
        """
        book, nominal = self.book, self._nominal
        self._now = now
        behind = nominal.shift_plan()
        if behind:
            book.refresh()
            self._relax()
        if nominal.slip:
            self._refresh()
            date = max(
                nominal.date_of_ends(self._gone, now), now if date is None else date, book.date
            )
            nominal.replay(now, date)
        else:
            date = now
        book.advance(date)
        early, late, freed = self._forget()
        late = self._extend_overdue() or late or behind
        changed, self._hosts_changed = self._hosts_changed, False
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
        if self.waiting:
            waiting, self.waiting = self.waiting, []
            for application in waiting:
                self._map_or_wait(application)

    # What is decided

    def map(self, parts: Sequence[Application]) -> list[Stopped] | None:
        """Map the parts of an application, all or none; see :meth:`Fallbacks.map`.

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

    def due(self) -> list[tuple[Application, Ints]]:
        """Start the applications whose start has come and whose hosts are really free.

        They are returned with their hosts, in the order of their planned starts.
        """
        book = self.book
        started = [slot for slot in self._nominal.held_up() if self._order_start(slot)]
        for slot in started:
            self._nominal.note_start(slot, self._now)
        if book.next_start() <= book.date + PLAN_TOLERANCE:
            for slot in book.planned_slots():
                if book.mapped["start"][slot] > book.date + PLAN_TOLERANCE:
                    break
                if not self._order_start(slot):
                    continue  # What should have ended has not yet: the end will be told.
                book.mapped["start"][slot] = book.date
                book.mapped["deadline"][slot] = book.demanded(slot)
                book.mapped["running"][slot] = True
                self._mapped = True
                started.append(slot)
        return [(book.application(slot), book.hosts_of(slot).copy()) for slot in started]

    def _order_start(self, slot: int) -> bool:
        """Note that an application is told to start, if it can; tell whether it can."""
        book, presence = self.book, self._presence
        application, hosts = book.application(slot), book.hosts_of(slot)
        alone = bool(book.mapped["exclusive"][slot])
        if (
            not application.known
            or not self._mapper.available[hosts].all()
            or not presence.has_room(hosts, alone=alone)
        ):
            return False
        presence.enter(application.job.id, hosts.copy(), alone=alone)
        book.mapped["ordered"][slot] = self._now
        return True

    def conclude(self) -> None:
        """Work out how things go on, after all decisions of a date."""
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
        """Promise what is planned now, where hosts' leaving broke what was promised."""
        suspended = self._suspended.pop(application.job.id, None)
        if suspended is None:
            return
        broken, loss = suspended
        row = self.book.mapped[self.book.slot_of[application.job.id]]
        if application.service_class == DEADLINE:
            promise = application.deadline = row["deadline"] = float(row["end"])
        else:
            promise = application.latest_start = float(row["start"])
        self.renewals.append(
            MappingRenewal(application=application, broken=broken, promise=promise, loss=loss)
        )

    def _let_go_elsewhere(self, application: Application) -> None:
        """Let a stopped application go on anywhere if any of its hosts has left."""
        hosts = application.only_hosts
        if hosts is not None and not self._mapper.available[list(hosts)].all():
            application.only_hosts = None

    def _note_mapped(self, application: Application) -> None:
        job_id = application.job.id
        self._mapped = True
        self._first_ends.setdefault(
            job_id, float(self.book.mapped["end"][self.book.slot_of[job_id]])
        )

    # What has happened

    def _forget(self) -> tuple[bool, bool, bool]:
        """Remove what has ended; return whether anything ended early, late, or at all."""
        book, now = self.book, self._now
        early = late = False
        freed = bool(self._gone)
        for job_id in self._gone:
            untold = self._nominal.note_end(job_id)
            slot = book.slot_of.get(job_id)
            if untold is None and slot is None:
                continue  # Stopped by this module, or never started by it.
            row = book.mapped[slot] if untold is None else untold.row
            end = float(row["end"])
            if now > end + PLAN_TOLERANCE:
                self.outlived.append((job_id, end - float(row["start"])))
            self.predictions[job_id] = Prediction(
                first=self._first_ends.pop(job_id), last=end, end=now
            )
            if slot is None:
                continue
            if self._nominal.keeps_until_end(slot, now):
                continue
            early = early or end > now + PLAN_TOLERANCE
            late = late or end < now - PLAN_TOLERANCE
            book.remove(slot)
        self._gone.clear()
        return early, late, freed

    def _extend_overdue(self) -> bool:
        """Assume that what outlives its estimate runs as long again; tell if anything does.

        What had to wait for it all that time has not started after all.
        """
        book, now = self.book, self._now
        slots = book.overdue() + self._nominal.restore_outlived(now)
        for slot in slots:
            expected = float(book.mapped["end"][slot] - book.mapped["start"][slot])
            self.outlived.append((book.application(slot).job.id, expected))
            again = max(now - float(book.mapped["start"][slot]), 1.0)
            book.mapped["left"][slot] = book.mapped["rate"][slot] * again
        return self._nominal.replan_overdue(now) or bool(slots)

    def _loss(self, now: float) -> Refusal | None:
        """Return how many hosts have left since the last message, if any."""
        lost, self._lost = self._lost, 0
        return Refusal(kind=RefusalKind.HOSTS_LOST, date=now, hosts=lost) if lost else None

    def _map_anew(self, loss: Refusal | None) -> None:
        """Map anew what is planned and cannot stay so, the most important class first.

        What was promised to it and cannot be kept any more, because an estimate was wrong
        or hosts have gone (``loss`` says so), is from now on the earliest end that is
        possible.
        """
        book = self.book
        planned = [book.take(slot) for slot in book.planned_slots()]
        book.refresh()
        self._outdated = False
        self._relax()
        planned.sort(key=lambda each: each.application.rank)
        for _, of_class in groupby(planned, key=lambda each: each.application.rank):
            for each in [each for each in of_class if not self._put_back(each)]:
                application = each.application
                self._let_go_elsewhere(application)
                if map_all(self._mapper, [application]):
                    self._mapped = True
                    continue
                promised = application.deadline < math.inf
                broken = min(application.deadline, application.latest_start)
                if loss is not None and broken < math.inf:
                    self._suspended[application.job.id] = broken, loss
                application.deadline = application.latest_start = math.inf
                self._map_or_wait(application)
                slot = book.slot_of.get(application.job.id)
                if promised and slot is not None:
                    application.deadline = float(book.mapped["end"][slot])
                    book.mapped["deadline"][slot] = application.deadline

    def _put_back(self, planned: Taken) -> bool:
        """Let an application stay planned as it was, if that keeps every constraint."""
        if not self._mapper.available[planned.hosts].all():
            return False
        slot = self.book.put_back(planned)
        if self._mapper.keeps(slot):
            return True
        self.book.remove(slot)
        return False

    def _relax(self) -> None:
        """Demand of what runs what was demanded before, or else the end predicted now."""
        book = self.book
        self._relaxed = False
        for slot in book.running_slots().tolist():
            demanded, end = book.demanded(slot), float(book.mapped["end"][slot])
            if demanded < math.inf:
                missed = end > demanded + PLAN_TOLERANCE
                book.mapped["deadline"][slot] = end if missed else demanded
                self._relaxed |= missed

    def _bring_forward(self) -> None:
        """Map planned applications anew if they can start earlier, in the order of starts."""
        book = self.book
        for slot in book.planned_slots():
            if book.mapped["start"][slot] <= book.date + PLAN_TOLERANCE:
                continue
            self._refresh()
            planned = book.take(slot)
            if self._mapper.map(planned.application, before=planned.start) is None:
                book.put_back(planned)
            else:
                self._mapped = True
