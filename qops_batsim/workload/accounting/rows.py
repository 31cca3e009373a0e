"""Rows of accounting: one set of columns, whether Slurm, PBS or a site wrote them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
from numpy.typing import NDArray

from qops_batsim.errors import InputError, did_you_mean, shown
from qops_batsim.limits import MAX_PROCESSORS, MAX_SECONDS
from qops_batsim.tables import Booleans, Floats, Words
from qops_batsim.workload.accounting.cells import NEAR, Dates, TextTable, is_none
from qops_batsim.workload.accounting.choices import Choices, elsewhere
from qops_batsim.workload.accounting.node_sizes import Span, extend_spans, node_names, pools_of
from qops_batsim.workload.accounting.states import STATES_EXPECTED, state_reader
from qops_batsim.workload.log_records import NOT_RERUNNABLE, RERUNNABLE, RepairCount

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

_RANGE = re.compile(r"(\d{1,18})(?:-(\d{1,18})(?::(\d{1,9}))?)?")


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
    """What tells jobs of one id apart, beside user, account and dates: ``cluster`` and ``name``;
    also ``constraints``, the features of nodes that they ask for."""
    asked: Words | None = None
    """What jobs ask of each host, as :mod:`~qops_batsim.workload.accounting.amounts` writes it,
    where that was chosen: ``processors`` are hosts then."""
    marked: dict[str, Booleans] = field(default_factory=dict)
    """Rows of which something about ``asked`` is to be told, by its rule."""
    submissions: Floats = field(default_factory=lambda: np.zeros(0))
    """Dates of submission, where ``submitted`` are those from which jobs wait."""
    units: str = ""
    """Units of plain numbers, where only the reader's choices tell them."""
    read: int = 0
    """Number of rows that were read, those of no jobs included."""

    def __post_init__(self) -> None:
        if not len(self.submissions):
            self.submissions = self.submitted
        if not len(self.suspended):
            self.suspended = np.zeros(len(self.ids))
        self.suspended = np.nan_to_num(self.suspended)

        dates = self.submitted, self.started, self.ended
        latest = np.fmax.reduce(np.concatenate(dates), initial=-np.inf)
        for column in dates:
            # The clock shows 0 in the site's zone; some logs count their seconds from 0.
            if latest > _RECENT:
                column[np.abs(column) <= NEAR] = np.nan
            else:
                column[(column == 0) & (self.submitted > 0)] = np.nan
        self.run_times[np.isinf(self.run_times)] = np.nan

        for columns in (self.texts, self.marks):
            for name, (words, which) in columns.items():
                columns[name] = Words(["" if is_none(word) else word for word in words], which)

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
        rules = ("hour_twice", "hour_missing")
        lines = [line for told in self.left_out if told.rule in rules for line in told.lines]
        mask: Booleans = np.isin(self.lines, lines)
        return mask

    @property
    def keys(self) -> list[str]:
        """Id of each row's job, or array where the row stands for waiting tasks."""
        keys = list(self.ids)
        for place in self.tasks:
            keys[place] = keys[place].partition("[")[0]
        return keys

    def take(self, kept: Any) -> None:
        """Replace the rows by those at the positions ``kept``, in that order, or where a mask is
        true.
        """
        places = np.arange(len(self.ids))[kept]
        new = np.full(len(self.ids), -1)
        new[places] = np.arange(len(places))  # Of a place's copies, the last.
        moved = new.tolist()

        self.ids = [self.ids[place] for place in places.tolist()]
        self.states = self.states.at(places)
        self.nodes = self.nodes and self.nodes.at(places)
        self.asked = self.asked and self.asked.at(places)
        for name in ("lines", "processors", "suspended", "submissions", *_MEASURED):
            setattr(self, name, getattr(self, name)[places])
        for name in ("texts", "marks"):
            columns = getattr(self, name).items()
            setattr(self, name, {key: column.at(places) for key, column in columns})
        for name in ("numbers", "not_counted", "marked"):
            columns = getattr(self, name).items()
            setattr(self, name, {key: column[places] for key, column in columns})
        for name in ("groups", "tasks", "spare"):
            by_place = getattr(self, name).items()
            setattr(self, name, {moved[old]: of for old, of in by_place if moved[old] >= 0})

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
        rows.left_out = []
        inside = set(rows.lines.tolist())
        for repair in self.left_out:
            lines = [line for line in repair.lines if line in inside]
            rows.tell(repair.rule, repair.description, lines, repair.choice)
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
            known = {*column.words, ""}
            for name in wanted:
                if name not in known and (what, name) != ("reservation", "all"):
                    hint = did_you_mean(name, [word for word in column.words if word])
                    raise InputError(f"no job is of {what} {shown(name)}; choose another{hint}")

            reasons = {word: elsewhere(what, word, wanted) for word in column.words}
            if why := next(filter(None, reasons.values()), ""):
                why += self._beside(wanted) if what == "partition" else ""
                other = column.where({word for word in reasons if reasons[word]}.__contains__)
                self.leave_out(f"other_{what.lower()}", why, other & ~gone)
                gone |= other
        if gone.any():
            self.take(~gone)

    def _beside(self, partitions: Sequence[str]) -> str:
        """Return a text that names the other partitions with jobs on the same nodes; "" if there
        are none.
        """
        chosen = {*partitions}
        pools = (pool for pool in map(set, pools_of(node_spans(self))) if pool & chosen)
        beside = sorted(set().union(*pools) - chosen)
        return f", though on the same nodes ({', '.join(beside)})" if beside else ""

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
            listed = (tasks for at, tasks in self.tasks.items() if gone[at] and tasks is not None)
            jobs = len(lines) + sum(len(tasks) - 1 for tasks in listed)
            counted = RepairCount(
                rule=rule, description=description, choice="drop", jobs=jobs, lines=lines
            )
            self.left_out.append(counted)

    def check_ranges(self, source: str) -> None:
        """Raise an InputError if a date, time or size is out of range; a walltime may be
        infinite.
        """
        for name, meaning in {**_MEASURED, "processors": "number of processors"}.items():
            most = MAX_PROCESSORS if name == "processors" else MAX_SECONDS
            column = getattr(self, name)
            wrong = np.abs(column) > most
            if name == "limits":
                wrong &= column != np.inf
            if wrong.any():
                place = int(wrong.argmax())
                raise InputError(
                    f"{source}: line {self.lines[place]}: {meaning} is {column[place]:g}; up to "
                    f"{most:g} is accepted"
                )


def node_spans(rows: Rows) -> dict[str, dict[str, Span]]:
    """Return, for each partition, the first start and last end of jobs on each of its nodes.

    O(rows + nodes of different lists).
    """
    pools = rows.pools()
    ran = rows.started < rows.ended
    spans: dict[str, dict[str, Span]] = {name: {} for name in sorted(pools.words)}
    if rows.nodes is None or not ran.any():
        return spans

    count = len(rows.nodes.words)
    pairs, which = np.unique(pools.which[ran] * count + rows.nodes.which[ran], return_inverse=True)
    first = np.full(len(pairs), np.inf)
    last = np.full(len(pairs), -np.inf)
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
        last = int(match[2] or first)
        step = int(match[3] or 1)
        if not 0 <= last - first < _MOST_TASKS or step < 1:
            return None

        tasks.extend(range(first, last + 1, step))
        if len(tasks) > _MOST_TASKS:
            return None
    return tasks


def repeated_keys(keys: Sequence[str]) -> dict[str, list[int]]:
    """Return the places of each key that comes several times, in the order of the first ones."""
    places: dict[str, list[int]] = {key: [] for key, count in Counter(keys).items() if count > 1}
    for place, key in enumerate(keys) if places else ():
        if key in places:
            places[key].append(place)
    return places


_NAMES = {
    "user": "user",
    "group": "group",
    "queue": "queue",
    "qos": "qos_name",
    "reservation": "reservation",
}
"""Fields of a job by what a column says."""

_MARKS = ("cluster", "name", "constraints")
"""Columns that are no fields of a job."""

_ASKS_NO_REQUEUE = re.compile(r"(?:^|\s)--no-requeue(?=\s|$)")
_REQUEUE = {
    **dict.fromkeys(("", "1", "yes", "true", "y"), ""),
    **dict.fromkeys(("0", "no", "false", "n"), NOT_RERUNNABLE),
}


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
    size = len(table)
    zone = ZoneInfo(choices.zone_name)

    def words(says: str) -> Words | None:
        return table.words(columns[says][0]) if columns.get(says) else None

    def dates(says: str) -> Dates:
        if not columns.get(says):
            return Dates(*(np.full(size, each) for each in (np.nan, 0.0, False)))
        return table.dates(columns[says][0], zone, choices.date_format)

    def seconds(says: str) -> Floats:
        known = np.full(size, np.nan)
        for name in columns.get(says, ()):
            known = np.where(np.isnan(known), table.durations(name, units[says]), known)
        return known

    states = Words.one("COMPLETED", size)
    given = words("state")
    if given is not None:
        known = state_reader(choices.state_names)
        states = Words([known(word) for word in given.words], given.which)
        unknown = states.where(lambda state: not state)
        table.refuse(unknown, columns["state"][0], STATES_EXPECTED)

    submit = dates("submit")
    start = dates("start").not_before(submit.values)
    end = dates("end").not_before(start.values)
    submitted = submit.values
    if choices.submission == "eligible":
        submitted = np.fmax(submitted, dates("eligible").values)

    flags = words("requeue")
    commands = words("submit_line")
    is_kept = np.zeros(size, np.bool_)
    if flags is not None:
        wrong = flags.where(lambda word: word.strip().lower() not in _REQUEUE and not is_none(word))
        table.refuse(wrong, columns["requeue"][0], "0 or 1, yes or no, true or false")
        is_kept |= flags.where(lambda word: bool(_REQUEUE.get(word.strip().lower())))
    if commands is not None:
        is_kept |= commands.where(lambda text: _ASKS_NO_REQUEUE.search(text) is not None)

    texts = {name: column for says, name in _NAMES.items() if (column := words(says)) is not None}
    if is_kept.any():
        texts[RERUNNABLE] = Words(["", NOT_RERUNNABLE], is_kept.astype(np.int64))
    rows = Rows(
        ids=table.column(columns["id"][0]).to_list(),
        lines=table.lines,
        states=states,
        submitted=submitted,
        started=start.values,
        ended=end.values,
        run_times=seconds("run_time"),
        processors=np.full(size, np.nan),
        limits=seconds("walltime"),
        suspended=seconds("suspended"),
        texts=texts,
        marks={says: column for says in _MARKS if (column := words(says)) is not None},
        submissions=submit.values,
    )
    read = (submit, start, end)
    twice = np.logical_or.reduce([each.later > 0 for each in read])
    missing = np.logical_or.reduce([each.missing for each in read])
    for rule, what, choice, mask in (
        ("hour_twice", "comes twice", "first", twice),
        ("hour_missing", "is left out", "shift", missing),
    ):
        told = f"a date in an hour that {what} ({zone.key})"
        rows.tell(rule, told, table.lines[mask].tolist(), choice)
    return rows
