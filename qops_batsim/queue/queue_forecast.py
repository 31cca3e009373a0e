"""Forecast of the queue that a machine has now, from the machine's history."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, NamedTuple, TypeVar

import msgspec
import numpy as np

from qops_batsim.dates import Calendar
from qops_batsim.errors import InputError, shown
from qops_batsim.experiments.page import Aliases
from qops_batsim.files import decoded, read_bytes
from qops_batsim.queue.backtest import (
    HORIZONS,
    INTERVALS,
    LEVELS,
    MEDIAN,
    Correction,
    corrected,
)
from qops_batsim.queue.forecast import Drawn, Moment, quantiles
from qops_batsim.queue.past import FIELDS, Habits, Past, Patience
from qops_batsim.queue.queue_plan import (
    AskedJob,
    AskedStarts,
    PlannedStart,
    QueuePlan,
    QueueStarts,
    about_job,
    asked_name,
    check_asked,
    line_of,
    not_explained,
    simulation_of,
    submitted,
)
from qops_batsim.queue.queue_state import QueuedJob, QueueState
from qops_batsim.queue.unexplained_waits import UnexplainedWait
from qops_batsim.slurm.waiting_reasons import WaitKind
from qops_batsim.workload.other_json import refuse_other_json

_IN_TIME = 60.0
"""A start counts as in time if it is later than a date by at most this (seconds)."""

_CLASSES = len(HORIZONS) + 1


class StartForecast(PlannedStart, frozen=True, kw_only=True):
    """The forecast of a waiting job's start; dates in seconds since 1970.

    Attributes
    ----------
    early, median, late
        Dates by which it starts with a chance of 10, 50 and 90 %; None if that may be never.
    half
        The same of 25 and 75 %: half of such jobs start between these.
    within
        Chance to start within an hour, and within a day (0 to 1): the share of the simulations,
        which no back-test corrects. None for a job without a date.
    """

    early: float | None = None
    half: tuple[float | None, float | None] = (None, None)
    median: float | None = None
    late: float | None = None
    within: tuple[float, float] | None = None


class QueueForecast(QueueStarts, frozen=True, kw_only=True):
    """The forecast of the starts of all waiting jobs of a queue at a date, and how it was made."""

    is_forecast: bool = True
    draws: int
    seed: int
    calibrated: bool
    jobs: list[StartForecast]
    time_zone: str = ""
    """Zone of the history's hours, and of dates without an offset."""


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
    unexplained, no_date = not_explained(state, plan - moment.now)
    told = [
        _without_date(job, no_date[job.id])
        if job.id in no_date
        else model.told(job, starts[:, place], float(plan[place]), is_first=not place)
        for place, job in enumerate(waiting)
    ]
    return QueueForecast(
        source=state.source,
        now=state.now,
        processors=state.processors,
        running=len(moment.running) - len(state.closed) + len(state.apart),
        left_out=state.left_out,
        unsure={**state.unsure, **_strangers(state, basis.past)},
        unexplained=unexplained,
        scheduler=basis.scheduler,
        draws=draws,
        seed=basis.seed,
        calibrated=bool(basis.corrections),
        time_zone=basis.calendar.time_zone,
        jobs=[*told, *(_without_date(job, job.meaning.waits) for job in blocked)],
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


def _without_date(job: QueuedJob, why: WaitKind) -> StartForecast:
    return StartForecast(**about_job(job), no_date=why, planned=None)


def forecast_asked(
    state: QueueState, basis: ForecastBasis, asked: Sequence[AskedJob], *, draws: int = 50
) -> AskedStarts[StartForecast]:
    """Forecast the starts of jobs if they were submitted now, each as if it were the only one
    submitted.

    Each is simulated by itself, as the last of the queue; run times of the others and what comes
    are drawn once for all of them. See :func:`forecast_queue`. InputError for a job that is wider
    than the machine.
    """
    found = [*starts_of_asked(state, basis, asked, draws)]
    return AskedStarts(
        is_forecast=True,
        now=state.now,
        unexplained=[*found[0].unexplained] if found else [],
        jobs=[each.told for each in found],
    )


class SimulatedStart(NamedTuple):
    """Simulated starts of a job that is not submitted yet, in seconds of the history's clock.

    Its starts and run times, by draw; quantiles of the starts by :data:`LEVELS`, calibrated; and
    what is told of it. The others are empty if it has no date, because of ``unexplained`` waits.
    """

    starts: np.ndarray
    run_times: np.ndarray
    levels: tuple[float, ...]
    told: StartForecast
    unexplained: Sequence[UnexplainedWait] = ()


def starts_of_asked(
    state: QueueState, basis: ForecastBasis, asked: Sequence[AskedJob], draws: int
) -> Iterator[SimulatedStart]:
    """Simulate the starts of jobs if they were submitted now, and yield the result of each: see
    :func:`forecast_asked`.
    """
    check_asked(state, asked)
    model = _Model(state, basis, asked)
    running, waiting = model.moment.running, model.moment.waiting
    queue, ours = np.split(waiting, [len(waiting) - len(asked)])
    now = model.moment.now
    plan_of_queue = model.simulator.planned(Moment(now, running, queue))
    none = np.empty(0)
    if unexplained := not_explained(state, plan_of_queue - now)[0]:
        for job in asked:
            undated = _without_date(submitted(job, state.now, asked_name(job)), WaitKind.BEHIND)
            yield SimulatedStart(none, none, (), undated, unexplained)
        return
    drawn = model.draw(draws)
    for place, (row, job) in enumerate(zip(ours.tolist(), asked, strict=True)):
        moment = Moment(now, running, np.append(queue, row))
        of_job = drawn.of_job(place, len(running), len(queue))
        starts = model.simulator.starts_by_draw(moment, of_job)[:, -1]
        plan = float(model.simulator.planned(moment)[-1])
        new = submitted(job, state.now, asked_name(job))
        yield SimulatedStart(
            starts,
            of_job.run_times[:, -1],
            model.levels(starts),
            model.told(new, starts, plan, is_first=not len(queue)),
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


_Told = TypeVar("_Told", QueueForecast, QueuePlan)


def anonymous(found: _Told, aliases: Aliases) -> _Told:
    """Return a forecast or plan in which numbers replace user names."""
    change = msgspec.structs.replace
    return change(found, jobs=[change(job, user=aliases[job.user]) for job in found.jobs])


class _Model:
    """The history, the queue and the jobs to be submitted, as one simulation, and the forecasts
    from it.
    """

    def __init__(self, state: QueueState, basis: ForecastBasis, asked: Sequence[AskedJob]) -> None:
        past, calendar = basis.past, basis.calendar
        everything, self.moment, self.simulator = simulation_of(
            state, past, calendar, asked, basis.scheduler, basis.settings
        )
        now, ends = self.moment.now, past.ends
        if not (ends <= now).any():
            raise InputError(
                "the history has no job that is known to have ended before the queue's date, so "
                "nothing can be learned from it; a log with dates of start (in SWF: wait times) is "
                "expected"
            )
        ended = np.argsort(ends, kind="stable")
        self.habits = Habits(everything, ended[ends[ended] <= now])
        self._patience, until = Patience(everything), past.waited_until
        self._patience.learn(np.flatnonzero(until <= now))
        self._closed = [job.estimate for job in state.closed]
        self._to_date, self._corrections = calendar.unix_start, basis.corrections
        self._seed = basis.seed

    def draw(self, draws: int) -> Drawn:
        """Draw ``draws`` random futures of the queue: run times, arrivals and cancellations."""
        rng = np.random.default_rng(self._seed)
        drawn = self.simulator.draw(self.moment, self.habits, draws, rng, self._patience)
        running = len(self.moment.running)
        # When nodes come back is known.
        drawn.run_times[:, running - len(self._closed) : running] = self._closed
        return drawn

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
        return StartForecast(
            **about_job(job, is_first=is_first),
            no_date=WaitKind.CANNOT_START if dates[MEDIAN] is None else None,
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
    what = "the output of `queue backtest --json`"
    try:
        found = decoded(content, decoder, path, what)
    except InputError:
        refuse_other_json(content, str(path), what)
        raise
    if found.scheduler != scheduler:
        raise InputError(
            f"{path}: the back-test is of scheduler {shown(found.scheduler)}; one of "
            f"{shown(scheduler)}, the scheduler of this forecast, is expected"
        )
    return found.corrections
