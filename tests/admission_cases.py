"""Random small admission cases, and asking a compiled search about them."""

from __future__ import annotations

import math
import random
from typing import NamedTuple

import numpy as np

from admission_oracles import Asking, Case, Seconds, seconds_with
from qops_batsim.jobs import Job, QosRequest
from qops_batsim.scheduling.admission.common_kernels import REJECTED, running_profile
from qops_batsim.scheduling.admission.plan import Question, Search
from qops_batsim.scheduling.table import JobTable


class Found(NamedTuple):
    """What a search found: start by slot or None, who was blamed, and free processors."""

    starts: dict[int, float] | None
    blamed: int
    detail: str
    free: list[int]


def random_case(rng: random.Random, most_waiting: int = 7) -> Case:
    """Make a machine with running jobs, a feasible plan of waiting jobs and a new job.

    Some jobs have no length, no deadline or no estimate. Waiting jobs were not
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
            return rng.choice([0, 0, math.inf])
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
        alone = Seconds(Case(machine, now, tuple(running), (), new)).earliest(new)
        if alone < math.inf:
            late = rng.randint(-1, 2 * spare)
            new = Asking(count, new.processors, new.estimate, alone + new.estimate + late)
    return Case(machine, now, tuple(running), tuple(waiting), new)


def question_of(case: Case) -> Question:
    """Return what the plan of a scheduler would ask a search."""
    table = JobTable()
    for job in sorted(case.jobs, key=lambda job: job.slot):
        qos = QosRequest(
            deadline=None if job.deadline == math.inf else float(job.deadline),
            estimated_runtime=None if job.estimate == math.inf else float(job.estimate),
        )
        table.add(Job(f"w0!{job.slot}", 0.0, job.processors, "p", qos=qos))
    # The running jobs are behind all others: only processors and ends of them count.
    first_running = len(table)
    ends = np.zeros(len(table.processors))
    for index, (processors, end) in enumerate(case.running):
        table.processors[first_running + index] = processors
        ends[first_running + index] = end
    count, size = len(case.waiting), 2 * (len(case.running) + len(case.waiting) + 2)
    base_times, base_free = np.zeros(size), np.zeros(size, np.int64)
    base_steps = running_profile(
        base_times,
        base_free,
        case.machine,
        float(case.now),
        np.arange(first_running, first_running + len(case.running)),
        ends,
        table.processors,
    )
    starts = np.zeros(len(table.processors))
    waiting = np.zeros(count + 1, np.int64)
    for index, (job, start) in enumerate(case.waiting):
        waiting[index] = job.slot
        starts[job.slot] = start
    return Question(
        now=float(case.now),
        base_times=base_times,
        base_free=base_free,
        base_steps=base_steps,
        waiting=waiting,
        waiting_count=count,
        new=case.new.slot,
        starts=starts,
        table=table,
        times=np.zeros(size),
        free=np.zeros(size, np.int64),
        order=np.zeros(count + 1, np.int64),
        planned=np.zeros(count + 1),
    )


def ask(search: Search, case: Case, *, whole: bool = True) -> Found:
    """Ask a search directly, as the plan of a scheduler does."""
    question = question_of(case)
    verdict = search(question)
    if verdict.steps == REJECTED:
        return Found(None, verdict.blamed, verdict.detail, [])
    plan = dict(zip(question.order.tolist(), question.planned.tolist(), strict=True))
    free = free_by_second(question, verdict.steps, case) if whole else []
    return Found(plan, -1, verdict.detail, free)


def free_by_second(question: Question, steps: int, case: Case) -> list[int]:
    """Free processors in each second that the references count."""
    seconds = np.arange(case.now, Seconds(case).end)
    index = np.searchsorted(question.times[:steps], seconds, side="right") - 1
    return question.free[index].tolist()
