"""The loop for simulations in which jobs only sleep, and a decision side only starts and rejects.

That is what most schedulers do. It gives the same events in the same order as the loop of
:mod:`~qops_batsim.engine.simulation`, for less than half the time: it knows jobs by their
positions in lists, and neither records nor waits. When another decision comes, or one that has
to be refused, it hands over to the other loop before that takes effect.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from heapq import heappop, heappush

import numpy as np

from qops_batsim.engine.delay_jobs import DelayJobs, Outcome
from qops_batsim.engine.waits import Wait
from qops_batsim.engine.world import World
from qops_batsim.jobs import COMPLETED_WALLTIME_REACHED, FINAL_STATES, REJECTED, SUBMITTED, Job
from qops_batsim.platform.host_intervals import HostIntervals
from qops_batsim.platform.hostset import HostSet
from qops_batsim.protocol.decisions import Decision, ExecuteJob, RejectJob
from qops_batsim.protocol.events import (
    NO_MORE_STATIC_JOBS,
    Event,
    JobCompleted,
    JobSubmitted,
    Notify,
)
from qops_batsim.timing import SAME_DATE

Ask = Callable[[float, list[Event]], Sequence[Decision]]
"""Tells the decision side what happens at a date (seconds), and returns its decisions."""

ENDED_AT_A_TIME = 256
"""After so many ends of jobs progress is reported."""

MOST_HOSTS_IN_SETS = 1_000
"""On more hosts than that, those of jobs that have ended are kept as intervals."""

_SUBMITTER = -1


class DelayLoop:
    """One simulation, from the first submission on.

    Attributes
    ----------
    now
        Current date (seconds).
    """

    def __init__(self, jobs: DelayJobs, listed: Sequence[Job], hosts: int, ask: Ask) -> None:
        self.now = 0.0
        self._jobs = jobs
        self._ask = ask
        self._listed = [listed[place] for place in jobs.places.tolist()]
        self._times = [*jobs.submission_times.tolist(), math.inf]
        self._processors = jobs.processors.tolist()
        self._run_times = jobs.run_times.tolist()
        self._states = [FINAL_STATES[code] for code in jobs.states.tolist()]
        self._codes = jobs.return_codes.tolist()
        # What is known of the jobs submitted so far, and of all.
        self._told: list[Job] = []
        self._waiting: dict[str, int] = {}
        self._starts = [math.nan] * len(self._listed)
        self._finishes = self._starts.copy()
        self._hosts = [_NO_HOSTS] * len(self._listed)
        self._ended: list[int] = []
        self._kept: list[HostIntervals] = []
        self._change_dates: list[float] = []
        self._computing: list[int] = []
        self._heap = [(max(0.0, self._times[0]), 0, _SUBMITTER)]
        self._began = 1
        self._all = hosts
        self._free = (1 << hosts) - 1
        self._busy = 0
        self._before_farewell = 0

    @property
    def ended_count(self) -> int:
        """Number of jobs that have ended or were rejected."""
        return len(self._ended)

    def run(self, on_progress: Callable[[int], None] | None) -> Sequence[Decision]:
        """Run until the end, or until decisions come that have to be handed over: return these."""
        heap, ask = self._heap, self._ask
        next_report = ENDED_AT_A_TIME
        while heap:
            date, number, job = heappop(heap)
            if date > self.now:
                self.now = date
            now = self.now
            soon = now + SAME_DATE
            events: list[Event] = []
            while True:
                if heap and heap[0][0] <= soon:
                    # All of them are of one date: they happen in the order in which they began.
                    due = [(number, job)]
                    while heap and heap[0][0] <= soon:
                        due.append(heappop(heap)[1:])
                    due.sort()
                    for _, job in due:
                        self._submit(events) if job < 0 else self._end(job, events)
                elif job < 0:
                    self._submit(events)
                else:
                    self._end(job, events)
                if not heap or heap[0][0] > soon:
                    break
                date, number, job = heappop(heap)
            if self._before_farewell and len(events) > self._before_farewell:
                events.append(self._farewell())
            decisions = ask(now, events)
            if decisions and (rest := self._carry_out(decisions)):
                return rest
            if self._before_farewell:
                decisions = ask(now, [self._farewell()])
                if decisions and (rest := self._carry_out(decisions)):
                    return rest
            if len(self._ended) >= next_report:
                next_report = len(self._ended) + ENDED_AT_A_TIME
                if self._all > MOST_HOSTS_IN_SETS:
                    self._keep_intervals()
                if on_progress is not None:
                    on_progress(len(self._ended))
        return ()

    def _farewell(self) -> Notify:
        self._before_farewell = 0
        return Notify.of(NO_MORE_STATIC_JOBS)

    def _submit(self, events: list[Event]) -> None:
        """Let the jobs of this date be submitted, and wait for that of the next ones."""
        times, told = self._times, self._told
        job = len(told)
        latest = max(self.now, times[job])
        while times[job] <= latest:
            submitted = self._listed[job]
            submitted = submitted.renamed(f"{self._jobs.name}!{submitted.id}")
            self._waiting[submitted.id] = job
            told.append(submitted)
            events.append(JobSubmitted(submitted.id, submitted))
            job += 1
        if job < len(self._listed):
            heappush(self._heap, (times[job], self._began, _SUBMITTER))
            self._began += 1
        else:
            self._before_farewell = len(events)

    def _end(self, job: int, events: list[Event]) -> None:
        """End a job now."""
        hosts, now = self._hosts[job], self.now
        self._free |= hosts.mask
        self._busy -= self._processors[job]
        self._finishes[job] = now
        self._ended.append(job)
        self._change_dates.append(now)
        self._computing.append(self._busy)
        events.append(JobCompleted(self._told[job].id, self._states[job], self._codes[job], hosts))

    def _carry_out(self, decisions: Sequence[Decision]) -> Sequence[Decision]:
        """Let decisions take effect; return them from the first on that has to be handed over."""
        now, waiting = self.now, self._waiting
        for place, decision in enumerate(decisions):
            if type(decision) is ExecuteJob:
                job_id, hosts = decision.job_id, decision.alloc
                job, mask = waiting.get(job_id, -1), hosts.mask
                if (
                    job < 0
                    or mask & self._free != mask
                    or mask.bit_count() != self._processors[job]
                    or not mask
                    or decision.mapping is not None
                ):
                    return decisions[place:]
                del waiting[job_id]
                self._free ^= mask
                self._busy += self._processors[job]
                self._change_dates.append(now)
                self._computing.append(self._busy)
                self._starts[job] = now
                self._hosts[job] = hosts
                heappush(self._heap, (now + self._run_times[job], self._began, job))
                self._began += 1
            elif type(decision) is RejectJob and decision.job_id in waiting:
                self._ended.append(waiting.pop(decision.job_id))
            else:
                return decisions[place:]
        return ()

    def _keep_intervals(self) -> None:
        """Keep the hosts of what has ended as intervals, which take less than sets."""
        kept = sum(len(each.offsets) - 1 for each in self._kept)
        fresh = self._ended[kept:]
        self._kept.append(HostIntervals.of([self._hosts[job] for job in fresh]))
        for job in fresh:
            self._hosts[job] = _NO_HOSTS

    def outcome(self) -> Outcome:
        """Return what became of the jobs."""
        self._keep_intervals()
        return Outcome(
            jobs=self._jobs,
            ended=np.array(self._ended, np.int64),
            starts=np.array(self._starts),
            finishes=np.array(self._finishes),
            hosts=HostIntervals.joined(self._kept),
            change_dates=np.array(self._change_dates),
            computing=np.array(self._computing, np.int64),
        )

    def hand_over(self, world: World, submitter: Wait, submitted: list[Job]) -> None:
        """Bring a world into the state of this simulation.

        ``submitter`` is the wait for the next submissions; the jobs submitted so far are
        taken off the end of its queue, ``submitted``.
        """
        del submitted[len(submitted) - len(self._told) :]
        world.now = self.now
        records = [world.new_record(self._jobs.name, job) for job in self._told]
        for record in records:
            record.state = SUBMITTED
        sets = self.outcome().hosts.sets()
        for job, hosts in zip(self._ended, sets, strict=True):
            record = records[job]
            record.state, record.return_code = REJECTED, 0
            if hosts:
                record.state, record.return_code = self._states[job], self._codes[job]
                record.start, record.finish = self._starts[job], self._finishes[job]
                record.hosts = hosts
            world.ended.append(record)
        changes = zip(self._change_dates, self._computing, strict=True)
        world.computing_changes += [(date, busy, self._all - busy) for date, busy in changes]
        world.waits.restart(self._began)
        for date, number, job in sorted(self._heap):
            if job == _SUBMITTER:
                world.waits.put(submitter, date, number)
                continue
            at_walltime = self._states[job] == COMPLETED_WALLTIME_REACHED
            world.resume(records[job], self._starts[job], self._hosts[job], at_walltime=at_walltime)
            world.waits.put(records[job].waits[0], date, number)
        if self._before_farewell:
            world.tell(self._farewell())


_NO_HOSTS = HostSet()
