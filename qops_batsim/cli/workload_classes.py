"""``qops-batsim workload classes`` and ``mixed``: jobs of four classes of service."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from qops_batsim.errors import InputError, did_you_mean

if TYPE_CHECKING:
    from qops_batsim.workload.model import Workload

RUN_TIME, LOG = "run-time", "log"


def register(app: typer.Typer) -> None:
    """Add the commands to the ``workload`` commands."""
    app.command("classes")(classes)
    app.command("mixed")(mixed)


def classes(
    source: Annotated[
        str,
        typer.Argument(
            metavar="IN", help="Workload of delay jobs (JSON, plain or .gz), or a shipped one."
        ),
    ],
    out: Annotated[Path, typer.Argument(help="Workload to write (JSON; compressed if named .gz).")],
    log: Annotated[
        Path | None,
        typer.Option(
            exists=True,
            dir_okay=False,
            help="Log (SWF) the jobs come from: names of its queues, and CPU times if wanted.",
        ),
    ] = None,
    cpu_time: Annotated[
        str,
        typer.Option(
            metavar=f"{RUN_TIME}|{LOG}",
            help="CPU time of each task: the job's run time, or what the log measured where it "
            "did (--log).",
        ),
    ] = RUN_TIME,
    every: Annotated[
        str | None,
        typer.Option(
            metavar="CLASS",
            help="One class for all jobs: deadline, high_priority, dedicated or best_effort. "
            "Default: by queue.",
        ),
    ] = None,
    tasks: Annotated[
        str,
        typer.Option(
            metavar="together|apart",
            help="A job of n processors stays one job, whose tasks progress at one rate, or "
            "becomes n jobs of one processor, the tasks of one application.",
        ),
    ] = "together",
    deadline_factor: Annotated[
        float, typer.Option(metavar="F", help="Deadlines are submission + F x CPU time.")
    ] = 5.0,
    speed: Annotated[
        float,
        typer.Option(metavar="FLOPS", help="Flop/s of the host on which CPU times were measured."),
    ] = 1e9,
    seed: Annotated[int, typer.Option(help="Seed of the queues that jobs without one draw.")] = 1,
) -> None:
    """Turn jobs that last into jobs that compute, in four classes of service (Pascal et al. 2004).

    Queue express becomes class high_priority, high dedicated, normal deadline, low and standby
    best_effort. Jobs without a queue draw one, with the frequencies of the SDSC SP2 log. Each
    task computes for its CPU time. Walltimes are removed.

    **Examples**

    - By queue, all queues drawn: `qops-batsim workload classes sdsc.json four.json --seed 1`

    - With the log's own queues and CPU times:
      `qops-batsim workload classes sdsc.json four.json --log SDSC-SP2-1998.swf.gz --cpu-time log`

    - One class for all: `qops-batsim workload classes sdsc.json alone.json --every dedicated`
    """
    from qops_batsim.shipped import find_input
    from qops_batsim.workload.batsim_json import read_workload, write_workload
    from qops_batsim.workload.service_classes import (
        ClassChoices,
        LogFacts,
        assign_classes,
    )
    from qops_batsim.workload.swf import read_swf

    if cpu_time not in (RUN_TIME, LOG):
        raise InputError(f"cpu time is {cpu_time!r}{did_you_mean(cpu_time, (RUN_TIME, LOG))}")
    if cpu_time == LOG and log is None:
        raise InputError("--cpu-time log needs the log (--log)")
    path = find_input(source, "workloads")
    if out.exists() and out.samefile(path):
        raise InputError(f"{out}: is the input itself; another file to write is expected")
    choices = ClassChoices(
        every=every, seed=seed, deadline_factor=deadline_factor, speed=speed, tasks=tasks
    )
    facts = LogFacts.of(read_swf(log)) if log is not None else LogFacts()
    result = assign_classes(
        read_workload(path),
        choices,
        facts,
        cpu_times=facts.cpu_times if cpu_time == LOG else None,
    )
    write_workload(result, out)
    _tell(result, out)


def mixed(
    out: Annotated[Path, typer.Argument(help="Workload to write (JSON; compressed if named .gz).")],
    applications: Annotated[int, typer.Option(metavar="N", help="Number of applications.")] = 48,
    seed: Annotated[int, typer.Option(help="Seed of all random choices.")] = 1,
    processors: Annotated[
        int, typer.Option(metavar="N", help="Hosts of the machine; the default is aroma_grid's.")
    ] = 68,
) -> None:
    """Make up applications of all four classes, with memory and communication, from three sites.

    Meant for unequal hosts that are shared, such as the shipped platform aroma_grid.

    **Examples**

    `qops-batsim workload mixed mixed.json --applications 200 --seed 3`
    """
    from qops_batsim.workload.batsim_json import write_workload
    from qops_batsim.workload.mixed_classes import mixed_workload

    result = mixed_workload(applications, seed, processors=processors)
    write_workload(result, out)
    _tell(result, out)


def _tell(workload: Workload, out: Path) -> None:
    """Print what was written."""
    from qops_batsim.workload.service_classes import count_classes

    typer.echo(f"{out}: {len(workload.jobs)} jobs on {workload.processors} processors")
    counts = count_classes(workload)
    typer.echo("applications: " + ", ".join(f"{n} {name}" for name, n in counts.items()))
