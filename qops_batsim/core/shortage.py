"""Shortages: of which kind too little is free for a request now, on which hosts, and until when."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import msgspec

from qops_batsim.core.hostset import HostSet
from qops_batsim.core.node_profile import NodeProfile
from qops_batsim.core.refusal import seconds
from qops_batsim.job_fields import AskedPart
from qops_batsim.texts import amount_text


class Shortage(msgspec.Struct, frozen=True, kw_only=True):
    """A kind of which too few hosts have enough free at present.

    Attributes
    ----------
    kind
        What is short; empty where hosts have to be entirely free, or where each kind is free on
        enough hosts, but not all of them on the same ones.
    amount
        How much of it is asked for on each host, or for each task.
    hosts, tasks
        How many hosts are asked for; of tasks, at most. Tasks, 0 without.
    free
        On how many hosts, or for how many tasks, it is free now.
    missing
        Hosts that do not have it free now and are the first to have it: those that are waited for.
    date
        When it is free for as many (seconds), if running jobs end as expected; None: never.
    whole
        Whether hosts have to be entirely free.
    """

    kind: str
    amount: int
    hosts: int
    tasks: int
    free: int
    missing: tuple[int, ...]
    date: float | None
    whole: bool = False


def shortages(running: NodeProfile, part: AskedPart) -> list[Shortage]:
    """Return what is short for a part of a request at the beginning of a profile of running jobs,
    the latest date first.

    Kinds are looked at one by one, and then together: a shortage of all at once is told if it
    lasts longer than that of each kind. Reservations of waiting jobs are not looked at.
    O(kinds × hosts × log(hosts)), and the steps of the profile.
    """
    search = _Search(running, part)
    kinds = {} if part.exclusive else part.amounts
    found = [search.of({kind: amount}) for kind, amount in kinds.items()]
    together = search.of(part.amounts)
    latest = max((_until(each) for each in found if each is not None), default=running.start)
    if together is not None and (_until(together) > latest or not kinds):
        found.append(together)
    short = [each for each in found if each is not None]
    return sorted(short, key=_until, reverse=True)


def shortage_text(shortage: Shortage, moment: Callable[[float], str] = seconds) -> str:
    """Return a sentence on a shortage; ``moment`` turns a date (seconds) into text."""
    what = amount_text(shortage.kind, shortage.amount) if shortage.kind else "all of it"
    hosts = shortage.hosts
    many = f"{hosts} host{'s' * (hosts != 1)}"
    if shortage.tasks:
        who, verb, rest = f"{shortage.tasks} tasks with {what} each", "find", f"room on {many}"
    elif shortage.whole:
        who, verb, rest = many, "is" if hosts == 1 else "are", "entirely free"
    else:
        who, verb, rest = many, "has" if hosts == 1 else "have", f"{what} free"

    if shortage.date is None:
        return f"{who} never {verb} {rest}"
    return f"{who} {verb} {rest} only from {moment(shortage.date)} on, now {shortage.free}"


def _until(shortage: Shortage) -> float:
    return math.inf if shortage.date is None else shortage.date


class _Search:
    """When hosts have amounts free beside the running jobs on them."""

    def __init__(self, running: NodeProfile, part: AskedPart) -> None:
        self._layout = running.layout
        self._part = part
        self._now = running.start
        hosts = HostSet(running.layout.machine.labelled(part.labels))
        self._steps_of = {host: running.row_steps(host) for host in hosts}

    def of(self, amounts: Mapping[str, int]) -> Shortage | None:
        """Return the shortage of some kinds at once, None if they are free now."""
        part = self._part
        kinds = self._layout.machine.kinds
        asked = [
            (kinds.index(kind) if kind in kinds else -1, amount) for kind, amount in amounts.items()
        ]
        steps = {host: self._steps(host, asked) for host in self._steps_of}
        dates = sorted({date for each in steps.values() for date, _ in each})
        needed = part.tasks or part.hosts
        date = next((each for each in dates if self._room(_at(steps, each)) >= needed), None)
        if date is not None and date <= self._now:
            return None

        free = _at(steps, self._now)
        room = self._room(free)
        later = _at(steps, math.inf if date is None else date)
        more = [host for host, count in later.items() if count > free[host]]
        more.sort(key=lambda host: (next(d for d, n in steps[host] if n > free[host]), host))
        kind = next(iter(amounts)) if len(amounts) == 1 and not part.exclusive else ""
        return Shortage(
            kind=kind,
            amount=amounts[kind] if kind else 0,
            hosts=part.hosts,
            tasks=part.tasks,
            free=room,
            missing=tuple(more[: max(part.hosts - (0 if part.tasks else room), 0)]),
            date=date,
            whole=part.exclusive,
        )

    def _room(self, counts: Mapping[int, int]) -> int:
        """Return on how many hosts, or for how many tasks, there is room, by the count of each."""
        if self._part.tasks:
            return sum(sorted(counts.values(), reverse=True)[: self._part.hosts])
        return sum(map(bool, counts.values()))

    def _steps(self, host: int, asked: list[tuple[int, int]]) -> list[tuple[float, int]]:
        """Return from when on a host holds how many tasks, or has the amounts once: dates and
        counts, ascending.
        """
        kinds = self._layout.kinds
        everything = tuple(self._layout.capacity[host * kinds : (host + 1) * kinds])
        steps: list[tuple[float, int]] = []
        for date, free in self._steps_of[host]:
            is_taken = self._part.exclusive and free != everything
            count = 0 if is_taken else _count(free, asked)
            if not steps or count > steps[-1][1]:
                steps.append((date, count))
        return steps


def _at(steps: Mapping[int, list[tuple[float, int]]], date: float) -> dict[int, int]:
    return {
        host: max((count for since, count in each if since <= date), default=0)
        for host, each in steps.items()
    }


def _count(free: Sequence[int], asked: list[tuple[int, int]]) -> int:
    """Return how often amounts are free; of a kind that the machine lacks, never."""
    return min((free[k] // amount if k >= 0 else 0 for k, amount in asked), default=1)
