"""The claims of Talby and Feitelson (1999) as tests.

Differences of yearly averages are judged by their 95 % bootstrap intervals over the twelve
months, which both sides share. With one log of one year, such an interval says how much
hangs on certain months, not what would happen elsewhere.
"""

from __future__ import annotations

from qops_batsim.experiments.intervals import Interval, paired_difference
from qops_batsim.papers.report import (
    CONFIRMED,
    NOT_CONFIRMED,
    Claim,
    relative_difference,
    verdict_of,
)
from qops_batsim.papers.talby1999 import cases as study
from qops_batsim.papers.talby1999 import numbers as paper
from qops_batsim.papers.talby1999.data import Years, smallest_improvement
from qops_batsim.papers.talby1999.runs import Group, Year, improvement, improvement_interval

WITHIN = 3.0
"""Points of difference to the paper's improvement that count as the same."""


def monthly_claims(years: Years) -> list[Claim]:
    """Return the claims about the monthly table."""
    base, equal = years[study.BASELINE], years[study.EQUAL]
    found = improvement_interval(equal, base)
    claims = [
        _claim(
            "improvement",
            "the slack-based scheduler waits less than conservative backfilling (yearly "
            "average, %)",
            found,
            1,
            paper.IMPROVEMENT,
        ),
        _yes_or_no(
            "improvement-size",
            f"by as much as in the paper, within {WITHIN:g} points, in the reading chosen (%)",
            abs(found.mean - paper.IMPROVEMENT) <= WITHIN,
            found.mean,
            paper.IMPROVEMENT,
        ),
        _yes_or_no(
            "guarantee",
            "no job starts after its first start plus its first slack (jobs that do)",
            not any(month.late_starts for month in equal.months),
            float(sum(month.late_starts for month in equal.months)),
            0.0,
        ),
    ]
    smallest = smallest_improvement(base, equal)
    if smallest is not None:
        claims.insert(
            2,
            _yes_or_no(
                "every-month",
                "every month but September improves (the smallest improvement, %)",
                smallest > 0,
                smallest,
                9.5,
            ),
        )
    return claims


def all_claims(years: Years) -> list[Claim]:
    """Return the claims of sections 4.8, 5.2 and 5.3."""
    return [
        *monthly_claims(years),
        *_heuristic_claims(years),
        *_parameter_claims(years),
        *_priority_claims(years),
        *_weight_claims(years),
    ]


def _heuristic_claims(years: Years) -> list[Claim]:
    base, best = years[study.BASELINE], years[study.EQUAL]
    claims = []
    for name, told in paper.HEURISTIC_IMPROVEMENTS.items():
        if name == "ascending_scheduled_time":
            continue
        year = years[study.HEURISTICS[name]]
        claims.append(
            _claim(
                f"best-heuristic-{name}",
                f"ascending_scheduled_time waits less than {name} (points of improvement)",
                _scaled(_difference(year, best), 100.0 / base.average),
                1,
                paper.IMPROVEMENT - told,
            )
        )
    worst = min(
        (improvement_interval(years[case], base) for case in study.HEURISTICS.values()),
        key=lambda interval: interval.mean,
    )
    claims.append(
        _claim(
            "all-heuristics",
            "all heuristics improve on conservative backfilling (the worst of them, %)",
            worst,
            1,
            min(paper.HEURISTIC_IMPROVEMENTS.values()),
        )
    )
    return claims


def _parameter_claims(years: Years) -> list[Claim]:
    base, equal = years[study.BASELINE], years[study.EQUAL]
    scale = 100.0 / base.average
    nine, none = years[study.SLACK_FACTORS[9.0]], years[study.SLACK_FACTORS[0.0]]
    monthly = years[study.monthly_average_waits(years)]
    higher = years[study.ALL_PRIORITIES[1.0]]
    collapsed = improvement(none, base)
    return [
        _claim(
            "slack-factor-9",
            "a slack factor of 9 improves on one of 3 (points of improvement)",
            _scaled(_difference(equal, nine), scale),
            1,
            paper.IMPROVEMENT_SLACK_FACTOR_9 - paper.IMPROVEMENT,
        ),
        _yes_or_no(
            "slack-factor-0",
            "a slack factor of 0 is conservative backfilling, as the reading was chosen "
            "(improvement, %)",
            abs(collapsed) < 1e-9,
            collapsed,
            0.0,
        ),
        _claim(
            "monthly-average-wait",
            "an average wait of each month brings a few more points of improvement",
            _scaled(_difference(equal, monthly), scale),
            1,
        ),
        _claim(
            "higher-priorities",
            "user and political priority 1 for all jobs makes them wait longer than 0 (%)",
            _scaled(_difference(higher, equal), 100.0 / equal.average),
            1,
        ),
    ]


def _priority_claims(years: Years) -> list[Claim]:
    base, equal, unequal = years[study.BASELINE], years[study.EQUAL], years[study.UNEQUAL]
    arrival = years[study.UNEQUAL_HEURISTICS["ascending_arrival_time"]]
    gaps = [years[case].gap for gap, case in study.GAPS.items() if gap > 0]
    largest = max(study.GAPS)
    between = [
        relative_difference(years[case].average, equal.average)
        for gap, case in study.GAPS.items()
        if 0 < gap < largest
    ]
    at_end = relative_difference(unequal.average, equal.average)
    return [
        _claim(
            "preferred-wait-less",
            "preferred jobs wait less than the others (s)",
            paired_difference(unequal.shares("others"), unequal.shares("preferred")),
            1,
            paper.LOW_YEAR - paper.HIGH_YEAR,
        ),
        _claim(
            "preferred-gain",
            "preferred jobs wait less than all jobs do with equal priorities (%)",
            _scaled(
                paired_difference(equal.shares(), unequal.shares("preferred")),
                100.0 / equal.average,
            ),
            1,
            100.0 * (1 - paper.HIGH_YEAR / paper.SLACK_YEAR),
        ),
        _claim(
            "priorities-cost",
            "unequal priorities raise the average wait (%)",
            _scaled(_difference(unequal, equal), 100.0 / equal.average),
            1,
            relative_difference(paper.UNEQUAL_YEAR, paper.SLACK_YEAR),
        ),
        _claim(
            "unequal-beats-conservative",
            "with unequal priorities, jobs still wait less than with conservative backfilling (%)",
            improvement_interval(unequal, base),
            1,
            100.0 * (1 - paper.UNEQUAL_YEAR / paper.CONSERVATIVE_YEAR),
        ),
        _claim(
            "others-beat-conservative",
            "so do those that are not preferred, than all jobs with conservative backfilling (%)",
            _scaled(
                paired_difference(base.shares(), unequal.shares("others")), 100.0 / base.average
            ),
            1,
            100.0 * (1 - paper.LOW_YEAR / paper.CONSERVATIVE_YEAR),
        ),
        _claim(
            "unequal-arrival-order",
            "with unequal priorities, jobs wait less with ascending_arrival_time than with "
            "ascending_scheduled_time (%)",
            _scaled(_difference(unequal, arrival), 100.0 / unequal.average),
            1,
            100.0 * (1 - paper.HEURISTICS["ascending_arrival_time"][1] / paper.UNEQUAL_YEAR),
        ),
        _yes_or_no(
            "smaller-gaps",
            "preferred jobs wait less than the others at every gap, by most at the widest (the "
            "smallest difference, s)",
            min(gaps) > 0 and max(gaps[:-1]) < gaps[-1],
            min(gaps),
        ),
        _yes_or_no(
            "gap-jump",
            "the average wait stays near that of equal priorities but for the widest gap (largest "
            "rise before it, %)",
            max(between) < at_end,
            max(between),
        ),
    ]


def _weight_claims(years: Years) -> list[Claim]:
    full, low = years[study.OTHER_WEIGHTS[1.0]], years[study.OTHER_WEIGHTS[0.2]]
    groups: tuple[tuple[Group, str, float], ...] = (
        ("preferred", "preferred", full.preferred_average),
        ("others", "the other", full.others_average),
    )
    claims = [
        _claim(
            f"weights-{group}",
            f"with the other weights at 0.2, {who} jobs wait longer than with 1 (%)",
            _scaled(paired_difference(low.shares(group), full.shares(group)), 100.0 / average),
            1,
        )
        for group, who, average in groups
    ]
    wider = [
        other - preferred
        for other, preferred in zip(low.shares("others"), low.shares("preferred"), strict=True)
    ]
    before = [
        other - preferred
        for other, preferred in zip(full.shares("others"), full.shares("preferred"), strict=True)
    ]
    claims.append(
        _claim(
            "weights-gap",
            "and the gap between the two groups becomes wider (s)",
            paired_difference(wider, before),
            1,
        )
    )
    return claims


def _difference(longer: Year, shorter: Year) -> Interval:
    return paired_difference(longer.shares(), shorter.shares())


def _scaled(found: Interval, factor: float) -> Interval:
    return Interval(
        mean=factor * found.mean,
        low=None if found.low is None else factor * found.low,
        high=None if found.high is None else factor * found.high,
        count=found.count,
    )


def _claim(name: str, text: str, found: Interval, sign: int, told: float | None = None) -> Claim:
    ends = None if found.low is None or found.high is None else (found.low, found.high)
    return Claim(
        id=name,
        text=text,
        verdict=verdict_of(found, sign),
        value=found.mean,
        interval=ends,
        paper=told,
    )


def _yes_or_no(name: str, text: str, holds: bool, value: float, told: float | None = None) -> Claim:
    verdict = CONFIRMED if holds else NOT_CONFIRMED
    return Claim(id=name, text=text, verdict=verdict, value=value, paper=told)
