"""Rows of a batch system's accounting, and the workload log made from them.

Slurm, PBS and tables of any site differ in how rows are written; what they mean is decided here,
once: states, restarts, parts of one job, dates.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from functools import cache, partial
from typing import Any
from zoneinfo import ZoneInfo

import msgspec
import numpy as np
from numpy.typing import NDArray

from qops_batsim.dates import Calendar
from qops_batsim.errors import InputError, did_you_mean, require_one_of, shown
from qops_batsim.limits import MAX_JOBS, MAX_PROCESSORS, MAX_SECONDS
from qops_batsim.tables import Booleans, Floats, Words
from qops_batsim.workload.accounting.cells import NEAR, Dates, TextTable, is_none
from qops_batsim.workload.accounting.node_sizes import (
    NodeSizes,
    Span,
    extend_spans,
    node_names,
    pools_of,
)
from qops_batsim.workload.log_records import (
    NOT_RERUNNABLE,
    RECORD,
    RERUNNABLE,
    STATUS_CANCELLED,
    STATUS_COMPLETED,
    STATUS_FAILED,
    CancelledJobs,
    Log,
    Records,
    RepairCount,
)

_MEASURED = {
    "submitted": "submission",
    "started": "start",
    "ended": "end",
    "run_times": "run time",
    "limits": "walltime",
}
"""Columns of dates and durations (seconds), with their names in messages."""

_RECENT = 3.2e8
"""A date of 1980 (seconds): only logs whose seconds have no dates have all before it."""

_MOST_TASKS = 4_000_001
"""Tasks of an array (Slurm's own limit)."""

_RANGE = re.compile(r"(\d{1,9})(?:-(\d{1,9})(?::(\d{1,9}))?)?")


ENDED = {
    "COMPLETED": STATUS_COMPLETED,
    "FAILED": STATUS_FAILED,
    "TIMEOUT": STATUS_FAILED,
    "NODE_FAIL": STATUS_FAILED,
    "OUT_OF_MEMORY": STATUS_FAILED,
    "PREEMPTED": STATUS_FAILED,
    "DEADLINE": STATUS_FAILED,
    "BOOT_FAIL": STATUS_FAILED,
    "REQUEUED": STATUS_FAILED,
    "CANCELLED": STATUS_CANCELLED,
}
"""States of jobs that ran and ended, by Slurm's names, with their status in SWF: the default."""

OTHERS = {
    "RUNNING": "running still",
    "PENDING": "waiting still",
    "SUSPENDED": "suspended",
    "RESIZING": "resized: the job's last stretch is not in the file",
    "REVOKED": "revoked: run by another cluster",
}
"""Other states, with what they mean."""

STATES = {**dict.fromkeys(ENDED, ""), **OTHERS}
_SHORT = {
    "CD": "COMPLETED",
    "F": "FAILED",
    "TO": "TIMEOUT",
    "NF": "NODE_FAIL",
    "OOM": "OUT_OF_MEMORY",
    "PR": "PREEMPTED",
    "DL": "DEADLINE",
    "BF": "BOOT_FAIL",
    "RQ": "REQUEUED",
    "CA": "CANCELLED",
    "R": "RUNNING",
    "PD": "PENDING",
    "S": "SUSPENDED",
    "RS": "RESIZING",
    "RV": "REVOKED",
}


def state_reader(site: Mapping[str, str]) -> Callable[[str], str]:
    """Return a function that maps a word to one of Slurm's job states, "" if unknown; ``site``
    gives the states of the site's own words.
    """
    known = _SHORT | {word.strip().upper(): state for word, state in site.items()}
    return cache(partial(_state, known=known))


def _state(word: str, known: Mapping[str, str]) -> str:
    """Return the job state that a word means (``CANCELLED by 1000``, ``OUT_OF_ME+``), "" if none;
    ``known`` gives the states of further words.
    """
    plain = word.strip().upper()
    if plain in known:
        return known[plain]
    whole = re.sub(r"[\s-]+", "_", plain)
    for name in (whole, plain.partition(" ")[0]):
        if name in STATES:
            return name
        if name.endswith("+"):
            begin = [state for state in STATES if state.startswith(name[:-1])]
            if len(begin) == 1:
                return begin[0]
    return ""


STATES_EXPECTED = f"a state of Slurm ({', '.join(STATES)}), or a word that --state-name explains,"


def elsewhere(what: str, name: str, wanted: Sequence[str]) -> str:
    """Return why a job is not among those chosen by partition, QOS, account or reservation; "" if
    it is.

    ``what`` is one of these four, ``name`` the job's (or several partitions in any of which it may
    start: ``a,b``), ``wanted`` the chosen names. Nothing wanted means every job, but none inside a
    reservation; of reservations, ``all`` means every job as well.
    """
    if what == "reservation" and not wanted:
        return "inside a reservation (--reservation takes them)" if name else ""
    if not wanted or (what == "reservation" and "all" in wanted):
        return ""
    names = name.split(",") if what == "partition" else [name]
    return "" if set(names) & set(wanted) else f"of another {what}"


class Choices(msgspec.Struct, frozen=True, kw_only=True):
    """Options for reading a batch system's accounting: which rows are taken as jobs, what a size
    counts, and how dates are read.
    """

    states: Sequence[str] = tuple(ENDED)
    """Names of states, by default those of jobs that ran and ended. A job that was cancelled
    before it started is counted, and is no job."""
    state_names: Mapping[str, str] = {}
    """Meanings of a site's own words for states: ``{"fertig": "COMPLETED"}``."""
    restarts: str = "last"
    """Rows of one id: ``last`` takes the last of them, ``each`` takes all as jobs of their own
    (``4711``, ``4711r1``, …)."""
    by: str = "cores"
    """Unit of the size of a job and of the machine: ``cores``, ``nodes``, ``gpus``, or the cores
    that the ``binding`` resource takes: see :func:`binding_sizes`."""
    cluster: str = ""
    """Name of the cluster whose jobs are taken, where a file has jobs of several."""
    partitions: Sequence[str] = ()
    """Names of the partitions (of PBS: queues) whose jobs are taken; empty: of all."""
    qos: Sequence[str] = ()
    accounts: Sequence[str] = ()
    reservations: Sequence[str] = ()
    """Jobs inside a reservation are set apart, but for those of these names, which are taken alone;
    ``all`` takes every job."""
    nodes: NodeSizes | None = None
    """Sizes of the partitions; by default, the most in use at once."""
    submission: str = "submit"
    """Date from which a job waits: ``submit``, or ``eligible``, when dependencies and ``--begin``
    of the job allowed it."""
    time_zone: str | None = None
    """Zone of dates without UTC offset."""
    default_zone: str = "UTC"
    """Their zone where neither ``time_zone`` nor the log tells it."""
    date_format: str | None = None
    """Format of dates (as for ``strftime``), if not ISO 8601 or seconds since 1970."""

    def __post_init__(self) -> None:
        for name, accepted in _ACCEPTED.items():
            require_one_of(name, getattr(self, name), accepted)
        for state in (*self.states, *self.state_names.values()):
            if state not in STATES:
                raise InputError(f"state {shown(state)} is not known{did_you_mean(state, STATES)}")
        if self.time_zone is not None:
            Calendar(0, self.time_zone).check("the given time zone")
        if self.nodes is not None:
            self.nodes.refuse_cut(self.partitions)

    @property
    def unit(self) -> str:
        """What job sizes count: ``cores``, ``nodes`` or ``gpus``."""
        return "cores" if self.by == "binding" else self.by

    @property
    def zone_name(self) -> str:
        """The time zone of dates without UTC offset; InputError if the default is none."""
        if self.time_zone is None:
            where = "--time-zone is not given, and the time zone of this machine (TZ)"
            Calendar(0, self.default_zone).check(where)
        return self.time_zone or self.default_zone


_ACCEPTED = {
    "restarts": ("last", "each"),
    "by": ("cores", "nodes", "gpus", "binding"),
    "submission": ("submit", "eligible"),
}


@dataclass
class Rows:
    """The jobs of a batch system's accounting, a row each, stored by column; dates are in seconds
    since 1970, NaN if unknown.

    ``run_times`` are what the accounting says itself, ``limits`` are infinite without limit,
    ``processors`` counts what was allocated, else asked for, in the unit that was chosen.
    ``groups`` tells rows that are parts of one job (the components of a heterogeneous one) by its
    id, ``tasks`` the waiting tasks that a row stands for. ``texts`` are names by field of a job,
    ``numbers`` are counts and amounts likewise, as ``gpus``. ``nodes`` are lists of those on which
    jobs ran, as Slurm writes them. ``suspended`` is how long jobs were suspended between start and
    end (seconds), ``spare`` what a resized job did not have of its ``processors``: start, end and
    how many.

    Dates, names and times that stand for none are none here, whatever the source.
    """

    ids: list[str]
    lines: NDArray[np.int64]
    states: Words
    submitted: Floats
    started: Floats
    ended: Floats
    run_times: Floats
    processors: Floats
    limits: Floats
    texts: dict[str, Words]
    numbers: dict[str, Floats] = field(default_factory=dict)
    nodes: Words | None = None
    suspended: Floats = field(default_factory=lambda: np.zeros(0))
    groups: dict[int, str] = field(default_factory=dict)
    tasks: dict[int, list[int] | None] = field(default_factory=dict)
    spare: dict[int, list[tuple[float, float, float]]] = field(default_factory=dict)
    left_out: list[RepairCount] = field(default_factory=list)
    not_counted: dict[str, Booleans] = field(default_factory=dict)
    """Which rows asked for, or had, resources that are not counted, by their names."""
    marks: dict[str, Words] = field(default_factory=dict)
    """What tells jobs of one id apart, beside user, account and dates: ``cluster`` and ``name``."""
    submissions: Floats = field(default_factory=lambda: np.zeros(0))
    """Dates of submission, where ``submitted`` are those from which jobs wait."""
    units: str = ""
    """Units of plain numbers, where only the reader's choices tell them."""
    read: int = 0
    """Number of rows that were read, those of no jobs included."""

    def __post_init__(self) -> None:
        if not len(self.submissions):
            self.submissions = self.submitted
        dates = self.submitted, self.started, self.ended
        latest = np.fmax.reduce(np.concatenate(dates), initial=-np.inf)
        for column in dates:
            # The clock shows 0 in the site's zone; some logs count their seconds from 0.
            none = np.abs(column) <= NEAR if latest > _RECENT else column == 0
            column[none if latest > _RECENT else none & (self.submitted > 0)] = np.nan
        self.run_times[np.isinf(self.run_times)] = np.nan
        for columns in (self.texts, self.marks):
            for name, (words, which) in columns.items():
                columns[name] = Words(["" if is_none(word) else word for word in words], which)
        told = self.suspended if len(self.suspended) else np.zeros(len(self.ids))
        self.suspended = np.nan_to_num(told)

    @property
    def own_times(self) -> Floats:
        """Each job's run time (seconds), without the time for which it was suspended."""
        there = self.ended - self.started - self.suspended
        own = np.where(self.run_times > 0, self.run_times, there)
        return np.where(self.suspended > 0, np.fmin(own, there), own)

    @property
    def unclear(self) -> Booleans:
        """Mask of the rows with a local date in an hour that a change of the clock repeats or
        skips.
        """
        found: Booleans = np.isin(self.lines, list(self.unclear_lines))
        return found

    @property
    def unclear_lines(self) -> set[int]:
        """Lines of the file with such a date."""
        told = ("hour_twice", "hour_missing")
        return {line for each in self.left_out if each.rule in told for line in each.lines}

    def take(self, kept: Any) -> None:
        """Replace the rows by those at the positions ``kept``, in that order, or where a mask is
        true.
        """
        places = np.arange(len(self.ids))[kept]
        new = np.full(len(self.ids), -1)
        new[places] = np.arange(len(places))  # of a place's copies, the last
        for name in ("lines", "processors", "suspended", "submissions", *_MEASURED):
            setattr(self, name, getattr(self, name)[places])
        self.ids = [self.ids[place] for place in places.tolist()]
        self.states = self.states.at(places)
        self.texts = {name: texts.at(places) for name, texts in self.texts.items()}
        self.marks = {name: texts.at(places) for name, texts in self.marks.items()}
        self.numbers = {name: column[places] for name, column in self.numbers.items()}
        self.not_counted = {name: held[places] for name, held in self.not_counted.items()}
        self.nodes = self.nodes and self.nodes.at(places)
        moved = new.tolist()
        self.groups = {moved[old]: job for old, job in self.groups.items() if moved[old] >= 0}
        self.tasks = {moved[old]: tasks for old, tasks in self.tasks.items() if moved[old] >= 0}
        self.spare = {moved[old]: spare for old, spare in self.spare.items() if moved[old] >= 0}

    def pools(self) -> Words:
        """Return the partition of each job; of several that a job asked for, the first."""
        column: Words = self.texts.get("queue") or Words.one("", len(self.ids))
        used, which = np.unique(column.which, return_inverse=True)
        words = [column.words[at].partition(",")[0].strip() for at in used.tolist()]
        return Words(words, which)

    def part(self, kept: Booleans) -> Rows:
        """Return a copy with only the rows where the mask ``kept`` is true, and only the repairs of
        those.
        """
        rows = copy(self)
        rows.read = int(kept.sum())
        rows.take(kept)
        inside = set(rows.lines.tolist())
        told = ((each, [at for at in each.lines if at in inside]) for each in self.left_out)
        rows.left_out = [
            RepairCount.of_lines(each.rule, each.description, lines, each.choice)
            for each, lines in told
            if lines
        ]
        return rows

    def choose(self, choices: Choices) -> None:
        """Leave out, and count, jobs of partitions, QOS, accounts or reservations that are not
        chosen.
        """
        gone = np.zeros(len(self.ids), np.bool_)
        nothing = Words.one("", len(self.ids))
        for what, wanted, column in (
            ("partition", choices.partitions, self.pools()),
            ("QOS", choices.qos, self.texts.get("qos_name", nothing)),
            ("account", choices.accounts, self.texts.get("group", nothing)),
            ("reservation", choices.reservations, self.texts.get("reservation", nothing)),
        ):
            known = {"": 0, **dict.fromkeys(filter(None, column.words), 0)}
            for name in wanted:
                if name not in known and (what, name) != ("reservation", "all"):
                    hint = did_you_mean(name, list(known)[1:])
                    raise InputError(f"no job is of {what} {shown(name)}; choose another{hint}")
            reasons = {word: elsewhere(what, word, wanted) for word in column.words}
            if told := next(filter(None, reasons.values()), ""):
                told += self._beside(wanted) if what == "partition" else ""
                other = column.where(lambda each, why=reasons: why[each] != "") & ~gone  # type: ignore[misc]
                self.leave_out(f"other_{what.lower()}", told, other)
                gone |= other
        if gone.any():
            self.take(~gone)

    def _beside(self, partitions: Sequence[str]) -> str:
        """Return a text that names the other partitions with jobs on the same nodes; "" if there
        are none.
        """
        pools = [set(each) for each in pools_of(node_spans(self))]
        beside = {name for each in pools if each & {*partitions} for name in each - {*partitions}}
        return f", though on the same nodes ({', '.join(sorted(beside))})" if beside else ""

    def tell(self, rule: str, description: str, lines: Sequence[int], choice: str = "keep") -> None:
        """Report that the repair called ``rule`` was made on these lines of the file; ``choice`` is
        what was done (``keep``, ``drop``, ``merge`` ...).
        """
        if len(lines):
            self.left_out.append(RepairCount.of_lines(rule, description, list(lines), choice))

    def leave_out(self, rule: str, description: str, gone: Booleans) -> None:
        """Report that the rows where ``gone`` is true will be left out, and why; the caller drops
        them.
        """
        lines = self.lines[gone].tolist()
        if lines:
            jobs = len(lines)
            listed = (tasks for at, tasks in self.tasks.items() if gone[at])
            jobs += sum(0 if tasks is None else len(tasks) - 1 for tasks in listed)
            counted = RepairCount(
                rule=rule, description=description, choice="drop", jobs=jobs, lines=lines
            )
            self.left_out.append(counted)


@dataclass(eq=False, kw_only=True)
class AccountingLog(Log):
    """A workload log made from a batch system's accounting; second 0 is the first submission."""

    start: Calendar
    size: int | None

    def calendar(self, time_zone: str | None = None) -> Calendar:
        """Return the log's calendar: the date of second 0 and the site's time zone."""
        if time_zone is None:
            return self.start
        calendar = Calendar(self.start.unix_start, time_zone)
        calendar.check("the given time zone")
        return calendar

    def machine_size(self) -> int | None:
        """Return the number of processors of the machine, None if it is unknown."""
        return self.size

    def no_machine_size(self) -> str:
        """Return a text that says why the size of the machine is unknown."""
        return "no job has processors and dates from which the size of the machine would follow"


def node_spans(rows: Rows) -> dict[str, dict[str, Span]]:
    """Return, for each partition, the first start and last end of jobs on each of its nodes.

    O(rows + nodes of different lists).
    """
    pools, ran = rows.pools(), rows.started < rows.ended
    spans: dict[str, dict[str, Span]] = {name: {} for name in sorted(pools.words)}
    if rows.nodes is None or not ran.any():
        return spans
    count = len(rows.nodes.words)
    pairs, which = np.unique(pools.which[ran] * count + rows.nodes.which[ran], return_inverse=True)
    first, last = np.full(len(pairs), np.inf), np.full(len(pairs), -np.inf)
    np.minimum.at(first, which, rows.started[ran])
    np.maximum.at(last, which, rows.ended[ran])
    for pair, *span in zip(pairs.tolist(), first.tolist(), last.tolist(), strict=True):
        names = node_names(rows.nodes.words[pair % count])
        extend_spans(spans[pools.words[pair // count]], dict.fromkeys(names, (span[0], span[1])))
    return spans


def task_numbers(text: str) -> list[int] | None:
    """Return the task numbers in a job array's list such as ``5-9%2`` or ``1,3-7:2``; None if
    invalid.

    Of a list that Slurm has cut (``...``), those that it names.

    >>> task_numbers("1,5-9:2%2"), task_numbers("1,3,...")
    ([1, 5, 7, 9], [1, 3])
    """
    tasks: list[int] = []
    for part in text.partition("%")[0].split(","):
        if "..." in part:
            continue
        match = _RANGE.fullmatch(part.strip())
        if not match:
            return None
        first = int(match[1])
        last, step = int(match[2] or first), int(match[3] or 1)
        if not 0 <= last - first < _MOST_TASKS or step < 1:
            return None
        tasks.extend(range(first, last + 1, step))
        if len(tasks) > _MOST_TASKS:
            return None
    return tasks


def log_of(rows: Rows, choices: Choices, kind: str, source: str) -> AccountingLog:
    """Convert rows of accounting to a workload log, with counts of the rows left out or changed.

    ``kind`` is the format of the file, ``source`` its name in messages.
    """
    _check_ranges(rows, source)
    known = rows.submitted[~np.isnan(rows.submitted)]
    start = float(np.floor(known.min())) if len(known) else 0.0
    settle(rows, choices)
    rows.choose(choices)
    _restarts(rows, choices.restarts)
    cancelled = _select(rows, choices)
    _restarts(rows, choices.restarts)  # A waiting task may have a row of its own.
    parts = len(rows.groups)
    if parts:
        lines = rows.lines[sorted(rows.groups)].tolist()
        jobs = len(set(rows.groups.values()))
        _merge(rows)
        rows.tell("het_parts", f"parts of heterogeneous jobs ({jobs} in all)", lines, "merge")
    if cancelled.groups:
        _merge(cancelled)
    own = rows.own_times
    counted = ""
    if choices.by == "binding":
        rates = _cores_and_gpus(rows, own, choices.nodes)
        rows.processors, counted = binding_sizes(rows, rates)
        cancelled.processors, _ = binding_sizes(cancelled, rates)
    elif choices.by != "cores":
        unit = {"nodes": "nodes", "gpus": "GPUs"}[choices.by]
        counted = f"{unit}: what is said of processors, or of core-hours, is of {unit}"
    size, size_is = _size(rows, own, choices)
    waited = _records_of(cancelled, np.full(len(cancelled.ids), -1.0), start)
    waited["wait_time"] = cancelled.ended - cancelled.submitted
    return AccountingLog(
        format=kind,
        records=_records_of(rows, own, start),
        cancelled=CancelledJobs(waited[waited["wait_time"] >= 0], cancelled.texts),
        lines=rows.lines,
        ids=rows.ids,
        texts=rows.texts,
        numbers=rows.numbers,
        left_out=rows.left_out,
        read=rows.read,
        start=Calendar(int(start), choices.zone_name),
        size=size,
        source=source,
        size_is=size_is,
        counted="; ".join(filter(None, (counted, rows.units))),
        not_counted=[name for name, held in rows.not_counted.items() if held.any()],
    )


def _records_of(rows: Rows, own: Floats, start: float) -> Records:
    """Convert rows to records of a log: ``own`` are their run times (seconds), dates count from
    ``start`` (seconds since 1970).
    """
    records = np.empty(len(rows.ids), dtype=RECORD)
    for name in RECORD.names or ():
        records[name] = -1
    records["job_number"] = np.arange(1, len(rows.ids) + 1)
    records["submit_time"] = np.where(np.isnan(rows.submitted), -1, rows.submitted - start)
    records["wait_time"] = np.nan_to_num(rows.started - rows.submitted, nan=-1)
    records["run_time"] = np.nan_to_num(own, nan=-1)
    processors = np.nan_to_num(rows.processors, nan=-1).astype(np.int64)
    records["allocated_processors"] = records["requested_processors"] = processors
    limits = np.where(np.isfinite(rows.limits), rows.limits, -1)
    records["requested_time"] = limits
    statuses = [ENDED.get(state, -1) for state in rows.states.words]
    records["status"] = np.array(statuses, np.int64)[rows.states.which]
    return records


def _check_ranges(rows: Rows, source: str) -> None:
    """Raise an InputError if a date, time or size is out of range; a walltime may be infinite."""
    for name, meaning in {**_MEASURED, "processors": "number of processors"}.items():
        most = MAX_PROCESSORS if name == "processors" else MAX_SECONDS
        column = getattr(rows, name)
        wrong = ~(np.abs(column) <= most) & ~np.isnan(column)
        if name == "limits":
            wrong &= column != math.inf
        if wrong.any():
            line, value = int(rows.lines[wrong][0]), float(column[wrong][0])
            raise InputError(
                f"{source}: line {line}: {meaning} is {value:g}; up to {most:g} is accepted"
            )


def _select(rows: Rows, choices: Choices) -> Rows:
    """Leave out jobs in states that were not chosen, and jobs that were cancelled while they
    waited; return the latter.
    """
    gone = np.zeros(len(rows.ids), np.bool_)
    for state in STATES:
        if state not in choices.states:
            what = OTHERS.get(state, "by choice")
            found = rows.states.where(lambda each, state=state: each == state)  # type: ignore[misc]
            rows.leave_out(f"state_{state.lower()}", f"state {state} ({what})", found)
            gone |= found
    ran = (rows.run_times > 0) | (rows.ended > rows.started)
    cancelled = rows.states.where(lambda each: each == "CANCELLED") & ~ran & ~gone
    what = "state CANCELLED (before they started)"
    rows.leave_out("cancelled_before_start", what, cancelled)
    unlisted = np.zeros(len(rows.ids), np.bool_)
    unlisted[[place for place, tasks in rows.tasks.items() if tasks is None]] = True
    waited = rows.part(cancelled & ~unlisted)
    unlisted &= ~(gone | cancelled)
    rows.leave_out("unlisted_tasks", "tasks of arrays that are not listed in full", unlisted)
    rows.take(~(gone | cancelled | unlisted))
    for each in (rows, waited):
        if each.tasks:
            _expand(each)
    return waited


def _expand(rows: Rows) -> None:
    """Split each row of waiting array tasks into one row for each task."""
    copies = np.ones(len(rows.ids), np.int64)
    for place, tasks in rows.tasks.items():
        copies[place] = len(tasks or ())
    if copies.sum() > MAX_JOBS:
        raise InputError(
            f"the lists of waiting tasks name {copies.sum()} tasks; up to {MAX_JOBS} are accepted"
        )
    waiting = dict(rows.tasks)
    places = np.repeat(np.arange(len(rows.ids)), copies)
    begins = np.cumsum(copies) - copies
    rows.take(places)
    rows.tasks = {}
    for place, tasks in waiting.items():
        begin = int(begins[place])
        for index, task in enumerate(tasks or ()):
            array = rows.ids[begin + index].partition("_")[0]
            rows.ids[begin + index] = f"{array}_{task}"


def _restarts(rows: Rows, choice: str) -> None:
    """Keep the last run of each restarted job, or make each run a job of its own."""
    if len(set(rows.ids)) == len(rows.ids):
        return
    if choice == "last":
        last = {job: place for place, job in enumerate(rows.ids)}
        gone = np.ones(len(rows.ids), np.bool_)
        gone[list(last.values())] = False
        rows.leave_out("earlier_runs", "runs before a restart (a later row has the id)", gone)
        rows.take(~gone)
        return
    seen: dict[str, int] = {}
    for place, job in enumerate(rows.ids):
        seen[job] = count = seen.get(job, -1) + 1
        if count:
            rows.ids[place] = f"{job}r{count}"
            if place in rows.groups:
                rows.groups[place] += f"r{count}"


def settle(rows: Rows, choices: Choices) -> None:
    """Merge rows about one run of a job, and sort the runs of each job by date.

    What a later row tells again is left out: the same run, or that the job waited. The stretches
    of a resized job become one row. Where its last row counts, a job has the names of that.
    """
    by_id: dict[str, list[int]] = {}
    for place, job in enumerate(rows.ids):
        by_id.setdefault(job if place not in rows.tasks else job.partition("[")[0], []).append(
            place
        )
    unclear, states = rows.unclear, rows.states.texts() if len(by_id) < len(rows.ids) else []
    order, last = np.arange(len(rows.ids)), np.arange(len(rows.ids))
    again, revoked, resized = (np.zeros(len(rows.ids), np.bool_) for _ in range(3))
    lost = 0.0
    for places in [each for each in by_id.values() if len(each) > 1]:
        at_once = np.array(sorted(places))
        # By submission; of one, stretches by start, others as in the file.
        starts = np.where(any(states[at] == "RESIZING" for at in places), rows.started[at_once], 0)
        by_date = at_once[np.lexsort((starts, rows.submitted[at_once]))]
        runs = (at_once if unclear[places].any() else by_date).tolist()
        order[at_once] = runs
        own = [at for at in runs if states[at] != "REVOKED"]
        revoked[[at for at in runs if own and at not in own]] = True
        runs = own or runs
        found: dict[tuple[float, float], int] = {}
        for at in runs:
            run = float(rows.submitted[at]), float(rows.started[at])
            known = found.get(run, at)
            found[run] = (
                known if np.isnan(rows.ended[at]) and not np.isnan(rows.ended[known]) else at
            )
        kept = [at for at in runs if not np.isnan(rows.started[at]) and at in found.values()]
        kept += runs[-1:] if np.isnan(rows.started[runs[-1]]) else []
        again[[at for at in runs if at not in kept]] = True
        stretches: list[int] = []
        for at, following in zip(kept, [*kept[1:], -1], strict=True):
            stretches.append(at)
            same = following >= 0 and rows.submitted[following] == rows.submitted[at]
            if states[at] != "RESIZING" or not same:
                lost += _join(rows, stretches) if len(stretches) > 1 else 0.0
                resized[stretches[:-1]] = True
                stretches = []
        last[places] = kept[-1]
    rows.leave_out("run_elsewhere", "state REVOKED (another row tells the job)", revoked)
    rows.leave_out("told_again", "rows whose job and run another row tells again", again)
    if resized.any():
        told = f"resized jobs, each with the most {choices.unit} that it had"
        told += f" ({lost / 3600:.3g} {choices.unit[:-1]}-hours more than they used)"
        rows.tell("resized", told, rows.lines[sorted(rows.spare)].tolist(), "merge")
    if choices.restarts == "last":
        rows.texts = {name: column.at(last) for name, column in rows.texts.items()}
    gone = again | revoked | resized
    if gone.any() or (order[1:] < order[:-1]).any():
        rows.take(order[~gone[order]])


def _join(rows: Rows, stretches: list[int]) -> float:
    """Merge the rows of a resized job into the last one, with the job's largest size; return the
    processor-seconds that this counts too many.
    """
    last = stretches[-1]
    rows.run_times[last] = rows.own_times[stretches].sum()
    rows.suspended[last] = rows.suspended[stretches].sum()
    had = rows.processors[stretches]
    rows.processors[last] = np.fmax.reduce(had)
    for column in rows.numbers.values():
        column[last] = np.fmax.reduce(column[stretches])
    begins = rows.started[stretches]
    spare = np.column_stack([begins, [*begins[1:], rows.ended[last]], rows.processors[last] - had])
    rows.spare[last] = [(begin, end, width) for begin, end, width in spare.tolist() if width > 0]
    rows.started[last] = begins[0]
    return sum((end - begin) * width for begin, end, width in rows.spare[last] if end > begin)


def _merge(rows: Rows) -> None:
    """Merge the parts of each heterogeneous job, which start together, into one row."""
    places = np.array(sorted(rows.groups))
    jobs = Words.of([rows.groups[place] for place in places.tolist()])
    order = np.argsort(jobs.which, kind="stable")
    places = places[order]
    begins = np.flatnonzero(np.diff(jobs.which[order], prepend=-1))
    first = places[begins]
    for job, place in zip(jobs.words, first.tolist(), strict=True):
        rows.ids[place] = job
    for column, choose in (
        (rows.processors, np.add),
        (rows.submitted, np.fmin),
        (rows.started, np.fmin),
        (rows.ended, np.fmax),
        (rows.run_times, np.fmax),
        (rows.limits, np.fmax),
        *((column, np.add) for column in rows.numbers.values()),
    ):
        column[first] = choose.reduceat(column[places], begins)
    kept = np.ones(len(rows.ids), np.bool_)
    kept[places] = False
    kept[first] = True
    rows.take(kept)
    rows.groups = {}


def binding_sizes(rows: Rows, rates: Mapping[str, tuple[int, int]]) -> tuple[Floats, str]:
    """Return each job's size in cores, at least those that belong to its GPUs, and a text that says
    so. ``rates`` are (cores, GPUs) by partition.

    A job of 1 core and 8 GPUs on nodes of 64 cores and 8 GPUs takes a node: 64 cores. The cores
    that belong to a GPU are those of its partition over its GPUs: both by partition.
    """
    sizes, told = rows.processors.copy(), []
    gpus = rows.numbers.get("gpus")
    if gpus is None:
        return sizes, ""
    pools = rows.pools()
    for name, (cores, cards) in rates.items():
        inside = pools.where(lambda each, name=name: each == name)  # type: ignore[misc]
        by_gpus = np.ceil(np.maximum(gpus, 0) * cores / cards - 1e-9)
        sizes = np.where(inside, np.fmax(sizes, by_gpus), sizes)
        each = f"{cores / cards:.3g} ({cores:,} cores, {cards:,} GPUs)"
        told.append(f"{each} in {name}" if len(set(pools.words)) > 1 else each)
    rule = "cores; a GPU takes those that belong to it, if its job has fewer: "
    return sizes, rule + ", ".join(told) if told else ""


def _cores_and_gpus(
    rows: Rows, run_times: Floats, nodes: NodeSizes | None
) -> dict[str, tuple[int, int]]:
    """Return (cores, GPUs) of each partition with GPUs: those of its ``nodes``, if these are known,
    else the most that jobs used at once.
    """
    gpus = rows.numbers.get("gpus")
    if gpus is None:
        return {}
    pools, found = rows.pools(), {}
    for name in sorted(set(pools.words)):
        inside = pools.where(lambda each, name=name: each == name)  # type: ignore[misc]
        known = (nodes or NodeSizes(())).together([name])
        cores, cards = (
            known.get(unit) or _most_in_use(rows, run_times, np.where(inside, column, 0)) or 0
            for unit, column in (("cores", rows.processors), ("gpus", gpus))
        )
        if cores and cards:
            found[name] = cores, cards
    return found


def _size(rows: Rows, run_times: Floats, choices: Choices) -> tuple[int | None, str]:
    """Return the machine's number of processors, None if unknown, and a text on its source."""
    pools = set(rows.pools().words)
    if choices.nodes is not None and pools <= choices.nodes.keys():
        size = choices.nodes.together(pools)[choices.unit]
        return size, f"{choices.unit} of the nodes told"
    told = f"the most {choices.unit} in use at once"
    if count := int((rows.suspended > 0).sum()):
        told += f", without {count} jobs that were suspended for a while"
    return _most_in_use(rows, run_times), told


def _most_in_use(rows: Rows, run_times: Floats, sizes: Floats | None = None) -> int | None:
    """Return the most processors in use at once according to the log.

    A job that was suspended left its processors to others at unknown dates: its width counts only.
    """
    spare = [each for told in rows.spare.values() for each in told] if sizes is None else []
    sizes = rows.processors if sizes is None else sizes
    known = (run_times > 0) & ~np.isnan(rows.started) & (sizes > 0)
    widest = sizes[known].astype(np.int64).max(initial=0)
    if not widest:
        return None
    known &= rows.suspended == 0
    since, until, fewer = np.array(spare, np.float64).reshape(-1, 3).T
    width, begin = sizes[known], rows.started[known]
    end = np.fmax(rows.ended[known], begin + run_times[known])
    # At one date, what is given back comes first.
    dates = np.concatenate([end, since, until, begin])
    changes = np.concatenate([-width, -fewer, fewer, width]).astype(np.int64)
    used = np.cumsum(changes[np.argsort(dates, kind="stable")])
    return int(max(used.max(initial=0), widest))


def first_known(columns: Iterable[Floats], size: int) -> Floats:
    """Return, for each of ``size`` rows, the first value in these columns that is not NaN."""
    found = np.full(size, math.nan)
    for column in columns:
        found = np.where(np.isnan(found), column, found)
    return found


NAMES = {
    "user": "user",
    "group": "group",
    "queue": "queue",
    "qos": "qos_name",
    "reservation": "reservation",
}
"""Fields of a job by what a column says."""

MARKS = ("cluster", "name")
"""Columns that tell jobs of one id apart, and are no fields of a job."""

_ASKS_NO_REQUEUE = re.compile(r"(?:^|\s)--no-requeue(?=\s|$)")
_REQUEUE = {
    **dict.fromkeys(("", "1", "yes", "true", "y"), ""),
    **dict.fromkeys(("0", "no", "false", "n"), NOT_RERUNNABLE),
}


def rerunnable_of(flags: Words | None, commands: Words | None) -> dict[str, Words]:
    """Return, as a field of the jobs, which may be run again after a kill; empty if all may.

    ``flags`` are requeue flags, ``commands`` those with which jobs were submitted (``sbatch
    --no-requeue``).
    """
    told = []
    if flags is not None:
        told.append(
            Words([_REQUEUE.get(each.strip().lower(), "") for each in flags.words], flags.which)
        )
    if commands is not None:
        said = [NOT_RERUNNABLE if _ASKS_NO_REQUEUE.search(each) else "" for each in commands.words]
        told.append(Words(said, commands.which))
    kept = np.logical_or.reduce([each.where(bool) for each in told]) if told else np.zeros(0)
    return {RERUNNABLE: Words(["", NOT_RERUNNABLE], kept.astype(np.int64))} if kept.any() else {}


def rows_of_table(
    table: TextTable,
    columns: Mapping[str, list[str]],
    units: Mapping[str, float],
    choices: Choices,
) -> Rows:
    """Convert a table of jobs to rows, all but the processors, which stay NaN.

    ``columns`` are the names of columns by meaning (``submit``, ``run_time`` ...), ``units`` the
    seconds that a plain number in such a column counts.
    """
    size = len(table.lines)
    states = Words.one("COMPLETED", size)
    if names := columns.get("state"):
        known = state_reader(choices.state_names)
        given = table.words(names[0])
        states = Words([known(each) for each in given.words], given.which)
        table.refuse(states.where(lambda state: not state), names[0], STATES_EXPECTED)
    zone, form = ZoneInfo(choices.zone_name), choices.date_format

    def dates(says: str) -> Dates:
        if not columns.get(says):
            return Dates(*(np.full(size, each) for each in (np.nan, 0.0, False)))
        return table.dates(columns[says][0], zone, form)

    def seconds(says: str) -> Floats:
        found = (table.durations(name, units[says]) for name in columns.get(says, ()))
        return first_known(found, size)

    submit = dates("submit")
    start = dates("start").not_before(submit.values)
    end = dates("end").not_before(start.values)
    submitted = submit.values
    if choices.submission == "eligible":
        submitted = np.fmax(submitted, dates("eligible").values)
    texts = {
        field: table.words(columns[says][0]) for says, field in NAMES.items() if columns.get(says)
    }
    flags, commands = (
        table.words(columns[says][0]) if columns.get(says) else None
        for says in ("requeue", "submit_line")
    )
    if flags is not None:
        wrong = flags.where(lambda word: word.strip().lower() not in _REQUEUE and not is_none(word))
        table.refuse(wrong, columns["requeue"][0], "0 or 1, yes or no, true or false")
    texts |= rerunnable_of(flags, commands)
    marks = {says: table.words(columns[says][0]) for says in MARKS if columns.get(says)}
    return Rows(
        ids=table.column(columns["id"][0]).to_list(),
        lines=table.lines,
        states=states,
        submitted=submitted,
        started=start.values,
        ended=end.values,
        run_times=seconds("run_time"),
        processors=np.full(size, np.nan),
        limits=seconds("walltime"),
        suspended=seconds("suspended") if columns.get("suspended") else np.zeros(0),
        texts=texts,
        marks=marks,
        submissions=submit.values,
        left_out=_changes_of_clock(table, zone.key, [submit, start, end]),
    )


def _changes_of_clock(table: TextTable, zone: str, dates: list[Dates]) -> list[RepairCount]:
    """Count the rows with a local date in an hour that a change of the clock repeats or skips."""
    found = []
    for rule, description, choice, which in (
        ("hour_twice", "a date in an hour that comes twice", "first", [d.later > 0 for d in dates]),
        ("hour_missing", "a date in an hour that is left out", "shift", [d.missing for d in dates]),
    ):
        lines = table.lines[np.logical_or.reduce(which)].tolist()
        if lines:
            found.append(RepairCount.of_lines(rule, f"{description} ({zone})", lines, choice))
    return found
