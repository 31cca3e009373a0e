"""The two passes of ``slurm`` written down again in plain Python, with sets of hosts."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass
class Wish:
    """A waiting job: what it asks for, and what its limits leave it (seconds, processors)."""

    slot: int
    processors: int
    seconds: float
    deadline: float
    kinds: tuple[tuple[int, int], ...]
    """User and QOS, or the user and all QOS: keys of what is counted and limited."""

    def is_late(self, now: float) -> bool:
        return self.deadline < now + self.seconds - 1e-6


@dataclass
class Machine:
    """What a pass begins with, and what comes of it."""

    free: set[int]
    present: set[int]
    running: list[tuple[float, int, set[int]]]
    """Expected end, slot and hosts, in order."""
    used: dict[tuple[str, int, int], int]
    """Jobs and processors by limit, QOS and user (-1: all users)."""
    limits: dict[tuple[str, int], float]
    choose: Callable[[set[int], int], set[int]]
    cancels: bool
    started: list[tuple[int, set[int]]] = field(default_factory=list)
    cancelled: list[int] = field(default_factory=list)

    def exceeds(self, what: str, job: Wish) -> bool:
        """Tell whether one job more would be too many jobs or processors for a limit."""
        more = 1 if what == "jobs" else job.processors
        return any(
            self.used.get((what, qos, user), 0) + more > self.limits[f"{what} per user", qos]
            or self.used.get((what, qos, -1), 0) + more > self.limits[what, qos]
            for user, qos in job.kinds
        )

    def start(self, job: Wish, now: float, hosts: set[int]) -> None:
        self.free -= hosts
        self.running.append((now + job.seconds, job.slot, hosts))
        self.running.sort(key=lambda run: run[:2])
        self.started.append((job.slot, hosts))
        for user, qos in job.kinds:
            for key in (user, -1):
                for what, more in (("jobs", 1), ("processors", job.processors)):
                    self.used[what, qos, key] = self.used.get((what, qos, key), 0) + more


def main_pass(now: float, machine: Machine, line: list[Wish]) -> None:
    """Start jobs in order until one does not fit."""
    for job in line:
        if machine.cancels and job.is_late(now):
            machine.cancelled.append(job.slot)
        elif machine.exceeds("jobs", job):
            continue
        elif job.processors > len(machine.free):
            return
        elif not machine.exceeds("processors", job):
            machine.start(job, now, machine.choose(machine.free, job.processors))


def earliest(
    now: float, machine: Machine, trial: set[int], wanted: int
) -> tuple[float, set[int]] | None:
    """Return when so many hosts of some are free, and which; ends within a window are one."""
    there = machine.free & trial
    if len(there) >= wanted:
        return now, machine.choose(there, wanted)
    runs = machine.running
    window = 30.0
    until = 0.0
    at = 0
    while at < len(runs):
        last, following = None, math.inf
        while at < len(runs):
            end, _, hosts = runs[at]
            at += 1
            if not hosts & trial:
                continue
            until = until or end - end % 30 + 30
            last, there = end, there | hosts & trial
            following = runs[at][0] if at < len(runs) else math.inf
            if following > until + window:
                break
        if last is None:
            return None
        window *= 2
        while at < len(runs) and following > until + window:
            window *= 2
        if len(there) >= wanted:
            start = last if last > now else max(last + 30, now + 1)
            return start, machine.choose(there, wanted)
    return None


class Map:
    """Backfill map: which hosts are kept for nobody, stretch by stretch (begin, end, hosts)."""

    def __init__(self, now: float, window: float, resolution: float, hosts: set[int]) -> None:
        self.resolution = resolution
        self.stretches = [(self.down(now), self.down(now + window), set(hosts))]

    def down(self, date: float) -> float:
        return math.floor((date + 1e-6) / self.resolution) * self.resolution

    def until(self, after: float, end: float, hosts: set[int]) -> tuple[set[int], float]:
        """Return the hosts kept for nobody between two dates, and when there are others (0: no)."""
        trial, later = set(hosts), 0.0
        for at, (begin, over, kept) in enumerate(self.stretches):
            if over <= after:
                continue
            follows = self.stretches[at + 1 :]
            if follows and not later and follows[0][2] - (trial & kept):
                later = over
            if begin > end:
                break
            trial &= kept
        return trial, later

    def overlaps(self, start: float, end: float, chosen: set[int]) -> bool:
        return any(b < end and e > start and chosen - kept for b, e, kept in self.stretches)

    def keep(self, start: float, end: float, chosen: set[int]) -> None:
        start = max(start, self.stretches[0][0])
        end = max(end, start + self.resolution)
        if start > self.stretches[-1][1]:
            return
        (at,) = [at for at, each in enumerate(self.stretches) if each[1] >= start][:1]
        self.split(at, start)
        for place in range(at + 1, len(self.stretches)):
            self.split(place, end)
            begin, over, kept = self.stretches[place]
            self.stretches[place] = begin, over, kept - chosen
            if over == end:
                return

    def split(self, at: int, date: float) -> None:
        begin, over, kept = self.stretches[at]
        if date < over:
            self.stretches[at : at + 1] = [(begin, date, kept), (date, over, set(kept))]


def planned(
    now: float, window: float, machine: Machine, kept: Map, job: Wish
) -> tuple[tuple[float, set[int]] | None, bool]:
    """Return the start and hosts of a job on hosts kept for no other, and whether it was tried."""
    later, is_tested = now, False
    while True:
        after = later
        trial, later = kept.until(after, after + job.seconds, machine.present)
        found = None
        if len(trial) >= job.processors:
            is_tested, found = True, earliest(now, machine, trial, job.processors)
        if found is None:
            if not later:
                return None, is_tested
            continue
        start, chosen = max(after, found[0]), found[1]
        if start <= now:
            return (start, chosen), is_tested
        if later and start > later:
            continue
        if start > now + window:
            return None, is_tested
        if not kept.overlaps(kept.down(start), kept.down(start + job.seconds), chosen):
            return (start, chosen), is_tested
        later = start


def backfill_pass(
    now: float, window: float, resolution: float, most: int, machine: Machine, line: list[Wish]
) -> None:
    """Plan at most so many jobs in order; start those whose turn is now, keep hosts for others."""
    kept, tests = Map(now, window, resolution, machine.present), 0
    for job in line:
        if tests >= most:
            return
        if machine.exceeds("jobs", job):
            continue
        if machine.cancels and job.is_late(now):
            machine.cancelled.append(job.slot)
            continue
        found, is_tested = planned(now, window, machine, kept, job)
        tests += is_tested
        if found is None or machine.exceeds("processors", job):
            continue
        start, chosen = found
        if start <= now:
            machine.start(job, now, chosen)
        else:
            kept.keep(kept.down(start), kept.down(start + job.seconds), chosen)
