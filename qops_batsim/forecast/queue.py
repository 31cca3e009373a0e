"""Forecast of a machine's queue as it is now, from its history."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import msgspec
import numpy as np

from qops_batsim.advice.queue_state import QueuedJob, QueueState, in_line
from qops_batsim.dates import Calendar
from qops_batsim.errors import InputError, shown
from qops_batsim.files import read_bytes
from qops_batsim.forecast.backtest import (
    HORIZONS,
    INTERVALS,
    LEVELS,
    MEDIAN,
    Correction,
    corrected,
)
from qops_batsim.forecast.forecast import Moment, Simulator, quantiles
from qops_batsim.forecast.past import LEAST_LIMIT, Habits, Past, groups_of
from qops_batsim.jobs import Job

_IN_TIME = 60.0
"""A job starts at a date if it does by so much later (seconds)."""

_CLASSES = len(HORIZONS) + 1


class StartForecast(msgspec.Struct, frozen=True, kw_only=True):
    """When a waiting job will start; dates in seconds since 1970.

    Attributes
    ----------
    planned
        Start in the plan by time limits, None if it never fits.
    early, median, late
        Dates by which it starts with a chance of 10, 50 and 90 %; None if that may be never.
    within
        Chance to start within an hour, and within a day (0 to 1): the share of the simulations,
        which no back-test corrects.
    """

    id: str
    processors: int
    limit: float | None
    planned: float | None
    early: float | None
    median: float | None
    late: float | None
    within: tuple[float, float]


class QueueForecast(msgspec.Struct, frozen=True, kw_only=True):
    """The forecast of a queue at a date, and how it was made."""

    source: str
    now: float
    processors: int
    running: int
    left_out: dict[str, int]
    unsure: dict[str, int]
    scheduler: str
    draws: int
    seed: int
    calibrated: bool
    jobs: list[StartForecast]


def forecast_queue(
    state: QueueState,
    past: Past,
    calendar: Calendar,
    *,
    scheduler: str = "easy",
    settings: dict[str, object] | None = None,
    draws: int = 200,
    seed: int = 1,
    corrections: Sequence[Correction] = (),
) -> QueueForecast:
    """Return when each waiting job of a queue will start.

    Parameters
    ----------
    state
        The queue. Waiting jobs stand in line by planned start, priority and submission.
    past, calendar
        The machine's history, and the dates of its seconds.
    scheduler, settings
        The scheduler that decides on the machine, and its options.
    draws, seed
        How many simulations are made, and what their chances begin with.
    corrections
        Of a back-test; without, quantiles are as drawn.
    """
    everything, moment = _with_queue(past, state, calendar)
    rng = np.random.default_rng(seed)
    habits, simulator = Habits(everything), Simulator(everything, scheduler, settings)
    ends = past.ends
    if not (ends <= moment.now).any():
        raise InputError(
            "the history does not tell when any of its jobs ended, so nothing can be learned from "
            "it; one that tells dates of start (of SWF: waits) is expected"
        )
    habits.learn(row for row in np.argsort(ends, kind="stable").tolist() if ends[row] <= moment.now)
    starts = simulator.forecast(moment, habits, draws, rng)
    plan, told = simulator.planned(moment), quantiles(starts, LEVELS)
    ordered = sorted((job for job in state.jobs if job.start is None), key=in_line)
    to_date = calendar.unix_start

    def date(seconds: float) -> float | None:
        return seconds + to_date if np.isfinite(seconds) else None

    found, (first, last) = [], INTERVALS[0]
    for place, job in enumerate(ordered):
        levels = corrected(told[:, place].tolist(), corrections, moment.now)
        waits = starts[:, place] - moment.now
        early, median, late = (date(levels[level]) for level in (first, MEDIAN, last))
        chances = [float((waits <= limit + _IN_TIME).mean()) for limit in (3600.0, 86_400.0)]
        found.append(
            StartForecast(
                id=job.id,
                processors=job.processors,
                limit=job.estimate,
                planned=date(float(plan[place])),
                early=early,
                median=median,
                late=late,
                within=(chances[0], chances[1]),
            )
        )
    return QueueForecast(
        source=state.source,
        now=state.now,
        processors=state.processors,
        running=len(moment.running),
        left_out=state.left_out,
        unsure=state.unsure,
        scheduler=scheduler,
        draws=draws,
        seed=seed,
        calibrated=bool(corrections),
        jobs=found,
    )


class _Backtest(msgspec.Struct):
    """What is read of a back-test."""

    scheduler: str
    corrections: Annotated[list[Correction], msgspec.Meta(min_length=_CLASSES, max_length=_CLASSES)]


def read_corrections(path: Path, scheduler: str) -> list[Correction]:
    """Return the corrections that ``queue backtest --json`` printed, of the same scheduler."""
    try:
        found = msgspec.json.decode(read_bytes(path, what="a back-test"), type=_Backtest)
    except msgspec.DecodeError as error:
        raise InputError(
            f"{path}: {error}; what `queue backtest --json` prints is expected"
        ) from None
    if found.scheduler != scheduler:
        raise InputError(
            f"{path}: scheduler is {shown(found.scheduler)}; a back-test of {shown(scheduler)}, "
            "which decides here, is expected"
        )
    return found.corrections


def _with_queue(past: Past, state: QueueState, calendar: Calendar) -> tuple[Past, Moment]:
    """Return a past with the jobs of a queue behind its history, and the queue as its rows."""
    now = state.now - calendar.unix_start
    if now < past.submissions[past.history - 1]:
        raise InputError(
            f"{state.source}: is of {now:.0f} s of the history's clock, before the last job of the "
            "history; a queue of the same machine, after its history, is expected"
        )
    running = [job for job in state.jobs if job.start is not None]
    waiting = sorted((job for job in state.jobs if job.start is None), key=in_line)
    queued = [*running, *waiting]
    longest = float(past.limits.max())
    limits = np.array([max(job.estimate or longest, LEAST_LIMIT) for job in queued])
    dates = [job.submission if job.submission is not None else state.now for job in queued]
    begun = [np.nan if job.start is None else job.start - calendar.unix_start for job in queued]
    names = np.array(
        [[job.user, job.application, job.partition] for job in queued], object
    ).reshape(-1, 3)
    names = np.concatenate([past.names, names])
    every_limit = np.concatenate([past.limits, limits])
    submissions = np.minimum(np.array(dates) - calendar.unix_start, now)
    jobs = [
        Job(job.id, date, job.processors, "", limit, None, _fields(job))
        for job, date, limit in zip(queued, submissions.tolist(), limits.tolist(), strict=True)
    ]
    everything = past._replace(
        processors=state.processors,
        submissions=np.concatenate([past.submissions, submissions]),
        starts=np.concatenate([past.starts, begun]),
        run_times=np.concatenate([past.run_times, limits]),
        limits=every_limit,
        widths=np.concatenate([past.widths, [job.processors for job in queued]]).astype(np.int64),
        groups=groups_of(names, every_limit),
        names=names,
        jobs=[*past.jobs, *jobs],
    )
    rows = np.arange(past.history, past.history + len(queued))
    return everything, Moment(now, rows[: len(running)], rows[len(running) :])


def _fields(job: QueuedJob) -> dict[str, object]:
    """Return what a scheduler may look at of a job."""
    return {"user": job.user, "queue": job.partition}
