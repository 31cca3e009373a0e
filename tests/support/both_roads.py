"""Runs in the loop of events and by messages, which tell the same."""

from __future__ import annotations

from typing import Any

import msgspec

from qops_batsim import Scheduler
from qops_batsim.core import format_qos
from qops_batsim.engine import Simulation
from qops_batsim.engine.outputs import add_outputs
from qops_batsim.errors import SimulationError
from qops_batsim.platform import Platform, make_cluster
from qops_batsim.protocol import ModuleDriver, make_scheduler
from qops_batsim.running import default_engine
from qops_batsim.running.in_loop import drive
from qops_batsim.workload import Workload
from support.kept_files import Kept
from support.random_outages import HOSTS


def outcome(
    scheduler: Scheduler | str,
    workload: Workload,
    options: dict[str, Any] | None = None,
    *,
    by_messages: bool,
    platform: Platform | None = None,
    **engine: Any,
) -> dict[str, Any]:
    """Return all that a run tells, its scheduler too; by messages or in the loop.

    The platform is a cluster unless given.
    """
    module = make_scheduler(scheduler, options)
    module.keep_decisions()
    driver = ModuleDriver(module, any_engine=True)
    told = msgspec.structs.replace(default_engine(module), **engine)
    simulation = Simulation(platform or make_cluster(HOSTS), [workload], driver, told)
    error = ""
    try:
        if by_messages:
            simulation.run()
        else:
            drive(simulation, workload, module, None)
    except SimulationError as found:
        error = str(found)
    files = Kept()
    add_outputs(files, simulation)
    found = {**files, "_qos.csv": b"".join(format_qos(driver.log)), "error": error}
    found["records"] = [
        (name, repr(each), each.return_code, each.metadata, each.job.fields, each.kill_asked)
        for name, each in simulation.records.items()
    ]
    found["ended"] = [each.job.id for each in simulation.ended]
    found["changes"] = simulation.computing_changes
    found["jobs"] = list({job.id: None for job in driver.log.jobs})
    found["log"] = sorted(driver.log.started), driver.log.rejected, driver.log.kills
    found["now"] = simulation.now
    found["told"] = getattr(module.scheduler, "told", None)
    if module.scheduler.logs:
        found["decisions"] = list(module.decision_lines())
    return found


def check(make: Any, workload: Workload, options: Any = None, **engine: Any) -> dict[str, Any]:
    """Compare both roads; return what both tell."""
    loop = outcome(make(), workload, options, by_messages=False, **engine)
    messages = outcome(make(), workload, options, by_messages=True, **engine)
    for what, told in loop.items():
        assert told == messages[what], what
    return loop
