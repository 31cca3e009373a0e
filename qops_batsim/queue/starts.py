"""Starts of the jobs of a queue, as it is now: forecast from the machine's history, or planned.

Without a history there is only the plan by time limits, what would start when if each job ran to
its limit. It is no forecast: most jobs end before their limits, and jobs that are still to come may
go first.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import msgspec
import numpy as np
from msgspec import UNSET, UnsetType

from qops_batsim.dates import Calendar
from qops_batsim.errors import InputError
from qops_batsim.experiments.page import Aliases
from qops_batsim.garbage import without_garbage_collection
from qops_batsim.limits import MAX_SECONDS
from qops_batsim.queue.calibration import (
    INTERVALS,
    MEDIAN,
    alike,
    corrected,
    smooth_quantiles,
    widened,
)
from qops_batsim.queue.forecast import Drawn, Moment, Simulator
from qops_batsim.queue.learned import Learned
from qops_batsim.queue.node_plan import NodePlan
from qops_batsim.queue.past import FIELDS, Habits, Past, Patience, no_past
from qops_batsim.queue.queue_load import load_of, unlike
from qops_batsim.queue.queue_rows import simulation_of, submitted
from qops_batsim.queue.queue_state import Ask, QueuedJob, QueueState, line_of
from qops_batsim.queue.unexplained_waits import AT_ONCE, UnexplainedWait, without_date
from qops_batsim.slurm.heterogeneous_jobs import listed
from qops_batsim.slurm.waiting_reasons import Cause, WaitKind

DRAWS = 200
"""Simulations of a queue, by default."""

FEWER_DRAWS = 50
"""Simulations of each job that is asked about, by default."""

NO_FORECAST = (
    "this is the plan by time limits, no forecast: most jobs end before their limits, and jobs "
    "that are still to come may go first; a forecast needs the machine's history (--history)"
)

_IN_TIME = 60.0
"""A start counts as in time if it is later than a date by at most this (seconds)."""


class JobStart(msgspec.Struct, frozen=True, kw_only=True):
    """When a waiting job starts in the plan by time limits; dates in seconds since 1970.

    Attributes
    ----------
    components
        Ids of a heterogeneous job's components.
    waits_for, reason
        What it waits for, and the reason as Slurm says it; the latter is empty if not told.
    no_date
        Why it has no dates, None if it has.
    planned
        Start in the plan by time limits, None if it never fits.
    lacks
        In a plan by nodes, what too few nodes have free for it now, who holds it and until when; it
        is told of the first jobs only.
    """

    id: str
    components: tuple[str, ...] = ()
    user: str
    processors: int
    limit: float | None
    waits_for: Cause
    reason: str
    no_date: WaitKind | None
    planned: float | None
    lacks: str | UnsetType = UNSET

    @property
    def name(self) -> str:
        """Return the job's id, with those of its components: ``20 (20+0, 20+1)``."""
        return f"{self.id} ({listed(self.components)})" if self.components else self.id


class StartForecast(JobStart, frozen=True, kw_only=True):
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


class QueueStarts(msgspec.Struct, frozen=True, kw_only=True):
    """The starts of all waiting jobs of a queue at a date, and how they were calculated.

    Attributes
    ----------
    is_forecast
        Whether they are forecast from a history; else the fields about simulations are not set.
    source, now, processors
        The queue, its date (seconds since 1970), and the processors that are there.
    running
        Number of running jobs.
    left_out, unsure
        Numbers of jobs by why they are not planned, and by what is not known of them.
    unexplained
        Waits because of which jobs have no date.
    scheduler
        The scheduler that decides on the machine.
    draws, seed, calibrated
        Number of simulations, what their random choices begin with, and whether a back-test
        corrects them.
    warnings
        Why the forecast is to be trusted less, as sentences.
    jobs
        The starts, of type :class:`StartForecast` in a forecast.
    time_zone
        Zone of the history's hours, and of dates without an offset.
    by_node
        Whether jobs are planned, or simulated, node by node.
    """

    is_forecast: bool
    source: str
    now: float
    processors: int
    running: int
    left_out: dict[str, int]
    unsure: dict[str, int]
    unexplained: list[UnexplainedWait] = []
    scheduler: str
    draws: int | UnsetType = UNSET
    seed: int | UnsetType = UNSET
    calibrated: bool | UnsetType = UNSET
    warnings: list[str] | UnsetType = UNSET
    jobs: Sequence[JobStart]
    time_zone: str | UnsetType = UNSET
    by_node: bool | UnsetType = UNSET

    @property
    def dated(self) -> list[JobStart]:
        """Return the jobs that have a date."""
        return [job for job in self.jobs if job.no_date is None]


class AskedStarts(msgspec.Struct, frozen=True, kw_only=True):
    """The starts of jobs that are not submitted yet, and the waits in the queue at a date (seconds
    since 1970) because of which they have none.
    """

    is_forecast: bool
    now: float
    unexplained: Sequence[UnexplainedWait]
    jobs: list[JobStart]


class ForecastBasis(NamedTuple):
    """What starts are calculated from: the machine's scheduler, its history, random seed and what
    a back-test has learned.

    Attributes
    ----------
    past, calendar
        The machine's history, and the dates of its seconds; None: starts are planned by limits.
    scheduler, settings
        The scheduler that decides on the machine, and its options. Empty: ``easy``; in a plan by
        nodes, without a history, each job has its earliest fit by priority.
    seed
        The number that random choices begin with.
    learned
        By a back-test; without corrections, quantiles are as drawn.
    """

    past: Past | None = None
    calendar: Calendar | None = None
    scheduler: str = ""
    settings: Mapping[str, Any] = MappingProxyType({})
    seed: int = 1
    learned: Learned = Learned()


@without_garbage_collection()
def queue_starts(
    state: QueueState,
    basis: ForecastBasis = ForecastBasis(),  # noqa: B008 - it cannot change
    *,
    draws: int = DRAWS,
    on_progress: Callable[[int], None] | None = None,
) -> QueueStarts:
    """Tell when each waiting job of a queue will start.

    Parameters
    ----------
    state
        The queue. Waiting jobs stand in line by priority, planned start and submission. In a plan
        nothing has a date behind a job without a limit that has to end first.
    basis
        Scheduler, history and corrections of the queue's machine.
    draws
        Number of simulations, for a forecast.
    on_progress
        Gets how many simulations are done.
    """
    model = _model_of(state, basis)
    plan = model.planned(model.moment)
    starts = model.starts(draws, on_progress)

    line, blocked = line_of(state)
    unexplained, no_date = model.unexplained(line, plan)
    jobs = [
        model.without_date(job, no_date[job.id])
        if job.id in no_date
        else model.start_of(job, starts[:, place], float(plan[place]), is_first=not place)
        for place, job in enumerate(line)
    ]
    if model.nodes is not None:
        dated = [model.nodes.placed[job.id] for job in line if job.id not in no_date]
        lacking = model.nodes.lacking(dated)
        jobs = [msgspec.structs.replace(j, lacks=lacking.get(j.id, UNSET)) for j in jobs]
    jobs += [model.without_date(job, job.meaning.waits) for job in blocked]

    return QueueStarts(
        source=state.source,
        now=state.now,
        processors=state.processors,
        running=state.count_running(),
        left_out=state.left_out,
        unsure=model.unsure(),
        unexplained=unexplained,
        scheduler=model.decider,
        jobs=jobs,
        **model.about(draws),
    )


def asked_starts(
    state: QueueState,
    asks: Sequence[Ask],
    basis: ForecastBasis = ForecastBasis(),  # noqa: B008 - it cannot change
    *,
    draws: int = FEWER_DRAWS,
) -> AskedStarts:
    """Tell when jobs would start if they were submitted now, each as the only new one, the last of
    the queue. InputError for a job that is wider than the machine.

    In a forecast each is simulated by itself; run times of the others and what comes are drawn once
    for all of them. See :func:`queue_starts`.
    """
    found = [*simulated_starts(state, asks, basis, draws)]
    return AskedStarts(
        is_forecast=basis.past is not None,
        now=state.now,
        unexplained=found[0].unexplained if found else [],
        jobs=[simulated.told for simulated in found],
    )


class SimulatedStart(NamedTuple):
    """Simulated starts of a job that is not submitted yet, in seconds of the history's clock.

    Its starts and run times, by draw; quantiles of the starts by :data:`LEVELS`, calibrated; and
    what is told of it. The others are empty if it has no date, because of ``unexplained`` waits.
    """

    starts: np.ndarray
    run_times: np.ndarray
    levels: list[float]
    told: JobStart
    unexplained: Sequence[UnexplainedWait] = ()


def simulated_starts(
    state: QueueState, asks: Sequence[Ask], basis: ForecastBasis, draws: int
) -> Iterator[SimulatedStart]:
    """Simulate the starts of jobs if they were submitted now, and yield the result of each: see
    :func:`asked_starts`.
    """
    for ask in asks:
        state.check_width(ask.processors)
        ask.check_counted(state)
    model = _model_of(state, basis, asks)
    now, running, waiting = model.moment
    queue, ours = np.split(waiting, [len(waiting) - len(asks)])

    # Behind a wait that the plan of the queue itself does not explain nobody has a date.
    plan_of_queue = model.planned(Moment(now, running, queue))
    unexplained, _ = model.unexplained(line_of(state)[0], plan_of_queue)
    none = np.empty(0)
    drawn = None if unexplained else model.draw(draws)
    for place, (row, ask) in enumerate(zip(ours.tolist(), asks, strict=True)):
        job = submitted(ask, state.now)
        if model.nodes is not None and ask.partition:
            job = msgspec.structs.replace(job, id=f"{job.id},partition={ask.partition}")
        if drawn is None:
            undated = model.without_date(job, WaitKind.BEHIND)
            yield SimulatedStart(none, none, [], undated, unexplained)
            continue
        moment = Moment(now, running, np.append(queue, row))
        of_job = drawn.of_job(place, len(running), len(queue))
        starts = model.simulator.starts_by_draw(moment, of_job)[:, -1]
        plan = float(model.planned(moment)[-1])
        told = model.start_of(job, starts, plan, is_first=not len(queue))
        yield SimulatedStart(starts, of_job.run_times[:, -1], model.levels(starts, plan), told)


def variants(ask: Ask, size: int) -> list[Ask]:
    """Return variants of a job to compare: half, all and twice its processors, each with a quarter,
    half, all and twice its time limit.

    Of a machine of that many processors, by processors and limit.

    >>> [(job.processors, job.time) for job in variants(Ask(processors=1, time=8.0), 4)][:4]
    [(1, 2.0), (1, 4.0), (1, 8.0), (1, 16.0)]
    """
    count = ask.processors
    widths = sorted({max(count // 2, 1), count, max(min(2 * count, size), count)})
    limits = [factor * ask.time for factor in (0.25, 0.5, 1.0, 2.0)]
    change = msgspec.structs.replace
    return [change(ask, processors=width, time=limit) for width in widths for limit in limits]


def node_variants(ask: Ask, partitions: Sequence[str]) -> list[Ask]:
    """Return a job as it is and variants of it to compare, in a plan by node: in other partitions,
    with half of its amounts of one kind, of its processors, and of its time limit.
    """
    change = msgspec.structs.replace
    found = [ask]
    found += [change(ask, partition=name) for name in partitions if name != ask.partition]
    for kind, amount in ask.each.items():
        if amount > 1:
            found.append(change(ask, each={**ask.each, kind: amount // 2}))
    if ask.processors > max(ask.nodes, 1):
        found.append(change(ask, processors=max(ask.processors // 2, ask.nodes)))
    return [*found, change(ask, time=ask.time / 2)]


def anonymous(found: QueueStarts, aliases: Aliases) -> QueueStarts:
    """Return starts in which numbers replace user names."""
    change = msgspec.structs.replace
    return change(found, jobs=[change(job, user=aliases[job.user]) for job in found.jobs])


def undated_table(jobs: Sequence[JobStart]) -> tuple[str, list[str], list[list[str]]]:
    """Return title, headings and rows of the table of waiting jobs without a date of start."""
    rows = [
        [job.name, f"{job.processors:,}", job.waits_for, job.reason or "-", job.no_date]
        for job in jobs
        if job.no_date is not None
    ]
    heads = ["job", "processors", "waits for", "reason", "no date, since it"]
    return "Jobs that wait without a date", heads, rows


class _Plan:
    """A queue and the jobs that are asked about as one simulation, and their starts by time limits:
    what a forecast without draws is.
    """

    kind: type[JobStart] = JobStart

    def __init__(
        self,
        state: QueueState,
        asks: Sequence[Ask],
        basis: ForecastBasis,
        past: Past,
        calendar: Calendar,
    ) -> None:
        self.state = state
        self.basis = basis
        self.past = past
        self.calendar = calendar
        self.asks = asks
        self.nodes = None if state.nodes is None else NodePlan(state)
        if self.nodes is not None:
            self.nodes.all_placed(line_of(state)[0])
        self.fits_earliest = self.nodes is not None and not (basis.scheduler or past.history)
        self.decider = "conservative" if self.fits_earliest else basis.scheduler or "easy"
        if self.nodes is not None and self.fits_earliest:
            rows = np.arange(len(self.nodes.placed) + len(asks))
            self.simulator = Simulator(past)  # Of no future.
            self.moment = Moment(state.now - calendar.unix_start, rows[:0], rows)
        else:
            self.simulator, self.moment = simulation_of(
                state, past, calendar, asks, self.decider, basis.settings, self.nodes
            )

    def planned(self, moment: Moment) -> np.ndarray:
        """Return the starts of the waiting jobs by time limits (seconds; infinite: never)."""
        if self.nodes is not None and self.fits_earliest:
            waits = [job.start for job in self.nodes.placed.values()]
            new = (moment.waiting[len(waits) :] - len(waits)).tolist()
            waits += [self.nodes.start_of_new(self.asks[place]) for place in new]
            starts = moment.now + np.array(waits)
        else:
            starts = self.simulator.planned(moment)
        # What starts when a job without a limit ends may never start.
        return np.where(starts < moment.now + MAX_SECONDS / 2, starts, np.inf)

    def unexplained(
        self, line: Sequence[QueuedJob], plan: np.ndarray
    ) -> tuple[list[UnexplainedWait], dict[str, WaitKind]]:
        """Return the waits of the queue that its plan does not explain, and why jobs have no date,
        by id.

        ``plan`` has the planned starts of the jobs in line (seconds).
        """
        names = [job.id for job in line]
        waits = dict(zip(names, (plan - self.moment.now).tolist(), strict=True))
        if self.nodes is None:
            return without_date(self.state, waits)
        started = {name for name, wait in waits.items() if wait < AT_ONCE}
        return self.nodes.without_date(self.nodes.placed, started)

    def draw(self, draws: int) -> Drawn:
        """Draw ``draws`` random futures of the queue; without a history there are none."""
        waiting = len(self.moment.waiting)
        jobs = len(self.moment.running) + waiting
        return Drawn(np.empty((0, jobs)), [], np.empty((0, waiting)))

    def starts(self, draws: int, on_progress: Callable[[int], None] | None) -> np.ndarray:
        """Return the simulated starts of the waiting jobs (seconds), by draw and job."""
        return self.simulator.starts_by_draw(self.moment, self.draw(draws), on_progress)

    def levels(self, starts: np.ndarray, planned: float) -> list[float]:
        """Return the quantiles (s) of a job's start by :data:`LEVELS`; none in a plan."""
        return []

    def start_of(
        self, job: QueuedJob, starts: np.ndarray, planned: float, *, is_first: bool
    ) -> JobStart:
        """Return what is told of a job's start, from simulated starts and its start in the plan by
        time limits (seconds).
        """
        date = self._date(planned)
        why = WaitKind.CANNOT_START if date is None else None
        return JobStart(**_about(job, is_first=is_first), no_date=why, planned=date)

    def without_date(self, job: QueuedJob, why: WaitKind) -> JobStart:
        """Return what is told of a job that has no date."""
        return self.kind(**_about(job), no_date=why, planned=None)

    def unsure(self) -> dict[str, int]:
        """Count the jobs of which something is not known, by what it is."""
        return {**self.state.unsure, **({} if self.nodes is None else self.nodes.unsure)}

    def about(self, draws: int) -> dict[str, Any]:
        """Return how the starts are calculated, as fields of :class:`QueueStarts`."""
        return {"is_forecast": False} | ({} if self.nodes is None else {"by_node": True})

    def _date(self, seconds: float) -> float | None:
        return seconds + self.calendar.unix_start if np.isfinite(seconds) else None


class _Forecast(_Plan):
    """The same with the history of the machine, and forecasts that are made from both."""

    kind = StartForecast

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        past = self.past
        now = self.moment.now
        ends = past.ends
        if not (ends <= now).any():
            raise InputError(
                "the history has no job that is known to have ended before the queue's date, so "
                "nothing can be learned from it; a log with dates of start (in SWF: wait times) is "
                "expected"
            )

        everything = self.simulator.past
        ended = np.argsort(ends, kind="stable")
        self._habits = Habits(everything, ended[ends[ended] <= now])
        self._patience = Patience(everything)
        self._patience.learn(np.flatnonzero(past.waited_until <= now))
        queue = self.moment.waiting[: len(self.moment.waiting) - len(self.asks)]
        self._unlike = unlike(load_of(everything, queue), self.basis.learned.usual)

    def draw(self, draws: int) -> Drawn:
        """Draw ``draws`` random futures of the queue: run times, arrivals and cancellations."""
        rng = np.random.default_rng(self.basis.seed)
        drawn = self.simulator.draw(self.moment, self._habits, draws, rng, self._patience)

        # When nodes come back is known.
        holders = self.state.holding if self.nodes is None else self.nodes.holders
        closed = {job.id for job in self.state.closed} if self.nodes is None else self.nodes.closed
        for place, job in enumerate(holders):
            if job.id in closed:
                drawn.run_times[:, place] = job.estimate
        return drawn

    def levels(self, starts: np.ndarray, planned: float) -> list[float]:
        """Return the quantiles (s) of a job's start by :data:`LEVELS`, as a back-test has learned
        to tell them.
        """
        learned = self.basis.learned
        now = self.moment.now
        drawn = smooth_quantiles(starts[:, None])
        base = alike(np.array([planned])) if learned.by_plan else drawn
        told = corrected(base, learned.corrections, now)
        if self._unlike:
            told = widened(told, corrected(alike(drawn[:, MEDIAN]), learned.of_medians, now))
        found: list[float] = told[0].tolist()
        return found

    def start_of(
        self, job: QueuedJob, starts: np.ndarray, planned: float, *, is_first: bool
    ) -> StartForecast:
        """Return the forecast of a job from its simulated starts and its start in the plan by time
        limits (seconds).
        """
        dates = [self._date(level) for level in self.levels(starts, planned)]
        (first, last), (second, third) = INTERVALS
        waits = starts[~np.isnan(starts)] - self.moment.now
        in_an_hour, in_a_day = (
            float((waits <= most + _IN_TIME).mean()) if len(waits) else 0.0
            for most in (3600.0, 86_400.0)
        )

        return StartForecast(
            **_about(job, is_first=is_first),
            no_date=WaitKind.CANNOT_START if dates[MEDIAN] is None else None,
            planned=self._date(planned),
            early=dates[first],
            half=(dates[second], dates[third]),
            median=dates[MEDIAN],
            late=dates[last],
            within=(in_an_hour, in_a_day),
        )

    def unsure(self) -> dict[str, int]:
        """Count the jobs of which something is not known, also those of unknown users."""
        known = {*self.past.names[: self.past.history, FIELDS.index("user")].tolist()}
        count = sum(job.user not in known for job in self.state.jobs if job.user)
        what = "of users whom the history does not know: run times are those of all users"
        return super().unsure() | ({what: count} if count else {})

    def warnings(self) -> list[str]:
        """Return why the forecast is to be trusted less, as sentences."""
        said = [f"this queue is unlike the past, so intervals are wider: {w}" for w in self._unlike]
        learned = self.basis.learned
        by_node = self.nodes is not None
        if learned.corrections and learned.by_node != by_node:
            how = ("counted processors", "went node by node")
            said.append(
                f"the back-test {how[learned.by_node]}, and this forecast {how[by_node]}, so the "
                "intervals may be off"
            )
        return said + learned.warnings()

    def about(self, draws: int) -> dict[str, Any]:
        """Return how the starts are calculated, as fields of :class:`QueueStarts`."""
        return super().about(draws) | {
            "is_forecast": True,
            "draws": draws,
            "seed": self.basis.seed,
            "calibrated": bool(self.basis.learned.corrections),
            "warnings": self.warnings(),
            "time_zone": self.calendar.time_zone,
        }


def _model_of(state: QueueState, basis: ForecastBasis, asks: Sequence[Ask] = ()) -> _Plan:
    """Return the simulation of a queue: with a history a forecast, else a plan."""
    if basis.past is not None and basis.calendar is not None:
        return _Forecast(state, asks, basis, basis.past, basis.calendar)

    dates = [date for job in state.jobs for date in (job.start, job.submission) if date is not None]
    begin = math.floor(min([state.now, *dates]))
    return _Plan(state, asks, basis, no_past(state.processors), Calendar(begin, "UTC"))


def _about(job: QueuedJob, *, is_first: bool | None = None) -> dict[str, Any]:
    """Return what is told of a waiting job without its dates.

    A job of which Slurm has said nothing waits for processors if it is the first of the line
    (``is_first``), else for its turn; None: it is in no line.
    """
    # Slurm says nothing of a job that it has not looked at yet.
    is_told = is_first is None or job.reason not in ("", "None")
    own = Cause.RESOURCES if is_first else Cause.PRIORITY
    return {
        "id": job.id,
        "components": job.components,
        "user": job.user,
        "processors": job.processors,
        "limit": job.estimate,
        "waits_for": job.meaning.cause if is_told else own,
        "reason": job.reason,
    }
