"""``qops-batsim compare``: schedulers over loads and seeds, with deadlines."""

from __future__ import annotations

import time
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from qops_batsim.cli import console, options
from qops_batsim.cli.inputs import check_format
from qops_batsim.cli.options import manual
from qops_batsim.errors import InputError, did_you_mean
from qops_batsim.files import check_writable
from qops_batsim.parameters import (
    ARTIFICIAL,
    COUNT,
    ESTIMATES,
    EXACT,
    METHOD,
    RELAXATION,
    SEEDS,
    SHARE,
    STRINGENCY,
)

if TYPE_CHECKING:
    from qops_batsim.experiments.compare import Comparison
    from qops_batsim.experiments.deadline_runs import Contestant
    from qops_batsim.experiments.statistics import Interval

DEFAULT_WORKLOAD = "sdsc_sp2_1000"
DEFAULT_SCHEDULERS = ["easy", "conservative", "msb", "mrt", "qops"]
MOST_LOADS = 1000

_about = manual(
    """
    SCHEDULER...: Schedulers to compare, registered ones or my_file.py:MyScheduler, with options as
        in qops:k_factor=1,order=earliest_deadline. Default: easy conservative msb mrt qops.
    --workload, -w FILE: Trace: a Batsim workload of delay jobs (JSON, also .gz), or a shipped
        one. Deadlines it has are replaced.
    --loads FROM:TO:STEP: Relative loads, both ends included; or a list: 1,1.3.
    --seeds N: Use seeds 1 to N.
    --out, -o DIR: Directory of the results.
    --set SCHEDULER.OPTION=VALUE: Option of a scheduler (repeatable); `qops-batsim schedulers
        NAME` lists them.
    --baseline SCHEDULER: Scheduler that differences refer to. Default: msb if compared, else the
        first.
    --json: Print the summary as JSON instead of the table.
    --format png|pdf|svg: Format of the pictures.
    --bound UNITS: Also bound what any schedule could admit, and draw it with the best known one:
        so long a search for each workload, in about seconds (deterministic time of `bound`).
    --html FILE: Write everything into one page, which needs no other file.
    """,
    ESTIMATES.option,
)


def compare(
    schedulers: Annotated[list[str] | None, _about("SCHEDULER...", show_default=False)] = None,
    workload: Annotated[str, _about("--workload")] = DEFAULT_WORKLOAD,
    loads: Annotated[str, _about("--loads")] = "1.0:1.6:0.1",
    stringency: options.Stringency = STRINGENCY.default,
    seeds: Annotated[int, _about("--seeds", min=1)] = SEEDS,
    out: Annotated[Path, _about("--out")] = Path("out/compare"),
    deadline_share: options.DeadlineShare = SHARE.default,
    relaxation: options.Relaxation = RELAXATION.default,
    artificial: options.Artificial = ARTIFICIAL.default,
    method: options.LoadMethod = METHOD.default,
    first: options.First = 0,
    skip: options.Skip = 0,
    estimates: Annotated[str | None, _about("--estimates", show_default="users")] = None,
    platform: options.Platform = None,
    message_delays: options.MessageDelays = True,
    settings: Annotated[list[str] | None, _about("--set")] = None,
    baseline: Annotated[str | None, _about("--baseline", show_default=False)] = None,
    on_broken_promise: options.OnBrokenPromise = COUNT,
    jobs_parallel: options.Processes = 1,
    dask: options.Dask = None,
    as_json: Annotated[bool, _about("--json")] = False,
    ending: Annotated[str, _about("--format")] = "png",
    bound: Annotated[float | None, _about("--bound", min=0.1, show_default=False)] = None,
    page: Annotated[Path | None, _about("--html", show_default=False)] = None,
) -> None:
    """Compare schedulers on deadline workloads over loads and seeds (Islam et al. 2003).

    For each load and seed, makes a workload with deadlines from the trace, as `workload
    scale` and `workload deadlines` do, and runs every scheduler on it. Deadlines are made from
    the log's walltimes, and schedulers plan with these; `--estimates exact`, or `--bound`,
    replaces them by run times. A promise that its scheduler breaks is counted; with
    `--on-broken-promise fail` it ends the comparison with an error.

    Runs that were finished when the command was interrupted are kept in DIR and not made
    again. Writes to DIR compare.csv, one row a run; compare.json, means over the seeds with 95 %
    intervals (Student), and paired differences to the baseline; and pictures.

    Examples:

    \b
        # A first impression:
        qops-batsim compare --loads 1,1.3,1.6 --seeds 3
        # Figures 4 and 6:
        qops-batsim compare easy conservative msb mrt qops -w ctc.json \\
          --first 5000
        # Several settings of one scheduler:
        qops-batsim compare qops qops:k_factor=20 --html k.html
    """
    from qops_batsim.experiments.compare import comparison_of, kept_runs, run_comparison
    from qops_batsim.experiments.study_report import broken_text
    from qops_batsim.running.inputs import load_platform, load_workload
    from qops_batsim.workload.deadlines import DeadlineChoices

    choices = DeadlineChoices(
        stringency=stringency, share=deadline_share, artificial=artificial, relaxation=relaxation
    )
    contestants = _contestants(schedulers or DEFAULT_SCHEDULERS, settings or [])
    check_format(ending)
    names = [each.name for each in contestants]
    if baseline is not None and baseline not in names:
        raise InputError(f"--baseline {baseline}: is not compared{did_you_mean(baseline, names)}")
    if bound is not None:
        _check_bound(platform, estimates)
    study = comparison_of(
        contestants,
        loads=read_loads(loads),
        seeds=range(1, seeds + 1),
        choices=choices,
        method=method,
        skip=skip,
        first=first or None,
        estimates=estimates,
        baseline=baseline,
        bound=bound,
        on_broken_promise=on_broken_promise,
    )
    trace = load_workload(workload)
    machine = None if platform is None else load_platform(platform, trace)
    console.make_directory(out, "--out")
    if page is not None:
        check_writable(page)
    kept = kept_runs(out / "unfinished", study, trace, machine, message_delays)
    began, count = time.perf_counter(), sum(1 for _ in study.cells())
    with console.announce_compiling(), console.progress_bar(count, "runs") as on_progress:
        found = run_comparison(
            trace,
            study,
            inputs={"workload": workload, "platform": platform},
            platform=machine,
            message_delays=message_delays,
            workers=dask or jobs_parallel,
            kept=kept,
            on_progress=on_progress,
        )
    seconds = time.perf_counter() - began
    paths = found.write(out, ending=ending)
    if page is not None:
        from qops_batsim.experiments.compare import comparison_page
        from qops_batsim.files import write_text

        write_text(page, comparison_page(found, console.command_line()))
        paths.append(page)
    kept.clear()
    if as_json:
        console.print_json(found.document())
    else:
        _print_table(found)
        _print_limits(found)
    broken = broken_text(found.outcomes) or " No promise broken."
    console.note(f"{count} runs in {seconds:.1f} s; every schedule checked.{broken}")
    console.note(f"wrote {', '.join(str(path) for path in paths)}")


def _check_bound(platform: str | None, estimates: str | None) -> None:
    from qops_batsim.optimum.solver import require_solver

    if estimates not in (None, EXACT):
        raise InputError(f"--bound beside --estimates {estimates}: bounds know run times")
    if platform is not None:
        raise InputError(
            f"--bound beside --platform {platform}: bounds are for as many equal hosts as the "
            "workload is for"
        )
    require_solver()


def _print_limits(found: Comparison) -> None:
    if not found.limits:
        return
    lines = [
        (f"{metric.removeprefix('unadmitted_')}, {name}", by_load)
        for name, by_metric in found.limits.items()
        for metric, by_load in by_metric.items()
    ]
    rows = [
        [f"{load:g}", *(f"{by_load[load]:.2f}" for _, by_load in lines)]
        for load in found.study.loads
    ]
    title = "The best possible: unadmitted (%), fewest jobs and least work each by itself"
    console.print_table(title, ["load", *(name for name, _ in lines)], rows)


def read_loads(text: str) -> tuple[float, ...]:
    """Return the loads that ``1.0:1.6:0.1`` (both ends included) or ``1,1.3`` stands for."""
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


def _contestants(schedulers: list[str], assignments: list[str]) -> tuple[Contestant, ...]:
    """Return the schedulers with their options."""
    from qops_batsim.experiments.deadline_runs import contestants_of
    from qops_batsim.scheduling.registry import parse_settings

    names = [each.name for each in contestants_of(schedulers, {})]
    settings: dict[str, dict[str, Any]] = {}
    for name, value in parse_settings(assignments).items():
        scheduler, dot, option = name.partition(".")
        if not dot or not option:
            raise InputError(f"--set {name}: SCHEDULER.OPTION=VALUE is expected")
        if scheduler not in names:
            hint = did_you_mean(scheduler, names)
            raise InputError(f"--set {name}: {scheduler} is not compared{hint}")
        settings.setdefault(scheduler, {})[option] = value
    return contestants_of(schedulers, settings)


_COLUMNS = (
    "met_deadlines",
    "missed_deadlines",
    "unadmitted_jobs",
    "unadmitted_work",
    "utilization",
    "wait",
    "bounded_slowdown_of_all",
)
_MIXED_COLUMNS = (
    "met_deadlines",
    "missed_deadlines",
    "unadmitted_deadline_jobs",
    "unadmitted_deadline_work",
    "utilization",
    "response_time",
    "slowdown",
    "wait",
    "bounded_slowdown_of_all",
)


def _print_table(found: Comparison) -> None:
    from qops_batsim.experiments.page import without_empty_columns
    from qops_batsim.experiments.study_report import heading_of

    columns = _MIXED_COLUMNS if found.study.deadline_shares[0] < 1 else _COLUMNS
    compared = next(name for name in columns if name.startswith("unadmitted"))
    title = "Mean over seeds and 95 % interval"
    headings = [heading_of(name) for name in columns]
    head = ["load", "scheduler", *headings, f"{heading_of(compared)} less {found.baseline}"]
    rows = []
    previous = None
    for each in found.summaries:
        load = "" if each.point.load == previous else f"{each.point.load:g}"
        previous = each.point.load
        cells = [_interval(each.metrics[name]) for name in columns]
        is_baseline = each.scheduler == found.baseline
        cells.append("" if is_baseline else _interval(each.difference[compared]))
        rows.append([load, each.scheduler, *cells])
    console.print_table(title, *without_empty_columns(head, rows), keys=2)
    console.say("utilization: from the first submission to the last completion")
    for text in found.sayings:
        console.say(text)


def _interval(value: Interval | None) -> str:
    if value is None:
        return "-"
    same = value.low == value.high
    return f"{value.mean:,.2f}" if same else value.text()
