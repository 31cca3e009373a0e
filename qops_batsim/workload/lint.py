"""Oddities of a workload log: counts and line numbers, nothing changed.

Real logs hold jobs that never ran and headers that promise other numbers than the file holds.
None of it is an error; all of it changes results, so :mod:`qops_batsim.workload.conversion`
repairs it, visibly.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from qops_batsim.errors import InputError, require, shown
from qops_batsim.files import Stored, read_stored
from qops_batsim.workload.accounting.rows import Choices
from qops_batsim.workload.batsim5 import aborts_of_batsim5
from qops_batsim.workload.batsim_json import workload_in
from qops_batsim.workload.conversion import Mask, overruns, repeated, steps_back
from qops_batsim.workload.log import STATUS_CANCELLED, STATUS_PARTIAL, Log, Malformed
from qops_batsim.workload.log_formats import log_format
from qops_batsim.workload.model import Workload
from qops_batsim.workload.swf import SwfLog
from qops_batsim.workload.traces import scan_log

if TYPE_CHECKING:
    from qops_batsim.workload.accounting.site import CsvForm


class Finding(msgspec.Struct, frozen=True):
    """One rule and the lines that break it.

    ``count`` is the number of records concerned, ``lines`` their numbers in ascending order;
    for ``header`` fields are counted, and there are no lines. ``details`` says what was
    found where numbers alone do not tell (malformed lines, header).
    """

    rule: str
    description: str
    count: int
    lines: list[int]
    details: list[str] = []


class LintReport(msgspec.Struct, frozen=True):
    """Findings of :func:`lint_log`.

    ``records`` counts the lines that are not comments, malformed ones included;
    ``processors`` is the machine that jobs were compared with. ``findings`` has every rule
    that was checked, also with count 0, ``unchecked`` the reason for each other.
    """

    log: str
    records: int
    processors: int | None
    findings: list[Finding]
    unchecked: dict[str, str]

    def found(self) -> list[Finding]:
        """Return the findings with a count above 0."""
        return [finding for finding in self.findings if finding.count]


def lint_file(
    path: str | Path, *, processors: int | None = None, time_zone: str | None = None
) -> LintReport:
    """Check a log of any format, plain or gzip-compressed; see :func:`lint`.

    The ``time_zone`` is that of dates without UTC offset, in the accounting of a batch system.
    """
    stored = read_stored(path, what="a workload log")
    choices = Choices(time_zone=time_zone)
    return lint(stored, str(path), processors=processors, choices=choices)


def lint(
    stored: Stored,
    source: str,
    *,
    processors: int | None = None,
    choices: Choices | None = None,
    kind: str = "",
    form: CsvForm | None = None,
) -> LintReport:
    """Check a log in a file that was read; lines that are no records are findings.

    The machine has ``processors``; by default what the log says. What a reader of accounting leaves
    out (steps, jobs that wait, earlier runs) is a finding, too. In a Batsim workload, findings are
    what Batsim 5 aborts on. The rest is as for :func:`~qops_batsim.workload.traces.log_in`.
    """
    if (kind or log_format(stored.content)) == "batsim":
        return _lint_workload(workload_in(stored, source))
    log, malformed = scan_log(stored, source, choices, kind, form)
    if not len(log.records):
        others = f" ({len(malformed)} lines are none)" if malformed else ""
        raise InputError(
            f"{source}: no record{others}; a log in the Standard Workload Format, or the "
            "accounting of Slurm or PBS, is expected"
        )
    return lint_log(log, malformed, processors=processors)


def _lint_workload(workload: Workload) -> LintReport:
    """Check a Batsim workload, which is as it should be, for what Batsim 5 aborts on."""
    findings = [
        Finding(rule, description, len(names), [], list(map(shown, names)))
        for rule, (description, names) in aborts_of_batsim5(workload).items()
    ]
    name = Path(workload.source).name
    return LintReport(name, len(workload.jobs), workload.processors, findings, {})


def lint_log(
    log: Log, malformed: list[Malformed] | None = None, *, processors: int | None = None
) -> LintReport:
    """Check the records of a log; see :func:`lint`."""
    fits = processors is None or processors >= 1
    require(fits, "processors", processors, "a whole number above 0 is expected")
    malformed = malformed or []
    unchecked: dict[str, str] = {}
    if processors is None:
        try:
            processors = log.machine_size()
            reason = f"{log.no_machine_size()}; give --processors"
        except InputError as error:
            reason = str(error)
        if processors is None:
            unchecked["too_wide"] = reason
    columns = "18 columns" if isinstance(log, SwfLog) else "the columns that they should have"
    findings = [
        _malformed(malformed, "columns", f"lines without {columns}"),
        _malformed(malformed, "value", "lines with a value that is not the number it should be"),
    ]
    for rule, (description, mask) in _record_rules(log, processors).items():
        lines = log.lines[mask].tolist()
        findings.append(Finding(rule, description, len(lines), lines))
    findings += [
        Finding(each.rule, each.description, len(each.lines), list(each.lines))
        for each in log.left_out
    ]
    records = log.read
    if isinstance(log, SwfLog):
        findings.append(_check_header(log, len(malformed)))
        records += len(malformed)
    return LintReport(Path(log.source).name, records, processors, findings, unchecked)


def report_as_data(report: LintReport) -> dict[str, Any]:
    """Return a report as plain lists and dictionaries, findings by rule."""
    data: dict[str, Any] = msgspec.to_builtins(report)
    data["findings"] = {finding.pop("rule"): finding for finding in data["findings"]}
    return data


def _malformed(malformed: list[Malformed], kind: str, description: str) -> Finding:
    chosen = [record for record in malformed if record.kind == kind]
    lines = [record.line for record in chosen]
    return Finding(kind, description, len(lines), lines, [record.problem for record in chosen])


def _record_rules(log: Log, processors: int | None) -> dict[str, tuple[str, Mask]]:
    """Return description and mask of the records concerned, by rule."""
    records = log.records
    run = records["run_time"]
    submitted, status = records["submit_time"], records["status"]
    allocated, requested = records["allocated_processors"], records["requested_processors"]
    partial = np.isin(status, STATUS_PARTIAL)
    # A job's stretches share its number by design.
    again = ~partial
    again[again] = repeated(records["job_number"][again])
    width = np.where(requested > 0, requested, allocated)
    cancelled = (status == STATUS_CANCELLED) | (run == -1)
    differ = (allocated > 0) & (requested > 0) & (allocated != requested)
    rules: dict[str, tuple[str, Mask]] = {
        "cancelled": ("cancelled jobs (status 5, or run time -1)", cancelled),
        "no_run_time": ("run time 0 or less", run <= 0),
        "no_allocated_processors": ("allocated processors 0 or less", allocated <= 0),
        "no_processors": ("neither requested nor allocated processors above 0", width <= 0),
        "processors_differ": ("allocated another number of processors than requested", differ),
    }
    if processors is not None:
        description = f"requested or allocated more than the machine's {processors} processors"
        rules["too_wide"] = description, np.maximum(requested, allocated) > processors
    rules |= {
        "no_requested_time": (
            "no requested time (none, 0 or less)",
            records["requested_time"] <= 0,
        ),
        "overrun": ("run time above the requested time", overruns(records)),
        "no_submit_time": ("submit time below 0", submitted < 0),
        "early_start": (
            "started before submission (a wait below 0 other than -1)",
            (records["wait_time"] < 0) & (records["wait_time"] != -1),
        ),
        "submit_order": ("submitted before the record above", steps_back(records)),
        "duplicate_id": ("job number of an earlier record", again),
        "partial": ("stretches of a job told whole elsewhere (status 2, 3, 4)", partial),
    }
    return rules


def _check_header(log: SwfLog, malformed: int) -> Finding:
    """Compare the header's totals with what the file holds."""
    records = len(log) + malformed
    jobs = records - int(np.isin(log.records["status"], STATUS_PARTIAL).sum())
    totals = {"MaxJobs": (jobs, "jobs"), "MaxRecords": (records, "records")}
    details = []
    for key in (*totals, "MaxProcs", "MaxNodes", "UnixStartTime"):
        try:
            promised = log.header.integer(key)
        except InputError as error:
            details.append(str(error))
            continue
        found, things = totals.get(key, (promised, ""))
        if promised is not None and promised != found:
            details.append(f"{key} says {promised}, the file holds {found} {things}")
    description = "header fields that the file contradicts, or that are no numbers"
    return Finding("header", description, len(details), [], details)
