"""Do the schedulers of compiled classes give the schedules of those they replace, and how fast?

    python benchmarks/core_trial.py WORKLOAD.json …

A line for each scheduler and its options: EQUAL if starts, ends, hosts, the order of ends and the
changes of busy hosts are the same to the byte; CPU seconds of the loop alone, the best of three, by
kernels (once these are compiled) and in classes. It goes when the kernels do.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import msgspec
import numpy as np

from qops_batsim import is_compiled, read_workload
from qops_batsim.engine.delay_jobs import DelayJobs, Outcome
from qops_batsim.engine.loop import Loop
from qops_batsim.engine.loop_columns import loop_of, outcome_of
from qops_batsim.engine.simulation import Simulation
from qops_batsim.platform.model import Platform
from qops_batsim.running.compiled_loop import run_compiled
from qops_batsim.running.inputs import load_platform
from qops_batsim.running.simulate import default_engine
from qops_batsim.schedulers.conservative import Conservative, ConservativeOptions
from qops_batsim.schedulers.easy import Easy, EasyOptions
from qops_batsim.schedulers.fcfs import Fcfs
from qops_batsim.scheduling.driver import ModuleDriver
from qops_batsim.scheduling.news import News
from qops_batsim.scheduling.qos_log import QosLog
from qops_batsim.scheduling.registry import make_scheduler
from qops_batsim.workload.model import Workload

Settings = dict[str, Any]

EASY: list[Settings] = [
    {},
    *({"order": each} for each in ("sjf", "ljf", "saf", "lxf", "wfp3", "unicef")),
    *({"order": each} for each in ("f1", "f2", "f3", "f4")),
    {"backfill_order": "sjf"},
    {"order": "saf", "backfill_order": "sjf"},
    {"order": "sjf", "starvation_bound": 3600.0},
    {"starvation_bound": 86400.0, "backfill_order": "lxf"},
    {"order": "f1", "starvation_bound": 36000.0, "backfill_order": "f1"},
    {"run_times": "predicted"},
    {"run_times": "predicted", "backfill_order": "sjf"},
    {"run_times": "predicted", "order": "saf"},
]


def cases() -> Iterator[tuple[str, Settings, Callable[[], Any]]]:
    """Yield name and options of schedulers, and what makes the one that takes its place."""
    yield "fcfs", {}, Fcfs
    for settings in EASY:
        yield "easy", settings, lambda given=settings: Easy(msgspec.convert(given, EasyOptions))
    by_number = ConservativeOptions(reserve="processors")
    yield "conservative", {"reserve": "processors"}, lambda: Conservative(by_number)
    yield "conservative", {"reserve": "hosts"}, Conservative


def best_of(run: Callable[[], Callable[[], Any]], times: int = 3) -> tuple[float, Any]:
    """Prepare and run something some times; return the least CPU seconds, and what it returned."""
    least = float("inf")
    for _ in range(times):
        prepared = run()
        begin = time.process_time()
        found = prepared()
        least = min(least, time.process_time() - begin)
    return least, found


def differences(one: Outcome, other: Outcome) -> list[str]:
    """Return the columns that differ."""
    names = ("ended", "starts", "finishes", "change_dates", "computing")
    pairs = [(name, getattr(one, name), getattr(other, name)) for name in names]
    pairs += [("hosts", a, b) for a, b in zip(one.hosts, other.hosts, strict=True)]
    return [name for name, a, b in pairs if np.asarray(a).tobytes() != np.asarray(b).tobytes()]


def by_kernels(
    name: str, settings: Settings, workload: Workload, machine: Platform
) -> Callable[[], Simulation]:
    """Return what runs a scheduler of today in its compiled loop."""
    module = make_scheduler(name, settings)
    driver = ModuleDriver(module, any_engine=True)
    simulation = Simulation(machine, [workload], driver, default_engine(module))

    def run() -> Simulation:
        assert run_compiled(simulation, workload, driver, None)
        return simulation

    return run


def in_classes(
    make: Callable[[], Any], jobs: DelayJobs, workload: Workload, hosts: int
) -> Callable[[], Loop]:
    """Return what runs a scheduler of compiled classes."""
    loop, scheduler = loop_of(jobs, workload.jobs, hosts), make()
    loop.manager.qos_log, loop.manager.news = QosLog(), News()

    def run() -> Loop:
        loop.run(scheduler, lambda ended: None)
        return loop

    return run


def main() -> None:
    print("compiled" if is_compiled() else "not compiled")
    for path in sys.argv[1:]:
        workload = read_workload(path)
        machine, made = load_platform(None, workload), make_scheduler("fcfs")
        driver = ModuleDriver(made, any_engine=True)
        simulation = Simulation(machine, [workload], driver, default_engine(made))
        jobs, hosts = simulation.delay_jobs(), len(simulation.hosts)
        assert jobs is not None, "jobs that only sleep are expected"
        for name, settings, make in cases():
            before, old = best_of(partial(by_kernels, name, settings, workload, machine))
            now, loop = best_of(partial(in_classes, make, jobs, workload, hosts))
            assert old._columns is not None
            told = differences(old._columns.outcome, outcome_of(loop, jobs))
            verdict = f"DIFFERENT {', '.join(told)}" if told else "EQUAL"
            seconds = f"kernels {before:.4f} s, classes {now:.4f} s"
            print(f"{path} {name} {settings}: {verdict}, {seconds}")


if __name__ == "__main__":
    main()
