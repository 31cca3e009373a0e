"""Arguments and options that several commands have, each with its help text, stated once.

A command names them in its signature (``run: Run, as_json: AsJson = False``); what only one
command has stands in that command's file.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

# Runs that were made.

A_RUN = "its PREFIX (of PREFIX_jobs.csv …), a directory with one run, or a _jobs.csv (also .gz)."

Run = Annotated[str, typer.Argument(metavar="PREFIX", help=f"The run: {A_RUN}")]
Runs = Annotated[list[str], typer.Argument(metavar="PREFIX...", help=f"The runs: for each {A_RUN}")]
Hosts = Annotated[
    int | None,
    typer.Option(
        min=1,
        max=10_000_001,
        metavar="N",
        help="Hosts of the machine. Default: what the run's files say, else the largest "
        "allocated host id + 1.",
    ),
]
WorkloadsOfRun = Annotated[
    list[Path] | None,
    typer.Option(
        "--workload",
        metavar="FILE",
        help="Workload that was run (JSON); repeat it for several, in their order. "
        "Default: the one that PREFIX_run.json names, if it still exists.",
    ),
]
PricedWorkload = Annotated[
    str | None,
    typer.Option(
        "--workload",
        metavar="FILE",
        help="Workload that was run, for the slowdowns in QoS charges. "
        "Default: the one that PREFIX_run.json names.",
    ),
]

# Runs to make.

Scheduler = Annotated[
    str, typer.Argument(help="Name of the scheduler; `qops-batsim schedulers` lists them.")
]
Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="NAME=VALUE",
        help="Option of the scheduler (repeatable); `qops-batsim schedulers NAME` lists them.",
    ),
]
Platform = Annotated[
    str | None,
    typer.Option(
        "--platform",
        "-p",
        metavar="FILE",
        help="SimGrid platform (XML), or the name of a shipped one. "
        "Default: as many equal hosts as the workload is for.",
    ),
]
Processes = Annotated[
    int,
    typer.Option(
        "--jobs-parallel", min=1, metavar="N", help="Processes; results do not depend on it."
    ),
]

Out = Annotated[
    str | None,
    typer.Option(
        "--out",
        "-o",
        metavar="PREFIX",
        help="Where to write: PREFIX_jobs.csv and so on. Default: out/SCHEDULER.",
        show_default=False,
    ),
]
FirstHosts = Annotated[
    int | None,
    typer.Option(min=1, metavar="N", help="Use only the first N hosts of the platform."),
]
SmallerMachine = Annotated[
    bool,
    typer.Option(
        "--smaller-machine",
        help="Run even if the workload is for a larger machine; wider jobs are rejected.",
    ),
]
ComputeSharing = Annotated[
    bool | None,
    typer.Option(
        "--compute-sharing/--no-compute-sharing",
        help="Whether several jobs may run on one host. Default: what the scheduler is meant for.",
        show_default=False,
    ),
]
Engine = Annotated[
    str,
    typer.Option(
        help="What simulates: embedded (this package) or batsim (the real one, as a child process)."
    ),
]
Batsim = Annotated[
    str | None,
    typer.Option(
        metavar="PATH",
        help="The batsim to start; only with --engine batsim. Default: the one on PATH.",
        show_default=False,
    ),
]
BatsimLog = Annotated[
    str,
    typer.Option(
        metavar="LEVEL",
        help="How much batsim says: quiet, network-only, information or debug.",
    ),
]
BatsimTimeout = Annotated[
    float,
    typer.Option(
        min=0.001,
        metavar="SECONDS",
        help="Longest wait for batsim's next message; then it is stopped.",
    ),
]

# Workloads and their deadlines.

WorkloadIn = Annotated[
    str,
    typer.Argument(
        metavar="IN", help="Workload of delay jobs (JSON, plain or .gz), or a shipped one."
    ),
]
WorkloadOut = Annotated[
    Path, typer.Argument(help="Workload to write (JSON; compressed if named .gz).")
]
First = Annotated[
    int, typer.Option(metavar="N", help="Take the first N jobs; 0: all that there are.")
]
Skip = Annotated[int, typer.Option(metavar="N", help="Leave out N jobs before those.")]
Stringency = Annotated[
    float,
    typer.Option(
        metavar="S",
        help="A user's deadline is submission + max(run time, (1 - S) x EASY response time).",
    ),
]
DeadlineShare = Annotated[
    float, typer.Option(help="Share of the jobs, 0 to 1, whose users set a deadline.")
]
Relaxation = Annotated[
    float, typer.Option(metavar="R", help="Factor of the artificial deadlines of the other jobs.")
]
Artificial = Annotated[
    str,
    typer.Option(
        metavar="run-time|turnaround|none",
        help="Artificial deadlines: the greater of 24 hours and R x run time, or R x EASY "
        "response time, after the submission; or none at all.",
    ),
]
LoadMethod = Annotated[
    str,
    typer.Option(
        metavar="duplication|expansion",
        help="Submit a random sample of the jobs again, or multiply run times and estimates.",
    ),
]

# What is printed and drawn.

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but errors.")]
Picture = Annotated[
    Path, typer.Option("--out", "-o", help="Picture to write: a .png, .pdf or .svg file.")
]
Begin = Annotated[
    str | None,
    typer.Option(
        "--from",
        metavar="TIME",
        help="Left edge: seconds since the start of the simulation, or with a unit: "
        "90m, 12h, 100d. Default: the first submission.",
    ),
]
End = Annotated[
    str | None,
    typer.Option("--to", metavar="TIME", help="Right edge. Default: the last completion."),
]


def rows_to_list(help_text: str, least: int = 1) -> typer.models.OptionInfo:
    """Return the option ``--first N``: how many rows of a long list are printed."""
    option: typer.models.OptionInfo = typer.Option(min=least, metavar="N", help=help_text)
    return option
