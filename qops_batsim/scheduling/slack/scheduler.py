"""Slack-based backfilling with priorities (Talby and Feitelson 1999)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from qops_batsim.jobs import Job
from qops_batsim.limits import MAX_SECONDS
from qops_batsim.protocol.decisions import KillJob
from qops_batsim.scheduling.refusal import Refusal, RefusalKind
from qops_batsim.scheduling.slack.options import SlackOptions
from qops_batsim.scheduling.space_sharing import SpaceSharingScheduler

if TYPE_CHECKING:
    from qops_batsim.scheduling.plan import Renewal
    from qops_batsim.scheduling.slack.plan import Overrun, SlackPlan


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

    def __init__(self, options: SlackOptions | None = None) -> None:
        super().__init__(options)
        self.options.check()

    def new_plan(self, machine_size: int) -> SlackPlan:
        """Return an empty plan with these options."""
        from qops_batsim.scheduling.slack.plan import SlackPlan

        self._slack_plan = SlackPlan(machine_size, self.options)
        return self._slack_plan

    def schedule(self, now: float) -> None:
        """Settle overruns, place new jobs and start those whose promised start has come."""
        plan, watching = self._slack_plan, self.options.on_overrun != "none"
        if watching:
            for overrun in plan.overruns(now, extend=self.options.on_overrun == "extend"):
                self._settle(overrun, now)
        started = self._decided(now)
        for job, hosts in started:
            self.start(job, hosts)
            if watching and _may_outlive(job):
                self._call_at(plan.watch(job), now)
        self._call_for_start(now)
        date = plan.call_for()
        if date is not None:
            self._call_at(date, now)
        for promise in plan.promises:
            record = self.qos_log.record(promise.job.id)
            # The earliest one counts: where a job outlives its estimate, promises that were
            # made are not taken back.
            # Later than any date, a start is no promise.
            earliest = MAX_SECONDS if record.latest_start is None else record.latest_start
            if promise.latest_start < earliest:
                record.latest_start = promise.latest_start
        plan.promises.clear()
        self._note_renewals()

    def renewed(self, renewal: Renewal) -> None:
        """Note a latest start that was promised anew because hosts have left."""
        record = self.qos_log.record(self.original_id(renewal.slot))
        record.latest_start = renewal.promise if renewal.promise < MAX_SECONDS else None
        self._slack_plan.renew(renewal.slot, renewal.promise)
        record.note_renewal(renewal.broken, renewal.loss)

    def _settle(self, overrun: Overrun, now: float) -> None:
        """Kill a job that has reached its estimate, or let it go on."""
        job, estimate = overrun.job, overrun.job.estimate
        if not overrun.killed:
            self._call_at(self._slack_plan.watch(job), now)
            return
        extended = overrun.run_time > estimate + 2 * self.news.tolerance
        killed = Refusal(
            kind=RefusalKind.KILLED_AT_ESTIMATE,
            estimate=estimate,
            run_time=overrun.run_time if extended else None,
        )
        self.qos_log.record(job.id).reasons = (killed,)
        self._decisions.append(KillJob([job.id]))


def _may_outlive(job: Job) -> bool:
    """Whether a job may run longer than its estimate, which has to be a number."""
    if job.estimate == math.inf:
        return False
    return job.walltime is None or job.walltime > job.estimate
