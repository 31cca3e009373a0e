"""``qops-batsim workload from-swf`` and ``lint``: logs in the Standard Workload Format."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from qops_batsim.cli.console import print_json, print_table
from qops_batsim.cli.inputs import refuse_same_file
from qops_batsim.cli.options import WorkloadOut
from qops_batsim.cli.texts import load_text
from qops_batsim.errors import InputError

if TYPE_CHECKING:
    from qops_batsim.workload.from_swf import Conversion
    from qops_batsim.workload.swf import SwfLog
    from qops_batsim.workload.swf_lint import Finding, LintReport

_DONE = {
    "drop": "left out",
    "clip": "clipped",
    "keep": "kept as they are",
    "renumber": "renumbered",
    "sort": "sorted",
}

Log = Annotated[Path, typer.Argument(help="Log in the Standard Workload Format, plain or .gz.")]
MachineSize = Annotated[
    int | None,
    typer.Option(help="Size of the machine. Default: the header's MaxProcs, else MaxNodes."),
]
FirstUsable = Annotated[
    int | None,
    typer.Option(metavar="N", help="Write the first N usable jobs (after window and repairs)."),
]
SkipUsable = Annotated[int, typer.Option(metavar="N", help="Leave out N usable jobs before those.")]
Start = Annotated[
    str | None,
    typer.Option(
        "--from",
        metavar="DATE",
        help="Take jobs submitted from this date on: an ISO date or date and time in the "
        "log's time zone, or seconds since the log's start.",
    ),
]
End = Annotated[
    str | None,
    typer.Option("--to", metavar="DATE", help="Take jobs submitted before this date."),
]
Month = Annotated[
    str | None,
    typer.Option(
        metavar="YYYY-MM", help="Take jobs submitted in this calendar month of the log's time zone."
    ),
]
TimeZone = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="The log's time zone (Europe/Stockholm) instead of the header's TimeZoneString.",
    ),
]
Rebase = Annotated[
    bool,
    typer.Option(
        "--rebase",
        help="Submit the first job at 0. Default: the log's own seconds, so that months of "
        "one log stay comparable.",
    ),
]
ProcessorsField = Annotated[
    str,
    typer.Option(
        metavar="requested|allocated",
        help="Which count of processors a job gets; where it is missing, the other.",
    ),
]
NoProcessors = Annotated[
    str,
    typer.Option(
        metavar="drop|clip", help="Jobs without either count of processors; clip: 1 processor."
    ),
]
TooWide = Annotated[
    str,
    typer.Option(
        metavar="drop|clip|keep",
        help="Jobs with more processors than the machine; clip: all of the machine; keep: "
        "schedulers reject them.",
    ),
]
NoRunTime = Annotated[
    str,
    typer.Option(
        metavar="drop|clip",
        help="Jobs with run time 0 or less, mostly cancelled before they ran; clip: 1 second.",
    ),
]
NoRequestedTime = Annotated[
    str,
    typer.Option(
        metavar="keep|clip|drop",
        help="Jobs without requested time; keep: no walltime; clip: walltime = run time.",
    ),
]
Overrun = Annotated[
    str,
    typer.Option(
        metavar="keep|clip|drop",
        help="Jobs that ran longer than requested; keep: the engine kills them at their "
        "walltime; clip: run time = requested time.",
    ),
]
DuplicateId = Annotated[
    str,
    typer.Option(
        metavar="drop|renumber",
        help="Jobs with the number of an earlier usable job; renumber: above the highest "
        "number of the log.",
    ),
]


def from_swf(
    log: Log,
    out: WorkloadOut,
    processors: MachineSize = None,
    first: FirstUsable = None,
    skip: SkipUsable = 0,
    start: Start = None,
    end: End = None,
    month: Month = None,
    time_zone: TimeZone = None,
    rebase: Rebase = False,
    processors_field: ProcessorsField = "requested",
    on_no_processors: NoProcessors = "drop",
    on_too_wide: TooWide = "drop",
    on_no_run_time: NoRunTime = "drop",
    on_no_requested_time: NoRequestedTime = "keep",
    on_overrun: Overrun = "keep",
    on_duplicate_id: DuplicateId = "drop",
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
    from qops_batsim.workload.from_swf import Bounds, Repairs, convert_swf

    repairs = Repairs(
        no_processors=on_no_processors,
        too_wide=on_too_wide,
        no_run_time=on_no_run_time,
        no_requested_time=on_no_requested_time,
        overrun=on_overrun,
        duplicate_id=on_duplicate_id,
        processors_field=processors_field,
    )
    window: Bounds = {"start": start, "end": end, "month": month, "time_zone": time_zone}
    conversion = convert_swf(
        _read(log, out),
        processors=processors,
        repairs=repairs,
        skip=skip,
        first=first,
        rebase=rebase,
        **window,
    )
    _write(conversion, log, out)


def lint(
    log: Log,
    processors: MachineSize = None,
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
        _print_report(report, show)
    if strict and report.found():
        raise typer.Exit(1)


def _print_report(report: LintReport, show: int) -> None:
    size = "unknown" if report.processors is None else str(report.processors)
    typer.echo(f"{report.log}: {report.records} records, machine of {size} processors")
    found = report.found()
    if found:
        rows = [_finding_row(finding, show) for finding in found]
        print_table("Findings", ("rule", "what", "count", "lines"), rows)
    else:
        typer.echo("nothing found")
    for finding in found:
        for text in _details(finding, show):
            typer.echo(text)
    for rule, reason in report.unchecked.items():
        typer.echo(f"{rule}: not checked ({reason})")


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


def _read(log: Path, out: Path) -> SwfLog:
    from qops_batsim.workload.swf import read_swf

    refuse_same_file(log, out, "log")
    return read_swf(log)


def _write(conversion: Conversion, log: Path, out: Path) -> None:
    """Write the workload; print what was read, repaired and written."""
    from qops_batsim.workload.batsim_json import write_workload

    write_workload(conversion.workload, out)
    typer.echo(f"{log.name}: {conversion.records_read} records")
    if conversion.records_in_window != conversion.records_read:
        typer.echo(f"submitted in the window: {conversion.records_in_window}")
    print_table(
        "Repairs",
        ("what", "done", "jobs"),
        [(count.description, _DONE[count.choice], str(count.jobs)) for count in conversion.repairs],
    )
    typer.echo(
        f"{out}: {len(conversion.workload.jobs)} of {conversion.usable_jobs} usable jobs written, "
        f"{conversion.workload.processors} processors"
    )
    typer.echo(f"offered load: {load_text(conversion.offered_load)}")
    begin, last = conversion.first_submission, conversion.last_submission
    dates = ""
    if conversion.period is not None:
        dates = f"{' to '.join(conversion.period)} ({conversion.time_zone}), "
    typer.echo(f"submitted: {dates}second {begin:.10g} to {last:.10g} of the log")
