"""Back-test of forecasts: forecasts made for past moments, compared with what happened then."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import repeat
from typing import Any, NamedTuple

import numpy as np

from qops_batsim.errors import InputError
from qops_batsim.queue.calibration import (
    LEVELS,
    MEDIAN,
    BestForecast,
    Calibration,
    alike,
    corrected,
    smooth_quantiles,
    widened,
)
from qops_batsim.queue.expected_starts import ExpectedStarts
from qops_batsim.queue.forecast import (
    Moment,
    Simulator,
    moment_of,
    quantiles,
    waiting_at,
)
from qops_batsim.queue.learned import Learned, is_better, lately_of
from qops_batsim.queue.past import Habits, Past, Patience
from qops_batsim.queue.queue_load import QueueLoad, load_of, unlike, usual_load
from qops_batsim.queue.scores import (
    WIDTHS,
    Coverage,
    KeptPromises,
    PastForecast,
    coverages,
    crps,
    kept_promises,
    pinball,
)

ATTEMPTS = 20
"""Moments that are drawn for each one that is wanted, at most: at many nothing may wait."""

RECENT_WAITS = 200
"""Ended waits that a forecast without a model is made of."""


def backtest(
    past: Past,
    simulator: Simulator,
    *,
    moments: int = 1_000,
    draws: int = 100,
    seed: int = 1,
    span: tuple[float, float] | None = None,
    on_progress: Callable[[int], None] | None = None,
) -> tuple[list[PastForecast], Learned]:
    """Forecast starts at random past moments; return the forecasts with the real starts, and what
    was learned from all of them, for later ones.

    Told are the calibrated simulations or, where that has had the smaller loss so far, the plan by
    limits calibrated in the same way.

    Moments are drawn from the last two thirds of the past, or of these from a ``span`` (seconds);
    those at which nothing waits are drawn again. Forecasts know nothing that was not known at their
    moments. Those of jobs that were cancelled before they started are not compared.
    """
    rng = np.random.default_rng(seed)
    dates = _moments(past, moments, span, rng)

    # Jobs in the order in which it becomes known how long they ran, or waited.
    ended = _in_order(past.ends)
    end_dates = past.ends[ended]
    waited = _in_order(past.waited_until)
    wait_dates = past.waited_until[waited]
    waits_known = 0
    habits = Habits(past, ended, known=0)
    patience = Patience(past)
    # Of the simulations, the plan by limits, recent waits, and the simulations' medians.
    calibrations = [Calibration() for _ in range(4)]
    choice = BestForecast(2)
    loads: list[QueueLoad] = []

    found: list[PastForecast] = []
    for count, now in enumerate(dates, 1):
        habits.known = int(np.searchsorted(end_dates, now, side="right"))
        last = int(np.searchsorted(wait_dates, now, side="right"))
        patience.learn(waited[waits_known:last])
        waits_known = last

        moment = moment_of(past, now)
        simulated = simulator.forecast(moment, habits, draws, rng, patience)
        plan = simulator.planned(moment)
        started = np.isfinite(past.starts[moment.waiting])
        rows = moment.waiting[started]
        starts = past.starts[rows]
        simulated = simulated[:, started]
        plan = plan[started]
        known = ended[: habits.known]
        recent = np.array([recent_waits(past, known, moment, row) for row in rows.tolist()])

        drawn = smooth_quantiles(simulated)
        bases = [drawn, *map(alike, (plan, recent[:, 0], drawn[:, MEDIAN]))]
        calibrated = []
        for calibration, base in zip(calibrations, bases, strict=True):
            calibration.come_to(now)
            dates_told = corrected(base, calibration.corrections(now), now)
            calibration.remember(now, starts, base, dates_told)
            calibrated.append(dates_told)
        by_plan, by_recent, by_median = calibrated[1:]
        told = calibrated[choice.best(now)]
        losses = [pinball(starts, dates_told).mean(axis=1) for dates_told in calibrated[:2]]
        choice.remember(starts, np.stack(losses))

        load = load_of(past, moment.waiting)
        is_unlike = bool(unlike(load, usual_load(loads)))
        loads.append(load)
        if is_unlike:
            told = widened(told, by_median)
        as_drawn = quantiles(simulated, LEVELS).T
        unknown = np.full(len(rows), math.nan)
        columns = [
            *(rows, starts, as_drawn, told, plan, *recent.T, unknown, by_plan, by_recent),
            crps(starts, simulated),
        ]
        found += map(
            PastForecast,
            repeat(now),
            *(map(tuple, c.tolist()) if c.ndim > 1 else c.tolist() for c in columns),
            repeat(is_unlike),
        )
        if on_progress is not None:
            on_progress(count)

    best = choice.best(math.inf)
    for calibration in calibrations:
        calibration.come_to(math.inf)
    return found, Learned(
        corrections=calibrations[best].corrections(math.inf),
        of_medians=calibrations[-1].corrections(math.inf),
        by_plan=bool(best),
        end_by_plan=is_better(kept_promises(found, past)),
        usual=usual_load(loads),
        lately=lately_of(found),
        by_node=past.nodes is not None,
    )


def _moments(
    past: Past, count: int, span: tuple[float, float] | None, rng: np.random.Generator
) -> list[float]:
    """Draw past moments at which jobs wait that started later; return their dates, in order."""
    began = past.submissions[len(past.submissions) // 3]
    end = past.submissions[-1]
    if span is not None:
        began = max(began, span[0])
        end = min(end, span[1])
        if began >= end:
            raise InputError(
                "Slurm's estimates are all outside the last two thirds of the history, which the "
                "back-test is of; a history that goes on until after the estimates is expected"
            )

    dates: list[float] = []
    for _ in range(ATTEMPTS * count):
        drawn = float(rng.uniform(began, end))
        if len(dates) == count:
            break
        if np.isfinite(past.starts[waiting_at(past, drawn)]).any():
            dates.append(drawn)
    if not dates:
        why = "no job ever waits in this history"
        if np.isnan(past.starts).all():
            why = "this history does not tell how long any job waited"
        raise InputError(
            f"{why}, so no forecast can be compared; use --starts simulated, with which "
            "a simulated scheduler starts the jobs of the history"
        )
    return sorted(dates)


def _in_order(dates: np.ndarray) -> np.ndarray:
    """Return the rows of the dates that are known, in their order."""
    order = np.argsort(dates, kind="stable")
    known: np.ndarray = order[~np.isnan(dates[order])]
    return known


class Comparison(NamedTuple):
    """What a back-test has found.

    Attributes
    ----------
    told
        The forecasts, with the real starts.
    learned
        What was learned, for later forecasts.
    classes
        How accurate the forecasts were: first of all jobs, then of classes of these.
    promises
        How many ends that each forecast might have promised would have been kept, if any.
    moments
        Number of moments at which a job waited.
    """

    told: Sequence[PastForecast]
    learned: Learned
    classes: list[Coverage]
    promises: KeptPromises | None
    moments: int


def compare(
    past: Past,
    scheduler: str,
    settings: Mapping[str, Any],
    *,
    as_simulated: bool = False,
    expected: ExpectedStarts | None = None,
    unix_start: float = 0.0,
    moments: int,
    draws: int,
    seed: int,
    on_progress: Callable[[int], None] | None = None,
) -> Comparison:
    """Test forecasts on a past (see :func:`backtest`), and compare them with what happened.

    Parameters
    ----------
    past
        The machine's history.
    scheduler, settings
        The scheduler that decides on the machine, and its options.
    as_simulated
        Whether jobs start when that scheduler would have started them; else as the history tells.
    expected, unix_start
        Starts that Slurm itself expected, to compare with; the date of second 0 of the past.
    """
    if as_simulated:
        past = simulated_past(past, scheduler, settings)

    span = None
    if expected is not None:
        first, last = expected.span
        span = first - unix_start, last - unix_start
    simulator = Simulator(past, scheduler, settings)

    told, learned = backtest(
        past,
        simulator,
        moments=moments,
        draws=draws,
        seed=seed,
        span=span,
        on_progress=on_progress,
    )
    if expected is not None:
        told = with_expected(told, past, expected, unix_start)
    return Comparison(
        told,
        learned,
        coverages(told, past),
        kept_promises(told, past),
        len({forecast.now for forecast in told}),
    )


def recent_waits(past: Past, ended: np.ndarray, moment: Moment, row: int) -> tuple[float, float]:
    """Forecast a waiting job's start from recent waits of jobs of its size class alone: return a
    median and an upper bound (seconds).

    The median of those that were no shorter than the wait so far, and a bound that holds for half
    of the waits with a confidence of 95 %, as QBETS gives (Nurmi, Brevik, Wolski, JSSPP 2007).
    """
    submission = past.submissions[row]
    begins = list(WIDTHS)
    size = np.searchsorted(begins, past.widths[row], side="right")
    latest = ended[-10 * RECENT_WAITS :]
    same = latest[np.searchsorted(begins, past.widths[latest], side="right") == size]
    same = same[-RECENT_WAITS:]
    waits = np.sort(past.starts[same] - past.submissions[same])
    longer = waits[waits > moment.now - submission]
    count = len(longer)
    if not count:
        return moment.now, moment.now

    # The normal approximation of the binomial distribution.
    place = min(int(np.ceil(count / 2 + 1.645 * np.sqrt(count) / 2)), count - 1)
    return submission + float(longer[(count - 1) // 2]), submission + float(longer[place])


def with_expected(
    told: Sequence[PastForecast], past: Past, expected: ExpectedStarts, unix_start: float
) -> list[PastForecast]:
    """Return the forecasts, to each of which is added the start that Slurm expected for the job at
    the same moment.

    ``unix_start`` is the date of second 0 (seconds since 1970). InputError if that is known of none
    of the jobs.
    """
    found = []
    for forecast in told:
        start = expected.at(past.jobs[forecast.row].id, forecast.now + unix_start)
        found.append(forecast if start is None else forecast._replace(slurm=start - unix_start))
    if all(math.isnan(forecast.slurm) for forecast in found):
        raise InputError(
            "Slurm's estimates name no job that waits at a moment of the back-test; estimates "
            "of the same machine, with job ids as in the history, are expected"
        )
    return found


def simulated_past(
    past: Past, scheduler: str = "easy", settings: Mapping[str, Any] | None = None
) -> Past:
    """Return a past whose jobs start when a simulated scheduler starts them; run times are cut at
    the time limits.

    Jobs that were cancelled are none of it: they might have started before.
    """
    past = without_cancelled(past)
    past = past._replace(run_times=np.minimum(past.run_times, past.limits))
    rows = np.arange(len(past.submissions))
    moment = Moment(float(past.submissions[0]), rows[:0], rows[past.widths <= past.processors])
    starts = np.full(len(rows), np.nan)
    run_times = past.run_times[moment.waiting]
    starts[moment.waiting] = Simulator(past, scheduler, settings).starts(moment, run_times)
    starts[~np.isfinite(starts)] = np.nan
    if past.nodes is not None:
        past.nodes.keep_places()
    return past._replace(starts=starts)


def without_cancelled(past: Past) -> Past:
    """Return a past without the jobs that were cancelled while they waited."""
    kept = np.flatnonzero(np.isnan(past.cancelled))
    if len(kept) == len(past.cancelled):
        return past
    columns = ("submissions", "starts", "cancelled", "run_times", "limits", "widths", "groups")
    return past._replace(
        **{name: getattr(past, name)[kept] for name in (*columns, "names")},
        jobs=[past.jobs[row] for row in kept.tolist()],
        history=int((kept < past.history).sum()),
        nodes=past.nodes and past.nodes.only(kept.tolist()),
    )
