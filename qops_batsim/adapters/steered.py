"""Deadline schedulers that a policy steers: at every request it refuses, admits, or makes an offer.

The planner is that of QoPS with feedback. A policy sees a few numbers (:data:`FEATURES`) and
chooses, for each job with a deadline,

* what is answered: :data:`REFUSE` it; :data:`ADMIT` it if the deadline can be kept beside all
  promises, else refuse it; or, if it cannot be kept, :data:`OFFER` the earliest deadline that can,
  which the user takes within the tolerance (option ``tolerance_factor``);
* in which order waiting jobs are placed anew for it: :data:`LEAST_LAXITY` or
  :data:`EARLIEST_DEADLINE` first.

Jobs without a deadline are always admitted.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Protocol

import msgspec
import numpy as np
import numpy.typing as npt

from qops_batsim.economics.tolerance import FixedTolerance
from qops_batsim.errors import InputError, shown
from qops_batsim.jobs import Job
from qops_batsim.protocol.decisions import Decision
from qops_batsim.protocol.events import JobCompleted
from qops_batsim.scheduling.admission.options import FqopsOptions, QopsOptions, ToleranceFactor
from qops_batsim.scheduling.answers import AdmissionAnswer, Held
from qops_batsim.scheduling.module import SchedulerOptions, System
from qops_batsim.scheduling.space_sharing import SpaceSharingScheduler

if TYPE_CHECKING:
    from qops_batsim.scheduling.admission.policy import Admission
    from qops_batsim.scheduling.plan import Plan
    from qops_batsim.scheduling.qos_log import QosLog

Observation = npt.NDArray[np.float32]
Action = tuple[int, int]

REFUSE, ADMIT, OFFER = ANSWERS = (0, 1, 2)
"""Answers to a job."""

LEAST_LAXITY, EARLIEST_DEADLINE = ORDERS = (0, 1)
"""Orders in which waiting jobs are placed anew."""

_ORDER_NAMES = ("least_laxity", "earliest_deadline")

FEATURES = (
    "processors",
    "estimate",
    "time_left",
    "delay_of_earliest_fit",
    "urgency",
    "free_now",
    "running_jobs",
    "waiting_jobs",
    "waiting_work",
    "work",
)
"""Names of the numbers that a policy sees, for the job and the plan as the last decision left it.

``processors``, ``free_now``
    Share of the machine.
``estimate``, ``time_left``, ``delay_of_earliest_fit``
    ln(1 + seconds): estimated run time, time until the deadline, wait until the job would start if
    no other job moved.
``urgency``
    Estimate over the time left, at most 2: beyond 1 the job cannot end in time.
``running_jobs``, ``waiting_jobs``
    ln(1 + number).
``waiting_work``, ``work``
    ln(1 + seconds in which the whole machine would do it): that of the waiting jobs, of this one.
"""

HIGHEST = 64.0
"""No feature exceeds it, and none is below 0."""


class SteeredOptions(QopsOptions, frozen=True, kw_only=True):
    """Options of :class:`Steered`: those of QoPS, whose ``order`` follows from actions here."""

    tolerance_factor: ToleranceFactor = 1.0


class Steering(Protocol):
    """Policy beside the scheduler, which also learns what became of the jobs."""

    def act(self, observation: Observation) -> Action:
        """Return the answer to a job and the order."""

    def decided(self, now: float, new: Sequence[Job], ended: Sequence[str], log: QosLog) -> None:
        """Learn of new jobs, of the ids of those that have ended, and what was promised."""


class Steered(SpaceSharingScheduler):
    """Deadline scheduler that asks :meth:`act` about every job with a deadline.

    A subclass overrides :meth:`act`, or there is a ``steering`` policy; else every job that cannot
    be kept in time gets an offer, which is ``fqops``.

    >>> class Cautious(Steered):
    ...     '''Refuses jobs that ask for more than half of the machine.'''
    ...     summary = "QoPS without wide jobs"
    ...     def act(self, observation):
    ...         return (REFUSE if observation[0] > 0.5 else ADMIT), LEAST_LAXITY
    >>> from qops_batsim import simulate
    >>> len(simulate(Cautious, "sdsc_sp2_deadlines_500").ended)
    500
    """

    summary = "QoPS with feedback, steered by a policy"
    Options = SteeredOptions
    options: SteeredOptions
    keeps_decisions = True
    needs_deadlines = True

    def __init__(
        self, options: SchedulerOptions | None = None, steering: Steering | None = None
    ) -> None:
        super().__init__(options)
        self._steering = steering

    def act(self, observation: Observation) -> Action:
        """Return the answer to a job and the order, given its :data:`FEATURES`."""
        return (OFFER, LEAST_LAXITY) if self._steering is None else self._steering.act(observation)

    def begin(self, system: System) -> None:
        """Start with an empty plan and no request."""
        self._new: list[Job] = []
        self._ended: list[str] = []
        self._actions: dict[str, Action] = {}
        super().begin(system)

    def new_plan(self, machine_size: int) -> Plan:
        """Return an empty plan for jobs that are admitted as the actions say."""
        from qops_batsim.scheduling.admission.feedback import OfferTerms
        from qops_batsim.scheduling.admission.policy import Admission, FeedbackAdmission
        from qops_batsim.scheduling.admission.qops_search import QopsSearch, rules_of
        from qops_batsim.scheduling.admission.restarts import KillTerms
        from qops_batsim.scheduling.plan import Plan

        self._policies: dict[Action, Admission] = {}
        retries, kills = FqopsOptions().retry_count, KillTerms(False, -1, math.inf)
        tolerance = FixedTolerance(self.options.tolerance_factor)
        for order in ORDERS:
            options = msgspec.structs.replace(self.options, order=_ORDER_NAMES[order])
            search, terms = QopsSearch(options), OfferTerms(1.0, retries, kills, rules_of(options))
            self._policies[ADMIT, order] = Admission(search)
            self._policies[OFFER, order] = FeedbackAdmission(search, terms, tolerance)
        return Plan(machine_size, _EachItsOwn(self))

    def submitted(self, job: Job) -> None:
        """Keep a job until all events of the message are known."""
        self._new.append(job)

    def completed(self, event: JobCompleted) -> None:
        """Take the job's hosts back."""
        super().completed(event)
        self._ended.append(event.job_id)

    def decide(self, now: float) -> list[Decision]:
        """Ask about the new jobs, and return what is decided."""
        new, self._new = self._new, []
        actions: list[Action] = []
        for job in new:
            action = OFFER, LEAST_LAXITY
            if deadline_of(job) < math.inf:
                action = checked_action(self.act(self.observe(now, job)))
            if action[0] == REFUSE:
                self.reject(job, "refused by the policy")
                continue
            actions.append(action)
            self._actions[job.id] = action
            super().submitted(job)
        if actions:
            # A single policy decides about the message in compiled code.
            plan, one = self._planned(), len(set(actions)) == 1
            plan.policy = self.policy_of(plan, actions[0]) if one else _EachItsOwn(self)
        decisions = super().decide(now)
        if self._steering is not None:
            self._steering.decided(now, new, self._ended, self.qos_log)
        self._ended.clear()
        return decisions

    def policy_of(self, plan: Plan, action: Action) -> Admission:
        """Return the policy of an action, whose profile of the running jobs is written anew."""
        from qops_batsim.scheduling.core.state import HAS_PROFILE

        plan.state.counts[HAS_PROFILE] = 0
        return self._policies[action]

    def action_of(self, slot: int) -> Action:
        """Return the action about the job in a slot of the plan."""
        return self._actions[self.original_id(slot)]

    def observe(self, now: float, job: Job) -> Observation:
        """Return the :data:`FEATURES` of a job at a date (seconds). O(steps + waiting)."""
        from qops_batsim.scheduling.profile import earliest_fit
        from qops_batsim.timing import duration_on_grid, on_grid

        plan, size = self._planned(), self.machine_size
        estimate, processors = job.estimate, job.processors
        left = max(deadline_of(job) - now, 0.0)
        start = math.inf
        if processors <= size:
            after = max(on_grid(now), float(plan.profile.times[0]))
            duration = float(duration_on_grid(estimate))
            start = float(earliest_fit(plan.profile, after, duration, processors))
        waiting, jobs = plan.waiting_slots, plan.jobs
        work = float((jobs.estimates[waiting] * jobs.processors[waiting]).sum()) / size
        numbers = (
            processors / size,
            math.log1p(estimate),
            math.log1p(left),
            math.log1p(max(start - now, 0.0)),
            min(estimate / left, 2.0) if left > 0 else 2.0,
            self.free_count / size,
            math.log1p(len(plan.running_slots)),
            math.log1p(len(waiting)),
            math.log1p(work),
            math.log1p(estimate * processors / size),
        )
        return np.minimum(np.array(numbers, np.float32), np.float32(HIGHEST))


def checked_action(action: Any) -> Action:
    """Return an action as two whole numbers; InputError if it is none."""
    numbers: list[int] = []
    with suppress(TypeError, ValueError, OverflowError):
        numbers = [int(each) for each in action if int(each) == each]
        if len(numbers) == len(action) == 2 and numbers[0] in ANSWERS and numbers[1] in ORDERS:
            return numbers[0], numbers[1]
    raise InputError(
        f"action is {shown(repr(action))}; the answer (0 refuse, 1 admit, 2 offer) and the order "
        "(0 least laxity, 1 earliest deadline), as in (1, 0), are expected"
    )


def deadline_of(job: Job) -> float:
    """Return the deadline that was asked for (seconds), infinite without."""
    deadline = None if job.qos is None else job.qos.deadline
    return math.inf if deadline is None else deadline


class _EachItsOwn:
    """Policy that decides about each job by its own action."""

    def __init__(self, scheduler: Steered) -> None:
        self._scheduler = scheduler

    def take(self, plan: Plan, now: float, slot: int) -> AdmissionAnswer | None:
        action = self._scheduler.action_of(slot)
        policy: Any = self._scheduler.policy_of(plan, action)
        answer: AdmissionAnswer | None = policy.take(plan, now, slot)
        return answer

    def resume(self, jobs: Sequence[Held]) -> None:
        """Know nothing of jobs that a plan has already."""
