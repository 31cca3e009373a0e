"""The book of mapped applications: hosts, planned starts and progress of each."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from qops_batsim.scheduling.aroma.application import Application
from qops_batsim.scheduling.aroma.recurrence import (
    APPLICATION,
    KEPT,
    TASK,
    Rows,
    demanded_end,
    predict,
    settle_rates,
)
from qops_batsim.scheduling.arrays import Floats, Ints
from qops_batsim.timing import PLAN_TOLERANCE

_FIRST_SLOTS = 64
_FIRST_TASKS = 1024


class Taken(NamedTuple):
    """An application taken out of a book with its row and tasks, so that it can be put back."""

    application: Application
    row: np.void
    tasks: Rows

    @property
    def start(self) -> float:
        """Real or planned start (s)."""
        return float(self.row["start"])

    @property
    def ordered(self) -> float:
        """Date at which the engine was told to start it (s)."""
        return float(self.row["ordered"])

    @property
    def left(self) -> float:
        """Share of its work that is left, from 0 to 1."""
        return min(max(float(self.row["left"]), 0.0), 1.0)

    @property
    def hosts(self) -> Ints:
        """Its hosts, ascending."""
        hosts: Ints = self.tasks["host"]
        return hosts


class Book:
    """The applications that are mapped, running and planned; each has a slot until it is removed.

    Parameters
    ----------
    hosts
        The hosts, of which it keeps the loads.

    Attributes
    ----------
    mapped, tasks
        The application in each slot and their tasks, for the kernels; replaced when
        they need more room. The ends are those of the last :meth:`refresh`.
    slot_of
        The slot of each mapped application, by job.
    date
        The date that the work ``left`` is about (s).
    """

    def __init__(self, hosts: Rows) -> None:
        self.mapped: Rows = np.zeros(_FIRST_SLOTS, APPLICATION)
        self.tasks: Rows = np.zeros(_FIRST_TASKS, TASK)
        self.hosts = hosts
        self.slot_of: dict[str, int] = {}
        self.date = 0.0
        # The application in each slot that is in use, in the order of mapping.
        self._applications: dict[int, Application] = {}
        self._slots: Ints | None = None
        self._unused = list(range(_FIRST_SLOTS))[::-1]
        self._task_count = 0

    def __len__(self) -> int:
        return len(self._applications)

    @property
    def slots(self) -> Ints:
        """The slots in use, in the order of mapping."""
        if self._slots is None:
            self._slots = np.fromiter(self._applications, np.int64, len(self._applications))
        return self._slots

    def running_slots(self) -> Ints:
        """Return the slots of the applications that run."""
        slots = self.slots
        running: Ints = slots[self.mapped["running"][slots]]
        return running

    def planned_slots(self) -> list[int]:
        """Return the slots of those that do not run yet, by start, then arrival."""
        slots = self.slots
        planned: list[int] = slots[~self.mapped["running"][slots]].tolist()
        starts, applications = self.mapped["start"], self._applications
        planned.sort(key=lambda slot: (starts[slot], applications[slot].arrival))
        return planned

    def application(self, slot: int) -> Application:
        """Return the application in a slot that is in use."""
        return self._applications[slot]

    def tasks_of(self, slot: int) -> Rows:
        """Return the tasks of an application, a view."""
        first = self.mapped["first"][slot]
        return self.tasks[first : first + self.mapped["count"][slot]]

    def hosts_of(self, slot: int) -> Ints:
        """Return the hosts of an application, ascending."""
        hosts: Ints = self.tasks_of(slot)["host"]
        return hosts

    def demanded(self, slot: int) -> float:
        """Return the latest end that has to be kept (s), as :func:`demanded_end`."""
        application = self._applications[slot]
        walltime = math.inf if application.exclusive else float(application.walltime)
        longest, start = float(self.tasks_of(slot)["need"].max()), float(self.mapped["start"][slot])
        return float(demanded_end(float(application.deadline), walltime, longest, start))

    # In and out

    def open(self, application: Application) -> int:
        """Return a slot for an application that gets its start and hosts next. O(1), amortised.

        There is room for its tasks, but none is in use yet.
        """
        if not self._unused:
            self._unused = list(range(len(self.mapped), 2 * len(self.mapped)))[::-1]
            self.mapped = np.concatenate([self.mapped, np.zeros_like(self.mapped)])
        self._make_room(application.tasks)
        slot = self._unused.pop()
        self._applications[slot] = application
        self._slots = None
        self.slot_of[application.job.id] = slot
        self.mapped[slot] = (
            math.inf, math.inf, 1.0, 0.0, math.inf, math.inf, application.memory,
            self._task_count, 0, False, application.exclusive,
        )  # fmt: skip
        self._task_count += application.tasks
        return slot

    def remove(self, slot: int) -> None:
        """Forget an application. O(1)."""
        application = self._applications.pop(slot)
        del self.slot_of[application.job.id]
        self._slots = None
        self._unused.append(slot)

    def take(self, slot: int) -> Taken:
        """Remove an application and return what :meth:`put_back` needs. O(tasks)."""
        taken = Taken(
            self._applications[slot], self.mapped[slot].copy(), self.tasks_of(slot).copy()
        )
        self.remove(slot)
        return taken

    def put_back(self, taken: Taken) -> int:
        """Add an application as it was when it was taken; return its slot. O(tasks)."""
        slot = self.open(taken.application)
        first = self.mapped["first"][slot]
        self.mapped[slot] = taken.row
        self.mapped["first"][slot] = first
        self.tasks_of(slot)[:] = taken.tasks
        return slot

    # Time

    def advance(self, now: float) -> None:
        """Note the progress until now: nothing has started or ended in between. O(running)."""
        slots = self.running_slots()
        self.mapped["left"][slots] -= self.mapped["rate"][slots] * (now - self.date)
        self.date = float(now)

    def settle(self) -> None:
        """Note the rates of what runs together from now on. O(hosts + tasks)."""
        settle_rates(self.running_slots(), self.mapped, self.tasks, self.hosts)

    def refresh(self) -> None:
        """Predict all ends anew, kept or not."""
        self.mapped["end"][self.slots] = self._predict(checked=False)[2]

    def is_kept(self) -> bool:
        """Tell whether every constraint is kept, as far as can be predicted."""
        return bool(self._predict(checked=True)[0] == KEPT)

    def _predict(self, *, checked: bool) -> tuple[int, int, Floats]:
        return predict(self.date, self.slots, self.mapped, self.tasks, self.hosts, checked)

    def overdue(self) -> list[int]:
        """Return those that should have ended before now and really run. O(running)."""
        slots = self.running_slots()
        slots = slots[self.mapped["ordered"][slots] < math.inf]
        late = self.mapped["left"][slots] < -self.mapped["rate"][slots] * PLAN_TOLERANCE
        found: list[int] = slots[late].tolist()
        return found

    def next_start(self, after: float = -math.inf) -> float:
        """Return the earliest planned start (s), infinite without one. O(applications)."""
        slots = self.slots
        planned = self.mapped["start"][slots[~self.mapped["running"][slots]]]
        return float(planned[planned > after].min(initial=math.inf))

    def _make_room(self, count: int) -> None:
        """Let so many more tasks fit: drop those of removed applications, then grow."""
        if self._task_count + count <= len(self.tasks):
            return
        size = len(self.tasks)
        while size < 2 * (int(self.mapped["count"][self.slots].sum()) + count):
            size *= 2
        tasks = np.zeros(size, TASK)
        self._task_count = 0
        for slot in self._applications:
            first, own = self._task_count, self.tasks_of(slot)
            self._task_count += len(own)
            tasks[first : self._task_count] = own
            self.mapped["first"][slot] = first
        self.tasks = tasks
