"""Naive references for slack-based backfilling, written from the paper's text.

Everything is planned by counting the processors in use in each whole second, so all
dates and durations are whole seconds (or infinite). Nothing is shared with the
package, and every schedule is made and priced in full.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import permutations

from support.seconds import Seconds


@dataclass(frozen=True)
class Waiting:
    """A job with a promised start; ``slot`` is its place in the order of arrivals."""

    slot: int
    processors: int
    estimate: float
    start: float
    priority: float = 0.5
    first_slack: float = 10.0
    slack: float = 10.0

    @property
    def latest(self) -> float:
        return math.inf if self.slack == math.inf else self.start + self.slack


@dataclass(frozen=True)
class New:
    """A job to insert; without processors, none. It must start by ``latest``."""

    processors: int = 0
    estimate: float = 0.0
    priority: float = 1.0
    latest: float = math.inf


@dataclass(frozen=True)
class Weights:
    utilization: float = 1.0
    time: float = 1.0
    priority: float = 1.0
    fairness: float = 1.0


@dataclass(frozen=True)
class Case:
    """A machine at a date; ``running`` are (processors, expected end).

    ``waiting`` is in order of the promised starts; the first ``fixed`` of them stay.
    """

    machine: int
    now: int
    running: tuple[tuple[int, float], ...]
    waiting: tuple[Waiting, ...]
    new: New
    weights: Weights = Weights()
    fixed: int = 0


@dataclass(frozen=True)
class Schedule:
    """Starts of the waiting jobs by slot, and of the new job; what it costs."""

    starts: dict[int, float]
    new_start: float
    price: float
    moved: int


def seconds_of(case: Case) -> Seconds:
    """The machine with the running jobs."""
    jobs = [*case.waiting, case.new]
    dates = [job.start + job.estimate for job in case.waiting]
    return Seconds(case.machine, case.now, case.running, dates, jobs)


def cost(case: Case, job: Waiting, start: float) -> float:
    """Section 4.4; ``studies/talby1999/readings.md`` tells the choices where it gives no number."""
    weights = case.weights
    if start == job.start:
        return 0.0
    delay = min(max(start - job.start, -1e12), 1e12)
    if start > job.latest:
        return math.inf
    if job.priority == -math.inf and delay > 0:
        return 0.0
    result = job.processors**weights.utilization * abs(delay) ** weights.time
    result *= (max(job.priority, 1e-6) / case.new.priority) ** weights.priority
    if job.latest < math.inf and job.start < math.inf:
        ratio = max(job.first_slack, 1.0) / max(job.slack, 1.0)
        result *= ratio ** (weights.priority * weights.fairness)
    return math.copysign(result, delay)


def price(case: Case, starts: dict[int, float], new_start: float) -> tuple[float, int]:
    """Section 4.2: the price of a schedule, and how many jobs it moves."""
    total, moved = 0.0, 0
    if case.new.processors:
        if new_start > case.new.latest:
            return math.inf, 0
        wait = min(new_start - case.now, 1e12)
        total += wait**case.weights.time * case.new.processors**case.weights.utilization
    for job in case.waiting:
        if starts[job.slot] != job.start:
            moved += 1
            total += cost(case, job, starts[job.slot])
    return total, moved


def keys(case: Case, heuristic: str, job: Waiting) -> tuple[float, ...]:
    """Section 4.6: what is compared, ascending; ties by arrival."""
    if heuristic == "ascending_arrival_time":
        return (job.slot,)
    if heuristic == "descending_utilization":
        return (-job.processors * job.estimate, job.slot)
    if heuristic == "descending_cost":
        if job.start + 1 > job.latest:
            return (-math.inf, job.slot)
        second = 0.0 if job.start == math.inf else cost(case, job, job.start + 1)
        if job.start == math.inf and job.priority > -math.inf:
            second = job.processors**case.weights.utilization
            second *= (max(job.priority, 1e-6) / case.new.priority) ** case.weights.priority
        return (-second, job.slot)
    assert heuristic == "descending_priority"
    return (-job.priority, job.slot)


def orders(case: Case, heuristic: str, delayed: list[Waiting]) -> Iterator[list[Waiting]]:
    if heuristic == "exhaustive":
        yield from (list(order) for order in permutations(delayed))
    elif heuristic == "ascending_scheduled_time":
        yield delayed
    else:
        yield sorted(delayed, key=lambda job: keys(case, heuristic, job))


def schedules(case: Case, heuristic: str) -> Iterator[Schedule]:
    """Section 4.5: every position of the new job, every order of the jobs behind it."""
    for position in range(case.fixed, len(case.waiting)):
        for order in orders(case, heuristic, list(case.waiting[position:])):
            yield scheduled(case, position, order)


def scheduled(case: Case, position: int, order: list[Waiting]) -> Schedule:
    seconds = seconds_of(case)
    starts = {}
    for job in case.waiting[:position]:
        starts[job.slot] = job.start
        seconds.take(job.start, job.estimate, job.processors)
    new_start: float = case.now
    if case.new.processors:
        new_start = seconds.place(case.new)
    for job in order:
        starts[job.slot] = seconds.place(job)
    return Schedule(starts, new_start, *price(case, starts, new_start))


def compressed(case: Case) -> Schedule:
    """Section 3.2: one by one in order of promised start, each to its earliest fit."""
    seconds = seconds_of(case)
    for job in case.waiting:
        seconds.take(job.start, job.estimate, job.processors)
    starts = {job.slot: job.start for job in case.waiting}
    for job in case.waiting[case.fixed :]:
        seconds.take(job.start, job.estimate, -job.processors)
        starts[job.slot] = seconds.place(job)
    return Schedule(starts, case.now, *price(case, starts, case.now))


def cheapest(case: Case, heuristic: str, *, compresses: bool = False) -> Schedule | None:
    """The cheapest schedule; at equal prices the one that moves fewest jobs."""
    best = scheduled(case, len(case.waiting), [])
    candidates = [compressed(case)] if compresses and not case.new.processors else []
    for candidate in [*candidates, *schedules(case, heuristic)]:
        if candidate.price == math.inf:
            continue
        equal = math.isclose(candidate.price, best.price, rel_tol=1e-9, abs_tol=1e-9)
        if candidate.moved < best.moved if equal else candidate.price < best.price:
            best = candidate
    return None if best.price == math.inf else best
