"""A plan: the start planned for every waiting job, as conservative backfilling keeps it.

The availability profile holds the running jobs up to their expected ends and the
waiting jobs at their planned starts. What is reserved is a number of processors, or
certain hosts.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any, Protocol

import numpy as np

from qops_batsim.jobs import Job
from qops_batsim.kernels import Steady
from qops_batsim.platform.hostset import HostSet
from qops_batsim.scheduling import plan_kernels, profile
from qops_batsim.scheduling.answers import Answer, Held, Observer
from qops_batsim.scheduling.host_words import WORD_BITS, hosts_of, words_of
from qops_batsim.scheduling.news import News
from qops_batsim.scheduling.profile import (
    STEPS_PER_RESERVATION,
    Ints,
    Jobs,
    Profile,
    Queue,
    grown,
    new_profile,
    new_queue,
)
from qops_batsim.scheduling.resizing import Resizing
from qops_batsim.scheduling.running_jobs import RunningJobs
from qops_batsim.scheduling.table import FIRST_CAPACITY, JobTable
from qops_batsim.timing import DEADLINE_TOLERANCE, GRID_TOLERANCE, end_of, on_grid, up_to_grid


class Policy(Protocol):
    """Decides about new jobs; without a policy each gets its earliest fit."""

    def take(self, plan: Plan, now: float, slot: int) -> Answer:
        """Take a new job into the plan, or refuse it."""

    def resume(self, jobs: Sequence[Held]) -> None:
        """Know what :meth:`Plan.resume` puts into the plan, by slot."""


class Plan:
    """Planned starts, kept up to date as jobs arrive and leave.

    Dates are nominal: a job that starts a little after its planned start, because news of
    an end took time to arrive, counts as started then, and is expected to end accordingly.
    What is a little is said by ``news``. So the delays of messages do not add up in the
    plan; what they add up to in truth is taken up when it reaches half the grace.

    Ends that come early compress the plan, which moves no start to a later date. A
    running job that outlives its estimate is assumed to run until its walltime, without one
    as long again; only then starts move to later dates.

    Parameters
    ----------
    machine_size
        Number of processors.
    policy
        Decides about new jobs.
    by_host
        Whether a reservation names its hosts, the lowest that fit, as batsched's
        ``conservative_bf`` plans: compression in order of arrival, at every end of a
        job. Else hosts are chosen at the start, which is exact for rigid jobs on
        interchangeable hosts.

    Attributes
    ----------
    table
        All jobs by slot.
    profile
        What is free beside the running and waiting jobs.
    waiting
        Slots of the waiting jobs by planned start, ties by arrival.
    running_jobs
        The running jobs.
    news
        How late news is.
    decided
        Number of jobs that a decision was made about: their slots are below it.
    answers
        What became of new jobs, by slot, until it is emptied.
    held_back
        Slots of waiting jobs that must not start yet.
    freed, given
        Whether something was given back beside ends of jobs since the last decision, and what
        was since the last compression.
    observer
        Told of every answer to a new job, if any.
    everything, resizing
        What is there (a number of processors, or a row of hosts), and what changes that.
    """

    def __init__(
        self, machine_size: int, policy: Policy | None = None, *, by_host: bool = False
    ) -> None:
        words = -(-machine_size // WORD_BITS) if by_host else 0
        self.machine_size = machine_size
        self.policy = policy
        self.table = JobTable(words)
        self.everything: Any = (
            words_of(HostSet.first(machine_size), words) if by_host else machine_size
        )
        self.profile: Profile = new_profile(self.everything)
        self.waiting: Queue = new_queue(FIRST_CAPACITY)
        self.running_jobs = RunningJobs(machine_size + 1)
        self.news = News()
        self.decided = 0
        self.answers: dict[int, Answer] = {}
        self.held_back: set[int] = set()
        self.freed = False
        self.given = plan_kernels.new_given(words)
        self.observer: Observer | None = None
        self.resizing = Resizing(machine_size, words, promises=policy is not None)
        self._by_host = by_host
        self._gone: list[int] = []
        self._trim, self._put_back = Steady(profile.trim), Steady(plan_kernels.give_back)
        self._more_time = Steady(plan_kernels.more_time)
        self._place, self._insert = Steady(plan_kernels.place), Steady(plan_kernels.insert_by_start)
        self._compress, self._rebuild = Steady(plan_kernels.compress), Steady(plan_kernels.rebuild)

    @property
    def jobs(self) -> Jobs:
        """The numbers of all jobs by slot; good until the next job arrives."""
        return self.table.numbers

    @property
    def waiting_count(self) -> int:
        """Number of waiting jobs."""
        return int(self.waiting.size[0])

    @property
    def waiting_slots(self) -> Ints:
        """Slots of the waiting jobs by planned start: a view, good until the next decision."""
        return self.waiting.slots[: self.waiting.size[0]]

    @property
    def running(self) -> Queue:
        """Slots of the running jobs in any order, for kernels."""
        return self.running_jobs.queue

    def is_running(self, slot: int) -> bool:
        """Whether a job runs and its end was not told yet. O(jobs told to have ended)."""
        return slot in self.running_jobs and slot not in self._gone

    def actual_start(self, slot: int) -> float:
        """Return when a running job was started (seconds). O(1)."""
        return on_grid(float(self.jobs.starts[slot]) + self.running_jobs.lags.get(slot, 0.0))

    # What happens

    def arrived(self, job: Job) -> None:
        """Add a job that waits from now on. Amortised O(1)."""
        self.table.add(job)

    def left(self, job_id: str) -> None:
        """Note that a running job has ended. O(1)."""
        self._gone.append(self.table.slot_of(job_id))

    def withdraw(self, slot: int) -> None:
        """Drop a waiting job from the plan. O(waiting)."""
        self.held_back.discard(slot)
        size = self.waiting_count
        place = self.waiting_slots.tolist().index(slot)
        self.waiting.slots[place : size - 1] = self.waiting.slots[place + 1 : size]
        self.waiting.size[0] -= 1
        start = float(self.jobs.starts[slot])
        self._give_back(slot, start, end_of(start, float(self.jobs.estimates[slot])))
        self.freed = True

    def resume(self, now: float, jobs: Iterable[Held], *, late_news: bool = False) -> None:
        """Put an empty plan into the state that another plan had at a date (seconds).

        It then answers as the other one would, whose ``jobs`` run or wait, in the order of
        arrival, and which had seen ``late_news`` or not. O(jobs²).
        """
        held = list(jobs)
        now = up_to_grid(float(now))
        if late_news:
            self.news.mark_late()
        for each in held:
            self.arrived(each.job)
        self.make_room()
        self.decided = len(self.table)
        for slot, each in enumerate(held):
            self.jobs.starts[slot], self.jobs.targets[slot] = each.start, each.target
            promise = float(self.jobs.promises[slot])
            if not late_news and promise + DEADLINE_TOLERANCE < each.target < math.inf:
                self.jobs.aims[slot] = promise
            if each.end is None:
                self._insert(self.waiting, self.jobs.starts, slot)
            else:
                self._run(slot, each.end, each.lag)
        plan_kernels.reserve_all(
            now, self.profile, self.everything, self.running, self.jobs, self.waiting
        )
        self.given.dates[:] = plan_kernels.EVER
        if self.policy is not None:
            self.policy.resume(held)

    # Decisions

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
            The jobs in order of their planned starts, with their hosts. O(waiting × steps).
        """
        now = up_to_grid(float(now))  # kernels keep the types of their first call
        new = len(self.table.jobs) > self.decided
        if new and self.news.late:
            self._aim(now)
        early = self.forget_gone(now)
        overdue = self._extend_overdue(now) or self._has_missed_start(now)
        if self.resizing.is_due:
            self.resizing.fit(self, now, anew=overdue)
        elif overdue:
            self.rebuild(now)
        elif early and self.waiting.size[0]:
            self.compress(self.nominal(now))
        if self.resizing.suspended:
            self.resizing.settle(self)
        if new:
            self._take_new(now)
        started, late = self._start_due(now, free)
        if not started and self.waiting.size[0] and not self.running_jobs:
            # Nothing runs, so no later event would lead to a decision: starts that rested on
            # dates a little off must not keep the machine idle.
            self.rebuild(now)
            started, late = self._start_due(now, free)
        if late:
            # A job started so late that it will also end later than the plan says.
            self.running_jobs.take_up_lags(self.jobs.starts, self.jobs.ends)
            self.rebuild(now)
        return started

    def nominal(self, now: float) -> float:
        """Return the date (seconds) to plan from: now, or the start that news still holds up."""
        slots, size = self.waiting
        if not (self.news.late and size[0]):
            return now
        return min(now, float(self.table.numbers.starts[slots[0]]))

    def _aim(self, now: float) -> None:
        """Judge new jobs as if they had been told when they were submitted."""
        for slot in range(self.decided, len(self.table.jobs)):
            lag = self.news.submitted(self.table.jobs[slot], now)
            if lag:
                self.jobs.targets[slot] += lag

    def forget_gone(self, now: float) -> bool:
        """Give back the rest of ended jobs' reservations; return whether to compress."""
        if not self._gone and not self.freed:
            return False
        early = self.freed or (self._by_host and bool(self._gone))
        self.freed = False
        for slot in self._gone:
            end = float(self.jobs.ends[slot])
            if end > now + GRID_TOLERANCE:
                self._give_back(slot, now, end)
                early = True
            self.running_jobs.remove(slot)
        self._gone.clear()
        return early

    def _extend_overdue(self, now: float) -> bool:
        """Assume that jobs which outlive their estimate run on; tell if any do."""
        starts, ends = self.jobs.starts, self.jobs.ends
        slots = self.running_jobs.overdue(ends, now - self.news.tolerance)
        for slot in slots:
            starts[slot] = start = self.actual_start(slot)
            self.running_jobs.lags.pop(slot, None)
            more = self._more_time(now - start, float(self.jobs.limits[slot]))
            self.expect_end(slot, end_of(now, more))
        return bool(slots)

    def _has_missed_start(self, now: float) -> bool:
        """Whether a job should have started before: its processors come free only now."""
        slots, size = self.waiting
        due = now - self.news.tolerance
        return bool(size[0] and self.table.numbers.starts[slots[0]] < due)

    def _take_new(self, now: float) -> None:
        """Place the new jobs, or ask the policy about each."""
        first, end = self.decided, len(self.table.jobs)
        self.make_room()
        date = self.nominal(now)
        self._trim(self.profile, date)
        if self.policy is None:
            self.place(date, first, end)
        else:
            for slot in range(first, end):
                self._ask(self.policy, now, slot)
        self.decided = end

    def _ask(self, policy: Policy, now: float, slot: int) -> None:
        observer = self.observer
        if observer is not None:
            observer.asked(now, slot)
        answer = self.answers[slot] = policy.take(self, self.nominal(now), slot)
        if observer is not None:
            observer.answered(now, slot, answer)

    def _start_due(
        self, now: float, free: HostSet
    ) -> tuple[list[tuple[Job, HostSet | None]], bool]:
        """Start what is due and fits; tell whether the plan has to know that it was late."""
        started: list[tuple[Job, HostSet | None]] = []
        late = False
        jobs, waiting = self.table.numbers, self.waiting
        soon, in_time = now + GRID_TOLERANCE, now - self.news.most_lag
        count = int(waiting.size[0]) if free else 0
        while len(started) < count:
            slot = int(waiting.slots[len(started)])
            start = float(jobs.starts[slot])
            if start > soon:
                break
            hosts = self._hosts_for(slot, free)
            if hosts is None:
                break
            free = free - hosts
            late = late or start < in_time
            lag = 0.0 if start == now else on_grid(now - start)
            self._run(slot, end_of(start, float(jobs.estimates[slot])), lag)
            started.append((self.table.jobs[slot], hosts))
        if started:
            waiting.size[0] = left = count - len(started)
            waiting.slots[:left] = waiting.slots[len(started) : count]
        return started, late

    def _hosts_for(self, slot: int, free: HostSet) -> HostSet | None:
        """Return the hosts on which a due job can start, or None while it cannot."""
        if slot in self.held_back:
            return None
        if self._by_host:
            hosts = hosts_of(self.jobs.reserved[slot])
            return hosts if not hosts.mask & ~free.mask else None
        needed = int(self.jobs.processors[slot])
        return free.lowest(needed) if needed <= len(free) else None

    # Changing the plan

    def place(self, now: float, first: int, end: int) -> None:
        """Plan the jobs in slots ``first`` to ``end - 1`` at their earliest fits."""
        self._place(now, self.profile, self.jobs, self.waiting, first, end)

    def compress(self, now: float) -> None:
        """Move waiting jobs up to their earliest fits, by start, or by arrival if by host."""
        line = np.sort(self.waiting_slots) if self._by_host else self.waiting_slots
        self._compress(now, self.profile, self.jobs, self.waiting, line, self.given)

    def rebuild(self, now: float) -> None:
        """Make the plan anew, because running jobs will not end when it assumed."""
        mend = self.policy is not None and not self.news.late  # which is made up for otherwise
        running, jobs, waiting = self.running, self.jobs, self.waiting
        self._rebuild(now, self.profile, self.everything, running, jobs, waiting, mend)

    def expect_end(self, slot: int, end: float) -> None:
        """Expect a running job to end at a date (seconds). O(log running)."""
        self.running_jobs.expect(slot, end, self.jobs.ends)

    def make_room(self) -> None:
        """Make room for all jobs in the queue of waiting ones and in the profile.

        Every new job may send a running one back to the waiting ones, which until its end
        is told also counts as a running one.
        """
        running = len(self.running_jobs)
        jobs = self.waiting_count + len(self.table.jobs) - self.decided + running
        while len(self.waiting.slots) < jobs:
            self.waiting = self.waiting._replace(slots=grown(self.waiting.slots))
        steps = STEPS_PER_RESERVATION * (jobs + running + 2)
        while len(self.profile.times) < steps:
            times, free, size = self.profile
            self.profile = Profile(grown(times), grown(free), size)

    def _give_back(self, slot: int, start: float, end: float) -> None:
        self._put_back(self.profile, start, end, self.jobs.reserved[slot], self.given)

    def _run(self, slot: int, end: float, lag: float) -> None:
        """Count a job among the running ones. O(log running)."""
        self.running_jobs.add(slot)
        if lag:
            self.running_jobs.lags[slot] = lag
        self.expect_end(slot, end)
