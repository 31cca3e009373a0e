"""Fit of the model: simulated waits compared with those of the log."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise

import msgspec
import numpy as np

from qops_batsim.economics.charges import PROCESSOR_CLASSES, Categories
from qops_batsim.tables import Floats, Integers

LOW, HIGH = 0.5, 2.0
"""Simulated waits over logged ones within which the model counts as fitting."""

LEAST_WAIT = 600.0
"""Waits (seconds) below this count as this much: nobody cares for their ratio."""

LEAST_JOBS = 30
"""Fewest jobs of a class that are compared."""


QUANTILES = (0.5, 0.9)


class ClassFit(msgspec.Struct, frozen=True, kw_only=True):
    """Waits of the jobs of one size class, simulated and in the log: median and 90 % quantile
    (seconds).
    """

    group: str
    jobs: int
    logged: tuple[float, float]
    simulated: tuple[float, float]

    @property
    def ratios(self) -> tuple[float, ...]:
        """Return simulated wait / wait in the log, at the median and at the 90 % quantile."""
        pairs = zip(self.simulated, self.logged, strict=True)
        return tuple(max(ours, LEAST_WAIT) / max(theirs, LEAST_WAIT) for ours, theirs in pairs)

    @property
    def worst(self) -> float:
        """Return that ratio of simulated wait to wait in the log, of the median and of the 90 %
        quantile, that is farthest from 1.
        """
        return max(self.ratios, key=lambda ratio: abs(math.log(ratio)))


class ModelFit(msgspec.Struct, frozen=True, kw_only=True):
    """How well a simulation reproduces the waits in a log, by size class of the jobs; without
    classes if too few waits are known.

    ``scheduler`` is that of the simulation, ``tried`` how many were where EASY did not fit, and
    ``alike`` the share of waits in the later half of the trace that are within a factor of two of
    that scheduler's, chosen on the earlier half: of the best one, ``nearest``.
    """

    classes: tuple[ClassFit, ...] = ()
    scheduler: str = "EASY"
    tried: int = 0
    nearest: str = ""
    alike: float | None = None

    @property
    def is_known(self) -> bool:
        """Whether enough waits are known to compare the simulation with the log."""
        return bool(self.classes)

    @property
    def misfits(self) -> list[ClassFit]:
        """Return the size classes in which simulated waits are below half or above twice those in
        the log, worst first.
        """
        found = [each for each in self.classes if not LOW <= each.worst <= HIGH]
        return sorted(found, key=lambda each: -abs(math.log(each.worst)))

    @property
    def fits(self) -> bool:
        """Whether simulated waits are between half and twice those in the log in every size class
        that is compared.
        """
        return not self.misfits


UNKNOWN_FIT = ModelFit()
"""That of a trace without waits."""


def sizes_of(categories: Categories) -> dict[str, str]:
    """Return the size classes of jobs (ranges of processors) as texts for users, by name of the
    class.

    >>> list(sizes_of(Categories()).values())
    ['1', '2 to 8', '9 to 32', '33 or more']
    """
    ends = [0, *map(int, categories.processors)]
    texts = [
        f"{high}" if high == low + 1 else f"{low + 1} to {high}" for low, high in pairwise(ends)
    ]
    return dict(zip(PROCESSOR_CLASSES, [*texts, f"{ends[-1] + 1} or more"], strict=True))


def size_classes(processors: Integers, categories: Categories) -> Integers:
    """Return the index of the size class of each job, given the jobs' processors."""
    found: Integers = np.searchsorted(categories.processors, processors, side="left")
    return found


def wait_quantiles(waits: Floats) -> tuple[float, float]:
    """Return the median and the 90 % quantile of waits, both NaN if there are no waits."""
    if not len(waits):
        return math.nan, math.nan
    half, most = np.quantile(waits, QUANTILES, method="inverted_cdf").tolist()
    return half, most


def model_fit(
    logged: Floats,
    processors: Integers,
    simulated: Mapping[str, Sequence[float]],
    categories: Categories = Categories(),  # noqa: B008 - it is frozen
) -> ModelFit:
    """Compare the waits of jobs in a log with their simulated waits under EASY, by size class.

    ``simulated`` are waits by category; in ``logged`` a number below 0 is not known.
    """
    ours: dict[str, list[float]] = {name: [] for name in PROCESSOR_CLASSES}
    for label, waits in simulated.items():
        ours[next(name for name in reversed(PROCESSOR_CLASSES) if label.endswith(name))] += waits
    by_class = [np.array(ours[name], float) for name in PROCESSOR_CLASSES]
    return ModelFit(classes=_fits(logged, processors, by_class, categories))


def fit_of_waits(
    logged: Floats, simulated: Floats, processors: Integers, categories: Categories
) -> tuple[ClassFit, ...]:
    """Compare the waits of jobs in a log with their simulated waits (both in seconds, by job), by
    size class.
    """
    places = size_classes(processors, categories)
    waits = [simulated[places == place] for place in range(len(PROCESSOR_CLASSES))]
    return _fits(logged, processors, waits, categories)


def _fits(
    logged: Floats, processors: Integers, simulated: Sequence[Floats], categories: Categories
) -> tuple[ClassFit, ...]:
    """Compare the waits in a log (seconds, by job) with simulated waits, which are given as one
    array for each size class.
    """
    places, found = size_classes(processors, categories), []
    for place, name in enumerate(sizes_of(categories).values()):
        theirs = logged[(places == place) & (logged >= 0)]
        if min(len(theirs), len(simulated[place])) >= LEAST_JOBS:
            found.append(_class_fit(name, theirs, simulated[place]))
    known, everything = logged[logged >= 0], np.concatenate(simulated)
    if min(len(known), len(everything)) >= LEAST_JOBS:
        found.append(_class_fit("all", known, everything))
    return tuple(found)


def _class_fit(group: str, logged: Floats, simulated: Floats) -> ClassFit:
    return ClassFit(
        group=group,
        jobs=len(logged),
        logged=wait_quantiles(logged),
        simulated=wait_quantiles(simulated),
    )
