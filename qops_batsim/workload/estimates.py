"""Run-time estimates as users give them: few round values, usually far too long.

In the spirit of D. Tsafrir, Y. Etsion and D. G. Feitelson, "Modeling user runtime estimates", Job
Scheduling Strategies for Parallel Processing, 2005: about twenty values cover most requests, the
longest allowed is among the most popular, and some jobs run until their estimate is used up.

The model here is simpler than theirs: a killed job runs for exactly the value nearest to the
run time it would have had, any other takes a value that is not below its run time from a
fixed list, with fixed weights.
"""

from __future__ import annotations

import math
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.int64]

HOUR = 3600


class EstimateModel(msgspec.Struct, frozen=True, kw_only=True):
    """Values that users request, how often, and how often they prove too short."""

    table: tuple[tuple[int, float, float], ...]
    """Rows (value, weight, killed share), values ascending: a requested time (whole seconds), its
    weight among the values not below a job's run time, and the share killed at it of the jobs whose
    run time is nearest to it in ratio. The last value is the longest run time of all.
    """

    @property
    def values(self) -> tuple[int, ...]:
        """Requested times (whole seconds), ascending."""
        return tuple(value for value, _, _ in self.table)


def sample_estimates(
    model: EstimateModel, run_times: Integers, generator: np.random.Generator
) -> tuple[Integers, Integers]:
    """Return final run times and estimates (seconds), shape (jobs,) each.

    Run times (from 1 up) change where a job is killed at its estimate: there both are equal.
    Every estimate is at least the run time. Takes two uniform numbers a job.
    """
    values = np.array(model.values, dtype=np.int64)
    weights, killed_shares = np.array([row[1:] for row in model.table], dtype=np.float64).T
    uniform = generator.random((len(run_times), 2))
    run_times = np.minimum(run_times, values[-1])
    nearest = nearest_value(values, run_times)
    killed = uniform[:, 0] < killed_shares[nearest]
    run_times = np.where(killed, values[nearest], run_times)
    # Cumulative weights from 0: the values not below the run time are a tail of them.
    cumulative = np.concatenate(([0.0], np.cumsum(weights)))
    smallest = np.searchsorted(values, run_times)
    below = cumulative[smallest]
    target = below + uniform[:, 1] * (cumulative[-1] - below)
    chosen = np.searchsorted(cumulative, target, side="right") - 1
    chosen = np.clip(chosen, smallest, len(values) - 1)
    return run_times, np.where(killed, run_times, values[chosen])


def nearest_value(values: Integers, run_times: Integers) -> Integers:
    """Return the index of the value nearest in ratio to each run time."""
    borders = np.sqrt(values[:-1].astype(float) * values[1:])
    return np.searchsorted(borders, run_times)


def fit_estimates(
    run_times: NDArray[Any], requests: NDArray[Any], killed_from: float = 1.0
) -> EstimateModel:
    """Return the model of what users request in a log (seconds).

    It has the twenty most common requests, the most common whole hours above them and the longest
    request of all but a thousandth. Jobs count as killed that used up a share of ``killed_from`` of
    their request.
    """
    values_asked, counts = np.unique(requests, return_counts=True)
    longest = math.ceil(np.percentile(requests, 99.9, method="higher") / HOUR) * HOUR
    by_count = values_asked[np.argsort(-counts, kind="stable")]
    common = by_count[:20]
    hours = by_count[(by_count > common.max()) & (by_count < longest) & (by_count % HOUR == 0)]
    values = np.unique(np.concatenate((common, hours[:1], [longest])))
    given = values[np.searchsorted(values, np.minimum(requests, longest))]
    killed = run_times >= killed_from * requests
    # The nearest value to a killed job's run time is what it was killed at.
    nearest = nearest_value(values, np.minimum(run_times, values[-1]))
    alive = ~killed
    hazards, killed_shares = [], []
    for index, value in enumerate(values):
        near = nearest == index
        killed_shares.append(float(killed[near].mean()) if near.any() else 0.0)
        at_risk = alive & (run_times <= value) & (given >= value)
        hazards.append(float((given[at_risk] == value).mean()) if at_risk.any() else 0.0)
    weights, remaining = [], 1.0
    for hazard in hazards:
        weights.append(remaining * hazard)
        remaining *= 1 - hazard
    return EstimateModel(
        table=tuple(
            (int(value), round(weight, 5), round(share, 4))
            for value, weight, share in zip(values, weights, killed_shares, strict=True)
        )
    )
