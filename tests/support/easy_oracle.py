"""EASY with any order written down again naively: the queue is sorted anew at every event."""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Sequence
from typing import NamedTuple


class Request(NamedTuple):
    """A job in whole seconds; ``name`` breaks ties of submission."""

    name: str
    submission: float
    processors: int
    run_time: float
    estimate: float
    user: str | None = None


Key = Callable[[float, Request], float]


def f_score(size: float, weight: float, job: Request) -> float:
    return size + weight * math.log10(max(job.submission, 1.0))


def cube(ratio: float) -> float:
    return ratio * ratio * ratio


KEYS: dict[str, Key] = {
    "fcfs": lambda now, j: 0.0,
    "sjf": lambda now, j: j.estimate,
    "ljf": lambda now, j: -j.estimate,
    "saf": lambda now, j: j.estimate * j.processors,
    "lxf": lambda now, j: -(now - j.submission) / j.estimate,
    "wfp3": lambda now, j: -cube((now - j.submission) / j.estimate) * j.processors,
    "unicef": lambda now, j: -(now - j.submission) / (math.log2(max(2, j.processors)) * j.estimate),
    "f1": lambda now, j: f_score(math.log10(j.estimate) * j.processors, 870.0, j),
    "f2": lambda now, j: f_score(math.sqrt(j.estimate) * j.processors, 25600.0, j),
    "f3": lambda now, j: f_score(j.estimate * j.processors, 6860000.0, j),
    "f4": lambda now, j: f_score(j.estimate * math.sqrt(j.processors), 530000.0, j),
}


STEPS = [60 * minutes for minutes in (1, 5, 15, 30, 60, 120, 300, 600, 1200, 3000, 6000)]
"""By how much predictions grow (seconds)."""


class Runs:
    """A running job, and when it is expected to end."""

    def __init__(self, job: Request, now: float, limit: float) -> None:
        self.job = job
        self.start = now
        self.limit = limit
        self.corrections = 0
        self.end = now + job.run_time
        self.expected = now + job.estimate

    def correct(self, now: float) -> None:
        while self.expected <= now and self.expected < self.start + self.limit:
            step = STEPS[min(self.corrections, len(STEPS) - 1)]
            self.expected = min(self.expected + step, self.start + self.limit)
            self.corrections += 1


def easy_starts(
    machine: int,
    jobs: Sequence[Request],
    order: str = "fcfs",
    behind: str = "same",
    patience: float = math.inf,
    predicts: bool = False,
) -> dict[str, float]:
    """Return the starts (seconds) by name; jobs that are too wide have none, but are events."""
    coming = sorted(jobs, key=lambda j: j.submission)
    waiting: list[tuple[int, Request]] = []
    running: list[tuple[float, int, Runs]] = []
    starts: dict[str, float] = {}
    limits: dict[str, float] = {}
    past: dict[str, list[float]] = {}
    free, arrived = machine, 0

    def in_order(name: str, now: float) -> list[tuple[int, Request]]:
        def rank(each: tuple[int, Request]) -> tuple[float, int]:
            starves = now - each[1].submission >= patience
            return (-math.inf if starves else KEYS[name](now, each[1]), each[0])

        return sorted(waiting, key=rank)

    def come(job: Request) -> Request:
        limits[job.name] = job.estimate
        job = job._replace(run_time=min(job.run_time, job.estimate))
        mine = past.get(job.user or "", [])
        if predicts and len(mine) >= 2:
            job = job._replace(estimate=min(job.estimate, sum(mine[-2:]) / 2))
        return job

    while arrived < len(coming) or running:
        now = min(
            coming[arrived].submission if arrived < len(coming) else math.inf,
            running[0][0] if running else math.inf,
        )
        while running and running[0][0] == now:
            ended = heapq.heappop(running)[2]
            free += ended.job.processors
            if ended.job.user is not None:
                past.setdefault(ended.job.user, []).append(now - ended.start)
        while arrived < len(coming) and coming[arrived].submission == now:
            if coming[arrived].processors <= machine:
                waiting.append((arrived, come(coming[arrived])))
            arrived += 1
        if predicts:
            for *_, each in running:
                each.correct(now)
        if not waiting or min(j.processors for _, j in waiting) > free:
            continue

        def start(each: tuple[int, Request], now: float = now) -> None:
            nonlocal free
            job = each[1]
            starts[job.name] = now
            free -= job.processors
            run = Runs(job, now, limits[job.name])
            heapq.heappush(running, (run.end, len(starts), run))
            waiting.remove(each)

        queue = in_order(order, now)
        while queue and queue[0][1].processors <= free:
            start(queue.pop(0))
        if not queue:
            continue
        head = queue[0]
        available, shadow = free, math.inf
        for *_, run in sorted(running, key=lambda each: each[2].expected):
            if run.expected > shadow:
                break
            available += run.job.processors
            if available >= head[1].processors:
                shadow = min(shadow, run.expected)
        extra = available - head[1].processors
        for each in in_order(order if behind == "same" else behind, now):
            job, in_time = each[1], now + each[1].estimate <= shadow
            if each == head or job.processors > free or not (in_time or job.processors <= extra):
                continue
            start(each)
            if not in_time:
                extra -= job.processors
    return starts
