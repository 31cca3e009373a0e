"""The rule about amounts that jobs share: cores, memory and GPUs of hosts, labels, licences."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, combinations

import numpy as np

from qops_batsim.limits import MAX_HOST_AMOUNT
from qops_batsim.measures.results.allocations import Stays
from qops_batsim.measures.results.host_amounts import RequestsOfRun
from qops_batsim.measures.results.result_tables import Booleans, Floats, Integers, tolerance
from qops_batsim.measures.verify.rule import (
    PLATFORM,
    SHARED_HOSTS,
    WORKLOAD,
    Violation,
    of_job,
    rule,
)
from qops_batsim.measures.verify.subject import Subject, stays_by_host
from qops_batsim.texts import amount_text

_MANY_PARTS = 10
"""Most different parts of a job of which all subsets are tried."""


@rule(SHARED_HOSTS, WORKLOAD, PLATFORM)
def host_amounts(subject: Subject) -> Iterator[Violation]:
    """At no date does a host give more of a kind than it has, a host that a job takes whole run
    another one, or the machine give more licences than it has; a job's hosts have its labels.

    No file tells how many tasks a host runs, or which part of a job it is for. Checked is that the
    tasks, or parts, can be spread over the job's hosts beside all that other jobs take there for
    certain: of tasks one on each host, of several parts the least. Two such jobs that only together
    have no room are not seen. Jobs that ran no longer than the rounding of dates are left out.
    """
    requests = subject.requests
    assert requests is not None
    yield from _without_labels(subject, requests)
    yield from _of_unknown_kinds(subject, requests)
    yield from _beyond_licences(subject, requests)
    yield from _beyond_amounts(subject, requests)


def _without_labels(subject: Subject, requests: RequestsOfRun) -> Iterator[Violation]:
    masks, of_request = requests.may_be_on()
    if masks.all():
        return
    stays = _on_machine(subject, requests)
    wrong = ~masks[of_request[requests.of_job[stays.rows]], stays.hosts]
    for place in np.flatnonzero(wrong).tolist():
        row, host = int(stays.rows[place]), int(stays.hosts[place])
        asked = {part.labels for part in requests.distinct[requests.of_job[row]].parts}
        labels = " or ".join(", ".join(each) for each in sorted(asked))
        text = f" runs on host {host}, which is not labelled {labels}"
        yield of_job(subject.result.id(row), text, host=host, time=float(stays.start[place]))


def _of_unknown_kinds(subject: Subject, requests: RequestsOfRun) -> Iterator[Violation]:
    known = set(requests.machine.kinds)
    missing = [
        sorted({kind for part in each.parts for kind in part.amounts} - known)
        for each in requests.distinct
    ]
    if any(missing):
        lack = np.array([bool(each) for each in missing])[requests.of_job]
        for row in np.flatnonzero(lack & subject.executed).tolist():
            kinds = ", ".join(missing[requests.of_job[row]])
            yield of_job(subject.result.id(row), f" runs, but no host has the {kinds} it asks for")


def _beyond_licences(subject: Subject, requests: RequestsOfRun) -> Iterator[Violation]:
    names = sorted({name for each in requests.distinct for name in each.licences})
    rows = np.flatnonzero(subject.executed)
    sweep = _Sweep(subject, rows, np.zeros(len(rows), np.int64))
    for name in names:
        asked = np.array([each.licences.get(name, 0) for each in requests.distinct])
        has = requests.machine.licences.get(name, 0)
        given = sweep.given(asked[requests.of_job[sweep.rows]])
        for row, _, date, amount in sweep.beyond(given, np.array([has])):
            text = f" makes {amount} licences of {name} used from {date:.6f} s on, there are {has}"
            yield of_job(subject.result.id(row), text, time=date)


def _beyond_amounts(subject: Subject, requests: RequestsOfRun) -> Iterator[Violation]:
    """Yield a violation for each job and kind by whose start a host gives more than it has."""
    stays = _on_machine(subject, requests)
    sweep = _Sweep(subject, stays.rows, stays.hosts)
    of_job_at = requests.of_job[sweep.rows]
    uncertain = np.array(
        [len(each.parts) > 1 or each.parts[0].tasks > 0 for each in requests.distinct]
    )[of_job_at]
    room = np.zeros((int(uncertain.sum()), len(requests.machine.kinds)), np.int64)

    for column, kind in enumerate(requests.machine.kinds):
        # What each job takes on each of its hosts for certain.
        least = np.array(
            [min(part.amounts.get(kind, 0) for part in each.parts) for each in requests.distinct]
        )[of_job_at]
        given = sweep.given(least)
        has = requests.capacity[:, column]
        for row, host, date, amount in sweep.beyond(given, has):
            gives = f"host {host} gives {amount_text(kind, amount)} from {date:.6f} s on"
            name = subject.result.id(row)
            said = f"{gives}, when job {name!r} starts, but has {has[host]:,}"
            yield Violation(jobs=(name,), host=host, time=date, message=said)
        if len(room):
            others = sweep.most(given, uncertain) - least[uncertain]
            room[:, column] = has[sweep.hosts[uncertain]] - others

    # A job that takes its hosts whole fills them, as do two others.
    full = len(sweep.rows) + 1
    slots = np.array(
        [full if all(part.exclusive for part in each.parts) else 1 for each in requests.distinct]
    )[of_job_at]
    capacity = np.full(requests.machine.hosts, full)
    for row, host, date, _ in sweep.beyond(sweep.given(slots), capacity):
        text = f" shares host {host} from {date:.6f} s on, which one of its jobs takes whole"
        yield of_job(subject.result.id(row), text, host=host, time=date)
    yield from _without_room(subject, requests, sweep, uncertain, room)


def _without_room(
    subject: Subject,
    requests: RequestsOfRun,
    sweep: _Sweep,
    uncertain: Booleans,
    room: Integers,
) -> Iterator[Violation]:
    """Yield a violation for each job whose tasks, or parts, cannot be spread over its hosts.

    ``room`` is what of each kind the job may take on each host, for the ``uncertain`` stays.
    """
    rows = sweep.rows[uncertain]
    hosts = sweep.hosts[uncertain]
    of_job_at = requests.of_job[rows]
    parts_of = [each.parts for each in requests.distinct]

    # How many tasks there is room for.
    asked = np.array([requests.amounts(parts[0]) for parts in parts_of])[of_job_at]
    times = np.where(asked > 0, room // np.maximum(asked, 1), np.iinfo(np.int64).max)
    most = np.zeros(len(subject.executed), np.int64)
    np.add.at(most, rows, times.min(axis=1, initial=MAX_HOST_AMOUNT).clip(0))
    tasks = np.array([parts[0].tasks for parts in parts_of])[requests.of_job]
    wrong = np.zeros(len(most), np.bool_)
    wrong[rows] = most[rows] < tasks[rows]

    # Which parts may be on which hosts.
    of_parts = np.flatnonzero(np.array([len(parts) > 1 for parts in parts_of])[of_job_at])
    of_parts = of_parts[np.argsort(rows[of_parts], kind="stable")]
    for chosen in np.split(of_parts, np.flatnonzero(np.diff(rows[of_parts])) + 1):
        if len(chosen):
            parts = parts_of[of_job_at[chosen[0]]]
            fits = [
                (room[chosen] >= requests.amounts(part)).all(axis=1)
                & requests.hosts_with(part.labels)[hosts[chosen]]
                for part in parts
            ]
            counts = [part.hosts for part in parts]
            wrong[rows[chosen[0]]] = not _can_be_spread(counts, np.array(fits))

    start = subject.result.column("starting_time")
    for row in np.flatnonzero(wrong).tolist():
        lack = "no room for all of its parts"
        if tasks[row]:
            lack = f"room for {most[row]} of its {tasks[row]} tasks"
        text = f" starts at {start[row]:.6f} s, when its hosts have {lack}"
        yield of_job(subject.result.id(row), text, time=float(start[row]))


def _can_be_spread(counts: list[int], fits: Booleans) -> bool:
    """Return whether parts find different hosts: so many for each part, of those that ``fits`` has
    for it, shape (parts, hosts).

    By Hall's theorem they do if all sets of parts together have as many hosts as they need.
    """
    most = len(counts) if len(counts) <= _MANY_PARTS else 1
    sets = chain.from_iterable(
        combinations(range(len(counts)), size) for size in {*range(1, most + 1), len(counts)}
    )
    return all(sum(counts[p] for p in some) <= fits[list(some)].any(axis=0).sum() for some in sets)


def _on_machine(subject: Subject, requests: RequestsOfRun) -> Stays:
    stays = stays_by_host(subject.result)
    return stays.where(stays.hosts < requests.machine.hosts)  # Others break another rule.


class _Sweep:
    """Starts and ends of stays of jobs on hosts, in the order of hosts and dates, ends first.

    Stays end earlier by what dates may be wrong; what then lasts no time is left out.
    """

    def __init__(self, subject: Subject, rows: Integers, hosts: Integers) -> None:
        start = subject.result.column("starting_time")[rows]
        finish = subject.ends[rows]
        finish = finish - tolerance(start, finish)
        real = finish > start
        self.rows = rows[real]
        self.hosts = hosts[real]
        self.start: Floats = start[real]
        count = len(self.rows)
        dates = np.concatenate([finish[real], self.start])
        self._order = np.lexsort((dates, np.tile(self.hosts, 2)))
        places = np.empty(2 * count, np.int64)
        places[self._order] = np.arange(2 * count)
        self._ends, self._starts = places[:count], places[count:]

    def given(self, amounts: Integers) -> Integers:
        """Return how much a host gives after each start and end, if stays take these amounts."""
        return np.cumsum(np.concatenate([-amounts, amounts])[self._order])

    def beyond(self, given: Integers, has: Integers) -> Iterator[tuple[int, int, float, int]]:
        """Yield row, host, date and amount for each job by whose start a host gives more than it
        ``has``, once a job.
        """
        seen: set[int] = set()
        at_start = given[self._starts]
        for place in np.flatnonzero(at_start > has[self.hosts]).tolist():
            row = int(self.rows[place])
            if row not in seen:
                seen.add(row)
                date = float(self.start[place])
                yield row, int(self.hosts[place]), date, int(at_start[place])

    def most(self, given: Integers, chosen: Booleans) -> Integers:
        """Return how much is given at most during each of the chosen stays."""
        starts, ends = self._starts[chosen], self._ends[chosen]
        order = np.argsort(starts)
        bounds = np.column_stack([starts[order], ends[order]]).ravel()
        found = np.empty(len(starts), np.int64)
        found[order] = np.maximum.reduceat(given, bounds)[::2]
        return found
