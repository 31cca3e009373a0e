"""Fit the presets of ``qops_batsim/workload/presets.json`` to real logs.

    python studies/presets            # fit, then compare: two minutes
    python studies/presets --quick    # compare the shipped presets: a second

The first form prints the parameters as an entry of ``presets.json`` and then the
tables of README.md (model against log). Logs are read from QOPS_SHARED (default
../shared).

What is fitted, and how:

* sizes: serial share as counted; the other parameters by maximum likelihood of the
  sizes, the chance powers of two included;
* run times: maximum likelihood of the two gamma distributions and of the linear
  probability between them, on the binned natural logarithm, cut at the longest run time;
* daily cycle: maximum likelihood of the arrivals' half hours, local time;
* gaps: after the daily cycle is taken out, cut at the longest but one per cent, with
  shape and scale such that their mean and their mean logarithm are those of the log
  (maximum likelihood would give a far too long tail);
* estimates: the twenty most common requests, the longest one and the most common
  whole number of hours between; every other request counts for the next value up.
  Weights by the product-limit estimator for truncated data (a request is only seen
  if it is at least the run time).
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import NamedTuple
from zoneinfo import ZoneInfo

import msgspec
import numpy as np

if __name__ == "__main__":  # the checkout, which has the studies
    sys.path.append(str(Path(__file__).resolve().parents[2]))

from qops_batsim.experiments import find_trace, markdown_table
from qops_batsim.workload import PRESETS, EstimateModel, fit_estimates, sample_estimates
from qops_batsim.workload.lublin import (
    BUCKETS_A_DAY,
    FIRST_BUCKET,
    SECONDS_A_DAY,
    ArrivalModel,
    LublinModel,
    RunTimeModel,
    SizeModel,
    gamma_table,
    random_stream,
    sample_sizes_and_run_times,
    sample_submissions,
)
from studies.shared import arguments, print_or_put, run_main, settings_of


class LogFile(NamedTuple):
    """A log of the Parallel Workloads Archive and what its header says or lacks."""

    file: str
    processors: int
    unix_start: int
    killed_from: float
    zone: str | None = None


SETTINGS = settings_of(__file__)
LOGS = {name: LogFile(**log) for name, log in SETTINGS["logs"].items()}


class Jobs(NamedTuple):
    """Columns of jobs, from a log or from the model (seconds, processors)."""

    submitted: np.ndarray
    sizes: np.ndarray
    run_times: np.ndarray
    estimates: np.ndarray


def read_log(log: LogFile) -> Jobs:
    """Read the jobs with a run time, a size the machine has, and a request."""
    rows = np.loadtxt(find_trace(log.file, Path()), comments=";")
    submitted, run, size, requested = (rows[:, column] for column in (1, 3, 4, 8))
    usable = (run > 0) & (size > 0) & (size <= log.processors) & (requested > 0)
    columns = (column[usable].astype(np.int64) for column in (submitted, size, run, requested))
    return Jobs(*columns)


# Fitting


def minimise(
    function: Callable[[np.ndarray], float], start: list[float], step: float = 0.1
) -> np.ndarray:
    """Return the place of a minimum (simplex method of Nelder and Mead, restarted)."""
    best = np.array(start)
    for _ in range(4):
        corners = [best] + [
            best + step * max(abs(best[i]), 0.1) * unit for i, unit in enumerate(np.eye(len(best)))
        ]
        simplex = sorted((function(corner), tuple(corner)) for corner in corners)
        for _ in range(400 * len(best)):
            if simplex[-1][0] - simplex[0][0] < 1e-9 * (1 + abs(simplex[0][0])):
                break
            points = np.array([corner for _, corner in simplex])
            centre, worst = points[:-1].mean(axis=0), points[-1]

            def towards(factor: float, centre=centre, worst=worst) -> tuple[float, tuple]:
                corner = centre + factor * (worst - centre)
                return function(corner), tuple(corner)

            new = towards(-1.0)
            if new[0] < simplex[0][0]:
                new = min(new, towards(-2.0))
            elif new[0] >= simplex[-2][0]:
                new = min(new, towards(0.5))
            if new[0] < simplex[-1][0]:
                simplex[-1] = new
            else:
                shrunk = (points[0] + points[1:]) / 2
                simplex[1:] = [(function(corner), tuple(corner)) for corner in shrunk]
            simplex.sort()
        best = np.array(simplex[0][1])
    return best


def size_probabilities(model: SizeModel, processors: int) -> np.ndarray:
    """Return the model's probability of each size, shape (processors + 1,)."""
    position = (np.arange(400_000) + 0.5) / 400_000
    result = np.zeros(processors + 1)
    other = max(1 - model.serial_share - model.power_of_two_share, 0.0)
    for share, kind in (
        (model.power_of_two_share, model.serial_share),
        (other, model.serial_share + model.power_of_two_share),
    ):
        sizes = model.sizes(np.full(len(position), kind), position, processors)
        result += share * np.bincount(sizes, minlength=processors + 1) / len(position)
    result[1] += model.serial_share
    return result


def fit_sizes(jobs: Jobs, processors: int) -> SizeModel:
    counts = np.bincount(jobs.sizes, minlength=processors + 1)
    serial = float(counts[1] / counts.sum())
    largest = math.log2(processors)

    def model(free: np.ndarray) -> SizeModel:
        share, smallest, distance, lower = free
        return SizeModel(
            serial_share=serial,
            power_of_two_share=float(share),
            smallest_log2=float(smallest),
            middle_log2=largest - float(distance),
            largest_log2=largest,
            lower_stage_share=float(lower),
        )

    def badness(free: np.ndarray) -> float:
        share, smallest, distance, lower = free
        # The ranges that the paper advises, a little wider.
        inside = 0 < share < 1 - serial and 0.59 <= smallest <= 1.5
        if not (inside and 1 <= distance <= 4.5 and 0.5 <= lower <= 0.97):
            return 1e12
        probabilities = size_probabilities(model(free), processors)
        return float(-(counts * np.log(probabilities + 1e-7)).sum())

    fits = [minimise(badness, [0.4, 0.9, start, 0.86]) for start in (1.5, 2.5, 3.5)]
    return model(min(fits, key=badness))


def gamma_bins(shape: float, scale: float, borders: np.ndarray) -> np.ndarray:
    """Return the probability of each bin, the distribution cut at the last border."""
    cdf = gamma_table(shape, scale).cdf(borders)
    return np.diff(cdf) / max(cdf[-1], 1e-300)


def fit_run_times(jobs: Jobs, longest: int) -> RunTimeModel:
    # A run time of r whole seconds stands for r up to r + 1, as in the generator.
    logarithm = np.log(np.minimum(jobs.run_times, longest - 1) + 0.5)
    borders = np.linspace(0.0, math.log(longest), 121)
    sizes, size_index = np.unique(jobs.sizes, return_inverse=True)
    bins = np.clip(np.digitize(logarithm, borders) - 1, 0, 119)
    counts = np.zeros((len(sizes), 120))
    np.add.at(counts, (size_index, bins), 1)

    def unpack(free: np.ndarray) -> tuple[float, ...]:
        short_mean, short_deviation, long_mean, long_deviation = np.exp(free[:4])
        return (
            (short_mean / short_deviation) ** 2,
            short_deviation**2 / short_mean,
            (long_mean / long_deviation) ** 2,
            long_deviation**2 / long_mean,
            free[4] / 100,
            free[5],
        )

    def badness(free: np.ndarray) -> float:
        if np.exp(free[:4]).min() < 0.3 or np.exp(free[:4]).max() > 14 or not 0 < free[5] < 1:
            return 1e12
        shape1, scale1, shape2, scale2, slope, base = unpack(free)
        limit = borders[-1]
        tables = gamma_table(shape1, scale1), gamma_table(shape2, scale2)
        cut = [max(float(table.cdf(limit)), 1e-9) for table in tables]
        share = np.clip(base + slope * sizes, 0.0, 1.0)
        share = share * cut[0] / (share * cut[0] + (1 - share) * cut[1])
        short = gamma_bins(shape1, scale1, borders)
        long = gamma_bins(shape2, scale2, borders)
        mixed = share[:, None] * short + (1 - share[:, None]) * long
        return float(-(counts * np.log(mixed + 1e-9)).sum())

    quartiles = np.percentile(logarithm, [25, 75])
    starts = [
        [math.log(max(first, 1)), math.log(1.2), math.log(second), math.log(spread), -0.3, 0.6]
        for first in (quartiles[0], quartiles[0] - 1)
        for second in (quartiles[1], quartiles[1] + 1)
        for spread in (0.4, 1.2)
    ]
    best = min((minimise(badness, start) for start in starts), key=badness)
    names = (
        "short_shape",
        "short_scale",
        "long_shape",
        "long_scale",
        "short_share_slope",
        "short_share_base",
    )
    values = dict(zip(names, map(float, unpack(best)), strict=True))
    return RunTimeModel(**values, longest=longest)


def seconds_of_day(jobs: Jobs, log: LogFile) -> np.ndarray:
    """Return the local time of day of each submission (seconds)."""
    if log.zone is None:
        return (jobs.submitted + log.unix_start) % SECONDS_A_DAY
    zone = ZoneInfo(log.zone)
    hours, index = np.unique((jobs.submitted + log.unix_start) // 3600, return_inverse=True)
    local = [datetime.fromtimestamp(int(hour) * 3600, zone).hour for hour in hours]
    return np.array(local)[index] * 3600 + (jobs.submitted + log.unix_start) % 3600


def fit_arrivals(jobs: Jobs, log: LogFile) -> ArrivalModel:
    time_of_day = seconds_of_day(jobs, log)
    counts = np.bincount((time_of_day * BUCKETS_A_DAY) // SECONDS_A_DAY, minlength=BUCKETS_A_DAY)
    borders = np.arange(FIRST_BUCKET, FIRST_BUCKET + BUCKETS_A_DAY + 1) - 0.5
    rotated = np.roll(counts, -(FIRST_BUCKET - 1))

    def badness(free: np.ndarray) -> float:
        cdf = gamma_table(*np.exp(free)).cdf(borders)
        return float(-(rotated * np.log(np.diff(cdf) / (cdf[-1] - cdf[0]) + 1e-12)).sum())

    shape, scale = np.exp(minimise(badness, [math.log(8), math.log(4)]))
    cycle = ArrivalModel(
        gap_shape=1.0,
        gap_scale=1.0,
        longest_gap=1.0,
        cycle_shape=float(shape),
        cycle_scale=float(scale),
    )
    gaps = mean_rate_gaps(jobs, time_of_day, cycle.weights())
    longest = float(np.rint(np.percentile(gaps, 99)))
    positions = (np.arange(20_000) + 0.5) / 20_000
    wanted = math.log(gaps.mean()), float(np.log(np.maximum(gaps, 1.0)).mean())

    def distance(free: np.ndarray) -> float:
        shape, scale = np.exp(free)
        if not (0.3 < shape < 500 and 0.01 < scale < 5):
            return 1e12
        table = gamma_table(shape, scale)
        logarithm = table.quantile(positions * table.cdf(math.log(longest)))
        got = math.log(np.exp(logarithm).mean()), float(logarithm.mean())
        return 1e6 * ((got[0] - wanted[0]) ** 2 + (got[1] - wanted[1]) ** 2)

    gap_shape, gap_scale = np.exp(minimise(distance, [math.log(4), math.log(1.4)]))
    return msgspec.structs.replace(
        cycle, gap_shape=float(gap_shape), gap_scale=float(gap_scale), longest_gap=longest
    )


def mean_rate_gaps(jobs: Jobs, time_of_day: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return the log's gaps in the time that runs as fast as jobs arrive (seconds)."""
    ends = np.concatenate(([0.0], np.cumsum(weights))) * SECONDS_A_DAY / BUCKETS_A_DAY
    clock = np.arange(BUCKETS_A_DAY + 1) * SECONDS_A_DAY / BUCKETS_A_DAY
    # Whole days from the difference of clocks, so that a change to summer time costs nothing.
    days = np.rint((jobs.submitted - time_of_day - jobs.submitted[0] + time_of_day[0]) / 86400)
    return np.maximum(np.diff(days * ends[-1] + np.interp(time_of_day, clock, ends)), 0.0)


def fit(jobs: Jobs, log: LogFile) -> tuple[LublinModel, EstimateModel]:
    estimates = fit_estimates(jobs.run_times, jobs.estimates, log.killed_from)
    model = LublinModel(
        processors=log.processors,
        sizes=fit_sizes(jobs, log.processors),
        run_times=fit_run_times(jobs, estimates.values[-1]),
        arrivals=fit_arrivals(jobs, log),
    )
    return model, estimates


# Comparing


def sample(model: LublinModel, estimates: EstimateModel, count: int, seed: int) -> Jobs:
    """Return jobs of the model, made as the generator makes them."""
    sizes, run_times = sample_sizes_and_run_times(model, count, seed)
    run_times, given = sample_estimates(estimates, run_times, random_stream(seed, 2))
    return Jobs(sample_submissions(model, count, seed), sizes, run_times, given)


def describe(jobs: Jobs, processors: int, killed_from: float) -> dict[str, str]:
    """Return the rows of the comparison table."""
    rows: dict[str, str] = {}
    for name, column in (
        ("run time (s)", jobs.run_times),
        ("size", jobs.sizes),
        ("gap (s)", np.diff(jobs.submitted)),
        ("estimate (s)", jobs.estimates),
    ):
        quartiles = ", ".join(f"{value:,.0f}" for value in np.percentile(column, [25, 50, 75]))
        decimals = 2 if name == "size" else 0
        rows[f"{name}: mean"] = f"{column.mean():,.{decimals}f}"
        rows[f"{name}: quartiles"] = quartiles
    accuracy = np.minimum(jobs.run_times / jobs.estimates, 1)
    powers = (jobs.sizes & (jobs.sizes - 1)) == 0
    rows["serial jobs"] = f"{(jobs.sizes == 1).mean():.1%}"
    rows["powers of two, 1 included"] = f"{powers.mean():.1%}"
    rows["run time / estimate: mean"] = f"{accuracy.mean():.3f}"
    rows["killed at the estimate"] = (
        f"{(jobs.run_times >= killed_from * jobs.estimates).mean():.1%}"
    )
    logs = np.log(jobs.run_times), np.log(jobs.sizes)
    rows["correlation of log run time and log size"] = f"{np.corrcoef(*logs)[0, 1]:.2f}"
    rows["mean of run time * size (h)"] = f"{(jobs.run_times * jobs.sizes).mean() / 3600:.1f}"
    rows["offered load"] = f"{offered_load(jobs, processors):.3f}"
    return rows


def offered_load(jobs: Jobs, processors: int) -> float:
    period = jobs.submitted[-1] - jobs.submitted[0]
    return float((jobs.run_times * jobs.sizes).sum() / processors / period)


def print_parameters(name: str, model: LublinModel, estimates: EstimateModel, load: float) -> None:
    """Print an entry of ``presets.json``."""

    def values(part: object) -> dict[str, float]:
        fields = {field: getattr(part, field) for field in part.__struct_fields__}
        return {k: float(f"{v:.6g}") if isinstance(v, float) else v for k, v in fields.items()}

    parts = {kind: values(getattr(model, kind)) for kind in ("sizes", "run_times", "arrivals")}
    entry = {"processors": model.processors, "offered_load": round(load, 3), **parts}
    print(f'"{name}": {json.dumps(entry | {"estimates": estimates.table})},')


def main() -> None:
    parser = arguments(__file__, __doc__)
    parser.add_argument("--only", choices=LOGS, help="one log only")
    asked = parser.parse_args()
    tables = []
    for name, log in LOGS.items():
        if asked.only not in (None, name):
            continue
        jobs = read_log(log)
        if asked.quick:
            model, estimates = PRESETS[name].model, PRESETS[name].estimates
        else:
            model, estimates = fit(jobs, log)
            print_parameters(name, model, estimates, offered_load(jobs, log.processors))
        real = describe(jobs, log.processors, log.killed_from)
        drawn = sample(model, estimates, SETTINGS["drawn"], SETTINGS["seed"])
        made = describe(drawn, log.processors, 1.0)
        tables.append((name, real, made))
    heads = [cell for name, *_ in tables for cell in (name, "model")]
    rows = [
        [row, *(cell for _, real, made in tables for cell in (real[row], made[row]))]
        for row in tables[0][1]
    ]
    print_or_put("\n".join(markdown_table(["", *heads], rows)) + "\n", asked.write)


if __name__ == "__main__":
    run_main(main)
