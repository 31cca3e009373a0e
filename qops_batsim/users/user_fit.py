"""Fitting users to a log: sessions, batches, think times, breaks, the profile of the week."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any, NamedTuple

import msgspec
import numpy as np

from qops_batsim.dates import Calendar
from qops_batsim.errors import InputError
from qops_batsim.users.user_model import (
    HOUR,
    HOURS,
    WEEK,
    Batch,
    BatchJob,
    Sessions,
    User,
    Users,
    WeekClock,
)
from qops_batsim.version import __version__
from qops_batsim.workload.conversion import Conversion
from qops_batsim.workload.workload_model import plain_number

SHORTEST = 1.0
"""Think times and breaks that are typical are no shorter (seconds)."""

FEWEST = 0.01
"""Sessions that begin in an hour in addition, so that no hour is impossible."""

WORKING_DAYS = 5


class LoggedBatch(NamedTuple):
    """A batch of jobs in the log: its first and last submission, and the last end of a job."""

    jobs: list[BatchJob]
    since: float
    last: float
    end: float


class LoggedJob(NamedTuple):
    """A job in a log: its user, submission and end (seconds), and its size."""

    user: str
    submitted: float
    ended: float
    processors: int
    run_time: float
    walltime: float | None


def fit_users(log: Conversion, *, seed: int = 1, sessions: Sessions | None = None) -> Users:
    """Fit the model of users to a converted log; jobs without a user are left out.

    Parameters
    ----------
    log
        The log.
    seed
        Seed of what the users draw in runs.
    sessions
        Limits of sessions and batches; None: the defaults.

    Returns
    -------
    Users
        The users; see :func:`users_of`.

    Raises
    ------
    InputError
        If no job has a user.
    """
    names = log.names("user")
    records = log.records
    workload = log.workload
    dates = workload.columns.submission_times
    ends = dates + np.maximum(records["wait_time"], 0.0) + records["run_time"]
    walltimes = [None if limit <= 0 else limit for limit in records["requested_time"].tolist()]
    columns = dates, ends, records["requested_processors"], records["run_time"]
    rows = zip(names, *(column.tolist() for column in columns), walltimes, strict=True)
    jobs = [LoggedJob(*row) for row in rows if row[0]]
    if not jobs:
        raise InputError(f"{workload.source}: names no job's user; a log that does is expected")

    provenance = {
        "command": "workload users",
        "version": __version__,
        "jobs": len(jobs),
        "without_user": len(names) - len(jobs),
        "log": workload.provenance,
    }
    users = users_of(jobs, workload.processors, workload.calendar, sessions)
    return msgspec.structs.replace(users, seed=seed, provenance=provenance)


def users_of(
    jobs: Iterable[LoggedJob],
    processors: int,
    calendar: Calendar | None = None,
    sessions: Sessions | None = None,
) -> Users:
    """Fit the model of users to jobs, sorted by submission, on a machine of a given size.

    The week's profile is fitted to the begins of sessions, the probability of continuing by maximum
    likelihood. O(jobs × log(jobs)).

    Parameters
    ----------
    jobs
        The jobs of a log, sorted by submission.
    processors
        Size of the machine.
    calendar
        Date and time zone of second 0; None: midnight before a Monday.
    sessions
        The limits that separate batches and sessions; all else in it is fitted.
    """
    limits = sessions or Sessions()
    limits.check()

    rows: dict[str, list[LoggedJob]] = {}
    for job in jobs:
        rows.setdefault(job.user, []).append(job)
    logged = {name: _batches(of_user, limits) for name, of_user in rows.items()}

    # The week's profile first: breaks are counted in its seconds.
    monday = _monday(calendar)
    breaks = [pair for batches in logged.values() for pair in _breaks(batches, limits)]
    fitted = msgspec.structs.replace(limits, week=_week(breaks, monday), monday=monday)
    clock = WeekClock(fitted)
    users = tuple(_user(name, batches, limits, clock) for name, batches in logged.items())
    return Users(
        processors=processors,
        users=users,
        sessions=_fit_behaviour(fitted, users),
        calendar=calendar,
    )


def _batches(rows: list[LoggedJob], limits: Sessions) -> list[LoggedBatch]:
    """Group a user's jobs, in order of submission, into the batches of the log."""
    batches: list[LoggedBatch] = []
    for _, date, end, processors, run_time, walltime in rows:
        last = batches[-1] if batches else None
        if last is None or date >= last.end or date - last.last > limits.gap_limit:
            job = BatchJob(0.0, processors, run_time, walltime)
            batches.append(LoggedBatch([job], date, date, end))
        else:
            last.jobs.append(BatchJob(date - last.since, processors, run_time, walltime))
            batches[-1] = last._replace(last=date, end=max(last.end, end))
    return batches


def _continues(batch: LoggedBatch, following: LoggedBatch, limits: Sessions) -> bool:
    return 0 <= following.since - batch.end <= limits.think_limit


def _breaks(logged: list[LoggedBatch], limits: Sessions) -> list[tuple[float, float]]:
    """Return, for each break between sessions, its earliest possible end and its end (seconds)."""
    return [
        (_earliest_session(one, two, limits), two.since)
        for one, two in pairwise(logged)
        if not _continues(one, two, limits)
    ]


def _earliest_session(batch: LoggedBatch, following: LoggedBatch, limits: Sessions) -> float:
    """Return the first date (s) from which a submission begins a new session.

    What comes sooner counts as the same session.
    """
    if following.since < batch.end:
        return batch.last + limits.gap_limit
    return batch.end + limits.think_limit


def _monday(calendar: Calendar | None) -> float:
    """Return the last Monday, 0:00, before the log's second 0 (s); 0 without a calendar."""
    if calendar is None:
        return 0.0
    date = calendar.date(0.0)
    begin = datetime(date.year, date.month, date.day) - timedelta(date.weekday())
    return max(float(plain_number(calendar.seconds(begin))), -WEEK)


def _week(breaks: list[tuple[float, float]], monday: float) -> tuple[float, ...]:
    """Return, for each hour of the week, the relative rate at which breaks end; mean 1.

    Sessions alone would tell too few by day, when others are busy. Monday to Friday are alike, and
    so are Saturday and Sunday. O(breaks × hours of a week).
    """
    # How often breaks end in each hour of the week, and how long users were away in it.
    dates = np.array(breaks, np.float64).reshape(-1, 2) - monday
    sessions = np.bincount((dates[:, 1] % WEEK // HOUR).astype(np.int64), minlength=HOURS)
    weeks, rest = np.divmod(dates[:, :, None], WEEK)
    until = weeks * HOUR + np.clip(rest - np.arange(HOURS) * HOUR, 0.0, HOUR)
    away = (until[:, 1] - until[:, 0]).sum(axis=0)

    counts = sessions[:HOURS].reshape(7, 24)
    seconds = away.reshape(7, 24)
    rates = np.empty((7, 24))
    for days in (slice(0, WORKING_DAYS), slice(WORKING_DAYS, None)):
        rates[days] = (counts[days].sum(axis=0) + FEWEST) / (seconds[days].sum(axis=0) + HOUR)
    return tuple(np.round(rates.ravel() / rates.mean(), 6).tolist())


def _user(name: str, logged: list[LoggedBatch], limits: Sessions, clock: WeekClock) -> User:
    batches = []
    breaks = []
    for batch, following in pairwise(logged):
        if _continues(batch, following, limits):
            then = "think"
            time = following.since - batch.end
        else:
            then = "leave" if following.since < batch.end else "break"
            soonest = clock.at(_earliest_session(batch, following, limits))
            time = max(round(clock.at(following.since) - soonest, 9), 0.0)
            breaks.append(time)
        batches.append(_batch(batch, then, time))

    # What came after the last batch, nobody knows: the user's median break.
    breaks.sort()
    batches.append(_batch(logged[-1], "break", breaks[len(breaks) // 2] if breaks else WEEK))
    since = logged[0].since
    return User(name=name, since=since, until=logged[-1].since, batches=tuple(batches))


def _batch(logged: LoggedBatch, then: Any, time: float) -> Batch:
    return Batch(tuple(logged.jobs), max(logged.end - logged.last, 0.0), then, time)


def _fit_behaviour(sessions: Sessions, users: Sequence[User]) -> Sessions:
    """Fit think times, breaks and the probability that a user continues, without last batches."""
    batches = [batch for user in users for batch in user.batches[:-1]]
    thinks = [math.log(max(batch.time, SHORTEST)) for batch in batches if batch.then == "think"]
    breaks = sorted(batch.time for batch in batches if batch.then != "think")
    waited = [batch for batch in batches if batch.then != "leave"]

    fitted: dict[str, float] = {}
    if thinks:
        fitted = {"think": math.exp(np.median(thinks)), "spread": float(np.std(thinks))}
    if breaks:
        fitted["pause"] = max(breaks[len(breaks) // 2], SHORTEST)
    if thinks and len(thinks) < len(waited):
        responses = np.array([batch.response for batch in waited])
        went_on = np.array([batch.then == "think" for batch in waited])
        fitted["stay"], fitted["patience"] = _maximum_likelihood(responses, went_on)

    rounded = {name: float(f"{value:.6g}") for name, value in fitted.items()}
    return msgspec.structs.replace(sessions, **rounded)


def _maximum_likelihood(responses: Any, went_on: Any) -> tuple[float, float]:
    """Fit the probability of continuing by maximum likelihood on a grid; return its parameters."""
    # Responses that are alike count as one, of their mean length.
    bins = np.round(8 * np.log2(1 + responses)).astype(np.int64)
    count = np.bincount(bins).astype(float)
    yes = np.bincount(bins, went_on, len(count))
    middle = np.bincount(bins, responses, len(count)) / np.maximum(count, 1)

    stays = np.arange(0.01, 1.0, 0.01)[:, None, None]
    patience = np.geomspace(60.0, 1e7, 200)[None, :, None]
    p = stays / (1.0 + middle / patience)
    likelihood = (yes * np.log(p) + (count - yes) * np.log1p(-p)).sum(axis=2)
    best = np.unravel_index(int(likelihood.argmax()), likelihood.shape)
    return float(stays[best[0], 0, 0]), float(patience[0, best[1], 0])


class UsersSummary(msgspec.Struct, frozen=True, kw_only=True):
    """Summary of a file of users; shares from 0 to 1, times in seconds.

    Attributes
    ----------
    sessions_by_night, sessions_at_weekends
        Shares of the sessions, by the week's profile: from 20:00 to 8:00, and on Saturday and
        Sunday.
    left
        Share of the batches whose user does not wait for them.
    goes_on_after_minute, goes_on_after_hour
        Probability to go on in a session after so long a response.
    load
        Work of all jobs over processors × the time from first to last session.
    """

    users: int
    jobs: int
    batches: int
    sessions: int
    batches_a_session: float
    sessions_by_night: float
    sessions_at_weekends: float
    left: float
    think: float
    goes_on_after_minute: float
    goes_on_after_hour: float
    load: float | None


def summary(users: Users) -> UsersSummary:
    """Summarize users. O(jobs)."""
    batches = [batch for user in users.users for batch in user.batches]
    jobs = list(users.jobs)
    sessions = sum(batch.then != "think" for batch in batches)
    week = np.array(users.sessions.week).reshape(7, 24)
    begin = min(user.since for user in users.users)
    end = max(user.until for user in users.users)
    work = math.fsum(job.processors * job.run_time for job in jobs)
    return UsersSummary(
        users=len(users.users),
        jobs=len(jobs),
        batches=len(batches),
        sessions=sessions,
        batches_a_session=len(batches) / max(sessions, 1),
        sessions_by_night=float((week[:, :8].sum() + week[:, 20:].sum()) / week.sum()),
        sessions_at_weekends=float(week[WORKING_DAYS:].sum() / week.sum()),
        left=sum(batch.then == "leave" for batch in batches) / len(batches),
        think=users.sessions.think,
        goes_on_after_minute=users.sessions.continuation_probability(60.0),
        goes_on_after_hour=users.sessions.continuation_probability(HOUR),
        load=work / (users.processors * (end - begin)) if end > begin else None,
    )
