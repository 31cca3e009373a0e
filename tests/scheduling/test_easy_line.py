"""A pass of EASY over a long line starts the jobs that one over a list of them does."""

from __future__ import annotations

import random

import numpy as np
import pytest

from qops_batsim.scheduling.arrays import new_queue
from qops_batsim.scheduling.easy_kernel import (
    NO_JOB,
    SHORT_LINE,
    USED,
    append,
    easy_pass,
    new_line,
    new_running,
)
from qops_batsim.timing import PLAN_TOLERANCE

JOBS = {5: 1200, 100: 1200, 70_000: 3000}
"""Jobs by the size of the machine: enough for a long line of them."""


class NaiveEasy:
    """The same pass from its definition: lists, every job looked at."""

    def __init__(self, processors: list[int], estimates: list[float]) -> None:
        self.processors, self.estimates = processors, estimates
        self.waiting: list[int] = []
        self.ends: dict[int, float] = {}

    def start_jobs(self, now: float, grace: float, free: int, present: int) -> list[int]:
        under_way = {job for job, end in self.ends.items() if now - grace < end <= now}
        nominal = free + sum(self.processors[job] for job in under_way)
        planned, extra, shadow = dict(self.ends), 0, None
        started: list[int] = []
        for job in self.waiting:
            needed, end = self.processors[job], now + self.estimates[job]
            if needed > nominal:
                if shadow is None and needed <= present:
                    shadow, extra = self.shadow(now, grace, nominal, needed, planned)
                continue
            in_time = shadow is None or end <= shadow + max(grace, PLAN_TOLERANCE)
            if not in_time and needed > extra:
                continue
            nominal -= needed
            extra -= 0 if in_time else needed
            planned[job] = end
            if needed <= free:
                free -= needed
                started.append(job)
        self.ends |= {job: planned[job] for job in started}
        self.waiting = [job for job in self.waiting if job not in started]
        return started

    def shadow(
        self, now: float, grace: float, nominal: int, needed: int, planned: dict[int, float]
    ) -> tuple[float, int]:
        jobs = (job for job, end in planned.items() if not now - grace < end <= now)
        ends = sorted((planned[job], self.processors[job]) for job in jobs)
        available, shadow, limit = nominal, np.inf, np.inf
        for end, processors in ends:
            if end > limit:
                break
            available += processors
            if shadow == np.inf and available >= needed:
                shadow = max(now, end)
                limit = shadow + max(grace, PLAN_TOLERANCE)
        return shadow, available - needed


@pytest.mark.parametrize(
    "seed", [0, 1, *(pytest.param(seed, marks=pytest.mark.sweep) for seed in range(2, 6))]
)
def test_a_pass_over_a_long_line_starts_the_same_jobs(seed: int) -> None:
    rng = random.Random(seed)
    machine = rng.choice(list(JOBS))
    jobs = JOBS[machine]
    grace = rng.choice([0.0, 0.0, 20.0])
    widest = rng.choice([machine, machine + 2])  # While hosts are away, some are too wide.
    processors = [min(widest, 1 + int(rng.paretovariate(0.6))) for _ in range(jobs)]
    estimates = [rng.choice([1.0, 60.0, 1e4 * rng.random(), np.inf]) for _ in range(jobs)]
    naive = NaiveEasy(processors, estimates)
    columns = np.array(processors), np.array(estimates)
    line, most = new_line(jobs), 2 * machine + 1
    ending, gone, started = new_running(most), new_queue(most), new_queue(most).slots
    arrived, free, now, longest = 0, machine, 0.0, 0
    while arrived < jobs or naive.waiting:
        now += rng.choice([0.0, 1.0, 30.0])
        # Many arrive, then all come to an end.
        for _ in range(min(jobs - arrived, rng.choice([0, 1, 60]))):
            append(line, arrived)
            naive.waiting.append(arrived)
            arrived += 1
        gone.size[0] = 0
        for job in rng.sample(sorted(naive.ends), min(len(naive.ends), rng.randint(0, 3))):
            gone.slots[gone.size[0]] = job
            gone.size[0] += 1
            free += processors[job]
            del naive.ends[job]
        count = easy_pass(now, grace, free, machine, *columns, line, ending, gone, started)
        assert started[:count].tolist() == naive.start_jobs(now, grace, free, machine)
        free -= sum(processors[job] for job in started[:count].tolist())
        places = line.slots[: line.sizes[USED]]
        longest = max(longest, len(places))
        assert places[places != NO_JOB].tolist() == naive.waiting
        assert ending.size[0] == len(naive.ends)
        if arrived == jobs and not naive.ends and not count:
            break  # Only those that are too wide wait.
    assert longest > 2 * SHORT_LINE
