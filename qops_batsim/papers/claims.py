"""Claims of papers and how they are judged: by a whole interval, or by yes and no.

The claims of one report are judged together: the probability of a wrong verdict counts for all
of them (:mod:`qops_batsim.experiments.verdicts`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

import msgspec

from qops_batsim.experiments.intervals import LEAST, Interval
from qops_batsim.experiments.verdicts import ERROR, holm, judge, significant

Verdict = Literal["confirmed", "not confirmed", "inconclusive", "not judged"]
CONFIRMED: Verdict = "confirmed"
NOT_CONFIRMED: Verdict = "not confirmed"
INCONCLUSIVE: Verdict = "inconclusive"
NOT_JUDGED: Verdict = "not judged"

METHOD = (
    "A claim about a mean is confirmed if the measured one lies on the claimed side of a number, "
    "or in the claimed range, and not confirmed if it lies outside, unless chance explains that: "
    "by Student's t distribution, with a probability of at most "
    f"{ERROR:.0%} of one wrong verdict or more among all claims of the report (Holm). With fewer "
    f"than {LEAST} repetitions it is not judged. Intervals are those of each number by itself, at "
    "95 %. A claim without interval is a fact, or a number of one run: it holds or does not."
)
"""How verdicts are reached, for reports."""

Ends = tuple[float | None, float | None]


class Claim(msgspec.Struct, frozen=True, kw_only=True):
    """One claim of a paper, in our words, and what came out here.

    ``section`` is where the paper has it. ``value`` is the number that it was judged by, with its
    unit in ``text``, and a 95 % confidence interval if there is one, of ``count`` repetitions;
    ``expected`` the range in which it lies if the claim holds, None for no end; ``paper`` the
    paper's own number. ``chance`` is the probability that chance explains the verdict,
    ``corrected`` the same among all claims of the report. A claim that has ``parts``, ids of
    others, holds if they all do; its numbers are those of the part that it is ``decided_by``.
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


def range_claim(
    name: str,
    text: str,
    found: Interval,
    low: float = -math.inf,
    high: float = math.inf,
    *,
    section: str = "",
    paper: float | None = None,
) -> Claim:
    """Return a claim that a number lies between two others, judged by itself."""
    chance = judge(found, low, high).chance
    claim = Claim(
        id=name,
        text=text,
        section=section,
        verdict=NOT_JUDGED,
        value=found.mean,
        interval=found.known,
        count=found.count,
        expected=(None if low == -math.inf else low, None if high == math.inf else high),
        paper=paper,
        chance=chance,
    )
    return _corrected(claim, chance)


def sign_claim(
    name: str,
    text: str,
    found: Interval,
    sign: int,
    paper: float | None = None,
    *,
    section: str = "",
) -> Claim:
    """Return a claim that a number is above 0 (sign +1) or below (-1), judged by itself."""
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
    found = Claim(
        id=name,
        text=text,
        section=section,
        verdict=INCONCLUSIVE,
        parts=tuple(part.id for part in parts),
    )
    return _combined(found, parts)


def judged_together(claims: Sequence[Claim]) -> list[Claim]:
    """Return the claims of a report with verdicts that hold together; facts are not counted."""
    corrected = holm([claim.chance if not claim.parts else None for claim in claims])
    judged = {
        claim.id: claim if claim.parts or claim.interval is None else _corrected(claim, chance)
        for claim, chance in zip(claims, corrected, strict=True)
    }
    return [
        _combined(claim, [judged[part] for part in claim.parts]) if claim.parts else claim
        for claim in judged.values()
    ]


def _corrected(claim: Claim, chance: float | None) -> Claim:
    """Return a claim with the verdict that a corrected probability allows."""
    verdict: Verdict = NOT_JUDGED
    if chance is not None:
        assert claim.value is not None
        assert claim.expected is not None
        low, high = claim.expected
        inside = (low is None or claim.value > low) and (high is None or claim.value < high)
        verdict = CONFIRMED if inside else NOT_CONFIRMED
        verdict = verdict if significant(chance) else INCONCLUSIVE
    return msgspec.structs.replace(claim, verdict=verdict, corrected=chance)


def _combined(claim: Claim, parts: Sequence[Claim]) -> Claim:
    verdicts = [part.verdict for part in parts]
    order = (NOT_CONFIRMED, INCONCLUSIVE, NOT_JUDGED)
    verdict = next((each for each in order if each in verdicts), CONFIRMED)
    part = parts[verdicts.index(verdict)]
    return msgspec.structs.replace(
        claim,
        verdict=verdict,
        decided_by=part.id,
        value=part.value,
        interval=part.interval,
        count=part.count,
        expected=part.expected,
        paper=part.paper,
        chance=part.chance,
        corrected=part.corrected,
    )
