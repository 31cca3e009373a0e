"""Random small admission cases."""

from __future__ import annotations

import math
import random

from support.admission_oracles import Asking, Case, seconds_with


def random_case(rng: random.Random, most_waiting: int = 7) -> Case:
    """Make a machine with running jobs, a feasible plan of waiting jobs and a new job.

    Some jobs have no deadline or no estimate. Waiting jobs were not
    always placed at their earliest, so the plan has holes. What waits and the new
    job have more or less time to spare, so that all verdicts are common.
    """
    machine = rng.randint(1, 6)
    now = rng.randint(0, 5)
    running, free = [], machine
    while free and rng.random() < 0.6:
        processors = rng.randint(1, free)
        free -= processors
        end = math.inf if rng.random() < 0.02 else now + rng.randint(1, 8)
        running.append((processors, end))
    count = rng.randint(0, most_waiting)
    slots = rng.sample(range(count), count)
    spare = rng.choice([2, 6, 15, 30])
    odd = rng.random() < 0.3

    def estimate() -> float:
        if odd and rng.random() < 0.2:
            return math.inf
        return rng.randint(1, 9)

    waiting: list[tuple[Asking, float]] = []
    plan = Case(machine, now, tuple(running), (), Asking(-1, 1, 200))
    for slot in slots:
        job = Asking(slot, rng.randint(1, machine), estimate())
        seconds = seconds_with(plan, {})
        for placed, start in waiting:
            seconds.take(start, placed.estimate, placed.processors)
        if rng.random() < 0.3:
            seconds.first += rng.randint(0, 4)
        start = seconds.earliest(job)
        end = start + job.estimate
        if end < math.inf and rng.random() < 0.9:
            job = Asking(slot, job.processors, job.estimate, end + rng.randint(0, spare))
        waiting.append((job, start))
    waiting.sort(key=lambda entry: (entry[1], entry[0].slot))
    new = Asking(count, rng.randint(1, machine), estimate())
    if new.estimate < math.inf and rng.random() < 0.95:
        alone = seconds_with(Case(machine, now, tuple(running), (), new), {}).earliest(new)
        if alone < math.inf:
            late = rng.randint(-1, 2 * spare)
            new = Asking(count, new.processors, new.estimate, alone + new.estimate + late)
    return Case(machine, now, tuple(running), tuple(waiting), new)
