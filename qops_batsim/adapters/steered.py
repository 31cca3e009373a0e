"""Deadline schedulers steered by a policy that answers every request: refuse, admit, offer.

The planner is that of QoPS with feedback. A policy sees a few numbers (:data:`FEATURES`) and
chooses, for each job with a deadline,

* what is answered: :data:`REFUSE` it; :data:`ADMIT` it if the deadline can be kept with all
  promises, else refuse it; or, if it cannot be kept, :data:`OFFER` the earliest deadline that can,
  which the user takes within the tolerance (option ``tolerance_factor``);
* in which order waiting jobs are placed again for it: :data:`LEAST_LAXITY` or
  :data:`EARLIEST_DEADLINE` first.

Jobs without a deadline are always admitted.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, ClassVar, Protocol

import numpy as np
import numpy.typing as npt

from qops_batsim.core.job import Job
from qops_batsim.core.options import SchedulerOptions
from qops_batsim.core.qos_log import QosLog
from qops_batsim.core.scheduler import ResourceManager
from qops_batsim.errors import InputError, shown
from qops_batsim.schedulers.fqops import Fqops, FqopsOptions, ToleranceFactor
from qops_batsim.schedulers.job_orders import ORDERS as JOB_ORDERS
from qops_batsim.schedulers.qops import QopsOptions
from qops_batsim.timing import on_grid

Observation = npt.NDArray[np.float32]
Action = tuple[int, int]

REFUSE, ADMIT, OFFER = ANSWERS = (0, 1, 2)
"""Answers to a job."""

LEAST_LAXITY, EARLIEST_DEADLINE = ORDERS = (0, 1)
"""Orders in which waiting jobs are placed again."""

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
    Share of the machine; where jobs share hosts, by dominant shares.
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
    """Options of the scheduler :class:`Steered`: those of QoPS except ``order``, which the policy
    chooses for each job.
    """

    tolerance_factor: ToleranceFactor = 1.0


class Steering(Protocol):
    """Protocol of a policy that answers requests for deadlines and learns what became of jobs."""

    def act(self, observation: Observation) -> Action:
        """Return the policy's action for a job: the answer, and the order in which waiting jobs are
        placed again for it.
        """

    def decided(self, now: float, new: Sequence[Job], ended: Sequence[str], log: QosLog) -> None:
        """Called after each decision: learn which jobs are new, the ids of ended jobs, and what was
        promised (``log``).
        """


class Steered(Fqops):
    """QoPS scheduler that calls :meth:`act`, a policy, to answer every job that requests a
    deadline.

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
    HOOKS: ClassVar[dict[str, str]] = {
        **Fqops.HOOKS,
        "act": "observation",
        "observe": "job",
    }

    def __init__(
        self, options: SchedulerOptions | None = None, steering: Steering | None = None
    ) -> None:
        given = SteeredOptions() if options is None else options
        # A subclass may have further options, which are no business of its base.
        names = SteeredOptions.__struct_fields__
        super().__init__(FqopsOptions(**{name: getattr(given, name) for name in names}))
        self.options = given
        self._steering = steering

    def act(self, observation: Observation) -> Action:
        """Return the answer to a job with these :data:`FEATURES`, and the order in which waiting
        jobs are placed again for it.
        """
        return (OFFER, LEAST_LAXITY) if self._steering is None else self._steering.act(observation)

    def begin(self, manager: ResourceManager) -> None:
        """Called at the start of the simulation: start with an empty plan and no unanswered
        requests.
        """
        super().begin(manager)
        self._new: list[Job] = []
        self._ended: list[str] = []
        self._actions: dict[str, Action] = {}

    def submitted(self, job: Job) -> None:
        """Called when a job is submitted: keep the job until all events of the same message are
        known.
        """
        self._new.append(job)

    def ended(self, job: Job) -> None:
        """Called when a job ends: remove it from the plan."""
        super().ended(job)
        self._ended.append(job.id)

    def decide(self) -> None:
        """Called after all events of a message: let the policy answer the new jobs, then plan and
        start jobs.
        """
        new = self._new
        self._new = []
        for job in new:
            action = OFFER, LEAST_LAXITY
            if job.deadline < math.inf:
                action = checked_action(self.act(self.observe(job)))
            if action[0] == REFUSE:
                self.manager.reject(job, "refused by the policy")
                continue
            self._actions[job.id] = action
            super().submitted(job)
        super().decide()

        if self._steering is not None:
            manager = self.manager
            self._steering.decided(manager.now, new, self._ended, manager.qos_log)
        self._ended.clear()

    def answer(self, job: Job) -> None:
        """Admit, refuse or make an offer to a new job, as the policy's action for it says."""
        answer, order = self._actions.pop(job.id)
        self.placing = JOB_ORDERS.index(
            "least_laxity" if order == LEAST_LAXITY else "earliest_deadline"
        )
        if answer == OFFER:
            super().answer(job)
            return
        refusal = self.attempt(job)
        if refusal is not None:
            self.refused(job, refusal)

    def observe(self, job: Job) -> Observation:
        """Return the current :data:`FEATURES` of a job, which its policy sees. O(steps + waiting
        jobs).
        """
        plan = self.plan
        now = self.manager.now
        size = self.manager.machine_size
        estimate = job.estimate
        processors = job.size
        free: float = self.manager.free
        if plan.use is not None:
            free = max(size - sum(running.size for running in plan.running), 0.0)

        left = max(job.deadline - now, 0.0)
        start = math.inf
        if processors <= size:
            after = max(on_grid(now), plan.profile.start)
            start = plan.profile.try_fit(job, after)

        work = sum(waiting.duration * waiting.size for waiting in plan.waiting) / size
        numbers = (
            processors / size,
            math.log1p(estimate),
            math.log1p(left),
            math.log1p(max(start - now, 0.0)),
            min(estimate / left, 2.0) if left > 0 else 2.0,
            free / size,
            math.log1p(len(plan.running)),
            math.log1p(len(plan.waiting)),
            math.log1p(work),
            math.log1p(estimate * processors / size),
        )
        return np.minimum(np.array(numbers, np.float32), np.float32(HIGHEST))


def checked_action(action: Any) -> Action:
    """Return a policy's action as two whole numbers, answer and order; InputError if it has another
    form.
    """
    numbers: list[int] = []
    with suppress(TypeError, ValueError, OverflowError):
        numbers = [int(number) for number in action if int(number) == number]
        if len(numbers) == len(action) == 2 and numbers[0] in ANSWERS and numbers[1] in ORDERS:
            return numbers[0], numbers[1]
    raise InputError(
        f"action is {shown(repr(action))}; the answer (0 refuse, 1 admit, 2 offer) and the order "
        "(0 least laxity, 1 earliest deadline), as in (1, 0), are expected"
    )
