"""Runs in the loop of events, without a simulation around it."""

from __future__ import annotations

from collections.abc import Sequence

from qops_batsim.core.scheduler import Scheduler
from qops_batsim.engine.delay_jobs import DelayJobs, Outcome
from qops_batsim.engine.loop_columns import loop_of, outcome_of
from qops_batsim.engine.options import ExternalEvent
from qops_batsim.jobs import Job
from qops_batsim.scheduling.news import News
from qops_batsim.scheduling.qos_log import QosLog


def run_sleeping(
    jobs: DelayJobs,
    listed: Sequence[Job],
    hosts: int,
    scheduler: Scheduler,
    events: Sequence[ExternalEvent] | None = None,
) -> Outcome:
    """Run a scheduler on jobs in columns, and return what became of them."""
    loop = loop_of(jobs, listed, hosts, events)
    loop.manager.qos_log, loop.manager.news = QosLog(), News.of(scheduler.options)
    loop.run(scheduler, lambda ended: None)
    return outcome_of(loop, jobs)
