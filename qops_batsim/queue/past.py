"""A machine's past: its jobs, how long like jobs ran, and how often they were cancelled."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from qops_batsim.core.machine import Machine
from qops_batsim.core.node_request import NodeLayout
from qops_batsim.errors import InputError
from qops_batsim.job_fields import asked_or_whole
from qops_batsim.jobs import Job
from qops_batsim.queue.node_rows import NodeRows, any_cores, cores_of
from qops_batsim.tables import Words
from qops_batsim.workload.accounting.node_sizes import node_names
from qops_batsim.workload.conversion import Conversion
from qops_batsim.workload.log_records import CancelledJobs, Records, names_of

LEAST_LIMIT = 60.0
"""Shorter limits count as this long (seconds)."""

REMEMBERED = 40
"""Ended jobs of a group that are remembered, the latest."""

FIELDS = ("user", "executable", "queue")
"""Fields of a log that tell user, application and partition."""

ENOUGH = 40
"""Ended jobs from which a run time is drawn: where a group has fewer, wider groups add theirs."""

NEAREST = 6
TIMES = 7
"""The latest jobs of the narrowest group, ``NEAREST`` of them, count ``TIMES`` times each."""

USER = 2
"""Place of a job's user among its groups."""


class Past(NamedTuple):
    """A machine's past jobs in columns; dates and durations in seconds.

    First those of its history, in the order of submission; a queue that is forecast may follow.

    Attributes
    ----------
    processors
        Size of the machine.
    submissions, starts
        Dates; a start is NaN if it is not known.
    cancelled
        When jobs were cancelled while they waited, NaN for all others.
    run_times, limits
        How long jobs ran, and how long they were allowed to, which some overrun.
    widths
        Processors of each job.
    groups
        Numbers of the groups that a job belongs to, the narrowest first, by job: jobs of its user
        and application with its limit, of these without, of its user, of its partition, all.
    names
        User, application and partition of each job, in a row.
    jobs
        The jobs themselves, for a scheduler that looks at their fields.
    history
        How many of them are its history.
    nodes
        What they ask of nodes, where jobs share these; None: processors are counted.
    """

    processors: int
    submissions: np.ndarray
    starts: np.ndarray
    cancelled: np.ndarray
    run_times: np.ndarray
    limits: np.ndarray
    widths: np.ndarray
    groups: np.ndarray
    names: np.ndarray
    jobs: Sequence[Job]
    history: int
    nodes: NodeRows | None = None

    @property
    def ends(self) -> np.ndarray:
        """Return the jobs' ends (seconds), NaN where the start is not known."""
        ends: np.ndarray = self.starts + self.run_times
        return ends

    @property
    def waited_until(self) -> np.ndarray:
        """Return the date until which each job waited: of its start or cancellation (seconds), NaN
        if unknown.
        """
        return np.where(np.isnan(self.cancelled), self.starts, self.cancelled)


def no_past(processors: int) -> Past:
    """Return the past of a machine of which no job is known."""
    none = np.empty(0)
    return Past(
        processors=processors,
        submissions=none,
        starts=none,
        cancelled=none,
        run_times=none,
        limits=none,
        widths=np.empty(0, np.int64),
        groups=np.empty((0, 5), np.int64),
        names=np.empty((0, 3), object),
        jobs=[],
        history=0,
    )


def past_of(trace: Conversion, machine: Machine | None = None) -> Past:
    """Return the jobs of a machine's log in the form from which forecasts learn; with the nodes of
    the ``machine``, of a log by amounts.

    A job without a limit counts as allowed to run as long as the longest limit; where no job has
    one, as long as the longest job ran: its own run time nobody knew. InputError if no job is left
    that ran.
    """
    records = trace.records
    size = trace.workload.processors
    columns = trace.workload.columns
    widths = np.asarray(columns.processors, np.int64)
    gone, texts, gone_asked = trace.cancelled or CancelledJobs(records[:0])
    gone_widths = gone["requested_processors"]
    nodes = None
    if machine is not None:
        size = machine.totals["cores"]
        told = list(columns.hosts_asked or [None] * len(widths))
        told += gone_asked or [any_cores(count, "", machine) for count in gone_widths.tolist()]
        hosts = [*widths.tolist(), *gone_widths.tolist()]
        whole = {count: asked_or_whole(None, count) for count in {*hosts}}
        each = [one or whole[count] for one, count in zip(told, hosts, strict=True)]
        widths, gone_widths = np.split(cores_of(each, machine), [len(widths)])
        bits = {name: 1 << host for host, name in enumerate(machine.names)}
        ran_on = [0] * len(each)
        if trace.nodes is not None:
            masks = [sum(bits.get(n, 0) for n in node_names(word)) for word in trace.nodes.words]
            ran_on[: len(widths)] = [masks[place] for place in trace.nodes.which.tolist()]
        nodes = NodeRows(NodeLayout(machine), each, ran_on)
    run_times = records["run_time"].astype(float)
    if not ((run_times > 0) & (widths <= size)).any():
        raise InputError(
            f"{trace.workload.source}: no job that fits the machine has run; a log of jobs that "
            "ran is expected"
        )
    asked = records["requested_time"].astype(float)
    longest = (asked if (asked > 0).any() else run_times).max()
    waits = records["wait_time"].astype(float)
    starts = np.where(waits >= 0, records["submit_time"] + waits, np.nan)

    # Behind the jobs that ran those that were cancelled while they waited; then all in order.
    count = len(records)
    submissions = np.concatenate([records["submit_time"], gone["submit_time"]]).astype(float)
    asked = np.concatenate([asked, gone["requested_time"]])
    widths = np.concatenate([widths, gone_widths])
    starts = np.concatenate([starts, np.full(len(gone), np.nan)])
    cancelled = np.concatenate([np.full(count, np.nan), gone["submit_time"] + gone["wait_time"]])
    limits = np.maximum(np.where(asked > 0, asked, longest), LEAST_LIMIT)
    run_times = np.concatenate([run_times, limits[count:]])
    names = np.concatenate([_names(records, trace.texts), _names(gone, texts)])
    jobs = [*trace.workload.jobs, *_cancelled_jobs(gone, names[count:], limits[count:])]

    order = np.argsort(submissions, kind="stable")
    names = names[order]
    limits = limits[order]
    return Past(
        processors=size,
        submissions=submissions[order],
        starts=starts[order],
        cancelled=cancelled[order],
        run_times=np.maximum(run_times[order], 1.0),
        limits=limits,
        widths=widths[order],
        groups=groups_of(names, limits),
        names=names,
        jobs=[jobs[place] for place in order.tolist()],
        history=len(jobs),
        nodes=nodes and nodes.only(order.tolist()),
    )


def _names(records: Records, texts: Mapping[str, Words]) -> np.ndarray:
    """Return the user, application and partition of each record: one row for each record."""
    columns = [np.array(names_of(records, texts, field, "-1"), object) for field in FIELDS]
    return np.column_stack(columns)


def _cancelled_jobs(records: Records, names: np.ndarray, limits: np.ndarray) -> list[Job]:
    """Return the jobs that were cancelled while they waited, with the fields that a scheduler could
    see.
    """
    columns = (records[name].tolist() for name in ("submit_time", "requested_processors"))
    return [
        Job(f"cancelled-{place}", date, width, "", limit, None, {"user": user, "queue": queue})
        for place, (date, width, limit, (user, _, queue)) in enumerate(
            zip(*columns, limits.tolist(), names.tolist(), strict=True)
        )
    ]


def groups_of(names: np.ndarray, limits: np.ndarray, known: Past | None = None) -> np.ndarray:
    """Return the numbers of the groups of similar jobs (same user, application, limit, ...) that
    each job belongs to: see :class:`Past`.

    Those of a past that is known already keep their numbers.
    """
    groups = []
    for level, columns in enumerate(_columns(names, limits)):
        numbers: dict[tuple[object, ...], int] = {}
        if known is not None:
            found, rows = np.unique(known.groups[:, level], return_index=True)
            of_known = _columns(known.names[rows], known.limits[rows])[level]
            numbers = dict(zip(_rows(of_known), found.tolist(), strict=True))
        groups.append(numbered(*columns, known=numbers))
    return np.column_stack([*groups, np.zeros(len(limits), np.int64)])


def _columns(names: np.ndarray, limits: np.ndarray) -> list[tuple[np.ndarray, ...]]:
    """Return, for each kind of group from the narrowest on, the columns (user, application, ...) in
    which all its jobs agree.
    """
    user, application, partition = names.T
    return [(user, application, limits), (user, application), (user,), (partition,)]


def _rows(columns: Sequence[np.ndarray]) -> Iterator[tuple[object, ...]]:
    return zip(*(column.tolist() for column in columns), strict=True)


def numbered(
    *columns: np.ndarray, known: Mapping[tuple[object, ...], int] = MappingProxyType({})
) -> np.ndarray:
    """Give each row of the columns a number; rows that are equal in all columns get the same one.
    O(rows).

    Rows that are known have their numbers, others greater ones.
    """
    numbers = dict(known)
    more = max(numbers.values(), default=-1) + 1 - len(numbers)
    found = (numbers.setdefault(row, more + len(numbers)) for row in _rows(columns))
    return np.fromiter(found, np.int64)


class Habits:
    """Which shares of their time limits similar jobs have used, learned from the jobs that have
    ended so far.

    Parameters
    ----------
    past
        The jobs.
    ended
        Rows of those that end, in the order of their ends.
    known
        How many of these have ended so far; None: all.
    """

    def __init__(self, past: Past, ended: np.ndarray, known: int | None = None) -> None:
        self.known = len(ended) if known is None else known
        self._size = len(ended)
        shares = (past.run_times / past.limits)[ended]

        # Of each level the jobs by group, within a group by their ends.
        self._levels: list[tuple[np.ndarray, np.ndarray]] = []
        for groups in past.groups[ended].T:
            order = np.argsort(groups, kind="stable")
            self._levels.append((groups[order] * self._size + order, shares[order]))

    def _latest(self, level: int, group: int) -> list[float]:
        """Return which shares of their limits the last ended jobs of a group used, in the order of
        their ends.
        """
        places, shares = self._levels[level]
        begin = group * self._size
        first, last = np.searchsorted(places, (begin, begin + self.known))
        latest: list[float] = shares[max(first, last - REMEMBERED) : last].tolist()
        return latest

    def shares(self, groups: Sequence[int], beyond: float = 0.0) -> np.ndarray:
        """Return which shares of their limits jobs like this one used, in ascending order.

        Where the narrowest group has few jobs, those of wider groups follow; a job counts in each
        of its groups, and the most similar ones several times.

        Parameters
        ----------
        groups
            Groups of the job in question, the narrowest first.
        beyond
            The share that it has used already: only larger ones are returned. Where no job used
            more, it is expected to use up its limit, or to end now if it has outlived that.
        """
        found: list[float] = []
        for level, group in enumerate(groups):
            of_group = [share for share in self._latest(level, group) if share > beyond]
            found.extend(reversed(of_group[-(ENOUGH - len(found)) :]))
            if len(found) >= ENOUGH:
                break
        found += found[:NEAREST] * (TIMES - 1)
        return np.sort(found) if found else np.array([max(1.0, beyond)])


HOURS = (1.0, 4.0, 12.0, 24.0)
"""Borders of the classes of waits (hours) by which cancellations are counted."""

WIDER = 2.0
"""Weight of the rate of a wider group of jobs, as a number of cancellations."""


class Patience:
    """How often users cancel waiting jobs, by group of jobs and by how long a job has waited.

    A rate of a group (cancellations by hour of wait) is shrunk to that of the wider group as if it
    had :data:`WIDER` more of its cancellations: user, partition, all.

    Parameters
    ----------
    past
        The jobs.
    """

    def __init__(self, past: Past) -> None:
        self._past = past
        self._groups = past.groups[:, USER:]
        edges = 3600.0 * np.array([0.0, *HOURS, np.inf])
        self._begins = edges[:-1]
        self._ends = edges[1:]
        sizes = self._groups.max(axis=0, initial=0) + 1
        self._counts = [np.zeros((size, len(self._begins))) for size in sizes.tolist()]
        self._hours = [np.zeros_like(counts) for counts in self._counts]
        self.cancels = bool(np.isfinite(past.cancelled).any())

    def learn(self, rows: np.ndarray) -> None:
        """Learn from jobs that have started or were cancelled while they waited; ``rows`` are their
        row numbers in the past.
        """
        past = self._past
        if not self.cancels or not len(rows):
            return
        waits = (past.waited_until[rows] - past.submissions[rows])[:, None]
        hours = np.clip(waits - self._begins, 0.0, self._ends - self._begins) / 3600.0
        ended = (self._begins <= waits) & (waits < self._ends)
        ended &= np.isfinite(past.cancelled[rows])[:, None]
        for place, (counts, known) in enumerate(zip(self._counts, self._hours, strict=True)):
            groups = self._groups[rows, place]
            np.add.at(counts, groups, ended)
            np.add.at(known, groups, hours)

    def draw(
        self, rows: np.ndarray, waited: np.ndarray, draws: int, rng: np.random.Generator
    ) -> np.ndarray:
        """Draw at random how many seconds from now each waiting job is cancelled: one row for each
        draw, one column for each job.

        Infinite if never; ``waited`` is for how long they have waited (seconds).
        """
        # A cancellation comes when the rates over time add up to an exponential variable.
        chances = rng.standard_exponential((len(rows), draws)).T
        left = np.full((draws, len(rows)), np.inf)
        rates = self._rates(rows) / 3600.0
        since = np.maximum(self._begins - waited[:, None], 0.0)
        until = np.maximum(self._ends - waited[:, None], 0.0)
        for kind in range(len(self._begins)):
            rate = rates[:, kind]
            with np.errstate(divide="ignore", invalid="ignore"):
                reached = since[:, kind] + np.where(rate > 0, chances / rate, np.inf)
                spent = rate * (until[:, kind] - since[:, kind])
            is_now = (reached < until[:, kind]) & np.isinf(left)
            left = np.where(is_now, reached, left)
            chances = chances - np.where(rate > 0, spent, 0.0)
        return left

    def _rates(self, rows: np.ndarray) -> np.ndarray:
        """Return how often waiting jobs are cancelled (per hour of wait), by job and by class of
        wait so far.
        """
        counts = self._counts[-1][0]
        hours = self._hours[-1][0]
        rates = np.broadcast_to(counts / np.maximum(hours, 1.0), (len(rows), len(counts)))
        # From all jobs to those of a partition, and of a user.
        for place in range(len(self._counts) - 2, -1, -1):
            groups = self._groups[rows, place]
            some = np.where(rates > 0, WIDER / np.maximum(rates, 1e-12), 0.0)
            counts = self._counts[place][groups]
            hours = self._hours[place][groups]
            rates = np.where(rates > 0, (counts + WIDER) / np.maximum(hours + some, 1e-12), 0.0)
        return rates
