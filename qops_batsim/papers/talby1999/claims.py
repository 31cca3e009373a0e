"""The claims of Talby and Feitelson (1999) as tests.

Differences of yearly averages are judged by their 95 % bootstrap intervals over the twelve
months, which both sides share. With one log of one year, such an interval says how much
hangs on certain months, not what would happen elsewhere.
"""

from __future__ import annotations

from typing import NamedTuple

from qops_batsim.experiments.intervals import paired_difference
from qops_batsim.papers.claims import Claim, plain_claim, sign_claim
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


_Side = tuple[Case, Group]


class _Longer(NamedTuple):
    """A claim that jobs wait longer on one side, a case and a group, than on another.

    The difference is told in % of the yearly average of the third side, or else in seconds.
    """

    id: str
    text: str
    sides: tuple[_Side, _Side, _Side | None]
    paper: float | None = None

    def judged(self, years: Years) -> Claim:
        """Return the claim with what came out."""
        *compared, of = self.sides
        longer, shorter = (years[case].shares(group) for case, group in compared)
        found = paired_difference(longer, shorter)
        if of is not None:
            case, group = of
            found = found.scaled(100.0 / years[case].average(group))
        return sign_claim(self.id, self.text, found, 1, self.paper)


_PRIORITIES = (
    _Longer(
        "preferred-wait-less",
        "preferred jobs wait less than the others (s)",
        ((UNEQUAL, "others"), (UNEQUAL, "preferred"), None),
        paper.YEAR.low - paper.YEAR.high,
    ),
    _Longer(
        "preferred-gain",
        "preferred jobs wait less than all jobs do with equal priorities (%)",
        ((EQUAL, "all"), (UNEQUAL, "preferred"), (EQUAL, "all")),
        fall(paper.YEAR.slack, paper.YEAR.high),
    ),
    _Longer(
        "priorities-cost",
        "unequal priorities raise the average wait (%)",
        ((UNEQUAL, "all"), (EQUAL, "all"), (EQUAL, "all")),
        relative_difference(paper.YEAR.unequal, paper.YEAR.slack),
    ),
    _Longer(
        "unequal-beats-conservative",
        "with unequal priorities, jobs still wait less than with conservative backfilling (%)",
        ((BASELINE, "all"), (UNEQUAL, "all"), (BASELINE, "all")),
        fall(paper.YEAR.conservative, paper.YEAR.unequal),
    ),
    _Longer(
        "others-beat-conservative",
        "so do those that are not preferred, than all jobs with conservative backfilling (%)",
        ((BASELINE, "all"), (UNEQUAL, "others"), (BASELINE, "all")),
        fall(paper.YEAR.conservative, paper.YEAR.low),
    ),
    _Longer(
        "unequal-arrival-order",
        "with unequal priorities, jobs wait less with ascending_arrival_time than with "
        "ascending_scheduled_time (%)",
        (
            (UNEQUAL, "all"),
            (study.UNEQUAL_HEURISTICS["ascending_arrival_time"], "all"),
            (UNEQUAL, "all"),
        ),
        fall(paper.YEAR.unequal, paper.HEURISTICS["ascending_arrival_time"][1]),
    ),
)


def monthly_claims(years: Years) -> list[Claim]:
    """Return the claims about the monthly table."""
    base, equal = years[BASELINE], years[EQUAL]
    found = improvement_interval(equal, base)
    claims = [
        sign_claim(
            "improvement",
            "the slack-based scheduler waits less than conservative backfilling (yearly "
            "average, %)",
            found,
            1,
            paper.IMPROVEMENT,
        ),
        plain_claim(
            "improvement-size",
            f"by as much as in the paper, within {WITHIN:g} points, in the reading chosen (%)",
            abs(found.mean - paper.IMPROVEMENT) <= WITHIN,
            found.mean,
            paper.IMPROVEMENT,
        ),
    ]
    smallest = smallest_improvement(base, equal)
    if smallest is not None:
        text = "every month but September improves (the smallest improvement, %)"
        told = paper.SMALLEST_IMPROVEMENT
        claims.append(plain_claim("every-month", text, smallest > 0, smallest, told))
    late = equal.late_starts
    text = "no job starts after its first start plus its first slack (jobs that do)"
    return [*claims, plain_claim("guarantee", text, not late, float(late), 0.0)]


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


def _points(name: str, text: str, longer: Case, shorter: Case, told: float | None) -> _Longer:
    """Return a claim about points of improvement over conservative backfilling."""
    return _Longer(name, text, ((longer, "all"), (shorter, "all"), (BASELINE, "all")), told)


def _heuristic_claims(years: Years) -> list[Claim]:
    claims = [
        _points(
            f"best-heuristic-{name}",
            f"ascending_scheduled_time waits less than {name} (points of improvement)",
            study.HEURISTICS[name],
            EQUAL,
            paper.IMPROVEMENT - told,
        ).judged(years)
        for name, told in paper.HEURISTIC_IMPROVEMENTS.items()
        if name != "ascending_scheduled_time"
    ]
    worst = min(
        (improvement_interval(years[case], years[BASELINE]) for case in study.HEURISTICS.values()),
        key=lambda interval: interval.mean,
    )
    text = "all heuristics improve on conservative backfilling (the worst of them, %)"
    told = min(paper.HEURISTIC_IMPROVEMENTS.values())
    return [*claims, sign_claim("all-heuristics", text, worst, 1, told)]


def _parameter_claims(years: Years) -> list[Claim]:
    nine, none = study.SLACK_FACTORS[9.0], years[study.SLACK_FACTORS[0.0]]
    collapsed = improvement(none, years[BASELINE])
    gain = paper.IMPROVEMENT_SLACK_FACTOR_9 - paper.IMPROVEMENT
    text = "a slack factor of 9 improves on one of 3 (points of improvement)"
    monthly = "an average wait of each month brings a few more points of improvement"
    return [
        _points("slack-factor-9", text, EQUAL, nine, gain).judged(years),
        plain_claim(
            "slack-factor-0",
            "a slack factor of 0 is conservative backfilling, as the reading was chosen "
            "(improvement, %)",
            abs(collapsed) < 1e-9,
            collapsed,
            0.0,
        ),
        _points("monthly-average-wait", monthly, EQUAL, monthly_average_case(years), None).judged(
            years
        ),
        _Longer(
            "higher-priorities",
            "user and political priority 1 for all jobs makes them wait longer than 0 (%)",
            ((_HIGHER, "all"), (EQUAL, "all"), (EQUAL, "all")),
        ).judged(years),
    ]


def _gap_claims(years: Years) -> list[Claim]:
    equal, at_end = years[EQUAL].average(), years[UNEQUAL].average()
    gaps = [years[case].gap for gap, case in study.GAPS.items() if gap > 0]
    rises = [
        relative_difference(years[case].average(), equal)
        for gap, case in study.GAPS.items()
        if 0 < gap < max(study.GAPS)
    ]
    return [
        plain_claim(
            "smaller-gaps",
            "preferred jobs wait less than the others at every gap, by most at the widest (the "
            "smallest difference, s)",
            min(gaps) > 0 and max(gaps[:-1]) < gaps[-1],
            min(gaps),
        ),
        plain_claim(
            "gap-jump",
            "the average wait stays near that of equal priorities but for the widest gap (largest "
            "rise before it, %)",
            max(rises) < relative_difference(at_end, equal),
            max(rises),
        ),
    ]


def _weight_claims(years: Years) -> list[Claim]:
    groups: tuple[tuple[Group, str], ...] = (("preferred", "preferred"), ("others", "the other"))
    claims = [
        _Longer(
            f"weights-{group}",
            f"with the other weights at 0.2, {who} jobs wait longer than with 1 (%)",
            ((_LOW_WEIGHTS, group), (_FULL_WEIGHTS, group), (_FULL_WEIGHTS, group)),
        ).judged(years)
        for group, who in groups
    ]
    wider, before = (
        [
            other - preferred
            for other, preferred in zip(
                years[case].shares("others"), years[case].shares("preferred"), strict=True
            )
        ]
        for case in (_LOW_WEIGHTS, _FULL_WEIGHTS)
    )
    text = "and the gap between the two groups becomes wider (s)"
    return [*claims, sign_claim("weights-gap", text, paired_difference(wider, before), 1)]
