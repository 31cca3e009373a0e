"""A plan: the start promised to every waiting job, as conservative backfilling keeps it.

The availability profile contains the running jobs up to their expected ends and
the waiting jobs at their promised starts. What a reservation is made of differs:
:class:`ProcessorPlan` reserves numbers of processors, :class:`HostPlan` certain
hosts.
"""

from __future__ import annotations

import heapq
from typing import ClassVar

import numpy as np

from qops_batsim.jobs import Job
from qops_batsim.platform.hostset import HostSet
from qops_batsim.scheduling import plan_kernels
from qops_batsim.scheduling.host_profile import WORD_BITS, Words, change_hosts
from qops_batsim.scheduling.profile import STEPS_PER_RESERVATION, Floats, Ints, change, trim
from qops_batsim.scheduling.table import FIRST_CAPACITY, JobTable, grown
from qops_batsim.timing import PLAN_TOLERANCE


class Plan:
    """What both kinds of plan share: the order of things in one decision.

    Parameters
    ----------
    machine_size
        Number of processors.
    """

    compresses_on_every_end: ClassVar[bool] = False
    """Whether also an end that was expected moves waiting jobs."""

    def __init__(self, machine_size: int) -> None:
        self.table = JobTable()
        self.machine_size = machine_size
        # Promised or actual start and expected end of the job in each slot.
        self._starts: Floats = np.zeros(FIRST_CAPACITY, np.float64)
        self._ends: Floats = np.zeros(FIRST_CAPACITY, np.float64)
        self._times: Floats = np.zeros(64, np.float64)
        self._steps = 1
        # Slots of the waiting jobs by promised start, ties by arrival.
        self._waiting: Ints = np.zeros(FIRST_CAPACITY, np.int64)
        self._waiting_count = 0
        self._first_new = 0
        # Slots of the running jobs in any order, and the place of each among them.
        self._running: Ints = np.zeros(machine_size + 1, np.int64)
        self._running_place: dict[int, int] = {}
        self._expected_ends: list[tuple[float, int]] = []
        self._gone: list[int] = []

    @property
    def decided(self) -> int:
        """Number of jobs that a decision was made about: their slots are below it."""
        return self._first_new

    @property
    def waiting(self) -> int:
        """Number of jobs that wait for their promised start."""
        return self._waiting_count

    @property
    def waiting_slots(self) -> Ints:
        """Slots of the waiting jobs by promised start: a view, good until the next decision."""
        return self._waiting[: self._waiting_count]

    @property
    def running_slots(self) -> Ints:
        """Slots of the running jobs in any order: a view, good until the next decision."""
        return self._running[: len(self._running_place)]

    @property
    def starts(self) -> Floats:
        """Promised or actual start of the job in each slot (seconds): a view, with room to grow."""
        return self._starts

    @property
    def ends(self) -> Floats:
        """Expected end of each slot's running job (seconds): a view, with room to grow."""
        return self._ends

    def arrived(self, job: Job) -> None:
        """Add a job that waits from now on. Amortised O(1)."""
        slot = self.table.add(job)
        if slot == len(self._starts):
            self._starts = grown(self._starts)
            self._ends = grown(self._ends)
            self._slots_grew()

    def left(self, job_id: str) -> None:
        """Note that a running job has ended. O(1)."""
        self._gone.append(self.table.slot_of(job_id))

    def decide(self, now: float, free: HostSet) -> list[tuple[Job, HostSet | None]]:
        """Update the plan and return the jobs that start now.

        Parameters
        ----------
        now
            Date (seconds).
        free
            Hosts that no job uses.

        Returns
        -------
        list of (Job, HostSet or None)
            The jobs in order of their promised starts, with their hosts if the
            plan has chosen them. O(waiting × steps).
        """
        early = self._forget_gone(now)
        if self._extend_overdue(now) or self._has_missed_promise(now):
            self._rebuild(now)
        elif early and self._waiting_count:
            self._compress(now)
        new_end = len(self.table)
        if new_end > self._first_new:
            self._make_room()
            self._trim(now)
            self._place(now, self._first_new, new_end)
            self._first_new = new_end
        started, late = self._start_due(now, free)
        if not started and self._waiting_count and not self._running_place:
            # Nothing runs, so nothing would ever ask again: promises that rested on dates a
            # little off must not keep the machine idle.
            self._rebuild(now)
            started, late = self._start_due(now, free)
        if late:
            # A job started after its promise (the news of an end took time to
            # arrive), so it will also end later than the plan says.
            self._rebuild(now)
        return started

    def _forget_gone(self, now: float) -> bool:
        """Give back the rest of ended jobs' reservations; return whether to compress."""
        early = self.compresses_on_every_end and bool(self._gone)
        for slot in self._gone:
            self._stop_running(slot)
            end = float(self._ends[slot])
            if end > now + PLAN_TOLERANCE:
                self._give_back(slot, now, end)
                early = True
        self._gone.clear()
        return early

    def _extend_overdue(self, now: float) -> bool:
        """Assume that jobs which outlive their estimate run as long again; tell if any do."""
        overdue = False
        expected = self._expected_ends
        while expected and expected[0][0] < now - PLAN_TOLERANCE:
            end, slot = heapq.heappop(expected)
            if slot in self._running_place and self._ends[slot] == end:
                self._ends[slot] = now + max(now - self._starts[slot], 1.0)
                heapq.heappush(expected, (float(self._ends[slot]), slot))
                overdue = True
        return overdue

    def _has_missed_promise(self, now: float) -> bool:
        """Whether a job should have started before: its processors come free only now."""
        return bool(self._waiting_count and self._starts[self._waiting[0]] < now - PLAN_TOLERANCE)

    def _start_due(
        self, now: float, free: HostSet
    ) -> tuple[list[tuple[Job, HostSet | None]], bool]:
        started: list[tuple[Job, HostSet | None]] = []
        late = False
        if not free:
            return started, late
        limit = now + PLAN_TOLERANCE
        while len(started) < self._waiting_count:
            slot = int(self._waiting[len(started)])
            start = float(self._starts[slot])
            if start > limit:
                break
            hosts = self._hosts_for(slot, free)
            if hosts is None:
                break
            free = free - hosts
            late = late or start < now - PLAN_TOLERANCE
            end = now + float(self.table.estimates[slot])
            self._starts[slot] = now
            self._ends[slot] = end
            self._running[len(self._running_place)] = slot
            self._running_place[slot] = len(self._running_place)
            heapq.heappush(self._expected_ends, (end, slot))
            started.append((self.table.jobs[slot], hosts))
        if started:
            left = self._waiting_count - len(started)
            self._waiting[:left] = self._waiting[len(started) : self._waiting_count]
            self._waiting_count = left
        return started, late

    def _make_room(self) -> None:
        jobs = self._waiting_count + len(self.table) - self._first_new
        while len(self._waiting) < jobs:
            self._waiting = grown(self._waiting)
        steps = STEPS_PER_RESERVATION * (jobs + len(self._running_place) + 2)
        while len(self._times) < steps:
            self._times = grown(self._times)
            self._steps_grew()

    def _stop_running(self, slot: int) -> None:
        """Take a job out of the running ones; the last of them takes its place. O(1)."""
        place = self._running_place.pop(slot)
        last = len(self._running_place)
        if place < last:
            moved = int(self._running[last])
            self._running[place] = moved
            self._running_place[moved] = place

    # What depends on the kind of reservation

    def _slots_grew(self) -> None:
        raise NotImplementedError

    def _steps_grew(self) -> None:
        raise NotImplementedError

    def _trim(self, now: float) -> None:
        raise NotImplementedError

    def _give_back(self, slot: int, start: float, end: float) -> None:
        raise NotImplementedError

    def _compress(self, now: float) -> None:
        raise NotImplementedError

    def _rebuild(self, now: float) -> None:
        raise NotImplementedError

    def _place(self, now: float, first: int, end: int) -> None:
        raise NotImplementedError

    def _hosts_for(self, slot: int, free: HostSet) -> HostSet | None:
        """Return the hosts on which a due job can start, or None while it cannot."""
        raise NotImplementedError


class ProcessorPlan(Plan):
    """A plan of numbers of processors; hosts are chosen when a job starts.

    Exact for rigid jobs on interchangeable hosts. Compression goes through the
    waiting jobs in the order of their promised starts.
    """

    def __init__(self, machine_size: int) -> None:
        super().__init__(machine_size)
        self._free: Ints = np.zeros(len(self._times), np.int64)
        self._free[0] = machine_size

    def _slots_grew(self) -> None:
        pass

    def _steps_grew(self) -> None:
        self._free = grown(self._free)

    def _trim(self, now: float) -> None:
        self._steps = trim(self._times, self._free, self._steps, now)

    def _give_back(self, slot: int, start: float, end: float) -> None:
        needed = int(self.table.processors[slot])
        self._steps = change(self._times, self._free, self._steps, start, end, needed)

    def _compress(self, now: float) -> None:
        self._steps = plan_kernels.compress(
            self._times, self._free, self._steps, now, self._waiting, self._waiting_count,
            self._starts, self.table.processors, self.table.estimates,
        )  # fmt: skip

    def _rebuild(self, now: float) -> None:
        self._steps = plan_kernels.rebuild(
            self._times, self._free, self.machine_size, now, self._waiting, self._waiting_count,
            self._starts, self.table.processors, self.table.estimates, self.running_slots,
            self._ends,
        )  # fmt: skip

    def _place(self, now: float, first: int, end: int) -> None:
        self._steps, self._waiting_count = plan_kernels.place(
            self._times, self._free, self._steps, now, self._waiting, self._waiting_count,
            self._starts, self.table.processors, self.table.estimates, first, end,
        )  # fmt: skip

    def _hosts_for(self, slot: int, free: HostSet) -> HostSet | None:
        needed = int(self.table.processors[slot])
        return free.lowest(needed) if needed <= len(free) else None


class HostPlan(Plan):
    """A plan of certain hosts: a reservation names its hosts, the lowest that fit.

    This is how batsched's ``conservative_bf`` plans: compression in order of
    arrival, at every end of a job. Binding hosts long before a job starts
    fragments the plan.
    """

    compresses_on_every_end = True

    def __init__(self, machine_size: int) -> None:
        super().__init__(machine_size)
        words = -(-machine_size // WORD_BITS)
        self._free: Words = np.zeros((len(self._times), words), np.uint64)
        self._all = _words_of(HostSet.first(machine_size), words)
        self._free[0] = self._all
        self._hosts: Words = np.zeros((FIRST_CAPACITY, words), np.uint64)

    def _slots_grew(self) -> None:
        self._hosts = _more_rows(self._hosts)

    def _steps_grew(self) -> None:
        self._free = _more_rows(self._free)

    def _trim(self, now: float) -> None:
        self._steps = trim(self._times, self._free, self._steps, now)

    def _give_back(self, slot: int, start: float, end: float) -> None:
        self._steps = change_hosts(
            self._times, self._free, self._steps, start, end, self._hosts[slot], True
        )

    def _compress(self, now: float) -> None:
        self._steps = plan_kernels.compress_hosts(
            self._times, self._free, self._steps, now, self._waiting, self._waiting_count,
            self._starts, self.table.processors, self.table.estimates, self._hosts,
        )  # fmt: skip

    def _rebuild(self, now: float) -> None:
        self._steps = plan_kernels.rebuild_hosts(
            self._times, self._free, self._all, now, self._waiting, self._waiting_count,
            self._starts, self.table.processors, self.table.estimates, self.running_slots,
            self._ends, self._hosts,
        )  # fmt: skip

    def _place(self, now: float, first: int, end: int) -> None:
        self._steps, self._waiting_count = plan_kernels.place_hosts(
            self._times, self._free, self._steps, now, self._waiting, self._waiting_count,
            self._starts, self.table.processors, self.table.estimates, first, end, self._hosts,
        )  # fmt: skip

    def _hosts_for(self, slot: int, free: HostSet) -> HostSet | None:
        hosts = HostSet(int.from_bytes(self._hosts[slot].astype("<u8").tobytes(), "little"))
        return hosts if not hosts.mask & ~free.mask else None


def _words_of(hosts: HostSet, words: int) -> Words:
    return np.frombuffer(hosts.mask.to_bytes(words * WORD_BITS // 8, "little"), "<u8").astype(
        np.uint64
    )


def _more_rows(rows: Words) -> Words:
    larger = np.zeros((2 * len(rows), rows.shape[1]), np.uint64)
    larger[: len(rows)] = rows
    return larger
