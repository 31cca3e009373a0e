"""Any trace as a workload: one function for workload logs and Batsim workloads."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from qops_batsim.errors import InputError
from qops_batsim.files import read_stored
from qops_batsim.shipped import find_input
from qops_batsim.workload.batsim_json import workload_in
from qops_batsim.workload.conversion import Conversion, convert_log, offered_load
from qops_batsim.workload.log import RECORD, Records
from qops_batsim.workload.model import Workload
from qops_batsim.workload.subset import subset
from qops_batsim.workload.swf import swf_in


def read_trace(
    path: str | Path, *, processors: int | None = None, first: int | None = None, **choices: Any
) -> Conversion:
    """Read a trace, whatever its format, as a workload, and tell what was read and left out.

    A workload log in the Standard Workload Format or a Batsim workload (JSON), plain or
    gzip-compressed, recognised by content; a path, or the name of a shipped workload.

    Parameters
    ----------
    processors
        Size of the machine, where a log does not tell it or another one is wanted; a Batsim
        workload has its own.
    first
        How many usable jobs to take; None: all.
    **choices
        Further choices for a log: see :func:`~qops_batsim.workload.conversion.convert_log`.

    Examples
    --------
    >>> trace = read_trace("tiny_8")
    >>> trace.workload.processors, trace.records_read
    (4, 8)
    """
    found = find_input(path, "workloads")
    stored, source = read_stored(found, what="a workload log or a Batsim workload"), str(found)
    if not stored.content.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"{"):
        return convert_log(swf_in(stored, source), processors=processors, first=first, **choices)
    workload = workload_in(stored, source)
    if choices or processors not in (None, workload.processors):
        given = ", ".join(choices) or f"processors {processors}"
        raise InputError(
            f"{source}: is a Batsim workload of {workload.processors} processors, converted "
            f"already; {given} can be chosen for a log only"
        )
    return _as_it_is(workload, first)


def _as_it_is(workload: Workload, first: int | None) -> Conversion:
    """Return the account of a workload that needs no conversion."""
    count = len(workload.jobs)
    if first is not None:
        workload = subset(workload, first=first)
    records = _records(workload)
    submitted = records["submit_time"]
    begin, last = (float(submitted.min()), float(submitted.max())) if count else (0.0, 0.0)
    return Conversion(
        workload=workload,
        records=records,
        records_read=count,
        records_in_window=count,
        repairs=[],
        usable_jobs=count,
        first_submission=begin,
        last_submission=last,
        calendar=workload.calendar,
        offered_load=offered_load(
            records[np.argsort(submitted, kind="stable")], workload.processors
        ),
    )


def _records(workload: Workload) -> Records:
    """Return what a workload says of its jobs as records of a log; -1: not known."""
    columns = workload.columns
    records = np.empty(len(columns.ids), dtype=RECORD)
    for name in RECORD.names or ():
        records[name] = -1
    delays = [workload.profiles[name].get("delay", -1) for name in columns.profile_names]
    records["job_number"] = np.arange(1, len(records) + 1)
    records["submit_time"] = columns.submission_times
    records["requested_processors"] = columns.processors
    records["run_time"] = np.array(delays, dtype=float)[columns.profiles]
    records["requested_time"] = np.where(np.isinf(columns.walltimes), -1, columns.walltimes)
    return records
