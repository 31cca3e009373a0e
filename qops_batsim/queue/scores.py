"""Scores of forecasts of starts: how often starts came in the intervals told, and by how much the
forecasts missed.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
import numpy as np

from qops_batsim.experiments.statistics import LEVEL, quantile
from qops_batsim.queue.calibration import INTERVALS, KEPT, LEVELS, MEDIAN, TOLERANCE
from qops_batsim.queue.forecast import WEEK
from qops_batsim.queue.past import Past

BLOCK = 4 * WEEK
"""Jobs of so long a time (seconds) are one observation: those of neighbouring weeks wait alike."""

FEWEST = 50
"""Fewest forecasts of a class that is told of."""

UNKNOWN = (math.nan,) * len(LEVELS)

WIDTHS = {1: "1 processor", 2: "2 to 8 processors", 9: "9 to 32", 33: "33 or more"}
"""Names of classes of processors, by where they begin."""

HOURS = {0: "below 1 h", 1: "1 to 4 h", 4: "4 to 12 h", 12: "12 to 24 h", 24: "a day or more"}
"""Names of classes of limits and of waits, by where they begin (hours)."""

YEAR = 365 * 86_400.0


class PastForecast(NamedTuple):
    """A forecast of when a job would start, made for a past moment at which the job waited, with
    its real start; dates in seconds.

    ``drawn`` are quantiles of simulated starts by :data:`LEVELS`, ``levels`` what is told. The
    others are forecasts without a model of what comes: the plan by limits, the median of recent
    waits of its class of processors, an upper bound on that, and what Slurm expected, NaN if that
    is not known; ``by_plan`` and ``by_recent`` are the first two calibrated as the simulations are.
    ``crps`` is the continuous ranked probability score of the draws (seconds), ``is_unlike``
    whether the queue was unlike those before.
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
    by_plan: tuple[float, ...] = UNKNOWN
    by_recent: tuple[float, ...] = UNKNOWN
    crps: float = math.nan
    is_unlike: bool = False


class Coverage(msgspec.Struct, frozen=True, kw_only=True):
    """How accurate the forecasts of a group of jobs were: shares in percent, errors in seconds.

    Attributes
    ----------
    coverage_50, coverage_80
        Share of starts inside the intervals told, with their 95 % intervals, in which jobs of four
        weeks (:data:`BLOCK`) are one observation; None for a single one.
    raw_50, raw_80
        The same of intervals as drawn.
    median_error
        Median of absolute errors of the median; ``of_plan``, ``of_recent_waits`` and ``of_bound``
        of the plan by limits, of the median of recent waits and of the bound on it; ``of_slurm`` of
        what Slurm expected, in the forecasts where that is known, None if it never is.
    width
        Median width of the interval of 80 %.
    pinball
        Mean pinball loss of the quantiles told; ``pinball_drawn`` of those of the simulations as
        drawn, ``pinball_of_plan`` and ``pinball_of_recent_waits`` of the plan by limits and of
        recent waits, which are calibrated as the simulations are.
    crps
        Mean continuous ranked probability score of the simulations as drawn.
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
    width: float
    pinball: float
    pinball_drawn: float
    pinball_of_plan: float
    pinball_of_recent_waits: float
    crps: float


def coverage(told: Sequence[PastForecast], group: str = "all", block: float = BLOCK) -> Coverage:
    """Return how accurate forecasts of starts were; ``told`` are the forecasts, at least one, and
    ``group`` names their jobs. Those of a ``block`` of time (seconds) are one observation.
    """
    of = columns(told)
    blocks = np.unique((of.now / block).astype(np.int64), return_inverse=True)[1]

    def inside(quantiles: np.ndarray, first: int, last: int) -> Any:
        is_late_enough: np.ndarray = quantiles[:, first] - TOLERANCE <= of.start
        return 100.0 * (is_late_enough & (of.start <= quantiles[:, last] + TOLERANCE))

    def error(dates: np.ndarray) -> float:
        return float(np.nanmedian(np.abs(dates - of.start)))

    first, last = INTERVALS[0]
    wide, narrow = (inside(of.levels, *ends) for ends in INTERVALS)
    raw_wide, raw_narrow = (inside(of.drawn, *ends) for ends in INTERVALS)
    return Coverage(
        group=group,
        forecasts=len(told),
        coverage_50=float(narrow.mean()),
        coverage_50_interval=clustered(narrow, blocks),
        coverage_80=float(wide.mean()),
        coverage_80_interval=clustered(wide, blocks),
        raw_50=float(raw_narrow.mean()),
        raw_80=float(raw_wide.mean()),
        median_error=error(of.levels[:, MEDIAN]),
        of_plan=error(of.planned),
        of_recent_waits=error(of.recent),
        of_bound=error(of.bound),
        of_slurm=None if np.isnan(of.slurm).all() else error(of.slurm),
        width=float(np.median(of.levels[:, last] - of.levels[:, first])),
        pinball=float(pinball(of.start, of.levels).mean()),
        pinball_drawn=float(pinball(of.start, of.drawn).mean()),
        pinball_of_plan=float(pinball(of.start, of.by_plan).mean()),
        pinball_of_recent_waits=float(pinball(of.start, of.by_recent).mean()),
        crps=float(of.crps.mean()),
    )


def pinball(starts: np.ndarray, dates: np.ndarray) -> Any:
    """Return the pinball losses of quantiles of starts (s), by job and :data:`LEVELS`."""
    missed = starts[:, None] - dates
    levels = np.array(LEVELS)
    return np.maximum(levels * missed, (levels - 1.0) * missed)


def crps(starts: np.ndarray, draws: np.ndarray) -> Any:
    """Return the continuous ranked probability scores (s) of simulated starts, by draw and job
    (T. Gneiting, A. Raftery, JASA 2007); NaN where the job is cancelled in all draws.
    """
    ordered = np.sort(draws, axis=0)
    counts = np.sum(~np.isnan(ordered), axis=0)
    ranks = 2.0 * np.arange(1, len(ordered) + 1)[:, None] - counts - 1.0
    with np.errstate(divide="ignore", invalid="ignore"):
        error = np.nansum(np.abs(ordered - starts), axis=0) / counts
        spread = np.nansum(ranks * (ordered - starts), axis=0) / counts**2
        return error - spread


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


def coverages(told: Sequence[PastForecast], past: Past) -> list[Coverage]:
    """Return how accurate forecasts were: of all jobs, then by half of the history, wait that was
    forecast, partition, processors, time limit and wait so far, and of unlike queues.
    """
    classes: dict[tuple[int, float, str], list[PastForecast]] = {(0, 0.0, "all"): list(told)}
    middle = (told[0].now + told[-1].now) / 2
    for forecast in told:
        row = forecast.row
        waited = (forecast.now - past.submissions[row]) / 3600
        wait = max(min(forecast.levels[MEDIAN] - forecast.now, YEAR), 0.0)
        kinds = [
            (0.0, "first half") if forecast.now < middle else (1.0, "second half"),
            class_of(wait / 3600, HOURS, "forecast to wait "),
            (0.0, f"partition {past.names[row][2]}"),
            class_of(past.widths[row], WIDTHS),
            class_of(past.limits[row] / 3600, HOURS, "limit "),
            class_of(waited, HOURS, "waited "),
        ]
        if not math.isnan(forecast.slurm):
            kinds.append((0.0, "Slurm expects a start"))
        if forecast.is_unlike:
            kinds.append((1.0, "queue unlike those before"))
        for place, kind in enumerate(kinds, 1):
            classes.setdefault((place, *kind), []).append(forecast)

    # Classes of few forecasts tell nothing, one of all tells nothing new.
    return [
        coverage(classes[kind], kind[2])
        for kind in sorted(classes)
        if kind[0] == 0 or FEWEST <= len(classes[kind]) < len(told)
    ]


def class_of(value: float, names: Mapping[int, str], what: str = "") -> tuple[float, str]:
    """Return the class that contains a value: its lower limit, and its name after ``what``;
    ``names`` are by lower limit.
    """
    begin = max(least for least in names if least <= value)
    return begin, what + names[begin]


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
