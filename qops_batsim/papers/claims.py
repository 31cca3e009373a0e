"""Claims of papers and how they are judged: by a whole interval, or by yes and no.

The claims of one report are judged together: the probability of a wrong verdict counts for all
of them (:mod:`qops_batsim.experiments.statistics`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Literal

import msgspec

from qops_batsim.experiments.statistics import (
    LEAST,
    RISK,
    Interval,
    holm,
    judge,
    mean_interval,
    significant,
)

Values = list[float]
"""A number by seed; none where it has no meaning."""


def differences(first: Values, second: Values) -> Values:
    """Return the differences; none if one number is missing."""
    return [a - b for a, b in by_seed([first, second])]


def percent_changes(first: Values, second: Values) -> Values:
    """Return by how many percent the first exceed the second; none if one of these is 0."""
    if not all(second):
        return []
    return [100.0 * (a / b - 1.0) for a, b in by_seed([first, second])]


def averages(columns: Sequence[Values]) -> Values:
    """Return the means by seed; none if one number is missing."""
    return [sum(row) / len(row) for row in by_seed(columns)]


def by_seed(columns: Sequence[Values]) -> list[tuple[float, ...]]:
    """Return the numbers of each seed; where all seeds are one run, it is that of each."""
    if not all(columns):
        return []
    count = max(map(len, columns), default=0)
    return list(zip(*(each * count if len(each) == 1 else each for each in columns), strict=True))


Verdict = Literal["confirmed", "not confirmed", "inconclusive", "not judged"]
CONFIRMED: Verdict = "confirmed"
NOT_CONFIRMED: Verdict = "not confirmed"
INCONCLUSIVE: Verdict = "inconclusive"
NOT_JUDGED: Verdict = "not judged"

METHOD = (
    "A claim about a mean is confirmed if the measured one lies on the claimed side of a number, "
    "or in the claimed range, and not confirmed if it lies outside, unless chance explains that: "
    "by Student's t distribution, with a probability of at most "
    f"{RISK} of one wrong verdict or more among all claims of the report (Holm). With fewer "
    f"than {LEAST} repetitions it is not judged. A claim with parts holds if they all do; these, "
    "and intervals (95 %), are each by itself. A claim without interval is a fact, or a number of "
    "one run: it holds or does not."
)
"""Method by which verdicts are reached, for reports."""

Ends = tuple[float | None, float | None]


class Claim(msgspec.Struct, frozen=True, kw_only=True):
    """One claim of a paper, in our words, with its verdict.

    ``section`` is where the paper has it. ``value`` is the number that it was judged by, with its
    unit in ``text``, and a 95 % confidence interval if there is one, of ``count`` repetitions;
    ``expected`` the range in which it lies if the claim holds, None for no end; ``paper`` the
    paper's own number. ``leaning`` is the verdict that chance explains with probability
    ``chance``, or ``corrected`` among all claims of the report.

    A claim that has ``parts``, ids of others, holds if they all do; its numbers are those of the
    part that it is ``decided_by``, but for ``chance``: to confirm all is as hard as the least
    certain one, and that chance refutes any of k is k times as likely as one.
    """

    id: str
    text: str
    section: str = ""
    verdict: Verdict
    value: float | None = None
    interval: tuple[float, float] | None = None
    count: int | None = None
    expected: Ends | None = None
    paper: float | None = None
    chance: float | None = None
    corrected: float | None = None
    parts: tuple[str, ...] = ()
    decided_by: str = ""
    leaning: Verdict = INCONCLUSIVE


def range_claim(
    name: str,
    text: str,
    found: Interval | Sequence[float],
    low: float = -math.inf,
    high: float = math.inf,
    *,
    section: str = "",
    paper: float | None = None,
    single_is_fact: bool = False,
) -> Claim:
    """Return a claim that a number, or the mean of some by seed, lies between two others.

    It is judged by itself. With ``single_is_fact``, a single number is that of all seeds: a fact.
    """
    if not isinstance(found, Interval):
        if not found:
            return Claim(id=name, text=text, section=section, verdict=NOT_JUDGED, paper=paper)
        if len(found) == 1 and single_is_fact:
            value = found[0]
            return plain_claim(name, text, low < value < high, value, paper, section=section)
        found = mean_interval(found)
    inside, chance = judge(found, low, high)
    leaning = CONFIRMED if inside else NOT_CONFIRMED
    likely = leaning if significant(chance) else INCONCLUSIVE
    return Claim(
        id=name,
        text=text,
        section=section,
        verdict=NOT_JUDGED if chance is None else likely,
        leaning=leaning,
        value=found.mean,
        interval=found.known,
        count=found.count,
        expected=(None if low == -math.inf else low, None if high == math.inf else high),
        paper=paper,
        chance=chance,
    )


def sign_claim(
    name: str,
    text: str,
    found: Interval | Sequence[float],
    sign: int,
    paper: float | None = None,
    *,
    section: str = "",
) -> Claim:
    """Return a claim that a number, or a mean, is above 0 (sign +1) or below (-1)."""
    low, high = (0.0, math.inf) if sign > 0 else (-math.inf, 0.0)
    return range_claim(name, text, found, low, high, section=section, paper=paper)


def plain_claim(
    name: str,
    text: str,
    holds: bool,
    value: float | None,
    paper: float | None = None,
    *,
    section: str = "",
) -> Claim:
    """Return a claim that holds or does not."""
    verdict = CONFIRMED if holds else NOT_CONFIRMED
    return Claim(id=name, text=text, section=section, verdict=verdict, value=value, paper=paper)


def combined_claim(name: str, text: str, parts: Sequence[Claim], *, section: str = "") -> Claim:
    """Return a claim that holds if all its parts do; its value is that of the one that decides."""
    against = [part for part in parts if _leaning(part) == NOT_CONFIRMED]
    decisive = min(against, key=_chance) if against else max(parts, key=_chance)
    chance = min(1.0, (len(parts) if against else 1) * _chance(decisive))
    leaning = NOT_CONFIRMED if against else CONFIRMED
    unknown = any(part.verdict == NOT_JUDGED for part in parts) and not (against and chance < 1)
    facts = all(part.chance is None for part in parts)
    verdict = leaning if significant(chance) else INCONCLUSIVE
    return Claim(
        id=name,
        text=text,
        section=section,
        verdict=NOT_JUDGED if unknown else verdict,
        leaning=leaning,
        decided_by=decisive.id,
        value=decisive.value,
        interval=decisive.interval,
        count=decisive.count,
        expected=decisive.expected,
        paper=decisive.paper,
        chance=None if unknown or facts else chance,
        parts=tuple(part.id for part in parts),
    )


def claim_with_parts(name: str, section: str, text: str, parts: Iterable[Claim]) -> list[Claim]:
    """Return a claim that holds if all its parts do, and these behind it."""
    found = list(parts)
    return [combined_claim(name, text, found, section=section), *found]


def _leaning(claim: Claim) -> Verdict:
    return claim.verdict if claim.chance is None else claim.leaning


def _chance(claim: Claim) -> float:
    """Return the probability of a part; a fact has none, and what is not judged is all chance."""
    if claim.chance is None:
        return 1.0 if claim.verdict == NOT_JUDGED else 0.0
    return claim.chance


def jointly_judged(claims: Sequence[Claim]) -> list[Claim]:
    """Return the claims of a report with verdicts that hold together.

    Counted are claims that are judged by an interval and are no part of another.
    """
    of_parts = {part for claim in claims for part in claim.parts}
    alone = [claim for claim in claims if claim.id not in of_parts]
    judged = {}
    for claim, chance in zip(alone, holm([claim.chance for claim in alone]), strict=True):
        if chance is not None:
            verdict = claim.leaning if significant(chance) else INCONCLUSIVE
            judged[claim.id] = msgspec.structs.replace(claim, verdict=verdict, corrected=chance)
    return [judged.get(claim.id, claim) for claim in claims]
