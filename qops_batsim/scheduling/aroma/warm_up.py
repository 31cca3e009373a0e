"""Compiling AROMA's kernels."""

from __future__ import annotations

from qops_batsim.jobs import Job
from qops_batsim.protocol.events import HostDescription
from qops_batsim.scheduling.aroma.application import (
    BEST_EFFORT,
    DEADLINE,
    DEDICATED,
    Application,
    Work,
)
from qops_batsim.scheduling.aroma.book import Book
from qops_batsim.scheduling.aroma.fallbacks import Fallbacks
from qops_batsim.scheduling.aroma.machine import Machine
from qops_batsim.scheduling.aroma.mapping import Mapper
from qops_batsim.scheduling.aroma.planner import Planner


def warm_up() -> None:
    """Map an application of each kind on two hosts, so that each kernel works once."""
    machine = Machine([HostDescription(0, "one"), HostDescription(1, "two")])
    mapper = Mapper(machine, Book(machine.processors), memory_weight=1.0, revisions=1)
    planner = Planner(mapper, Fallbacks(mapper, 0, 0, lambda application: None))
    work = Work(seconds=10.0, sent=1.0)
    planner.update(0.0)
    for number, name in enumerate((BEST_EFFORT, DEADLINE, DEDICATED)):
        job = Job(f"warm-up!{number}", 0.0, 2, "none")
        planner.map([Application(job, name, work, number, deadline=1000.0)])
    planner.due()
    planner.conclude()
    planner.update(5.0)
