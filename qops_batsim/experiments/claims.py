"""Claims of papers, judged by a confidence interval or by a count of violations.

The claims of one family, those about one section of a paper, are judged together: the probability
of a wrong verdict counts for all of them (:mod:`qops_batsim.experiments.statistics`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, TypedDict, Unpack

import msgspec

from qops_batsim.experiments.statistics import (
    ERROR,
    TEXT_OF_LEVEL,
    Interval,
    Statement,
    holm,
    judge,
    level,
    log_ratios,
    logarithm_of,
    mean_interval,
    significant,
)

Values = list[float]
"""A number by seed; none where it has no meaning."""


def differences(first: Values, second: Values) -> Values:
    """Return the first minus the second number of each seed; empty if a number is missing."""
    return [a - b for a, b in by_seed([first, second])]


def changes(first: Values, second: Values) -> Values:
    """Return log(first / second) for each seed; empty if a number is not above 0."""
    pairs = by_seed([first, second])
    return log_ratios([a for a, _ in pairs], [b for _, b in pairs])


def averages(columns: Sequence[Values]) -> Values:
    """Return the mean of each seed's numbers; empty if a number is missing."""
    return [sum(row) / len(row) for row in by_seed(columns)]


def slopes(columns: Sequence[Values], at: Sequence[float]) -> Values:
    """Return, for each seed, the least-squares slope of its numbers over the positions ``at``."""
    middle = sum(at) / len(at)
    spread = sum((x - middle) ** 2 for x in at)
    return [
        sum((x - middle) * y for x, y in zip(at, row, strict=True)) / spread
        for row in by_seed(columns)
    ]


def by_seed(columns: Sequence[Values]) -> list[tuple[float, ...]]:
    """Return the numbers of each seed as one tuple; empty if a number is missing.

    A number that no seed changes, where nothing is drawn, is that of all.
    """
    seeds = max(map(len, columns), default=0)
    rows = [each * seeds if len(each) == 1 else each for each in columns]
    return list(zip(*rows, strict=True)) if all(columns) else []


Verdict = Literal[
    "confirmed",
    "contradicted",
    "equivalent",
    "undecided",
    "too few to judge",
    "not judged",
    "untested",
]
CONFIRMED: Verdict = "confirmed"
CONTRADICTED: Verdict = "contradicted"
EQUIVALENT: Verdict = "equivalent"
UNDECIDED: Verdict = "undecided"
TOO_FEW: Verdict = "too few to judge"
NOT_JUDGED: Verdict = "not judged"
UNTESTED: Verdict = "untested"

DECIDED = (CONFIRMED, CONTRADICTED, EQUIVALENT)
"""Verdicts that say something about the claim."""

OUTCOMES: dict[str, tuple[Verdict, ...]] = {
    "confirmed": (CONFIRMED,),
    "contradicted": (CONTRADICTED,),
    "equivalent": (EQUIVALENT,),
    "undecided": (UNDECIDED,),
    "untested": (UNTESTED,),
    "no verdict": (TOO_FEW, NOT_JUDGED),
}
"""Verdicts by outcome, in words of a summary."""

METHOD = (
    "A claim about a mean is confirmed if the measured one lies on the claimed side of a number, "
    "or in the claimed range, and contradicted if it lies outside, unless chance explains that "
    f"among all claims of a section: {TEXT_OF_LEVEL}. Otherwise it is undecided. A claim that "
    "something is more, or less, may have a margin: the two are equivalent "
    "if the measured difference is smaller than that, in the same sense, even if it is surely "
    "more than nothing. A claim with parts "
    "holds if they all do; these, and intervals (95 %), are each by itself. Changes in % are means "
    "of logarithms. "
    "What cannot fail here is untested. An invariant is a number of violations: it holds if there "
    "are none."
)
"""Method by which verdicts are reached, for reports."""

Ends = tuple[float | None, float | None]
Kind = Literal["mean", "invariant"]


class Claim(msgspec.Struct, frozen=True, kw_only=True):
    """One claim of a paper, in our words, with our verdict on it.

    ``section`` is where the paper has it, ``family`` the claims that it is judged with, if these
    are not those of its section. ``value`` is the number that it was judged by, with its unit in
    ``text``, and a 95 % confidence interval if there is one, of ``count`` repetitions;
    ``expected`` the range in which it lies if the claim holds, None for no end; ``margin`` by how
    far it may be beyond the end without a difference that counts; ``paper`` the paper's own
    number. ``values`` are the numbers of the repetitions, of a ``relative`` claim logarithms.
    ``leaning`` is the verdict that chance explains with probability ``chance``, or
    ``corrected`` among all claims of the family. Of a claim of kind ``"invariant"`` the value is
    a number of violations.

    A claim that has ``parts``, ids of others, holds if they all do; its numbers are those of the
    part that it is ``decided_by``, but for ``chance``: to confirm all is as hard as the least
    certain one, and that chance contradicts any of k is k times as likely as one.

    A claim of ``ours`` is a robustness check, such as the same on another machine or in another
    reading, and is counted apart from what the paper claims.
    """

    id: str
    text: str
    verdict: Verdict
    section: str = ""
    family: str = ""
    kind: Kind = "mean"
    value: float | None = None
    interval: tuple[float, float] | None = None
    count: int | None = None
    expected: Ends | None = None
    margin: float | None = None
    paper: float | None = None
    chance: float | None = None
    corrected: float | None = None
    parts: tuple[str, ...] = ()
    decided_by: str = ""
    leaning: Verdict = UNDECIDED
    ours: bool = False
    values: tuple[float, ...] = ()
    relative: bool = False


class Told(TypedDict, total=False):
    """Facts of a claim besides its text and number: fields of :class:`Claim`, and whether
    the numbers are logarithms of ratios (``relative``)."""

    section: str
    family: str
    paper: float | None
    margin: float | None
    relative: bool


def range_claim(
    name: str,
    text: str,
    found: Interval | Sequence[float],
    low: float = -math.inf,
    high: float = math.inf,
    *,
    section: str = "",
    family: str = "",
    paper: float | None = None,
    margin: float | None = None,
    relative: bool = False,
) -> Claim:
    """Return the claim that a number, or the mean of numbers by seed, lies in a range.

    It is judged by itself.

    Parameters
    ----------
    name, text, section
        The claim's name, its sentence, and the section of the paper.
    found
        The number by seed, or its interval.
    low, high
        The range; one end may be infinite.
    family
        Claims of one family are corrected for their number (:func:`jointly_judged`).
    paper
        The paper's number, if it gives one.
    margin
        A number nearer than this to the finite end is no difference that counts, even if it surely
        lies beyond it: more data may turn a confirmed claim into an equivalent one, never the
        reverse.
    relative
        Whether the numbers are logarithms of ratios (:func:`changes`); ends, margin and texts are
        then changes in %.
    """
    claim = Claim(
        id=name, text=text, section=section, family=family, verdict=NOT_JUDGED, paper=paper
    )
    if not isinstance(found, Interval):
        if not found:
            return claim
        found = mean_interval(found)

    in_unit = found.as_changes() if relative else found
    claim = msgspec.structs.replace(
        claim,
        value=in_unit.mean,
        interval=in_unit.known,
        count=in_unit.count,
        expected=(None if low == -math.inf else low, None if high == math.inf else high),
        margin=margin,
        values=found.values,
        relative=relative,
    )
    leaning, verdict = UNDECIDED, TOO_FEW
    stated = statement_of(claim)
    inside, chance = judge(found, stated.low, stated.high)
    if chance is not None:
        leaning = CONFIRMED if inside else CONTRADICTED
        if stated.near is not None:
            near = judge(found, *stated.near)
            alike = 1.0 if near.chance is None or not near.inside else near.chance
            # What is surely too small to count stays so, however many data show that it is there.
            if significant(alike) or alike < chance:
                leaning = EQUIVALENT
                chance = alike
        verdict = _verdict(leaning, chance)
    claim = msgspec.structs.replace(claim, verdict=verdict, leaning=leaning, chance=chance)
    of_differences = low == -high or 0.0 in (low, high)
    if of_differences and not any(found.values):
        return untested(claim, "all differences are 0")
    return claim


def statement_of(claim: Claim) -> Statement:
    """Return what a claim about a mean says of its values."""
    scaled = logarithm_of if claim.relative else float
    low, high = claim.expected or (None, None)
    end = low if high is None else high
    near = None
    if claim.margin is not None and end is not None:
        near = scaled(end - claim.margin), scaled(end + claim.margin)
    ends = -math.inf if low is None else scaled(low), math.inf if high is None else scaled(high)
    return Statement(claim.values, *ends, near)


def _verdict(leaning: Verdict, chance: float) -> Verdict:
    return leaning if significant(chance) else UNDECIDED


def ends_of(sign: int) -> tuple[float, float]:
    """Return the range (0, inf) of positive numbers for sign +1, (-inf, 0) for -1."""
    return (0.0, math.inf) if sign > 0 else (-math.inf, 0.0)


def sign_claim(
    name: str, text: str, found: Interval | Sequence[float], sign: int, **told: Unpack[Told]
) -> Claim:
    """Return the claim that a number, or a mean, is above 0 (sign +1) or below 0 (-1)."""
    return range_claim(name, text, found, *ends_of(sign), **told)


def invariant_claim(
    name: str, text: str, violations: float, paper: float | None = None, *, section: str = ""
) -> Claim:
    """Return the claim that a rule holds in every case: one violation contradicts the claim."""
    return Claim(
        id=name,
        text=text,
        section=section,
        kind="invariant",
        verdict=CONTRADICTED if violations else CONFIRMED,
        value=float(violations),
        paper=paper,
    )


def untested(claim: Claim, reason: str) -> Claim:
    """Return a claim that none of our runs can test, since it could not fail, with the reason."""
    text = f"{claim.text}: no verdict, since {reason}"
    return msgspec.structs.replace(
        claim, text=text, verdict=UNTESTED, leaning=UNDECIDED, chance=None, kind="mean"
    )


def as_checks(claims: Iterable[Claim]) -> list[Claim]:
    """Mark claims as our own checks, which are not counted with the paper's when correcting."""
    return [
        msgspec.structs.replace(each, ours=True, family=each.family or f"{each.section}, ours")
        for each in claims
    ]


def combined_claim(name: str, text: str, parts: Sequence[Claim], *, section: str = "") -> Claim:
    """Return a claim that holds if all its parts hold; its number is the deciding part's.

    A violated invariant decides against it. If there are means, invariants that hold say nothing.
    """
    broken = [part for part in parts if part.kind == "invariant" and part.verdict == CONTRADICTED]
    means = [part for part in parts if part.kind == "mean"]
    if broken or not means:
        decisive = (broken or parts)[0]
        leaning = UNDECIDED
        chance = None
        verdict = decisive.verdict
    else:
        decisive, leaning, chance, verdict = _combined(means)
    return msgspec.structs.replace(
        decisive,
        id=name,
        text=text,
        section=section,
        family="",
        decided_by=decisive.id,
        parts=tuple(part.id for part in parts),
        leaning=leaning,
        chance=chance,
        verdict=verdict,
        corrected=None,
        ours=False,
    )


def _combined(parts: Sequence[Claim]) -> tuple[Claim, Verdict, float | None, Verdict]:
    """Return the part that decides, among parts about a mean, and the leaning, its chance and the
    verdict on all parts.
    """
    against = [part for part in parts if part.leaning == CONTRADICTED]
    if against:
        decisive = min(against, key=_chance)
        leaning = CONTRADICTED
        chance = min(1.0, len(parts) * _chance(decisive))
    else:
        alike = [part for part in parts if part.leaning == EQUIVALENT]
        decisive = max(alike or parts, key=_chance)
        leaning = EQUIVALENT if alike else CONFIRMED
        chance = max(map(_chance, parts))

    # A part that nobody could judge leaves all of them open, unless another one contradicts.
    unknown = [part.verdict for part in parts if part.chance is None]
    if unknown and not (against and chance < 1):
        reason = next((each for each in (NOT_JUDGED, UNTESTED) if each in unknown), TOO_FEW)
        return decisive, UNDECIDED, None, reason
    return decisive, leaning, chance, _verdict(leaning, chance)


def claim_with_parts(name: str, section: str, text: str, parts: Iterable[Claim]) -> list[Claim]:
    """Return a claim that holds if all its parts hold, followed by the parts as claims."""
    found = list(parts)
    return [combined_claim(name, text, found, section=section), *found]


def _chance(claim: Claim) -> float:
    """Return the p-value of a claim; 1 if it is unknown."""
    return 1.0 if claim.chance is None else claim.chance


def whole_claims(claims: Sequence[Claim], *, ours: bool | None = None) -> list[Claim]:
    """Return the claims that are no part of another: the paper's, our checks, or both (None)."""
    of_parts = {part for claim in claims for part in claim.parts}
    return [each for each in claims if each.id not in of_parts and ours in (None, each.ours)]


def jointly_judged(claims: Sequence[Claim]) -> list[Claim]:
    """Return the claims with verdicts corrected for the number of claims in each family.

    Counted are claims that are judged by an interval and are no part of another. A family that
    would be wrong too often (:func:`level_of`) has no verdicts, nor have its parts.
    """
    families: dict[str, list[Claim]] = {}
    for claim in whole_claims(claims):
        if claim.chance is not None:
            families.setdefault(claim.family or claim.section, []).append(claim)
    every = {claim.id: claim for claim in claims}
    judged: dict[str, Claim] = {}
    for family in map(corrected_family, families.values()):
        tested = [claim for claim in family if claim.corrected is not None]
        wrong = level_of(tested, every) if any(significant(e.corrected) for e in tested) else 0.0
        judged |= {claim.id: claim for claim in family}
        if wrong > ERROR:
            told = f": too few units, as such families are wrong in {100 * wrong:.1f} %"
            for claim in family:
                changes = {"text": claim.text + told, "verdict": TOO_FEW, "corrected": None}
                judged[claim.id] = msgspec.structs.replace(claim, **changes)
                for part in (every[name] for name in claim.parts if name in every):
                    if part.chance is not None:
                        judged[part.id] = msgspec.structs.replace(part, verdict=TOO_FEW)
    return [judged.get(claim.id, claim) for claim in claims]


def corrected_family(family: Sequence[Claim]) -> list[Claim]:
    """Return claims that are tested together with verdicts corrected for their number."""
    chances = holm([each.chance for each in family], [each.count for each in family])
    return [
        msgspec.structs.replace(
            claim,
            verdict=TOO_FEW if chance is None else _verdict(claim.leaning, chance),
            corrected=chance,
        )
        for claim, chance in zip(family, chances, strict=True)
    ]


def level_of(family: Iterable[Claim], every: Mapping[str, Claim]) -> float:
    """Return how often claims that are tested together, whose parts are among ``every`` claim, have
    a wrong verdict (:func:`qops_batsim.experiments.statistics.level`).
    """
    members = ([every[e] for e in claim.parts if e in every] or [claim] for claim in family)
    return level(
        [[statement_of(each) for each in parts if each.chance is not None] for parts in members]
    )
