"""Calibration: moves the quantiles of forecast starts by what earlier ones missed.

A quantile is moved by a quantile of the errors of earlier forecasts of about as long a wait, whose
level follows the outcomes (Y. Romano, E. Patterson, E. Candès, "Conformalized quantile regression",
NeurIPS 2019; I. Gibbs, E. Candès, "Adaptive conformal inference under distribution shift", NeurIPS
2021). Jobs that still wait count as missed by at least the time since (E. Kaplan, P. Meier,
"Nonparametric estimation from incomplete observations", JASA 1958): of a growing queue, those that
start early are known first.
"""

from __future__ import annotations

import functools
from collections import deque
from collections.abc import Sequence
from typing import Annotated, Any, NamedTuple

import msgspec
import numpy as np

from qops_batsim.queue.forecast import quantiles

LEVELS = (0.1, 0.25, 0.5, 0.75, 0.9, 0.95)
"""Levels of the quantiles that a forecast tells."""

MEDIAN = 2
"""Place of the median among :data:`LEVELS`."""

KEPT = LEVELS.index(0.95)
"""Place of the level at which an end can be promised, 95 %."""

INTERVALS = ((0, 4), (1, 3))
"""Intervals that hold 80 and 50 %: the places of their ends among :data:`LEVELS`."""

INNER = slice(1, 4)
"""Places of the quantiles that are moved only as far as their misses exceed chance."""

OUTER = [0, 4, 5]
"""Places of the others."""

WAITS = (0.0, 600.0, 3600.0, 14_400.0, 57_600.0, 230_400.0)
"""Waits (seconds) for which it is learned by how much to move; between them, moves are between."""

STRETCH = 14_400.0
"""Errors are learned of the logarithm of one more than a wait in units of this (seconds): those of
long waits as factors."""

TOLERANCE = 1.0
"""A start counts as within an interval that it misses by less (seconds)."""

RECENT = 400
"""Moments that are learned from, the latest."""

JOBS = 20
"""Most jobs of a moment that are learned from, evenly from its line."""

LEAST = 3
"""Fewest moments; before, quantiles are as drawn."""

ENOUGH = 20
"""Fewest moments with outcomes by which one forecast is preferred to another."""

RATE = 0.01
"""By how much the outcomes of a moment move the level of a correction, if all are on one side."""

ELSEWHERE = 0.05
"""Weight of an error for waits that are not near its own."""

DAY = 86_400.0


class Correction(msgspec.Struct, frozen=True):
    """By how much each quantile of a start with a median about ``wait`` seconds from now is moved,
    by :data:`LEVELS`; in the scale of :func:`stretched`.
    """

    wait: float
    moves: Annotated[
        tuple[float, ...], msgspec.Meta(min_length=len(LEVELS), max_length=len(LEVELS))
    ]


def stretched(waits: np.ndarray) -> np.ndarray:
    """Return waits (seconds) in the scale in which errors are learned; none is below 0."""
    found: np.ndarray = np.log1p(np.maximum(waits, 0.0) / STRETCH)
    return found


_PLACES = stretched(np.array(WAITS))


def smooth_quantiles(starts: np.ndarray) -> np.ndarray:
    """Return the quantiles of simulated starts (s) by job and :data:`LEVELS`: means of the starts
    around each, which vary less than one of them (F. Harrell, C. Davis, Biometrika 1982).

    Of the draws in which the job is not cancelled (NaN); infinite where that draw is.
    """
    found = quantiles(starts, LEVELS)
    ordered = np.sort(starts, axis=0)
    counts = np.sum(~np.isnan(starts), axis=0)
    for count in np.unique(counts[counts > 0]).tolist():
        jobs = np.flatnonzero(counts == count)
        known = ordered[:count, jobs]
        weights = _weights(count)
        is_finite = np.isfinite(known)
        total = np.maximum(weights @ is_finite, 1e-300)
        means = weights @ np.where(is_finite, known, 0.0) / total
        found[:, jobs] = np.where(np.isfinite(found[:, jobs]), means, np.inf)
    return np.sort(found, axis=0).T


@functools.cache
def _weights(count: int) -> Any:
    """Return the weights of ``count`` ordered draws in a mean around each of the levels: the
    density of the order statistic, a beta distribution, in as many equal parts.
    """
    steps = 50
    at = (np.arange(count * steps) + 0.5) / (count * steps)
    level = np.array(LEVELS)[:, None]
    logs = ((count + 1) * level - 1) * np.log(at) + ((count + 1) * (1 - level) - 1) * np.log1p(-at)
    density = np.exp(logs - logs.max(axis=1, keepdims=True))
    weights = density.reshape(len(LEVELS), count, steps).sum(axis=2)
    weights /= weights.sum(axis=1, keepdims=True)
    return weights


def corrected(drawn: np.ndarray, corrections: Sequence[Correction], now: float) -> Any:
    """Return quantiles of starts (s; by job and level) moved by the corrections for such waits:
    ascending, none before ``now``.
    """
    waits = stretched(drawn - now)
    if corrections:
        moves = np.array([each.moves for each in corrections])
        columns = [np.interp(waits[:, MEDIAN], _PLACES, by_wait) for by_wait in moves.T]
        waits = np.maximum(waits + np.stack(columns, axis=1), 0.0)
    dates = now + STRETCH * np.expm1(waits)

    # Where they cross, the ends of the intervals count: what is moved less gives way.
    ends = np.sort(dates[:, OUTER], axis=1)
    dates[:, OUTER] = ends
    dates[:, INNER] = np.sort(np.clip(dates[:, INNER], ends[:, :1], ends[:, 1:2]), axis=1)
    return dates


def widened(told: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Return quantiles of starts (s; by job and level) whose outer ones are as far out as those of
    either forecast; the inner ones are those of ``told``.
    """
    found = told.copy()
    early, *late = OUTER
    found[:, early] = np.minimum(told, other)[:, early]
    found[:, late] = np.maximum(told, other)[:, late]
    return found


def alike(dates: np.ndarray) -> Any:
    """Return dates as all quantiles of a forecast that tells no chances, by job and level."""
    return np.repeat(dates[:, None], len(LEVELS), axis=1)


class _Told(NamedTuple):
    """Forecasts of a moment and what came; rows are jobs, columns levels or :data:`WAITS`.

    ``weight`` is that of each job, ``near`` says which waits they are near, ``seen`` and
    ``seen_drawn`` of which quantiles it is known whether the start was before, as told and as
    drawn.
    """

    now: float
    starts: np.ndarray
    drawn: np.ndarray
    told: np.ndarray
    weight: float
    near: np.ndarray
    seen: np.ndarray
    seen_drawn: np.ndarray


class Calibration:
    """Learns by how much to move the quantiles of forecast starts.

    A moment counts as the square root of its jobs: these start late together, though not all.
    """

    def __init__(self) -> None:
        self._told = deque[_Told](maxlen=RECENT)
        self._coming: list[_Told] = []
        self._levels = np.tile(LEVELS, (len(WAITS), 1))
        self._excess: dict[float, np.ndarray] = {}  # Starts before each quantile, less its level.

    def remember(self, now: float, starts: np.ndarray, drawn: np.ndarray, told: np.ndarray) -> None:
        """Remember forecasts of a moment, as drawn and as told, with the starts that will come, so
        that the calibration learns from these once they are known.
        """
        rows = np.flatnonzero(np.isfinite(drawn).all(axis=1))
        if not len(rows):
            return
        count = len(rows)
        rows = rows[np.linspace(0, count - 1, min(count, JOBS)).astype(np.int64)]
        waits = stretched(drawn[rows, MEDIAN] - now)
        near = np.stack([np.interp(waits, _PLACES, one) for one in np.eye(len(WAITS))], axis=1)
        seen = np.zeros((len(rows), len(LEVELS)), bool)
        weight = count**0.5 / len(rows)
        of = _Told(now, starts[rows], drawn[rows], told[rows], weight, near, seen, seen.copy())
        self._told.append(of)
        self._coming.append(of)

    def come_to(self, now: float) -> None:
        """Learn from what has started by ``now`` (seconds), and what has not though it was told."""
        for of in self._coming:
            share = 1 / len(of.starts)
            misses = _misses(of.starts, of.told, of.seen, now)
            self._levels -= RATE * share * (of.near.T @ misses)
            np.clip(self._levels, 0.0, 1.0, out=self._levels)

            # The starts of a day are one observation of whether quantiles are off.
            misses = _misses(of.starts, of.drawn, of.seen_drawn, now)
            day = self._excess.setdefault(of.now // DAY, np.zeros(len(LEVELS)))
            day += share * misses.sum(axis=0)
        self._coming = [of for of in self._coming if not (of.seen.all() and of.seen_drawn.all())]

    def corrections(self, now: float) -> list[Correction]:
        """Return by how much to move quantiles at the date ``now``; none before there is enough to
        learn from.
        """
        if len(self._told) < LEAST:
            return []
        dates = np.concatenate([np.full(len(of.starts), of.now) for of in self._told])
        starts = np.concatenate([of.starts for of in self._told])
        drawn = np.concatenate([of.drawn for of in self._told])
        weights = np.concatenate([(of.near + ELSEWHERE) * of.weight for of in self._told])
        is_known = starts <= now
        waits = stretched(np.minimum(starts, now) - dates)
        errors = waits[:, None] - stretched(drawn - dates[:, None])
        moves = np.stack(
            [
                _quantiles_of_errors(errors[:, place], is_known, weights, self._levels[:, place])
                for place in range(len(LEVELS))
            ],
            axis=1,
        )
        moves *= self._certainty()
        return [Correction(wait, tuple(by)) for wait, by in zip(WAITS, moves.tolist(), strict=True)]

    def _certainty(self) -> np.ndarray:
        """Return which share of its moves each quantile is moved: of the inner ones, less where
        their misses are hardly more than chance.
        """
        days = np.array(list(self._excess.values()))
        found = np.ones(len(LEVELS))
        squares = (days**2).sum(axis=0)
        of_sum = np.maximum(days.sum(axis=0) ** 2, 1e-300)
        found[INNER] = np.maximum(1.0 - squares / of_sum, 0.0)[INNER]
        return found


def _misses(starts: np.ndarray, dates: np.ndarray, seen: np.ndarray, now: float) -> Any:
    """Return, by job and level, whether a start was before the date told, less the level; 0 where
    that is not known by now, or was ``seen``, which is brought up to date.
    """
    by = dates + TOLERANCE
    is_new = (np.minimum(starts[:, None], by) <= now) & ~seen
    seen |= is_new
    return np.where(is_new, (starts[:, None] <= by) - np.array(LEVELS), 0.0)


def _quantiles_of_errors(
    errors: np.ndarray, is_known: np.ndarray, weights: np.ndarray, levels: np.ndarray
) -> np.ndarray:
    """Return a quantile of errors by column of ``weights``, at its level; an error that is not
    known is at least as large.
    """
    order = np.argsort(errors, kind="stable")
    errors = errors[order]
    weights = weights[order]
    at_risk = weights[::-1].cumsum(axis=0)[::-1]
    left = np.cumprod(1.0 - is_known[order][:, None] * weights / at_risk, axis=0)
    places = np.sum(1.0 - left < levels - 1e-9, axis=0)
    found: np.ndarray = errors[np.minimum(places, len(errors) - 1)]
    return found


class BestForecast:
    """Which of several forecasts has had the least loss so far, as far as starts are known.

    Parameters
    ----------
    count
        Number of forecasts; the first is chosen until the outcomes of :data:`ENOUGH` moments are
        known.
    """

    def __init__(self, count: int) -> None:
        self._losses = np.zeros(count)
        self._coming: list[tuple[np.ndarray, np.ndarray]] = []
        self._outcomes = 0.0

    def remember(self, starts: np.ndarray, losses: np.ndarray) -> None:
        """Remember the losses of a moment (by forecast and job) until the starts are known."""
        self._coming.append((starts, losses / len(starts)))

    def best(self, now: float) -> int:
        """Return the number of the forecast with the least loss by ``now`` (seconds)."""
        waiting = []
        for starts, losses in self._coming:
            is_known = starts <= now
            self._losses += losses[:, is_known].sum(axis=1)
            self._outcomes += is_known.mean() if len(starts) else 0.0
            waiting.append((starts[~is_known], losses[:, ~is_known]))
        self._coming = [each for each in waiting if len(each[0])]
        return int(self._losses.argmin()) if self._outcomes >= ENOUGH else 0
