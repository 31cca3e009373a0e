"""Claims judged by themselves, together, and by their parts."""

import pytest

from qops_batsim.experiments.statistics import Interval, mean_interval
from qops_batsim.papers.claims import (
    Claim,
    combined_claim,
    jointly_judged,
    plain_claim,
    range_claim,
    sign_claim,
)

# A mean of 2 whose interval just excludes 0, and one far from it.
NEAR = mean_interval([1.0, 2.0, 3.0, 0.1, 3.9])
FAR = mean_interval([1.9, 2.0, 2.1, 1.9, 2.1])


@pytest.mark.parametrize(
    ("ends", "sign", "verdict"),
    [
        ((1.0, 3.0), +1, "confirmed"),
        ((1.0, 3.0), -1, "not confirmed"),
        ((-1.0, 5.0), +1, "inconclusive"),
        ((-3.0, -1.0), -1, "confirmed"),
        ((-0.001, 1.0), +1, "inconclusive"),
        ((0.0, 0.0), +1, "inconclusive"),
    ],
)
def test_by_itself_a_claim_needs_the_whole_interval(
    ends: tuple[float, float], sign: int, verdict: str
) -> None:
    low, high = ends
    found = Interval(mean=(low + high) / 2, low=low, high=high, count=5)
    claim = sign_claim("a", "it grows", found, sign, 4.0, section="5")
    assert claim.verdict == verdict
    assert (claim.value, claim.interval, claim.count) == (found.mean, ends, 5)
    assert (claim.paper, claim.section) == (4.0, "5")
    (judged,) = jointly_judged([claim])
    assert (judged.verdict, judged.corrected) == (verdict, claim.chance)


@pytest.mark.parametrize(
    ("low", "high", "verdict"),
    [
        (1.0, 3.0, "confirmed"),
        (1.95, 3.0, "inconclusive"),
        (3.0, 5.0, "not confirmed"),
        (-5.0, 1.0, "not confirmed"),
    ],
)
def test_a_claim_about_a_size_is_judged_on_the_size(low: float, high: float, verdict: str) -> None:
    claim = range_claim("a", "by 3 to 5 %", FAR, low, high)
    assert claim.verdict == verdict
    assert claim.expected == (low, high)


@pytest.mark.parametrize("values", [[5.0], [5.0, 5.1]])
def test_too_few_repetitions_are_not_judged(values: list[float]) -> None:
    claim = sign_claim("a", "", mean_interval(values), +1)
    assert (claim.verdict, claim.chance) == ("not judged", None)
    assert jointly_judged([claim]) == [claim]


def test_among_many_claims_each_needs_more() -> None:
    near = sign_claim("near", "", NEAR, +1)
    far = sign_claim("far", "", FAR, +1)
    alone = jointly_judged([near])[0]
    assert (alone.verdict, alone.corrected) == ("confirmed", near.chance)
    fact = plain_claim("fact", "it holds", False, 1.0)
    few = sign_claim("few", "", mean_interval([1.0]), +1)
    others = [sign_claim(f"open {number}", "", FAR, +1) for number in range(5)]
    judged = {claim.id: claim for claim in jointly_judged([near, far, fact, few, *others])}
    assert near.chance is not None
    # The greatest of seven: the others are more certain, and only they pay for all.
    assert judged["near"].corrected == near.chance
    assert judged["near"].verdict == "confirmed"
    assert judged["far"].corrected == pytest.approx(7 * far.chance)
    assert (judged["fact"].verdict, judged["few"].verdict) == ("not confirmed", "not judged")
    both = jointly_judged([near, sign_claim("too", "", NEAR, +1)])
    assert [claim.verdict for claim in both] == ["inconclusive", "inconclusive"]


def test_a_claim_with_parts_holds_if_they_all_do() -> None:
    def verdict(*parts: Claim) -> str:
        whole = combined_claim("a", "all of it", parts, section="6.1")
        assert whole.parts == tuple(part.id for part in parts)
        judged = jointly_judged([whole, *parts])[0]
        assert judged.section == "6.1"
        return judged.verdict

    good, bad = sign_claim("good", "", FAR, +1), sign_claim("bad", "", FAR, -1)
    unknown = sign_claim("unknown", "", mean_interval([-1.0, 1.0, 0.0]), +1)
    few = sign_claim("few", "", mean_interval([1.0]), +1)
    assert verdict(good) == "confirmed"
    assert verdict(good, few) == "not judged"
    assert verdict(good, unknown) == "inconclusive"
    assert verdict(good, few, unknown) == "not judged"
    assert verdict(good, few, unknown, bad) == "not confirmed"
    fact, wrong = (plain_claim(f"{holds}", "", holds, 1.0) for holds in (True, False))
    assert verdict(fact, fact) == verdict(fact, good) == "confirmed"
    assert verdict(fact, wrong) == verdict(wrong, good) == "not confirmed"


def test_a_whole_counts_once_and_its_parts_are_judged_by_themselves() -> None:
    near, far = sign_claim("near", "", NEAR, +1), sign_claim("far", "", FAR, +1)
    whole, other = combined_claim("a", "", [near, far]), sign_claim("b", "", NEAR, +1)
    # All parts hold: as certain as the least certain of them.
    assert (whole.verdict, whole.chance, whole.decided_by) == ("confirmed", near.chance, "near")
    assert whole.value == near.value
    judged = {claim.id: claim for claim in jointly_judged([whole, near, far, other])}
    assert near.chance is not None
    assert judged["a"].corrected == pytest.approx(2 * near.chance)
    assert [judged[name].verdict for name in ("a", "b")] == ["inconclusive"] * 2
    assert (judged["near"], judged["far"]) == (near, far)
    # One part does not: that one of two does so by chance is twice as likely.
    lower = sign_claim("lower", "", FAR, -1)
    refuted = combined_claim("a", "", [near, lower])
    assert (refuted.verdict, refuted.decided_by) == ("not confirmed", "lower")
    assert refuted.chance == pytest.approx(2 * lower.chance)
