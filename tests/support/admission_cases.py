"""Random small admission cases, and asking a compiled search about them."""

from __future__ import annotations

import math
import random
from typing import NamedTuple

import numpy as np

from qops_batsim.jobs import Job, QosRequest
from qops_batsim.scheduling.admission.search import Draft, Question, Search, new_room
from qops_batsim.scheduling.arrays import new_claims, new_queue
from qops_batsim.scheduling.profile import running_profile
from qops_batsim.scheduling.refusal import Refusal
from qops_batsim.scheduling.table import SlotTable
from support.admission_oracles import Asking, Case, seconds_with


class Found(NamedTuple):
    """What a search found: start by slot or None, who was blamed, and free processors."""

    starts: dict[int, float] | None
    blamed: int
    refusal: Refusal | None
    free: list[int]


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


def question_of(case: Case) -> Question:
    """Return what the plan of a scheduler would ask a search."""
    table = SlotTable()
    for job in sorted(case.jobs, key=lambda job: job.slot):
        qos = QosRequest(
            deadline=None if job.deadline == math.inf else float(job.deadline),
            estimated_runtime=None if job.estimate == math.inf else float(job.estimate),
        )
        table.add(Job(f"w0!{job.slot}", float(job.arrival), job.processors, "p", qos=qos))
    jobs = table.numbers
    # The running jobs are behind all others: only processors and ends of them count.
    running = new_queue(len(case.running))
    for index, (processors, end) in enumerate(case.running):
        slot = running.slots[index] = len(table) + index
        jobs.processors[slot] = jobs.reserved[slot] = processors
        jobs.ends[slot] = end
    running.size[0] = len(case.running)
    count, size = len(case.waiting), 2 * (len(case.running) + len(case.waiting) + 2)
    room = new_room(size, count + 1)
    running_profile(room.free, case.machine, float(case.now), running, new_claims(), jobs)
    waiting = new_queue(count + 1)
    waiting.size[0] = count
    for index, (job, start) in enumerate(case.waiting):
        waiting.slots[index] = job.slot
        jobs.starts[job.slot] = start
    return Question(float(case.now), jobs, table, waiting, case.new.slot, room)


def ask(search: Search, case: Case, *, whole: bool = True) -> Found:
    """Ask a search directly, as the plan of a scheduler does."""
    question = question_of(case)
    verdict = search(question)
    if not verdict.found:
        return Found(None, verdict.blamed, verdict.refusal, [])
    plan = starts_in(question.room.draft)
    free = free_by_second(question.room.draft, case) if whole else []
    return Found(plan, -1, verdict.refusal, free)


def starts_in(draft: Draft) -> dict[int, float]:
    """The planned starts by slot."""
    return dict(zip(draft.order.tolist(), draft.starts.tolist(), strict=True))


def free_by_second(draft: Draft, case: Case) -> list[int]:
    """Free processors in each second that the references count."""
    seconds = np.arange(case.now, seconds_with(case, {}).end)
    times, free, size = draft.profile
    index = np.searchsorted(times[: size[0]], seconds, side="right") - 1
    return free[index].tolist()
