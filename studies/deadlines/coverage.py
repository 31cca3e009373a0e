"""Coverage of 95 % intervals on measured metrics.

Many seeds of one stretch of a log are taken for the population of each metric. Of many samples of n
seeds, drawn from these with replacement, the share is told whose 95 % interval holds the
population's mean: of Student's t, and for comparison of the bootstrap (bootstrap-t; bias-corrected
and accelerated, BCa).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import NormalDist

import numpy as np

from qops_batsim.experiments import (
    LEVEL,
    DeadlineRuns,
    KeptRuns,
    Scenario,
    contestant_of,
    find_trace,
    markdown_table,
    quantile,
    run_cases,
)
from qops_batsim.measures import Measures
from qops_batsim.traces import read_trace
from studies.shared import Settings, told

ALL, FEW = 1.0, 0.2
"""Shares of deadline jobs."""

COUNTS = (3, 5, 10, 20, 30)
BOOTSTRAPPED = (20, 30)
SAMPLES, FEWER, RESAMPLES = 20_000, 1500, 599
SEED = 26

Values = np.ndarray[tuple[int], np.dtype[np.float64]]
Runs = dict[tuple[str, float], list[Measures]]


def runs_of(settings: Settings, out: Path, workers: int) -> Runs:
    """Return the runs of each scheduler with each share of deadline jobs, by seed."""
    trace = read_trace(
        find_trace(settings["file"], Path()),
        processors=settings["processors"],
        first=settings["first"],
    ).workload
    cases = {
        (name, share): [
            contestant_of(name).case(
                Scenario(
                    log="trace",
                    first=settings["first"],
                    load=settings["load"],
                    stringency=settings["stringency"],
                    share=share,
                    seed=seed,
                )
            )
            for seed in range(1, settings["seeds"] + 1)
        ]
        for share in (ALL, FEW)
        for name in ("qops", "msb", "mrt", "easy")
    }
    found = run_cases(
        DeadlineRuns({"trace": trace}),
        [case for group in cases.values() for case in group],
        workers=workers,
        kept=KeptRuns(out, Measures, [trace.provenance, len(trace.jobs)]),
        group_by=lambda case: case.scenario.without_deadlines(),
        on_progress=told(),
    )
    return {key: [found[case] for case in group] for key, group in cases.items()}


def metrics_of(runs: Runs) -> dict[str, Values]:
    """Return the metrics by name, each a number by seed."""

    def of(scheduler: str, metric: str, share: float = ALL) -> Values:
        return np.array([getattr(run, metric) for run in runs[scheduler, share]], dtype=float)

    response, slowdown = (
        {name: of(name, metric, FEW) for name in ("qops", "msb", "easy")}
        for metric in ("response_time_of_others", "slowdown_of_others")
    )
    used = "utilization_during_submissions"
    return {
        "refused jobs, QoPS less MSB": of("qops", "unadmitted_jobs") - of("msb", "unadmitted_jobs"),
        "refused jobs, QoPS less MRT": of("qops", "unadmitted_jobs") - of("mrt", "unadmitted_jobs"),
        "refused work, QoPS less MRT": of("qops", "unadmitted_work") - of("mrt", "unadmitted_work"),
        "utilization, QoPS less EASY": of("qops", used) - of("easy", used),
        "slowdown, EASY": slowdown["easy"],
        "the same, logarithm": np.log(slowdown["easy"]),
        "slowdown, QoPS over MSB": slowdown["qops"] / slowdown["msb"],
        "the same, logarithm ": np.log(slowdown["qops"] / slowdown["msb"]),
        "response time, QoPS over EASY": response["qops"] / response["easy"],
        "the same, logarithm  ": np.log(response["qops"] / response["easy"]),
    }


def student(population: Values, count: int, random: np.random.Generator) -> float:
    """Return the share of samples whose interval by Student's t holds the mean."""
    drawn = population[random.integers(0, len(population), (SAMPLES, count))]
    reach = quantile(LEVEL, count - 1) * drawn.std(axis=1, ddof=1) / math.sqrt(count)
    return float((np.abs(drawn.mean(axis=1) - population.mean()) <= reach).mean())


Ends = Callable[[Values, Values, Values], tuple[float, float]]


def bootstrapped(population: Values, count: int, random: np.random.Generator, ends: Ends) -> float:
    """Return the share of samples whose interval by the bootstrap holds the mean."""
    held = 0
    for _ in range(FEWER):
        sample = population[random.integers(0, len(population), count)]
        again = sample[random.integers(0, count, (RESAMPLES, count))]
        low, high = ends(sample, again.mean(axis=1), again.std(axis=1, ddof=1))
        held += low <= population.mean() <= high
    return held / FEWER


def studentized(sample: Values, means: Values, deviations: Values) -> tuple[float, float]:
    """Return the ends of the interval of bootstrap-t."""
    safe = np.maximum(deviations, 1e-12)
    t = (means - sample.mean()) / safe
    low, high = np.quantile(t, [(1 + LEVEL) / 2, (1 - LEVEL) / 2]) * sample.std(ddof=1)
    return sample.mean() - low, sample.mean() - high


def accelerated(sample: Values, means: Values, deviations: Values) -> tuple[float, float]:
    """Return the ends of the interval that is corrected for bias and acceleration."""
    normal = NormalDist()
    below = float(np.clip((means < sample.mean()).mean(), 1 / RESAMPLES, 1 - 1 / RESAMPLES))
    left_out = (sample.sum() - sample) / (len(sample) - 1)
    away = left_out.mean() - left_out
    acceleration = (away**3).sum() / (6 * (away**2).sum() ** 1.5 + 1e-300)
    levels = []
    for tail in ((1 - LEVEL) / 2, (1 + LEVEL) / 2):
        z = normal.inv_cdf(below) + normal.inv_cdf(tail)
        levels.append(normal.cdf(normal.inv_cdf(below) + z / (1 - acceleration * z)))
    low, high = np.quantile(means, levels)
    return float(low), float(high)


def skewness(values: Values) -> float:
    """Return the skewness of a population."""
    away = values - values.mean()
    return float((away**3).mean() / (away**2).mean() ** 1.5)


def table(settings: Settings, out: Path, workers: int) -> list[str]:
    """Return the lines of the table of coverage (%)."""
    metrics = metrics_of(runs_of(settings, out, workers))
    random = np.random.default_rng(SEED)
    rows = []
    for name, values in metrics.items():
        row = [name.strip(), f"{skewness(values):+.1f}"]
        row += [f"{100 * student(values, count, random):.1f}" for count in COUNTS]
        for ends in (studentized, accelerated):
            row += [
                f"{100 * bootstrapped(values, count, random, ends):.1f}" for count in BOOTSTRAPPED
            ]
        rows.append(row)
    headings: Sequence[str] = (
        "metric",
        "skewness",
        *(f"t, n = {count}" for count in COUNTS),
        *(f"bootstrap-t, {count}" for count in BOOTSTRAPPED),
        *(f"BCa, {count}" for count in BOOTSTRAPPED),
    )
    return markdown_table(headings, rows)
