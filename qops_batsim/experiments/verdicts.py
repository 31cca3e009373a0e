"""Judging numbers that are tested together.

A statement says that the true mean lies in a range: above 0, say, or between 3 and 5. The
probability that chance alone gives what was measured is computed for the statement and for its
contrary, and corrected for the number of statements.

S. Holm, "A simple sequentially rejective multiple test procedure", Scandinavian Journal of
Statistics 6(2), 1979. With a single statement, the verdict is whether the whole 95 % interval lies
in the range, or wholly outside.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from qops_batsim.experiments.intervals import LEAST, LEVEL, Interval

ERROR = 1 - LEVEL
"""Probability of one wrong verdict or more among those judged together, at most."""

RISK = f"{100 * ERROR:.0f} %"
"""The same in words."""


class Judgement(NamedTuple):
    """What a measured mean says about a range: in it, or outside, unless chance explains that.

    ``chance`` is the probability, None where there are too few repetitions to judge.
    """

    inside: bool
    chance: float | None


def judge(found: Interval, low: float = -math.inf, high: float = math.inf) -> Judgement:
    """Judge whether a mean lies in a range, whose ends may be infinite.

    Both sides of a statement can be confirmed, so that each probability counts twice.
    """
    if found.count < LEAST:
        return Judgement(low < found.mean < high, None)
    inside = max(found.above(low), found.below(high))
    outside = min(found.below(low), found.above(high))
    return Judgement(inside <= outside, min(1.0, 2 * min(inside, outside)))


def holm(chances: Sequence[float | None]) -> list[float | None]:
    """Return probabilities corrected for how many there are; None stays None and counts not."""
    known = sorted((chance, index) for index, chance in enumerate(chances) if chance is not None)
    corrected: list[float | None] = [None] * len(chances)
    highest = 0.0
    for place, (chance, index) in enumerate(known):
        highest = max(highest, min(1.0, chance * (len(known) - place)))
        corrected[index] = highest
    return corrected


def significant(chance: float | None) -> bool:
    """Tell whether a corrected probability is low enough."""
    return chance is not None and chance <= ERROR


def directions(found: Iterable[Interval | None]) -> list[tuple[str, float | None]]:
    """Return higher, lower or inconclusive for differences judged together, with the chance."""
    intervals = list(found)
    judged = [None if each is None else judge(each, low=0.0) for each in intervals]
    corrected = holm([None if each is None else each.chance for each in judged])
    result: list[tuple[str, float | None]] = []
    for each, chance in zip(judged, corrected, strict=True):
        if each is None:
            result.append(("", None))
        elif each.chance is None:
            result.append(("not judged", None))
        elif significant(chance):
            result.append(("higher" if each.inside else "lower", chance))
        else:
            result.append(("inconclusive", chance))
    return result
