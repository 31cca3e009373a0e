"""Users made up for tests, and what they do in a run."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any

from qops_batsim import simulate
from qops_batsim.protocol import make_scheduler
from qops_batsim.users import LoggedJob, Reacting, Reactions, Users, Wish
from qops_batsim.users.user_model import HOUR, WEEK, Batch, BatchJob, Sessions, User, WeekClock
from qops_batsim.workload import NeedChoices, NeedMix

LATE = 1e7
"""Nobody is there so long (seconds)."""

BY_SLACK = NeedChoices(mix=NeedMix(slack=1.0), slack=100.0)
"""Everybody needs a job 100 s after it could have ended."""


def batch(*jobs: tuple[float, int, float], then: str = "break", time: float = LATE) -> Batch:
    """Return a batch of jobs by offset, processors and run time, which is estimated exactly."""
    asked = tuple(BatchJob(*job, job[2]) for job in jobs)
    return Batch(asked, 0.0, then, time)  # type: ignore[arg-type]


def user(name: str, *batches: Batch, since: float = 0.0) -> User:
    return User(name=name, since=since, until=LATE - 1, batches=batches)


def crowd(*users: User, processors: int = 4, stay: float = 1.0, **more: Any) -> Users:
    """Return users who always go on in a session as long as ``stay`` is 1."""
    sessions = Sessions(stay=stay, patience=1e9)
    return Users(processors=processors, users=users, sessions=sessions, **more)


def only(answer: str, **more: Any) -> Reactions:
    """Return reactions of users who have one answer."""
    from qops_batsim.users.user_model import Answers

    shares = dict.fromkeys(Answers.__struct_fields__, 0.0) | {answer: 1.0}
    return Reactions(answers=Answers(**shares), answer_after=10.0, **more)


def reacted(
    users: Users, scheduler: str = "fcfs", settings: Mapping[str, Any] | None = None
) -> Reacting:
    """Return a scheduler beside which these users have reacted."""
    beside = Reacting(make_scheduler(scheduler, settings).scheduler, users)
    simulate(beside, users.no_jobs())
    return beside


def submissions(beside: Reacting) -> list[tuple[str, float]]:
    """Return who has submitted a job, and when, in order."""
    jobs = beside.workload().jobs
    return [(str(job.user), job.submission_time) for job in jobs]


def logged(wishes: Sequence[Wish]) -> list[LoggedJob]:
    """Return what was done as a log has it."""
    return [
        LoggedJob(
            each.user, each.submitted, each.ended, each.processors, each.run_time, each.run_time
        )
        for each in sorted(wishes, key=lambda each: each.submitted)
        if each.ended == each.ended
    ]


def made_up(
    users: int = 12,
    weeks: int = 5,
    seed: int = 1,
    *,
    think: float = 200.0,
    stay: float = 0.7,
    patience: float = 1800.0,
    processors: int = 64,
) -> tuple[Users, list[LoggedJob]]:
    """Return users of known ways, and the log of all that they do on an idle machine.

    Sessions begin from 8:00 to 20:00, five times as often on working days as at weekends, and one
    in twenty by night.
    """
    chosen = random.Random(seed)
    day = [0.1 if hour < 8 or hour >= 20 else 1.9 for hour in range(24)]
    week = tuple(rate * (0.2 if number > 4 else 1.0) for number in range(7) for rate in day)
    sessions = Sessions(week=week, stay=stay, patience=patience, think=think, spread=0.5)
    clock = WeekClock(sessions)
    log = []
    listed = []
    for number in range(users):
        date, name = clock.after(0.0, chosen.expovariate(1 / 40_000.0)), f"u{number}"
        first = round(date)
        while date < weeks * WEEK:
            begin = end = round(date)
            for offset in sorted([0, *(chosen.randrange(30) for _ in range(chosen.randrange(3)))]):
                run_time = max(round(chosen.lognormvariate(6.0, 1.5)), 30)
                size = chosen.choice([1, 2, 4])
                begin = round(date) + offset
                log.append(LoggedJob(name, begin, begin + run_time, size, run_time, run_time))
                end = max(end, begin + run_time)
            if chosen.random() < sessions.continuation_probability(end - begin):
                date = end + min(chosen.lognormvariate(5.3, 0.5), 1199.0)
            else:
                date = clock.after(end + 1200.0, chosen.expovariate(1 / 40_000.0))
        listed.append(User(name=name, since=first, until=date, batches=(batch((0.0, 1, HOUR)),)))
    log.sort(key=lambda job: job.submitted)
    return Users(processors=processors, users=tuple(listed), sessions=sessions), log
