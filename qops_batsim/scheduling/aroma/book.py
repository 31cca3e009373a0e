"""The mapped applications, running and planned, as arrays for the kernels."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from qops_batsim.scheduling.aroma.application import Application
from qops_batsim.scheduling.aroma.recurrence import (
    KEPT,
    Flags,
    Floats,
    Ints,
    connected,
    predict,
    running_rates,
)
from qops_batsim.timing import PLAN_TOLERANCE

_FIRST_SLOTS = 64
_FIRST_ENTRIES = 1024


class Mapped(NamedTuple):
    """An application taken out of a book, so that it can be put back."""

    application: Application
    start: float
    end: float
    left: float
    rate: float
    running: bool
    deadline: float
    hosts: Ints
    needs: Floats


class Book:
    """Which application is mapped where, from when on, and how far it has come.

    Each mapped application has a slot until it is removed; see
    :mod:`~qops_batsim.scheduling.aroma.recurrence` for the arrays.

    Parameters
    ----------
    processors
        Processors of each host.

    Attributes
    ----------
    applications
        The application in each slot, or None.
    slot_of
        The slot of each mapped application, by job.
    rates
        Share of the work per second that each running application makes now.
    ends
        Predicted ends as of the last :meth:`refresh` (s).
    load
        Applications that run on each host.
    date
        The date that ``left`` is about (s).
    """

    def __init__(self, processors: Ints) -> None:
        self.processors = processors
        self.applications: list[Application | None] = [None] * _FIRST_SLOTS
        self.slot_of: dict[str, int] = {}
        self.starts: Floats = np.zeros(_FIRST_SLOTS)
        self.left: Floats = np.zeros(_FIRST_SLOTS)
        self.ends: Floats = np.zeros(_FIRST_SLOTS)
        self.rates: Floats = np.zeros(_FIRST_SLOTS)
        self.deadlines: Floats = np.zeros(_FIRST_SLOTS)
        self.memory: Floats = np.zeros(_FIRST_SLOTS)
        self.running: Flags = np.zeros(_FIRST_SLOTS, np.bool_)
        self.exclusive: Flags = np.zeros(_FIRST_SLOTS, np.bool_)
        self.firsts: Ints = np.zeros(_FIRST_SLOTS, np.int64)
        self.counts: Ints = np.zeros(_FIRST_SLOTS, np.int64)
        self.hosts: Ints = np.zeros(_FIRST_ENTRIES, np.int64)
        self.needs: Floats = np.zeros(_FIRST_ENTRIES)
        self.load: Ints = np.zeros(len(processors), np.int64)
        self.date = 0.0
        self._entries = 0
        self._unused = list(range(_FIRST_SLOTS))[::-1]
        self._listed: Ints | None = None
        self._used: dict[int, None] = {}

    def __len__(self) -> int:
        return len(self._used)

    @property
    def slots(self) -> Ints:
        """The slots in use, in the order of mapping."""
        if self._listed is None:
            self._listed = np.fromiter(self._used, np.int64, len(self._used))
        return self._listed

    def running_slots(self) -> Ints:
        """Return the slots of the applications that run."""
        slots = self.slots
        return slots[self.running[slots]]

    def planned_slots(self) -> Ints:
        """Return the slots of those that do not run yet, by start, then arrival."""
        slots = self.slots
        planned = slots[~self.running[slots]].tolist()
        planned.sort(key=lambda slot: (self.starts[slot], self.application(slot).arrival))
        return np.array(planned, np.int64)

    def application(self, slot: int) -> Application:
        """Return the application in a slot that is in use."""
        found = self.applications[slot]
        assert found is not None
        return found

    def hosts_of(self, slot: int) -> Ints:
        """Return the hosts of an application."""
        first = self.firsts[slot]
        return self.hosts[first : first + self.counts[slot]]

    def needs_of(self, slot: int) -> Floats:
        """Return the seconds that an application needs alone on each of its hosts."""
        first = self.firsts[slot]
        return self.needs[first : first + self.counts[slot]]

    def add(self, application: Application, start: float, hosts: Ints, needs: Floats) -> int:
        """Plan an application and return its slot. O(tasks), amortised.

        Parameters
        ----------
        start
            When it is to start (s).
        hosts, needs
            Its hosts, and the seconds that its task needs on each of them alone.
        """
        if not self._unused:
            self._add_slots()
        slot = self._unused.pop()
        self.applications[slot] = application
        self.left[slot] = 1.0
        self.rates[slot] = 0.0
        self.running[slot] = False
        self.exclusive[slot] = application.exclusive
        self.memory[slot] = application.memory
        self._used[slot] = None
        self._listed = None
        self.slot_of[application.job.id] = slot
        self.counts[slot] = 0
        self.place(slot, start, hosts, needs)
        return slot

    def place(self, slot: int, start: float, hosts: Ints, needs: Floats) -> None:
        """Plan an application that does not run yet anew. O(tasks), amortised."""
        count = len(hosts)
        self.starts[slot] = start
        self.ends[slot] = start + float(needs.max())
        if count > self.counts[slot]:
            self.counts[slot] = 0
            self._make_room(count)
            self.firsts[slot] = self._entries
            self._entries += count
        self.counts[slot] = count
        first = self.firsts[slot]
        self.hosts[first : first + count] = hosts
        self.needs[first : first + count] = needs
        self.deadlines[slot] = self.demanded(slot)

    def demanded(self, slot: int) -> float:
        """Return the latest end that has to be kept (s); infinite if there is none.

        That is the deadline, and the walltime if it is enough for whoever is alone:
        sharing is not to get anybody killed.
        """
        application = self.application(slot)
        walltime = application.walltime
        if application.exclusive or walltime == math.inf:
            return application.deadline
        if float(self.needs_of(slot).max()) > walltime + PLAN_TOLERANCE:
            return application.deadline
        return min(application.deadline, float(self.starts[slot]) + walltime)

    def remove(self, slot: int) -> None:
        """Forget an application. O(1)."""
        del self.slot_of[self.application(slot).job.id]
        self.applications[slot] = None
        del self._used[slot]
        self._listed = None
        self._unused.append(slot)

    def take(self, slot: int) -> Mapped:
        """Remove an application and return what :meth:`put_back` needs. O(tasks)."""
        mapped = Mapped(
            self.application(slot),
            float(self.starts[slot]),
            float(self.ends[slot]),
            float(self.left[slot]),
            float(self.rates[slot]),
            bool(self.running[slot]),
            float(self.deadlines[slot]),
            self.hosts_of(slot).copy(),
            self.needs_of(slot).copy(),
        )
        self.remove(slot)
        return mapped

    def put_back(self, mapped: Mapped) -> int:
        """Add an application as it was when it was taken; return its slot. O(tasks)."""
        slot = self.add(mapped.application, mapped.start, mapped.hosts, mapped.needs)
        self.ends[slot] = mapped.end
        self.left[slot] = mapped.left
        self.rates[slot] = mapped.rate
        self.running[slot] = mapped.running
        self.deadlines[slot] = mapped.deadline
        return slot

    # Time

    def advance(self, now: float) -> None:
        """Note the progress until now: nothing has started or ended in between. O(running)."""
        slots = self.running_slots()
        self.left[slots] -= self.rates[slots] * (now - self.date)
        self.date = now

    def settle(self) -> None:
        """Note who shares with whom from now on. O(hosts + entries)."""
        running_rates(
            self.running_slots(),
            self.rates,
            self.load,
            self.firsts,
            self.counts,
            self.hosts,
            self.needs,
            self.processors,
        )

    def try_out(self, slot: int, ends: Floats) -> tuple[int, int, Ints]:
        """Predict the ends that may depend on one application, to see whether it fits.

        Returns
        -------
        tuple
            What :func:`~qops_batsim.scheduling.aroma.recurrence.predict` returns, and
            the slots concerned; ``ends`` has theirs if every constraint is kept.
        """
        slots = connected(
            self.slots,
            slot,
            self.exclusive,
            self.firsts,
            self.counts,
            self.hosts,
            len(self.processors),
        )
        blamed, where = self._predict(slots, True, ends)
        return blamed, where, slots

    def refresh(self) -> None:
        """Predict all ends anew, kept or not."""
        self._predict(self.slots, False, self.ends)

    def is_kept(self) -> bool:
        """Whether every constraint is kept, as far as can be predicted."""
        return self._predict(self.slots, True, np.empty_like(self.ends))[0] == KEPT

    def _predict(self, slots: Ints, checked: bool, ends: Floats) -> tuple[int, int]:
        blamed, where = predict(
            self.date,
            slots,
            self.starts,
            self.left,
            self.running,
            self.exclusive,
            self.deadlines,
            self.firsts,
            self.counts,
            self.hosts,
            self.needs,
            self.processors,
            checked,
            ends,
        )
        return int(blamed), int(where)

    def overdue(self) -> list[int]:
        """Return the running applications that should have ended before now. O(running)."""
        slots = self.running_slots()
        late = self.left[slots] < -self.rates[slots] * PLAN_TOLERANCE
        return [int(slot) for slot in slots[late]]

    def next_start(self) -> float:
        """Return the earliest planned start (s), infinite without one. O(applications)."""
        slots = self.slots
        planned = self.starts[slots[~self.running[slots]]]
        return float(planned.min(initial=math.inf))

    # Room

    def _add_slots(self) -> None:
        size = len(self.starts)
        for name in (
            "starts",
            "left",
            "ends",
            "rates",
            "deadlines",
            "memory",
            "running",
            "exclusive",
            "firsts",
            "counts",
        ):
            values = getattr(self, name)
            setattr(self, name, np.concatenate([values, np.zeros_like(values)]))
        self.applications += [None] * size
        self._unused = list(range(size, 2 * size))[::-1]

    def _make_room(self, count: int) -> None:
        """Let ``count`` more entries fit: drop those of removed applications, then grow."""
        if self._entries + count <= len(self.hosts):
            return
        used = [slot for slot in self._used if self.counts[slot]]
        live = int(self.counts[used].sum())
        size = len(self.hosts)
        while size < 2 * (live + count):
            size *= 2
        hosts, needs = np.zeros(size, np.int64), np.zeros(size)
        place = 0
        for slot in used:
            first, entries = int(self.firsts[slot]), int(self.counts[slot])
            hosts[place : place + entries] = self.hosts[first : first + entries]
            needs[place : place + entries] = self.needs[first : first + entries]
            self.firsts[slot] = place
            place += entries
        self.hosts, self.needs, self._entries = hosts, needs, place
