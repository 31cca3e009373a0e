"""Naive, readable schedulers from the textbook definitions, to compare the schedulers with.

Each takes jobs as (submission, processors, run time, estimate) with whole seconds
and returns the start of each job. They plan by looking at every second.
"""

from __future__ import annotations

from typing import NamedTuple


class SmallJob(NamedTuple):
    submission: int
    processors: int
    run_time: int
    estimate: int

    @property
    def lasts(self) -> int:
        """How long it really runs: it is killed at its estimate."""
        return min(self.run_time, self.estimate)


def fcfs(machine: int, jobs: list[SmallJob]) -> list[int]:
    """First come, first served: try every second."""
    starts: dict[int, int] = {}
    order = sorted(range(len(jobs)), key=lambda index: (jobs[index].submission, index))
    now = 0
    while order:
        while order and jobs[order[0]].submission <= now:
            head = order[0]
            if used(jobs, starts, now) + jobs[head].processors > machine:
                break
            starts[head] = now
            order.pop(0)
        now += 1
    return [starts[index] for index in range(len(jobs))]


def used(jobs: list[SmallJob], starts: dict[int, int], second: int) -> int:
    """Processors that really run during that second."""
    return sum(
        jobs[index].processors
        for index, start in starts.items()
        if start <= second < start + jobs[index].lasts
    )


def conservative(machine: int, jobs: list[SmallJob]) -> tuple[list[int], dict[int, list[int]]]:
    """Conservative backfilling, planning processors; returns starts and promises by job.

    The plan is a dictionary from waiting job to promised start; whether a job fits
    somewhere is found by counting the processors used in every second.
    """
    starts: dict[int, int] = {}
    plan: dict[int, int] = {}
    promises: dict[int, list[int]] = {}
    todo = sorted(range(len(jobs)), key=lambda index: (jobs[index].submission, index))

    def planned(second: int, now: int) -> int:
        running = sum(
            jobs[index].processors
            for index, start in starts.items()
            if now < start + jobs[index].lasts and second < start + jobs[index].estimate
        )
        return running + sum(
            jobs[index].processors
            for index, start in plan.items()
            if start <= second < start + jobs[index].estimate
        )

    def earliest(index: int, now: int) -> int:
        job = jobs[index]
        start = now
        while any(
            planned(second, now) + job.processors > machine
            for second in range(start, start + job.estimate)
        ):
            start += 1
        return start

    now = 0
    while todo or plan:
        ended_early = any(
            start + jobs[index].lasts == now and jobs[index].run_time < jobs[index].estimate
            for index, start in starts.items()
        )
        if ended_early:
            for index in sorted(plan, key=lambda each: (plan[each], each)):
                promised = plan.pop(index)
                plan[index] = min(promised, earliest(index, now))
                promises[index].append(plan[index])
        while todo and jobs[todo[0]].submission == now:
            index = todo.pop(0)
            plan[index] = earliest(index, now)
            promises[index] = [plan[index]]
        for index in [each for each, start in plan.items() if start == now]:
            del plan[index]
            starts[index] = now
        now += 1
    return [starts[index] for index in range(len(jobs))], promises
