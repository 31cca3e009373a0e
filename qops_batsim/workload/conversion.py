"""From a workload log to a Batsim workload of ``delay`` jobs, whatever the log's format.

The order is: window by submission date, then repairs, then ``skip`` and ``first``, which count
usable jobs of the window.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from itertools import repeat
from typing import Any, Unpack

import msgspec
import numpy as np
from numpy.typing import NDArray

from qops_batsim.dates import Calendar
from qops_batsim.errors import InputError
from qops_batsim.limits import MAX_SECONDS
from qops_batsim.version import __version__
from qops_batsim.workload.job_table import JobColumns, JobTable, WrittenJobs
from qops_batsim.workload.log import Log, Records, RepairCount
from qops_batsim.workload.log_window import Bounds, LogWindow
from qops_batsim.workload.model import (
    Workload,
    check_counts,
    check_processors,
    delay_profile,
    plain_number,
)
from qops_batsim.workload.repairs import Repairs, repair_records

__all__ = ["Bounds", "Conversion", "Repairs", "convert_log"]

_NEXT_JOB = "},\n"
_PLAIN = re.compile(r"[ !#-\[\]-~]*")
"""What JSON holds as it is."""

_NUMBERED_FIELDS = ("user", "group", "executable", "queue")
"""Fields of jobs that are numbers, where a log has no texts."""


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
    """Records submitted within the window; without a window, all that the reader took for jobs."""
    repairs: list[RepairCount]
    """What was left out or repaired, in the order in which it was done."""
    usable_jobs: int
    """Jobs after the repairs, before ``skip`` and ``first``."""
    first_submission: float
    last_submission: float
    """Dates of the first and last job written (seconds since the log's start)."""
    calendar: Calendar | None
    """The site's dates of the log's seconds; None if they are not known."""
    size_is: str = ""
    """What the machine's size is taken from, if neither the caller nor the log tells it."""
    offered_load: float | None
    """Sum of run time x processors over processors of the machine x time from first to last
    submission; None when that time is 0.
    """


def convert_log(
    log: Log,
    *,
    processors: int | None = None,
    repairs: Repairs | None = None,
    skip: int = 0,
    first: int | None = None,
    rebase: bool = False,
    **window: Unpack[Bounds],
) -> Conversion:
    """Convert a log, or a part of it, to a workload of ``delay`` jobs.

    A job gets ``id`` (the log's), ``subtime``, ``res``, ``walltime`` (unless none was requested)
    and ``profile``, and where the log knows them ``user``, ``group``, ``queue`` and others, as the
    log's numbers or names. Linear in the log, plus sorting.

    The machine has ``processors``, by default what the log says. The
    ``**window`` says which submissions to keep (:class:`~qops_batsim.workload.log_window.Bounds`),
    ``repairs`` what to do with unusable records, ``skip`` and ``first`` how many usable jobs to
    leave out at the beginning and to keep after that (None: all). With ``rebase``, submissions
    count from the first job, otherwise they are the log's own seconds.
    """
    repairs = repairs or Repairs()
    check_counts(skip, first)
    if not len(log.records):
        raise _nothing(log)
    size_is = log.size_is if processors is None else ""
    processors = _machine_size(log, processors)
    stretch = LogWindow.of(log, **window)
    inside = log.records if stretch is None else stretch.cut(log)
    next_number = int(log.records["job_number"].max()) + 1
    usable, counts = repair_records(inside, repairs, processors, next_number)
    if not len(usable):
        raise InputError(
            f"{log.source}: none of {len(inside)} jobs is left after the repairs{_did(counts)}"
        )
    records: Records = usable[skip : None if first is None else skip + first]
    if not len(records):
        raise InputError(
            f"{log.source}: skip is {skip}, but the window holds {len(usable)} usable jobs; "
            "a smaller number is expected"
        )
    shift = plain_number(records["submit_time"][0]) if rebase else 0
    workload = _workload(log, records, processors, shift)
    counts = [*log.left_out, *counts]
    workload.provenance |= {
        "window": None if stretch is None else stretch.as_data(),
        "processors": processors,
        "processors_field": repairs.processors_field,
        "repairs": {count.rule: {count.choice: count.jobs} for count in counts},
        "skip": skip,
        "first": first,
        "rebased_by": shift,
        "jobs": len(records),
    }
    counted = {"records_in_window": len(inside), "usable_jobs": len(usable)}
    return _account(
        log, workload, records, window.get("time_zone"), size_is=size_is, repairs=counts, **counted
    )


def _account(
    log: Log, workload: Workload, records: Records, time_zone: str | None, **known: Any
) -> Conversion:
    """Return the account of a conversion, and give the workload its calendar."""
    begin, last = (float(records["submit_time"][place]) for place in (0, -1))
    calendar = _known_calendar(log, time_zone, begin, last)
    workload.calendar = calendar and calendar.later(workload.provenance["rebased_by"])
    return Conversion(
        workload=workload,
        records=records,
        records_read=log.read,
        first_submission=begin,
        last_submission=last,
        calendar=calendar,
        offered_load=offered_load(records, workload.processors),
        **known,
    )


def offered_load(records: Records, processors: int) -> float | None:
    """Return the load of records in order of submission; None where it is not defined."""
    run_times, submitted = records["run_time"], records["submit_time"]
    if not len(records) or submitted[-1] <= submitted[0] or (run_times < 0).any():
        return None
    area = float(np.dot(run_times, records["requested_processors"].astype(np.float64)))
    return area / (processors * float(submitted[-1] - submitted[0]))


def _nothing(log: Log) -> InputError:
    others = _did(log.left_out)
    return InputError(
        f"{log.source}: holds no record{others}; a log with at least one job is expected"
    )


def _did(counts: Iterable[RepairCount]) -> str:
    told = ", ".join(f"{each.jobs} with {each.description}" for each in counts if each.jobs)
    return told and f" ({told})"


def _machine_size(log: Log, processors: int | None) -> int:
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


def _workload(log: Log, records: Records, processors: int, origin: float) -> Workload:
    """Return the jobs with their profiles; submissions count from ``origin`` (seconds)."""
    numbers = records["job_number"].tolist()
    if log.ids is None:
        ids, as_json = list(map(str, numbers)), numbers
    else:
        ids = [log.ids[number - 1] for number in numbers]
        as_json = _written_texts(ids)
    run_times, first, which = np.unique(records["run_time"], return_index=True, return_inverse=True)
    # The profiles stand in the order in which they are first used.
    order = np.argsort(first)
    place = np.empty_like(order)
    place[order] = np.arange(len(order))
    profiles = dict(delay_profile(run_time) for run_time in run_times[order].tolist())
    requested = records["requested_time"]
    walltimes = np.where(requested > 0, requested, np.inf)
    columns = JobColumns(
        ids=ids,
        submission_times=records["submit_time"] - origin,
        processors=records["requested_processors"].copy(),
        walltimes=walltimes,
        estimates=walltimes,
        profiles=place[which],
        profile_names=list(profiles),
        requests=None,
    )
    written = WrittenJobs(_written(columns, as_json, _extras(log, records)), ids, is_ours=True)
    provenance: dict[str, Any] = {
        "command": log.command,
        "version": __version__,
        "log": {"file": log.source.rpartition("/")[2], "sha256": log.sha256, **log.credits},
    }
    return Workload(JobTable(columns, written), profiles, processors, provenance, log.source)


def _extras(log: Log, records: Records) -> list[list[str]]:
    """Return what else is known of jobs, field by field as it is written; empty for not known."""
    extras = []
    for name in _NUMBERED_FIELDS if log.ids is None else ():
        column = records[name].tolist()
        extras.append(["" if each == -1 else f', "{name}": {each}' for each in column])
    for name, texts in log.texts.items():
        written = [f', "{name}": {json.dumps(text)}' if text else "" for text in texts.words]
        places = texts.which[records["job_number"] - 1]
        extras.append([written[place] for place in places.tolist()])
    return [column for column in extras if any(column)]


def _written(columns: JobColumns, ids: Iterable[Any], extras: list[list[str]]) -> bytes:
    """Return the jobs as they stand in a file, one a line."""
    names = [*_written_texts(columns.profile_names)]
    has_limit = np.isfinite(columns.walltimes)
    limits = _written_numbers(np.where(has_limit, columns.walltimes, 0))
    rows = zip(
        ids,
        _written_numbers(columns.submission_times),
        columns.processors.tolist(),
        [f', "walltime": {each}' if each else "" for each in limits],
        map(names.__getitem__, columns.profiles.tolist()),
        map("".join, zip(*extras, strict=True)) if extras else repeat("", len(limits)),
        strict=True,
    )
    lines = [
        f'{{"id": {each}, "subtime": {date}, "res": {width}{limit}, "profile": {profile}{more}'
        for each, date, width, limit, profile, more in rows
    ]
    return f"[{_NEXT_JOB.join(lines)}{'}' if lines else ''}]".encode()


def _written_texts(texts: list[str]) -> Iterable[str]:
    """Return identifiers or names as JSON."""
    plain = _PLAIN.fullmatch("".join(texts))
    return (f'"{each}"' for each in texts) if plain else map(json.dumps, texts)


def _written_numbers(column: NDArray[np.float64]) -> list[int] | list[float]:
    """Return finite numbers; whole ones are written without a fraction."""
    if (column == np.floor(column)).all() and (np.abs(column) <= MAX_SECONDS).all():
        whole: list[int] = column.astype(np.int64).tolist()
        return whole
    return [plain_number(each) for each in column.tolist()]


def _known_calendar(log: Log, time_zone: str | None, begin: float, last: float) -> Calendar | None:
    """Return the log's calendar, or None if two of its seconds have no dates.

    For information only: many logs have no dates, which is no reason to refuse
    them. A time zone that the caller names must be usable, though.
    """
    try:
        calendar = log.calendar(time_zone)
        calendar.date(begin), calendar.date(last)
    except InputError:
        if time_zone is not None:
            raise
        return None
    return calendar
