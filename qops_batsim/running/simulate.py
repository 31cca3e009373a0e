"""Running a scheduler on a workload with the embedded engine."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from qops_batsim.arguments import CALLABLE, SWITCH, one_of, takes
from qops_batsim.core.decision_log import format_decisions
from qops_batsim.core.qos_log import format_qos_table
from qops_batsim.engine.engine_options import (
    AVAILABLE,
    UNAVAILABLE,
    EngineOptions,
    cancellations_of,
    check_cancellations,
    maintenance_of,
    outages_of,
)
from qops_batsim.engine.host_states import machine_in_use
from qops_batsim.engine.outputs import add_outputs
from qops_batsim.engine.simulation import Deadlock, Simulation
from qops_batsim.errors import InputError, SimulationError
from qops_batsim.file_set import DEADLOCK, FileSet, document_with_digests, run_files
from qops_batsim.garbage import without_garbage_collection
from qops_batsim.platform.network import longest_round_trip
from qops_batsim.platform.platform_model import Platform
from qops_batsim.protocol.driver import ModuleDriver
from qops_batsim.protocol.port import AnyScheduler, SchedulerModule, make_scheduler
from qops_batsim.running.in_loop import drive
from qops_batsim.running.inputs import (
    EVENTS,
    PLATFORM,
    SCHEDULER,
    SETTINGS,
    WORKLOAD,
    AnyEvents,
    AnyPlatform,
    AnyWorkload,
    load_events,
    load_platform,
    load_workload,
)
from qops_batsim.version import __version__
from qops_batsim.workload.workload_model import Workload


@takes(
    scheduler=SCHEDULER,
    workload=WORKLOAD,
    platform=PLATFORM.optional,
    settings=SETTINGS.optional,
    events=EVENTS.optional,
    engine=one_of(EngineOptions, words="EngineOptions").optional,
    allow_smaller_machine=SWITCH,
    on_progress=CALLABLE.optional,
)
def simulate(
    scheduler: AnyScheduler,
    workload: AnyWorkload,
    platform: AnyPlatform | None = None,
    settings: Mapping[str, Any] | None = None,
    *,
    events: AnyEvents | None = None,
    engine: EngineOptions | None = None,
    allow_smaller_machine: bool = False,
    on_progress: Callable[[int], None] | None = None,
) -> Simulation:
    """Run a scheduler on a workload with the embedded engine; write nothing.

    Parameters
    ----------
    scheduler
        A registered name, ``"my_file.py:MyScheduler"``, or a scheduler or class of your
        own.
    workload
        The jobs: a workload, the path of one, or the name of a shipped one.
    platform
        The machine, likewise; None for as many equal hosts as the workload is for.
    settings
        The scheduler's options by name.
    events
        Hosts that go away and return, if any: external events, or their file.
    engine
        What the simulation allows; by default :func:`default_engine` of the scheduler.
    allow_smaller_machine
        Run even if the workload is for a larger machine; wider jobs are rejected then.
    on_progress
        Called now and then with the number of jobs ended.

    Returns
    -------
    Simulation
        The simulation after its end; ``ended`` holds the jobs.

    Raises
    ------
    SimulationError
        The scheduler broke the protocol or left jobs waiting for ever.

    Examples
    --------
    >>> simulation = simulate("easy", "tiny_8")
    >>> [record.job.id for record in simulation.ended][:3]
    ['w0!4', 'w0!1', 'w0!6']
    """
    module = make_scheduler(scheduler, settings)
    workload = load_workload(workload)
    machine = load_platform(platform, workload)
    engine = engine or default_engine(module, machine)
    if events is not None:
        engine = msgspec.structs.replace(engine, **_about_events(events))
    check_cancellations(engine.external_events or (), {"w0": workload})
    tell_platform(module, machine, engine)
    if module.needs.profile_reuse:
        # This engine never forgets a profile, whatever was asked for.
        engine = msgspec.structs.replace(engine, profile_reuse=True)

    with without_garbage_collection():
        driver = ModuleDriver(module, any_engine=True)
        simulation = Simulation(machine, [workload], driver, engine, on_progress)
        if not allow_smaller_machine:
            refuse_smaller_machine(workload, machine, len(simulation.hosts))
        drive(simulation, workload, module, on_progress)
    return simulation


def default_engine(
    module: SchedulerModule,
    platform: Platform | None = None,
    *,
    hosts: int | None = None,
    compute_sharing: bool | None = None,
    events: AnyEvents | None = None,
    message_delays: bool = True,
) -> EngineOptions:
    """Return the engine options that a scheduler needs, and the hosts of a platform.

    Parameters
    ----------
    platform
        The machine; None for one whose hosts have no amounts.
    hosts
        Use only this many hosts, the first ones; None for all.
    compute_sharing
        Whether several jobs may run on one host; None for what the scheduler is meant for and hosts
        with amounts need.
    events
        Hosts that go away and return, and jobs that are cancelled, if any.
    message_delays
        Whether Batsim's own messages take their time on platforms with latencies.

    InputError if hosts have amounts, but several jobs may not run on one host.
    """
    is_shared = platform is not None and machine_in_use(platform, hosts) is not None
    if compute_sharing is None:
        compute_sharing = module.needs.compute_sharing or is_shared
    elif is_shared and not compute_sharing:
        assert platform is not None
        raise InputError(
            f"{platform.source}: hosts have amounts that jobs share, but compute sharing is turned "
            "off; it is expected to be on"
        )
    dynamic = module.needs.dynamic_jobs
    return EngineOptions(
        hosts=hosts,
        compute_sharing=compute_sharing,
        **_about_events(events),
        dynamic_jobs=dynamic,
        # What is registered again runs a profile that Batsim would otherwise have forgotten.
        profile_reuse=dynamic,
        message_delays=message_delays,
    )


def _about_events(events: AnyEvents | None) -> dict[str, Any]:
    """Return the engine options that external events need, by name."""
    loaded = load_events(events)[0]
    # The real Batsim knows hosts only, and forwards all else if it is told to.
    forwards = any(event.type not in (AVAILABLE, UNAVAILABLE) for event in loaded or ())
    return {"external_events": loaded, "forward_unknown_events": forwards}


def tell_platform(module: SchedulerModule, platform: Platform, engine: EngineOptions) -> None:
    """Give a scheduler the platform, and whether news of one date may come in several messages."""
    delays = engine.message_delays and platform.master is not None and platform.delays_messages
    module.news_in_parts = delays and not platform.has_latencies
    module.use_platform(platform)


def refuse_smaller_machine(workload: Workload, platform: Platform, hosts: int) -> None:
    """Check that a platform has as many hosts as a workload expects."""
    if workload.processors > hosts:
        raise InputError(
            f"{workload.source} is for {workload.processors} processors (nb_res), but "
            f"{platform.source} has only {hosts} hosts to use (the master runs no jobs, and "
            f"--hosts may leave out more); at least {workload.processors}, or permission to reject "
            "wider jobs (--smaller-machine), is expected"
        )


def write_run(
    simulation: Simulation,
    prefix: str | Path,
    *,
    scheduler: str,
    module: SchedulerModule,
    workload: str,
    platform: str | None,
    further: Mapping[str, Any] | None = None,
    files: FileSet | None = None,
) -> list[Path]:
    """Write a run's output files, all or none.

    In addition to Batsim's, these are ``PREFIX_qos.csv``, what was decided about each job,
    ``PREFIX_run.json``, which says how the run was made (with ``further`` fields), and if
    the module kept a decision log
    (:meth:`~qops_batsim.protocol.port.SchedulerModule.keep_decisions`),
    ``PREFIX_decisions.jsonl``; if not, such a file of an earlier run is removed. ``files`` is
    the set to write them into, made before the simulation if it is long.
    """
    options = simulation.options
    machine = simulation.platform
    hosts = len(simulation.hosts)
    description = describe_run(scheduler, module, workload, platform, hosts, options, machine)
    description |= {"engine": "embedded", **(further or {})}
    with files or run_files(prefix) as files:
        add_outputs(files, simulation)
        return publish_run(files, module, scheduler, description)


@contextmanager
def writing_what_ended(files: FileSet, described: Mapping[str, Any]) -> Iterator[None]:
    """If a simulation in this block deadlocks, write the jobs that ended before, as Batsim does.

    They go to ``PREFIX_deadlock_jobs.csv`` ...: files of an earlier run stay as they are.
    """
    try:
        yield
    except Deadlock as error:
        prefix = f"{files.prefix}{DEADLOCK}"
        write_run(error.simulation, prefix, **described)
        raise SimulationError(
            f"{error}; {prefix}_jobs.csv has the jobs that ended before"
        ) from None


def describe_run(
    scheduler: str,
    module: SchedulerModule,
    workload: str,
    platform: str | None,
    hosts: int,
    options: EngineOptions,
    machine: Platform | None = None,
) -> dict[str, Any]:
    """Return the description of a run for ``PREFIX_run.json``, for any engine.

    Inputs are named as the user gave them; ``machine`` is the platform itself, where known.
    """
    description = {
        "scheduler": scheduler,
        "options": msgspec.to_builtins(module.options),
        "workload": workload,
        "platform": platform,
        "hosts": hosts,
        "compute_sharing": options.compute_sharing,
        "dynamic_jobs": options.dynamic_jobs,
        "message_delays": options.message_delays,
        "package_version": __version__,
    }

    if options.message_delays and machine is not None and machine.has_latencies:
        description["round_trip"] = longest_round_trip(machine)

    if options.external_events is not None:
        description["outages"] = msgspec.to_builtins(outages_of(options.external_events, hosts))
        if cancelled := cancellations_of(options.external_events):
            description["cancellations"] = cancelled
        if announced := maintenance_of(options.external_events):
            description["maintenance"] = msgspec.to_builtins(announced)
    return description


def publish_run(
    files: FileSet, module: SchedulerModule, scheduler: str, description: Mapping[str, Any]
) -> list[Path]:
    """Add the promises, decisions and description of a run, and put all its files into place.

    The run's identifier is a digest of its description and of the engine's files, so that a
    repeated run has the same one.
    """
    made = msgspec.json.encode([description, files.digests])
    run_id = hashlib.sha256(made).hexdigest()[:16]
    decided = module.qos_log.table()
    files.tables["_qos.csv"] = decided
    with files.open("_qos.csv") as stream:
        stream.writelines(format_qos_table(decided))
    if module.scheduler.logs:
        use = module.scheduler.manager.use
        planner: Any = module.scheduler  # whose lines come many at once
        lines = format_decisions(
            planner.decision_lines(),
            run_id=run_id,
            scheduler=scheduler,
            options=msgspec.to_builtins(module.options),
            processors=module.scheduler.manager.machine_size,
            machine=None if use is None else use.layout.machine,
        )
        with files.open("_decisions.jsonl") as stream:
            stream.writelines(lines)
    return files.publish(document_with_digests(files, {**description, "run_id": run_id}))
