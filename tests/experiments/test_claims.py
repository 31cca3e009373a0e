"""Claims judged by themselves, together, and by their parts."""

from __future__ import annotations

import math
import re
from collections.abc import Callable

import numpy as np
import pytest

from qops_batsim.experiments import (
    Claim,
    Interval,
    changes,
    invariant_claim,
    jointly_judged,
    mean_interval,
    range_claim,
    sign_claim,
    statistics,
    untested,
)
from qops_batsim.experiments.claims import DECIDED, combined_claim, corrected_family, level_of
from qops_batsim.experiments.statistics import ERROR, SEED


def around(low: float, high: float, count: int = 20) -> Interval:
    """Return evenly spaced values with this interval."""
    steps = np.linspace(-1.0, 1.0, count)
    width = mean_interval(list(steps)).ends[1] or 1.0
    return mean_interval(list((low + high) / 2 + (high - low) / 2 / width * steps))


# A mean of 2 that is nearly too uncertain for a verdict, and one far from 0.
NEAR = around(0.6, 3.4)
FAR = mean_interval([1.9, 2.0, 2.1, 1.9, 2.1] * 4)
FEW = mean_interval([1.0, 1.1, 1.2])
OPEN = mean_interval([-1.0, 1.0, 0.0, -0.5, 0.6] * 4)


@pytest.mark.parametrize(
    ("ends", "sign", "verdict"),
    [
        ((1.0, 3.0), +1, "confirmed"),
        ((1.0, 3.0), -1, "contradicted"),
        ((-1.0, 5.0), +1, "undecided"),
        ((-3.0, -1.0), -1, "confirmed"),
        ((0.05, 3.0), +1, "undecided"),
        ((0.0, 0.0), +1, "untested"),
    ],
)
def test_by_itself_a_claim_needs_more_than_the_interval(
    ends: tuple[float, float], sign: int, verdict: str
) -> None:
    low, high = ends
    found = around(low, high)
    claim = sign_claim("a", "it grows", found, sign, paper=4.0, section="5")
    assert claim.verdict == verdict
    assert (claim.value, claim.interval, claim.count) == (found.mean, found.known, 20)
    assert found.known == pytest.approx(ends, abs=1e-9)
    assert (claim.paper, claim.section) == (4.0, "5")
    (judged,) = jointly_judged([claim])
    assert (judged.verdict, judged.corrected) == (verdict, claim.chance)


@pytest.mark.parametrize(
    ("low", "high", "verdict"),
    [
        (1.0, 3.0, "confirmed"),
        (1.965, 3.0, "undecided"),
        (3.0, 5.0, "contradicted"),
        (-5.0, 1.0, "contradicted"),
    ],
)
def test_a_claim_about_a_size_is_judged_on_the_size(low: float, high: float, verdict: str) -> None:
    claim = range_claim("a", "by 3 to 5 %", FAR, low, high)
    assert claim.verdict == verdict
    assert claim.expected == (low, high)


@pytest.mark.parametrize(
    ("ends", "margin", "verdict"),
    [
        ((-0.2, 0.3), 0.5, "equivalent"),
        ((-0.2, 0.3), 0.25, "undecided"),
        # Surely above 0, and surely less than what counts.
        ((0.3, 0.45), 0.5, "equivalent"),
        ((0.29, 0.33), 1.0, "equivalent"),
        ((0.02, 0.1), 0.5, "equivalent"),
        # Surely above 0, and perhaps more than what counts.
        ((0.3, 0.7), 0.5, "confirmed"),
        ((0.9, 1.1), 0.5, "confirmed"),
        ((-0.7, -0.3), 0.5, "contradicted"),
        ((-0.45, -0.3), 0.5, "equivalent"),
        ((-0.9, -0.6), 0.5, "contradicted"),
    ],
)
def test_less_than_the_margin_is_no_difference(
    ends: tuple[float, float], margin: float, verdict: str
) -> None:
    low, high = ends
    claim = sign_claim("a", "it grows", around(low, high), +1, margin=margin)
    assert (claim.verdict, claim.margin) == (verdict, margin)


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("mean", [-0.9, -0.31, 0.0, 0.02, 0.31, 0.5, 0.8, 0.999, 1.001, 3.0])
def test_no_amount_of_data_confirms_what_was_no_difference(mean: float, sign: int) -> None:
    verdicts = []
    for width in np.geomspace(30.0, 1e-12, 60):
        one = sign_claim("a", "", around(mean - width, mean + width), sign, margin=1.0)
        others = [sign_claim(f"{n}", "", FAR, 1) for n in range(5)]
        # By itself, among others, and as a part.
        whole = combined_claim("b", "", [one, *others])
        both = corrected_family([one, *others])[0], corrected_family([whole])[0]
        verdicts.append((one.verdict, *(each.verdict for each in both)))
    for way in zip(*verdicts, strict=True):
        assert way[0] == "undecided"
        if "equivalent" in way:
            assert set(way[way.index("equivalent") :]) == {"equivalent"}
        assert ("equivalent" in way) == (abs(mean) < 1)


def test_changes_are_told_in_percent_and_judged_by_logarithms() -> None:
    halves = changes([1.0 + 0.01 * n for n in range(12)], [2.0] * 12)
    claim = range_claim("a", "it halves", halves, -51.0, -45.0, relative=True)
    assert claim.value == pytest.approx(100 * (math.exp(sum(halves) / 12) - 1))
    assert claim.interval is not None
    assert claim.interval[0] < -47.5 < claim.interval[1]
    assert (claim.verdict, claim.expected) == ("confirmed", (-51.0, -45.0))
    # A ratio and its inverse have the same chance.
    doubled = sign_claim("b", "", [-value for value in halves], 1, relative=True)
    assert doubled.chance == sign_claim("c", "", halves, -1, relative=True).chance
    like = changes([1.0 + 0.001 * n for n in range(12)], [1.005] * 12)
    assert sign_claim("d", "", like, 1, margin=5.0, relative=True).verdict == "equivalent"


@pytest.mark.parametrize("values", [[5.0], [5.0, 5.1], [5.0, 5.1, 5.2]])
def test_too_few_repetitions_are_not_judged(values: list[float]) -> None:
    claim = sign_claim("a", "", mean_interval(values), +1, margin=0.5)
    assert (claim.verdict, claim.chance) == ("too few to judge", None)
    assert jointly_judged([claim]) == [claim]


def test_among_many_claims_each_needs_more() -> None:
    near = sign_claim("near", "", NEAR, +1)
    far = sign_claim("far", "", FAR, +1)
    alone = jointly_judged([near])[0]
    assert (alone.verdict, alone.corrected) == ("confirmed", near.chance)
    fact = invariant_claim("fact", "it holds", 1)
    few = sign_claim("few", "", FEW, +1)
    others = [sign_claim(f"open {number}", "", FAR, +1) for number in range(5)]
    judged = {claim.id: claim for claim in jointly_judged([near, far, fact, few, *others])}
    assert near.chance < 0.01 < 2 * near.chance
    assert near.chance is not None
    # The greatest of seven: the others are more certain, and only they pay for all.
    assert judged["near"].corrected == near.chance
    assert judged["near"].verdict == "confirmed"
    assert judged["far"].corrected == pytest.approx(7 * far.chance)
    assert (judged["fact"].verdict, judged["few"].verdict) == ("contradicted", "too few to judge")
    both = jointly_judged([near, sign_claim("too", "", NEAR, +1)])
    assert [claim.verdict for claim in both] == ["undecided", "undecided"]


def test_units_that_could_decide_a_few_claims_are_too_few_for_many() -> None:
    """Twelve agree by chance with 2 / 4096; twenty times that is below 1 %, and 21 times more."""
    many = [sign_claim(str(n), "", mean_interval([2.0, 2.1] * 6), +1) for n in range(21)]
    assert {each.verdict for each in jointly_judged(many[:20])} == {"confirmed"}
    assert {each.verdict for each in jointly_judged(many)} == {"too few to judge"}
    # What has units enough does not pay for what has not.
    (*_, judged) = jointly_judged([*many, claim := sign_claim("near", "", NEAR, +1)])
    assert (judged.verdict, judged.corrected) == ("confirmed", claim.chance)


# Eleven alike and one far off: draws without that one agree, on the wrong side.
LONELY = [*np.linspace(1.0, 1.2, 11), 2.5]


def a_family(moved: Callable[[list[float], float], list[float]]) -> list[Claim]:
    """Return four claims and two parts, about values that are moved to a mean or left alone."""
    mixed = [-1.0, 2.0, 0.5, 3.0, -0.2, 1.1, 0.9, -2.0, 4.0, 0.1, 0.3, 1.7]
    parts = [
        sign_claim("fewer", "", moved(LONELY, 0.0), -1),
        sign_claim("more", "", moved([each**3 for each in mixed], 0.0), +1, margin=0.4),
    ]
    return [
        combined_claim("both", "", parts),
        sign_claim("lonely", "", moved(LONELY, 0.0), +1, margin=0.5),
        range_claim("between", "", moved(mixed, 0.2), 0.2, 5.0),
        range_claim("at most", "", moved(mixed, math.log(1.1)), high=10.0, relative=True),
        *parts,
    ]


def test_the_level_is_that_of_families_judged_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(statistics, "FAMILIES", 300)
    own = a_family(lambda values, _: values)
    found = level_of(own[:4], {each.id: each for each in own})
    wrong = 0
    for places in np.random.default_rng(SEED).integers(0, 12, (300, 12)):

        def drawn(values: list[float], mean: float, places: np.ndarray = places) -> list[float]:
            return (np.array(values) - np.mean(values) + mean)[places].tolist()

        judged = corrected_family(a_family(drawn)[:4])
        wrong += any(each.verdict in ("confirmed", "contradicted") for each in judged)
    assert found == wrong / 300 > 0.05


def test_a_family_that_would_often_be_wrong_has_no_verdict() -> None:
    lonely = sign_claim("lonely", "it grows", LONELY, +1)
    parts = [sign_claim("far", "", FAR, +1), sign_claim("odd", "", [1.1, *LONELY], +1)]
    whole = combined_claim("whole", "both", parts, section="2")
    assert {each.verdict for each in (whole, *parts)} == {"confirmed"}
    judged = jointly_judged([lonely, whole, *parts])
    assert {each.verdict for each in judged} == {"too few to judge"}
    assert {each.corrected for each in judged} == {None}
    assert re.fullmatch(r"it grows: too few .* are wrong in [345]\d\.\d %", judged[0].text)
    # Of the same values, those that agree about nothing are not looked at.
    assert jointly_judged([sign_claim("a", "", OPEN, +1)])[0].verdict == "undecided"


def test_families_are_judged_apart() -> None:
    one, other = (sign_claim(name, "", NEAR, +1, section=name) for name in ("5.1", "5.2"))
    assert [claim.verdict for claim in jointly_judged([one, other])] == ["confirmed"] * 2


def test_a_claim_with_parts_holds_if_they_all_do() -> None:
    def verdict(*parts: Claim) -> str:
        whole = combined_claim("a", "all of it", parts, section="6.1")
        assert whole.parts == tuple(part.id for part in parts)
        judged = jointly_judged([whole, *parts])[0]
        assert judged.section == "6.1"
        assert judged.interval is not None or judged.kind == "invariant"
        return judged.verdict

    fact, wrong = (invariant_claim(f"{count}", "", count) for count in (0, 3))
    good, bad = sign_claim("good", "", FAR, +1), sign_claim("bad", "", FAR, -1)
    unknown = sign_claim("unknown", "", OPEN, +1)
    few = sign_claim("few", "", FEW, +1)
    alike = sign_claim("alike", "", OPEN, +1, margin=2.0)
    assert verdict(good) == "confirmed"
    # Of a claim that has a part which cannot fail, that part is not known to hold.
    zero = sign_claim("zero", "", [0.0] * 20, +1, margin=1.0)
    assert zero.text.endswith("no verdict, since all differences are 0")
    assert (verdict(zero), verdict(good, zero), verdict(bad, zero)) == (
        *("untested", "untested", "contradicted"),
    )
    assert verdict(untested(good, "it is so")) == "untested"
    assert combined_claim("a", "", [untested(fact, "it is so")]).verdict == "untested"
    assert verdict(good, few) == "too few to judge"
    assert verdict(good, unknown) == "undecided"
    assert verdict(good, alike) == "equivalent"
    assert verdict(alike, bad) == "contradicted"
    assert verdict(good, few, unknown) == "too few to judge"
    assert verdict(good, few, unknown, bad) == "contradicted"
    assert verdict(fact, fact) == verdict(fact, good) == "confirmed"
    assert verdict(fact, wrong) == verdict(wrong, good) == "contradicted"
    # That nothing was violated says nothing about a mean.
    assert verdict(fact, unknown) == "undecided"


def test_a_whole_counts_once_and_its_parts_are_judged_by_themselves() -> None:
    near, far = sign_claim("near", "", NEAR, +1), sign_claim("far", "", FAR, +1)
    whole, other = combined_claim("a", "", [near, far]), sign_claim("b", "", NEAR, +1)
    # All parts hold: as certain as the least certain of them.
    assert (whole.verdict, whole.chance, whole.decided_by) == ("confirmed", near.chance, "near")
    assert whole.value == near.value
    judged = {claim.id: claim for claim in jointly_judged([whole, near, far, other])}
    assert near.chance is not None
    assert judged["a"].corrected == pytest.approx(2 * near.chance)
    assert [judged[name].verdict for name in ("a", "b")] == ["undecided"] * 2
    assert (judged["near"], judged["far"]) == (near, far)
    # One part does not: that one of two does so by chance is twice as likely.
    lower = sign_claim("lower", "", FAR, -1)
    refuted = combined_claim("a", "", [near, lower])
    assert (refuted.verdict, refuted.decided_by) == ("contradicted", "lower")
    assert refuted.chance == pytest.approx(2 * lower.chance)


def test_without_data_nothing_is_certain() -> None:
    nothing = range_claim("a", "", [])
    whole = combined_claim("b", "", [nothing, sign_claim("c", "", FAR, 1)])
    assert (nothing.verdict, whole.verdict, whole.chance) == ("not judged", "not judged", None)
    # Nor are equal numbers: they may be one run many times.
    same = sign_claim("d", "", [1.0] * 12, 1)
    assert same.chance == 2 * 0.5**12


TRUTHS = {"none": 0.0, "small": 0.2, "large": 1.5}
"""True means of made-up differences, in standard deviations of one."""

MARGIN = 0.25


def _drawn(random: np.random.Generator, mean: float, skewed: bool) -> list[float]:
    """Return twenty differences with this mean and a standard deviation of 1."""
    if not skewed:
        return list(random.normal(mean, 1.0, 20))
    # A gamma distribution of skewness 1.
    return list(mean + (random.gamma(4.0, 1.0, 20) - 4.0) / 2.0)


def _is_wrong(claim: Claim, mean: float) -> bool:
    """Tell whether a verdict contradicts the true mean."""
    if claim.verdict == "confirmed":
        return mean <= 0
    if claim.verdict == "contradicted":
        return mean >= 0
    return claim.verdict == "equivalent" and abs(mean) >= MARGIN


def test_verdicts_on_made_up_studies_with_known_effects() -> None:
    """Of 400 studies of eight claims, at most 5 % have a wrong one; large effects are decided."""
    random = np.random.default_rng(26)
    wrong = large = decided = 0
    for number in range(400):
        truths = random.choice(list(TRUTHS.values()), 8) * random.choice([-1, 1], 8)
        # Also of families whose level nobody asks for.
        judged = corrected_family(
            [
                sign_claim(str(place), "", _drawn(random, mean, number % 2 == 1), 1, margin=MARGIN)
                for place, mean in enumerate(truths)
            ]
        )
        wrong += any(map(_is_wrong, judged, truths))
        for claim, mean in zip(judged, truths, strict=True):
            if abs(mean) == TRUTHS["large"]:
                large += 1
                decided += claim.verdict in DECIDED
    assert wrong / 400 <= ERROR
    assert decided / large >= 0.8
