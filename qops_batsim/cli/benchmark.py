"""``qops-batsim benchmark``: schedulers on versioned and drawn cases, against the bound."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

from qops_batsim.cli import console, options
from qops_batsim.cli.options import manual
from qops_batsim.parameters import COUNT

BESIDE = ("easy", "qops")
"""Schedulers that always run as well; differences refer to the last one."""

_about = manual(
    """
    SCHEDULER...: Schedulers: registered ones or my_file.py:MyScheduler, with options as in
        qops:k_factor=1. easy and qops run as well.
    --quick: Take one case of each log and its twin: within a minute.
    --seed N: Draw the windows of the twins with this seed. Default: the published one.
    --out, -o DIR: Directory of the result, and of finished runs, which are not made again.
    --logs DIR: Where the logs are looked for first. Then in $QOPS_SHARED/traces, and where
        `workload fetch` puts them; generated workloads stand in for others.
    --with FILE: Show the contestants of a shared benchmark.json as well (repeatable), where their
        cases are equal.
    --html FILE: The page. Default: benchmark.html in DIR.
    --json: Print the result as JSON instead of the tables.
    """
)


def benchmark(
    schedulers: Annotated[list[str] | None, _about("SCHEDULER...", show_default=False)] = None,
    quick: Annotated[bool, _about("--quick")] = False,
    seed: Annotated[int | None, _about("--seed", min=0, show_default=False)] = None,
    out: Annotated[Path, _about("--out")] = Path("out/benchmark"),
    logs: Annotated[Path, _about("--logs")] = Path(),
    shared: Annotated[list[Path] | None, _about("--with")] = None,
    page: Annotated[Path | None, _about("--html", show_default=False)] = None,
    as_json: Annotated[bool, _about("--json")] = False,
    on_broken_promise: options.OnBrokenPromise = COUNT,
    jobs_parallel: options.Processes = 1,
    dask: options.Dask = None,
) -> None:
    """Score schedulers on equal cases, against what is possible at best.

    24 versioned cases of six logs, and 24 twins whose windows are drawn from parts of the logs on
    which nothing was tuned: loads, stringencies, exact and users' estimates, with and without
    outages. Counted are promises of the deadline asked for that were kept, by jobs, work and QoS
    charges, in % of a bound that no schedule exceeds; and waits of the others, fairness between
    users, times of decisions. A run that fails is reported, and the exit code is then 1.

    Writes to DIR benchmark.json, the result to share, and benchmark.html. docs/benchmark.md tells
    what the numbers mean, and what our schedulers reach.

    Examples:

    \b
        qops-batsim benchmark mine.py:Mine --quick
        qops-batsim benchmark mine.py:Mine foresight fqops:kill_and_restart=true
        qops-batsim benchmark mine.py:Mine --with theirs.json
    """
    from qops_batsim.experiments.benchmark import run_benchmark, with_shared, write_result
    from qops_batsim.experiments.benchmark_report import benchmark_page, method_text, tables_of
    from qops_batsim.experiments.deadline_runs import contestants_of
    from qops_batsim.files import write_text

    named = contestants_of(schedulers or [])
    names = {each.name for each in named}
    contestants = (*named, *contestants_of([each for each in BESIDE if each not in names]))
    console.make_directory(out, "--out")
    began = time.perf_counter()
    with console.announce_compiling(), console.progress_bar(None, "benchmark") as on_progress:
        result = run_benchmark(
            contestants,
            baseline=BESIDE[-1],
            directory=out,
            logs=logs,
            seed=seed,
            quick=quick,
            on_broken_promise=on_broken_promise,
            workers=dask or jobs_parallel,
            on_progress=on_progress,
        )
    seconds = time.perf_counter() - began
    path = write_result(result, out)
    for each in shared or ():
        result = with_shared(result, each)
    page = page or out / "benchmark.html"
    write_text(page, benchmark_page(result, console.command_line()))
    if as_json:
        typer.echo(path.read_text("utf-8"), nl=False)
    else:
        for table in tables_of(result):
            console.print_table(table.title, table.headings, table.rows)
        for text in method_text(result):
            console.say(text)
    failed = [(case, *each) for case in result.cases for each in case.errors.items()]
    for case, name, error in failed:
        console.note(f"failed: {name} on {case.name} ({case.half}): {error}")
    console.note(f"{len(result.cases)} cases in {seconds:.1f} s; wrote {path} and {page}")
    if failed:
        raise typer.Exit(1)
