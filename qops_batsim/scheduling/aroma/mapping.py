"""The list algorithm: when and where an application is mapped.

Start dates are tried in order: now, then the predicted ends of mapped tasks. At each,
hosts are ordered by criterion (1), the best taken, and the execution of everything
that is mapped is predicted. If that breaks a constraint, the hosts to blame are
revised; when that does not help, the next date is tried.
"""

from __future__ import annotations

import math

import numpy as np

from qops_batsim.scheduling.aroma.application import Application
from qops_batsim.scheduling.aroma.book import Book
from qops_batsim.scheduling.aroma.machine import Machine
from qops_batsim.scheduling.aroma.recurrence import KEPT, Flags, Floats, Ints
from qops_batsim.scheduling.aroma.selection import (
    choose,
    first_alone,
    note_risks,
    release_after,
    survey,
)
from qops_batsim.timing import PLAN_TOLERANCE

SOONEST_LATER = 2e-5
"""A planned start is now or at least so much later (seconds): engines call back no sooner."""


class Mapper:
    """Maps applications into a book so that every constraint stays kept.

    Parameters
    ----------
    machine
        The hosts and their network.
    book
        What is mapped; its predicted ends have to be those of now.
    memory_weight
        M_f of criterion (1).
    revisions
        How often the choice of hosts is revised at one start date.

    Attributes
    ----------
    available
        Which hosts may be used.
    trials
        Number of predictions made so far.
    """

    def __init__(self, machine: Machine, book: Book, memory_weight: float, revisions: int) -> None:
        count = len(machine)
        self.machine = machine
        self.book = book
        self.available: Flags = np.ones(count, np.bool_)
        self.trials = 0
        self._memory_weight = memory_weight
        self._revisions = revisions
        self._load: Ints = np.zeros(count, np.int64)
        self._trial_ends: Floats = np.zeros(0)
        self._next_exclusive: Floats = np.zeros(count)
        self._releases: Floats = np.zeros(count)
        self._used: Floats = np.zeros(count)
        self._after: Floats = np.zeros(count)
        self._gaps: Floats = np.zeros(count)
        self._nothing: Floats = np.full((1, 1), np.inf)
        self._no_groups: Ints = np.zeros(count, np.int64)

    def map(
        self, application: Application, *, after: float = -math.inf, before: float = math.inf
    ) -> int | None:
        """Map an application and return its slot, or None if that is impossible.

        Parameters
        ----------
        application
            It is not in the book yet.
        after
            Start dates before this one are known to be of no use (s).
        before
            Only start dates before this one are of interest (s).
        """
        needs = self.machine.needs(application.work)
        eligible = self.available
        if application.only_hosts is not None:
            eligible = np.zeros(len(eligible), np.bool_)
            eligible[list(application.only_hosts)] = True
            eligible &= self.available
        # Rather nowhere where it would be killed before it is done.
        in_time = eligible & (needs <= application.walltime + PLAN_TOLERANCE)
        if int(in_time.sum()) >= application.tasks:
            eligible = in_time
        dates = self._dates(application, needs, before)
        dates = dates[dates >= after]
        if not len(dates) or int(eligible.sum()) < application.tasks:
            return None
        if application.exclusive:
            return self._map_alone(application, dates, eligible, needs)
        return self._map_shared(application, dates, eligible, needs)

    def _dates(self, application: Application, needs: Floats, before: float) -> Floats:
        """Return the start dates t_b to try, ascending."""
        book = self.book
        now = book.date
        latest = min(application.latest_start, application.deadline - float(needs.min()))
        ends = book.ends[book.slots]
        later = np.maximum(ends[ends > now + PLAN_TOLERANCE], now + SOONEST_LATER)
        dates = np.concatenate(([now], np.unique(later[later <= latest + PLAN_TOLERANCE])))
        dates = dates[(dates < before - PLAN_TOLERANCE) & (dates < math.inf)]
        return dates if now <= latest + PLAN_TOLERANCE else dates[:0]

    # Alone on its hosts: nobody else's end changes

    def _map_alone(
        self, application: Application, dates: Floats, eligible: Flags, needs: Floats
    ) -> int | None:
        machine, work = self.machine, application.work
        # The time for communication depends on the hosts; the last guess covers all of them.
        guesses = [0.0]
        if work.sent and application.tasks > 1:
            guesses = [0.0, math.nan, machine.worst_network_seconds(work)]
        network = 0.0
        for guess in guesses:
            added = network if math.isnan(guess) else guess
            found = self._alone(application, dates, eligible, needs, added)
            if found is None:
                return None
            start, hosts = found
            network = machine.network_seconds(work, hosts)
            if network <= added:
                return self.book.add(application, start, hosts, needs[hosts] + network)
        return None

    def _alone(
        self,
        application: Application,
        dates: Floats,
        eligible: Flags,
        needs: Floats,
        added: float,
    ) -> tuple[float, Ints] | None:
        book = self.book
        needed = needs + added
        index, length = first_alone(
            dates,
            application.deadline,
            application.tasks,
            eligible,
            needed,
            book.slots,
            book.starts,
            book.ends,
            book.firsts,
            book.counts,
            book.hosts,
            self._gaps,
        )
        if index < 0:
            return None
        start = float(dates[index])
        self._survey(start)
        fits = (needed <= length) & (self._gaps >= length - PLAN_TOLERANCE)
        return start, self._choose(application, start, fits, needs)

    # Sharing its hosts

    def _map_shared(
        self, application: Application, dates: Floats, eligible: Flags, needs: Floats
    ) -> int | None:
        slot: int | None = None
        for date in dates.tolist():
            for allowed, attempts in self._allowed(application, date, eligible, needs):
                for _ in range(attempts):
                    if int(allowed.sum()) < application.tasks:
                        break
                    slot = self._put(slot, application, date, allowed, needs)
                    culprit = self._culprit(slot)
                    if culprit is None:
                        return slot
                    if not self._revise(allowed, slot, *culprit):
                        break
        if slot is not None:
            self.book.remove(slot)
        return None

    def _allowed(
        self, application: Application, date: float, eligible: Flags, needs: Floats
    ) -> tuple[tuple[Flags, int], tuple[Flags, int]]:
        """Return the hosts to try at a date, and how often: without risk, then any once."""
        self._survey(date)
        possible = eligible & (self._next_exclusive >= date + needs - PLAN_TOLERANCE)
        possible &= date + needs <= application.deadline + PLAN_TOLERANCE
        safe = possible & ~self._risky(application, date, needs)
        return (safe, self._revisions + 1), (possible, 1)

    def _put(
        self,
        slot: int | None,
        application: Application,
        date: float,
        allowed: Flags,
        needs: Floats,
    ) -> int:
        """Plan an application on the best hosts; return its slot."""
        hosts = self._choose(application, date, allowed, needs)
        needed = needs[hosts] + self.machine.network_seconds(application.work, hosts)
        if slot is None:
            return self.book.add(application, date, hosts, needed)
        self.book.place(slot, date, hosts, needed)
        return slot

    def keeps(self, slot: int) -> bool:
        """Predict whether every constraint is kept as an application is planned.

        If so, the predicted ends are those with it from now on.
        """
        return self._culprit(slot) is None

    def _culprit(self, slot: int) -> tuple[int, int] | None:
        """Predict what planning an application does; return whose constraint it breaks and where.

        If it breaks none, the predicted ends are those with it from now on.
        """
        book = self.book
        if len(self._trial_ends) < len(book.ends):
            self._trial_ends = np.empty_like(book.ends)
        self.trials += 1
        blamed, where, concerned = book.try_out(slot, self._trial_ends)
        if blamed != KEPT:
            return blamed, where
        book.ends[concerned] = self._trial_ends[concerned]
        return None

    def _risky(self, application: Application, date: float, needs: Floats) -> Flags:
        book = self.book
        risky = np.empty(len(needs), np.bool_)
        note_risks(
            date, needs, min(application.deadline, date + application.walltime),
            self.machine.processors, self._load,
            self._next_exclusive, book.slots, book.starts, book.ends, book.deadlines,
            book.firsts, book.counts, book.hosts, risky,
        )  # fmt: skip
        return risky

    def _revise(self, possible: Flags, slot: int, blamed: int, where: int) -> bool:
        """Rule out hosts that are to blame for a broken constraint; tell if there were any."""
        hosts, needs = self.book.hosts_of(slot), self.book.needs_of(slot)
        if where >= 0 and where in hosts:
            possible[where] = False
            return True
        if blamed == slot:
            # Its own deadline: it progresses at the rate of its worst host.
            crowds = np.maximum(1.0, (self._load[hosts] + 1) / self.machine.processors[hosts])
            times = needs * crowds
            possible[hosts[times >= times.max()]] = False
            return True
        common = np.intersect1d(hosts, self.book.hosts_of(blamed))
        if not len(common):
            # It slows somebody who slows the other: idle hosts slow nobody.
            common = hosts[self._releases[hosts] > self.book.starts[slot] + PLAN_TOLERANCE]
        possible[common] = False
        return len(common) > 0

    # Both

    def _survey(self, date: float) -> None:
        book = self.book
        survey(
            date,
            book.slots,
            book.starts,
            book.ends,
            book.exclusive,
            book.memory,
            book.firsts,
            book.counts,
            book.hosts,
            self._load,
            self._next_exclusive,
            self._releases,
            self._used,
        )

    def _choose(
        self, application: Application, date: float, eligible: Flags, needs: Floats
    ) -> Ints:
        machine, sent = self.machine, application.work.sent
        release_after(date, needs, self._load, self._releases, machine.processors, self._after)
        weights = 1.0 + (self._used + application.memory) * self._memory_weight / machine.memory
        communicates = sent > 0 and application.tasks > 1
        hosts = choose(
            application.tasks,
            self.book.date,
            eligible,
            self._after,
            weights,
            sent,
            machine.groups if communicates else self._no_groups,
            machine.bandwidths if communicates else self._nothing,
        )
        return np.sort(hosts)
