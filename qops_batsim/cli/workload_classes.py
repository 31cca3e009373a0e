"""``qops-batsim workload classes`` and ``mixed``: jobs of four classes of service."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from qops_batsim.cli.console import say
from qops_batsim.cli.inputs import read_source
from qops_batsim.cli.options import WorkloadIn, WorkloadOut, manual
from qops_batsim.errors import InputError, require_one_of

if TYPE_CHECKING:
    from qops_batsim.workload.model import Workload

RUN_TIME, LOG = "run-time", "log"

_about = manual(
    """
    --log FILE: Log (SWF) the jobs come from: names of its queues, and CPU times if wanted.
    --cpu-time run-time|log: CPU time of each task: the job's run time, or what the log
        measured where it did (--log).
    --every CLASS: One class for all jobs: deadline, high_priority, dedicated or best_effort.
        Default: by queue.
    --tasks together|apart: A job of n processors stays one job, whose tasks progress at one
        rate, or becomes n jobs of one processor, the tasks of one application.
    --deadline-factor F: Deadlines are submission + F x CPU time.
    --speed FLOPS: Flop/s of the host on which CPU times were measured.
    --seed N: Seed of the queues that jobs without one draw.
    """
)

_of_mixed = manual(
    """
    --applications N: Number of applications.
    --seed N: Seed of all random choices.
    --processors N: Hosts of the machine; the default is aroma_grid's.
    """
)


def classes(
    source: WorkloadIn,
    out: WorkloadOut,
    log: Annotated[Path | None, _about("--log", exists=True, dir_okay=False)] = None,
    cpu_time: Annotated[str, _about("--cpu-time")] = RUN_TIME,
    every: Annotated[str | None, _about("--every")] = None,
    tasks: Annotated[str, _about("--tasks")] = "together",
    deadline_factor: Annotated[float, _about("--deadline-factor")] = 5.0,
    speed: Annotated[float, _about("--speed")] = 1e9,
    seed: Annotated[int, _about("--seed")] = 1,
) -> None:
    """Turn jobs that last into jobs that compute, in four classes of service (Pascal et al. 2004).

    Queue express becomes class high_priority, high dedicated, normal deadline, low and standby
    best_effort. Jobs without a queue draw one, with the frequencies of the SDSC SP2 log. Each
    task computes for its CPU time. Walltimes are removed.

    Examples:

    \b
        # By queue, all queues drawn:
        qops-batsim workload classes sdsc.json four.json --seed 1
        # With the log's own queues and CPU times:
        qops-batsim workload classes sdsc.json four.json \\
          --log SDSC-SP2-1998.swf.gz --cpu-time log
        # One class for all:
        qops-batsim workload classes sdsc.json alone.json --every dedicated
    """
    from qops_batsim.workload.service_classes import ClassChoices, LogFacts, assign_classes
    from qops_batsim.workload.swf import read_swf

    require_one_of("cpu time", cpu_time, (RUN_TIME, LOG))
    if cpu_time == LOG and log is None:
        raise InputError("--cpu-time log needs the log (--log)")
    choices = ClassChoices(
        every=every, seed=seed, deadline_factor=deadline_factor, speed=speed, tasks=tasks
    )
    workload = read_source(source, out)
    facts = LogFacts.of(read_swf(log)) if log is not None else LogFacts()
    cpu_times = facts.cpu_times if cpu_time == LOG else None
    _write(assign_classes(workload, choices, facts, cpu_times=cpu_times), out)


def mixed(
    out: WorkloadOut,
    applications: Annotated[int, _of_mixed("--applications")] = 48,
    seed: Annotated[int, _of_mixed("--seed")] = 1,
    processors: Annotated[int, _of_mixed("--processors")] = 68,
) -> None:
    """Make up applications of all four classes, with memory and communication, from three sites.

    Meant for unequal hosts that are shared, such as the shipped platform aroma_grid.

    Examples:

    \b
        qops-batsim workload mixed mixed.json --applications 200 --seed 3
    """
    from qops_batsim.workload.mixed_classes import mixed_workload

    _write(mixed_workload(applications, seed, processors=processors), out)


def _write(workload: Workload, out: Path) -> None:
    """Write a workload and print what it holds."""
    from qops_batsim.workload.batsim_json import write_workload
    from qops_batsim.workload.service_classes import count_classes

    write_workload(workload, out)
    say(f"{out}: {len(workload.jobs)} jobs on {workload.processors} processors")
    counts = count_classes(workload)
    say("applications: " + ", ".join(f"{n} {name}" for name, n in counts.items()))
