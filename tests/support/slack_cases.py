"""Random small cases for the search of slack-based backfilling, and asking the search."""

from __future__ import annotations

import math
import random
from dataclasses import asdict

from qops_batsim import Job
from qops_batsim.core import Plan
from qops_batsim.schedulers import SlackOptions
from qops_batsim.schedulers.slack import HEURISTICS, Search
from support.slack_oracles import Case, New, Schedule, Waiting, Weights, seconds_of

__all__ = ["HEURISTICS", "ask", "random_case"]


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
    """The schedule of a case that the search finds, or None; its profile is checked."""
    plan, jobs = Plan(case.machine), dict[int, Job]()
    plan.profile.reset(case.now, case.machine)
    for width, end in case.running:
        plan.add_running(Job("running", 0, width, "p"), end, 0.0)
        plan.profile.reserve(case.now, end, width)
    for each in case.waiting:
        job = jobs[each.slot] = job_of(each.processors, each.estimate)
        job.number = each.slot
        job.start = each.start
        job.latest_start = each.latest
        job.priority = each.priority
        job.first_slack = each.first_slack
        plan.waiting.append(job)
        plan.profile.reserve(job.start, job.start + job.duration, job.processors)
    weights = {f"{name}_weight": float(value) for name, value in asdict(case.weights).items()}
    removal = "cheapest" if compresses else "null_job"
    options = SlackOptions(
        heuristic=heuristic,  # type: ignore[arg-type]
        removal=removal,  # type: ignore[arg-type]
        exhaustive_up_to=9,
        **weights,
    )
    search, new = Search(plan, options), None
    if case.new.processors:
        new = job_of(case.new.processors, case.new.estimate)
    search.find(new, case.new.priority, case.new.latest, case.now, case.fixed)
    if search.price == math.inf:
        assert search.start == math.inf
        return None
    found = {each.slot: each.start for each in case.waiting}
    for place in range(search.position, len(case.waiting)):
        found[case.waiting[place].slot] = search.starts[place]
    if search.is_changed:
        check_profile(case, found, search.start, search.best.steps())
    else:
        assert search.position == len(case.waiting)
    return Schedule(found, search.start, search.price, search.moved)


def job_of(processors: int, estimate: float) -> Job:
    """A job with an estimate, which may be infinite."""
    return Job("j", 0.0, processors, "p", None if estimate == math.inf else float(estimate))


def check_profile(
    case: Case, starts: dict[int, float], new_start: float, steps: list[tuple[float, int]]
) -> None:
    """The profile says what the running jobs and the schedule leave free."""
    seconds = seconds_of(case)
    for job in case.waiting:
        seconds.take(starts[job.slot], job.estimate, job.processors)
    seconds.take(new_start, case.new.estimate, case.new.processors)
    for second in range(case.now, seconds.end):
        free = next(free for date, free in reversed(steps) if date <= second)
        assert case.machine - seconds.used[second] == free >= 0, (case, second)
