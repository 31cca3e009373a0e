"""Conversion of a log of any format to a Batsim workload of ``delay`` jobs.

The order is: window by submission date, then repairs, then ``skip`` and ``first``, which count
usable jobs of the window.

A window is given in the log's own seconds or by its site's wall clock. Each repair, which makes
records usable, is a choice, and is counted.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, TypedDict, Unpack

import msgspec
import numpy as np
from numpy.typing import NDArray

from qops_batsim.core.node_request import NodeLayout
from qops_batsim.dates import Calendar
from qops_batsim.errors import InputError, require_one_of
from qops_batsim.job_fields import HostsAsked, written_hosts
from qops_batsim.jobs import QosRequest
from qops_batsim.limits import MAX_SECONDS
from qops_batsim.row_writer import RowWriter
from qops_batsim.tables import Column, Floats, Words, cells_of
from qops_batsim.version import __version__
from qops_batsim.workload.accounting.amounts import (
    decoded_request,
    given_requests,
    hosts_of,
)
from qops_batsim.workload.log_records import (
    NOT_RERUNNABLE,
    RERUNNABLE,
    STATUS_CANCELLED,
    STATUS_PARTIAL,
    CancelledJobs,
    Log,
    Records,
    RepairCount,
    names_of,
)
from qops_batsim.workload.workload_model import (
    JobColumns,
    JobTable,
    Workload,
    check_processors,
    delay_profile,
    offered_load,
    plain_number,
    stretch_of,
)

_PLAIN = re.compile(r"[ !#-\[\]-~]*")
"""Types that JSON has itself."""

_NUMBERED_FIELDS = ("user", "group", "executable", "queue")
"""Fields of jobs that are numbers, where a log has no texts."""


class Conversion(msgspec.Struct, kw_only=True):
    """A converted log, with counts of what was left out or repaired."""

    workload: Workload
    """The jobs; its ``provenance`` records every choice and count."""
    records: Records
    """Records of the log for each job of the workload, in its order, after the repairs: waits,
    statuses and users in addition to what is simulated.
    """
    records_read: int
    records_in_window: int
    """Records submitted within the window; without a window, all that the reader took for jobs."""
    repairs: list[RepairCount]
    """Repairs and omissions, in the order in which they were made."""
    usable_jobs: int
    """Jobs after the repairs, before ``skip`` and ``first``."""
    first_submission: float
    last_submission: float
    """Dates of the first and last job written (seconds since the log's start)."""
    calendar: Calendar | None
    """The site's dates of the log's seconds; None if they are not known."""
    size_is: str = ""
    """Source of the machine's size, if neither the caller nor the log tells it."""
    counted: str = ""
    """The rule by which sizes of jobs were counted, where that needs words."""
    not_counted: Sequence[str] = ()
    """Resources that jobs asked for and that are not counted, as memory."""
    sizes: Sequence[tuple[float, int]] = ()
    """Processors of the machine since some dates (seconds since the log's start), if known."""
    open_jobs: Mapping[str, float] = {}
    """When the jobs that wait or run still were submitted (seconds since 1970), by the number of
    the job or array, where the log tells it."""
    texts: dict[str, Words] = {}
    """Names by field of a job (``user``, ``group``, ``queue``), for each record."""
    nodes: Words | None = None
    """On which nodes each record's job ran, as Slurm lists them."""
    cancelled: CancelledJobs | None = None
    """Jobs that were cancelled while they waited, submitted between those of the workload; their
    texts have a row for each."""
    offered_load: float | None
    """Sum of run time x processors over processors of the machine x time from first to last
    submission; None when that time is 0. Of jobs that share hosts, their dominant share in hosts
    counts; None when it is not known what hosts have.
    """

    def names(self, field: str) -> list[str]:
        """Return the user, group, executable or queue (``field``) of each record as text, empty
        where the log does not know it.
        """
        return names_of(self.records, self.texts, field, "")


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

    Parameters
    ----------
    log
        The log.
    processors
        Size of the machine; None: that of the log.
    repairs
        What to do with records that cannot be simulated as they are; None: the defaults.
    skip, first
        Number of usable jobs to leave out, and to keep after those (None: all; fewer are an error).
    rebase
        Whether submissions count from the first job instead of the log's second 0.
    **window
        Submissions to keep: :class:`~qops_batsim.workload.conversion.Bounds`.

    Returns
    -------
    Conversion
        The workload, and counts of what was left out or repaired.

    Raises
    ------
    InputError
        If the machine's size is unknown, or no job is left.
    """
    repairs = repairs or Repairs()
    if not len(log.records):
        raise InputError(
            f"{log.source}: holds no record{_did(log.left_out)}; a log with at least one job is "
            "expected"
        )
    size_is = log.size_is if processors is None else ""
    processors = _machine_size(log, processors)
    stretch = SubmissionWindow.of(log, **window)
    mask = slice(None) if stretch is None else stretch.inside(log)
    inside = log.records[mask]
    next_number = int(log.records["job_number"].max()) + 1
    requests = _Requests(log) if log.asked_of(log.records) is not None else None
    if requests is not None and repairs.too_wide == "clip":
        raise InputError(
            "repair too_wide is clip, but jobs ask for amounts of each host; drop or keep is "
            "expected"
        )
    usable, counts = repair_records(
        inside, log.lines[mask], repairs, processors, next_number, requests
    )
    if not len(usable):
        raise InputError(
            f"{log.source}: none of {len(inside)} jobs is left after the repairs{_did(counts)}; "
            "choose other repairs, or a window with usable jobs"
        )

    records: Records = usable[stretch_of(log.source, len(usable), skip, first)]
    shift = plain_number(records["submit_time"][0]) if rebase else 0
    asked = log.asked_of(records)
    as_asked = records
    if requests is not None:
        # Tasks are on as many hosts as there are at most.
        records = records.copy()
        width = records["requested_processors"]
        fewer = np.minimum(width, processors)
        records["requested_processors"] = np.where(requests.have_tasks(records), fewer, width)
    workload = _workload(log, records, asked, processors, shift)
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

    load = workload.offered_load if requests is None else requests.load(as_asked, workload)
    begin = float(records["submit_time"][0])
    last = float(records["submit_time"][-1])
    calendar = _known_calendar(log, window.get("time_zone"), begin, last)
    workload.calendar = calendar and calendar.later(shift)
    return Conversion(
        workload=workload,
        records=records,
        records_read=log.read,
        records_in_window=len(inside),
        repairs=counts,
        usable_jobs=len(usable),
        size_is=size_is,
        first_submission=begin,
        last_submission=last,
        calendar=calendar,
        counted=log.counted,
        not_counted=log.not_counted,
        open_jobs=log.open_jobs,
        texts={name: texts.at(records["job_number"] - 1) for name, texts in log.texts.items()},
        nodes=log.nodes and log.nodes.at(records["job_number"] - 1),
        cancelled=_cancelled(log, begin, last, repairs.processors_field),
        offered_load=load,
    )


class _Requests:
    """What records of a log ask of each host, next to what the hosts of its machine have."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._layout = None if log.machine is None else NodeLayout(log.machine)

    def have_room(self, records: Records) -> Mask:
        """Return which jobs the machine could give all that they ask for, if nothing else ran."""
        layout = self._layout
        if layout is None:
            return np.ones(len(records), np.bool_)

        def has_room(one: HostsAsked) -> bool:
            if not layout.machine.licences:  # Lists of nodes tell none.
                one = msgspec.structs.replace(one, licences={})
            return layout.request(one, hosts_of(one)).refusal is None

        room: Mask = self._of(records, has_room) > 0
        return room

    def have_tasks(self, records: Records) -> Mask:
        """Return which jobs have tasks that may share hosts."""
        mask: Mask = self._of(records, lambda one: one.parts[0].tasks) > 0
        return mask

    def load(self, records: Records, workload: Workload) -> float | None:
        """Return the offered load by dominant shares; None if it is not known what hosts have."""
        layout = self._layout
        if layout is None:
            return None
        sizes = self._of(records, lambda one: layout.request(one, hosts_of(one)).size)
        work = sizes * np.minimum(workload.delays, workload.columns.walltimes)
        return offered_load(work, records["submit_time"], workload.processors)

    def _of(self, records: Records, value: Callable[[HostsAsked], float]) -> Floats:
        """Return a value of each request, 0 where nothing is known of a job."""
        column = self._log.asked_of(records)
        assert column is not None

        def of_text(text: str) -> float:
            one = decoded_request(text)
            return 0.0 if one is None else value(one)

        return column.values(of_text)


def _cancelled(log: Log, begin: float, last: float, field: str) -> CancelledJobs:
    """Return the jobs that were cancelled while they waited, submitted from ``begin`` to ``last``
    (seconds of the log); ``field`` is the count of processors to take.
    """
    records, texts, asked = log.cancelled or CancelledJobs(log.records, {})
    records = records.copy()
    _choose_width(records, field)
    submitted = records["submit_time"]
    kept = (records["status"] == STATUS_CANCELLED) & (records["run_time"] <= 0)
    kept &= (begin <= submitted) & (submitted <= last)
    kept &= (records["wait_time"] >= 0) & (records["requested_processors"] > 0)
    records = records[kept]
    records = records[np.argsort(records["submit_time"], kind="stable")]
    rows = records["job_number"] - 1
    asked = asked and [asked[row] for row in rows.tolist()]
    return CancelledJobs(records, {name: column.at(rows) for name, column in texts.items()}, asked)


def _did(counts: Iterable[RepairCount]) -> str:
    told = ", ".join(f"{repair.jobs} with {repair.description}" for repair in counts if repair.jobs)
    return told and f" ({told})"


def _machine_size(log: Log, processors: int | None) -> int:
    if processors is None:
        processors = log.machine_size()
    if processors is None:
        raise InputError(f"{log.source}: {log.no_machine_size()}; give the number of processors")
    try:
        check_processors(processors)
    except InputError as error:
        raise InputError(f"{log.source}: {error}") from None
    return processors


def _workload(
    log: Log, records: Records, asked: Words | None, processors: int, origin: float
) -> Workload:
    """Make a workload of records; submissions count from ``origin`` (seconds of the log).

    ``asked`` is what the jobs ask of each host.
    """
    numbers = records["job_number"].tolist()
    ids = [*map(str, numbers)] if log.ids is None else [log.ids[at - 1] for at in numbers]
    quote = b"" if log.ids is None else b'"'

    run_times, first, which = np.unique(records["run_time"], return_index=True, return_inverse=True)
    # The profiles stand in the order in which they are first used.
    order = np.argsort(first)
    place = np.empty_like(order)
    place[order] = np.arange(len(order))
    profiles = dict(delay_profile(run_time) for run_time in run_times[order].tolist())

    requested = records["requested_time"]
    walltimes = np.where(requested > 0, requested, np.inf)
    requests = None
    if RERUNNABLE in log.texts:
        kept = log.texts[RERUNNABLE].at(records["job_number"] - 1).where(NOT_RERUNNABLE.__eq__)
        requests = [QosRequest(rerunnable=False) if is_kept else None for is_kept in kept.tolist()]
    hosts_asked = None
    if asked is not None:
        of_texts = given_requests(asked)
        hosts_asked = [of_texts[place] for place in asked.which.tolist()]
    columns = JobColumns(
        ids=ids,
        submission_times=records["submit_time"] - origin,
        processors=records["requested_processors"].copy(),
        walltimes=walltimes,
        estimates=walltimes,
        profiles=place[which],
        profile_names=list(profiles),
        requests=requests,
        hosts_asked=hosts_asked,
    )
    written = _written(columns, quote, _extras(log, records, asked))
    provenance: dict[str, Any] = {
        "command": "workload import",
        "format": log.format,
        "version": __version__,
        "log": {"file": log.source.rpartition("/")[2], "sha256": log.sha256, **log.credits},
        **({} if asked is None else {"by": "amounts"}),
    }
    return Workload(
        JobTable(columns, written, is_ours=True), profiles, processors, provenance, log.source
    )


def _as_fields(asked: HostsAsked | None) -> str:
    """Return what a job asks of its hosts as fields of its JSON."""
    return "" if asked is None else f", {json.dumps(written_hosts(asked))[1:-1]}"


def _extras(log: Log, records: Records, asked: Words | None) -> list[Words]:
    """Return, as JSON text for each job, the fields that only some logs know (user, queue ...)."""
    jobs = records["job_number"] - 1
    extras = []
    if asked is not None:
        extras.append(Words([*map(_as_fields, given_requests(asked))], asked.which))
    for name in _NUMBERED_FIELDS if log.ids is None else ():
        numbers, which = np.unique(records[name], return_inverse=True)
        written = ["" if n == -1 else f', "{name}": {n}' for n in numbers.tolist()]
        extras.append(Words(written, which))

    for name, texts in log.texts.items():
        if name == RERUNNABLE:
            written = [', "qos": {"rerunnable": false}' if text else "" for text in texts.words]
        else:
            written = [f', "{name}": {json.dumps(text)}' if text else "" for text in texts.words]
        extras.append(Words(written, texts.which[jobs]))

    for name, column in log.numbers.items():
        amounts, which = np.unique(column[jobs], return_inverse=True)
        written = ["" if v != v else f', "{name}": {plain_number(v)}' for v in amounts.tolist()]
        extras.append(Words(written, which))
    return extras


def _written(columns: JobColumns, quote: bytes, extras: Sequence[Words]) -> bytes:
    """Return the jobs as a JSON list, a job on each line: identifiers in ``quote`` marks, or
    without; ``extras`` are further fields.
    """
    ids = columns.ids
    if not _PLAIN.fullmatch("".join(ids)):
        ids = [json.dumps(job)[1:-1] for job in ids]
    limits, which = np.unique(columns.walltimes, return_inverse=True)
    written = [f', "walltime": {plain_number(v)}' if v < math.inf else "" for v in limits.tolist()]
    told: list[Column] = [
        ids,
        _json_numbers(columns.submission_times),
        columns.processors,
        Words(written, which),
        Words(columns.profile_names, columns.profiles),
        *extras,
    ]
    between = [b'{"id": ' + quote, quote + b', "subtime": ', b', "res": ', b"", b', "profile": "']
    between += [b'"', *[b""] * len(extras)]
    between[-1] += b"},\n"
    rows = RowWriter([*map(cells_of, told)], between).rows(0, len(ids))
    return b"".join((b"[", memoryview(rows)[: -len(b",\n")], b"]"))


def _json_numbers(column: Floats) -> Column:
    """Return finite numbers as JSON writes them; whole ones without a fraction."""
    if (column == np.floor(column)).all() and (np.abs(column) <= MAX_SECONDS).all():
        return column.astype(np.int64)
    return [str(plain_number(number)) for number in column.tolist()]


def _known_calendar(log: Log, time_zone: str | None, begin: float, last: float) -> Calendar | None:
    """Return the log's calendar; None if it has none, or the dates of the seconds ``begin`` and
    ``last`` are out of range.

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


Moment = str | float | datetime
"""An ISO date or date and time, a datetime, or a number of seconds since a log's start."""


class Bounds(TypedDict, total=False):
    """Bounds of the submissions to keep.

    From ``start`` on and before ``end`` (an ISO date or date and time, the site's unless it
    names a UTC offset, or a number of seconds since the log's start), or those of a calendar
    ``month`` (``YYYY-MM``) of the site. ``time_zone``: the site's, instead of the header's.
    """

    start: Moment | None
    end: Moment | None
    month: str | None
    time_zone: str | None


class SubmissionWindow(msgspec.Struct, frozen=True, kw_only=True):
    """A window of a log: submissions from second ``begin`` to before ``end``, since its start.

    ``month`` is the calendar month that it was given as, ``calendar`` the wall clock that
    dates were read with.
    """

    begin: float | None
    end: float | None
    month: str | None = None
    calendar: Calendar | None = None

    @classmethod
    def of(cls, log: Log, **bounds: Unpack[Bounds]) -> SubmissionWindow | None:
        """Return the requested window of a log; None without any bound."""
        start = bounds.get("start")
        end = bounds.get("end")
        month = bounds.get("month")
        if month is not None:
            if start is not None or end is not None:
                raise InputError(
                    "month is given together with from or to; give either the month, or from and to"
                )
            calendar = log.calendar(bounds.get("time_zone"))
            first, following = calendar.month(month)
            return cls(begin=first, end=following, month=month, calendar=calendar)

        seconds: list[float | None] = []
        dated = None
        for moment, name in ((start, "from"), (end, "to")):
            value = _read_moment(moment, name)
            if isinstance(value, datetime):
                dated = log.calendar(bounds.get("time_zone"))
                value = dated.seconds(value)
            seconds.append(value)
        begin, stop = seconds
        if begin is None and stop is None:
            return None
        if begin is not None and stop is not None and stop <= begin:
            raise InputError(
                f"the window ends at {end} but begins at {start}; an end after that is expected"
            )
        return cls(begin=begin, end=stop, calendar=dated)

    def inside(self, log: Log) -> Mask:
        """Return which records were submitted in the window; InputError if none."""
        submitted = log.records["submit_time"]
        mask = np.ones(len(submitted), np.bool_)
        if self.begin is not None:
            mask &= submitted >= self.begin
        if self.end is not None:
            mask &= submitted < self.end
        if mask.any():
            return mask

        first = float(submitted.min())
        last = float(submitted.max())
        if self.month is not None and self.calendar is not None:
            raise InputError(
                f"{log.source}: no job was submitted in {self.month}; the log's jobs were "
                f"submitted from {self.calendar.month_of(first)} to {self.calendar.month_of(last)}"
            )
        given = (("from", self.begin), ("before", self.end))
        bounds = [f"{word} second {value:.10g}" for word, value in given if value is not None]
        raise InputError(
            f"{log.source}: no job was submitted {' and '.join(bounds)}, counted from the log's "
            f"start; its jobs were submitted from second {first:.10g} to {last:.10g}"
        )

    def as_data(self) -> dict[str, Any]:
        """Return the window (seconds) as an entry of a workload's provenance."""
        data: dict[str, Any] = {
            "from": None if self.begin is None else plain_number(self.begin),
            "to": None if self.end is None else plain_number(self.end),
        }
        if self.month is not None:
            data["month"] = self.month
        if self.calendar is not None:
            data["time_zone"] = self.calendar.time_zone
        return data


def _read_moment(moment: Moment | None, name: str) -> float | datetime | None:
    """Parse a bound of a window, as seconds since the log's start or as a date; ``name`` is its
    option in messages.
    """
    if moment is None or isinstance(moment, datetime):
        return moment
    try:
        seconds = float(moment)
    except ValueError:
        seconds = math.nan

    if math.isfinite(seconds):
        return seconds
    try:
        return datetime.fromisoformat(str(moment).strip())
    except ValueError:
        raise InputError(
            f"{name} is {moment!r}; a date (1996-10-01), a date and time "
            "(1996-10-01T08:00) or a number of seconds since the log's start is expected"
        ) from None


Mask = NDArray[np.bool_]

CHOICES: dict[str, tuple[str, ...]] = {
    "no_processors": ("drop", "clip"),
    "too_wide": ("drop", "clip", "keep"),
    "no_run_time": ("drop", "clip", "limit"),
    "no_requested_time": ("keep", "clip", "drop"),
    "overrun": ("keep", "clip", "drop"),
    "duplicate_id": ("drop", "renumber"),
    "processors_field": ("requested", "allocated"),
}
"""Accepted values of each field of :class:`Repairs`, its default first."""


DONE = {
    "drop": "left out",
    "clip": "clipped",
    "keep": "kept as they are",
    "limit": "given their limit",
    "renumber": "renumbered",
    "sort": "sorted",
    "merge": "merged",
    "first": "taken as the first",
    "shift": "read as if not changed",
    "ignore": "not looked at",
    "up": "rounded up",
    "given": "asked for",
    "no": "not asked for",
}
"""Outcomes of records, in words."""


class Repairs(msgspec.Struct, frozen=True, kw_only=True):
    """What to do with records that cannot be simulated as they are.

    Batsim kills a ``delay`` job whose run time equals its walltime, so a job clipped by
    ``no_requested_time`` or ``overrun`` runs its full time and is then reported as killed.
    """

    no_processors: str = "drop"
    """Neither requested nor allocated processors above 0: ``drop``, or ``clip`` to 1 processor."""
    too_wide: str = "drop"
    """More processors than the machine, or by ``amounts`` more than its hosts have: ``drop``,
    ``clip`` to the machine (not by ``amounts``), or ``keep`` (schedulers reject such jobs).
    """
    no_run_time: str = "drop"
    """Run time 0 or less, which a job has that never ran: ``drop``, ``clip`` to 1 second, or
    ``limit``: as long as was requested (1 second where nothing was).
    """
    no_requested_time: str = "keep"
    """Requested time 0 or less: ``keep`` without walltime, ``clip`` to the run time, or ``drop``.
    """
    overrun: str = "keep"
    """Run time above the requested time: ``keep`` (the engine kills the job at its walltime),
    ``clip`` the run time to the requested time, or ``drop``.
    """
    duplicate_id: str = "drop"
    """Job number of an earlier usable record: ``drop`` the later ones, or ``renumber`` them above
    the highest number of the log.
    """
    processors_field: str = "requested"
    """Which count of processors a job gets: the ``requested`` one or the ``allocated`` one; where
    it is not above 0, the other.
    """

    def __post_init__(self) -> None:
        for name, accepted in CHOICES.items():
            require_one_of(name.replace("_", " "), getattr(self, name), accepted)


_Repair = tuple[str, str, Callable[[Records], Mask], Callable[[Records, Mask], None] | None]
"""Rule, description, what a repair looks for, and what each choice but ``drop`` does."""

_CHOSEN_BY = {"no_room": "too_wide"}
_UNCHOSEN = {"partial": "drop", "no_submit_time": "drop", "submit_order": "sort"}


def repair_records(
    records: Records,
    lines: NDArray[np.int64],
    repairs: Repairs,
    processors: int,
    next_number: int,
    requests: _Requests | None = None,
) -> tuple[Records, list[RepairCount]]:
    """Repair a log's records; return them sorted by submission, and for each repair the ``lines``
    of the log to which it was made.

    The repairs are made in the order of the returned counts, each on what the ones before it
    have left. In the result ``requested_processors`` is the count of processors to simulate, and
    ``requested_time`` the walltime (seconds; 0 or less: none). ``records`` is left unchanged;
    ``next_number`` is the first job number for ``duplicate_id="renumber"``; ``requests`` tell
    what jobs ask of each host.
    """
    records = records.copy()
    _choose_width(records, repairs.processors_field)

    counts = []
    for rule, description, find, change in _repairs(processors, next_number, repairs, requests):
        wrong = find(records)
        choice = _UNCHOSEN.get(rule) or getattr(repairs, _CHOSEN_BY.get(rule, rule))
        counts.append(RepairCount.of_lines(rule, description, lines[wrong].tolist(), choice))
        if choice == "drop" and counts[-1].jobs:
            records = records[~wrong]
            lines = lines[~wrong]
        elif choice in ("clip", "limit", "renumber") and change is not None:
            change(records, wrong)

    if counts[-1].jobs:
        # Stable: jobs of one date keep the order of the log.
        records = records[np.argsort(records["submit_time"], kind="stable")]
    return records, counts


def _repairs(
    processors: int, next_number: int, repairs: Repairs, requests: _Requests | None
) -> list[_Repair]:
    """Return the repairs in the order in which they are made."""
    width = "requested_processors"
    run = "run_time"
    asked = "requested_time"
    too_wide = f"more than {processors} processors"
    partial = "partial record of a job that has a whole one (status 2, 3, 4)"

    def renumber(log: Records, wrong: Mask) -> None:
        log["job_number"][wrong] = next_number + np.arange(int(wrong.sum()))

    def some_time(log: Records, wrong: Mask) -> None:
        to_limit = repairs.no_run_time == "limit"
        log[run][wrong] = np.maximum(log[asked][wrong], 1) if to_limit else 1

    def is_too_wide(log: Records) -> Mask:
        mask: Mask = log[width] > processors
        return mask if requests is None else mask & ~requests.have_tasks(log)

    no_room: list[_Repair] = []
    if requests is not None:
        told = "more than the hosts have that they ask for"
        no_room = [("no_room", told, lambda log: ~requests.have_room(log), None)]
    return [
        ("partial", partial, lambda log: np.isin(log["status"], STATUS_PARTIAL), None),
        ("no_submit_time", "no submit time", lambda log: log["submit_time"] < 0, None),
        ("no_processors", "no processors", lambda log: log[width] <= 0, _set(width, 1)),
        ("too_wide", too_wide, is_too_wide, _set(width, processors)),
        *no_room,
        ("no_run_time", "run time 0 or less", lambda log: log[run] <= 0, some_time),
        ("no_requested_time", "no requested time", lambda log: log[asked] <= 0, _set(asked, run)),
        (
            "overrun",
            "run time above the requested time",
            lambda log: (log[asked] > 0) & (log[run] > log[asked]),
            _set(run, asked),
        ),
        ("duplicate_id", "job number of an earlier job", _repeated, renumber),
        (
            "submit_order",
            "submitted before the record above",
            lambda log: np.diff(log["submit_time"], prepend=log["submit_time"][:1]) < 0,
            None,
        ),
    ]


def _repeated(records: Records) -> Mask:
    """Return which records repeat the job number of an earlier one."""
    _, first = np.unique(records["job_number"], return_index=True)
    mask = np.ones(len(records), dtype=np.bool_)
    mask[first] = False
    return mask


def _choose_width(records: Records, field: str) -> None:
    requested = records["requested_processors"]
    allocated = records["allocated_processors"]
    counts = requested if field == "requested" else allocated
    others = allocated if field == "requested" else requested
    records["requested_processors"] = np.where(counts > 0, counts, others)


def _set(field: str, value: int | str) -> Callable[[Records, Mask], None]:
    """Return a repair that sets a field of the wrong records to a number, or to another field's
    value.
    """

    def change(records: Records, wrong: Mask) -> None:
        records[field][wrong] = records[value][wrong] if isinstance(value, str) else value

    return change
