"""The claims of Talby and Feitelson (1999) as tests.

Differences of yearly averages are judged by their intervals over the twelve months, which both
sides share: windows of the log. With one log of one year, such an interval says what to expect of
another month of that machine, not what would happen elsewhere.
"""

from __future__ import annotations

from typing import NamedTuple

from qops_batsim.experiments.intervals import Interval, paired_difference
from qops_batsim.papers.claims import Claim, plain_claim, range_claim, sign_claim
from qops_batsim.papers.report import relative_difference
from qops_batsim.papers.talby1999 import cases as study
from qops_batsim.papers.talby1999 import numbers as paper
from qops_batsim.papers.talby1999.cases import BASELINE, EQUAL, UNEQUAL, Case
from qops_batsim.papers.talby1999.runs import Group, Years, improvement, improvement_interval
from qops_batsim.papers.talby1999.values import fall, monthly_average_case, smallest_improvement

WITHIN = 3.0
"""Points of difference to the paper's improvement that count as the same."""

_HIGHER = study.ALL_PRIORITIES[1.0]
_FULL_WEIGHTS, _LOW_WEIGHTS = study.OTHER_WEIGHTS[1.0], study.OTHER_WEIGHTS[0.2]

_TEXTS = {
    "improvement": "the slack-based scheduler waits less than conservative backfilling (yearly "
    "average, %)",
    "improvement-size": f"by as much as in the paper, within {WITHIN:g} points, in the reading "
    "chosen (%)",
    "every-month": "every month but September improves (the smallest improvement, %)",
    "guarantee": "no job starts after its first start plus its first slack (jobs that do)",
    **{
        f"best-heuristic-{name}": f"ascending_scheduled_time waits less than {name} (points of "
        "improvement)"
        for name in paper.HEURISTIC_IMPROVEMENTS
    },
    "all-heuristics": "all heuristics improve on conservative backfilling (the worst of them, %)",
    "slack-factor-9": "a slack factor of 9 improves on one of 3 (points of improvement)",
    "slack-factor-0": "a slack factor of 0 is conservative backfilling, as the reading was chosen "
    "(improvement, %)",
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
    "unequal-arrival-order": "with unequal priorities, jobs wait less with ascending_arrival_time "
    "than with ascending_scheduled_time (%)",
    "smaller-gaps": "preferred jobs wait less than the others at every gap, by most at the widest "
    "(the smallest difference, s)",
    "gap-jump": "the average wait stays near that of equal priorities but for the widest gap "
    "(largest rise before it, %)",
    "weights-preferred": "with the other weights at 0.2, preferred jobs wait longer than with 1 "
    "(%)",
    "weights-others": "with the other weights at 0.2, the other jobs wait longer than with 1 (%)",
    "weights-gap": "and the gap between the two groups becomes wider (s)",
}
"""The claims by their ids."""

_SECTIONS = {
    "guarantee": "2.3",
    "slack-factor-0": "4.8",
    "higher-priorities": "4.8",
    **dict.fromkeys(
        (
            *("preferred-wait-less", "preferred-gain", "priorities-cost"),
            *("unequal-beats-conservative", "others-beat-conservative", "unequal-arrival-order"),
            *("smaller-gaps", "gap-jump", "weights-preferred", "weights-others", "weights-gap"),
        ),
        "5.3",
    ),
}
"""Sections of the paper, where they are not 5.2."""

_Side = tuple[Case, Group]


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
        """Return the claim with what came out."""
        longer, shorter = (years[case].shares(group) for case, group in self[1:3])
        found = paired_difference(longer, shorter)
        if self.of is not None:
            case, group = self.of
            found = found.scaled(100.0 / years[case].average(group))
        return _positive(self.id, found, self.paper)


def _positive(name: str, found: Interval, told: float | None = None) -> Claim:
    return sign_claim(name, _TEXTS[name], found, 1, told, section=_section(name))


def _plain(name: str, holds: bool, value: float, told: float | None = None) -> Claim:
    return plain_claim(name, _TEXTS[name], holds, value, told, section=_section(name))


def _section(name: str) -> str:
    return _SECTIONS.get(name, "5.2")


def _points(name: str, longer: Case, shorter: Case, told: float | None) -> _Longer:
    """Return a claim about points of improvement over conservative backfilling."""
    return _Longer(name, (longer, "all"), (shorter, "all"), _CONSERVATIVE, told)


_CONSERVATIVE: _Side = (BASELINE, "all")
_EQUAL: _Side = (EQUAL, "all")
_UNEQUAL: _Side = (UNEQUAL, "all")
_PREFERRED: _Side = (UNEQUAL, "preferred")
_OTHERS: _Side = (UNEQUAL, "others")
_ARRIVAL: _Side = (study.UNEQUAL_HEURISTICS["ascending_arrival_time"], "all")
_YEAR, _COST = paper.YEAR, relative_difference(paper.YEAR.unequal, paper.YEAR.slack)
_ALL_GAIN, _OTHERS_GAIN = (fall(_YEAR.conservative, each) for each in (_YEAR.unequal, _YEAR.low))
_ARRIVAL_GAIN = fall(_YEAR.unequal, paper.HEURISTICS["ascending_arrival_time"][1])
_PRIORITIES = (
    _Longer("preferred-wait-less", _OTHERS, _PREFERRED, None, _YEAR.low - _YEAR.high),
    _Longer("preferred-gain", _EQUAL, _PREFERRED, _EQUAL, fall(_YEAR.slack, _YEAR.high)),
    _Longer("priorities-cost", _UNEQUAL, _EQUAL, _EQUAL, _COST),
    _Longer("unequal-beats-conservative", _CONSERVATIVE, _UNEQUAL, _CONSERVATIVE, _ALL_GAIN),
    _Longer("others-beat-conservative", _CONSERVATIVE, _OTHERS, _CONSERVATIVE, _OTHERS_GAIN),
    _Longer("unequal-arrival-order", _UNEQUAL, _ARRIVAL, _UNEQUAL, _ARRIVAL_GAIN),
)


def monthly_claims(years: Years) -> list[Claim]:
    """Return the claims about the monthly table."""
    base, equal = years[BASELINE], years[EQUAL]
    found = improvement_interval(equal, base)
    size, told = "improvement-size", paper.IMPROVEMENT
    near = (told - WITHIN, told + WITHIN)
    claims = [
        _positive("improvement", found, told),
        range_claim(size, _TEXTS[size], found, *near, section=_section(size), paper=told),
    ]
    smallest = smallest_improvement(base, equal)
    if smallest is not None:
        claims.append(_plain("every-month", smallest > 0, smallest, paper.SMALLEST_IMPROVEMENT))
    late = equal.late_starts
    return [*claims, _plain("guarantee", not late, float(late), 0.0)]


def all_claims(years: Years) -> list[Claim]:
    """Return the claims of sections 4.8, 5.2 and 5.3."""
    return [
        *monthly_claims(years),
        *_heuristic_claims(years),
        *_parameter_claims(years),
        *(each.judged(years) for each in _PRIORITIES),
        *_gap_claims(years),
        *_weight_claims(years),
    ]


def _heuristic_claims(years: Years) -> list[Claim]:
    claims = []
    for name, told in paper.HEURISTIC_IMPROVEMENTS.items():
        if name != "ascending_scheduled_time":
            case, points = study.HEURISTICS[name], paper.IMPROVEMENT - told
            claims.append(_points(f"best-heuristic-{name}", case, EQUAL, points).judged(years))
    worst = min(
        (improvement_interval(years[case], years[BASELINE]) for case in study.HEURISTICS.values()),
        key=lambda interval: interval.mean,
    )
    told = min(paper.HEURISTIC_IMPROVEMENTS.values())
    return [*claims, _positive("all-heuristics", worst, told)]


def _parameter_claims(years: Years) -> list[Claim]:
    nine, none = study.SLACK_FACTORS[9.0], years[study.SLACK_FACTORS[0.0]]
    collapsed = improvement(none, years[BASELINE])
    gain = paper.IMPROVEMENT_SLACK_FACTOR_9 - paper.IMPROVEMENT
    monthly = monthly_average_case(years)
    return [
        _points("slack-factor-9", EQUAL, nine, gain).judged(years),
        _plain("slack-factor-0", abs(collapsed) < 1e-9, collapsed, 0.0),
        _points("monthly-average-wait", EQUAL, monthly, None).judged(years),
        _Longer("higher-priorities", (_HIGHER, "all"), _EQUAL, _EQUAL).judged(years),
    ]


def _gap_claims(years: Years) -> list[Claim]:
    equal, at_end = years[EQUAL].average(), years[UNEQUAL].average()
    gaps = [years[case].gap for gap, case in study.GAPS.items() if gap > 0]
    rises = [
        relative_difference(years[case].average(), equal)
        for gap, case in study.GAPS.items()
        if 0 < gap < max(study.GAPS)
    ]
    highest = max(rises)
    return [
        _plain("smaller-gaps", min(gaps) > 0 and max(gaps[:-1]) < gaps[-1], min(gaps)),
        _plain("gap-jump", highest < relative_difference(at_end, equal), highest),
    ]


def _weight_claims(years: Years) -> list[Claim]:
    groups: tuple[Group, ...] = ("preferred", "others")
    claims = []
    for group in groups:
        full = (_FULL_WEIGHTS, group)
        longer = _Longer(f"weights-{group}", (_LOW_WEIGHTS, group), full, full)
        claims.append(longer.judged(years))
    gaps = []
    for case in (_LOW_WEIGHTS, _FULL_WEIGHTS):
        preferred, others = (years[case].shares(group) for group in groups)
        gaps.append([other - own for own, other in zip(preferred, others, strict=True)])
    return [*claims, _positive("weights-gap", paired_difference(*gaps))]
