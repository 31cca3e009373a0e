"""The claims of Talby and Feitelson (1999) as tests.

Differences of yearly averages are judged by their intervals over the twelve months, which both
sides share: windows of the log. With one log of one year, such an interval says what to expect of
another month of that machine, not what would happen elsewhere.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial
from typing import NamedTuple

from qops_batsim.experiments import (
    CONFIRMED,
    Claim,
    Interval,
    claim_with_parts,
    invariant_claim,
    mean_interval,
    paired_difference,
    range_claim,
    sign_claim,
    untested,
)
from studies.shared import relative_difference
from studies.talby1999 import study
from studies.talby1999.runs import (
    JobGroup,
    YearMeasures,
    Years,
    fall,
    improvement_interval,
    monthly_average_case,
    monthly_improvements,
    relative_interval,
)
from studies.talby1999.study import BASELINE, EASY, EXACT, Case, Reading

WITHIN = 3.0
"""Points of difference to the paper's improvement that count as the same."""

_sentence = partial(study.SPECIFICATION.sentence, within=WITHIN)

_Side = tuple[Case, JobGroup]


class _Longer(NamedTuple):
    """A claim that jobs wait longer on one side, a case and a group, than on another.

    The difference is told in % of the yearly average of the side ``of``, or else in seconds.
    """

    id: str
    longer: _Side
    shorter: _Side
    of: _Side | None = None
    paper: float | None = None

    def judged(self, years: Years) -> Claim:
        """Return the claim with its verdict."""
        longer, shorter = (years[case].shares(group) for case, group in self[1:3])
        more = [a - b for a, b in zip(longer, shorter, strict=True)]
        if self.of is None:
            return _positive(self.id, mean_interval(more), self.paper)
        case, group = self.of
        return _positive(self.id, relative_interval(more, years[case].shares(group)), self.paper)


def _positive(name: str, found: Interval, told: float | None = None) -> Claim:
    section, text = _sentence(name)
    return sign_claim(name, text, found, 1, paper=told, section=section)


def _never(name: str, violations: float) -> Claim:
    section, text = _sentence(name)
    return invariant_claim(name, text, violations, 0.0, section=section)


def _points(name: str, longer: Case, shorter: Case, told: float | None) -> _Longer:
    """Return a claim about points of improvement over conservative backfilling."""
    return _Longer(name, (longer, "all"), (shorter, "all"), _CONSERVATIVE, told)


_CONSERVATIVE: _Side = (BASELINE, "all")
_EASY: _Side = (EASY, "all")


def _priorities(reading: Reading) -> Iterator[_Longer]:
    """Yield the claims of section 5.3 about unequal priorities, and of section 6 about EASY."""
    equal: _Side = (reading.equal, "all")
    unequal: _Side = (reading.unequal, "all")
    preferred: _Side = (reading.unequal, "preferred")
    others: _Side = (reading.unequal, "others")
    arrival: _Side = (reading.heuristics(1.0)["ascending_arrival_time"], "all")
    told = study.YEAR
    cost = relative_difference(told.unequal, told.slack)
    yield _Longer("preferred-wait-less", others, preferred, None, told.low - told.high)
    yield _Longer("preferred-gain", equal, preferred, equal, fall(told.slack, told.high))
    yield _Longer("priorities-cost", unequal, equal, equal, cost)
    for which, side, wait in (
        ("unequal-beats", unequal, told.unequal),
        ("others-beat", others, told.low),
    ):
        by = fall(told.conservative, wait)
        yield _Longer(f"{which}-conservative", _CONSERVATIVE, side, _CONSERVATIVE, by)
        yield _Longer(f"{which}-easy", _EASY, side, _EASY)
    by = fall(told.unequal, study.HEURISTICS["ascending_arrival_time"][1])
    yield _Longer("unequal-arrival-order", unequal, arrival, unequal, by)


def monthly_claims(years: Years, reading: Reading) -> list[Claim]:
    """Return the claims about the monthly table, and against EASY."""
    base, equal = years[BASELINE], years[reading.equal]
    claims = [
        *_improvements("improvement", equal, base, study.IMPROVEMENT),
        *_improvements("easy", equal, years[EASY], study.NUMBERS["improvement_over_easy"]),
        _in_range("easy-conservative", improvement_interval(base, years[EASY]), 0.0),
        _positive("overestimation", improvement_interval(base, years[EXACT])),
    ]
    monthly = monthly_improvements(base, equal)
    if monthly:
        claims.append(_never("every-month", sum(each <= 0 for each in monthly)))
    return [*claims, _never("guarantee", equal.late_starts)]


def _improvements(name: str, year: YearMeasures, base: YearMeasures, told: float) -> list[Claim]:
    """Return the claims that a scheduler improves on another, and by as much as is told."""
    found = improvement_interval(year, base)
    return [_positive(name, found, told), _in_range(f"{name}-size", found, told)]


def _in_range(name: str, found: Interval, told: float) -> Claim:
    """Return the claim that a number is that of the paper, within a few points."""
    section, text = _sentence(name)
    ends = told - WITHIN, told + WITHIN
    return range_claim(name, text, found, *ends, section=section, paper=told)


def all_claims(years: Years, reading: Reading) -> list[Claim]:
    """Return the claims of the abstract and of sections 4.8 to 6."""
    return [
        *monthly_claims(years, reading),
        *_heuristic_claims(years, reading),
        *_parameter_claims(years, reading),
        *(each.judged(years) for each in _priorities(reading)),
        *_gap_claims(years, reading),
        *_weight_claims(years, reading),
    ]


def _heuristic_claims(years: Years, reading: Reading) -> list[Claim]:
    cases = reading.heuristics()
    claims = []
    for name, told in study.HEURISTIC_IMPROVEMENTS.items():
        if name != "ascending_scheduled_time":
            points = study.IMPROVEMENT - told
            longer = _points(f"best-heuristic-{name}", cases[name], reading.equal, points)
            claims.append(longer.judged(years))
    worst = min(
        (improvement_interval(years[case], years[BASELINE]) for case in cases.values()),
        key=lambda interval: interval.mean,
    )
    told = min(study.HEURISTIC_IMPROVEMENTS.values())
    return [*claims, _positive("all-heuristics", worst, told)]


def _parameter_claims(years: Years, reading: Reading) -> list[Claim]:
    factors = reading.slack_factors()
    pairs = zip(years[factors[0.0]].monthly(), years[BASELINE].monthly(), strict=True)
    collapsed = sum(not math.isclose(one, other, rel_tol=1e-9) for one, other in pairs)
    collapse = _never("slack-factor-0", collapsed)
    if collapse.verdict == CONFIRMED and reading == study.CHOSEN:
        collapse = untested(collapse, "it chose the reading, which could only refute it")
    gain = study.NUMBERS["improvement_slack_factor_9"] - study.IMPROVEMENT
    monthly = monthly_average_case(years, reading)
    equal: _Side = (reading.equal, "all")
    higher: _Side = (reading.all_priorities()[1.0], "all")
    return [
        _points("slack-factor-9", reading.equal, factors[9.0], gain).judged(years),
        collapse,
        _points("monthly-average-wait", reading.equal, monthly, None).judged(years),
        _Longer("higher-priorities", higher, equal, equal).judged(years),
    ]


def _gap_claims(years: Years, reading: Reading) -> list[Claim]:
    equal: _Side = (reading.equal, "all")
    *others, widest = [(gap, case) for gap, case in reading.gaps().items() if gap > 0]
    smaller, near = [], []
    for gap, case in (*others, widest):
        text = f"others' wait less that of preferred jobs at a gap of {gap:g} (s)"
        wait = mean_interval(_gaps(years[case]))
        smaller.append(sign_claim(f"smaller-gaps.{gap:g}", text, wait, 1))
    for gap, case in others:
        text = f"that at the widest gap less that at {gap:g} (s)"
        more = paired_difference(_gaps(years[widest[1]]), _gaps(years[case]))
        smaller.append(sign_claim(f"smaller-gaps.widest-{gap:g}", text, more, 1))
    for gap, case in (*others, widest):
        base = years[equal[0]].shares()
        rises = [a - b for a, b in zip(years[case].shares(), base, strict=True)]
        change = relative_interval(rises, base)
        text = f"average wait at a gap of {gap:g} against that of equal priorities (%)"
        ends = (WITHIN, math.inf) if case == widest[1] else (-WITHIN, WITHIN)
        near.append(range_claim(f"gap-jump.{gap:g}", text, change, *ends))
    return [
        *claim_with_parts("smaller-gaps", *_sentence("smaller-gaps"), smaller),
        *claim_with_parts("gap-jump", *_sentence("gap-jump"), near),
    ]


def _gaps(year: YearMeasures) -> list[float]:
    """Return numbers by month whose mean is the difference of the two groups' yearly averages."""
    return [b - a for a, b in zip(year.shares("preferred"), year.shares("others"), strict=True)]


def _weight_claims(years: Years, reading: Reading) -> list[Claim]:
    groups: tuple[JobGroup, ...] = ("preferred", "others")
    weights = reading.other_weights()
    low, full = weights[0.2], weights[1.0]
    claims = []
    for group in groups:
        side = (full, group)
        claims.append(_Longer(f"weights-{group}", (low, group), side, side).judged(years))
    wider = paired_difference(_gaps(years[low]), _gaps(years[full]))
    return [*claims, _positive("weights-gap", wider)]
