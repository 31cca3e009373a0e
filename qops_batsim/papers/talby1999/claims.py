"""The claims of Talby and Feitelson (1999) as tests.

Differences of yearly averages are judged by their intervals over the twelve months, which both
sides share: windows of the log. With one log of one year, such an interval says what to expect of
another month of that machine, not what would happen elsewhere.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

from qops_batsim.experiments.statistics import Interval, mean_interval, paired_difference
from qops_batsim.papers.claims import (
    Claim,
    claim_with_parts,
    invariant_claim,
    range_claim,
    sign_claim,
)
from qops_batsim.papers.report import relative_difference
from qops_batsim.papers.talby1999 import study
from qops_batsim.papers.talby1999.runs import (
    JobGroup,
    YearMeasures,
    Years,
    fall,
    improvement_interval,
    monthly_average_case,
    monthly_improvements,
    relative_interval,
)
from qops_batsim.papers.talby1999.study import BASELINE, EASY, Case, Reading

WITHIN = 3.0
"""Points of difference to the paper's improvement that count as the same."""

_TEXTS = {
    "improvement": "the slack-based scheduler waits less than conservative backfilling (yearly "
    "average, %)",
    "improvement-size": f"by as much as in the paper, within {WITHIN:g} points (%)",
    "easy": "the slack-based scheduler waits less than EASY (%)",
    "easy-size": f"by about 15 % (within {WITHIN:g} points)",
    "easy-conservative": f"conservative backfilling waits as long as EASY, within {WITHIN:g} % (%)",
    "every-month": "every month but September improves (months that do not)",
    "guarantee": "no job starts after its first start plus its first slack (jobs that do)",
    **{
        f"best-heuristic-{name}": f"ascending_scheduled_time waits less than {name} (points of "
        "improvement)"
        for name in study.HEURISTIC_IMPROVEMENTS
    },
    "all-heuristics": "all heuristics improve on conservative backfilling (the worst of them, %)",
    "slack-factor-9": "a slack factor of 9 improves on one of 3 (points of improvement)",
    "slack-factor-0": "a slack factor of 0 is conservative backfilling, for which the reading was "
    "chosen (months whose average wait differs)",
    "monthly-average-wait": "an average wait of each month brings a few more points of improvement",
    "higher-priorities": "user and political priority 1 for all jobs makes them wait longer than 0 "
    "(%)",
    "preferred-wait-less": "preferred jobs wait less than the others (s)",
    "preferred-gain": "preferred jobs wait less than all jobs do with equal priorities (%)",
    "priorities-cost": "unequal priorities raise the average wait (%)",
    "unequal-beats-conservative": "with unequal priorities, jobs still wait less than with "
    "conservative backfilling (%)",
    "others-beat-conservative": "so do those that are not preferred, than all jobs with "
    "conservative backfilling (%)",
    "unequal-beats-easy": "with unequal priorities, jobs still wait less than with EASY (%)",
    "others-beat-easy": "so do those that are not preferred, than all jobs with EASY (%)",
    "unequal-arrival-order": "with unequal priorities, jobs wait less with ascending_arrival_time "
    "than with ascending_scheduled_time (%)",
    "smaller-gaps": "preferred jobs wait less than the others at every gap, by most at the widest",
    "gap-jump": "the average wait stays near that of equal priorities, within "
    f"{WITHIN:g} %, but for the widest gap",
    "weights-preferred": "with the other weights at 0.2, preferred jobs wait longer than with 1 "
    "(%)",
    "weights-others": "with the other weights at 0.2, the other jobs wait longer than with 1 (%)",
    "weights-gap": "and the gap between the two groups becomes wider (s)",
}
"""The claims by their ids."""

_SECTIONS = {
    "abstract": ("easy", "easy-size"),
    "2.3": ("guarantee",),
    "4.8": ("slack-factor-0", "higher-priorities"),
    "5.1": ("easy-conservative",),
    "5.3": (
        *("preferred-wait-less", "preferred-gain", "priorities-cost"),
        *("unequal-beats-conservative", "others-beat-conservative", "unequal-arrival-order"),
        *("unequal-beats-easy", "smaller-gaps", "gap-jump"),
        *("weights-preferred", "weights-others", "weights-gap"),
    ),
    "6": ("others-beat-easy",),
}
"""Claims by section of the paper, where that is not 5.2."""

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
    return sign_claim(name, _TEXTS[name], found, 1, paper=told, section=_section(name))


def _never(name: str, violations: float) -> Claim:
    return invariant_claim(name, _TEXTS[name], violations, 0.0, section=_section(name))


def _section(name: str) -> str:
    return next((each for each, names in _SECTIONS.items() if name in names), "5.2")


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
        *_improvements("easy", equal, years[EASY], study.IMPROVEMENT_OVER_EASY),
        _in_range("easy-conservative", improvement_interval(base, years[EASY]), 0.0),
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
    ends = told - WITHIN, told + WITHIN
    return range_claim(name, _TEXTS[name], found, *ends, section=_section(name), paper=told)


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
    gain = study.IMPROVEMENT_SLACK_FACTOR_9 - study.IMPROVEMENT
    monthly = monthly_average_case(years, reading)
    equal: _Side = (reading.equal, "all")
    higher: _Side = (reading.all_priorities()[1.0], "all")
    return [
        _points("slack-factor-9", reading.equal, factors[9.0], gain).judged(years),
        _never("slack-factor-0", collapsed),
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
        *claim_with_parts("smaller-gaps", "5.3", _TEXTS["smaller-gaps"], smaller),
        *claim_with_parts("gap-jump", "5.3", _TEXTS["gap-jump"], near),
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
