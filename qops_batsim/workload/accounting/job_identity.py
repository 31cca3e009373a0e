"""Which rows of accounting are of one job: an id alone does not say so.

Ids come again: when their counter wraps, after an installation from scratch, on another cluster, in
files that were put together. A job is known by its cluster, its id and its submission. Rows of one
id are of one job, which ran again, waited or was resized, if

1. they name the same user, where both name one;
2. and they name the same date of submission, or the later one is submitted when a job can be
   submitted again: after the run before it, within :data:`AGAIN_WITHIN` of its end. A run that was
   interrupted may end a moment later than that;
3. and, after a run that ended for good, they name the same account and the same job name.

A Slurm that requeues a job keeps its id, user and name, and writes a new date of submission: that
of the requeue.
"""

from __future__ import annotations

import math
import re
from collections.abc import Container, Sequence
from dataclasses import dataclass, field

import numpy as np

from qops_batsim.tables import Words
from qops_batsim.workload.accounting.rows import Rows, repeated_keys

AGAIN_WITHIN = 86400.0
"""Longest time from the end of a run until its job is submitted again (seconds): Slurm forgets an
ended job after minutes, and nobody requeues it then."""

UNKNOWN_LIMIT = 30 * 86400.0
"""How long a job of unknown end may have waited, and run, at most (seconds)."""

_CLOCKS = 60.0
"""By how much dates of one moment may differ (seconds)."""

_HOUR_TWICE = 2 * 3600.0
"""The same where a change of the clock makes an hour ambiguous."""

_INTERRUPTED = frozenset({"NODE_FAIL", "PREEMPTED", "REQUEUED", "BOOT_FAIL", "RESIZING", "REVOKED"})
"""States of runs after which a job runs again, or ran elsewhere."""

_OPEN = frozenset({"RUNNING", "PENDING", "SUSPENDED"})
"""States of rows that tell no end."""

_NUMBER = re.compile(r"[0-9]+(?=$|[_+.\[])")
"""The number of a job in the id of a task or part (``123_4``, ``123+1``, ``123[4].server``)."""

_LISTED = 3
"""Most ids that a message names."""


def renamed(job: str, count: int) -> str:
    """Return an id for the ``count``-th job that has the id ``job``.

    >>> renamed("9001", 2), renamed("9001_4", 2), renamed("9001[4].server", 3)
    ('9001j2', '9001j2_4', '9001j3[4].server')
    """
    number = _NUMBER.match(job)
    end = number.end() if number else len(job)
    return f"{job[:end]}j{count}{job[end:]}"


def number_of(job: str) -> str:
    """Return the number that tasks of an array, or parts of a heterogeneous job, have in common."""
    number = None if job.isdigit() else _NUMBER.match(job)
    return number[0] if number else job


def open_jobs(rows: Rows) -> dict[str, float]:
    """Return when the jobs that wait or run were submitted (seconds since 1970), by the number of
    the job or array.
    """
    is_open = rows.states.where(_OPEN.__contains__)
    places = np.flatnonzero(is_open & ~np.isnan(rows.submissions)).tolist()
    return {number_of(rows.ids[place]): float(rows.submissions[place]) for place in places}


@dataclass
class _Row:
    """What a row says about whose job it is; dates in seconds since 1970, NaN if unknown."""

    place: int
    user: str
    account: str
    name: str
    state: str
    submitted: float
    started: float
    ended: float
    limit: float
    slack: float

    @property
    def over(self) -> float:
        """Date at which its run is over at the latest."""
        if not math.isnan(self.ended):
            return self.ended
        limit = self.limit if math.isfinite(self.limit) else UNKNOWN_LIMIT
        waited = UNKNOWN_LIMIT if math.isnan(self.started) else 0.0
        begin = self.submitted if math.isnan(self.started) else self.started
        return begin + waited + limit


@dataclass
class _KnownJob:
    """The rows found so far to be of one job."""

    key: str
    last: _Row
    user: str
    dates: set[float]
    rows: list[_Row] = field(default_factory=list)

    def add(self, row: _Row) -> None:
        self.rows.append(row)
        self.dates.add(row.submitted)
        self.user = self.user or row.user
        if row.over >= self.last.over or self.last.state in _OPEN:
            self.last = row

    def has(self, row: _Row) -> bool:
        """Return whether a row, submitted no earlier than all of these, may be of this job."""
        if _differ(self.user, row.user):
            return False
        last = self.last
        slack = max(last.slack, row.slack)

        if math.isnan(row.submitted) and row.started > last.over + UNKNOWN_LIMIT:
            return False
        if row.submitted in self.dates or math.isnan(row.submitted):
            return bool(self.user and row.user) or not _differ(last.account, row.account)

        if not row.submitted <= last.over + AGAIN_WITHIN:
            return False
        if row.state == "REVOKED" or last.state == "REVOKED":
            return True
        if not (self.user and row.user) and _differ(last.account, row.account):
            return False

        if last.state in _INTERRUPTED | _OPEN:
            began = row.submitted >= last.started - slack or math.isnan(last.started)
            return began and not row.started < last.ended - slack

        same = not (_differ(last.account, row.account) or _differ(last.name, row.name))
        return same and not row.submitted < last.ended - slack


@dataclass
class _Group:
    """Tasks and parts that are of one job, of which all known runs are ``over`` at a date."""

    jobs: list[_KnownJob] = field(default_factory=list)
    keys: set[str] = field(default_factory=set)
    over: float = -math.inf

    def may_have(self, job: _KnownJob) -> bool:
        is_later = job.rows[0].submitted > self.over + AGAIN_WITHIN
        return not (job.key in self.keys or is_later or _differ(self.jobs[-1].user, job.user))


def _differ(one: str, other: str) -> bool:
    """Return whether two names are known, and are not the same."""
    return bool(one and other and one != other)


def tell_apart(rows: Rows) -> None:
    """Give jobs whose id an earlier job had ids of their own, and report them.

    Tasks of an array and parts of a heterogeneous job are told apart as a whole. O(rows).
    """
    keys = rows.keys
    places = _shared(keys, rows)
    if not places:
        return

    told = _told(rows, sorted(at for several in places.values() for at in several))
    taken: set[str] = set()
    lines: list[int] = []
    new: list[str] = []

    for number, several in places.items():
        jobs = _together(_jobs_of([told[place] for place in several], keys))
        if len(jobs) > 1 and not taken:
            taken = {number_of(job) for job in rows.ids}
        count = 1
        for job in jobs[1:]:
            count = next_count(number, count, taken)
            new.append(renamed(number, count))
            for row in (row for part in job for row in part.rows):
                rows.ids[row.place] = renamed(rows.ids[row.place], count)
                if row.place in rows.groups:
                    rows.groups[row.place] = renamed(rows.groups[row.place], count)
                lines.append(int(rows.lines[row.place]))
    tell_renamed(rows, new, sorted(lines))


def next_count(job: str, count: int, taken: Container[str]) -> int:
    """Return the least number above ``count`` by which a job can be renamed to what is not
    ``taken``.
    """
    count += 1
    while renamed(job, count) in taken:
        count += 1
    return count


def tell_renamed(rows: Rows, new: Sequence[str], lines: Sequence[int]) -> None:
    """Report that jobs, whose rows are on these lines, have got the ids ``new``."""
    more = ", ..." if len(new) > _LISTED else ""
    named = ", ".join(new[:_LISTED]) + more
    told = f"rows of jobs whose id an earlier job had ({len(new)} in all: {named})"
    rows.tell("ids_again", told, lines, "renumber")


def _shared(keys: Sequence[str], rows: Rows) -> dict[str, list[int]]:
    """Return the places of all rows of those numbers that may be of several jobs, by number."""
    again = {number_of(key) for key in repeated_keys(keys)}
    again |= {number_of(rows.ids[place]) for place in rows.groups}
    places_of: dict[str, list[int]] = {}
    for place, key in enumerate(keys) if again else ():
        number = number_of(key)
        if number in again:
            places_of.setdefault(number, []).append(place)
    return {number: places for number, places in places_of.items() if len(places) > 1}


def _told(rows: Rows, places: Sequence[int]) -> dict[int, _Row]:
    """Return what the rows at some places say about whose jobs they are, by place; dates of unclear
    lines may be off.
    """

    def texts(column: Words | None) -> Sequence[str]:
        if column is None:
            return [""] * len(places)
        words = [word.strip() for word in column.words]
        return Words(words, column.which[places]).texts()

    dates = (rows.submissions, rows.started, rows.ended, rows.limits)
    slacks = np.where(rows.unclear, _HOUR_TWICE, _CLOCKS)
    columns = zip(
        places,
        texts(rows.texts.get("user")),
        texts(rows.texts.get("group")),
        texts(rows.marks.get("name")),
        texts(rows.states),
        *(column[places].tolist() for column in (*dates, slacks)),
        strict=True,
    )
    return {place: _Row(place, *cells) for place, *cells in columns}


def _jobs_of(rows: list[_Row], keys: Sequence[str]) -> list[_KnownJob]:
    """Return the jobs that rows of one number belong to, by first submission: tasks and parts are
    jobs of their own here.
    """

    def order(row: _Row) -> tuple[float, float, int]:
        started = math.inf if math.isnan(row.started) else row.started
        submitted = started if math.isnan(row.submitted) else row.submitted
        return submitted, started, row.place

    jobs: list[_KnownJob] = []
    by_key: dict[str, list[_KnownJob]] = {}
    for row in sorted(rows, key=order):
        known = by_key.setdefault(keys[row.place], [])
        job = next((job for job in reversed(known) if job.has(row)), None)
        if job is None:
            job = _KnownJob(keys[row.place], row, row.user, {row.submitted})
            known.append(job)
            jobs.append(job)
        job.add(row)
    return jobs


def _together(jobs: list[_KnownJob]) -> list[list[_KnownJob]]:
    """Group tasks and parts, in the order of their first submission, that are of one job: of one
    user, submitted before the tasks known so far are over.
    """
    groups: list[_Group] = []
    for job in jobs:
        group = next((group for group in reversed(groups) if group.may_have(job)), None)
        if group is None:
            group = _Group()
            groups.append(group)
        group.jobs.append(job)
        group.keys.add(job.key)
        group.over = max(group.over, job.last.over)
    return [group.jobs for group in groups]
