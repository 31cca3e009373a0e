"""Claims of papers and how they are judged: by a whole interval, or by yes and no."""

from __future__ import annotations

from typing import Literal

import msgspec

from qops_batsim.experiments.intervals import Interval

Verdict = Literal["confirmed", "not confirmed", "inconclusive"]
CONFIRMED: Verdict = "confirmed"
NOT_CONFIRMED: Verdict = "not confirmed"
INCONCLUSIVE: Verdict = "inconclusive"


class Claim(msgspec.Struct, frozen=True, kw_only=True):
    """One claim of a paper, in our words, and what came out here.

    ``value`` is the number that it was judged by, with its unit in ``text`` and a 95 %
    confidence interval if there is one; ``paper`` is the paper's own number.
    """

    id: str
    text: str
    verdict: Verdict
    value: float | None = None
    interval: tuple[float, float] | None = None
    paper: float | None = None


def verdict_of(difference: Interval, sign: int) -> Verdict:
    """Return whether the whole interval has the claimed sign, the other one, or neither."""
    low, high = sorted(sign * end for end in difference.ends)
    if low > 0:
        return CONFIRMED
    return NOT_CONFIRMED if high < 0 else INCONCLUSIVE


def sign_claim(
    name: str, text: str, found: Interval, sign: int, paper: float | None = None
) -> Claim:
    """Return a claim that a number has a sign, judged by its interval."""
    return Claim(
        id=name,
        text=text,
        verdict=verdict_of(found, sign),
        value=found.mean,
        interval=found.known,
        paper=paper,
    )


def plain_claim(
    name: str, text: str, holds: bool, value: float | None, paper: float | None = None
) -> Claim:
    """Return a claim that holds or does not."""
    verdict = CONFIRMED if holds else NOT_CONFIRMED
    return Claim(id=name, text=text, verdict=verdict, value=value, paper=paper)
