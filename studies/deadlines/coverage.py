"""How often intervals and verdicts are wrong on differences like ours.

Differences between schedulers on many disjoint windows of a log are taken for the population of
each metric. Of samples of n windows, drawn from these with replacement, the share is told whose
95 % interval holds the population's mean; and, where the mean is moved to 0, how many families of
verdicts, one on each metric, have one that says higher or lower.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

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

SAMPLES, RESAMPLES = 20_000, 599
SEED = 26
EFFECT = 0.5
"""The effect by which power is told (standard deviations)."""

Values = np.ndarray[tuple[int], np.dtype[np.float64]]
Test = Callable[[Values], float]
"""The chance with which a mean that is at most 0 would be as large as that of a sample."""


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


def bootstrap_t(values: Values) -> float:
    """Return the chance by what Student's t of samples from the sample is."""
    random = np.random.default_rng(SEED)
    again = values[random.integers(0, len(values), (RESAMPLES, len(values)))]
    t = (again.mean(axis=1) - values.mean()) / np.maximum(again.std(axis=1, ddof=1), 1e-12)
    own = values.mean() / max(float(values.std(ddof=1)), 1e-12)
    return float(1 + (t >= own).sum()) / (RESAMPLES + 1)


def judged(values: Values) -> float:
    """Return the chance by which there are verdicts."""
    return max(chance_of_signs(values), chance_of_size(values))


class Method(NamedTuple):
    """A test, and the corrected chance with which it decides."""

    name: str
    test: Test
    level: float


METHODS = (
    Method("t with a term for skewness, 5 %", chance_of_size, 1 - LEVEL),
    Method("bootstrap-t, 5 %", bootstrap_t, 1 - LEVEL),
    Method("sign flips, 5 %", chance_of_signs, 1 - LEVEL),
    Method("sign flips, 1 %", chance_of_signs, NOMINAL),
    Method("signs and t, 5 %", judged, 1 - LEVEL),
    Method("signs and t, 1 %: what is judged", judged, NOMINAL),
)


def levels(
    known: Sequence[Values], count: int, families: int, methods: Sequence[Method] = METHODS
) -> tuple[list[float], float]:
    """Return the share of families with a wrong verdict (%), by each method, and the last one's
    power: the share of effects of half a standard deviation that it finds (%).
    """
    random = np.random.default_rng(SEED)
    centred = np.array([(each - each.mean()) / each.std() for each in known])
    wrong, found = np.zeros(len(methods)), 0
    for _ in range(families):
        drawn = centred[:, random.integers(0, centred.shape[1], count)]
        for place, (_, test, level) in enumerate(methods):
            chances = [2 * min(test(row), test(-row)) for row in drawn]
            wrong[place] += min(chances) * len(known) <= level
        chances = sorted(2 * methods[-1].test(row + EFFECT) for row in drawn)
        for place, chance in enumerate(chances):
            if chance * (len(known) - place) > NOMINAL:
                break
            found += 1
    return [100 * float(each) / families for each in wrong], 100 * found / families / len(known)


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
    families, heads = settings["families"], ["windows", "statements", *(m.name for m in METHODS)]
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
