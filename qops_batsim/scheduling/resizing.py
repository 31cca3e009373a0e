"""What a plan does when hosts leave and when they return.

The plan is made anew on the hosts that are there. What runs on hosts that have left goes
on, but its processors do not come free at its end. A waiting job wider than what is left
has no start, and no target, until hosts return: the others do not wait for it. A promise that
can no longer be kept is renewed at once, or suspended while there is no start to renew it with.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol

import numpy as np

from qops_batsim.platform.hostset import HostSet
from qops_batsim.scheduling.capacity import Capacity
from qops_batsim.scheduling.host_words import words_of
from qops_batsim.scheduling.plan_kernels import EVER, Given, compress, reserve_all
from qops_batsim.scheduling.profile import Floats, Ints, Jobs, Profile, Queue
from qops_batsim.scheduling.refusal import Refusal, RefusalKind
from qops_batsim.scheduling.table import JobTable
from qops_batsim.timing import DEADLINE_TOLERANCE, end_of


class Renewal(NamedTuple):
    """A new promise for the job in a slot, in place of one (seconds) that cannot be kept."""

    slot: int
    broken: float
    promise: float
    loss: Refusal


class Suspension(NamedTuple):
    """A promise (seconds) of a job without a start, and why it has none."""

    promise: float
    loss: Refusal


class ResizedPlan(Protocol):
    """What is needed of a plan."""

    table: JobTable
    profile: Profile
    waiting: Queue
    everything: Any
    given: Given

    @property
    def jobs(self) -> Jobs: ...
    @property
    def running(self) -> Queue: ...
    @property
    def waiting_slots(self) -> Ints: ...
    def nominal(self, now: float) -> float: ...
    def rebuild(self, now: float) -> None: ...


class Resizing:
    """Fits a plan to the hosts that are there, and renews promises.

    Promises are about ends; a subclass may have others.

    Parameters
    ----------
    machine_size
        Number of hosts.
    words
        Words of a row of hosts, where jobs reserve certain hosts.
    promises
        Whether anything is promised.

    Attributes
    ----------
    is_due
        Whether hosts have left or returned since the plan was last made.
    present
        Number of hosts that are there.
    renewals
        Promises renewed since the list was last emptied.
    suspended
        Promises that are suspended, by slot.
    """

    def __init__(self, machine_size: int, words: int = 0, *, promises: bool = True) -> None:
        self.is_due = False
        self.present = machine_size
        self.renewals: list[Renewal] = []
        self.suspended: dict[int, Suspension] = {}
        self._words = words
        self._promises = promises
        self._lost = 0

    def promised(self, plan: Any) -> Floats:
        """Return what is promised, by slot, as the plan is held to it now."""
        targets: Floats = plan.jobs.targets
        return targets

    def planned(self, plan: ResizedPlan, slot: int) -> float:
        """Return what is planned for a job."""
        return end_of(float(plan.jobs.starts[slot]), float(plan.jobs.estimates[slot]))

    def note(self, plan: ResizedPlan, capacity: Capacity, running: Mapping[str, HostSet]) -> None:
        """Learn which hosts are there, and on which each job runs, by its id. O(running)."""
        self.is_due = True
        self._lost += max(0, self.present - capacity.present)
        self.present = capacity.present
        away, words, jobs = capacity.away, self._words, plan.jobs
        there = HostSet.first(capacity.machine_size) - away
        plan.everything = words_of(there, words) if words else len(there)
        for job_id, hosts in running.items():
            slot, left = plan.table.slot_of(job_id), hosts - away
            jobs.reserved[slot] = words_of(left, words) if words else len(left)

    def fit(self, plan: ResizedPlan, now: float, *, anew: bool) -> None:
        """Make the plan anew if hosts have left, or it has to be for another reason; else compress.

        O(waiting × steps).
        """
        waiting, promised = plan.waiting_slots.copy(), self.promised(plan)
        before = promised[waiting]
        if anew or self._lost:
            plan.rebuild(now)
        else:
            date = plan.nominal(now)
            reserve_all(date, plan.profile, plan.everything, plan.running, plan.jobs, plan.waiting)
            plan.given.dates[:] = EVER
            line = np.sort(waiting) if self._words else waiting
            compress(date, plan.profile, plan.jobs, plan.waiting, line, plan.given)
        if self._lost and self._promises:
            loss = Refusal(kind=RefusalKind.HOSTS_LOST, date=now, hosts=self._lost)
            finite = before < math.inf
            for slot, promise in zip(
                waiting[finite].tolist(), before[finite].tolist(), strict=True
            ):
                self.suspended[slot] = Suspension(promise, loss)
        self.is_due, self._lost = False, 0
        self.settle(plan)

    def settle(self, plan: ResizedPlan) -> None:
        """Renew the suspended promises that cannot be kept, as far as there is a start."""
        promised = self.promised(plan)
        waiting = set(plan.waiting_slots.tolist())
        for slot, (promise, loss) in list(self.suspended.items()):
            planned = self.planned(plan, slot)
            if slot in waiting and planned == math.inf:
                promised[slot] = math.inf
                continue
            del self.suspended[slot]
            if slot not in waiting:
                continue
            promised[slot] = promise
            if planned > promise + DEADLINE_TOLERANCE:
                promised[slot] = planned
                self.renewals.append(Renewal(slot, promise, planned, loss))
                self.renewed(plan, slot, planned)

    def loss(self, slot: int) -> Refusal | None:
        """Return why a promise was suspended, or renewed just now, if it was."""
        suspended = self.suspended.get(slot)
        if suspended is not None:
            return suspended.loss
        return next((each.loss for each in self.renewals if each.slot == slot), None)

    def restore(
        self, plan: ResizedPlan, now: float, present: int, under: Mapping[int, int]
    ) -> None:
        """Have so many hosts there, and others gone under running jobs, in a resumed plan.

        ``under`` says by slot how many hosts of a job have gone.
        """
        plan.everything = self.present = present
        for slot, gone in under.items():
            plan.jobs.reserved[slot] -= gone
        reserve_all(now, plan.profile, present, plan.running, plan.jobs, plan.waiting)

    def renewed(self, plan: ResizedPlan, slot: int, promise: float) -> None:
        """Hold a job to a new promise."""
        plan.jobs.promises[slot], plan.jobs.aims[slot] = promise, math.inf
