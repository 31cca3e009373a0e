"""A plan in which jobs may be delayed, but never beyond their slack."""

from __future__ import annotations

import heapq
import math
from typing import NamedTuple

import numpy as np

from qops_batsim.jobs import Job, QosRequest
from qops_batsim.platform.hostset import HostSet
from qops_batsim.scheduling.core.columns import LATEST_STARTS
from qops_batsim.scheduling.core.decision import can_end, refuse_unfit, update_running
from qops_batsim.scheduling.core.plan import (
    compress_plan,
    expect_end,
    forget_gone,
    has_lost_hosts,
    insert_by_start,
    rebuild_plan,
    reserve_anew,
    settle,
    start_due,
    take_up_lags,
)
from qops_batsim.scheduling.core.state import (
    EVER,
    IDLE,
    IS_RESIZED,
    NOW,
    PHASE,
    SUSPENSIONS,
)
from qops_batsim.scheduling.plan import Plan
from qops_batsim.scheduling.profile import Floats, Ints, reserve, trim
from qops_batsim.scheduling.slack.options import SlackOptions
from qops_batsim.scheduling.slack.orders import AST, EXHAUSTIVE, HEURISTICS
from qops_batsim.scheduling.slack.prices import price_of_killing
from qops_batsim.scheduling.slack.priority import (
    FIRST_SCHEDULER_PRIORITY,
    AverageWait,
    FixedAverageWait,
    LearnedAverageWait,
    first_slack,
    priority_of,
    scheduler_priority,
)
from qops_batsim.scheduling.slack.search import (
    NULL_JOB,
    NewJob,
    Rules,
    adopt_from,
    cheapest_schedule,
    new_room,
)
from qops_batsim.timing import PLAN_TOLERANCE, duration_on_grid, end_of, on_grid, up_to_grid

EXTENSION = 0.1
"""A job that reaches its estimate asks for this part of it in addition (section 4.7)."""

TICK_GRACE = PLAN_TOLERANCE
"""How long after its estimate a job is looked at (seconds).

Engines round the dates that they send, that of the start as well: a job that ends just
at its estimate must not be taken for one that does not.
"""

TICK_ROUNDING = PLAN_TOLERANCE / 2
"""How much earlier than that date the engine's may be (seconds)."""


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
        self._rules = Rules(
            np.array(
                [
                    options.utilization_weight,
                    options.time_weight,
                    options.priority_weight,
                    options.fairness_weight,
                ],
                np.float64,
            ),
            HEURISTICS[options.heuristic],
            options.removal == "cheapest",
        )
        self._average_wait: AverageWait = FixedAverageWait(options.average_wait)
        if options.average_wait_source == "learned":
            self._average_wait = LearnedAverageWait(
                options.average_wait, options.average_wait_window, options.average_wait_edges
            )
        # Jobs that wait behind one without estimate: what has no end gives no start.
        self._without_start: list[int] = []
        # Dates at which running jobs reach their estimates, if that concerns the plan.
        self._ticks: list[tuple[float, int]] = []
        self._called_for = -math.inf
        self._told = 0.0
        self._room = new_room(len(self.profile.times), len(self.waiting.slots))
        self._cheapest, self._adopt = cheapest_schedule, adopt_from

    @property
    def latest_starts(self) -> Floats:
        """By when jobs have to start (seconds), by slot; good until the next job arrives."""
        latest: Floats = self.jobs.latest_starts
        return latest

    def _decide_compiled(self) -> None:
        """Return that there is no kernel for whole decisions."""

    def _begin(self) -> None:
        state = self.state
        if state.counts[PHASE] != IDLE:
            return
        early, overdue = update_running(state)
        if state.counts[IS_RESIZED]:
            if has_lost_hosts(state) or overdue:
                self.rebuild()
            else:
                compress_plan(state, reserve_anew(state))
            settle(state)
        elif overdue:
            self.rebuild()
        elif early and self.waiting_count:
            self.compress(self.nominal(0.0))
        if state.counts[SUSPENSIONS]:
            settle(state)

    def _end(self) -> bool:
        state = self.state
        if not can_end(state):
            return False
        late = start_due(state)
        if not self.started_slots and self.waiting_count and not state.running.size[0]:
            self.rebuild()
            late = start_due(state)
        if late:
            take_up_lags(state)
            self.rebuild()
        refuse_unfit(state)
        state.counts[PHASE] = IDLE
        return True

    def decide(self, now: float, free: HostSet) -> list[tuple[Job, HostSet | None]]:
        """As :meth:`Plan.decide`; jobs with a first start or a new promise are in ``promises``."""
        now = self._told = up_to_grid(float(now))
        started = super().decide(now, free)
        without, self._without_start = self._without_start, []
        for slot in without:
            self._promise(slot, now)
        for job, _ in started:
            self._average_wait.started(job.estimate, now - job.submission_time, now)
        return started

    def call_for(self, now: float) -> float | None:
        """Return a date (seconds) at which to be asked again, or None.

        Compression that leaves a job where it is can leave it with a start at which no
        job ends any more, so that nothing would happen then. O(running).
        """
        if not self.waiting_count:
            return None
        now = up_to_grid(float(now))
        start = float(self.jobs.starts[self.waiting.slots[0]])
        if start == self._called_for or not now < start < math.inf:
            return None
        running = self.running_slots
        for slot in running[self.jobs.ends[running] == start]:
            job = self.table.jobs[slot]
            if job.walltime is not None and job.walltime <= job.estimate:
                return None
        self._called_for = start
        return start

    def start_of(self, job_id: str) -> float:
        """Return the planned or actual start of a job (seconds). O(1)."""
        return float(self.jobs.starts[self.table.slot_of(job_id)])

    def slack_of(self, job_id: str) -> float:
        """Return by how much a waiting job may still be delayed (seconds). O(1)."""
        return float(self.jobs.latest_starts[self.table.slot_of(job_id)]) - self.start_of(job_id)

    # Inserting and removing

    def _place_new(self, slot: int) -> None:
        self.place(self.nominal(0.0), slot, slot + 1)

    def place(self, now: float, first: int, end: int) -> None:
        """Insert new jobs at the least price, in order of arrival (section 4.2)."""
        for slot in range(first, end):
            job = self.table.jobs[slot]
            priority = priority_of(job, FIRST_SCHEDULER_PRIORITY)
            if priority == -math.inf:
                # Over quota it may not disturb another job.
                super().place(now, slot, slot + 1)
            else:
                new = NewJob(job.processors, float(self.jobs.estimates[slot]), priority, math.inf)
                self.jobs.starts[slot] = self._reschedule(now, new, self._due())
                insert_by_start(self.waiting, self.jobs.starts, slot)
            self.jobs.priorities[slot] = priority
            self.jobs.latest_starts[slot] = math.inf
            self._promise(slot, now)

    def _promise(self, slot: int, now: float) -> None:
        """Settle priority and slack, once the first start is known (section 4.3)."""
        job, start = self.table.jobs[slot], float(self.jobs.starts[slot])
        if start == math.inf:
            self._without_start.append(slot)
            return
        average = self._average_wait.of(job.estimate, now)
        priority = priority_of(job, scheduler_priority(start - now, average))
        slack = first_slack(priority, self._options.slack_factor, average)
        self.jobs.priorities[slot] = priority
        self.jobs.first_slacks[slot] = slack
        self.jobs.latest_starts[slot] = on_grid(start + slack)
        self.promises.append(Promise(job, start + slack))

    def compress(self, now: float) -> None:
        """Use what an early end has left free: insert a null job (section 4.5)."""
        waiting = self.waiting_slots.copy()
        before = self.jobs.starts[waiting]
        if self._options.removal == "compression":
            compress_plan(self.state, now)
        else:
            self._reschedule(now, NULL_JOB, self._due())
        self._settle_gains(waiting, before)

    def rebuild(self) -> None:
        """Make the plan anew; gains and latest starts are settled."""
        waiting = self.waiting_slots.copy()
        before = self.jobs.starts[waiting]
        rebuild_plan(self.state)
        # Besides an end that comes late there can be one that comes early.
        self._settle_gains(waiting, before)
        latest = self.jobs.latest_starts
        latest[waiting] = np.maximum(latest[waiting], self.jobs.starts[waiting])

    def _settle_gains(self, waiting: Ints, before: Floats) -> None:
        """Turn what jobs have gained since their starts were these into promises, if asked to."""
        if self._options.early_gain == "slack":
            return
        # From infinite to finite is no gain of so many seconds, but a first start.
        up = (self.jobs.starts[waiting] < before) & (before < math.inf)
        moved, latest = waiting[up], self.jobs.latest_starts
        gains = before[up] - self.jobs.starts[moved]
        for slot, gain in zip(moved.tolist(), gains.tolist(), strict=True):
            latest[slot] = on_grid(float(latest[slot]) - gain)
            self.promises.append(Promise(self.table.jobs[slot], float(latest[slot])))

    def _due(self) -> int:
        """Return how many jobs have to start now: they are as good as running."""
        starts = self.jobs.starts[self.waiting_slots]
        return int(np.searchsorted(starts, self._told, side="right"))

    def _reschedule(self, now: float, new: NewJob, fixed: int, most: float = math.inf) -> float:
        """Adopt the cheapest schedule with a new job, and reserve the job's processors.

        Returns
        -------
        float
            Start of the new job (seconds); infinite if its price is not below ``most``,
            and then nothing is changed.
        """
        rules, room = self._rules, self._room
        if rules.heuristic == EXHAUSTIVE and self.waiting_count > self._options.exhaustive_up_to:
            rules = rules._replace(heuristic=AST)
        steps, slots = len(self.profile.times), len(self.waiting.slots)
        if len(room.best.times) < steps or len(room.line) < slots:
            room = self._room = new_room(steps, slots)
        changed, position, start, price, _ = self._cheapest(
            float(now), self.present, self.state.running, self.jobs, self.waiting, fixed,
            new, rules, self.profile, room,
        )  # fmt: skip
        if not price < most:
            return math.inf
        if changed:
            self._adopt(position, room.rows, self.jobs, self.waiting)
            self.state.given.dates[:] = EVER
            # The schedule's profile is the new one; the old arrays serve the next search.
            self._room = room._replace(best=self.profile)
            self.state = self.state._replace(profile=room.best)
        elif new.processors > 0:
            reserve(self.profile, start, new.estimate, new.processors)
        return float(start)

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
        now = self._told = up_to_grid(float(now))
        while self._ticks and self._ticks[0][0] <= told:
            _, slot = heapq.heappop(self._ticks)
            if not self.is_running(slot):
                continue
            self.state.clock[NOW] = now
            if not found and extend and forget_gone(self.state) and self.waiting_count:
                # What is free already counts before a job is asked to give way.
                self.compress(self.nominal(now))
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
        cost = price_of_killing(job.processors, job.estimate, self._rules.weights)
        # With the priority it was inserted with: after that it is 0 for a job that never waited.
        priority, fixed = priority_of(job, FIRST_SCHEDULER_PRIORITY), 0
        if priority == -math.inf:
            priority, fixed = 1.0, self.waiting_count
        self.make_room()
        # Past extensions must not pile up where no job arrives, which is when plans are trimmed.
        trim(self.profile, now)
        new = NewJob(job.processors, more, priority, float(now))
        if self._reschedule(now, new, fixed, cost) == math.inf:
            return False
        expect_end(self.state, slot, end_of(now, more))
        return True


def warm_up(plan: SlackPlan) -> None:
    """Compile the kernels of an empty plan of one processor: each of them works once."""
    for index, political in enumerate((0.0, 0.0, 0.0, None)):
        qos = QosRequest(estimated_runtime=10.0, political_priority=political)
        plan.arrived(Job(f"warm-up!{index}", 0.0, 1, "none", qos=qos))
    for date in (0.0, 5.0):
        for job, _ in plan.decide(date, HostSet.first(1)):
            plan.watch(job)
        if date == 0.0:
            plan.left("warm-up!0")
    plan.overruns(16.0, extend=True)
    plan.decide(20.0, HostSet())
