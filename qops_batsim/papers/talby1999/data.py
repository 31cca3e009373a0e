"""What the simulations of Talby and Feitelson (1999) say, as plain values beside the paper's."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from qops_batsim.papers.report import relative_difference
from qops_batsim.papers.talby1999 import cases as study
from qops_batsim.papers.talby1999 import numbers as paper
from qops_batsim.papers.talby1999.runs import Case, Year, improvement, improvement_interval

Years = Mapping[Case, Year]

WAITS = ("equal", "unequal", "high_priority", "low_priority")
"""The average waits of section 5.3: equal priorities, and unequal ones for all and by group."""


def equal_priorities(years: Years) -> dict[str, Any]:
    """Return the monthly table of section 5.2."""
    base, year = years[study.BASELINE], years[study.EQUAL]
    interval = improvement_interval(year, base)
    rows = []
    for before, after in zip(base.months, year.months, strict=True):
        place = paper.MONTHS.index(before.month)
        told_before, told_after = paper.CONSERVATIVE[place], paper.SLACK[place]
        rows.append(
            {
                "month": before.month,
                "jobs": before.jobs,
                "conservative": before.average,
                "slack": after.average,
                "improvement_percent": _fall(before.average, after.average),
                "paper_conservative": told_before,
                "paper_slack": told_after,
                "paper_improvement_percent": _fall(told_before, told_after),
                "conservative_difference_percent": relative_difference(before.average, told_before),
                "slack_difference_percent": relative_difference(after.average, told_after),
            }
        )
    return {
        "improvement_percent": improvement(year, base),
        "improvement_interval": [interval.low, interval.high],
        "paper_improvement_percent": paper.IMPROVEMENT,
        "jobs": base.jobs,
        "conservative_average": base.average,
        "slack_average": year.average,
        "paper_conservative_average": paper.CONSERVATIVE_YEAR,
        "paper_slack_average": paper.SLACK_YEAR,
        "conservative_difference_percent": relative_difference(
            base.average, paper.CONSERVATIVE_YEAR
        ),
        "slack_difference_percent": relative_difference(year.average, paper.SLACK_YEAR),
        "late_starts": sum(month.late_starts for month in year.months),
        "months": rows,
    }


def conservative_column(years: Years) -> list[dict[str, Any]]:
    """Return how near each way to simulate conservative backfilling comes to the paper."""
    rows = []
    for case in study.CONSERVATIVE:
        year = years[case]
        pairs = [
            (month.average, paper.CONSERVATIVE[paper.MONTHS.index(month.month)])
            for month in year.months
            if month.month != paper.MONTHS[0]
        ]
        first = year.months[0]
        weighted = sum(
            month.jobs * paper.CONSERVATIVE[paper.MONTHS.index(month.month)]
            for month in year.months
        )
        rows.append(
            {
                "months_by": case.months_by,
                "notice": case.notice,
                "jobs": year.jobs,
                "average": year.average,
                "difference_percent": relative_difference(year.average, paper.CONSERVATIVE_YEAR),
                "rms_difference_percent": _rms_difference(pairs),
                "correlation": _correlation(pairs),
                "first_month_total_wait": first.wait,
                "first_month_jobs": first.jobs,
                # The paper's months weighed by our jobs: tells whose months are the paper's.
                "paper_average_by_these_jobs": weighted / year.jobs,
            }
        )
    return rows


def heuristics(years: Years) -> dict[str, Any]:
    """Return section 5.2's improvements and the table of section 5.3, by heuristic."""
    base = years[study.BASELINE]
    best = years[study.EQUAL]
    rows: dict[str, Any] = {}
    for name, told in paper.HEURISTICS.items():
        equal, unequal = years[study.HEURISTICS[name]], years[study.UNEQUAL_HEURISTICS[name]]
        interval = improvement_interval(equal, base)
        averages = {"equal": equal.average, **_unequal_averages(unequal)}
        rows[name] = {
            "improvement_percent": interval.mean,
            "improvement_interval": [interval.low, interval.high],
            "paper_improvement_percent": paper.HEURISTIC_IMPROVEMENTS[name],
            **averages,
            "performance_loss_percent": relative_difference(unequal.average, best.average),
            "gap": unequal.gap,
            "paper": dict(zip(WAITS, told, strict=True)),
            "difference_percent": _differences(averages, told),
        }
    return rows


def unequal_priorities(years: Years) -> dict[str, Any]:
    """Return the monthly table of section 5.3."""
    equal, year = years[study.EQUAL], years[study.UNEQUAL]
    rows = []
    for before, month in zip(equal.months, year.months, strict=True):
        place = paper.MONTHS.index(month.month)
        averages = {
            "equal": before.average,
            "unequal": month.average,
            "high_priority": month.preferred_average if month.preferred_jobs else None,
            "low_priority": month.others_average,
        }
        told = (
            paper.SLACK[place],
            paper.UNEQUAL[place],
            paper.UNEQUAL_HIGH[place],
            paper.UNEQUAL_LOW[place],
        )
        rows.append(
            {
                "month": month.month,
                **averages,
                **{f"paper_{key}": wait for key, wait in zip(WAITS, told, strict=True)},
                "difference_percent": _differences(averages, told),
            }
        )
    of_year = {"equal": equal.average, **_unequal_averages(year)}
    told = (paper.SLACK_YEAR, paper.UNEQUAL_YEAR, paper.HIGH_YEAR, paper.LOW_YEAR)
    return {
        **of_year,
        "loss_percent": relative_difference(year.average, equal.average),
        **{f"paper_{key}": wait for key, wait in zip(WAITS, told, strict=True)},
        "difference_percent": _differences(of_year, told),
        "paper_loss_percent": relative_difference(paper.UNEQUAL_YEAR, paper.SLACK_YEAR),
        "months": rows,
    }


def slack_factors(years: Years) -> list[dict[str, Any]]:
    """Return the improvement by slack factor (section 5.2)."""
    told = {3.0: paper.IMPROVEMENT, 9.0: paper.IMPROVEMENT_SLACK_FACTOR_9, 0.0: 0.0}
    rows = []
    for factor, case in study.SLACK_FACTORS.items():
        interval = improvement_interval(years[case], years[study.BASELINE])
        rows.append(
            {
                "slack_factor": factor,
                "average": years[case].average,
                "improvement_percent": interval.mean,
                "improvement_interval": [interval.low, interval.high],
                "paper_improvement_percent": told.get(factor),
            }
        )
    return rows


def priority_gap(years: Years) -> list[dict[str, Any]]:
    """Return the average waits by the gap between every fifth job and the others."""
    told = {0.0: paper.SLACK_YEAR, 2.0: paper.UNEQUAL_YEAR}
    return [
        {"gap": gap, **_unequal_averages(years[case]), "paper_unequal": told.get(gap)}
        for gap, case in study.GAPS.items()
    ]


def weights(years: Years) -> list[dict[str, Any]]:
    """Return the average waits by the weight of all but priority."""
    return [
        {"other_weights": weight, **_unequal_averages(years[case]), "gap": years[case].gap}
        for weight, case in study.OTHER_WEIGHTS.items()
    ]


def all_priorities(years: Years) -> list[dict[str, Any]]:
    """Return the average wait if all jobs have the same, higher priority."""
    return [
        {
            "priority": level,
            "average": years[case].average,
            "improvement_percent": improvement(years[case], years[study.BASELINE]),
        }
        for level, case in study.ALL_PRIORITIES.items()
    ]


def monthly_average_wait(years: Years) -> dict[str, Any]:
    """Return what an average wait of each month brings."""
    year = years[study.monthly_average_waits(years)]
    interval = improvement_interval(year, years[study.BASELINE])
    return {
        "average": year.average,
        "improvement_percent": interval.mean,
        "improvement_interval": [interval.low, interval.high],
        "fixed_improvement_percent": improvement(years[study.EQUAL], years[study.BASELINE]),
    }


def readings(years: Years) -> list[dict[str, Any]]:
    """Return how near each reading of removal comes to the paper."""
    base = years[study.BASELINE]
    plain_base = years[study.PLAIN]
    rows = []
    for reading in study.READINGS:
        cases = reading.cases()
        equal, unequal = years[cases["slack_factor_3"]], years[cases["unequal"]]
        plain = years[cases["plain"]]
        rows.append(
            {
                "removal": reading.removal,
                "early_gain": reading.early_gain,
                "improvement_percent": improvement(equal, base),
                "smallest_month_percent": smallest_improvement(base, equal),
                "slack_factor_0_percent": improvement(years[cases["slack_factor_0"]], base),
                "slack_factor_9_percent": improvement(years[cases["slack_factor_9"]], base),
                **_unequal_averages(unequal),
                "gap": unequal.gap,
                "plain_improvement_percent": improvement(plain, plain_base),
            }
        )
    return rows


def smallest_improvement(base: Year, year: Year) -> float | None:
    """Return the improvement (%) of the month with the smallest one, September aside."""
    return min(
        (
            _fall(before.average, after.average)
            for before, after in zip(base.months, year.months, strict=True)
            if before.month != paper.MONTHS[0]
        ),
        default=None,
    )


def _unequal_averages(year: Year) -> dict[str, float]:
    return {
        "unequal": year.average,
        "high_priority": year.preferred_average,
        "low_priority": year.others_average,
    }


def _differences(
    averages: Mapping[str, float | None], told: Sequence[float]
) -> dict[str, float | None]:
    """Return by how many percent each wait exceeds the paper's; None where a side has none."""
    return {
        key: relative_difference(wait, of_paper)
        if (wait := averages[key]) is not None and of_paper
        else None
        for key, of_paper in zip(WAITS, told, strict=True)
    }


def _fall(before: float, after: float) -> float:
    """Return by how many percent a wait has become shorter; 0 if there was none."""
    return 100.0 * (1.0 - after / before) if before else 0.0


def _rms_difference(pairs: list[tuple[float, float]]) -> float | None:
    if not pairs:
        return None
    squares = [relative_difference(ours, told) ** 2 for ours, told in pairs]
    return math.sqrt(sum(squares) / len(squares))


def _correlation(pairs: list[tuple[float, float]]) -> float | None:
    if len(pairs) < 3:
        return None
    ours, told = zip(*pairs, strict=True)
    return float(np.corrcoef(ours, told)[0, 1]) if len(set(ours)) > 1 else None
