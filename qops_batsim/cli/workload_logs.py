"""``qops-batsim workload from-swf`` and ``lint``: logs in the Standard Workload Format."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from qops_batsim.cli.console import print_json, print_table
from qops_batsim.errors import InputError

if TYPE_CHECKING:
    from qops_batsim.workload.from_swf import Conversion
    from qops_batsim.workload.swf_lint import Finding

_DONE = {
    "drop": "left out",
    "clip": "clipped",
    "keep": "kept as they are",
    "renumber": "renumbered",
    "sort": "sorted",
}

Log = Annotated[Path, typer.Argument(help="Log in the Standard Workload Format, plain or .gz.")]


def register(app: typer.Typer) -> None:
    """Add the commands for logs to the ``workload`` commands."""
    app.command("from-swf")(from_swf)
    app.command("lint")(lint)


def from_swf(
    log: Log,
    out: Annotated[Path, typer.Argument(help="Workload to write (JSON; compressed if named .gz).")],
    processors: Annotated[
        int | None,
        typer.Option(help="Size of the machine. Default: the header's MaxProcs, else MaxNodes."),
    ] = None,
    first: Annotated[
        int | None,
        typer.Option(metavar="N", help="Write the first N usable jobs (after window and repairs)."),
    ] = None,
    skip: Annotated[
        int, typer.Option(metavar="N", help="Leave out N usable jobs before those.")
    ] = 0,
    start: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="DATE",
            help="Take jobs submitted from this date on: an ISO date or date and time in the "
            "log's time zone, or seconds since the log's start.",
        ),
    ] = None,
    end: Annotated[
        str | None,
        typer.Option("--to", metavar="DATE", help="Take jobs submitted before this date."),
    ] = None,
    month: Annotated[
        str | None,
        typer.Option(
            metavar="YYYY-MM",
            help="Take jobs submitted in this calendar month of the log's time zone.",
        ),
    ] = None,
    time_zone: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="The log's time zone (Europe/Stockholm) instead of the header's TimeZoneString.",
        ),
    ] = None,
    rebase: Annotated[
        bool,
        typer.Option(
            "--rebase",
            help="Submit the first job at 0. Default: the log's own seconds, so that months of "
            "one log stay comparable.",
        ),
    ] = False,
    processors_field: Annotated[
        str,
        typer.Option(
            metavar="requested|allocated",
            help="Which count of processors a job gets; where it is missing, the other.",
        ),
    ] = "requested",
    on_no_processors: Annotated[
        str,
        typer.Option(
            metavar="drop|clip", help="Jobs without either count of processors; clip: 1 processor."
        ),
    ] = "drop",
    on_too_wide: Annotated[
        str,
        typer.Option(
            metavar="drop|clip|keep",
            help="Jobs with more processors than the machine; clip: all of the machine; keep: "
            "schedulers reject them.",
        ),
    ] = "drop",
    on_no_run_time: Annotated[
        str,
        typer.Option(
            metavar="drop|clip",
            help="Jobs with run time 0 or less, mostly cancelled before they ran; clip: 1 second.",
        ),
    ] = "drop",
    on_no_requested_time: Annotated[
        str,
        typer.Option(
            metavar="keep|clip|drop",
            help="Jobs without requested time; keep: no walltime; clip: walltime = run time.",
        ),
    ] = "keep",
    on_overrun: Annotated[
        str,
        typer.Option(
            metavar="keep|clip|drop",
            help="Jobs that ran longer than requested; keep: the engine kills them at their "
            "walltime; clip: run time = requested time.",
        ),
    ] = "keep",
    on_duplicate_id: Annotated[
        str,
        typer.Option(
            metavar="drop|renumber",
            help="Jobs with the number of an earlier usable job; renumber: above the highest "
            "number of the log.",
        ),
    ] = "drop",
) -> None:
    """Convert a log to a Batsim workload of `delay` jobs.

    In this order: the window (`--from`, `--to` or `--month`), the repairs (`--on-…`), then
    `--skip` and `--first`. Every repair is reported with the number of jobs it concerned, and
    every choice is recorded in the workload.

    Not a choice: stretches of a job that another line tells whole (status 2, 3, 4) and jobs
    without submit time are left out, and jobs are sorted by submit time. Batsim kills a job
    whose run time equals its walltime, so a job clipped to it counts as killed.

    **Examples**

    - `qops-batsim workload from-swf KTH-SP2-1996-2.swf.gz kth.json --processors 100`

    - `qops-batsim workload from-swf KTH-SP2-1996-2.swf.gz kth.json --first 5000`

    - `qops-batsim workload from-swf KTH-SP2-1996-2.swf.gz oct.json --month 1996-10 --rebase`

    - `qops-batsim workload from-swf SDSC-SP2-1998.swf.gz sdsc.json.gz --on-overrun clip`
    """
    from qops_batsim.workload import write_workload
    from qops_batsim.workload.from_swf import Repairs, convert_swf
    from qops_batsim.workload.swf import read_swf

    repairs = Repairs(
        no_processors=on_no_processors,
        too_wide=on_too_wide,
        no_run_time=on_no_run_time,
        no_requested_time=on_no_requested_time,
        overrun=on_overrun,
        duplicate_id=on_duplicate_id,
        processors_field=processors_field,
    )
    if out.exists() and log.exists() and out.samefile(log):
        raise InputError(f"{out}: is the log itself; another file to write is expected")
    conversion = convert_swf(
        read_swf(log),
        processors=processors,
        start=start,
        end=end,
        month=month,
        time_zone=time_zone,
        repairs=repairs,
        skip=skip,
        first=first,
        rebase=rebase,
    )
    write_workload(conversion.workload, out)
    _print_conversion(conversion, log, out)


def lint(
    log: Log,
    processors: Annotated[
        int | None,
        typer.Option(help="Size of the machine. Default: the header's MaxProcs, else MaxNodes."),
    ] = None,
    show: Annotated[
        int, typer.Option(metavar="K", help="Line numbers to show for each finding.")
    ] = 5,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print everything as JSON, with all line numbers.")
    ] = False,
    strict: Annotated[
        bool, typer.Option("--strict", help="Exit with code 1 when anything is found.")
    ] = False,
) -> None:
    """Report what is odd in a log: how many records, and in which lines.

    Looks for cancelled jobs, jobs without run time, processors, requested or submit time, jobs
    wider than the machine, jobs that ran longer than requested, records out of order, repeated
    job numbers, malformed lines, and a header that the file contradicts. Nothing is changed;
    `from-swf` repairs.

    **Examples**

    - `qops-batsim workload lint KTH-SP2-1996-2.swf.gz`

    - `qops-batsim workload lint KTH-SP2-1996-2.swf.gz --processors 64 --json`
    """
    from qops_batsim.workload.swf_lint import lint_swf, report_as_data

    if show < 0:
        raise InputError(f"--show is {show}; a whole number from 0 up is expected")
    report = lint_swf(log, processors=processors)
    if as_json:
        print_json(report_as_data(report))
    else:
        size = "unknown" if report.processors is None else str(report.processors)
        typer.echo(f"{report.log}: {report.records} records, machine of {size} processors")
        if report.found():
            print_table(
                "Findings",
                ("rule", "what", "count", "lines"),
                [_finding_row(finding, show) for finding in report.found()],
            )
        else:
            typer.echo("nothing found")
        for finding in report.found():
            for text in _details(finding, show):
                typer.echo(text)
        for rule, reason in report.unchecked.items():
            typer.echo(f"{rule}: not checked ({reason})")
    if strict and report.found():
        raise typer.Exit(1)


def _finding_row(finding: Finding, show: int) -> tuple[str, str, str, str]:
    lines = [str(line) for line in finding.lines[:show]]
    if len(finding.lines) > show:
        lines.append("…")
    return finding.rule, finding.description, str(finding.count), " ".join(lines)


def _details(finding: Finding, show: int) -> list[str]:
    details = finding.details[:show]
    if not finding.lines:
        return [f"{finding.rule}: {detail}" for detail in details]
    return [f"line {line}: {detail}" for line, detail in zip(finding.lines, details, strict=False)]


def _print_conversion(conversion: Conversion, log: Path, out: Path) -> None:
    """Print what was read, repaired and written."""
    typer.echo(f"{log.name}: {conversion.records_read} records")
    if conversion.records_in_window != conversion.records_read:
        typer.echo(f"submitted in the window: {conversion.records_in_window}")
    print_table(
        "Repairs",
        ("what", "done", "jobs"),
        [(count.description, _DONE[count.choice], str(count.jobs)) for count in conversion.repairs],
    )
    jobs = len(conversion.workload.jobs)
    typer.echo(
        f"{out}: {jobs} of {conversion.usable_jobs} usable jobs written, "
        f"{conversion.workload.processors} processors"
    )
    begin, last = conversion.first_submission, conversion.last_submission
    load = conversion.offered_load
    typer.echo(
        "offered load: "
        + ("undefined (all jobs are submitted at one date)" if load is None else f"{load:.4f}")
    )
    seconds = f"second {begin:.10g} to {last:.10g} of the log"
    if conversion.period is None:
        typer.echo(f"submitted: {seconds}")
    else:
        dates = " to ".join(conversion.period)
        typer.echo(f"submitted: {dates} ({conversion.time_zone}), {seconds}")
