"""Nominal dates: planned starts and ends that count as real while news of them is late.

On a platform with latencies Batsim tells an end a moment after it happened, and starts what
follows on the same hosts a moment after that. If the book were kept in those dates, the moments
would add up along a chain of applications, and one that was planned for the date of an end would
find its hosts taken then and be planned again. So applications start in the book when they were
planned to and end when they were predicted to, told or not. What the engine tells only decides
when the next one on the same hosts can really start, as long as it is no further off than the
grace.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from qops_batsim.core.news import News
from qops_batsim.schedulers.aroma.application import Placement, SharedHost
from qops_batsim.schedulers.aroma.recurrence import MappingPlan
from qops_batsim.timing import PLAN_TOLERANCE


class Nominal:
    """Keeps the plan on time where the engine reports starts and ends late.

    There is none while no news is late.

    Attributes
    ----------
    held_up
        What has started in the book, by planned start, whose hosts are not known to be free yet.
    """

    def __init__(self, book: MappingPlan, news: News) -> None:
        self._book = book
        self._news = news
        self.held_up: list[Placement] = []
        # Ended in the book, but not told to have; and the other way round.
        self._untold: dict[str, Placement] = {}
        self._told: set[Placement] = set()
        # By how much what has really started is behind the book's dates (seconds).
        self._behind = 0.0
        # The latest that an end was told (seconds).
        self._lag = 0.0

    @property
    def slip(self) -> float:
        """The lateness of news (seconds) that changes no plan."""
        return self._news.tolerance if self._news.late else 0.0

    # What the engine tells

    def date_of_ends(self, gone: Iterable[str], now: float) -> float:
        """Return the date (seconds) of the ends reported in this message, -inf if it reports none.

        That is when it was predicted to, if that was before now by less than the grace.
        """
        date = -math.inf
        for job_id in gone:
            placement = self._untold.get(job_id) or self._book.of(job_id)
            end = math.inf if placement is None else placement.end
            if now - self.slip < end <= now:
                self._lag = max(self._lag, now - end)
                date = max(date, end)
            else:
                date = max(date, now)
        return date

    def note_end(self, job_id: str) -> Placement | None:
        """Record that the engine reported a job's end; return its placement if the plan had ended
        it before, else None.
        """
        return self._untold.pop(job_id, None)

    def keeps_until_end(self, placement: Placement, now: float) -> bool:
        """Return whether an application whose end is reported early stays in the plan until its
        predicted end.

        So it does if it is early by no more than other ends were late: it was a little faster
        because those that it shared hosts with really started a little later.
        """
        if not now < placement.end <= now + self._lag:
            return False
        self._told.add(placement)
        placement.ordered = math.inf
        return True

    def forget(self, placement: Placement) -> None:
        """Forget the delay of an application that was removed from the plan, or waits again."""
        if placement in self.held_up:
            self.held_up.remove(placement)

    def note_start(self, placement: Placement, now: float) -> None:
        """Record that an application starts now, perhaps later than planned, and by how much.

        Small delays along a chain of applications add up, since each really waits for the one
        before it. The plan comes along before they amount to the grace.
        """
        self.held_up.remove(placement)
        behind = now - placement.start
        if behind > self.slip / 2 or placement.end <= self._book.date:
            placement.start = now
            placement.left = 1.0 + placement.rate * (now - self._book.date)
            self._behind = max(self._behind, behind)

    def shift_plan(self) -> bool:
        """Shift planned starts by the delay of late applications; return whether any is late."""
        behind = self._behind
        self._behind = 0.0
        if behind:
            for placement in self._book.planned():
                placement.start += behind
                placement.latest_end += behind
        return bool(behind)

    # What happens in the book

    def replay(self, now: float, date: float) -> None:
        """Start and end in the plan what is due up to a date (seconds), even if the engine has not
        reported it yet.
        """
        book = self._book
        unfit: set[Placement] = set()
        while (found := self._next(now - self.slip, date, unfit)) is not None:
            placement, comes = found
            if comes and not self._fits(placement):
                unfit.add(placement)
                continue

            book.advance(max(placement.start if comes else placement.end, book.date))
            if comes:
                placement.running = True
                placement.latest_end = placement.demanded_end()
                self.held_up.append(placement)
            else:
                book.remove(placement)
                if placement in self._told:
                    self._told.remove(placement)
                else:
                    self._untold[placement.application.job.id] = placement

            book.settle()

    def _next(
        self, oldest: float, date: float, unfit: set[Placement]
    ) -> tuple[Placement, bool] | None:
        """Return the next placement due by a date, and whether it starts (True) or ends (False)."""
        found = None
        first = math.inf
        for placement in self._book.running():
            end = placement.end
            is_due = oldest < end and placement.ordered < math.inf
            if end <= date and end < first and (is_due or placement in self._told):
                found = (placement, False)
                first = end

        # An end within the tolerance after a start makes room for it, as in predictions.
        for placement in self._book.planned():
            begin = placement.start + PLAN_TOLERANCE
            if oldest < placement.start <= date and begin < first and placement not in unfit:
                found = (placement, True)
                first = begin

        return found

    def _fits(self, placement: Placement) -> bool:
        """Return whether an application can start now according to the book."""
        return placement.is_available() and not any(
            (placement.exclusive or other.exclusive) and placement.shares_host_with(other)
            for other in self._book.running()
        )

    def restore_outlived(self, now: float) -> list[Placement]:
        """Put back, and return, applications that ended in the plan but not in the engine's reports
        within the grace.
        """
        oldest = now - self.slip
        late = [job_id for job_id, untold in self._untold.items() if untold.end <= oldest]
        found = [self._untold.pop(job_id) for job_id in late]
        for placement in found:
            self._book.add(placement)
        return found

    def replan_overdue(self, now: float) -> bool:
        """Take back the planned starts of applications that could not really start within the
        grace; return whether there were any.

        So is at once what will not start because its hosts have left.
        """
        oldest = now - self.slip
        late = [each for each in self.held_up if each.start <= oldest or not each.is_available()]
        for placement in late:
            self.forget(placement)
            placement.running = False
            placement.left = 1.0
        return bool(late)


class Presence:
    """Applications that the engine was told to start and has not yet reported gone.

    On platforms with latencies that is not who runs according to the plan: an engine refuses to
    start a job where another one still is.
    """

    def __init__(self) -> None:
        self._guests: dict[str, list[SharedHost]] = {}
        # Those that keep others off.
        self._lone: set[str] = set()

    def has_room(self, placement: Placement) -> bool:
        """Return whether no application that is still present keeps another one off its hosts.
        O(tasks).
        """
        return not any(
            host.lone_guests or (placement.exclusive and host.guests) for host in placement.hosts()
        )

    def enter(self, placement: Placement) -> None:
        """Record the start of an application. O(tasks)."""
        job_id = placement.application.job.id
        hosts = self._guests[job_id] = placement.hosts()
        if placement.exclusive:
            self._lone.add(job_id)
        for host in hosts:
            host.guests += 1
            host.lone_guests += placement.exclusive

    def stop(self, job_id: str) -> None:
        """Record that an application is being stopped; it no longer blocks others."""
        if job_id in self._lone:
            self._lone.remove(job_id)
            for host in self._guests[job_id]:
                host.lone_guests -= 1

    def leave(self, job_id: str) -> None:
        """Record that an application has left its hosts, if it was there. O(tasks)."""
        self.stop(job_id)
        for host in self._guests.pop(job_id, ()):
            host.guests -= 1
