"""Running a scheduler on a workload: where engine and scheduling meet."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from qops_batsim.engine.outputs import write_outputs
from qops_batsim.engine.simulation import EngineOptions, Simulation
from qops_batsim.errors import InputError
from qops_batsim.files import write_text
from qops_batsim.platform.model import Platform
from qops_batsim.scheduling.admission.scheduler import AdmissionScheduler
from qops_batsim.scheduling.decision_log import remove_decision_log, write_decision_log
from qops_batsim.scheduling.driver import ModuleDriver
from qops_batsim.scheduling.module import DecisionModule
from qops_batsim.scheduling.qos_log import write_qos_log
from qops_batsim.scheduling.registry import make_scheduler
from qops_batsim.version import __version__
from qops_batsim.workload.model import Workload


def simulate(
    workload: Workload,
    platform: Platform,
    scheduler: str | DecisionModule,
    settings: Mapping[str, Any] | None = None,
    *,
    engine: EngineOptions | None = None,
    allow_smaller_machine: bool = False,
    on_progress: Callable[[int], None] | None = None,
) -> Simulation:
    """Run a scheduler on a workload with the embedded engine.

    Parameters
    ----------
    workload
        The jobs.
    platform
        The machine.
    scheduler
        A registered name, or a decision module of your own.
    settings
        The scheduler's options by name; only with a registered name.
    engine
        What the simulation allows; by default :func:`default_engine` of the scheduler.
    allow_smaller_machine
        Run even if the workload is for a machine with more processors; the
        scheduler then has to reject jobs that are too wide.
    on_progress
        Called now and then with the number of jobs ended.

    Returns
    -------
    Simulation
        The simulation after its end; ``ended`` holds the jobs.

    Raises
    ------
    InputError
        Unknown scheduler, option or profile type; a workload for a larger machine.
    SimulationError
        The scheduler broke the protocol or left jobs waiting for ever.
    """
    module = make_scheduler(scheduler, settings) if isinstance(scheduler, str) else scheduler
    with _without_garbage_collection():
        return _simulate(workload, platform, module, engine, allow_smaller_machine, on_progress)


def default_engine(
    module: DecisionModule, *, hosts: int | None = None, compute_sharing: bool | None = None
) -> EngineOptions:
    """Return what an engine has to allow for a scheduler to work as it is meant to.

    Parameters
    ----------
    module
        The scheduler.
    hosts
        Use only the first so many hosts; None for all.
    compute_sharing
        Whether several jobs may run on one host; None for what the scheduler is meant for.
    """
    if compute_sharing is None:
        compute_sharing = module.wants_compute_sharing
    dynamic = module.needs_dynamic_jobs
    return EngineOptions(
        hosts=hosts,
        compute_sharing=compute_sharing,
        dynamic_jobs=dynamic,
        # What is registered again runs a profile that Batsim would otherwise have forgotten.
        profile_reuse=dynamic,
    )


@contextmanager
def _without_garbage_collection() -> Iterator[None]:
    """Keep the collector from walking through all jobs again and again.

    A simulation makes no reference cycles while it runs: what it drops goes at once.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _simulate(
    workload: Workload,
    platform: Platform,
    module: DecisionModule,
    engine: EngineOptions | None,
    allow_smaller_machine: bool,
    on_progress: Callable[[int], None] | None,
) -> Simulation:
    module.use_platform(platform)
    if engine is None:
        engine = default_engine(module)
    simulation = Simulation(platform, [workload], ModuleDriver(module), engine, on_progress)
    if not allow_smaller_machine:
        refuse_smaller_machine(workload, platform, len(simulation.hosts))
    simulation.run()
    return simulation


def refuse_smaller_machine(workload: Workload, platform: Platform, hosts: int) -> None:
    """Check that a machine is as large as a workload expects.

    Parameters
    ----------
    workload, platform
        What is to run, and where.
    hosts
        Number of hosts to use.

    Raises
    ------
    InputError
        The workload is for more processors.
    """
    if workload.processors > hosts:
        raise InputError(
            f"{workload.source} is for {workload.processors} processors (nb_res), but "
            f"{platform.source} has only {hosts} hosts to use; a platform of at "
            "least that size, or permission to reject wider jobs (--smaller-machine), is expected"
        )


def write_run(
    simulation: Simulation,
    prefix: str | Path,
    *,
    scheduler: str,
    module: DecisionModule,
    workload: str,
    platform: str | None,
) -> list[Path]:
    """Write a run's output files.

    Beside Batsim's, these are ``PREFIX_qos.csv``, what was decided about each job,
    ``PREFIX_run.json``, which says how the run was made, and if the module kept a
    decision log (:func:`~qops_batsim.scheduling.decision_log.keep_decisions`),
    ``PREFIX_decisions.jsonl``; if not, such a file of an earlier run is removed.

    Raises
    ------
    InputError
        A file cannot be written.
    """
    paths = [
        *write_outputs(simulation, prefix),
        write_qos_log(module.qos_log, prefix),
        *write_decisions(module, prefix, scheduler),
    ]
    description = describe_run(
        scheduler, module, workload, platform, len(simulation.hosts), simulation.options
    )
    return [*paths, write_description({**description, "engine": "embedded"}, prefix)]


def write_decisions(module: DecisionModule, prefix: str | Path, scheduler: str) -> list[Path]:
    """Write ``PREFIX_decisions.jsonl`` if the module kept a log, else remove an old one.

    Returns
    -------
    list of Path
        The file, if it was written.

    Raises
    ------
    InputError
        The file cannot be written or removed.
    """
    log = module.decision_log if isinstance(module, AdmissionScheduler) else None
    if log is None:
        remove_decision_log(prefix)
        return []
    options = msgspec.to_builtins(module.options)
    return [write_decision_log(log, prefix, scheduler=scheduler, options=options)]


def describe_run(
    scheduler: str,
    module: DecisionModule,
    workload: str,
    platform: str | None,
    hosts: int,
    options: EngineOptions,
) -> dict[str, Any]:
    """Return how a run was made, whatever the engine."""
    return {
        "scheduler": scheduler,
        "options": msgspec.to_builtins(module.options),
        "workload": workload,
        "platform": platform,
        "hosts": hosts,
        "compute_sharing": options.compute_sharing,
        "dynamic_jobs": options.dynamic_jobs,
        "package_version": __version__,
    }


def write_description(description: Mapping[str, Any], prefix: str | Path) -> Path:
    """Write ``PREFIX_run.json``; return its path.

    Raises
    ------
    InputError
        The file cannot be written.
    """
    path = Path(f"{prefix}_run.json")
    write_text(path, msgspec.json.format(msgspec.json.encode(description)).decode() + "\n")
    return path
