"""``qops-batsim workload from-swf`` and ``lint``: logs in the Standard Workload Format.

The options and the report of all commands that convert a log are here as well.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from qops_batsim.cli.console import print_json, print_table, say, warn
from qops_batsim.cli.inputs import refuse_same_file
from qops_batsim.cli.options import WorkloadOut, manual, with_options
from qops_batsim.cli.texts import load_text
from qops_batsim.errors import InputError

if TYPE_CHECKING:
    from qops_batsim.workload.conversion import Conversion
    from qops_batsim.workload.lint import Finding, LintReport
    from qops_batsim.workload.log import Log

_about = manual(
    """
    log: Log in the Standard Workload Format, plain or .gz.
    any: Log in the Standard Workload Format, or the accounting of Slurm or PBS, plain or .gz.
    --processors N: Size of the machine. Default: the header's MaxProcs, else MaxNodes.
    --first N: Write the first N usable jobs (after window and repairs).
    --skip N: Leave out N usable jobs before those.
    --from DATE: Take jobs submitted from this date on: an ISO date or date and time in the
        log's time zone, or seconds since the log's start.
    --to DATE: Take jobs submitted before this date.
    --month YYYY-MM: Take jobs submitted in this calendar month of the log's time zone.
    --time-zone NAME: The log's time zone (Europe/Stockholm) instead of the header's
        TimeZoneString.
    --rebase: Submit the first job at 0. Default: the log's own seconds, so that months of one
        log stay comparable.
    --processors-field requested|allocated: Which count of processors a job gets; where it is
        missing, the other.
    --on-no-processors drop|clip: Jobs without either count of processors; clip: 1 processor.
    --on-too-wide drop|clip|keep: Jobs with more processors than the machine; clip: all of the
        machine; keep: schedulers reject them.
    --on-no-run-time drop|clip|limit: Jobs with run time 0 or less, mostly cancelled before they
        ran; clip: 1 second; limit: as long as they requested.
    --on-no-requested-time keep|clip|drop: Jobs without requested time; keep: no walltime; clip:
        walltime = run time.
    --on-overrun keep|clip|drop: Jobs that ran longer than requested; keep: the engine kills
        them at their walltime; clip: run time = requested time.
    --on-duplicate-id drop|renumber: Jobs with the number of an earlier usable job; renumber:
        above the highest number of the log.
    --show K: Line numbers to show for each finding.
    --json: Print everything as JSON, with all line numbers.
    --strict: Exit with code 1 when anything is found.
    """
)
MachineSize = Annotated[int | None, _about("--processors")]
TimeZone = Annotated[str | None, _about("--time-zone")]


def of_conversion(
    first: Annotated[int | None, _about("--first")] = None,
    skip: Annotated[int, _about("--skip")] = 0,
    start: Annotated[str | None, _about("--from")] = None,
    end: Annotated[str | None, _about("--to")] = None,
    month: Annotated[str | None, _about("--month")] = None,
    rebase: Annotated[bool, _about("--rebase")] = False,
    on_too_wide: Annotated[str, _about("--on-too-wide")] = "drop",
    on_no_run_time: Annotated[str, _about("--on-no-run-time")] = "drop",
    on_no_requested_time: Annotated[str, _about("--on-no-requested-time")] = "keep",
    on_overrun: Annotated[str, _about("--on-overrun")] = "keep",
) -> None:
    """Add the options of all commands that convert a log."""


@with_options(of_conversion)
def from_swf(
    log: Annotated[Path, _about("log")],
    out: WorkloadOut,
    processors: MachineSize = None,
    time_zone: TimeZone = None,
    processors_field: Annotated[str, _about("--processors-field")] = "requested",
    on_no_processors: Annotated[str, _about("--on-no-processors")] = "drop",
    on_duplicate_id: Annotated[str, _about("--on-duplicate-id")] = "drop",
    **given: Any,
) -> None:
    """Convert a log to a Batsim workload of `delay` jobs.

    In this order: the window (`--from`, `--to` or `--month`), the repairs (`--on-…`), then
    `--skip` and `--first`. Every repair is reported with the number of jobs it concerned, and
    every choice is recorded in the workload.

    Not a choice: stretches of a job that another line tells whole (status 2, 3, 4) and jobs
    without submit time are left out, and jobs are sorted by submit time. Batsim kills a job
    whose run time equals its walltime, so a job clipped to it counts as killed.

    Examples:

    \b
        qops-batsim workload from-swf KTH-SP2-1996-2.swf.gz kth.json \\
          --processors 100
        qops-batsim workload from-swf KTH-SP2-1996-2.swf.gz oct.json \\
          --month 1996-10 --rebase
        qops-batsim workload from-swf SDSC-SP2-1998.swf.gz sdsc.json.gz \\
          --on-overrun clip
    """
    from qops_batsim.workload.swf import read_swf

    refuse_same_file(log, out, "log")
    repairs = {"no_processors": on_no_processors, "duplicate_id": on_duplicate_id}
    repairs["processors_field"] = processors_field
    conversion = converted(
        read_swf(log), given, processors=processors, time_zone=time_zone, **repairs
    )
    write_converted(conversion, log, out)


def converted(
    log: Log,
    given: Mapping[str, Any],
    *,
    processors: int | None,
    time_zone: str | None = None,
    **repairs: str,
) -> Conversion:
    """Convert a log by the options of :func:`of_conversion`, and further repairs."""
    from qops_batsim.workload.conversion import Bounds, Repairs, convert_log

    rules = ("too_wide", "no_run_time", "no_requested_time", "overrun")
    return convert_log(
        log,
        processors=processors,
        repairs=Repairs(**{rule: given[f"on_{rule}"] for rule in rules}, **repairs),
        skip=given["skip"],
        first=given["first"],
        rebase=given["rebase"],
        **Bounds(start=given["start"], end=given["end"], month=given["month"], time_zone=time_zone),
    )


def lint(
    log: Annotated[Path, _about("any")],
    processors: MachineSize = None,
    time_zone: TimeZone = None,
    show: Annotated[int, _about("--show")] = 5,
    as_json: Annotated[bool, _about("--json")] = False,
    strict: Annotated[bool, _about("--strict")] = False,
) -> None:
    """Report what is odd in a log of any format: how many records, and in which lines.

    Looks for cancelled jobs, jobs without run time, processors, requested or submit time, jobs
    wider than the machine, jobs that ran longer than requested, records out of order, repeated
    job numbers, malformed lines, and a header that the file contradicts; in the accounting of Slurm
    or PBS, for what is no job that ran; in a Batsim workload, for what Batsim 5 aborts on. Nothing
    is changed; `from-swf`, `from-sacct` and `from-pbs` repair.

    Examples:

    \b
        qops-batsim workload lint KTH-SP2-1996-2.swf.gz
        qops-batsim workload lint KTH-SP2-1996-2.swf.gz --processors 64 \\
          --json
        qops-batsim workload lint march.txt --time-zone Europe/Stockholm
    """
    from qops_batsim.workload.lint import lint_file, report_as_data

    if show < 0:
        raise InputError(f"--show is {show}; a whole number from 0 up is expected")
    report = lint_file(log, processors=processors, time_zone=time_zone)
    if as_json:
        print_json(report_as_data(report))
    else:
        _print_report(report, show)
    if strict and report.found():
        raise typer.Exit(1)


def _print_report(report: LintReport, show: int) -> None:
    size = "unknown" if report.processors is None else str(report.processors)
    say(f"{report.log}: {report.records} records, machine of {size} processors")
    found = report.found()
    if found:
        rows = [_finding_row(finding, show) for finding in found]
        print_table("Findings", ("rule", "what", "count", "lines"), rows)
    else:
        say("nothing found")
    for finding in found:
        for text in _details(finding, show):
            say(text)
    for rule, reason in report.unchecked.items():
        say(f"{rule}: not checked ({reason})")


def _finding_row(finding: Finding, show: int) -> tuple[str, str, str, str]:
    more = ["…"] if len(finding.lines) > show else []
    lines = " ".join([*map(str, finding.lines[:show]), *more])
    return finding.rule, finding.description, str(finding.count), lines


def _details(finding: Finding, show: int) -> list[str]:
    details = finding.details[:show]
    if not finding.lines:
        return [f"{finding.rule}: {detail}" for detail in details]
    return [f"line {line}: {detail}" for line, detail in zip(finding.lines, details, strict=False)]


def write_converted(conversion: Conversion, log: Path, out: Path) -> None:
    """Write the workload; print the records read, repaired and written."""
    from qops_batsim.workload.batsim_json import write_workload

    write_workload(conversion.workload, out)
    say(f"{log.name}: {conversion.records_read} records")
    from qops_batsim.workload.conversion import DONE
    from qops_batsim.workload.model import shortage

    asked = conversion.workload.provenance
    warn(shortage(len(conversion.workload.jobs), asked["first"], asked["skip"]))
    if conversion.workload.provenance["window"] is not None:
        say(f"submitted in the window: {conversion.records_in_window}")
    rows = [
        (each.description, DONE[each.choice], str(each.jobs))
        for each in conversion.repairs
        if each.jobs
    ]
    if rows:
        print_table("Left out and repaired", ("what", "done", "jobs"), rows)
    say(
        f"{out}: {len(conversion.workload.jobs)} of {conversion.usable_jobs} usable jobs written, "
        f"{conversion.workload.processors} processors"
    )
    if conversion.size_is:
        say(f"processors of the machine: {conversion.size_is} (--processors sets it)")
    if conversion.counted:
        say(f"counted in {conversion.counted}")
    say(f"offered load: {load_text(conversion.offered_load)}")
    begin, last = conversion.first_submission, conversion.last_submission
    calendar = conversion.calendar
    dates = ""
    if calendar is not None:
        period = " to ".join(calendar.text(each) for each in (begin, last))
        dates = f"{period} ({calendar.time_zone}), "
    say(f"submitted: {dates}second {begin:.10g} to {last:.10g} of the log")
