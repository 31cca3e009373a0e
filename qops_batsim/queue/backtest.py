"""Back-test of forecasts: forecasts made for past moments, compared with what happened then.

Quantiles are calibrated by how far those of earlier moments missed, as far as outcomes were known
by then (Y. Romano, E. Patterson, E. Candès, "Conformalized quantile regression", NeurIPS 2019; I.
Gibbs, E. Candès, "Adaptive conformal inference under distribution shift", NeurIPS 2021).
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from heapq import heappop, heappush
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import msgspec
import numpy as np

from qops_batsim.errors import InputError, shown
from qops_batsim.experiments.statistics import LEVEL, quantile
from qops_batsim.files import decoded, read_bytes
from qops_batsim.queue.expected_starts import ExpectedStarts
from qops_batsim.queue.forecast import (
    WEEK,
    Moment,
    Simulator,
    moment_of,
    quantiles,
    waiting_at,
)
from qops_batsim.queue.past import Habits, Past, Patience
from qops_batsim.workload.other_json import refuse_other_json

LEVELS = (0.1, 0.25, 0.5, 0.75, 0.9, 0.95)
"""Levels of the quantiles that a forecast tells."""

MEDIAN = 2
"""Place of the median among :data:`LEVELS`."""

KEPT = LEVELS.index(0.95)
"""Place of the level at which an end can be promised, 95 %."""

INTERVALS = ((0, 4), (1, 3))
"""Intervals that hold 80 and 50 %: the places of their ends among :data:`LEVELS`."""

HORIZONS = (600.0, 3600.0, 14_400.0, 57_600.0)
"""Longest waits (seconds) of classes of forecasts that are calibrated together, but the last."""

TOLERANCE = 1.0
"""A start counts as within an interval that it misses by less (seconds)."""

RECENT = 2_000
"""Outcomes that quantiles are calibrated by, the latest."""

LEAST = 50
"""Fewest of these; before, quantiles are as drawn."""

RATE = 0.02
"""By how much the outcomes of a moment move the level of a correction, if all are on one side."""

ATTEMPTS = 20
"""Moments that are drawn for each one that is wanted, at most: at many nothing may wait."""

RECENT_WAITS = 200
"""Ended waits that a forecast without a model is made of."""

WIDTHS = {1: "1 processor", 2: "2 to 8 processors", 9: "9 to 32", 33: "33 or more"}
"""Names of classes of processors, by where they begin."""

HOURS = {0: "below 1 h", 1: "1 to 4 h", 4: "4 to 12 h", 12: "12 to 24 h", 24: "a day or more"}
"""Names of classes of limits and of waits, by where they begin (hours)."""


class PastForecast(NamedTuple):
    """A forecast of when a job would start, made for a past moment at which the job waited, with
    its real start; dates in seconds.

    ``drawn`` are quantiles of simulated starts by :data:`LEVELS`, ``levels`` these as calibrated;
    the others are forecasts without a model of what comes: the plan by limits, the median of recent
    waits of its class of processors, an upper bound on that, and what Slurm expected, NaN if that
    is not known.
    """

    now: float
    row: int
    start: float
    drawn: tuple[float, ...]
    levels: tuple[float, ...]
    planned: float
    recent: float
    bound: float
    slurm: float = math.nan


class Correction(msgspec.Struct, frozen=True):
    """How many seconds each quantile of a forecast start is moved, by :data:`LEVELS`; it is for
    forecasts with about as long a wait.

    The class has medians of at most ``horizon`` seconds from the moment on; None: all longer ones.
    """

    horizon: float | None
    moves: Annotated[
        tuple[float, ...], msgspec.Meta(min_length=len(LEVELS), max_length=len(LEVELS))
    ]


class _Backtest(msgspec.Struct):
    """The fields that are read from the JSON of a back-test."""

    scheduler: str
    corrections: Annotated[
        list[Correction],
        msgspec.Meta(min_length=len(HORIZONS) + 1, max_length=len(HORIZONS) + 1),
    ]


def read_corrections(path: Path, scheduler: str) -> list[Correction]:
    """Read the corrections of forecasts that `queue backtest --json` wrote; raise InputError if
    they are of another scheduler.
    """
    content = read_bytes(path, what="a back-test")
    what = "the output of `queue backtest --json`"

    try:
        found = decoded(content, msgspec.json.Decoder(_Backtest), path, what)
    except InputError:
        refuse_other_json(content, str(path), what)
        raise
    if found.scheduler != scheduler:
        raise InputError(
            f"{path}: the back-test is of scheduler {shown(found.scheduler)}; one of "
            f"{shown(scheduler)}, the scheduler of this forecast, is expected"
        )
    return found.corrections


class Calibration:
    """Learns from jobs that have started by how much to move the quantiles of forecast starts.

    A quantile is moved by a quantile of what starts missed that level by, in forecasts of about as
    long a wait; which one of them, that follows how often starts came before what was told. The
    median is moved only where that has made errors smaller so far.
    """

    def __init__(self) -> None:
        classes = range(len(HORIZONS) + 1)
        self._errors = [[deque[float](maxlen=RECENT) for _ in LEVELS] for _ in classes]
        self._levels = [list(LEVELS) for _ in classes]
        self._gains = [0.0 for _ in classes]  # Errors of medians as drawn, less those as moved.
        self._coming: list[tuple[float, int, PastForecast, float, float]] = []
        self._count = 0

    def await_outcome(self, told: PastForecast, weight: float = 1.0) -> None:
        """Remember a forecast, so that the calibration learns from it once its job has started.

        With a weight that is its part of the forecasts of a moment, whose jobs start late together.
        """
        self._count += 1
        moved = told.drawn[MEDIAN] + self._move(horizon_of(told.drawn, told.now), MEDIAN)
        heappush(self._coming, (told.start, self._count, told, max(moved, told.now), weight))

    def come_to(self, now: float) -> None:
        """Learn from the remembered forecasts whose jobs have started by ``now`` (seconds)."""
        while self._coming and self._coming[0][0] <= now:
            _, _, told, moved, weight = heappop(self._coming)
            kind = horizon_of(told.drawn, told.now)
            start = told.start
            self._gains[kind] += abs(told.drawn[MEDIAN] - start) - abs(moved - start)
            for place, level in enumerate(LEVELS):
                self._errors[kind][place].append(start - told.drawn[place])
                before = start <= told.levels[place]
                follows = self._levels[kind][place] + RATE * weight * (level - before)
                self._levels[kind][place] = min(max(follows, 0.0), 1.0)

    def corrections(self) -> list[Correction]:
        """Return by how much to move the quantiles of forecasts now, one correction for each class
        of waits (:data:`HORIZONS`).
        """
        found = []
        for kind, horizon in enumerate((*HORIZONS, None)):
            moves = [self._move(kind, place) for place in range(len(LEVELS))]
            if self._gains[kind] <= 0.0:
                moves[MEDIAN] = 0.0
            found.append(Correction(horizon, tuple(moves)))
        return found

    def _move(self, kind: int, place: int) -> float:
        errors = self._errors[kind][place]
        if len(errors) < LEAST:
            return 0.0
        return float(np.quantile(errors, self._levels[kind][place]))


def horizon_of(drawn: Sequence[float], now: float) -> int:
    """Return the index of the class of waits (:data:`HORIZONS`) to which a forecast belongs by its
    median; ``drawn`` are quantiles of the start.
    """
    return int(np.searchsorted(HORIZONS, drawn[MEDIAN] - now))


def corrected(
    drawn: Sequence[float], corrections: Sequence[Correction], now: float
) -> tuple[float, ...]:
    """Return the quantiles ``drawn`` of a job's start, moved by the correction for their class of
    waits: ascending, none before ``now`` (seconds).
    """
    if not corrections:
        return tuple(drawn)
    moves = corrections[horizon_of(drawn, now)].moves
    moved = [date + by for date, by in zip(drawn, moves, strict=True)]
    middle = max(moved[MEDIAN], now)
    lows = (min(max(date, now), middle) for date in sorted(moved[:MEDIAN]))
    return *lows, middle, *(max(date, middle) for date in sorted(moved[MEDIAN + 1 :]))


def backtest(
    past: Past,
    simulator: Simulator,
    *,
    moments: int = 1_000,
    draws: int = 100,
    seed: int = 1,
    span: tuple[float, float] | None = None,
    on_progress: Callable[[int], None] | None = None,
) -> tuple[list[PastForecast], list[Correction]]:
    """Forecast starts at random past moments; return the forecasts with the real starts, and the
    corrections learned from them.

    The corrections are learned from all of these forecasts, for later ones.

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
    calibration = Calibration()

    found: list[PastForecast] = []
    for count, now in enumerate(dates, 1):
        habits.known = int(np.searchsorted(end_dates, now, side="right"))
        last = int(np.searchsorted(wait_dates, now, side="right"))
        patience.learn(waited[waits_known:last])
        waits_known = last
        calibration.come_to(now)

        corrections = calibration.corrections()
        moment = moment_of(past, now)
        starts = quantiles(simulator.forecast(moment, habits, draws, rng, patience), LEVELS)
        plan = simulator.planned(moment)
        started = np.flatnonzero(np.isfinite(past.starts[moment.waiting])).tolist()
        for place in started:
            row = int(moment.waiting[place])
            drawn = tuple(starts[:, place].tolist())
            forecast = PastForecast(
                now,
                row,
                float(past.starts[row]),
                drawn,
                corrected(drawn, corrections, now),
                float(plan[place]),
                *recent_waits(past, ended[: habits.known], moment, row),
            )
            found.append(forecast)
            # Jobs of a moment start late together: it counts as one outcome.
            calibration.await_outcome(forecast, 1 / len(started))
        if on_progress is not None:
            on_progress(count)
    calibration.come_to(math.inf)
    return found, calibration.corrections()


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
    corrections
        Those that were learned, for later forecasts.
    classes
        How accurate the forecasts were: first of all jobs, then of classes of these.
    promises
        How many ends that each forecast might have promised would have been kept, if any.
    moments
        Number of moments at which a job waited.
    """

    told: Sequence[PastForecast]
    corrections: list[Correction]
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

    told, corrections = backtest(
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
        corrections,
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


class Coverage(msgspec.Struct, frozen=True, kw_only=True):
    """How accurate the forecasts of a group of jobs were: shares in percent, errors in seconds.

    Attributes
    ----------
    coverage_50, coverage_80
        Share of starts inside the calibrated intervals, with their 95 % intervals, in which jobs of
        a week are one observation; None for a single week.
    raw_50, raw_80
        The same of intervals as drawn.
    median_error
        Median of absolute errors of the median; ``of_plan``, ``of_recent_waits`` and ``of_bound``
        of the plan by limits, of the median of recent waits and of the bound on it; ``of_slurm`` of
        what Slurm expected, in the forecasts where that is known, None if it never is.
    pinball
        Mean pinball loss of the quantiles.
    """

    group: str
    forecasts: int
    coverage_50: float
    coverage_50_interval: tuple[float, float] | None
    coverage_80: float
    coverage_80_interval: tuple[float, float] | None
    raw_50: float
    raw_80: float
    median_error: float
    of_plan: float
    of_recent_waits: float
    of_bound: float
    of_slurm: float | None
    pinball: float


def coverage(told: Sequence[PastForecast], group: str = "all") -> Coverage:
    """Return how accurate forecasts of starts were; ``told`` are the forecasts, at least one, and
    ``group`` names their jobs.
    """
    of = columns(told)
    start = of.start[:, None]
    weeks = np.unique((of.now / WEEK).astype(np.int64), return_inverse=True)[1]

    def inside(quantiles: np.ndarray, first: int, last: int) -> Any:
        is_late_enough: np.ndarray = quantiles[:, first] - TOLERANCE <= of.start
        return 100.0 * (is_late_enough & (of.start <= quantiles[:, last] + TOLERANCE))

    def error(dates: np.ndarray) -> float:
        return float(np.nanmedian(np.abs(dates - of.start)))

    wide, narrow = (inside(of.levels, *ends) for ends in INTERVALS)
    raw_wide, raw_narrow = (inside(of.drawn, *ends) for ends in INTERVALS)
    missed = start - of.levels
    loss = np.maximum(np.array(LEVELS) * missed, (np.array(LEVELS) - 1.0) * missed)
    return Coverage(
        group=group,
        forecasts=len(told),
        coverage_50=float(narrow.mean()),
        coverage_50_interval=clustered(narrow, weeks),
        coverage_80=float(wide.mean()),
        coverage_80_interval=clustered(wide, weeks),
        raw_50=float(raw_narrow.mean()),
        raw_80=float(raw_wide.mean()),
        median_error=error(of.levels[:, MEDIAN]),
        of_plan=error(of.planned),
        of_recent_waits=error(of.recent),
        of_bound=error(of.bound),
        of_slurm=None if np.isnan(of.slurm).all() else error(of.slurm),
        pinball=float(loss.mean()),
    )


def columns(told: Sequence[PastForecast]) -> Any:
    """Return the fields of forecasts, at least one, as arrays; quantiles by forecast and level."""
    return PastForecast._make(map(np.array, zip(*told, strict=True)))


def clustered(values: np.ndarray, clusters: np.ndarray) -> tuple[float, float] | None:
    """Return the 95 % confidence interval of a mean of percentages that are correlated within
    ``clusters`` (the number of each value's cluster).

    By linearization of the ratio of sums (Cochran, Sampling Techniques, 1977, section 9A). Where
    all clusters are alike, that has no width; then by Wilson (1927), as of one observation a
    cluster. None for one cluster.
    """
    mean = float(values.mean())
    count = int(clusters.max()) + 1
    if count == 1:
        return None

    excess = np.bincount(clusters, values - mean)
    reach = quantile(LEVEL, count - 1)
    error = math.sqrt(float((excess**2).sum()) * count / (count - 1)) / len(values)
    if error >= 1e-9:
        return max(mean - reach * error, 0.0), min(mean + reach * error, 100.0)

    # Wilson's interval of a share.
    share = mean / 100.0
    square = reach**2
    middle = (share + square / (2 * count)) / (1 + square / count)
    half = math.sqrt(share * (1 - share) / count + square / (4 * count**2))
    half *= reach / (1 + square / count)
    return max(100.0 * (middle - half), 0.0), min(100.0 * (middle + half), 100.0)


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


def coverages(told: Sequence[PastForecast], past: Past) -> list[Coverage]:
    """Return how accurate forecasts were: of all jobs, then by partition, processors, time limit
    and wait so far.
    """
    classes: dict[tuple[int, float, str], list[PastForecast]] = {(0, 0.0, "all"): list(told)}
    for forecast in told:
        row = forecast.row
        waited = (forecast.now - past.submissions[row]) / 3600
        kinds = [
            (0.0, f"partition {past.names[row][2]}"),
            class_of(past.widths[row], WIDTHS),
            class_of(past.limits[row] / 3600, HOURS, "limit "),
            class_of(waited, HOURS, "waited "),
        ]
        if not math.isnan(forecast.slurm):
            kinds.append((0.0, "Slurm expects a start"))
        for place, kind in enumerate(kinds, 1):
            classes.setdefault((place, *kind), []).append(forecast)

    # Classes of few forecasts tell nothing, one of all tells nothing new.
    return [
        coverage(classes[kind], kind[2])
        for kind in sorted(classes)
        if kind[0] == 0 or LEAST <= len(classes[kind]) < len(told)
    ]


def class_of(value: float, names: Mapping[int, str], what: str = "") -> tuple[float, str]:
    """Return the class that contains a value: its lower limit, and its name after ``what``;
    ``names`` are by lower limit.
    """
    begin = max(least for least in names if least <= value)
    return begin, what + names[begin]


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


class KeptPromises(msgspec.Struct, frozen=True, kw_only=True):
    """How many ends that were to be kept with a chance of 95 % were kept in a back-test; shares in
    percent.

    Attributes
    ----------
    promises
        How many there were: some jobs perhaps never start.
    kept
        Share of ends that came in time.
    started
        Share of starts that left the whole limit until the promised end.
    slack
        Mean time from the end to the promised one (seconds).
    plan_kept, plan_slack
        The same of ends in the plan by time limits.
    """

    promises: int
    kept: float
    started: float
    slack: float
    plan_kept: float
    plan_slack: float


def kept_promises(told: Sequence[PastForecast], past: Past) -> KeptPromises | None:
    """Return how many ends would have been kept if each forecast had promised its job an end with a
    chance of 95 %; None without forecasts of that.
    """
    told = [forecast for forecast in told if forecast.levels[KEPT] < math.inf]
    if not told:
        return None

    of = columns(told)
    limits = past.limits[of.row]
    ends = past.ends[of.row]
    by = of.levels[:, KEPT] + limits
    plan = of.planned + limits

    def share(is_kept: np.ndarray) -> float:
        return float(100.0 * is_kept.mean())

    return KeptPromises(
        promises=len(told),
        kept=share(ends <= by + TOLERANCE),
        started=share(of.start + limits <= by + TOLERANCE),
        slack=float((by - ends).mean()),
        plan_kept=share(ends <= plan + TOLERANCE),
        plan_slack=float((plan - ends).mean()),
    )
