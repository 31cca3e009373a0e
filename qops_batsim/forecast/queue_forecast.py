"""Forecast of the queue that a machine has now, from the machine's history."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, NamedTuple

import msgspec
import numpy as np

from qops_batsim.advice.queue_state import QueuedJob, QueueState, by_priority
from qops_batsim.advice.waiting_reasons import ARRAY_LIMIT, Cause, Waits
from qops_batsim.dates import Calendar
from qops_batsim.errors import InputError, require, shown
from qops_batsim.experiments.page import Aliases
from qops_batsim.files import decoded, read_bytes
from qops_batsim.forecast.backtest import (
    HORIZONS,
    INTERVALS,
    LEVELS,
    MEDIAN,
    Correction,
    corrected,
)
from qops_batsim.forecast.forecast import Drawn, Moment, Simulator, quantiles
from qops_batsim.forecast.past import FIELDS, LEAST_LIMIT, Habits, Past, Patience, groups_of
from qops_batsim.jobs import Job
from qops_batsim.schedulers.slurm.slurm_options import SlurmOptions
from qops_batsim.schedulers.slurm.slurm_scheduler import Slurm
from qops_batsim.scheduling.registry import read_options

_IN_TIME = 60.0
"""A start counts as in time if it is later than a date by at most this (seconds)."""

_CLASSES = len(HORIZONS) + 1


class StartForecast(msgspec.Struct, frozen=True, kw_only=True):
    """The forecast of a waiting job's start; dates in seconds since 1970.

    Attributes
    ----------
    waits_for, reason
        What it waits for, and the reason as Slurm says it; the latter is empty if not told.
    no_date
        Why it has no dates, None if it has.
    planned
        Start in the plan by time limits, None if it never fits.
    early, median, late
        Dates by which it starts with a chance of 10, 50 and 90 %; None if that may be never.
    half
        The same of 25 and 75 %: half of such jobs start between these.
    within
        Chance to start within an hour, and within a day (0 to 1): the share of the simulations,
        which no back-test corrects.
    """

    id: str
    user: str
    processors: int
    limit: float | None
    waits_for: Cause
    reason: str
    no_date: Waits | None
    planned: float | None
    early: float | None
    half: tuple[float | None, float | None]
    median: float | None
    late: float | None
    within: tuple[float, float]


class QueueForecast(msgspec.Struct, frozen=True, kw_only=True):
    """The forecast of the starts of all waiting jobs of a queue at a date, and how it was made."""

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


class AskedJob(msgspec.Struct, frozen=True, kw_only=True):
    """A job that is not submitted yet and whose start is to be forecast: processors and time limit
    (seconds).
    """

    processors: int
    limit: float
    user: str = ""
    application: str = ""
    partition: str = ""


class ForecastBasis(NamedTuple):
    """What the forecast of a machine's queue is made from: history, scheduler, random seed and
    corrections.

    Attributes
    ----------
    past, calendar
        The machine's history, and the dates of its seconds.
    scheduler, settings
        The scheduler that decides on the machine, and its options.
    seed
        The number that random choices begin with.
    corrections
        Those of a back-test; without, quantiles are as drawn.
    """

    past: Past
    calendar: Calendar
    scheduler: str = "easy"
    settings: Mapping[str, Any] = MappingProxyType({})
    seed: int = 1
    corrections: Sequence[Correction] = ()


def forecast_queue(
    state: QueueState,
    basis: ForecastBasis,
    *,
    draws: int = 200,
    on_progress: Callable[[int], None] | None = None,
) -> QueueForecast:
    """Forecast when each waiting job of a queue will start.

    Parameters
    ----------
    state
        The queue. Waiting jobs stand in line by priority, planned start and submission.
    basis
        History, scheduler and corrections of the queue's machine.
    draws
        Number of simulations.
    on_progress
        Gets how many simulations are done.
    """
    model = _Model(state, basis, ())
    moment, simulator = model.moment, model.simulator
    drawn = model.draw(draws)
    starts, plan = simulator.starts_by_draw(moment, drawn, on_progress), simulator.planned(moment)
    waiting, blocked = line_of(state)
    told = [
        model.told(job, starts[:, place], float(plan[place]), is_first=not place)
        for place, job in enumerate(waiting)
    ]
    return QueueForecast(
        source=state.source,
        now=state.now,
        processors=state.processors,
        running=len(moment.running),
        left_out=state.left_out,
        unsure={**state.unsure, **_strangers(state, basis.past)},
        scheduler=basis.scheduler,
        draws=draws,
        seed=basis.seed,
        calibrated=bool(basis.corrections),
        jobs=[*told, *map(_without_date, blocked)],
    )


def _strangers(state: QueueState, past: Past) -> dict[str, int]:
    """Count the jobs of the queue whose users do not occur in the history, under the words in which
    the forecast reports them; empty if there are none.
    """
    known = {*past.names[: past.history, FIELDS.index("user")].tolist()}
    count = sum(job.user not in known for job in state.jobs if job.user)
    what = "of users whom the history does not know: run times are those of all users"
    return {what: count} if count else {}


def queue_at(past: Past, moment: Moment) -> QueueState:
    """Return the queue at a past moment, in seconds of the past's clock; a job's id is its row
    number in the past.
    """
    rows = np.concatenate([moment.running, moment.waiting])
    jobs = [
        QueuedJob(
            id=str(row),
            processors=int(past.widths[row]),
            estimate=float(past.limits[row]),
            submission=float(past.submissions[row]),
            start=float(past.starts[row]) if place < len(moment.running) else None,
        )
        for place, row in enumerate(rows.tolist())
    ]
    return QueueState(source="a log", processors=past.processors, now=moment.now, jobs=jobs)


def line_of(state: QueueState) -> tuple[list[QueuedJob], list[QueuedJob]]:
    """Return the waiting jobs of a queue that can start, in the order of their priority, and the
    waiting jobs that cannot.

    Of an array, no more tasks can start than may run at once, with those that run.
    """
    room = {job.array: job.at_once for job in state.jobs if job.at_once}
    for job in state.jobs:
        if job.start is not None and job.array in room:
            room[job.array] -= 1
    line, beyond = [], dict[str, list[QueuedJob]]()
    for job in sorted((job for job in state.jobs if job.start is None), key=by_priority):
        if room.get(job.array, 1) > 0:
            line.append(job)
        else:
            beyond.setdefault(job.array, []).append(job)
        if job.array in room:
            room[job.array] -= 1
    waiting = [_together(tasks) for tasks in beyond.values()]
    return line, [*waiting, *state.blocked]


def _together(tasks: Sequence[QueuedJob]) -> QueuedJob:
    """Return waiting tasks of one array as a single job, named as squeue does: ``4711_[3-9]``."""
    spans: list[list[int]] = []
    for number in sorted(int(task.id.rpartition("_")[2]) for task in tasks):
        if spans and spans[-1][-1] == number - 1:
            spans[-1][1:] = [number]
        else:
            spans.append([number])
    told = ",".join("-".join(map(str, span)) for span in spans)
    whole = f"{tasks[0].array}_[{told}]"
    return msgspec.structs.replace(tasks[0], id=whole, reason=ARRAY_LIMIT)


def _without_date(job: QueuedJob) -> StartForecast:
    return StartForecast(
        id=job.id,
        user=job.user,
        processors=job.processors,
        limit=job.estimate,
        waits_for=job.meaning.cause,
        reason=job.reason,
        no_date=job.meaning.waits,
        planned=None,
        early=None,
        half=(None, None),
        median=None,
        late=None,
        within=(0.0, 0.0),
    )


def forecast_asked(
    state: QueueState, basis: ForecastBasis, asked: Sequence[AskedJob], *, draws: int = 50
) -> list[StartForecast]:
    """Forecast the starts of jobs if they were submitted now, each as if it were the only one
    submitted.

    Each is simulated by itself, as the last of the queue; run times of the others and what comes
    are drawn once for all of them. See :func:`forecast_queue`. InputError for a job that is wider
    than the machine.
    """
    return [each.told for each in starts_of_asked(state, basis, asked, draws)]


class SimulatedStart(NamedTuple):
    """Simulated starts of a job that is not submitted yet, in seconds of the history's clock.

    Its starts and run times, by draw; quantiles of the starts by :data:`LEVELS`, calibrated; and
    what is told of it.
    """

    starts: np.ndarray
    run_times: np.ndarray
    levels: tuple[float, ...]
    told: StartForecast


def starts_of_asked(
    state: QueueState, basis: ForecastBasis, asked: Sequence[AskedJob], draws: int
) -> Iterator[SimulatedStart]:
    """Simulate the starts of jobs if they were submitted now, and yield the result of each: see
    :func:`forecast_asked`.
    """
    for job in asked:
        most = state.processors
        accepted = f"a whole number from 1 to {most}, the size of the machine, is accepted"
        require(1 <= job.processors <= most, "processors", job.processors, accepted)
    model = _Model(state, basis, asked)
    running, waiting = model.moment.running, model.moment.waiting
    queue, ours = np.split(waiting, [len(waiting) - len(asked)])
    drawn = model.draw(draws)
    for place, (row, job) in enumerate(zip(ours.tolist(), asked, strict=True)):
        moment = Moment(model.moment.now, running, np.append(queue, row))
        of_job = drawn.of_job(place, len(running), len(queue))
        starts = model.simulator.starts_by_draw(moment, of_job)[:, -1]
        plan = float(model.simulator.planned(moment)[-1])
        new = _submitted(job, state.now, f"{job.processors}x{_short(job.limit)}")
        yield SimulatedStart(
            starts,
            of_job.run_times[:, -1],
            model.levels(starts),
            model.told(new, starts, plan, is_first=not len(queue)),
        )


def _short(seconds: float) -> str:
    """Format a duration in short form: ``2h``."""
    return next(
        f"{seconds / size:g}{unit}"
        for size, unit in ((3600.0, "h"), (60.0, "m"), (1.0, "s"))
        if size == 1.0 or seconds % size == 0
    )


def variants(asked: AskedJob, size: int) -> list[AskedJob]:
    """Return variants of a job to compare: half, all and twice its processors, each with a quarter,
    half, all and twice its time limit.

    Of a machine of that many processors, by processors and limit.

    >>> [(job.processors, job.limit) for job in variants(AskedJob(processors=1, limit=8.0), 4)][:4]
    [(1, 2.0), (1, 4.0), (1, 8.0), (1, 16.0)]
    """
    count = asked.processors
    widths = sorted({max(count // 2, 1), count, max(min(2 * count, size), count)})
    limits = [factor * asked.limit for factor in (0.25, 0.5, 1.0, 2.0)]
    change = msgspec.structs.replace
    return [change(asked, processors=width, limit=limit) for width in widths for limit in limits]


def anonymous(found: QueueForecast, aliases: Aliases) -> QueueForecast:
    """Return a forecast in which numbers replace user names."""
    change = msgspec.structs.replace
    return change(found, jobs=[change(job, user=aliases[job.user]) for job in found.jobs])


class _Model:
    """The history, the queue and the jobs to be submitted, as one simulation, and the forecasts
    from it.
    """

    def __init__(self, state: QueueState, basis: ForecastBasis, asked: Sequence[AskedJob]) -> None:
        past, calendar, settings = basis.past, basis.calendar, basis.settings
        bases: dict[str, float] = {}
        if basis.scheduler == "slurm":
            bases, settings = told_priorities(state, settings)
        everything, self.moment = _with_queue(past, state, calendar, asked, bases)
        now, ends = self.moment.now, past.ends
        if not (ends <= now).any():
            raise InputError(
                "the history has no job that is known to have ended before the queue's date, so "
                "nothing can be learned from it; a log with dates of start (in SWF: wait times) is "
                "expected"
            )
        ended = np.argsort(ends, kind="stable")
        self.habits = Habits(everything, ended[ends[ended] <= now])
        self.simulator = Simulator(everything, basis.scheduler, settings)
        self._patience, until = Patience(everything), past.waited_until
        self._patience.learn(np.flatnonzero(until <= now))
        self._to_date, self._corrections = calendar.unix_start, basis.corrections
        self._seed = basis.seed

    def draw(self, draws: int) -> Drawn:
        """Draw ``draws`` random futures of the queue: run times, arrivals and cancellations."""
        rng = np.random.default_rng(self._seed)
        return self.simulator.draw(self.moment, self.habits, draws, rng, self._patience)

    def levels(self, starts: np.ndarray) -> tuple[float, ...]:
        """Return the quantiles (s) of a job's start by :data:`LEVELS`, corrected as a back-test has
        learned.
        """
        drawn = quantiles(starts, LEVELS).tolist()
        return corrected(drawn, self._corrections, self.moment.now)

    def told(
        self, job: QueuedJob, starts: np.ndarray, planned: float, *, is_first: bool
    ) -> StartForecast:
        """Return the forecast of a job from its simulated starts and its start in the plan by time
        limits (seconds).
        """
        now = self.moment.now
        dates = [self._date(level) for level in self.levels(starts)]
        (first, last), (second, third) = INTERVALS
        waits = starts[~np.isnan(starts)] - now
        chances = [
            float((waits <= most + _IN_TIME).mean()) if len(waits) else 0.0
            for most in (3600.0, 86_400.0)
        ]
        # Slurm says nothing of a job that it has not looked at yet.
        is_told = job.reason not in ("", "None")
        own = Cause.RESOURCES if is_first else Cause.PRIORITY
        return StartForecast(
            id=job.id,
            user=job.user,
            processors=job.processors,
            limit=job.estimate,
            waits_for=job.meaning.cause if is_told else own,
            reason=job.reason,
            no_date=Waits.CANNOT_START if dates[MEDIAN] is None else None,
            planned=self._date(planned),
            early=dates[first],
            half=(dates[second], dates[third]),
            median=dates[MEDIAN],
            late=dates[last],
            within=(chances[0], chances[1]),
        )

    def _date(self, seconds: float) -> float | None:
        return seconds + self._to_date if np.isfinite(seconds) else None


class _Backtest(msgspec.Struct):
    """The fields that are read from the JSON of a back-test."""

    scheduler: str
    corrections: Annotated[list[Correction], msgspec.Meta(min_length=_CLASSES, max_length=_CLASSES)]


def read_corrections(path: Path, scheduler: str) -> list[Correction]:
    """Read the corrections of forecasts that `queue backtest --json` wrote; raise InputError if
    they are of another scheduler.
    """
    content = read_bytes(path, what="a back-test")
    decoder = msgspec.json.Decoder(_Backtest)
    found = decoded(content, decoder, path, "the output of `queue backtest --json`")
    if found.scheduler != scheduler:
        raise InputError(
            f"{path}: the back-test is of scheduler {shown(found.scheduler)}; one of "
            f"{shown(scheduler)}, the scheduler of this forecast, is expected"
        )
    return found.corrections


def told_priorities(
    state: QueueState, settings: Mapping[str, Any]
) -> tuple[dict[str, float], Mapping[str, Any]]:
    """Return the waiting jobs' priorities by id, without the part for age, and Slurm options by
    which all other jobs get the priority of a usual job.

    A queue has the sum of all factors of a job; the simulation adds age to the rest of it. Of other
    jobs, as those that arrive later, shares, QOS and partition are unknown: they get what the
    median job has beyond age and size.
    """
    told = [job for job in state.jobs if job.start is None and job.priority > 0]
    if not told:
        return {}, settings
    options = read_options("slurm", Slurm, settings)
    assert isinstance(options, SlurmOptions)
    bases, further = {}, []
    for job in told:
        waited = state.now - (state.now if job.submission is None else job.submission)
        age = options.weight_age * min(max(waited, 0.0) / options.max_age, 1.0)
        size = job.processors / state.processors
        bases[job.id] = job.priority - age
        part = 1 - size if options.favor_small else size
        further.append(bases[job.id] - options.weight_size * part)
    known = {"weight_qos": 0.0, "weight_fairshare": 0.0, "partitions": {}}
    weights = options.weight_qos + options.weight_fairshare + options.weight_partition
    usual = max(float(np.median(further)), 0.0) if weights else 0.0
    return bases, {**settings, **known, "weight_partition": usual}


def _with_queue(
    past: Past,
    state: QueueState,
    calendar: Calendar,
    asked: Sequence[AskedJob],
    bases: Mapping[str, float],
) -> tuple[Past, Moment]:
    """Append the queue's jobs, then the new jobs ``asked``, to the history; return the result, and
    the queue as row numbers in it.

    Jobs that are asked about are the last of those that wait; the bases of priorities are by id.
    """
    now = state.now - calendar.unix_start
    if now < past.submissions[past.history - 1]:
        raise InputError(
            f"{state.source}: the queue is dated {now:.0f} s after the history's begin, when jobs "
            "of the history were still to be submitted; a queue that is later than the history is "
            "expected"
        )
    running = [job for job in state.jobs if job.start is not None]
    queued = [*running, *line_of(state)[0], *(_submitted(job, state.now) for job in asked)]
    longest = float(past.limits.max())
    limits = np.array([max(job.estimate or longest, LEAST_LIMIT) for job in queued])
    dates = [job.submission if job.submission is not None else state.now for job in queued]
    begun = [np.nan if job.start is None else job.start - calendar.unix_start for job in queued]
    names = np.array(
        [[job.user, job.application, job.partition] for job in queued], object
    ).reshape(-1, 3)
    submissions = np.minimum(np.array(dates) - calendar.unix_start, now)
    jobs = [
        Job(job.id, date, job.processors, "", limit, None, _fields(job, bases))
        for job, date, limit in zip(queued, submissions.tolist(), limits.tolist(), strict=True)
    ]
    everything = past._replace(
        processors=state.processors,
        submissions=np.concatenate([past.submissions, submissions]),
        starts=np.concatenate([past.starts, begun]),
        cancelled=np.concatenate([past.cancelled, np.full(len(queued), np.nan)]),
        run_times=np.concatenate([past.run_times, limits]),
        limits=np.concatenate([past.limits, limits]),
        widths=np.concatenate([past.widths, [job.processors for job in queued]]).astype(np.int64),
        groups=np.concatenate([past.groups, groups_of(names, limits, past)]),
        names=np.concatenate([past.names, names]),
        jobs=[*past.jobs, *jobs],
    )
    rows = np.arange(past.history, past.history + len(queued))
    return everything, Moment(now, rows[: len(running)], rows[len(running) :])


def _submitted(asked: AskedJob, now: float, name: str = "asked") -> QueuedJob:
    """Return the new job as a waiting job of the queue that is submitted at ``now`` (seconds since
    1970).
    """
    return QueuedJob(
        id=name,
        processors=asked.processors,
        estimate=asked.limit,
        submission=now,
        user=asked.user,
        application=asked.application,
        partition=asked.partition,
    )


def _fields(job: QueuedJob, bases: Mapping[str, float]) -> dict[str, object]:
    """Return the job's fields that a scheduler may read: user, queue and, if it is in ``bases``,
    priority.
    """
    told = {"base_priority": bases[job.id]} if job.id in bases else {}
    return {"user": job.user, "queue": job.partition, **told}
