"""Asking the admission search of a deadline scheduler about one more job; its plan stays.

That takes a hundredth of the time of asking the scheduler itself, for which
:mod:`~qops_batsim.running.plan_asker` rebuilds its plan at each question.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from qops_batsim.core.job import Job
from qops_batsim.core.machine import Machine
from qops_batsim.core.qos_log import QosLog
from qops_batsim.core.refusal import Refusal, as_refusal, no_time
from qops_batsim.core.system import HostDescription, System
from qops_batsim.errors import InputError
from qops_batsim.protocol.port import SchedulerModule, make_scheduler
from qops_batsim.running.bisection import earliest_deadline
from qops_batsim.schedulers.deadline import DeadlineScheduler
from qops_batsim.schedulers.standing import Standing
from qops_batsim.timing import DEADLINE_TOLERANCE, end_of

RESOLUTION = 1.0
"""Seconds by which an earliest deadline may be too late."""


def resume(
    module: SchedulerModule,
    snapshot: Standing,
    machine_size: int,
    profiles: Mapping[str, Any] = MappingProxyType({}),
    amounts: Machine | None = None,
) -> Any:
    """Begin a module on a machine of equal hosts, or of hosts with amounts, resume it from the
    snapshot of a plan, and return its scheduler.
    """
    module.qos_log = QosLog()
    hosts = (HostDescription(0, "host"),) * machine_size
    module.begin(System(hosts=hosts, profiles=profiles, amounts=amounts))
    module.go_on(snapshot)
    return module.scheduler


class EarliestEnd(NamedTuple):
    """The earliest end that can be promised to a job, and its planned start (seconds)."""

    end: float
    start: float


NO_END = EarliestEnd(math.inf, math.inf)


class SearchAsker:
    """Tries various deadlines for one new job with the admission search of a deadline scheduler,
    without changing its plan.

    The plan stays as it is, and so does what the job asked for. What schedulers do besides their
    search, such as killing, is not tried.
    """

    def __init__(self, scheduler: DeadlineScheduler, job: Job) -> None:
        self._scheduler = scheduler
        self._job = job
        self._now = scheduler.plan.nominal()
        scheduler.prepare()
        scheduler.failures = {}

    def start_for(self, deadline: float) -> float | None:
        """Return the start that would be planned for the new job with this deadline (both in
        seconds), None if the deadline is refused.
        """
        return self._job.trial if self._search(deadline) is None else None

    def refusal(self, deadline: float) -> Refusal | None:
        """Return why the new job is refused this deadline (seconds), None if it is not."""
        duration = self._job.duration
        left = deadline - self._now
        if duration > left + DEADLINE_TOLERANCE:
            return no_time(duration, left, deadline)
        reason = self._search(deadline)
        return None if reason is None else as_refusal(reason)

    def earliest(self, *, within: float = RESOLUTION, share: float = 0.0) -> EarliestEnd:
        """Return the earliest end that can be promised to the new job, :data:`NO_END` if none can.

        A bisection as in Islam et al. (2004, Figure 2), between the end with no other job waiting
        and that in the first gap of the plan, or else without deadline. The end that is
        returned was tried and can be promised; an end that is earlier by at most ``within``
        (seconds), or by a ``share`` of the time from now to it, was refused. O(log(span)) searches.
        """
        now = self._now
        duration = self._job.duration

        def planned_end(start: float) -> float:
            return end_of(start, duration)

        # No plan can be better than that in which nobody waits.
        low = planned_end(self._scheduler.running.try_fit(self._job, now))
        if low == math.inf:
            return NO_END
        start = self.start_for(low)
        if start is not None:
            return EarliestEnd(low, start)

        # The first gap moves no other job, so it is usually granted.
        gap = self._scheduler.plan.profile.try_fit(self._job, now)
        high = planned_end(gap)
        start = None if high == math.inf else self.start_for(high)
        if start is None:
            relaxed = self.start_for(math.inf)
            high = math.inf if relaxed is None else planned_end(relaxed)
            if high == math.inf:
                return NO_END

        earliest = earliest_deadline(
            self.start_for,
            low,
            high,
            granted=start,
            resolution=lambda deadline: max(within, share * (deadline - now)),
            planned_end=planned_end,
        )
        return NO_END if earliest is None else EarliestEnd(*earliest)

    def _search(self, deadline: float) -> object:
        """Return why the search finds no plan with this deadline (seconds), None if it does."""
        job = self._job
        promise = job.promise
        target = job.target
        job.promise = deadline
        job.target = deadline
        try:
            return self._scheduler.try_admission(job)
        finally:
            job.promise = promise
            job.target = target


EarliestPromises = dict[str, float]
"""Seconds from each job's submission to the earliest end that could be promised to it, by full
id."""


def deadline_scheduler(name: str, settings: Mapping[str, Any]) -> SchedulerModule:
    """Make the scheduler of this name with these options; raise InputError unless it promises
    deadlines.
    """
    module = make_scheduler(name, settings)
    if not isinstance(module.scheduler, DeadlineScheduler):
        raise InputError(
            f"scheduler {name!r} promises nothing; a scheduler that admits jobs by deadline, as "
            "qops, is expected"
        )
    return module


def watched_scheduler(
    name: str, settings: Mapping[str, Any], promises: EarliestPromises
) -> SchedulerModule:
    """Make a deadline scheduler that, before it answers a new job, records in ``promises`` the
    earliest end that it could promise.
    """
    kind: Any = type(deadline_scheduler(name, settings).scheduler)

    class Watched(kind):  # type: ignore[misc]
        def answer(self, job: Job) -> None:
            promises[job.id] = SearchAsker(self, job).earliest().end - job.arrival
            super().answer(job)

    return make_scheduler(Watched, settings)
