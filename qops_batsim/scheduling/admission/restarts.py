"""Killing a running job, to be run again from scratch, for a more urgent one."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np

from qops_batsim.jobs import Job
from qops_batsim.scheduling.admission.policy import Admission
from qops_batsim.scheduling.admission.search import meets
from qops_batsim.scheduling.answers import Held, Kill
from qops_batsim.scheduling.core.columns import STARTS
from qops_batsim.scheduling.core.plan import sort_slots
from qops_batsim.scheduling.core.state import HAS_PROFILE, IS_FREED
from qops_batsim.scheduling.plan import Plan
from qops_batsim.scheduling.profile import Queue, earliest_fit
from qops_batsim.timing import DEADLINE_TOLERANCE, PLAN_TOLERANCE


class KillRules(NamedTuple):
    """Which running jobs may be killed.

    Attributes
    ----------
    max_kills
        Most kills of one job; None for any number.
    youngest
        Seconds that a job must have run. Batsim breaks off if it is told to kill a job
        that has not really started yet, which takes moments on a platform with latencies.
    """

    max_kills: int | None
    youngest: float


class Restarts:
    """Kills and restarts jobs (Islam et al. 2004, section 8).

    If the search finds no plan, the running jobs are tried in the order of the
    processor-seconds that they have used: if the new job can be admitted without one of
    them, and that one, run again from scratch, still ends in time, it is killed. Jobs
    that could not end in time even if they were restarted at once are passed over, for
    no search could find a plan.

    A killed job keeps its slot: its work waits in the plan from the kill on, but is held
    back before :meth:`registered` is called. Its processors count as free at once; jobs
    that are due there start when the engine has said that they are.
    """

    def __init__(self, rules: KillRules) -> None:
        self._rules = rules
        self._originals: dict[int, Job] = {}

    def resume(self, jobs: Iterable[Held]) -> None:
        """Know what was killed before; see :meth:`~qops_batsim.scheduling.plan.Plan.resume`."""
        for slot, job in enumerate(jobs):
            if job.original is not None:
                self._originals[slot] = job.original

    def original(self, plan: Plan, slot: int) -> Job:
        """Return the job in a slot as it was submitted. O(1)."""
        return self._originals.get(slot, plan.table.jobs[slot])

    def registered(self, plan: Plan, kill: Kill) -> None:
        """Allow the work of a killed job to start again: it is dead, and the engine knows it."""
        plan.jobs.is_held[kill.slot] = False

    def withdraw(self, plan: Plan, kill: Kill) -> None:
        """Drop the work of a job from the plan that had ended before it was killed. O(waiting)."""
        plan.table.replace(kill.slot, kill.victim)
        plan.jobs.kills[kill.slot] -= 1
        plan.jobs.is_dying[kill.slot] = False
        plan.note_undone(kill.slot)
        plan.withdraw(kill.slot)

    def kill_for(self, admission: Admission, plan: Plan, now: float, slot: int) -> Kill | None:
        """Take a new job into the plan by killing a running one, if that will do."""
        ends = plan.jobs.ends
        for victim in self._candidates(plan, now):
            since, end = plan.actual_start(victim), float(ends[victim])
            ends[victim] = now
            plan.state.counts[HAS_PROFILE] = 0
            if self._plan_both(admission, plan, now, slot, victim):
                return self._note_kill(plan, slot, victim, since)
            ends[victim] = end
            plan.state.counts[HAS_PROFILE] = 0
        return None

    def _candidates(self, plan: Plan, now: float) -> Iterator[int]:
        """Yield slots of running jobs that might be killed, by used processor-seconds."""
        jobs, running = plan.jobs, plan.running_slots.copy()
        estimates, starts = jobs.estimates[running], jobs.starts[running]
        youngest = self._rules.youngest - PLAN_TOLERANCE
        possible = (
            (now - starts >= youngest)
            # To kill what is about to end, or should have ended, gains nothing.
            & (starts + estimates > now + PLAN_TOLERANCE)
            & (estimates < math.inf)
            & (jobs.processors[running] <= plan.present)
            & (now + estimates <= jobs.targets[running] + DEADLINE_TOLERANCE)
        )
        running, starts = running[possible], starts[possible]
        used = jobs.processors[running] * (now - starts)
        most = math.inf if self._rules.max_kills is None else self._rules.max_kills
        for slot in running[np.lexsort((running, starts, used))].tolist():
            may_run_on = jobs.is_held[slot] or jobs.kills[slot] >= most
            if not may_run_on and now - plan.actual_start(slot) >= youngest:
                yield slot

    def _plan_both(
        self, admission: Admission, plan: Plan, now: float, slot: int, victim: int
    ) -> bool:
        """Plan a new job without a running one, and then that one's work again."""
        jobs = plan.jobs
        question = admission.question(plan, now, slot)
        estimate = float(jobs.estimates[slot])
        soonest = earliest_fit(question.running, now, estimate, int(jobs.processors[slot]))
        if not meets(soonest, estimate, float(jobs.targets[slot])):
            return False
        if not admission.search(question).found:
            return False
        count = plan.waiting_count + 1
        waiting = question.draft.order[:count].copy()
        numbers = jobs.numbers.copy()
        starts = numbers[STARTS]
        starts[waiting] = question.draft.starts[:count]
        sort_slots(waiting, 0, count, starts)
        again = question._replace(
            jobs=jobs._replace(numbers=numbers),
            waiting=Queue(waiting, np.array([count])),
            new=victim,
        )
        if not admission.search(again).found:
            return False
        admission.install(plan, jobs=2)
        return True

    def _note_kill(self, plan: Plan, slot: int, victim: int, since: float) -> Kill:
        job = plan.table.jobs[victim]
        original = self._originals.setdefault(victim, job)
        jobs = plan.jobs
        jobs.kills[victim] += 1
        count = int(jobs.kills[victim])
        again = original.renamed(f"{original.id}#{count}")
        plan.table.replace(victim, again)
        jobs.lags[victim], jobs.is_dying[victim] = 0.0, True
        plan.table.reserve_all(victim)
        jobs.is_held[victim] = True
        # Jobs that keep their places may rest on the end that the victim would have had, at
        # which nothing happens any more: they are placed again when its end is told.
        plan.state.counts[IS_FREED] = 1
        return Kill(victim, job, again, slot, since)
