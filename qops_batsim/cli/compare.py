"""``qops-batsim compare``: schedulers over loads and seeds, with deadlines."""

from __future__ import annotations

import time
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from qops_batsim.cli.console import (
    announce_slow,
    make_directory,
    note,
    print_json,
    print_table,
    progress_bar,
)
from qops_batsim.errors import InputError, did_you_mean

if TYPE_CHECKING:
    from qops_batsim.experiments.compare import Contestant, Row, Summary
    from qops_batsim.experiments.intervals import Interval

DEFAULT_WORKLOAD = "sdsc_sp2_1000"
DEFAULT_SCHEDULERS = ["easy", "conservative", "msb", "mrt", "qops"]
MOST_LOADS = 1000


def compare(
    schedulers: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="SCHEDULER...",
            help="Schedulers to compare. Default: easy conservative msb mrt qops.",
            show_default=False,
        ),
    ] = None,
    workload: Annotated[
        str,
        typer.Option(
            "--workload",
            "-w",
            metavar="FILE",
            help="Trace: a Batsim workload of delay jobs (JSON, also .gz), or a shipped one. "
            "Deadlines it has are replaced.",
        ),
    ] = DEFAULT_WORKLOAD,
    loads: Annotated[
        str,
        typer.Option(
            metavar="FROM:TO:STEP", help="Relative loads, both ends included; or a list: 1,1.3."
        ),
    ] = "1.0:1.6:0.1",
    stringency: Annotated[
        float,
        typer.Option(
            metavar="S",
            help="A user's deadline is submission + max(run time, (1 - S) x EASY response time).",
        ),
    ] = 0.2,
    seeds: Annotated[int, typer.Option(min=1, metavar="N", help="Use seeds 1 to N.")] = 5,
    out: Annotated[
        Path, typer.Option("--out", "-o", metavar="DIR", help="Directory of the results.")
    ] = Path("out/compare"),
    deadline_share: Annotated[
        float, typer.Option(help="Share of the jobs, 0 to 1, whose users set a deadline.")
    ] = 1.0,
    relaxation: Annotated[
        float,
        typer.Option(metavar="R", help="Factor of the artificial deadlines of the other jobs."),
    ] = 2.0,
    artificial: Annotated[
        str,
        typer.Option(
            metavar="run-time|turnaround|none",
            help="Artificial deadlines, as in `workload deadlines`.",
        ),
    ] = "run-time",
    method: Annotated[
        str,
        typer.Option(
            metavar="duplication|expansion",
            help="Raise the load by submitting jobs again, or by longer run times.",
        ),
    ] = "duplication",
    first: Annotated[
        int, typer.Option(min=0, metavar="N", help="Take the first N jobs; 0: all that there are.")
    ] = 5000,
    skip: Annotated[
        int, typer.Option(min=0, metavar="N", help="Leave out N jobs before those.")
    ] = 0,
    platform: Annotated[
        str | None,
        typer.Option(
            "--platform",
            "-p",
            metavar="FILE",
            help="SimGrid platform (XML), or the name of a shipped one. "
            "Default: as many equal hosts as the workload is for.",
        ),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="SCHEDULER.OPTION=VALUE",
            help="Option of a scheduler (repeatable); `qops-batsim schedulers NAME` lists them.",
        ),
    ] = None,
    baseline: Annotated[
        str | None,
        typer.Option(
            metavar="SCHEDULER",
            help="Scheduler that differences refer to. Default: msb if compared, else the first.",
            show_default=False,
        ),
    ] = None,
    jobs_parallel: Annotated[
        int,
        typer.Option(
            "--jobs-parallel", min=1, metavar="N", help="Processes; results do not depend on it."
        ),
    ] = 1,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the summary as JSON instead of the table.")
    ] = False,
) -> None:
    """Compare schedulers on deadline workloads over loads and seeds (Islam et al. 2003).

    For each load and seed, makes a workload with deadlines from the trace, as `workload
    scale` and `workload deadlines` do, and runs every scheduler on it. All estimates are
    exact, and a missed promise ends the comparison with an error.

    Writes to DIR compare.csv, one row a run; compare.json, means over the seeds with 95 %
    bootstrap intervals, and paired differences to the baseline; and pictures. Schedulers
    without admission admit every job; the table tells how many deadlines they miss.

    **Examples**

    - A first impression, on a shipped trace: `qops-batsim compare --loads 1,1.3,1.6 --seeds 3`

    - Figures 4 and 6 of the paper:
      `qops-batsim compare easy conservative msb mrt qops --workload ctc.json --out out/ctc`

    - A fifth of the jobs with deadlines, and an option of one scheduler:
      `qops-batsim compare easy qops -w ctc.json --deadline-share 0.2 --set qops.k_factor=20`
    """
    from qops_batsim.experiments.compare import Grid, grid_description, summarize
    from qops_batsim.experiments.compare import compare as run_grid
    from qops_batsim.platform.simgrid_read import read_platform
    from qops_batsim.shipped import find_input
    from qops_batsim.workload.batsim_json import read_workload
    from qops_batsim.workload.deadlines import DeadlineChoices

    contestants = _contestants(schedulers or DEFAULT_SCHEDULERS, settings or [])
    names = [each.name for each in contestants]
    if baseline is None:
        baseline = "msb" if "msb" in names else names[0]
    elif baseline not in names:
        raise InputError(f"--baseline {baseline}: is not compared{did_you_mean(baseline, names)}")
    grid = Grid(
        contestants=contestants,
        loads=read_loads(loads),
        seeds=tuple(range(1, seeds + 1)),
        choices=DeadlineChoices(
            stringency=stringency,
            share=deadline_share,
            artificial=artificial,
            relaxation=relaxation,
        ),
        method=method,
        skip=skip,
        first=first or None,
    )
    grid.check()
    trace = read_workload(find_input(workload, "workloads"))
    machine = None if platform is None else read_platform(find_input(platform, "platforms"))
    make_directory(out, "--out")
    runs = len(names) * len(grid.loads) * seeds
    with announce_slow("compiling kernels for this machine (once) and running ..."):
        for each in contestants:
            _prepare(each)
    began = time.perf_counter()
    with progress_bar(runs, "runs") as on_progress:
        rows = run_grid(
            trace, grid, platform=machine, workers=jobs_parallel, on_progress=on_progress
        )
    seconds = time.perf_counter() - began
    summaries = summarize(rows, baseline)
    made = grid_description(
        grid, {"workload": workload, "platform": platform, "baseline": baseline}
    )
    document = _document(made, summaries)
    paths = _write(out, rows, summaries, document)
    if as_json:
        print_json(document)
    else:
        _print_table(summaries, baseline, mixed=deadline_share < 1)
    note(f"{runs} runs in {seconds:.1f} s; every schedule checked, no promised deadline missed")
    note(f"wrote {', '.join(str(path) for path in paths)}")


def read_loads(text: str) -> tuple[float, ...]:
    """Return the loads that ``1.0:1.6:0.1`` (both ends included) or ``1,1.3`` stands for.

    Raises
    ------
    InputError
        It is neither, or holds more than 1000 loads.
    """
    expected = "FROM:TO:STEP as in 1.0:1.6:0.1, or numbers separated by commas, are expected"
    parts = text.split(":")
    try:
        if len(parts) == 1:
            numbers = [Decimal(each.strip()) for each in text.split(",")]
        else:
            begin, end, step = (Decimal(each.strip()) for each in parts)
            # A sum of floats would miss the end: 1 + 6 × 0.1 exceeds 1.6.
            if not (step > 0 and end >= begin and (end - begin) / step < MOST_LOADS):
                raise InputError(
                    f"--loads {text}: a positive step, and at most {MOST_LOADS} loads up to an "
                    "end that is not below the begin, are expected"
                )
            numbers = [begin + step * i for i in range(int((end - begin) / step) + 1)]
    except (InvalidOperation, ValueError):
        raise InputError(f"--loads {text}: {expected}") from None
    if not all(each.is_finite() for each in numbers):
        raise InputError(f"--loads {text}: {expected}")
    return tuple(float(each) for each in numbers)


def _contestants(schedulers: list[str], settings: list[str]) -> tuple[Contestant, ...]:
    """Return the schedulers with their options."""
    from qops_batsim.experiments.compare import Contestant
    from qops_batsim.scheduling.registry import parse_settings

    options: dict[str, dict[str, Any]] = {name: {} for name in schedulers}
    for name, value in parse_settings(settings).items():
        scheduler, dot, option = name.partition(".")
        if not dot or not option:
            raise InputError(f"--set {name}: SCHEDULER.OPTION=VALUE is expected")
        if scheduler not in options:
            raise InputError(
                f"--set {name}: {scheduler} is not compared{did_you_mean(scheduler, options)}"
            )
        options[scheduler][option] = value
    return tuple(
        Contestant(name=name, scheduler=name, settings=options[name]) for name in schedulers
    )


def _prepare(contestant: Contestant) -> None:
    from qops_batsim.scheduling.registry import scheduler_class

    scheduler_class(contestant.scheduler).prepare()


def _document(made: dict[str, Any], summaries: list[Summary]) -> dict[str, Any]:
    import msgspec

    from qops_batsim.version import __version__

    return {
        "package_version": __version__,
        "made_by": made,
        "interval": "95 % percentile bootstrap over seeds",
        "results": msgspec.to_builtins(summaries),
    }


def _write(
    directory: Path, rows: list[Row], summaries: list[Summary], document: dict[str, Any]
) -> list[Path]:
    import json

    from qops_batsim.experiments.compare import csv_text
    from qops_batsim.experiments.pictures import draw_comparison
    from qops_batsim.files import write_text

    table, description = directory / "compare.csv", directory / "compare.json"
    write_text(table, csv_text(rows))
    write_text(description, json.dumps(document, indent=2, allow_nan=False) + "\n")
    curves: dict[str, dict[float, dict[str, Interval | None]]] = {}
    for each in summaries:
        curves.setdefault(each.contestant, {})[each.load] = each.metrics
    return [table, description, *draw_comparison(curves, directory)]


_COLUMNS = {
    "unadmitted_jobs": "unadmitted jobs (%)",
    "unadmitted_work": "unadmitted proc-s (%)",
    "missed_deadlines": "missed deadlines (%)",
    "utilization": "utilization (%)",
}
_MIXED_COLUMNS = {
    "unadmitted_deadline_jobs": "unadmitted deadline jobs (%)",
    "unadmitted_deadline_work": "unadmitted deadline proc-s (%)",
    "utilization": "utilization (%)",
    "response_time": "response time of others (h)",
    "slowdown": "slowdown of others",
}

_SCALE = {"response_time": 1 / 3600}


def _print_table(summaries: list[Summary], baseline: str, *, mixed: bool) -> None:
    columns = _MIXED_COLUMNS if mixed else _COLUMNS
    compared = next(iter(columns))
    rows = []
    previous = None
    for each in summaries:
        load = "" if each.load == previous else f"{each.load:g}"
        previous = each.load
        cells = [_interval(each.metrics[name], _SCALE.get(name, 1.0)) for name in columns]
        difference = "" if each.contestant == baseline else _interval(each.difference[compared])
        rows.append([load, each.contestant, *cells, difference])
    print_table(
        "Mean over seeds and 95 % interval",
        ["load", "scheduler", *columns.values(), f"{columns[compared]} less {baseline}"],
        rows,
    )


def _interval(value: Interval | None, scale: float = 1.0) -> str:
    if value is None:
        return "-"
    mean = f"{value.mean * scale:,.2f}"
    if value.low is None or value.high is None or value.low == value.high:
        return mean
    return f"{mean} [{value.low * scale:,.2f}, {value.high * scale:,.2f}]"
