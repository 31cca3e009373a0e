"""Whole simulations of a scheduler in this process."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from qops_batsim.core.news import News
from qops_batsim.core.overrides import check_attributes
from qops_batsim.core.qos_log import QosLog, ToldJobs
from qops_batsim.core.system import System
from qops_batsim.engine.engine_options import AVAILABLE, UNAVAILABLE, Rules
from qops_batsim.engine.simulation import Simulation, ignore, simulation_begins
from qops_batsim.errors import InputError
from qops_batsim.jobs import QOS_ACCEPTED, QOS_REJECTED
from qops_batsim.protocol.driver import check_needs, system_of
from qops_batsim.protocol.port import SchedulerModule
from qops_batsim.tables import Words
from qops_batsim.users.reacting import Reacting
from qops_batsim.workload.workload_model import Workload

if TYPE_CHECKING:
    from qops_batsim.engine.sleeping_jobs import DelayJobs, Outcome

_DECISIONS = (QOS_ACCEPTED, QOS_REJECTED, "")
_STARTED, _REFUSED, _UNDECIDED = range(3)


def drive(
    simulation: Simulation,
    workload: Workload,
    module: SchedulerModule,
    on_progress: Callable[[int], None] | None,
) -> None:
    """Run a simulation with a scheduler module, without messages if the jobs only sleep."""
    scheduler = module.scheduler
    needs = module.needs
    options = simulation.options
    registers = scheduler.kills or needs.dynamic_jobs or options.dynamic_jobs
    if isinstance(scheduler, Reacting):
        if len(workload.jobs):
            raise InputError(
                f"{workload.source} has {len(workload.jobs)} jobs; users who react submit all "
                "jobs, so that their own workload (Users.no_jobs) is expected"
            )
        registers = not scheduler.registers_alone

    # One that hears of messages in its own way is told in messages, and another release of Batsim
    # registers and kills by rules that only the road of messages knows.
    sleeps = type(module) is SchedulerModule and not needs.compute_sharing
    if registers and options.rules != Rules():
        sleeps = False
    jobs = None
    if sleeps:
        jobs = simulation.delay_jobs(registering=registers or isinstance(scheduler, Reacting))
    if jobs is None:
        simulation.run()
    else:
        report = on_progress or ignore
        drive_in_loop(simulation, jobs, workload, module, report, registers=registers)


def drive_in_loop(
    simulation: Simulation,
    jobs: DelayJobs,
    workload: Workload,
    module: SchedulerModule,
    report: Callable[[int], None],
    *,
    registers: bool,
) -> None:
    """Run a simulation whose jobs only sleep on hosts of their own.

    ``registers`` says that the scheduler, not only its users, may register jobs, or kill them.
    """
    from qops_batsim.engine.loop_columns import loop_of, outcome_of
    from qops_batsim.engine.registered_jobs import Registry
    from qops_batsim.engine.sleeping_jobs import with_registered

    scheduler = module.scheduler
    options = simulation.options
    world = simulation.world
    events = options.external_events
    hosts = len(simulation.hosts)
    physics = world if registers else None
    machine = world.shared
    loop = loop_of(scheduler, jobs, workload.jobs, hosts, events, physics, machine)
    manager = loop.manager
    manager.qos_log = module.qos_log

    registry = None
    if registers:
        beginning = simulation_begins(world, simulation.platform)
        check_needs(module, beginning, any_engine=True)
        manager.system = system_of(beginning)
        manager.hides_profiles = getattr(scheduler, "hides_profiles", False)
        manager.news = News.of(module.options, manager.system.profiles)
        registry = Registry(world)
        acknowledges = options.dynamic_jobs and options.acknowledge_dynamic_jobs
        manager.use_registry(registry, acknowledges=acknowledges)
    else:
        manager.registers = isinstance(scheduler, Reacting)
        if machine is None:
            # Descriptions of all hosts would take longer than many a run.
            manager.system = System(hosts=(), profiles=world.profiles)
        else:
            manager.system = system_of(simulation_begins(world, simulation.platform))
        manager.news = News.of(module.options)

    loop.run(report)
    check_attributes(scheduler)  # Some are set only in the run.

    if registry is None and isinstance(scheduler, Reacting):
        workload = scheduler.workload()
        jobs = simulation.know_registered(workload)
    finished = outcome_of(loop, jobs)
    # Not the loop: its columns are freed with it.
    arrived = loop.arrived

    @cache
    def outcome() -> Outcome:
        if registry is None:
            return finished
        whole = with_registered(jobs, registry.records, arrived)
        return finished._replace(jobs=whole)

    for event, date in zip(events or (), loop.happened_dates, strict=False):
        if event.type in (UNAVAILABLE, AVAILABLE) and event.hosts:
            simulation.happened.append(msgspec.structs.replace(event, timestamp=date))
    is_complete = loop.ended_count == manager.known
    if registry is not None:
        is_complete = is_complete and not registry.is_open
    # First, for it may be a deadlock: what happened before that is written as well.
    log_jobs(module.qos_log, workload, outcome, has_columns=registry is None)
    simulation.finish(outcome, manager.now, is_complete=is_complete)
    scheduler.finished()
    report(loop.ended_count)


def log_jobs(
    log: QosLog, workload: Workload, outcome: Callable[[], Outcome], *, has_columns: bool
) -> None:
    """Fill the QoS log with the jobs and the decisions about them, when it is asked for them.

    Unless it ``has_columns``, what became of a job that was killed is told of its first run, by the
    log itself.
    """

    def fill(log: QosLog) -> None:
        from qops_batsim.engine.sleeping_jobs import told_jobs

        done = outcome()
        jobs = done.jobs
        log.jobs.extend(told_jobs(jobs, workload.jobs))
        started = np.flatnonzero(~np.isnan(done.starts)).tolist()
        log.started.extend(map(jobs.full_id, started))
        # In the order in which they were.
        rejected = done.ended[np.isnan(done.starts[done.ended])].tolist()
        log.rejected.extend(map(jobs.full_id, rejected))

    def tell() -> ToldJobs:
        done = outcome()
        jobs = done.jobs
        decisions = np.where(np.isnan(done.starts), _UNDECIDED, _STARTED)
        decisions[done.ended[np.isnan(done.starts[done.ended])]] = _REFUSED
        return ToldJobs(
            ids=jobs.columns.ids,
            workloads=jobs.workloads,
            requests=jobs.columns.requests,
            decisions=Words(_DECISIONS, decisions),
        )

    log.fill_later(fill, tell if has_columns else None)
