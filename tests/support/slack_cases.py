"""Random small cases for the search of slack-based backfilling, and asking the kernel."""

from __future__ import annotations

import math
import random

import numpy as np

from qops_batsim.scheduling.arrays import Queue, new_claims, new_jobs, new_profile
from qops_batsim.scheduling.profile import reserve, running_profile
from qops_batsim.scheduling.slack.orders import HEURISTICS
from qops_batsim.scheduling.slack.search import (
    NewJob,
    SlackRules,
    cheapest_schedule,
    new_room,
)
from support.slack_oracles import Case, New, Schedule, Waiting, Weights, seconds_of


def random_case(rng: random.Random, *, null: bool, jobs: int = 5, endless: float = 0.0) -> Case:
    """A plan with gaps in it, and a new job or (``null``) none."""
    machine = rng.randint(1, 6)
    now = rng.randint(0, 5)
    running: list[tuple[int, float]] = []
    left = machine
    while left and rng.random() < 0.7:
        width = rng.randint(1, left)
        left -= width
        end = math.inf if rng.random() < endless else now + rng.randint(1, 12)
        running.append((width, end))
    weights = Weights(*(rng.choice([0.0, 0.2, 0.5, 1.0, 1.0, 1.0]) for _ in range(4)))
    new = New()
    if not null:
        latest = now if rng.random() < 0.2 else math.inf
        priority = rng.choice([1 / 6, 0.3, 0.5, 1.0])
        new = New(rng.randint(1, machine), rng.randint(1, 12), priority, latest)
    case = Case(machine, now, tuple(running), (), new, weights)
    seconds = seconds_of(Case(machine, now, tuple(running), (Waiting(0, 1, 300, now),), new))
    waiting = []
    for slot in rng.sample(range(9), rng.randint(0, jobs)):
        processors = rng.randint(1, machine)
        estimate = math.inf if rng.random() < endless else rng.randint(1, 9)
        seconds.first = now + rng.choice([0, 0, 0, rng.randint(0, 9)])
        start = seconds.place(Waiting(slot, processors, estimate, now))
        first_slack = rng.choice([0, 1, 5, 20, 60])
        slack = rng.choice([0, first_slack, rng.randint(0, 60)])
        priority = rng.choice([0.0, 0.1, 0.5, 0.5, 1.0])
        if rng.random() < 0.1:
            priority = -math.inf
        if priority == -math.inf or start == math.inf:
            first_slack = slack = math.inf
        waiting.append(Waiting(slot, processors, estimate, start, priority, first_slack, slack))
    waiting.sort(key=lambda job: (job.start, job.slot))
    due = sum(job.start <= now for job in waiting)
    fixed = due if rng.random() < 0.5 else 0
    return Case(machine, now, case.running, tuple(waiting), new, weights, fixed)


def ask(case: Case, heuristic: str, *, compresses: bool = False) -> Schedule | None:
    """The kernel's schedule of a case, or None; its profile is checked."""
    slots = 10 + len(case.running)
    jobs = new_jobs(slots)
    processors = jobs.processors
    running = Queue(np.arange(10, slots), np.array([len(case.running)]))
    for slot, (width, end) in enumerate(case.running, start=10):
        processors[slot], jobs.reserved[slot], jobs.ends[slot] = width, width, end
    for job in case.waiting:
        slot = job.slot
        processors[slot], jobs.estimates[slot] = job.processors, job.estimate
        jobs.reserved[slot] = job.processors
        jobs.starts[slot], jobs.priorities[slot] = job.start, job.priority
        jobs.first_slacks[slot], jobs.latest_starts[slot] = job.first_slack, job.latest
    count = len(case.waiting)
    slots_waiting = np.array([job.slot for job in case.waiting] + [0], np.int64)
    waiting = Queue(slots_waiting, np.array([count]))
    size = 2 * (slots + 2)
    plan = new_profile(case.machine, size)
    running_profile(plan, case.machine, case.now, running, new_claims(), jobs)
    for job in case.waiting:
        reserve(plan, job.start, job.estimate, job.processors)
    weights, new, room = case.weights, case.new, new_room(size, count + 1)
    changed, position, new_start, price, moved = cheapest_schedule(
        float(case.now), case.machine, running, new_claims(), jobs, waiting, case.fixed,
        NewJob(new.processors, float(new.estimate), float(new.priority), float(new.latest)),
        SlackRules(
            np.array([weights.utilization, weights.time, weights.priority, weights.fairness]),
            HEURISTICS[heuristic], compresses,
        ),
        plan, room,
    )  # fmt: skip
    if price == math.inf:
        assert new_start == math.inf
        return None
    found = {job.slot: job.start for job in case.waiting}
    for index in range(position, count):
        found[case.waiting[index].slot] = float(room.rows["best"][index])
    if changed:
        steps = int(room.best.size[0])
        times, free = room.best.times[:steps], room.best.free[:steps]
        check_profile(case, found, new_start, times, free)
    else:
        assert position == count
    return Schedule(found, new_start, price, moved)


def check_profile(
    case: Case, starts: dict[int, float], new_start: float, times: np.ndarray, free: np.ndarray
) -> None:
    """The profile says what the running jobs and the schedule leave free."""
    seconds = seconds_of(case)
    for job in case.waiting:
        seconds.take(starts[job.slot], job.estimate, job.processors)
    seconds.take(new_start, case.new.estimate, case.new.processors)
    for second in range(case.now, seconds.end):
        step = int(np.searchsorted(times, second, side="right")) - 1
        assert case.machine - seconds.used[second] == free[step], (case, second)
        assert free[step] >= 0
