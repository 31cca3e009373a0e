"""Arguments and options that several commands share, with their help.

A command names them in its signature (``run: Run, as_json: AsJson = False``); what only one
command has stands in that command's file. They are described as on a manual page:

    _about = manual(
        '''
        --out, -o PREFIX: Where to write.
        [Which jobs]
        --from DATE: Take jobs submitted from this date on: an ISO date, or seconds since the
            log's start.
        JOB: The job: w0!12, or 12 where that is clear.
        '''
    )
    Start = Annotated[str | None, _about("--from")]
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from functools import wraps
from inspect import Signature, signature
from pathlib import Path
from typing import Annotated, Any

import typer

from qops_batsim.limits import MAX_HOSTS
from qops_batsim.parameters import AXES, ON_BROKEN_PROMISE

_Command = Callable[..., None]


def manual(page: str, *further: str) -> Callable[..., Any]:
    """Return a function that makes Typer options and arguments from entries of ``page``.

    An entry begins with what the user writes, up to the first colon and blank: an option with
    its other names and the name of its value, or an argument. Further lines of an entry are
    indented. Limits of the value (``min``, ``max`` …) are passed on to Typer. ``further`` are
    more entries. A line in brackets is the heading of the options below it in the command's
    help.
    """
    entries: dict[str, tuple[list[str], str, str, str | None]] = {}
    heading = None
    for entry in (*re.split(r"\n(?=\S)", inspect.cleandoc(page)), *further):
        if entry.startswith("["):
            heading = entry.strip("[]") or None
            continue
        head, text = " ".join(entry.split()).split(": ", 1)
        flags = re.findall(r"(?:^|(?<=, ))-[^ ,]+", head)
        value = head.removeprefix(", ".join(flags)).strip()
        name = flags[0] if flags else value
        assert name not in entries, f"{name} is described twice"
        entries[name] = (flags, value, text, heading)

    def about(name: str, **limits: Any) -> Any:
        flags, value, text, heading = entries[name]
        about_it = {"help": text, "rich_help_panel": heading, **limits}
        if not flags:
            return typer.Argument(metavar=value, **about_it)
        return typer.Option(*flags, metavar=value or None, **about_it)

    return about


def with_options(shared: _Command) -> Callable[[_Command], _Command]:
    """Return a decorator that adds a function's options to a command, which gets them as
    ``**given``.
    """

    def decorate(command: _Command) -> _Command:
        own = signature(command, eval_str=True).parameters.values()
        common = signature(shared, eval_str=True).parameters.values()
        named = [option for option in own if option.kind != option.VAR_KEYWORD]
        needed = [option for option in named if option.default is option.empty]
        parameters = [*needed, *common, *named[len(needed) :]]

        @wraps(command)
        def with_all(*arguments: Any, **given: Any) -> None:
            command(*arguments, **given)

        # As Typer has to see them.
        with_all.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
        with_all.__annotations__ = {option.name: option.annotation for option in parameters}
        return with_all

    return decorate


A_JOB = "The job, as processors and estimated run time: 64x2h, 8x7200"

A_RUN = "its PREFIX (of PREFIX_jobs.csv …), a directory with one run, or a _jobs.csv (also .gz)."

_of_runs = manual(
    f"""
    PREFIX: The run: {A_RUN}
    PREFIX...: The runs: for each {A_RUN}
    --hosts N: Hosts of the machine. Default: what the run's files say, else the largest
        allocated host id + 1.
    --workload, -w FILE: Workload that was run (JSON); repeat it for several, in their order.
        Default: the one that PREFIX_run.json names, if it still exists.
    --platform, -p FILE: Platform that was run on, for what its hosts have (cores, memory, GPUs).
        Default: the one that PREFIX_run.json names, if hosts were shared and it still exists.
    """
)
Run = Annotated[str, _of_runs("PREFIX")]
Runs = Annotated[list[str], _of_runs("PREFIX...")]
Hosts = Annotated[int | None, _of_runs("--hosts", min=1, max=MAX_HOSTS)]
PlatformOfRun = Annotated[Path | None, _of_runs("--platform")]
WorkloadsOfRun = Annotated[list[Path] | None, _of_runs("--workload")]

_of_prices = manual(
    """
    --workload, -w FILE: Workload that was run, for the slowdowns in QoS charges. Default: the one
        that PREFIX_run.json names.
    --prices FILE: Prices, penalties and edges of categories (TOML); `charges --example` prints one.
        Default: the charges of Islam et al. (2004), without prices.
    """
)
PricesFile = Annotated[Path | None, _of_prices("--prices")]
PricedWorkload = Annotated[str | None, _of_prices("--workload")]

_to_run = manual(
    """
    scheduler: Name of the scheduler; `qops-batsim schedulers` lists them.
    --set NAME=VALUE: Option of the scheduler (repeatable); `qops-batsim schedulers NAME` lists
        them.
    --platform, -p FILE: SimGrid platform (XML), or the name of a shipped one. Default: as many
        equal hosts as the workload is for.
    --message-delays/--no-message-delays: Simulate the delays of Batsim's own messages on
        platforms with latencies, as the real Batsim always does.
    [Processes]
    --workers N: Number of processes; results do not depend on it.
    --dask ADDRESS: Run on a Dask cluster instead: the address of its scheduler, as
        tcp://HOST:8786. Its workers must have this package installed; needs the extra dask.
    []
    """,
    ON_BROKEN_PROMISE.option,
)
Scheduler = Annotated[str, _to_run("scheduler")]
Settings = Annotated[list[str] | None, _to_run("--set")]
Platform = Annotated[str | None, _to_run("--platform")]
MessageDelays = Annotated[bool, _to_run("--message-delays/--no-message-delays")]
Processes = Annotated[int, _to_run("--workers", min=1)]
Dask = Annotated[str | None, _to_run("--dask")]
OnBrokenPromise = Annotated[str, _to_run("--on-broken-promise")]

_of_workloads = manual(
    """
    IN: Workload of delay jobs (JSON, plain or .gz), or a shipped one.
    out: Workload to write (JSON; compressed if named .gz).
    --first N: Take the first N jobs (after those of --skip); 0: all.
    --skip N: Leave out the first N jobs.
    [Load and deadlines]
    """,
    *(axis.option for axis in AXES if axis.option),
)
WorkloadIn = Annotated[str, _of_workloads("IN")]
WorkloadOut = Annotated[Path, _of_workloads("out")]
First = Annotated[int, _of_workloads("--first")]
Skip = Annotated[int, _of_workloads("--skip")]
Stringency = Annotated[float, _of_workloads("--stringency")]
DeadlineShare = Annotated[float, _of_workloads("--deadline-share")]
Relaxation = Annotated[float, _of_workloads("--relaxation")]
Artificial = Annotated[str, _of_workloads("--artificial")]
LoadMethod = Annotated[str, _of_workloads("--method")]

_of_accounting = manual(
    """
    [Which jobs]
    --qos NAME: Take jobs of this QOS (repeatable).
    --account NAME: Take jobs of this account (repeatable).
    --reservation NAME: Take jobs inside this reservation only (repeatable); all: every job.
        Default: jobs outside reservations.
    [What a job is]
    --nodes FILE: Nodes of the partitions: output of scontrol show node, or of sinfo with PARTITION,
        CPUS and GRES, or a platform whose hosts have amounts. Default: as many as jobs use at most
        at once.
    """
)
Qos = Annotated[list[str] | None, _of_accounting("--qos")]
Accounts = Annotated[list[str] | None, _of_accounting("--account")]
Reservations = Annotated[list[str] | None, _of_accounting("--reservation")]
NodesFile = Annotated[Path | None, _of_accounting("--nodes")]

_of_code = manual(
    """
    --code FILE.py: Python file, which will be run, with a scheduler that the input files name
        (repeatable). If they record a digest, the file must have that digest. Default: schedulers
        from files are refused.
    """
)
Code = Annotated[list[Path] | None, _of_code("--code")]

_of_output = manual(
    """
    --json: Print JSON instead of text.
    --quiet, -q: Print nothing but errors.
    """
)
AsJson = Annotated[bool, _of_output("--json")]
Quiet = Annotated[bool, _of_output("--quiet")]


def rows_to_list(text: str, least: int = 1) -> Any:
    """Make the option ``--first N`` with the help ``text``: how many rows of a list are printed."""
    return manual(f"--first N: {text}")("--first", min=least)
