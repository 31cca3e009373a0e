"""From a workload log to a Batsim workload of ``delay`` jobs.

The order is: window by submission date, then repairs, then ``skip`` and ``first``, which count
usable jobs of the window.
"""

from __future__ import annotations

from typing import Any, Unpack

import msgspec
import numpy as np

from qops_batsim.dates import Calendar
from qops_batsim.errors import InputError
from qops_batsim.jobs import Job
from qops_batsim.version import __version__
from qops_batsim.workload.model import (
    Profile,
    Workload,
    check_counts,
    check_processors,
    delay_profile,
    plain_number,
)
from qops_batsim.workload.swf import Records, SwfLog
from qops_batsim.workload.swf_repairs import RepairCount, Repairs, repair_records
from qops_batsim.workload.swf_window import Bounds, LogWindow, log_calendar

__all__ = ["Bounds", "Conversion", "Repairs", "convert_swf"]

_JOB_FIELDS = ("job_number", "submit_time", "requested_processors", "requested_time", "run_time")
_EXTRA_FIELDS = ("user", "group", "executable", "queue")
# Licences ask that these stay with the data.
_CREDITS = ("Installation", "Computer", "Acknowledge", "Copyright", "Information")


class Conversion(msgspec.Struct, kw_only=True):
    """A converted log and the account of the conversion."""

    workload: Workload
    """The jobs; its ``provenance`` records every choice and count."""
    records: Records
    """What the log says of each job of the workload, in its order, after the repairs: waits,
    statuses and users beside what is simulated.
    """
    records_read: int
    records_in_window: int
    """Records submitted within the window (all ``records_read`` without a window)."""
    repairs: list[RepairCount]
    """What was repaired, in the order in which it was done."""
    usable_jobs: int
    """Jobs after the repairs, before ``skip`` and ``first``."""
    first_submission: float
    last_submission: float
    """Dates of the first and last job written (seconds since the log's start)."""
    calendar: Calendar | None
    """The site's dates of the log's seconds; None if they are not known."""
    offered_load: float | None
    """Sum of run time x processors over processors of the machine x time from first to last
    submission; None when that time is 0.
    """


def convert_swf(
    log: SwfLog,
    *,
    processors: int | None = None,
    repairs: Repairs | None = None,
    skip: int = 0,
    first: int | None = None,
    rebase: bool = False,
    **window: Unpack[Bounds],
) -> Conversion:
    """Convert a log, or a part of it, to a workload of ``delay`` jobs.

    A job gets ``id`` (the log's job number), ``subtime``, ``res``, ``walltime`` (unless none was
    requested) and ``profile``, and where the log knows them ``user``, ``group``, ``executable``
    and ``queue`` as the log's numbers. Linear in the log, plus sorting.

    The machine has ``processors``, by default the header's ``MaxProcs``, else ``MaxNodes``. The
    ``**window`` says which submissions to keep (:class:`~qops_batsim.workload.swf_window.Bounds`),
    ``repairs`` what to do with unusable records, ``skip`` and ``first`` how many usable jobs to
    leave out at the beginning and to keep after that (None: all). With ``rebase``, submissions
    count from the first job, otherwise they are the log's own seconds.
    """
    repairs = repairs or Repairs()
    if not len(log):
        raise InputError(f"{log.source}: holds no record; a log with at least one job is expected")
    check_counts(skip, first)
    processors = _machine_size(log, processors)
    stretch = LogWindow.of(log, **window)
    inside = log.records if stretch is None else stretch.cut(log)
    next_number = int(log.records["job_number"].max()) + 1
    usable, counts = repair_records(inside, repairs, processors, next_number)
    if not len(usable):
        did = ", ".join(f"{c.jobs} with {c.description}" for c in counts if c.jobs)
        raise InputError(
            f"{log.source}: none of {len(inside)} jobs is left after the repairs ({did})"
        )
    records: Records = usable[skip : None if first is None else skip + first]
    if not len(records):
        raise InputError(
            f"{log.source}: skip is {skip}, but the window holds {len(usable)} usable jobs; "
            "a smaller number is expected"
        )
    shift = float(records["submit_time"][0]) if rebase else 0.0
    workload = _workload(log, records, processors, shift)
    workload.provenance |= {
        "window": None if stretch is None else stretch.as_data(),
        "processors": processors,
        "processors_field": repairs.processors_field,
        "repairs": {count.rule: {count.choice: count.jobs} for count in counts},
        "skip": skip,
        "first": first,
        "rebased_by": plain_number(shift),
        "jobs": len(records),
    }
    counted = {"records_in_window": len(inside), "usable_jobs": len(usable)}
    return _account(log, workload, records, window.get("time_zone"), repairs=counts, **counted)


def _machine_size(log: SwfLog, processors: int | None) -> int:
    if processors is None:
        processors = log.machine_size()
        if processors is None:
            raise InputError(
                f"{log.source}: {log.no_machine_size()}; give the number of processors"
            )
    try:
        check_processors(processors)
    except InputError as error:
        raise InputError(f"{log.source}: {error}") from None
    return processors


def _workload(log: SwfLog, records: Records, processors: int, origin: float) -> Workload:
    """Return the jobs with their profiles; submissions count from ``origin`` (seconds)."""
    named = {run_time: delay_profile(run_time) for run_time in records["run_time"].tolist()}
    profiles: dict[str, Profile] = dict(named.values())
    columns = (records[name].tolist() for name in _JOB_FIELDS + _EXTRA_FIELDS)
    jobs = []
    for number, submitted, width, requested, run_time, *extras in zip(*columns, strict=True):
        submission = submitted - origin
        walltime = requested if requested > 0 else None
        profile, _ = named[run_time]
        fields: dict[str, Any] = {"id": number, "subtime": plain_number(submission), "res": width}
        if walltime is not None:
            fields["walltime"] = plain_number(walltime)
        fields["profile"] = profile
        known = zip(_EXTRA_FIELDS, extras, strict=True)
        fields |= {name: value for name, value in known if value != -1}
        jobs.append(Job(str(number), submission, width, profile, walltime, fields=fields))
    kept = {key.lower(): value for key in _CREDITS if (value := log.header.get(key)) is not None}
    provenance = {
        "command": "workload from-swf",
        "version": __version__,
        "log": {"file": log.name, "sha256": log.sha256} | kept,
    }
    return Workload(jobs, profiles, processors, provenance, log.source)


def _account(
    log: SwfLog, workload: Workload, records: Records, time_zone: str | None, **counted: Any
) -> Conversion:
    """Return the account of a conversion, given its workload and what was counted."""
    begin, last = (float(records["submit_time"][place]) for place in (0, -1))
    calendar = _known_calendar(log, time_zone, begin, last)
    shift = workload.provenance["rebased_by"]
    workload.calendar = calendar and calendar.later(shift)
    area = float(np.dot(records["run_time"], records["requested_processors"].astype(np.float64)))
    return Conversion(
        workload=workload,
        records=records,
        records_read=len(log),
        first_submission=begin,
        last_submission=last,
        calendar=calendar,
        offered_load=None if last == begin else area / (workload.processors * (last - begin)),
        **counted,
    )


def _known_calendar(
    log: SwfLog, time_zone: str | None, begin: float, last: float
) -> Calendar | None:
    """Return the log's calendar, or None if two of its seconds have no dates.

    For information only: many logs have no dates, which is no reason to refuse
    them. A time zone that the caller names must be usable, though.
    """
    try:
        calendar = log_calendar(log, time_zone=time_zone)
        calendar.date(begin), calendar.date(last)
    except InputError:
        if time_zone is not None:
            raise
        return None
    return calendar
