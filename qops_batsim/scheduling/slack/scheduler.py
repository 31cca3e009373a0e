"""Slack-based backfilling with priorities (Talby and Feitelson 1999)."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import TYPE_CHECKING, Annotated, Literal

from msgspec import Meta

from qops_batsim.errors import InputError
from qops_batsim.jobs import Job, QosRequest
from qops_batsim.protocol.decisions import CallMeLater, KillJob
from qops_batsim.scheduling.module import SchedulerOptions
from qops_batsim.scheduling.slack.average_wait import (
    AverageWait,
    FixedAverageWait,
    LearnedAverageWait,
)
from qops_batsim.scheduling.space_sharing import SpaceSharingScheduler
from qops_batsim.timing import PLAN_TOLERANCE

if TYPE_CHECKING:
    from qops_batsim.scheduling.slack.plan import Overrun, Policy, SlackPlan


class SlackOptions(SchedulerOptions, frozen=True, kw_only=True):
    """Options of :class:`Slack`."""

    slack_factor: Annotated[
        float,
        Meta(ge=0, description="initial slack of a job of priority 0, in average wait times"),
    ] = 3.0
    average_wait: Annotated[
        float,
        Meta(
            gt=0,
            description="average wait time of the system; the default is the paper's, of the KTH "
            "SP2 in 1996/97. Where it is learned: what to assume at first",
            extra={"unit": "s"},
        ),
    ] = 2401.0
    average_wait_source: Annotated[
        Literal["fixed", "learned"],
        Meta(
            description="whether that number holds throughout, or the mean wait of the jobs that "
            "started within average_wait_window"
        ),
    ] = "fixed"
    average_wait_window: Annotated[
        float,
        Meta(
            gt=0,
            description="how long a learned average remembers starts; the default is 30 days",
            extra={"unit": "s"},
        ),
    ] = 2_592_000.0
    average_wait_edges: Annotated[
        tuple[float, ...],
        Meta(
            description="estimated run times that divide jobs into classes, each with its own "
            "learned average: [600, 3600, 28800]",
            extra={"unit": "s"},
        ),
    ] = ()
    utilization_weight: Annotated[
        float, Meta(ge=0, le=1, description="importance of the processors of moved jobs")
    ] = 1.0
    time_weight: Annotated[
        float, Meta(ge=0, le=1, description="importance of the lengths of waits and moves")
    ] = 1.0
    priority_weight: Annotated[
        float,
        Meta(ge=0, le=1, description="importance of priorities; that of fairness is its product"),
    ] = 1.0
    fairness_weight: Annotated[
        float, Meta(ge=0, le=1, description="importance of the part of its slack a job has used")
    ] = 1.0
    heuristic: Annotated[
        Literal[
            "ascending_scheduled_time",
            "ascending_arrival_time",
            "descending_utilization",
            "descending_cost",
            "descending_priority",
            "exhaustive",
        ],
        Meta(
            description="order in which delayed jobs are placed again; exhaustive: every order, "
            "up to exhaustive_up_to waiting jobs, and ascending_scheduled_time beyond"
        ),
    ] = "ascending_scheduled_time"
    exhaustive_up_to: Annotated[
        int,
        Meta(ge=0, le=9, description="most waiting jobs of which an exhaustive search tries all"),
    ] = 6
    removal: Annotated[
        Literal["cheapest", "compression", "null_job"],
        Meta(
            description="what an early end leads to: compression as in conservative backfilling, "
            "the cheapest schedule with a null job (which may leave gaps), or the cheaper of both"
        ),
    ] = "cheapest"
    early_gain: Annotated[
        Literal["slack", "promise"],
        Meta(
            description="what a job that moves up at an early end gains: slack, or an earlier "
            "promise (its latest start moves up as much)"
        ),
    ] = "slack"
    on_overrun: Annotated[
        Literal["none", "kill", "extend"],
        Meta(
            description="what to do about a job without walltime that reaches its estimate: "
            "nothing (promises move), kill it, or give it 10 % more where that is cheaper"
        ),
    ] = "none"


class Slack(SpaceSharingScheduler):
    """Every job is promised a latest start; jobs are delayed where that is cheaper.

    A new job is tried at every position of the plan. Jobs behind it are placed again,
    and each schedule has a price: what the new job's wait and the moves of the others
    cost, weighed by processors, priorities and used slack. The cheapest schedule in
    which no job is delayed beyond its slack is adopted; when a job ends early, the
    same search is made without a new job. With a slack factor of 0, jobs can be
    delayed only by what they gained since, unless gains are promises (``early_gain``).

    Plans with estimates (``qos.estimated_runtime``, else the walltime); a job
    without one is planned as if it never ended. Priorities are
    ``qos.user_priority`` and ``qos.political_priority`` (None: over quota).
    """

    summary = "slack-based backfilling with priorities (Talby and Feitelson 1999)"
    Options = SlackOptions
    options: SlackOptions

    def __init__(self, options: SchedulerOptions | None = None) -> None:
        super().__init__(options)
        for name in ("slack_factor", "average_wait", "average_wait_window"):
            value = getattr(self.options, name)
            if not math.isfinite(value):
                raise InputError(
                    f"scheduler 'slack': option {name} is {value}; it has to be finite"
                )
        edges = self.options.average_wait_edges
        shown = f"scheduler 'slack': option average_wait_edges is {list(edges)}"
        # Also what is no number is not in order.
        if not all(low < high for low, high in pairwise((0.0, *edges, math.inf))):
            raise InputError(f"{shown}; seconds above 0 in ascending order are expected")
        if edges and self.options.average_wait_source == "fixed":
            raise InputError(f"{shown}, which needs average_wait_source=learned")

    @classmethod
    def prepare(cls) -> None:
        """Compile the kernels by a small plan in which each of them works once."""
        from qops_batsim.platform.hostset import HostSet
        from qops_batsim.scheduling.slack.plan import SlackPlan

        module = cls()
        plan = SlackPlan(1, module.policy(), module.average_wait())
        for index, political in enumerate((0.0, 0.0, 0.0, None)):
            qos = QosRequest(estimated_runtime=10.0, political_priority=political)
            plan.arrived(Job(f"warm-up!{index}", 0.0, 1, "none", qos=qos))
        for job, _ in plan.decide(0.0, HostSet.first(1)):
            plan.watch(job)
        plan.left("warm-up!0")
        for job, _ in plan.decide(5.0, HostSet.first(1)):
            plan.watch(job)
        plan.overruns(16.0, extend=True)
        plan.decide(20.0, HostSet())

    def policy(self) -> Policy:
        """Return what the plan has to know of these options."""
        import numpy as np

        from qops_batsim.scheduling.slack import orders
        from qops_batsim.scheduling.slack.plan import Policy

        options = self.options
        weights = np.array(
            [
                options.utilization_weight,
                options.time_weight,
                options.priority_weight,
                options.fairness_weight,
            ]
        )
        heuristic = {
            "ascending_scheduled_time": orders.AST,
            "ascending_arrival_time": orders.AAT,
            "descending_utilization": orders.DU,
            "descending_cost": orders.DC,
            "descending_priority": orders.DP,
            "exhaustive": orders.EXHAUSTIVE,
        }[options.heuristic]
        return Policy(
            weights,
            heuristic,
            options.exhaustive_up_to,
            options.slack_factor,
            options.removal,
            options.early_gain,
        )

    def average_wait(self) -> AverageWait:
        """Return the average wait time that these options ask for."""
        options = self.options
        if options.average_wait_source == "fixed":
            return FixedAverageWait(options.average_wait)
        return LearnedAverageWait(
            options.average_wait, options.average_wait_window, options.average_wait_edges
        )

    def new_plan(self, machine_size: int) -> SlackPlan:
        """Return an empty plan with these options."""
        from qops_batsim.scheduling.slack.plan import SlackPlan

        self._slack_plan = SlackPlan(machine_size, self.policy(), self.average_wait())
        return self._slack_plan

    def schedule(self, now: float) -> None:
        """Settle overruns, place new jobs and start those whose promised start has come."""
        watching = self.options.on_overrun != "none"
        if watching:
            self._settle_overruns(now)
        for job, hosts in self._slack_plan.decide(now, self.free_hosts):
            self.start(job, hosts)
            if watching and _may_outlive(job):
                self._decisions.append(CallMeLater(self._slack_plan.watch(job)))
        date = self._slack_plan.call_for(now)
        if date is not None:
            self._decisions.append(CallMeLater(date))
        for promise in self._slack_plan.promises:
            record = self.qos_log.record(promise.job.id)
            # The earliest one counts: where a job outlives its estimate, promises that were
            # made are not taken back.
            earliest = math.inf if record.latest_start is None else record.latest_start
            if promise.latest_start < earliest:
                record.latest_start = promise.latest_start
        self._slack_plan.promises.clear()

    def _settle_overruns(self, now: float) -> None:
        extend = self.options.on_overrun == "extend"
        for overrun in self._slack_plan.overruns(now, extend=extend):
            job = overrun.job
            if overrun.killed:
                self.qos_log.record(job.id).reason = _why_killed(overrun)
                self._decisions.append(KillJob([job.id]))
            else:
                self._decisions.append(CallMeLater(self._slack_plan.watch(job)))


def _why_killed(overrun: Overrun) -> str:
    estimate = overrun.job.estimate
    if overrun.run_time <= estimate + PLAN_TOLERANCE:
        return f"killed at its estimate of {estimate:g} s"
    return f"killed at {overrun.run_time:g} s, extended from its estimate of {estimate:g} s"


def _may_outlive(job: Job) -> bool:
    """Whether a job may run longer than its estimate, which has to be a number."""
    if job.estimate == math.inf:
        return False
    return job.walltime is None or job.walltime > job.estimate
