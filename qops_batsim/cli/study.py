"""``qops-batsim study``: run, resume and judge a grid of runs."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from qops_batsim.cli import common_options, console
from qops_batsim.cli.common_options import manual
from qops_batsim.errors import require_one_of
from qops_batsim.parameters import is_strict

if TYPE_CHECKING:
    from collections.abc import Sequence

    from qops_batsim.experiments.study import Study
    from qops_batsim.experiments.study_runs import StudyRuns

LONG = 10.0
"""Seconds from which on the expected time is told."""

_about = manual(
    """
    FILE: The study (TOML; `qops-batsim study example` prints one), or the name of one that comes
        with the package: benchmark, example.
    SCHEDULER...: Schedulers in addition to those of the file: registered ones or
        my_file.py:MyScheduler, with options as in qops:k_factor=1.
    DIR: Directory of a study.
    --out, -o DIR: Directory of the study: what is run, finished runs, tables.
    --quick: For studies that list cases: take one case of each log and its twin.
    --seed N: For studies that list cases: draw the windows of the twins with this seed.
        Default: the published one.
    --retry: Make runs that failed once more.
    --on-broken-promise count|fail: Count broken promises, or let the run fail. Default: what
        the file says, else count.
    --format png|pdf|svg: Format of the pictures.
    --html FILE: Write table and pictures into one page, which needs no other file.
    """
)
_Directory = Annotated[Path, _about("DIR")]
_of_report = manual(
    """
    --out, -o DIR: Directory of a report: runs.csv, table.csv, report.json and pictures.
    --with DIR: Show the other schedulers of another study's directory as well, where workloads are
        equal.
    """
)

app = typer.Typer(
    help="Run a grid of logs, loads, deadlines, schedulers and seeds, and compare the schedulers.",
    no_args_is_help=True,
)


@app.command("example")
def example() -> None:
    """Print an example of a study file, which runs within a minute.

    Examples:

    \b
        qops-batsim study example > study.toml
    """
    from importlib.resources import files

    text = files("qops_batsim.experiments").joinpath("example.toml").read_text("utf-8")
    typer.echo(text.rstrip("\n"))


@app.command("run")
def run(
    file: Annotated[Path, _about("FILE")],
    out: Annotated[Path, _about("--out")],
    schedulers: Annotated[list[str] | None, _about("SCHEDULER...", show_default=False)] = None,
    quick: Annotated[bool, _about("--quick")] = False,
    seed: Annotated[int | None, _about("--seed", min=0, show_default=False)] = None,
    workers: common_options.Processes = 1,
    dask: common_options.Dask = None,
    retry: Annotated[bool, _about("--retry")] = False,
    on_broken_promise: Annotated[str | None, _about("--on-broken-promise")] = None,
    code: common_options.Code = None,
) -> None:
    """Make the runs of a study that are not finished yet, and print its table.

    Every finished run is kept at once, so that a study which was killed continues where it was,
    and one that was extended makes only new runs. Equal runs are made once: at load 1, for
    example, all seeds give the same run. A run that fails is recorded, and the others continue;
    the exit code is then 1. A change to the code of a scheduler of yours, or to what it imports,
    has its runs made again.

    Writes to DIR runs.csv, a row a run; table.csv and report.json, means with intervals and
    verdicts.

    `benchmark` has 24 versioned cases of six logs and 24 twins whose windows are drawn from parts
    of the logs on which nothing was tuned: loads, stringencies, exact and users' estimates, with
    and without outages. Schedulers are ranked by the promises that they kept, in % of a bound that
    no schedule exceeds; generated workloads stand in for logs that are not there. It takes some ten
    seconds a scheduler, with --quick three.

    Examples:

    \b
        qops-batsim study run study.toml --out out/first --workers 2
        # Your own scheduler among ours, on equal terms:
        qops-batsim study run benchmark mine.py:Mine --quick --out out/mine
        # On a Dask cluster:
        qops-batsim study run study.toml -o out/first \\
          --dask tcp://head:8786
    """
    import msgspec

    from qops_batsim.experiments.study import read_study, with_schedulers

    study = read_study(file, code=code or (), seed=seed, quick=quick)
    study = with_schedulers(study, schedulers or ())
    if on_broken_promise is not None:
        broken = "fail" if is_strict(on_broken_promise) else "count"
        study = msgspec.structs.replace(study, on_broken_promise=broken)
    tell_study(study, out, file.parent, dask or workers, retry=retry)


def tell_study(
    study: Study,
    out: Path,
    logs: Path,
    workers: int | str,
    *,
    retry: bool = False,
    ending: str = "",
    page: Path | None = None,
) -> None:
    """Make the runs of a study, print its table, write its files; exit code 1 if a run failed.

    ``logs`` is the directory of the logs, ``ending`` the format of pictures, ``page`` an HTML
    file.
    """
    from qops_batsim.code_record import not_covered_text
    from qops_batsim.experiments.pictures import write_files
    from qops_batsim.experiments.study_report import report_of, tables_of
    from qops_batsim.experiments.study_runs import run_study
    from qops_batsim.files import check_writable

    not_covered = dict.fromkeys(x for each in study.schedulers for x in each.code.not_covered)
    for missed in not_covered:
        console.warn(not_covered_text(missed))
    if page is not None:
        check_writable(page)
    began = time.perf_counter()
    asked = sum(1 for _ in study.cells())
    with console.progress_bar(asked, study.name) as on_progress:
        runs = run_study(
            study,
            out,
            logs=logs,
            workers=workers,
            retry=retry,
            on_start=_tell_cost,
            on_progress=on_progress,
        )
    seconds = time.perf_counter() - began
    failed = _print_failures(runs)
    _print_table(runs)
    paths = write_files(
        report_of(runs),
        study.name,
        console.command_line(),
        out=out,
        page=page,
        ending=ending,
        texts=tables_of(runs),
    )
    console.note(f"{study.name} in {seconds:.1f} s; every schedule checked")
    console.note(f"wrote {', '.join(str(path) for path in paths)}")
    if failed:
        raise typer.Exit(1)


def _tell_cost(jobs: Sequence[float]) -> None:
    """Print how many runs will be made and how long that takes, given the jobs of each run."""
    # Measured: 0.05 ms a job in runs of some hundreds, 0.4 ms in those of 28,000.
    seconds = sum(each * 5e-5 * (1 + each / 4000) for each in jobs)
    if seconds > LONG:
        told = f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:,.0f} min"
        console.note(f"{len(jobs):,} runs to make: about {told} of CPU time, more where jobs crowd")


@app.command("status")
def status(directory: _Directory, as_json: common_options.AsJson = False) -> None:
    """Tell how many runs of a study are finished, also while it runs, and what failed.

    Examples:

    \b
        qops-batsim study status out/first
    """
    from qops_batsim.experiments.study_runs import (
        read_description,
        read_study_runs,
        status_of,
    )

    progress = status_of(directory)
    if as_json:
        console.print_json(progress)
        return
    description = read_description(directory)
    console.say(
        f"{description.study.name} ({description.key}), package {description.package_version}"
    )
    left = progress.runs - progress.finished - progress.failed
    console.say(
        f"{progress.finished:,} of {progress.runs:,} runs finished, {progress.failed:,} failed, "
        f"{left:,} to do; {progress.cells:,} were asked for"
    )
    if progress.failed:
        _print_failures(read_study_runs(directory))


@app.command("report")
def report(
    directory: _Directory,
    out: Annotated[Path | None, _of_report("--out", show_default=False)] = None,
    ending: Annotated[str, _about("--format")] = "png",
    page: Annotated[Path | None, _about("--html", show_default=False)] = None,
    others: Annotated[Path | None, _of_report("--with", show_default=False)] = None,
    as_json: common_options.AsJson = False,
) -> None:
    """Print the table of a study's finished runs, or write table and pictures to files.

    The table has means, intervals and verdicts; it can be printed while the study still runs.

    Examples:

    \b
        qops-batsim study report out/first
        qops-batsim study report out/first --html first.html
        # For a paper:
        qops-batsim study report out/first --out out/first/report --format pdf
    """
    from qops_batsim.experiments.pictures import write_files
    from qops_batsim.experiments.study_report import report_of, tables_of
    from qops_batsim.experiments.study_runs import with_others
    from qops_batsim.files import make_directory

    require_one_of("--format", ending, ("png", "pdf", "svg"))
    runs = _finished(directory)
    if others is not None:
        runs = with_others(runs, others)
    if out is not None:
        make_directory(out, "--out")
    study_report = report_of(runs)
    paths = write_files(
        study_report,
        runs.study.name,
        console.command_line(),
        out=out,
        page=page,
        ending=ending,
        texts=tables_of(runs),
    )
    if as_json:
        console.print_json(study_report.document())
    else:
        _print_table(runs)
    if paths:
        console.note(f"wrote {', '.join(str(path) for path in paths)}")


def _finished(directory: Path) -> StudyRuns:
    """Return a study's runs from its directory; InputError if none is finished."""
    from qops_batsim.errors import InputError
    from qops_batsim.experiments.study_runs import read_study_runs

    runs = read_study_runs(directory)
    if all(each.metrics is None for each in runs.outcomes):
        raise InputError(
            f"{directory}: no run of this study is finished yet; `study status {directory}` tells "
            "how far it is, and what has failed"
        )
    return runs


def _print_table(runs: StudyRuns) -> None:
    from qops_batsim.experiments.study_report import method_text, page_tables

    for table in page_tables(runs):
        keys = table.headings.index("scheduler") + 1
        console.print_table(table.title, table.headings, table.rows, keys=keys)
    console.say(method_text(runs))


def _print_failures(runs: StudyRuns) -> int:
    """Print each distinct error of a study's runs once; return how many runs failed."""
    errors: dict[str, list[str]] = {}
    for each in runs.outcomes:
        if each.error is not None and not each.repeated:
            cell = each.cell
            point = cell.point
            workload = (
                f"{point.case} ({point.half})" if point.case else f"{point.log} {cell.window}"
            )
            what = f"{cell.contestant} on {workload}, load {point.load:g}, seed {cell.seed}"
            errors.setdefault(each.error, []).append(what)
    for error, cells in errors.items():
        more = f" and {len(cells) - 1} more" if len(cells) > 1 else ""
        console.note(f"failed: {cells[0]}{more}: {error}")
    return sum(map(len, errors.values()))
