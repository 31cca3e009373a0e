"""A plan that may kill a running job, to be run again from scratch, for a more urgent one."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np

from qops_batsim.economics.tolerance import Tolerance
from qops_batsim.jobs import Job
from qops_batsim.platform.hostset import HostSet
from qops_batsim.scheduling.admission.common_kernels import REJECTED, meets
from qops_batsim.scheduling.admission.feedback import FeedbackPlan
from qops_batsim.scheduling.admission.feedback_search import FeedbackSearch
from qops_batsim.scheduling.admission.plan import Held
from qops_batsim.scheduling.plan_kernels import sort_by_start
from qops_batsim.scheduling.profile import STEPS_PER_RESERVATION, Ints, earliest_fit
from qops_batsim.scheduling.table import grown
from qops_batsim.timing import PLAN_TOLERANCE


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


class Kill(NamedTuple):
    """A running job that is to be killed.

    Attributes
    ----------
    slot
        Its slot, which the same work, run again, keeps.
    victim
        The job as it runs.
    again
        The same work under the identifier under which it is to be registered.
    sake
        Slot of the job that is admitted thereby.
    since
        When the victim started (seconds).
    """

    slot: int
    victim: Job
    again: Job
    sake: int
    since: float


class RestartPlan(FeedbackPlan):
    """A plan that kills and restarts jobs (Islam et al. 2004, section 8).

    If QoPS refuses a job, the running jobs are tried in the order of the
    processor-seconds that they have used: if the new job can be admitted without one of them,
    and that one, run again from scratch, still ends by the deadline that it was
    promised, it is killed. Jobs that could not end in time even if they were restarted at
    once are passed over, for no search could find a plan.

    A killed job keeps its slot: its work waits in the plan from the kill on, but cannot start
    before :meth:`registered` is called. Its processors count as free at once; jobs
    that are due there start when the engine has said that they are.

    Parameters
    ----------
    machine_size, search, tolerance, slack_factor
        See :class:`~qops_batsim.scheduling.admission.feedback.FeedbackPlan`.
    rules
        Which jobs may be killed.

    Attributes
    ----------
    kills
        Jobs to kill, until somebody takes them out.
    """

    def __init__(
        self,
        machine_size: int,
        search: FeedbackSearch,
        tolerance: Tolerance,
        slack_factor: float,
        rules: KillRules,
    ) -> None:
        super().__init__(machine_size, search, tolerance, slack_factor)
        self.kills: list[Kill] = []
        self._rules = rules
        self._dying: set[int] = set()
        self._originals: dict[int, Job] = {}
        self._kill_counts: dict[int, int] = {}
        self._freed = False

    def resume(self, now: float, jobs: Iterable[Held]) -> None:
        """Put an empty plan into the state that another plan had at a date."""
        held = list(jobs)
        super().resume(now, held)
        for slot, job in enumerate(held):
            if job.original is not None:
                self._originals[slot] = job.original
            if job.kills:
                self._kill_counts[slot] = job.kills

    def victims_of(self, slot: int) -> list[tuple[str, int]]:
        """Return which jobs are to be killed for a new one: id of what runs, and slot."""
        return [(kill.victim.id, kill.slot) for kill in self.kills if kill.sake == slot]

    def registered(self, slot: int) -> None:
        """Allow the work of a killed job to start again: it is dead, and the engine knows it."""
        self._dying.discard(slot)

    def withdraw(self, kill: Kill) -> None:
        """Drop the work of a job from the plan that had ended before it was killed. O(waiting)."""
        slot = kill.slot
        self._dying.discard(slot)
        self.table.replace(slot, kill.victim)
        self._kill_counts[slot] -= 1
        place = self._waiting[: self._waiting_count].tolist().index(slot)
        self._waiting[place : self._waiting_count - 1] = self._waiting[
            place + 1 : self._waiting_count
        ]
        self._waiting_count -= 1
        start = float(self._starts[slot])
        self._give_back(slot, start, start + float(self.table.estimates[slot]))
        self._freed = True

    def _forget_gone(self, now: float) -> bool:
        early = super()._forget_gone(now) or self._freed
        self._freed = False
        return early

    def _make_room(self) -> None:
        super()._make_room()
        # Every new job may send a running one back to the waiting ones.
        jobs = self._waiting_count + len(self.table) - self._first_new + len(self._running_place)
        while len(self._waiting) < jobs:
            self._waiting = grown(self._waiting)
        # Until the engine has killed it, such a job also counts as a running one.
        steps = STEPS_PER_RESERVATION * (jobs + len(self._running_place) + 2)
        while len(self._times) < steps:
            self._times = grown(self._times)
            self._steps_grew()

    def _hosts_for(self, slot: int, free: HostSet) -> HostSet | None:
        return None if slot in self._dying else super()._hosts_for(slot, free)

    def _take_later(self, now: float, slot: int, reason: str) -> str:
        if not self._impossible(now, slot) and self._kill_for(now, slot):
            return ""
        return super()._take_later(now, slot, reason)

    def _kill_for(self, now: float, slot: int) -> bool:
        """Take a new job into the plan by killing a running one, if that will do."""
        return any(self._try_without(now, slot, victim) for victim in self._candidates(now))

    def _candidates(self, now: float) -> Iterator[int]:
        """Yield slots of running jobs that might be killed, by used processor-seconds."""
        table = self.table
        running = self.running_slots.copy()
        estimates, starts = table.estimates[running], self._starts[running]
        possible = (
            (now - starts >= self._rules.youngest - PLAN_TOLERANCE)
            # To kill what is about to end, or should have ended, gains nothing.
            & (starts + estimates > now + PLAN_TOLERANCE)
            & (estimates < math.inf)
            & (now + estimates <= table.deadlines[running] + PLAN_TOLERANCE)
        )
        running, starts = running[possible], starts[possible]
        used = table.processors[running] * (now - starts)
        most = self._rules.max_kills
        for slot in running[np.lexsort((running, starts, used))].tolist():
            if slot in self._dying or (most is not None and self._kill_counts.get(slot, 0) >= most):
                continue
            yield slot

    def _try_without(self, now: float, slot: int, victim: int) -> bool:
        """Try to take in a new job without a running one, and that one's work again."""
        since, end = float(self._starts[victim]), float(self._ends[victim])
        self._ends[victim] = now
        if self._plan_both(now, slot, victim):
            self._note_kill(slot, victim, since)
            return True
        self._ends[victim] = end
        return False

    def _plan_both(self, now: float, slot: int, victim: int) -> bool:
        table = self.table
        question = self._question(now, slot)
        estimate = table.estimates[slot]
        soonest = earliest_fit(
            question.base_times, question.base_free, question.base_steps, now, estimate,
            table.processors[slot],
        )  # fmt: skip
        if not meets(soonest, estimate, table.deadlines[slot]):
            return False
        if self._search(question).steps == REJECTED:
            return False
        count = self._waiting_count + 1
        waiting: Ints = question.order[:count].copy()
        starts = self._starts.copy()
        starts[waiting] = question.planned[:count]
        sort_by_start(waiting, count, starts)
        both = self._question(now, victim)._replace(
            waiting=waiting, waiting_count=count, starts=starts
        )
        steps = self._search(both).steps
        if steps == REJECTED:
            return False
        self._install(steps, jobs=2)
        return True

    def _note_kill(self, slot: int, victim: int, since: float) -> None:
        job = self.table.jobs[victim]
        original = self._originals.setdefault(victim, job)
        count = self._kill_counts[victim] = self._kill_counts.get(victim, 0) + 1
        again = original.renamed(f"{original.id}#{count}")
        self.table.replace(victim, again)
        self._dying.add(victim)
        # Jobs that keep their places may rest on the end that the victim would have had, at
        # which nothing happens any more: they are placed again when its end is told.
        self._freed = True
        self.kills.append(Kill(victim, job, again, slot, since))

    def original(self, slot: int) -> Job:
        """Return the job in a slot as it was submitted. O(1)."""
        return self._originals.get(slot, self.table.jobs[slot])
