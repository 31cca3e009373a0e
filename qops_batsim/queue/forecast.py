"""Forecasts of starts: many simulations of what may happen to a queue from now on.

Each simulation draws how long the running and waiting jobs will run, from what jobs like them used
of their limits, and which jobs will come, from a week of the past at the same hours. The machine's
scheduler decides as it would.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from qops_batsim.core.news import News
from qops_batsim.engine.loop import SchedulerLoop, Submissions
from qops_batsim.engine.loop_columns import floats, wholes
from qops_batsim.engine.simulation import ignore
from qops_batsim.garbage import garbage_of_what_follows
from qops_batsim.protocol.events import JOB_CANCELLED, Notify
from qops_batsim.protocol.port import make_scheduler
from qops_batsim.queue.past import Habits, Past, Patience

WEEK = 7 * 86_400.0
WEEKS = 8
"""Weeks of the past that arrivals are drawn from."""

HORIZON = 4 * 86_400.0
"""For how long jobs go on to come in a simulation (seconds)."""

TOGETHER = 0.5
"""Share of draws in which all jobs of a user, application and limit use much of it, or little."""


class Moment(NamedTuple):
    """A queue at a date (seconds): its running and its waiting jobs, as row numbers in the
    :class:`Past`.

    Waiting jobs stand in the order of submission.
    """

    now: float
    running: np.ndarray
    waiting: np.ndarray


def moment_of(past: Past, now: float, before: int | None = None) -> Moment:
    """Return the running and waiting jobs at the date ``now``, as a log tells. O(jobs).

    Parameters
    ----------
    past
        The jobs of a log.
    now
        The date (seconds of the past).
    before
        Only jobs of earlier rows are taken; None: those submitted by the date.

    Returns
    -------
    Moment
        Without jobs whose waits have no known end. Where more is in use than the machine has, as in
        logs of growing machines, the last started jobs are left out as well.
    """
    if before is None:
        before = int(np.searchsorted(past.submissions[: past.history], now, side="right"))
    starts, ends = past.starts[:before], past.ends[:before]
    running = np.flatnonzero((starts <= now) & (ends > now))
    running = running[np.argsort(starts[running], kind="stable")]
    if past.nodes is None:
        running = running[np.cumsum(past.widths[running]) <= past.processors]
    else:
        running = past.nodes.place(running)
    return Moment(now, running, waiting_at(past, now, before))


def waiting_at(past: Past, now: float, before: int | None = None) -> np.ndarray:
    """Return the rows of the waiting jobs at a date: see :func:`moment_of`."""
    if before is None:
        before = int(np.searchsorted(past.submissions[: past.history], now, side="right"))
    waits = past.waited_until[:before] > now
    return np.flatnonzero(waits & (past.widths[:before] <= past.processors))


class Arrivals(NamedTuple):
    """Jobs that are submitted while a simulation runs, taken from an earlier week.

    Rows of the past, by how much later than those they come, and how long they run (seconds); the
    places of those that are cancelled while they wait, and when (seconds).
    """

    rows: np.ndarray
    shift: float
    run_times: np.ndarray
    gone: np.ndarray
    gone_at: np.ndarray


NO_ARRIVALS = Arrivals(
    rows=np.empty(0, np.int64),
    shift=0.0,
    run_times=np.empty(0),
    gone=np.empty(0, np.int64),
    gone_at=np.empty(0),
)


class Drawn(NamedTuple):
    """Random futures of a queue: run times, arrivals and cancellations, one set for each
    simulation.

    How long running jobs still run, then how long waiting ones will (seconds), by draw and job; the
    jobs that come, none where no week of the past is known; and when waiting jobs are cancelled if
    they still wait (seconds), by draw and job.
    """

    run_times: np.ndarray
    arrivals: list[Arrivals]
    cancelled: np.ndarray

    def of_job(self, place: int, running: int, waiting: int) -> Drawn:
        """Return the futures of the queue with only one of the additional jobs, ``place``, at its
        end; ``running`` and ``waiting`` are numbers of jobs.
        """
        columns = [*range(running + waiting), running + waiting + place]
        cancelled = self.cancelled[:, [*range(waiting), waiting + place]]
        cancelled[:, -1] = np.inf  # What is asked is when it starts if it is left to wait.
        return Drawn(self.run_times[:, columns], self.arrivals, cancelled)


class Simulator:
    """Simulates how a scheduler continues from a moment of a machine's queue.

    Parameters
    ----------
    past
        The jobs.
    scheduler, settings
        Name of the scheduler that decides, and its options.
    """

    def __init__(
        self, past: Past, scheduler: str = "easy", settings: Mapping[str, Any] | None = None
    ) -> None:
        self.past = past
        self._scheduler = scheduler
        self._settings = settings or {}
        # A job that waits may come as well, as one of a past week: under its row and their number.
        self._ids = [str(place) for place in range(2 * len(past.submissions))]

    def fields_of(self, job_id: str) -> dict[str, Any]:
        """Return the fields of a job that a scheduler may read."""
        jobs = self.past.jobs
        job = jobs[int(job_id.partition("!")[2]) % len(jobs)]
        return {**job.fields, "id": job_id}

    def starts(
        self,
        moment: Moment,
        run_times: np.ndarray,
        arrivals: Arrivals | None = None,
        cancelled: np.ndarray | None = None,
    ) -> np.ndarray:
        """Simulate one future; return the waiting jobs' starts (seconds), infinite for one that
        never starts, NaN for one that is cancelled first.

        Parameters
        ----------
        run_times
            How long the running jobs still run, then how long the waiting ones will (seconds).
        arrivals
            The jobs that come.
        cancelled
            When the waiting jobs are cancelled, if they still wait then (seconds).
        """
        past = self.past
        coming = NO_ARRIVALS if arrivals is None else arrivals
        if cancelled is None:
            cancelled = np.full(len(moment.waiting), np.inf)
        rows = np.concatenate([moment.running, moment.waiting, coming.rows])
        first = len(rows) - len(coming.rows)
        dates = past.submissions[rows]
        dates[first:] += coming.shift
        places = rows.copy()
        places[first:] += len(past.submissions)

        # Who waits then is cancelled at these dates.
        is_gone = np.isfinite(cancelled)
        gone_at = np.concatenate([cancelled[is_gone], coming.gone_at])
        gone = np.concatenate([moment.waiting[is_gone], places[first:][coming.gone]])
        events = [
            (date, Notify.of(JOB_CANCELLED, job_id=f"q!{place}"))
            for date, place in sorted(zip(gone_at.tolist(), gone.tolist(), strict=True))
        ]
        nodes = past.nodes
        layout = None if nodes is None else nodes.layout
        submissions = Submissions(
            "q",
            [self._ids[place] for place in places.tolist()],
            None,
            [""],
            array("q", bytes(8 * len(rows))),
            floats(dates),
            wholes((past.widths if nodes is None else nodes.hosts)[rows]),
            floats(past.limits[rows]),
            self,
            None,
            None if nodes is None else nodes.asking(rows.tolist(), len(moment.running)),
        )
        lasting = floats(np.concatenate([run_times, coming.run_times]))
        module = make_scheduler(self._scheduler, self._settings)
        size = past.processors if layout is None else layout.hosts
        loop = SchedulerLoop(
            module.scheduler, size, submissions, lasting, events or None, None, None, layout
        )
        loop.manager.news = News.of(module.options)
        loop.begin_at(moment.now, past.starts[moment.running].tolist(), len(moment.waiting))
        loop.run(ignore)
        module.scheduler.finished()

        starts = np.asarray(loop.starts)[len(moment.running) : first]
        return np.where(np.isnan(starts), np.where(is_gone, np.nan, np.inf), starts)

    def planned(self, moment: Moment) -> np.ndarray:
        """Return the waiting jobs' starts (s) if all jobs ran to their limits and no further job
        arrived.
        """
        past = self.past
        left = past.starts[moment.running] + past.limits[moment.running] - moment.now
        run_times = np.concatenate([np.maximum(left, 1.0), past.limits[moment.waiting]])
        return self.starts(moment, run_times)

    def forecast(
        self,
        moment: Moment,
        habits: Habits,
        draws: int,
        rng: np.random.Generator,
        patience: Patience | None = None,
    ) -> np.ndarray:
        """Draw random futures of a queue and simulate them; return the waiting jobs' starts
        (seconds) by draw and job, NaN where cancelled.
        """
        return self.starts_by_draw(moment, self.draw(moment, habits, draws, rng, patience))

    def starts_by_draw(
        self, moment: Moment, drawn: Drawn, on_progress: Callable[[int], None] | None = None
    ) -> np.ndarray:
        """Simulate the futures that were drawn; return the waiting jobs' starts (seconds) by draw
        and job, NaN where cancelled.
        """
        found = np.empty((len(drawn.arrivals), len(moment.waiting)))
        futures = zip(drawn.run_times, drawn.arrivals, drawn.cancelled, strict=True)
        with garbage_of_what_follows():
            for draw, future in enumerate(futures, 1):
                found[draw - 1] = self.starts(moment, *future)
                if on_progress is not None:
                    on_progress(draw)
        return found

    def draw(
        self,
        moment: Moment,
        habits: Habits,
        draws: int,
        rng: np.random.Generator,
        patience: Patience | None = None,
    ) -> Drawn:
        """Draw ``draws`` random futures of a queue: run times, arriving jobs and cancellations.

        What is drawn of the others does not depend on how many jobs wait behind them.
        """
        of_jobs, of_weeks, of_patience = rng.spawn(3)
        past = self.past
        now = moment.now
        waiting = moment.waiting
        run_times = self._run_times(moment, habits, draws, of_jobs)
        cancelled = np.full((draws, len(waiting)), np.inf)
        if patience is not None and patience.cancels:
            waited = now - past.submissions[waiting]
            cancelled = now + patience.draw(waiting, waited, draws, of_patience)

        # Weeks of which nothing is known that was not known at the moment.
        known = past.submissions[: past.history]
        since = now - known[0]
        until = now - min(now, known[-1])
        first_week = max(math.ceil((until + HORIZON) / WEEK), 1)
        weeks = list(range(first_week, int(since / WEEK) + 1))[:WEEKS]
        if not weeks:
            return Drawn(run_times, [NO_ARRIVALS] * draws, cancelled)

        ends = past.ends
        unknown = habits.shares([-1] * (past.groups.shape[1] - 1) + [0])
        coming: list[Arrivals] = []
        for _ in range(draws):
            shift = weeks[of_weeks.integers(len(weeks))] * WEEK
            span = now - shift, now - shift + HORIZON
            rows = np.arange(*np.searchsorted(known, span, side="right"))
            rows = rows[past.widths[rows] <= past.processors]

            # Of jobs that had not ended at the moment the run time was not known.
            shares = unknown[of_weeks.integers(len(unknown), size=len(rows))]
            drawn = np.maximum(shares * past.limits[rows], 1.0)
            lasting = np.where(ends[rows] <= now, past.run_times[rows], drawn)
            gone = np.flatnonzero(past.cancelled[rows] <= now)
            gone_at = past.cancelled[rows[gone]] + shift
            coming.append(Arrivals(rows, shift, lasting, gone, gone_at))
        return Drawn(run_times, coming, cancelled)

    def _run_times(
        self, moment: Moment, habits: Habits, draws: int, rng: np.random.Generator
    ) -> np.ndarray:
        """Draw random run times of the jobs, for running jobs the time that is left (seconds); one
        row for each draw, one column for each job.
        """
        past = self.past
        rows = np.concatenate([moment.running, moment.waiting])
        of_group, of_job, togethers = rng.spawn(3)

        # In some draws all jobs of a user, application and limit use much of it, or little.
        alike = np.unique(past.groups[rows, 0], return_inverse=True)[1]
        of_all = of_group.random((alike.max(initial=0) + 1, draws))[alike].T
        own, chances = (source.random((len(rows), draws)).T for source in (of_job, togethers))
        levels = np.where(chances < TOGETHER, of_all, own)

        drawn = np.empty((draws, len(rows)))
        for place, row in enumerate(rows.tolist()):
            limit = past.limits[row]
            spent = moment.now - past.starts[row] if place < len(moment.running) else 0.0
            shares = habits.shares(past.groups[row].tolist(), spent / limit)
            chosen = shares[(levels[:, place] * len(shares)).astype(np.int64)]
            drawn[:, place] = np.maximum(chosen * limit - spent, 1.0)
        return drawn


def quantiles(starts: np.ndarray, levels: Sequence[float]) -> np.ndarray:
    """Return quantiles of simulated starts (s), by level and job; each quantile is one of the
    simulated values.

    Of the draws in which the job is not cancelled (NaN); infinite where it always is.
    """
    ordered = np.sort(starts, axis=0)
    counts = np.sum(~np.isnan(starts), axis=0)
    places = [np.clip((level * counts).astype(np.int64), 0, counts - 1) for level in levels]
    found = np.take_along_axis(ordered, np.maximum(places, 0), axis=0)
    return np.where(np.isnan(found), np.inf, found)
