"""A plan in which jobs may be delayed, but never beyond their slack."""

from __future__ import annotations

import heapq
import math
from typing import Literal, NamedTuple

import numpy as np

from qops_batsim.jobs import Job
from qops_batsim.platform.hostset import HostSet
from qops_batsim.scheduling.kernels import Steady
from qops_batsim.scheduling.plan import Plan
from qops_batsim.scheduling.profile import (
    STEPS_PER_RESERVATION,
    Floats,
    Ints,
    Profile,
    grown,
    new_profile,
    reserve,
)
from qops_batsim.scheduling.slack.average_wait import AverageWait
from qops_batsim.scheduling.slack.orders import AST, EXHAUSTIVE
from qops_batsim.scheduling.slack.prices import price_of_killing
from qops_batsim.scheduling.slack.priority import (
    FIRST_SCHEDULER_PRIORITY,
    first_slack,
    priority_of,
    scheduler_priority,
)
from qops_batsim.scheduling.slack.slack_kernel import BEST, ROWS, adopt_best, cheapest_schedule
from qops_batsim.scheduling.table import FIRST_CAPACITY
from qops_batsim.timing import PLAN_TOLERANCE

EXTENSION = 0.1
"""A job that reaches its estimate asks for this part of it in addition (section 4.7)."""

TICK_GRACE = PLAN_TOLERANCE
"""How long after its estimate a job is looked at (seconds).

Engines round the dates that they send, that of the start as well: a job that ends just
at its estimate must not be taken for one that does not.
"""

TICK_ROUNDING = PLAN_TOLERANCE / 2
"""How much earlier than that date the engine's may be (seconds)."""

Removal = Literal["cheapest", "compression", "null_job"]
EarlyGain = Literal["slack", "promise"]


class Policy(NamedTuple):
    """What the plan has to know of the scheduler's options.

    Attributes
    ----------
    weights
        See :mod:`~qops_batsim.scheduling.slack.prices`.
    heuristic
        Order in which delayed jobs are placed again: a number of
        :mod:`~qops_batsim.scheduling.slack.orders`.
    exhaustive_up_to
        Most waiting jobs for which all orders are tried, if the heuristic is
        ``EXHAUSTIVE``; ``AST`` beyond.
    slack_factor
        The average wait times granted to a job of priority 0.
    removal
        What an early end leads to: the cheapest of compression and the schedules
        with a null job, or only one of the two.
    early_gain
        What a job that moves up at an early end gains: slack, or a new promise.
    """

    weights: Floats
    heuristic: int
    exhaustive_up_to: int
    slack_factor: float
    removal: Removal
    early_gain: EarlyGain


class Promise(NamedTuple):
    """A waiting job, and by when it will start at the latest from now on (seconds)."""

    job: Job
    latest_start: float


class Overrun(NamedTuple):
    """A job that has reached its estimate or the end of its extension.

    Attributes
    ----------
    job
        The job.
    run_time
        How long it has run (seconds).
    killed
        Whether it is to be killed, or may go on.
    """

    job: Job
    run_time: float
    killed: bool


class SlackPlan(Plan):
    """A plan of numbers of processors that is made anew at the least price.

    The slack of a waiting job is the time between its promised start and its latest
    start, so that a delay shortens it and a move up lengthens it by as much. The
    latest start is settled once: first start plus first slack; with ``early_gain``
    ``"promise"`` it moves up with each start that an early end moves up. Only where a
    running job outlives its estimate, which no promise foresaw, can a start come later;
    the job then has that start as its latest one.

    Parameters
    ----------
    machine_size
        Number of processors.
    policy
        How to decide.
    average_wait
        What priorities and slacks rest on.

    Attributes
    ----------
    promises
        Promises made since the list was last emptied.
    """

    def __init__(self, machine_size: int, policy: Policy, average_wait: AverageWait) -> None:
        super().__init__(machine_size)
        self.promises: list[Promise] = []
        self._policy = policy
        self._average_wait = average_wait
        self._priorities: Floats = np.zeros(FIRST_CAPACITY)
        self._first_slacks: Floats = np.zeros(FIRST_CAPACITY)
        self._latest: Floats = np.zeros(FIRST_CAPACITY)
        # Jobs that wait behind one without estimate: what has no end gives no start.
        self._without_start: list[int] = []
        # Dates at which running jobs reach their estimates, if that concerns the plan.
        self._ticks: list[tuple[float, int]] = []
        self._called_for = -math.inf
        # Where the search works: the profiles of what is settled, of a trial, of the best one.
        self._base: Profile
        self._trial: Profile
        self._best: Profile
        self._room: Floats
        self._line: Ints
        self._allot(len(self.profile.times), len(self.waiting.slots))
        self._cheapest, self._adopt_best = Steady(cheapest_schedule), Steady(adopt_best)

    def decide(self, now: float, free: HostSet) -> list[tuple[Job, HostSet | None]]:
        """As :meth:`Plan.decide`; jobs with a first start or a new promise are in ``promises``."""
        started = super().decide(now, free)
        if self._without_start:
            self._promise_at_last(now)
        for job, _ in started:
            self._average_wait.started(job.estimate, now - job.submission_time, now)
        return started

    def _promise_at_last(self, now: float) -> None:
        still: list[int] = []
        for slot in self._without_start:
            if self.jobs.starts[slot] < math.inf:
                self._promise(slot, now)
            else:
                still.append(slot)
        self._without_start = still

    def call_for(self, now: float) -> float | None:
        """Return a date (seconds) at which to be asked again, or None.

        Compression that leaves a job where it is can leave it with a start at which no
        job ends any more, so that nothing would happen then. O(running).
        """
        if not self.waiting_count:
            return None
        start = float(self.jobs.starts[self.waiting.slots[0]])
        if start == self._called_for or not now + PLAN_TOLERANCE < start < math.inf:
            return None
        running = self.running_slots
        for slot in running[np.abs(self.jobs.ends[running] - start) <= PLAN_TOLERANCE]:
            job = self.table.jobs[slot]
            if job.walltime is not None and job.walltime <= job.estimate:
                return None
        self._called_for = start
        return start

    def start_of(self, job_id: str) -> float:
        """Return the promised or actual start of a job (seconds). O(1)."""
        return float(self.jobs.starts[self.table.slot_of(job_id)])

    def slack_of(self, job_id: str) -> float:
        """Return by how much a waiting job may still be delayed (seconds). O(1)."""
        return float(self._latest[self.table.slot_of(job_id)]) - self.start_of(job_id)

    # Inserting and removing

    def place(self, now: float, first: int, end: int) -> None:
        """Insert new jobs, in order of arrival."""
        for slot in range(first, end):
            self._insert_new(slot, now)

    def _insert_new(self, slot: int, now: float) -> None:
        """Insert a new job at the least price (section 4.2)."""
        job = self.table.jobs[slot]
        priority = priority_of(job, FIRST_SCHEDULER_PRIORITY)
        if priority == -math.inf:
            # Over quota it may not disturb anybody.
            super().place(now, slot, slot + 1)
        else:
            self.jobs.starts[slot] = self._reschedule(
                now, job.processors, job.estimate, priority, math.inf, self._due(now)
            )
            self._insert(self.waiting, self.jobs.starts, slot)
        self._priorities[slot] = priority
        self._latest[slot] = math.inf
        if self.jobs.starts[slot] < math.inf:
            self._promise(slot, now)
        else:
            self._without_start.append(slot)

    def _promise(self, slot: int, now: float) -> None:
        """Settle priority and slack, now that the first start is known (section 4.3)."""
        job, start = self.table.jobs[slot], float(self.jobs.starts[slot])
        average = self._average_wait.of(job.estimate, now)
        priority = priority_of(job, scheduler_priority(start - now, average))
        slack = first_slack(priority, self._policy.slack_factor, average)
        self._priorities[slot] = priority
        self._first_slacks[slot] = slack
        self._latest[slot] = start + slack
        self.promises.append(Promise(job, start + slack))

    def compress(self, now: float) -> None:
        """Use what an early end has left free: insert a null job of priority 1."""
        waiting = self.waiting_slots.copy()
        before = self.jobs.starts[waiting]
        if self._policy.removal == "compression":
            super().compress(now)
        else:
            self._reschedule(now, 0, 0.0, 1.0, math.inf, self._due(now))
        self._settle_gains(waiting, before)

    def _settle_gains(self, waiting: Ints, before: Floats) -> None:
        """Turn what jobs have gained since their starts were these into promises, if asked to."""
        if self._policy.early_gain == "slack":
            return
        # From infinite to finite is no gain of so many seconds, but a first start.
        up = (self.jobs.starts[waiting] < before) & (before < math.inf)
        moved = waiting[up]
        self._latest[moved] -= before[up] - self.jobs.starts[moved]
        self.promises += [Promise(self.table.jobs[s], float(self._latest[s])) for s in moved]

    def _due(self, now: float) -> int:
        """Return how many jobs have to start now: they are as good as running."""
        starts = self.jobs.starts[self.waiting_slots]
        return int(np.searchsorted(starts, now + PLAN_TOLERANCE, side="right"))

    def _reschedule(
        self,
        now: float,
        processors: int,
        estimate: float,
        priority: float,
        latest: float,
        fixed: int,
        most: float = math.inf,
    ) -> float:
        """Adopt the cheapest schedule with a new job, and reserve the job's processors.

        Returns
        -------
        float
            Start of the new job (seconds); infinite if its price is not below ``most``,
            and then nothing is changed.
        """
        count = self.waiting_count
        heuristic = self._policy.heuristic
        if heuristic == EXHAUSTIVE and count > self._policy.exhaustive_up_to:
            heuristic = AST
        self._make_room_for_trials()
        assert self.profile.size[0] + STEPS_PER_RESERVATION <= len(self.profile.times)
        changed, position, start, price, _ = self._cheapest(
            now, self.machine_size, self.running, self.jobs, self.waiting, fixed,
            self._priorities, self._first_slacks, self._latest,
            processors, estimate, priority, latest, self._policy.weights, heuristic,
            self._policy.removal == "cheapest",
            self.profile, self._base, self._trial, self._best, self._room, self._line,
        )  # fmt: skip
        if not price < most:
            return math.inf
        if changed:
            self._adopt_best(self.waiting, position, self.jobs.starts, self._room[BEST])
            # The schedule's profile is the new one; the old arrays serve the next search.
            self.profile, self._best = self._best, self.profile
        elif processors > 0:
            reserve(self.profile, start, estimate, processors)
        return float(start)

    def rebuild(self, now: float) -> None:
        """As :meth:`Plan.rebuild`; gains and latest starts are settled."""
        waiting = self.waiting_slots.copy()
        before = self.jobs.starts[waiting]
        super().rebuild(now)
        # Besides an end that comes late there can be one that comes early.
        self._settle_gains(waiting, before)
        self._latest[waiting] = np.maximum(self._latest[waiting], self.jobs.starts[waiting])

    # Jobs that reach their estimates

    def watch(self, job: Job) -> float:
        """Have a running job looked at when it reaches its estimate; return that date (seconds)."""
        slot = self.table.slot_of(job.id)
        date = float(self.jobs.ends[slot]) + TICK_GRACE
        # A call has to be later than now, even at dates so late that the grace is nothing.
        date = max(date, math.nextafter(float(self.jobs.starts[slot]), math.inf))
        heapq.heappush(self._ticks, (date, slot))
        return date

    def overruns(self, now: float, *, extend: bool) -> list[Overrun]:
        """Settle what becomes of running jobs that have reached their estimate.

        Parameters
        ----------
        now
            Date (seconds); to be called before :meth:`decide`.
        extend
            Whether a job may go on where that is cheaper than killing it (section 4.7).

        Returns
        -------
        list of Overrun
            In order of the date, then of arrival.
        """
        found: list[Overrun] = []
        while self._ticks and self._ticks[0][0] <= now + TICK_ROUNDING:
            _, slot = heapq.heappop(self._ticks)
            job = self.table.jobs[slot]
            if not self.is_running(slot):
                continue
            if not found and extend:
                self._settle_ends(now)
            run_time = now - float(self.jobs.starts[slot])
            killed = not (extend and self._extend(slot, now))
            if killed:
                # Otherwise it would count as running on from here.
                self.expect_end(slot, now)
            found.append(Overrun(job, run_time, killed))
        return found

    def _settle_ends(self, now: float) -> None:
        """Let what is free already count before anybody is asked to give way."""
        if self.forget_gone(now) and self.waiting_count:
            self.compress(now)

    def _extend(self, slot: int, now: float) -> bool:
        """Extend a job if that is cheaper than killing it."""
        job = self.table.jobs[slot]
        more = EXTENSION * job.estimate
        cost = price_of_killing(job.processors, job.estimate, self._policy.weights)
        # With the priority it was inserted with: after that it is 0 for a job that never waited.
        priority = priority_of(job, FIRST_SCHEDULER_PRIORITY)
        if priority == -math.inf:
            priority, fixed = 1.0, self.waiting_count
        else:
            fixed = 0
        self.make_room()
        # Past extensions must not pile up where no job arrives, which is when plans are trimmed.
        self._trim(self.profile, now)
        start = self._reschedule(now, job.processors, more, priority, now, fixed, cost)
        if start == math.inf:
            return False
        self.expect_end(slot, now + more)
        return True

    # Room

    def arrived(self, job: Job) -> None:
        """Add a job that waits from now on. Amortised O(1)."""
        super().arrived(job)
        if len(self.table) > len(self._latest):
            self._priorities = grown(self._priorities)
            self._first_slacks = grown(self._first_slacks)
            self._latest = grown(self._latest)

    def _make_room_for_trials(self) -> None:
        steps, jobs = len(self.profile.times), len(self.waiting.slots)
        if len(self._best.times) < steps or len(self._line) < jobs:
            self._allot(steps, jobs)

    def _allot(self, steps: int, jobs: int) -> None:
        self._base, self._trial, self._best = (new_profile(0, steps) for _ in range(3))
        self._room = np.zeros((ROWS, jobs))
        self._line = np.zeros(jobs, np.int64)
