"""Shortages: of which kind too little is free for a request now, on which hosts, and until when."""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable, Mapping, Sequence
from operator import ge

import msgspec

from qops_batsim.core.hostset import HostSet
from qops_batsim.core.job import Job
from qops_batsim.core.node_profile import NodeProfile
from qops_batsim.core.node_request import HostPart, NodeRequest
from qops_batsim.core.refusal import seconds
from qops_batsim.job_fields import AskedPart
from qops_batsim.limits import MAX_HOST_AMOUNT
from qops_batsim.texts import amount_text
from qops_batsim.timing import SHORTEST


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
    O(kinds × hosts × log²(steps)).
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
    """When hosts have amounts free beside the running jobs on them: never less than before."""

    def __init__(self, running: NodeProfile, part: AskedPart) -> None:
        self._running = running
        self._part = part
        self._rows = list(HostSet(running.layout.machine.labelled(part.labels)))

    def of(self, amounts: Mapping[str, int]) -> Shortage | None:
        """Return the shortage of some kinds at once, None if they are free now."""
        part = self._part
        running = self._running
        kinds = running.layout.machine.kinds
        rows = self._rows if amounts.keys() <= {*kinds} else []
        asked = array("q", bytes(8 * running.layout.kinds))
        for number, kind in enumerate(kinds):
            asked[number] = amounts.get(kind, 0)
        if part.exclusive:
            has = running.layout.machine.amounts
            rows = [row for row in rows if all(map(ge, has[row], asked))]
        one = HostPart(part.hosts, MAX_HOST_AMOUNT, part.exclusive, False, asked)

        def room(date: float) -> list[int]:
            return running.room_at(one, rows, date)

        needed = part.tasks or part.hosts
        free = room(running.start)
        now = self._together(free)
        if now >= needed:
            return None

        # Amounts come free for good, so that they are there when they are for the shortest time.
        job = Job("", running.start, 1, "", walltime=SHORTEST)
        whole = HostPart(part.hosts, part.tasks, part.exclusive, False, asked)
        whole.set_candidates(array("q", rows), array("d", bytes(8 * len(rows))))
        job.request = NodeRequest([whole], None, 1.0)
        found = math.inf
        if len(rows) >= (1 if part.tasks else part.hosts):  # Else there are never as many.
            found = running.try_fit(job, running.start)
        date = found if found < math.inf else None
        later = room(math.inf if date is None else date)
        more = [
            (running.more_room_from(one, host, before), host)
            for host, before, after in zip(rows, free, later, strict=True)
            if after > before
        ]
        kind = next(iter(amounts)) if len(amounts) == 1 and not part.exclusive else ""
        count = max(part.hosts - (0 if part.tasks else now), 0)
        return Shortage(
            kind=kind,
            amount=amounts[kind] if kind else 0,
            hosts=part.hosts,
            tasks=part.tasks,
            free=now,
            missing=tuple(host for _, host in sorted(more)[:count]),
            date=date,
            whole=part.exclusive,
        )

    def _together(self, counts: Sequence[int]) -> int:
        """Return on how many hosts, or for how many tasks, there is room, by the count of each."""
        if self._part.tasks:
            return sum(sorted(counts, reverse=True)[: self._part.hosts])
        return len(counts) - counts.count(0)
