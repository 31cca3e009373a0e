"""What the simulations of Talby and Feitelson (1999) say, as plain values beside the paper's."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from qops_batsim.papers.report import relative_difference
from qops_batsim.papers.talby1999 import cases as study
from qops_batsim.papers.talby1999 import numbers as paper
from qops_batsim.papers.talby1999.cases import Reading
from qops_batsim.papers.talby1999.runs import (
    GROUPS,
    Month,
    Year,
    Years,
    improvement,
    improvement_interval,
)

WAITS = ("equal", "unequal", "high_priority", "low_priority")
"""The average waits of section 5.3: equal priorities, and unequal ones for all and by group."""


def monthly_values(years: Years) -> dict[str, Any]:
    """Return the numbers of the quick part by table."""
    return {
        "equal_priorities": _with_months(years, equal_priorities),
        "conservative_column": conservative_column(years),
        "easy": easy_values(years),
    }


def all_values(years: Years) -> dict[str, Any]:
    """Return all numbers by table; where a reading matters, ``literal`` ones in each row."""
    by_heuristic = {name: heuristics(years, each) for name, each in study.BOTH.items()}
    return {
        **monthly_values(years),
        "heuristics": {
            name: {**row, "literal": _own(by_heuristic["literal"][name])}
            for name, row in by_heuristic["chosen"].items()
        },
        "unequal_priorities": _with_months(years, unequal_priorities),
        **{
            table.__name__: _rows(years, table)
            for table in (slack_factors, priority_gap, weights, all_priorities)
        },
        "monthly_average_wait": {
            **monthly_average_wait(years, study.CHOSEN),
            "literal": monthly_average_wait(years, study.LITERAL),
        },
        "readings": readings(years),
    }


def _rows(years: Years, table: Callable[[Years, Reading], list[dict[str, Any]]]) -> Any:
    """Return the rows of the reading chosen, each with that of the literal one."""
    return _beside_literal(*(table(years, reading) for reading in study.BOTH.values()))


def _with_months(years: Years, table: Callable[[Years, Reading], dict[str, Any]]) -> Any:
    """Return the year and its months in the reading chosen, each with that in the literal one."""
    chosen, literal = (table(years, reading) for reading in study.BOTH.values())
    months = _beside_literal(chosen["months"], literal.pop("months"))
    return {**chosen, "literal": _own(literal), "months": months}


def _beside_literal(
    chosen: Sequence[dict[str, Any]], literal: Sequence[dict[str, Any]]
) -> list[dict[str, Any]]:
    rows = zip(chosen, literal, strict=True)
    return [{**row, "literal": _own(other)} for row, other in rows]


def _own(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row without the paper's numbers."""
    return {key: value for key, value in row.items() if not key.startswith("paper")}


def equal_priorities(years: Years, reading: Reading) -> dict[str, Any]:
    """Return the monthly table of section 5.2."""
    base, year = years[study.BASELINE], years[reading.equal]
    interval = improvement_interval(year, base)
    rows = []
    for month, before, after in zip(base.months, base.monthly(), year.monthly(), strict=True):
        told = paper.MONTHS[month.month]
        rows.append(
            {
                "month": month.month,
                "jobs": month.jobs,
                "conservative": before,
                "slack": after,
                "improvement_percent": fall(before, after),
                "paper_conservative": told.conservative,
                "paper_slack": told.slack,
                "paper_improvement_percent": fall(told.conservative, told.slack),
            }
        )
    before, after, told = base.average(), year.average(), paper.YEAR
    return {
        "improvement_percent": improvement(year, base),
        "improvement_interval": [interval.low, interval.high],
        "paper_improvement_percent": paper.IMPROVEMENT,
        "jobs": base.jobs,
        "conservative_average": before,
        "slack_average": after,
        "paper_conservative_average": told.conservative,
        "paper_slack_average": told.slack,
        "late_starts": year.late_starts,
        "months": rows,
    }


def easy_values(years: Years) -> list[dict[str, Any]]:
    """Return how the scheduler compares with EASY, in the paper's simulator and in a usual one."""
    rows = []
    for name, easy, base, of in (
        ("the paper's", study.EASY, study.BASELINE, "equal"),
        ("usual", study.PLAIN_EASY, study.PLAIN, "plain"),
    ):
        row: dict[str, Any] = {
            "simulator": name,
            "easy": years[easy].average(),
            "conservative": years[base].average(),
            "conservative_improvement_percent": improvement(years[base], years[easy]),
            "paper_improvement_percent": paper.IMPROVEMENT_OVER_EASY,
        }
        for which, reading in study.BOTH.items():
            year = years[getattr(reading, of)]
            row[which] = {"average": year.average(), **_improvement(year, years[easy])}
        rows.append(row)
    return rows


def conservative_column(years: Years) -> list[dict[str, Any]]:
    """Return how near each way to simulate conservative backfilling comes to the paper."""
    rows = []
    for case in study.CONSERVATIVE:
        year = years[case]
        told = [paper.MONTHS[month.month].conservative for month in year.months]
        pairs = [
            (ours, theirs)
            for month, ours, theirs in zip(year.months, year.monthly(), told, strict=True)
            if month.month != paper.FIRST_MONTH
        ]
        average, first = year.average(), year.months[0]
        weighted = sum(month.jobs * wait for month, wait in zip(year.months, told, strict=True))
        rows.append(
            {
                "months_by": case.months_by,
                "notice": case.notice,
                "jobs": year.jobs,
                "average": average,
                "difference_percent": relative_difference(average, paper.YEAR.conservative),
                "rms_difference_percent": _rms_difference(pairs),
                "correlation": _correlation(pairs),
                "first_month_total_wait": first.wait,
                "first_month_jobs": first.jobs,
                # The paper's months weighed by our jobs: tells whose months are the paper's.
                "paper_average_by_these_jobs": weighted / year.jobs,
            }
        )
    return rows


def heuristics(years: Years, reading: Reading) -> dict[str, Any]:
    """Return section 5.2's improvements and the table of section 5.3, by heuristic."""
    base = years[study.BASELINE]
    best = years[reading.equal].average()
    equals, unequals = reading.heuristics(), reading.heuristics(1.0)
    rows: dict[str, Any] = {}
    for name, told in paper.HEURISTICS.items():
        equal, unequal = years[equals[name]], years[unequals[name]]
        averages = _waits(equal, unequal)
        rows[name] = {
            **_improvement(equal, base),
            "paper_improvement_percent": paper.HEURISTIC_IMPROVEMENTS[name],
            **averages,
            "performance_loss_percent": relative_difference(unequal.average(), best),
            "gap": unequal.gap,
            "paper": dict(zip(WAITS, told, strict=True)),
        }
    return rows


def unequal_priorities(years: Years, reading: Reading) -> dict[str, Any]:
    """Return the monthly table of section 5.3."""
    equal, year = years[reading.equal], years[reading.unequal]
    rows = [
        {"month": month.month}
        | _beside_paper(_waits(before, month), paper.MONTHS[month.month].with_priorities())
        for before, month in zip(equal.months, year.months, strict=True)
    ]
    told = paper.YEAR.with_priorities()
    averages = _waits(equal, year)
    return {
        **averages,
        "loss_percent": relative_difference(year.average(), equal.average()),
        **_beside_paper(averages, told),
        "paper_loss_percent": relative_difference(told[1], told[0]),
        "months": rows,
    }


def slack_factors(years: Years, reading: Reading) -> list[dict[str, Any]]:
    """Return the improvement by slack factor (section 5.2)."""
    told = {3.0: paper.IMPROVEMENT, 9.0: paper.IMPROVEMENT_SLACK_FACTOR_9, 0.0: 0.0}
    return [
        {
            "slack_factor": factor,
            "average": years[case].average(),
            **_improvement(years[case], years[study.BASELINE]),
            "paper_improvement_percent": told.get(factor),
        }
        for factor, case in reading.slack_factors().items()
    ]


def priority_gap(years: Years, reading: Reading) -> list[dict[str, Any]]:
    """Return the average waits by the gap between every fifth job and the others."""
    told = {0.0: paper.YEAR.slack, 2.0: paper.YEAR.unequal}
    return [
        {"gap": gap, **_groups(years[case]), "paper_unequal": told.get(gap)}
        for gap, case in reading.gaps().items()
    ]


def weights(years: Years, reading: Reading) -> list[dict[str, Any]]:
    """Return the average waits by the weight of all but priority."""
    return [
        {"other_weights": weight, **_groups(years[case]), "gap": years[case].gap}
        for weight, case in reading.other_weights().items()
    ]


def all_priorities(years: Years, reading: Reading) -> list[dict[str, Any]]:
    """Return the average wait if all jobs have the same, higher priority."""
    return [
        {
            "priority": level,
            "average": years[case].average(),
            "improvement_percent": improvement(years[case], years[study.BASELINE]),
        }
        for level, case in reading.all_priorities().items()
    ]


def monthly_average_case(years: Years, reading: Reading) -> study.Case:
    """Return the case in which each month's average wait is that of its conservative run."""
    return reading.monthly(years[study.BASELINE].monthly())


def monthly_average_wait(years: Years, reading: Reading) -> dict[str, Any]:
    """Return what an average wait of each month brings."""
    year, base = years[monthly_average_case(years, reading)], years[study.BASELINE]
    return {
        "average": year.average(),
        **_improvement(year, base),
        "fixed_improvement_percent": improvement(years[reading.equal], base),
    }


def readings(years: Years) -> list[dict[str, Any]]:
    """Return how near each reading of removal comes to the paper."""
    base = years[study.BASELINE]
    rows = []
    for reading in study.READINGS:
        found = {name: years[case] for name, case in reading.compared().items()}
        rows.append(
            {
                "removal": reading.removal,
                "early_gain": reading.early_gain,
                "improvement_percent": improvement(found["slack_factor_3"], base),
                "smallest_month_percent": smallest_improvement(base, found["slack_factor_3"]),
                "slack_factor_0_percent": improvement(found["slack_factor_0"], base),
                "slack_factor_9_percent": improvement(found["slack_factor_9"], base),
                **_groups(found["unequal"]),
                "gap": found["unequal"].gap,
                "plain_improvement_percent": improvement(found["plain"], years[study.PLAIN]),
            }
        )
    return rows


def smallest_improvement(base: Year, year: Year) -> float | None:
    """Return the improvement (%) of the month with the smallest one, September aside."""
    waits = zip(base.months, base.monthly(), year.monthly(), strict=True)
    return min(
        (fall(before, after) for month, before, after in waits if month.month != paper.FIRST_MONTH),
        default=None,
    )


def fall(before: float, after: float) -> float:
    """Return by how many percent a wait has become shorter; 0 if there was none."""
    return 100.0 * (1.0 - after / before) if before else 0.0


def _improvement(year: Year, base: Year) -> dict[str, Any]:
    interval = improvement_interval(year, base)
    return {
        "improvement_percent": interval.mean,
        "improvement_interval": [interval.low, interval.high],
    }


def _groups(found: Year | Month) -> dict[str, float | None]:
    """Return the average waits with unequal priorities, of all jobs and by group."""
    return {key: found.average(group) for key, group in zip(WAITS[1:], GROUPS, strict=True)}


def _waits(equal: Year | Month, unequal: Year | Month) -> dict[str, float | None]:
    return {"equal": equal.average(), **_groups(unequal)}


def _beside_paper(averages: Mapping[str, float | None], told: Sequence[float]) -> dict[str, Any]:
    return {
        **averages,
        **{f"paper_{key}": wait for key, wait in zip(WAITS, told, strict=True)},
    }


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
