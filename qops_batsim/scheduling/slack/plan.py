"""A plan in which jobs may be delayed, but never beyond their slack."""

from __future__ import annotations

import heapq
import math
from typing import NamedTuple

import numpy as np

from qops_batsim.jobs import Job
from qops_batsim.platform.hostset import HostSet
from qops_batsim.scheduling.arrays import grown
from qops_batsim.scheduling.core.columns import LATEST_STARTS
from qops_batsim.scheduling.core.plan import expect_end, forget_gone
from qops_batsim.scheduling.core.state import NOW, PROMISES_GAINS
from qops_batsim.scheduling.plan import Plan
from qops_batsim.scheduling.profile import trim
from qops_batsim.scheduling.slack.decision import (
    Requests,
    Slacks,
    begin_slack,
    call_for,
    compress,
    decide_slack,
    end_slack,
    insert,
    new_slacks,
    reschedule,
)
from qops_batsim.scheduling.slack.options import SlackOptions
from qops_batsim.scheduling.slack.prices import price_of_killing
from qops_batsim.scheduling.slack.priority import (
    FIRST_SCHEDULER_PRIORITY,
    asked_priority,
    class_of,
    grown_average_wait,
    mean_priority,
)
from qops_batsim.scheduling.slack.search import NewJob, new_room
from qops_batsim.timing import PLAN_TOLERANCE, duration_on_grid, end_of, up_to_grid

EXTENSION = 0.1
"""A job that reaches its estimate asks for this part of it in addition (section 4.7)."""

TICK_GRACE = PLAN_TOLERANCE
"""Time after its estimate at which a job is looked at (seconds).

Engines round the dates that they send, that of the start as well: a job that ends just
at its estimate must not be taken for one that does not.
"""

TICK_ROUNDING = PLAN_TOLERANCE / 2
"""Most by which the engine's date may be before that (seconds)."""


class Promise(NamedTuple):
    """A waiting job, and by when it will start at the latest from now on (seconds)."""

    job: Job
    latest_start: float


class Overrun(NamedTuple):
    """A job that has reached its estimate, or the end of its extension, after so many seconds.

    It is to be killed, or may go on.
    """

    job: Job
    run_time: float
    killed: bool


class SlackPlan(Plan):
    """A plan of numbers of processors that is made anew at the least price.

    The slack of a waiting job is the time between its planned start and its latest
    start, so that a delay shortens it and a move up lengthens it by as much. The
    latest start is settled once: first start plus first slack; with ``early_gain``
    ``"promise"`` it moves up with each start that an early end moves up. Only where a
    running job outlives its estimate, which no promise foresaw, or hosts leave can a start
    come later; the job then has that start as its latest one.

    Attributes
    ----------
    promises
        Promises made since the list was last emptied.
    """

    def __init__(self, machine_size: int, options: SlackOptions) -> None:
        super().__init__(machine_size, promised=LATEST_STARTS)
        self.promises: list[Promise] = []
        self._options = options
        slots, steps = len(self.jobs.processors), len(self.profile.times)
        self._slacks: Slacks = new_slacks(options, new_requests(slots), steps)
        self.state.counts[PROMISES_GAINS] = options.early_gain == "promise"
        # Dates at which running jobs reach their estimates, if that concerns the plan.
        self._ticks: list[tuple[float, int]] = []
        # By slot, the promise that was told last.
        self._told = np.full(slots, math.inf)

    def arrived(self, job: Job) -> None:
        """Add a job that waits from now on. Amortised O(1)."""
        slot = len(self.table)
        super().arrived(job)
        slacks = self._slacks
        if slot == len(slacks.requests.classes):
            requests = Requests(*map(grown, slacks.requests))
            average = grown_average_wait(slacks.average)
            self._slacks = slacks = slacks._replace(requests=requests, average=average)
            self._told = np.concatenate([self._told, np.full(slot, math.inf)])
        requests = slacks.requests
        requests.priorities[slot] = asked_priority(job.qos)
        requests.submissions[slot] = job.submission_time
        requests.classes[slot] = class_of(self._options, job.estimate)
        requests.ends_in_time[slot] = job.walltime is not None and job.walltime <= job.estimate

    def make_room(self) -> None:
        """Make room likewise, also where the search works."""
        super().make_room()
        steps, slots, room = len(self.profile.times), len(self.waiting.slots), self._slacks.room
        if len(room.best.times) < steps or len(room.line) < slots:
            self._slacks = self._slacks._replace(room=new_room(steps, slots))

    def _decide_compiled(self) -> bool:
        return bool(decide_slack(self.state, self._slacks))

    def _begin(self) -> None:
        begin_slack(self.state, self._slacks)

    def _place_new(self, slot: int) -> None:
        insert(self.state, self._slacks, slot)

    def _end(self) -> bool:
        return bool(end_slack(self.state, self._slacks))

    def decide(self, now: float, free: HostSet) -> list[tuple[Job, HostSet | None]]:
        """As :meth:`Plan.decide`; jobs with a first start or a new promise are in ``promises``."""
        started = super().decide(now, free)
        for slots in (self.waiting_slots, np.array(self.started_slots, int)):
            promised = self.jobs.assured_starts[slots]
            for slot in slots[promised < self._told[slots]].tolist():
                self._told[slot] = promise = float(self.jobs.assured_starts[slot])
                self.promises.append(Promise(self.table.jobs[slot], promise))
        return started

    def renew(self, slot: int, promise: float) -> None:
        """Have a promise told that was made anew (seconds)."""
        self._told[slot] = self.jobs.assured_starts[slot] = promise

    def call_for(self) -> float | None:
        """Return a date (seconds) at which to be asked again, or None; see :func:`call_for`."""
        date = float(call_for(self.state, self._slacks))
        return date if date < math.inf else None

    # Jobs that reach their estimates

    def watch(self, job: Job) -> float:
        """Have a running job looked at when it reaches its estimate; return that date (seconds)."""
        slot = self.table.slot_of(job.id)
        date = float(self.jobs.ends[slot]) + (self.news.grace if self.news.late else TICK_GRACE)
        # A call has to be later than now, even at dates so late that the grace is nothing.
        date = max(date, math.nextafter(float(self.jobs.starts[slot]), math.inf))
        heapq.heappush(self._ticks, (date, slot))
        return date

    def overruns(self, now: float, *, extend: bool) -> list[Overrun]:
        """Settle what becomes of running jobs that have reached their estimate.

        To be called before :meth:`decide`. With ``extend``, a job may go on where that is
        cheaper than killing it (section 4.7). Jobs are in order of the date, then of
        arrival.
        """
        found: list[Overrun] = []
        told = now + TICK_ROUNDING
        now = up_to_grid(float(now))
        while self._ticks and self._ticks[0][0] <= told:
            _, slot = heapq.heappop(self._ticks)
            if not self.is_running(slot):
                continue
            self.state.clock[NOW] = now
            if not found and extend and forget_gone(self.state) and self.waiting_count:
                # What is free already counts before a job is asked to give way.
                compress(self.state, self._slacks)
            run_time = now - self.actual_start(slot)
            killed = not (extend and self._extend(slot, now))
            if killed:
                # Otherwise it would count as running on from here.
                expect_end(self.state, slot, now)
            found.append(Overrun(self.table.jobs[slot], run_time, killed))
        return found

    def _extend(self, slot: int, now: float) -> bool:
        """Extend a job if that is cheaper than killing it."""
        job = self.table.jobs[slot]
        more = duration_on_grid(EXTENSION * job.estimate)
        cost = price_of_killing(job.processors, job.estimate, self._slacks.rules.weights)
        # With the priority it was inserted with: after that it is 0 for a job that never waited.
        priority, fixed = mean_priority(asked_priority(job.qos), FIRST_SCHEDULER_PRIORITY), 0
        if priority == -math.inf:
            priority, fixed = 1.0, self.waiting_count
        self.make_room()
        # Past extensions must not pile up where no job arrives, which is when plans are trimmed.
        trim(self.profile, now)
        new = NewJob(job.processors, more, priority, float(now))
        if reschedule(self.state, self._slacks, float(now), new, fixed, cost) == math.inf:
            return False
        expect_end(self.state, slot, end_of(now, more))
        return True


def new_requests(jobs: int) -> Requests:
    """Return room for what so many jobs bring along."""
    classes, ends_in_time = np.zeros((2, jobs), np.int64)
    return Requests(np.zeros(jobs), np.zeros(jobs), classes, ends_in_time)
