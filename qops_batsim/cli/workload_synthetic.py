"""``qops-batsim workload generate`` and ``fetch``: workloads made here or downloaded."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from qops_batsim.cli.console import note, say
from qops_batsim.cli.options import WorkloadOut, manual
from qops_batsim.cli.texts import load_text

if TYPE_CHECKING:
    from qops_batsim.workload.archive import Progress
    from qops_batsim.workload.model import Workload

_about = manual(
    """
    --preset NAME: Parameters: ctc-sp2, sdsc-sp2 and kth-sp2 are fitted to those machines' logs,
        lublin-batch are the published ones.
    --load X: Offered load to bring about, by one factor on the gaps between submissions. Default:
        that of the log; as sampled for lublin-batch.
    --exact-estimates: Estimates equal run times: each job carries its run time in qos and has
        no walltime.
    --deadline-share X: Share of the jobs, 0 to 1, that get a deadline: submission + stretch x run
        time. Above 0, estimates are exact.
    --stretch LOW HIGH: Range in which each deadline's stretch is drawn, from 1 up.
    --out, -o FILE: File to copy the log to, or directory. Default: leave it in the cache.
    --cache DIR: Directory to keep downloads in. Default: the user's cache directory.
    --jobs N: Number of jobs.
    --seed N: Seed; the same seed gives the same file.
    --processors N: Size of the machine. Default: the preset's.
    log: kth-sp2, sdsc-sp2 or ctc-sp2.
    """
)
Share = Annotated[float, _about("--deadline-share")]
Seed = Annotated[int, _about("--seed")]


def generate(
    out: WorkloadOut,
    preset: Annotated[str, _about("--preset")] = "sdsc-sp2",
    jobs: Annotated[int, _about("--jobs")] = 1000,
    seed: Seed = 1,
    processors: Annotated[int | None, _about("--processors")] = None,
    load: Annotated[float | None, _about("--load")] = None,
    exact_estimates: Annotated[bool, _about("--exact-estimates")] = False,
    deadline_share: Share = 0.0,
    stretch: Annotated[tuple[float, float], _about("--stretch")] = (2.0, 10.0),
) -> None:
    """Make a synthetic workload of rigid jobs (model of Lublin and Feitelson, 2003).

    Sizes, run times, arrivals with a daily cycle, and run-time estimates as users
    give them. The file records every parameter and the seed.

    Examples:

    \b
        # 5,000 jobs like those of the CTC SP2:
        qops-batsim workload generate ctc.json --preset ctc-sp2 --jobs 5000 \\
          --seed 1
        # A 256-processor machine at load 0.9:
        qops-batsim workload generate big.json --processors 256 --load 0.9
        # A fifth of the jobs with deadlines:
        qops-batsim workload generate mixed.json --preset kth-sp2 \\
          --deadline-share 0.2
    """
    from qops_batsim.workload.batsim_json import write_workload
    from qops_batsim.workload.generate import DeadlineRule, generate_workload

    workload = generate_workload(
        preset,
        jobs=jobs,
        seed=seed,
        processors=processors,
        load=load,
        exact_estimates=exact_estimates,
        deadlines=DeadlineRule(share=deadline_share, stretch=stretch),
    )
    write_workload(workload, out)
    _print_summary(workload, out, exact_estimates)


def _print_summary(workload: Workload, out: Path, exact_estimates: bool) -> None:
    from qops_batsim.workload.generate import summarise

    summary = summarise(workload)
    say(f"{out}: {summary.jobs} jobs on {workload.processors} processors")
    say(f"offered load: {load_text(summary.offered_load)}")
    say(f"period: {summary.period:.0f} s ({summary.period / 86400:.1f} days)")
    say(f"serial jobs: {summary.serial_share:.1%}, mean size: {summary.mean_size:.1f}")
    say(f"mean run time: {summary.mean_run_time:.0f} s")
    if summary.deadlines:
        say(f"jobs with a deadline: {summary.deadlines}")
    elif not exact_estimates:
        say(f"jobs that run into their walltime: {summary.killed}")


def fetch(
    log: Annotated[str, _about("log")],
    out: Annotated[Path | None, _about("--out")] = None,
    cache: Annotated[Path | None, _about("--cache")] = None,
) -> None:
    """Download a log of the Parallel Workloads Archive and print where it is.

    A log is downloaded once; a broken download is continued by the next call. The
    checksum of kth-sp2 is known to this package. For the other two, that of the first
    download is recorded beside the file, and later downloads must agree with it.

    Examples:

    \b
        # Into the cache:
        qops-batsim workload fetch kth-sp2
        # And a copy here:
        qops-batsim workload fetch sdsc-sp2 --out .
    """
    from qops_batsim.workload.archive import copy_log, fetch_log

    with _progress_bar(log) as progress:
        found = fetch_log(log, cache=cache, progress=progress)
    if found.checked_against == "nothing":
        note(
            f"first download of {found.path.name}: its checksum could not be checked, but is "
            f"recorded for the next time (sha256 {found.sha256})"
        )
    typer.echo(found.path if out is None else copy_log(found, out))


@contextmanager
def _progress_bar(title: str) -> Iterator[Progress | None]:
    """Show a bar on the standard error stream while downloading, if it is a terminal."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn())
    with Progress(*columns, TransferSpeedColumn(), console=Console(stderr=True)) as bar:
        task = None

        def show(received: int, total: int | None) -> None:
            nonlocal task
            if task is None:
                task = bar.add_task(title, total=total)
            bar.update(task, completed=received, total=total)

        yield show
