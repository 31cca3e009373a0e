"""MRT: deadline admission by search with backtracking (Islam et al. 2003, Figure 2)."""

from __future__ import annotations

import math
from array import array
from typing import Annotated

from msgspec import Meta

from qops_batsim.core.job import Job
from qops_batsim.core.job_sorting import sort_by_key
from qops_batsim.core.options import SchedulerOptions
from qops_batsim.core.refusal import missed_deadline
from qops_batsim.core.scheduler import ResourceManager
from qops_batsim.schedulers.deadline import (
    DeadlineOptions,
    DeadlineScheduler,
    lift,
    meets,
)
from qops_batsim.schedulers.job_orders import ORDERS, OrderName, key_in
from qops_batsim.timing import end_of

_INFINITY = math.inf


class MrtOptions(DeadlineOptions, frozen=True, kw_only=True):
    """Options of :class:`Mrt`."""

    order: Annotated[
        OrderName, Meta(description="order in which jobs are placed, as for qops; ties by arrival")
    ] = "least_laxity"
    max_backtracks: Annotated[
        int, Meta(ge=0, description="most candidates given up before the new job is rejected")
    ] = 10


class Mrt(DeadlineScheduler):
    """MRT: admit a job if a strongly feasible schedule of all waiting jobs is found.

    1. All waiting jobs and the new one are planned from scratch in the order of the option
       ``order``. A partial schedule is extended by its first candidate that meets its target and
       leaves the schedule *strongly feasible*: each remaining job would meet its target as the
       next one.
    2. Where a candidate does not, or none is left, the search goes back to the previous partial
       schedule and its next candidate, up to ``max_backtracks`` times in all.

    M. Islam, P. Balaji, P. Sadayappan, D. K. Panda, "QoPS: a QoS based scheme for parallel job
    scheduling", JSSPP 2003, section 2.2.2, Figure 2.

    Examples
    --------
    >>> from qops_batsim import simulate
    >>> len(simulate(Mrt, "sdsc_sp2_deadlines_500", settings={"max_backtracks": 20}).ended)
    500
    """

    summary = "MRT: deadline admission by search with backtracking (Islam et al. 2003)"
    Options = MrtOptions

    def __init__(self, options: SchedulerOptions | None = None) -> None:
        DeadlineScheduler.__init__(self, options)
        chosen = self.options
        self.placing = ORDERS.index(chosen.order)
        self.max_backtracks = chosen.max_backtracks

    def begin(self, manager: ResourceManager) -> None:
        """Start with an empty plan."""
        DeadlineScheduler.begin(self, manager)
        self.backtracks = 0
        self.fits_from = array("d")
        self.fits_until = array("d")
        self.spare = array("q")

    def try_admission(self, job: Job) -> object:
        """Search a plan with a new job; return None if there is one, which is then in ``draft``,
        else the reason for a refusal.
        """
        if self.search(job):
            return None
        blamed = self.blamed
        return missed_deadline(
            blamed.id, blamed.target, own=blamed is job, steps_back=self.backtracks
        )

    def search(self, new: Job) -> bool:
        """Search a plan with a new job that keeps all targets; return whether there is one, which
        is then in ``draft``.

        O((jobs + backtracks) × jobs × steps).
        """
        self.blamed = new
        self.backtracks = 0
        now = self.plan.nominal()
        draft = self.draft
        draft.copy_from(self.running)
        order = [*self.plan.waiting, new]
        self.order = order
        total = len(order)
        room = bytes(8 * total)
        self.fits_from = array("d", room)
        self.fits_until = array("d", room)
        self.spare = array("q", room)
        for rank in range(total):
            job = order[rank]
            job.rank = rank
            job.key = key_in(self.placing, now - job.arrival, job)
            self.fits_from[rank] = now
            self.fits_until[rank] = _INFINITY
        sort_by_key(order, 0, total)
        # As if a processor had just been taken for ever: a time is sought for each.
        if self.is_one_late(0, now, _INFINITY, 1):
            return False

        # The first jobs of the order are the partial schedule, `depth` of them.
        depth = 0
        tried = [0] * (total + 1)
        while depth < total:
            # Candidates stand in heuristic order from this place on; the first ones were tried.
            place = depth + tried[depth]
            if place < total:
                tried[depth] += 1
                if self.extend(depth, place):
                    depth += 1
                    tried[depth] = 0
                    continue
            elif depth == 0:
                return False
            else:
                # The last step is given up as well, as nothing can follow it.
                depth -= 1
                job = order[depth]
                draft.give_tried(job, job.trial, end_of(job.trial, job.duration))
                sort_by_key(order, depth, total)

            self.backtracks += 1
            if self.backtracks > self.max_backtracks:
                return False
        return True

    def extend(self, depth: int, place: int) -> bool:
        """Add the job at index ``place`` to the first ``depth`` jobs of the partial schedule;
        return whether it stays strongly feasible.

        If it is not, the job that would be late is ``blamed``.
        """
        order = self.order
        draft = self.draft
        job = order[place]
        start = draft.try_fit(job, self.plan.nominal())
        if not meets(start, job.duration, job.target):
            self.blamed = job
            return False

        end = end_of(start, job.duration)
        draft.take_found(job, start, end)
        lift(order, place, depth)
        if self.is_one_late(depth + 1, start, end, job.processors):
            # Undo both: the candidates stand in heuristic order again.
            draft.give_tried(job, start, end)
            sort_by_key(order, depth, len(order))
            return False

        job.trial = start
        return True

    def is_one_late(self, first: int, start: float, end: float, taken: int) -> bool:
        """Return whether any unplaced job would miss its target even if placed next; that job is
        then ``blamed``.

        The newest reservation has ``taken`` processors from ``start`` to ``end``. Where it takes
        more than was to spare, another time is sought. O(jobs × steps), as good as always O(jobs).
        """
        order = self.order
        for place in range(first, len(order)):
            job = order[place]
            rank = job.rank
            if self.fits_until[rank] <= start or self.fits_from[rank] >= end:
                continue
            self.spare[rank] -= taken
            if self.spare[rank] < 0 and not self.find_time(job):
                self.blamed = job
                return True
        return False

    def find_time(self, job: Job) -> bool:
        """Find a time for an unplaced job at which it ends by its target; return whether there is
        one. O(steps).

        The latest is looked at first: reservations to come will reach it last.
        """
        duration = job.duration
        rank = job.rank
        if job.target == _INFINITY:
            # It is never late: no reservation reaches it.
            self.fits_from[rank] = _INFINITY
            return True

        draft = self.draft
        now = self.plan.nominal()
        start = job.target - duration
        spare = -1
        if now <= start and meets(start, duration, job.target):
            spare = draft.spare_beside(job, start, end_of(start, duration))
        if spare < 0:
            start = draft.try_fit(job, now)
            if not meets(start, duration, job.target):
                return False
            spare = draft.spare_beside(job, start, end_of(start, duration))

        self.fits_from[rank] = start
        self.fits_until[rank] = end_of(start, duration)
        self.spare[rank] = spare
        return True
