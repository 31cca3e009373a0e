"""The list algorithm: when and where an application is mapped (section 3.2).

Start dates t_b are tried in order: now, then the predicted ends of mapped tasks. At
each, hosts are ordered by criterion (1), the best taken, and the execution of
everything that is mapped is predicted. If that breaks a constraint, the hosts to
blame are revised; when that does not help, the next date is tried.
"""

from __future__ import annotations

import math

import numpy as np

from qops_batsim.kernels import kernel, lean_kernel
from qops_batsim.scheduling.aroma.application import Application
from qops_batsim.scheduling.aroma.book import Book
from qops_batsim.scheduling.aroma.machine import Machine
from qops_batsim.scheduling.aroma.recurrence import (
    KEPT,
    Flags,
    Floats,
    Ints,
    Rows,
    demanded_end,
    keeps,
)
from qops_batsim.scheduling.aroma.selection import (
    Request,
    best_hosts,
    first_gap,
    network_seconds,
    risky_hosts,
    survey,
)
from qops_batsim.timing import PLAN_TOLERANCE

SOONEST_LATER = 2e-5
"""A planned start is now or at least so much later (seconds): engines call back no sooner."""

_NONE = np.full((1, 1), np.inf)
"""Bandwidths where there is no communication."""


class Mapper:
    """Maps applications into a book so that every constraint stays kept.

    Parameters
    ----------
    book
        Its predicted ends have to be those of now.
    memory_weight
        M_f of criterion (1).
    revisions
        How often the choice of hosts is revised at one start date.

    Attributes
    ----------
    available
        Which hosts may be used.
    """

    def __init__(self, machine: Machine, book: Book, memory_weight: float, revisions: int) -> None:
        self.machine = machine
        self.book = book
        self.available: Flags = np.ones(len(machine), np.bool_)
        self._memory_weight = memory_weight
        self._revisions = revisions

    def map(
        self, application: Application, *, after: float = -math.inf, before: float = math.inf
    ) -> int | None:
        """Map an application and return its slot, or None if that is impossible.

        Start dates are tried from ``after`` on, up to ``before`` (s).
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
        book = self.book
        slot = book.open(application)
        exclusive, sent = application.exclusive, application.work.sent
        request = Request(
            slot,
            application.tasks,
            float(application.memory),
            float(sent),
            float(application.deadline),
            math.inf if exclusive else float(application.walltime),
        )
        communicates = sent > 0 and application.tasks > 1
        common = (
            book.date, dates, request, eligible, needs, book.slots, book.mapped, book.tasks,
            book.hosts, self.machine.bandwidths if communicates else _NONE, self._memory_weight,
        )  # fmt: skip
        found = map_alone(*common) if exclusive else map_shared(*common, self._revisions)
        if found:
            return slot
        book.remove(slot)
        return None

    def keeps(self, slot: int) -> bool:
        """Predict whether every constraint is kept as an application is planned.

        If so, the predicted ends are those with it from now on.
        """
        book = self.book
        blamed, _ = keeps(book.date, book.slots, slot, book.mapped, book.tasks, book.hosts)
        return bool(blamed == KEPT)

    def _dates(self, application: Application, needs: Floats, before: float) -> Floats:
        """Return the start dates t_b to try, ascending."""
        book = self.book
        now = book.date
        latest = min(application.latest_start, application.deadline - float(needs.min()))
        ends = book.mapped["end"][book.slots]
        later = np.maximum(ends[ends > now + PLAN_TOLERANCE], now + SOONEST_LATER)
        dates = np.concatenate(([now], np.unique(later[later <= latest + PLAN_TOLERANCE])))
        dates = dates[(dates < before - PLAN_TOLERANCE) & (dates < math.inf)]
        return dates if now <= latest + PLAN_TOLERANCE else dates[:0]


@kernel
def map_alone(
    now: float,
    dates: Floats,
    request: Request,
    eligible: Flags,
    needs: Floats,
    slots: Ints,
    mapped: Rows,
    tasks: Rows,
    hosts: Rows,
    bandwidths: Floats,
    memory_weight: float,
) -> bool:
    """Plan an application that has to be alone on its hosts: no other end changes.

    Parameters
    ----------
    dates
        Start dates to try, ascending (s).
    needs
        t_c(m), seconds that a task needs on each host alone, without communication.
    mapped, tasks
        Get start, end and hosts of the application.
    """
    # The time for communication depends on the hosts: it is guessed as none, as that of the
    # hosts found with this guess, and as the longest there is.
    network = 0.0
    for guess in range(3):
        added = network if guess < 2 else request.sent / np.min(bandwidths)
        index, free = first_gap(dates, request, eligible, needs + added, slots, mapped, tasks)
        if index < 0:
            return False
        date = dates[index]
        found = survey(date, slots, mapped, tasks, len(needs))
        chosen = best_hosts(
            now, date, request, free, needs, hosts, bandwidths, memory_weight, found
        )
        network = network_seconds(chosen, request.sent, hosts["group"], bandwidths)
        if network <= added:
            place(request, date, chosen, needs, network, mapped, tasks)
            return True
    return False


@kernel
def map_shared(
    now: float,
    dates: Floats,
    request: Request,
    eligible: Flags,
    needs: Floats,
    slots: Ints,
    mapped: Rows,
    tasks: Rows,
    hosts: Rows,
    bandwidths: Floats,
    memory_weight: float,
    revisions: int,
) -> bool:
    """Plan an application at the first date at which every constraint is kept with it.

    At each date, hosts without risk are tried, revised up to ``revisions`` times, then
    once all that are possible. From the second date on, the survey counts the
    application itself where it was tried last. Parameters as :func:`map_alone`.
    """
    for date in dates:
        found = survey(date, slots, mapped, tasks, len(needs))
        possible = (
            eligible
            & (found["next_exclusive"] >= date + needs - PLAN_TOLERANCE)
            & (date + needs <= request.deadline + PLAN_TOLERANCE)
        )
        latest_end = min(request.deadline, date + request.walltime)
        risky = risky_hosts(date, needs, latest_end, slots, mapped, tasks, hosts, found)
        for allowed, attempts in ((possible & ~risky, revisions + 1), (possible, 1)):
            for _ in range(attempts):
                if np.sum(allowed) < request.tasks:
                    break
                chosen = best_hosts(
                    now, date, request, allowed, needs, hosts, bandwidths, memory_weight, found
                )
                network = network_seconds(chosen, request.sent, hosts["group"], bandwidths)
                place(request, date, chosen, needs, network, mapped, tasks)
                blamed, where = keeps(now, slots, request.slot, mapped, tasks, hosts)
                if blamed == KEPT:
                    return True
                if not rule_out(allowed, request.slot, blamed, where, mapped, tasks, hosts, found):
                    break
    return False


@lean_kernel
def place(
    request: Request,
    start: float,
    chosen: Ints,
    needs: Floats,
    network: float,
    mapped: Rows,
    tasks: Rows,
) -> None:
    """Plan an application on these hosts. O(tasks)."""
    row = mapped[request.slot]
    longest = 0.0
    for index in range(len(chosen)):
        task = tasks[row.first + index]
        task.host = chosen[index]
        task.need = needs[chosen[index]] + network
        longest = max(longest, task.need)
    row.count = len(chosen)
    row.start = start
    row.end = start + longest
    row.deadline = demanded_end(request.deadline, request.walltime, longest, start)


@kernel
def rule_out(
    allowed: Flags,
    slot: int,
    blamed: int,
    where: int,
    mapped: Rows,
    tasks: Rows,
    hosts: Rows,
    found: Rows,
) -> bool:
    """Rule out hosts that are to blame for a broken constraint; tell if there were any."""
    own = tasks[mapped[slot].first : mapped[slot].first + mapped[slot].count]
    chosen = own["host"]
    ruled_out = chosen == where
    if np.any(ruled_out):
        pass
    elif blamed == slot:
        # Its own deadline: it progresses at the rate of its worst host.
        crowds = np.maximum(1.0, (found["load"][chosen] + 1) / hosts["processors"][chosen])
        times = own["need"] * crowds
        ruled_out = times >= times.max()
    else:
        for entry in range(mapped[blamed].first, mapped[blamed].first + mapped[blamed].count):
            ruled_out |= chosen == tasks[entry].host
        if not np.any(ruled_out):
            # It slows a third one that slows the other: idle hosts slow none.
            ruled_out = found["release"][chosen] > mapped[slot].start + PLAN_TOLERANCE
    allowed[chosen[ruled_out]] = False
    return bool(np.any(ruled_out))
