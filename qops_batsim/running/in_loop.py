"""Whole simulations of a scheduler in this process."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from qops_batsim.engine.engine_options import AVAILABLE, UNAVAILABLE
from qops_batsim.engine.loop import EmbeddedManager
from qops_batsim.engine.simulation import Simulation, ignore
from qops_batsim.errors import InputError
from qops_batsim.jobs import QOS_ACCEPTED, QOS_REJECTED
from qops_batsim.scheduling.news import News
from qops_batsim.scheduling.port import SchedulerModule
from qops_batsim.scheduling.qos_log import QosLog, ToldJobs
from qops_batsim.tables import Words
from qops_batsim.users.reacting import Reacting
from qops_batsim.workload.workload_model import Workload

if TYPE_CHECKING:
    from qops_batsim.engine.sleeping_jobs import DelayJobs, Outcome


def run_simulation(
    simulation: Simulation,
    workload: Workload,
    module: SchedulerModule,
    on_progress: Callable[[int], None] | None,
) -> None:
    """Run a simulation with a scheduler module, without messages if the jobs only sleep."""
    scheduler, needs, jobs = module.scheduler, module.needs, None
    # One that hears of messages in its own way is told in messages.
    is_usual, reacts = type(module) is SchedulerModule, isinstance(scheduler, Reacting)
    sleeps = not (scheduler.kills or needs.dynamic_jobs or needs.compute_sharing)
    if isinstance(scheduler, Reacting):
        if len(workload.jobs):
            raise InputError(
                f"{workload.source} has {len(workload.jobs)} jobs; users who react submit all "
                "jobs, so that their own workload (Users.no_jobs) is expected"
            )
        sleeps = scheduler.sleeps_only
    if is_usual and sleeps:
        jobs = simulation.delay_jobs(registering=reacts)
    if jobs is None:
        simulation.run()
    else:
        run_sleeps(simulation, jobs, workload, module, on_progress or ignore)


def run_sleeps(
    simulation: Simulation,
    jobs: DelayJobs,
    workload: Workload,
    module: SchedulerModule,
    report: Callable[[int], None],
) -> None:
    """Run a simulation whose jobs only sleep on hosts of their own."""
    from qops_batsim.engine.loop_columns import loop_of, outcome_of

    events = simulation.options.external_events
    loop = loop_of(jobs, workload.jobs, len(simulation.hosts), events)
    manager = loop.manager
    assert isinstance(manager, EmbeddedManager)
    manager.registers = isinstance(module.scheduler, Reacting)
    manager.qos_log, manager.news = module.qos_log, News.of(module.options)
    loop.run(module.scheduler, report)
    if isinstance(module.scheduler, Reacting):
        workload = module.scheduler.workload()
        jobs = simulation.know_registered(workload)
    outcome = outcome_of(loop, jobs)
    for event, date in zip(events or (), loop.happened_dates, strict=False):
        if event.type in (UNAVAILABLE, AVAILABLE) and event.hosts:
            simulation.happened.append(msgspec.structs.replace(event, timestamp=date))
    simulation.finish(lambda: outcome, manager.now, loop.ended_count)
    log_jobs(module.qos_log, workload, outcome)
    if module.decision_log is not None:
        module.follow(len(simulation.hosts))
    report(loop.ended_count)


def log_jobs(log: QosLog, workload: Workload, outcome: Outcome) -> None:
    """Fill the QoS log with the jobs and the decisions about them."""
    jobs, columns = outcome.jobs, outcome.jobs.columns
    never_started = outcome.ended[np.isnan(outcome.starts[outcome.ended])]
    # In the order in which they were.
    rejected = {
        f"{jobs.name}!{columns.ids[place]}": None for place in jobs.places[never_started].tolist()
    }

    def fill(log: QosLog) -> None:
        from qops_batsim.engine.sleeping_jobs import told_jobs

        for told in told_jobs(jobs, workload.jobs):
            log.jobs.append(told)
            if told.id not in rejected:
                log.started.append(told.id)
        log.rejected.extend(rejected)

    def tell() -> ToldJobs:
        requests, decisions = columns.requests, np.zeros(jobs.submitted, np.int64)
        decisions[never_started] = 1
        return ToldJobs(
            ids=jobs.full_ids(),
            requests=requests and [requests[place] for place in jobs.places.tolist()],
            decisions=Words((QOS_ACCEPTED, QOS_REJECTED), decisions),
        )

    log.fill_later(fill, tell)
