"""How often intervals and verdicts are wrong on differences like ours.

Differences between schedulers on many disjoint windows of a log are taken for the population of
each metric. Of samples of n windows, drawn from these with replacement, the share is told whose
95 % interval holds the population's mean; and, where the mean is moved to 0, how many families of
verdicts, one on each metric, have one that says higher or lower.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import product
from pathlib import Path

import numpy as np

from qops_batsim.experiments import (
    LEVEL,
    NOMINAL,
    StudyRuns,
    chance_of_signs,
    chance_of_size,
    markdown_table,
    quantile,
)
from studies.shared import Settings, grid_runs

COUNTS = (5, 10, 20, 30)
"""Windows of a sample, for intervals."""

SAMPLES, PATTERNS = 20_000, 20_000
SEED = 26
EFFECT = 0.5
"""The effect by which power is told (standard deviations)."""

Values = np.ndarray[tuple[int], np.dtype[np.float64]]


def populations(runs: StudyRuns, settings: Settings) -> dict[str, Values]:
    """Return the differences of each pair of schedulers in each metric, by window."""
    found: dict[str, Values] = {}
    by_who: dict[str, dict[int, object]] = {}
    for each in runs.outcomes:
        by_who.setdefault(each.cell.contestant, {})[each.cell.window.skip] = each.metrics
    for first, second in settings["pairs"]:
        for metric, is_ratio in settings["ratios"].items():
            own, other = (
                np.array([getattr(run, metric) for _, run in sorted(by_who[who].items())], float)
                for who in (first, second)
            )
            name = f"{metric.replace('_', ' ')}, {first} {'over' if is_ratio else 'less'} {second}"
            if is_ratio:
                found[f"{name}, logarithm"] = np.log(own / other)
            elif np.ptp(own) and np.ptp(other):
                found[name] = own - other
    return found


def skewness(values: Values) -> float:
    """Return the skewness of a population."""
    away = values - values.mean()
    return float((away**3).mean() / (away**2).mean() ** 1.5)


def held(population: Values, count: int, random: np.random.Generator) -> float:
    """Return the share of samples whose interval by Student's t holds the mean."""
    drawn = population[random.integers(0, len(population), (SAMPLES, count))]
    reach = quantile(LEVEL, count - 1) * drawn.std(axis=1, ddof=1) / math.sqrt(count)
    return float((np.abs(drawn.mean(axis=1) - population.mean()) <= reach).mean())


def signs(values: Values, patterns: Values) -> Values:
    """Return :func:`chance_of_signs` of each row, by these patterns."""
    rows = values.reshape(-1, values.shape[-1])
    found = np.empty(len(rows))
    for begin in range(0, len(rows), 500):
        some = rows[begin : begin + 500]
        least = some.sum(axis=1) - 1e-12 * np.abs(some).sum(axis=1)
        found[begin : begin + 500] = (some @ patterns.T >= least[:, None]).mean(axis=1)
    return found.reshape(values.shape[:-1])


METHODS = {
    "t with a term for skewness, 5 %": ((0,), 1 - LEVEL),
    "sign flips, 5 %": ((1,), 1 - LEVEL),
    "sign flips, 1 %": ((1,), NOMINAL),
    "signs and t, 5 %": ((0, 1), 1 - LEVEL),
    "signs and t, 1 %: what is judged": ((0, 1), NOMINAL),
}
"""Tests, the less sure of which counts, and the corrected chance with which they decide."""


def levels(known: Sequence[Values], count: int, families: int) -> tuple[list[float], float]:
    """Return the share of families with a wrong verdict (%), by each method, and the power of what
    is judged: the share of effects of half a standard deviation that it finds (%).
    """
    random = np.random.default_rng(SEED)
    centred = np.array([(each - each.mean()) / each.std() for each in known])
    drawn = np.moveaxis(centred[:, random.integers(0, centred.shape[1], (families, count))], 0, 1)
    if count <= 12:
        patterns = np.array([*product((-1.0, 1.0), repeat=count)])
    else:
        patterns = random.choice((-1.0, 1.0), (PATTERNS, count))
    for row in drawn[:3].reshape(-1, count):
        # What is simulated is what is judged.
        assert abs(chance_of_signs(row) - signs(row[None], patterns)[0]) < 0.02
    low, high = ((chance_of_size(each), signs(each, patterns)) for each in (drawn, -drawn))
    wrong = []
    for tests, level in METHODS.values():
        both = (np.max([side[test] for test in tests], axis=0) for side in (low, high))
        least = 2 * np.minimum(*both).min(axis=1)
        wrong.append(100 * float((least * len(known) <= level).mean()))
    moved = drawn + EFFECT
    chances = np.sort(2 * np.maximum(chance_of_size(moved), signs(moved, patterns)), axis=1)
    corrected = np.maximum.accumulate(chances * np.arange(len(known), 0, -1), axis=1)
    return wrong, 100 * float((corrected <= NOMINAL).mean())


def table(settings: Settings, out: Path, workers: int) -> list[str]:
    """Return the tables: intervals by metric, and the levels of verdicts."""
    jobs = settings["window"]
    windows = [{"skip": jobs * place, "first": jobs} for place in range(settings["windows"])]
    runs = grid_runs(settings["grid"] | {"windows": windows}, out, workers)
    known = populations(runs, settings)
    random = np.random.default_rng(SEED)
    rows = []
    for name, values in known.items():
        above = 100 * float((values > values.mean()).mean())
        covered = (f"{100 * held(values, count, random):.1f}" for count in COUNTS)
        rows.append([name, f"{skewness(values):+.1f}", f"{above:.0f}", *covered])
    heads = ["metric", "skewness", "above the mean (%)", *(f"t, n = {each}" for each in COUNTS)]
    text = ["Means that 95 % intervals hold (%):", "", *markdown_table(heads, rows), ""]
    families, heads = settings["families"], ["windows", "statements", *METHODS]
    rows = []
    for count in settings["counts"]:
        single = [levels([each], count, families // 5)[0] for each in known.values()]
        worst = [f"{np.mean(by):.1f}, {max(by):.1f}" for by in zip(*single, strict=True)]
        rows.append([str(count), "1: mean, worst", *worst, ""])
        for name, members in {
            **{
                f"{len(own)}, {' and '.join(pair)}": own
                for pair in settings["pairs"]
                if (own := [v for n, v in known.items() if pair[0] in n and pair[1] in n])
            },
            f"{len(known)}, all": [*known.values()],
        }.items():
            by, power = levels(members, count, families)
            rows.append([str(count), name, *(f"{each:.1f}" for each in by), f"{power:.0f}"])
    text += [f"Families with a wrong verdict (%), of {families}:", ""]
    return [*text, *markdown_table([*heads, "effects found (%)"], rows)]
