"""A batsim-py simulation as its users write it; prints what the test wants to know as JSON.

Run as ``python batsim_py_session.py NAME '{"platform": …, "workload": …}'``. batsim-py works in
the main thread only and blocks without limit, so every simulation is a process of its own.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from batsim_py import JobEvent, SimulatorHandler

from qops_batsim.adapters.batsim_py import ModuleAgent, run_scheduler
from support.scripted_module import ScriptedModule
from support.time_limit import TimeLimit, TimeLimitOptions


def scheduler(name: str, settings: dict[str, Any], **start: Any) -> dict[str, Any]:
    """Run one of our schedulers."""
    module = run_scheduler(SimulatorHandler(), name, settings, **start)
    return {"submitted": len(module.qos_log.jobs)}


def time_limit(limit: float, **start: Any) -> dict[str, Any]:
    """Run a module that kills and asks for calls, in a loop of one's own."""
    scheduler = TimeLimit(TimeLimitOptions(limit=limit))
    simulator = SimulatorHandler()
    agent = ModuleAgent(simulator, scheduler)
    finished: list[Any] = []
    simulator.subscribe(JobEvent.COMPLETED, finished.append)
    simulator.start(**start)
    while simulator.is_running:
        agent.act()
        simulator.proceed_time()
    return {
        "notes": scheduler.notes,
        "metadata": [job.metadata.get("metadata") for job in finished],
    }


def first_fit(**start: Any) -> dict[str, Any]:
    """Schedule without us: whatever fits starts, in order of arrival."""
    simulator = SimulatorHandler()
    simulator.start(**start)
    size = len(list(simulator.platform.hosts))
    while simulator.is_running:
        for job in simulator.queue:
            free = simulator.platform.get_not_allocated_hosts()
            if job.res > size:
                simulator.reject_job(job.id)
            elif job.res <= len(free):
                simulator.allocate(job.id, [host.id for host in free[: job.res]])
        simulator.proceed_time()
    return {}


class Watcher(ScriptedModule):
    """Starts nothing; tells what it was told, and fails when asked to."""

    def __init__(self, fail: bool) -> None:
        super().__init__()
        self.fail = fail
        self.told: list[Any] = []

    def begin(self, system: Any) -> None:
        properties = [host.properties.get("role") for host in system.hosts]
        self.told.append(["begin", properties, system.compute_sharing])

    def submitted(self, job: Any) -> None:
        self.told.append(["submitted", job.fields])

    def notified(self, notification: Any) -> None:
        self.told.append([notification.type, notification.fields.get("resources")])

    def end(self) -> None:
        self.told.append(["end"])

    def decide(self, now: float) -> list[Any]:
        if self.fail and now > 0:
            raise ZeroDivisionError("a mistake in a module")
        self.told.append(["decide", now])
        return []


def watcher(fail: bool = False, **start: Any) -> dict[str, Any]:
    """Run a module that decides nothing, for a limited time."""
    module = Watcher(fail)
    run_scheduler(SimulatorHandler(), module, **start)
    return {"told": module.told}


SESSIONS = {each.__name__: each for each in (scheduler, time_limit, first_fit, watcher)}

if __name__ == "__main__":
    result = SESSIONS[sys.argv[1]](**json.loads(sys.argv[2]))
    sys.stdout.write(json.dumps(result) + "\n")
