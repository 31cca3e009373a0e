"""What claims of Islam et al. (2003) are judged by: differences of runs by seed."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import numpy as np

from qops_batsim.papers.claims import Claim, range_claim
from qops_batsim.papers.islam2003.numbers import Log, Method
from qops_batsim.papers.islam2003.runs import Curve, Results
from qops_batsim.papers.samples import Values, averaged, by_seed, minus, percent


class Where(NamedTuple):
    """A workload but for its load."""

    log: Log = "CTC"
    method: Method = "duplication"
    stringency: float = 0.2
    share: float = 1.0
    rule: str = "run-time"

    def replaced(self, **changes: object) -> Where:
        """Return another one."""
        return self._replace(**changes)  # type: ignore[arg-type]


class Judge:
    """Numbers of a study by seed, and claims about their means."""

    def __init__(self, results: Results) -> None:
        self.results = results
        self.loads = results.study.loads
        self.above = tuple(load for load in self.loads if load > 1)
        self.high = tuple(load for load in self.loads if load >= 1.4) or self.loads[-1:]
        self.low = tuple(load for load in self.above if load not in self.high) or self.loads[:1]
        self.last = self.loads[-1]
        self.before = max([load for load in self.loads if load <= 1.4], default=self.loads[0])

    def values(self, at: Where, scheduler: str, metric: str, load: float) -> Values:
        """Return a number at a load."""
        setting = at.stringency, at.share
        curve = Curve(self.results, at.log, at.method, setting, scheduler, at.rule)
        return curve.values(load, metric)

    def relaxed(self, at: Where, factor: float, metric: str, load: float) -> Values:
        """Return a number of QoPS at a load with a relaxation factor."""
        setting = at.stringency, at.share
        curve = Curve(self.results, at.log, at.method, setting, "qops", at.rule, factor)
        return curve.values(load, metric)

    def difference(
        self, at: Where, first: str, second: str, metric: str, loads: Iterable[float]
    ) -> Values:
        """Return the difference of two schedulers, averaged over loads."""
        return self.over(loads, lambda load: self._difference(at, first, second, metric, load))

    def _difference(self, at: Where, first: str, second: str, metric: str, load: float) -> Values:
        return minus(*(self.values(at, name, metric, load) for name in (first, second)))

    def change(
        self, at: Where, first: str, second: str, metric: str, loads: Iterable[float]
    ) -> Values:
        """Return by how many percent the first exceeds the second, averaged over loads."""

        def one(load: float) -> Values:
            return percent(*(self.values(at, name, metric, load) for name in (first, second)))

        return self.over(loads, one)

    def spread(
        self, at: Where, metric: str, names: Sequence[str], loads: Iterable[float]
    ) -> Values:
        """Return the distance between the highest and lowest of some schedulers."""

        def one(load: float) -> Values:
            columns = [self.values(at, name, metric, load) for name in names]
            return [max(row) - min(row) for row in by_seed(columns)]

        return self.over(loads, one)

    def at_equal_utilization(self, at: Where, first: str, second: str, metric: str) -> Values:
        """Return by how many percent the first exceeds the second where both are as utilized.

        Between loads, both numbers are interpolated; the mean is over the range of utilization
        that both reach. None if a seed has no such range.
        """
        found = []
        for seed, _ in enumerate(self.values(at, first, metric, self.last)):
            curves = [self._curve(at, name, metric, seed) for name in (first, second)]
            low, high = (max(x[0] for x, _ in curves), min(x[-1] for x, _ in curves))
            if not low < high:
                return []
            points = np.linspace(low, high, 21)
            one, other = (np.interp(points, x, y) for x, y in curves)
            found.append(100.0 * float((one / other - 1.0).mean()))
        return found

    def _curve(self, at: Where, name: str, metric: str, seed: int) -> tuple[Values, Values]:
        rows = sorted(
            tuple(self.values(at, name, each, load)[seed] for each in ("utilization", metric))
            for load in self.loads
        )
        return [row[0] for row in rows], [row[1] for row in rows]

    def over(self, loads: Iterable[float], one: Callable[[float], Values]) -> Values:
        """Return the mean over loads."""
        return averaged([one(load) for load in loads])

    def claim(
        self,
        name: str,
        section: str,
        text: str,
        values: Values,
        low: float = -math.inf,
        high: float = math.inf,
    ) -> Claim:
        """Return a claim that the mean of a number lies between two others."""
        alone = len(self.results.study.seeds) > 1
        return range_claim(name, text, values, low, high, section=section, alone=alone)
