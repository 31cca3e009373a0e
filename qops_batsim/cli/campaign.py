"""``qops-batsim campaign``: a grid of runs, kept, resumed, judged."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from qops_batsim.cli import console, options
from qops_batsim.cli.inputs import check_format
from qops_batsim.cli.options import manual
from qops_batsim.parameters import is_strict

if TYPE_CHECKING:
    from qops_batsim.experiments.campaign_runs import CampaignRuns

_about = manual(
    """
    FILE: The campaign (TOML); `qops-batsim campaign example` prints one.
    DIR: Directory of a campaign.
    --out, -o DIR: Directory of the campaign: what is run, finished runs, tables.
    --retry: Make runs that failed once more.
    --on-broken-promise count|fail: Whether a promise that its scheduler breaks is counted or makes
        the run fail. Default: what the file says, else count.
    --save FILE: Write the table: a .csv, .json or .parquet file.
    --runs: A row for each run instead of means; only with --save, to .csv or .parquet.
    --pictures DIR: Directory of the pictures. Default: that of the campaign.
    --format png|pdf|svg: Format of the pictures.
    --html FILE: The page. Default: report.html in DIR.
    """
)
_Directory = Annotated[Path, _about("DIR")]

app = typer.Typer(
    help="Run a grid of logs, loads, deadlines, schedulers and seeds; kept, resumed, judged.",
    no_args_is_help=True,
)


@app.command("example")
def example() -> None:
    """Print an example of a campaign file, which runs within a minute.

    Examples:

    \b
        qops-batsim campaign example > campaign.toml
    """
    from importlib.resources import files

    text = files("qops_batsim.experiments").joinpath("campaign_example.toml").read_text("utf-8")
    typer.echo(text.rstrip("\n"))


@app.command("run")
def run(
    file: Annotated[Path, _about("FILE")],
    out: Annotated[Path, _about("--out")],
    jobs_parallel: options.Processes = 1,
    dask: options.Dask = None,
    retry: Annotated[bool, _about("--retry")] = False,
    on_broken_promise: Annotated[str | None, _about("--on-broken-promise")] = None,
    code: options.Code = None,
    allow_code: options.AllowCode = False,
) -> None:
    """Make the runs of a campaign that its directory does not hold yet, and print the table.

    Every finished run is kept at once, so that a campaign which was killed goes on where it
    was, and one that has grown makes only what is new. Equal runs are made once: at load 1, say,
    seeds make no difference. A run that fails is recorded, and the others go on; the exit code is
    then 1. After changes to the code of a scheduler take another directory.

    Writes to DIR runs.csv, a row a run, and table.csv, means with intervals and verdicts.

    Examples:

    \b
        qops-batsim campaign run campaign.toml --out out/first --workers 2
        # On a Dask cluster:
        qops-batsim campaign run campaign.toml -o out/first \\
          --dask tcp://head:8786
    """
    import msgspec

    from qops_batsim.experiments.campaign import read_campaign
    from qops_batsim.experiments.campaign_report import write_table
    from qops_batsim.experiments.campaign_runs import run_campaign

    campaign = read_campaign(file, code=allow_code or code or ())
    if on_broken_promise is not None:
        broken = "fail" if is_strict(on_broken_promise) else "count"
        campaign = msgspec.structs.replace(campaign, on_broken_promise=broken)
    console.make_directory(out, "--out")
    began = time.perf_counter()
    asked = sum(1 for _ in campaign.cells())
    with console.announce_compiling(), console.progress_bar(asked, campaign.name) as on_progress:
        runs = run_campaign(
            campaign,
            out,
            logs=file.parent,
            workers=dask or jobs_parallel,
            retry=retry,
            on_progress=on_progress,
        )
    seconds = time.perf_counter() - began
    paths = [out / "runs.csv", out / "table.csv"]
    for path in paths:
        write_table(runs, path, each_run=path is paths[0])
    _print_table(runs)
    failed = _print_failures(runs)
    console.note(f"{campaign.name} in {seconds:.1f} s")
    console.note(f"wrote {', '.join(str(path) for path in paths)}")
    if failed:
        raise typer.Exit(1)


@app.command("status")
def status(directory: _Directory, as_json: options.AsJson = False) -> None:
    """Tell how far a campaign is, also while it runs, and what failed.

    Examples:

    \b
        qops-batsim campaign status out/first
    """
    from qops_batsim.experiments.campaign_runs import (
        read_campaign_runs,
        read_description,
        status_of,
    )

    found = status_of(directory)
    if as_json:
        console.print_json(found)
        return
    known = read_description(directory)
    console.say(f"{known.campaign.name} ({known.key}), package {known.package_version}")
    left = found.runs - found.finished - found.failed
    console.say(
        f"{found.finished:,} of {found.runs:,} runs finished, {found.failed:,} failed, {left:,} to "
        f"do; {found.cells:,} were asked for"
    )
    if found.failed:
        _print_failures(read_campaign_runs(directory))


@app.command("table")
def table(
    directory: _Directory,
    save: Annotated[Path | None, _about("--save")] = None,
    each_run: Annotated[bool, _about("--runs")] = False,
    as_json: options.AsJson = False,
) -> None:
    """Print means, intervals and verdicts of the runs that are finished, or write them to a file.

    Examples:

    \b
        qops-batsim campaign table out/first
        # For a paper:
        qops-batsim campaign table out/first --save table.csv
    """
    from qops_batsim.errors import InputError
    from qops_batsim.experiments.campaign_report import document_of, summaries, write_table
    from qops_batsim.experiments.campaign_runs import read_campaign_runs

    if each_run and save is None:
        raise InputError("--runs: is of use only with --save FILE")
    runs = read_campaign_runs(directory)
    if save is not None:
        write_table(runs, save, each_run=each_run)
        console.note(f"wrote {save}")
    elif as_json:
        console.print_json(document_of(runs, summaries(runs)))
    else:
        _print_table(runs)


@app.command("plot")
def plot(
    directory: _Directory,
    pictures: Annotated[Path | None, _about("--pictures")] = None,
    ending: Annotated[str, _about("--format")] = "png",
) -> None:
    """Draw the runs that are finished: refused jobs and work, utilization, response times.

    Examples:

    \b
        qops-batsim campaign plot out/first --format svg
    """
    from qops_batsim.experiments.campaign_report import draw_campaign, summaries

    check_format(ending)
    found = summaries(_finished(directory))
    target = pictures or directory
    console.make_directory(target, "--pictures")
    paths = draw_campaign(found, target, ending=ending)
    console.note(f"wrote {', '.join(str(path) for path in paths)}")


@app.command("report")
def report(
    directory: _Directory,
    page: Annotated[Path | None, _about("--html", show_default=False)] = None,
) -> None:
    """Write the table and the pictures of the runs that are finished into one page.

    Examples:

    \b
        qops-batsim campaign report out/first --html first.html
    """
    from qops_batsim.experiments.campaign_report import campaign_page
    from qops_batsim.files import write_text

    page = page or directory / "report.html"
    write_text(page, campaign_page(_finished(directory), console.command_line()))
    console.note(f"wrote {page}")


def _finished(directory: Path) -> CampaignRuns:
    """Return the runs of a campaign, of which at least one is finished."""
    from qops_batsim.errors import InputError
    from qops_batsim.experiments.campaign_runs import read_campaign_runs

    runs = read_campaign_runs(directory)
    if all(each.metrics is None for each in runs.outcomes):
        raise InputError(f"{directory}: no run is finished; `campaign status` tells more")
    return runs


def _print_table(runs: CampaignRuns) -> None:
    from qops_batsim.experiments.campaign_report import method_text, summaries, table_cells

    headings, rows = table_cells(runs, summaries(runs))
    keys = headings.index("scheduler") + 1
    console.print_table(runs.campaign.name, headings, rows, keys=keys)
    console.say(method_text(runs))


def _print_failures(runs: CampaignRuns) -> int:
    """Print what failed, each error once; return how many runs that are."""
    errors: dict[str, list[str]] = {}
    for each in runs.outcomes:
        if each.error is not None and not each.repeated:
            cell = each.cell
            where = f"{cell.contestant} on {cell.point.log} {cell.window}"
            what = f"{where}, load {cell.point.load:g}, seed {cell.seed}"
            errors.setdefault(each.error, []).append(what)
    for error, cells in errors.items():
        more = f" and {len(cells) - 1} more" if len(cells) > 1 else ""
        console.note(f"failed: {cells[0]}{more}: {error}")
    return sum(map(len, errors.values()))
