"""Talby and Feitelson (1999): slack-based backfilling on a year of the KTH SP2.

D. Talby and D. G. Feitelson, "Supporting priorities and improving utilization of the IBM
SP scheduler using slack-based backfilling", IPPS/SPDP 1999: the tables of sections 5.2 and
5.3, the curve of section 5.3, and what the text says of parameters. What explains the
differences is in ``README.md``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from qops_batsim.experiments import (
    Claim,
    Figure,
    PageTable,
    StudyReport,
    jointly_judged,
    whole_claims,
)
from qops_batsim.workload import SwfLog
from studies.logs import KTH, read_log
from studies.request import StudyRequest
from studies.shared import claim_value
from studies.talby1999 import study
from studies.talby1999.claims import all_claims, monthly_claims
from studies.talby1999.runs import (
    WAITS,
    all_values,
    monthly_average_case,
    monthly_values,
    run_years,
)
from studies.talby1999.study import BOTH, SPECIFICATION, first_cases


def run(request: StudyRequest) -> StudyReport:
    """Run the experiments; the quick part is the monthly table."""
    return report_on(read_log(request, KTH), request)


def report_on(log: SwfLog, request: StudyRequest) -> StudyReport:
    """Run the experiments on a log of the paper's months, September 1996 to August 1997."""
    cases = first_cases(quick=request.quick)
    quick = request.quick
    request = request.in_parts(len(cases) + len(BOTH) * (not quick))
    years = run_years(log, cases, request)
    if not quick:
        last = [monthly_average_case(years, reading) for reading in BOTH.values()]
        years.update(run_years(log, last, request))
    data = monthly_values(years) if quick else all_values(years)
    found = monthly_claims if quick else all_claims
    claims, literal = (jointly_judged(found(years, reading)) for reading in BOTH.values())
    data["literal_claims"] = literal
    return StudyReport(
        study="talby1999",
        quick=quick,
        choices=SPECIFICATION.choices,
        data=data,
        tables=[
            *(monthly_tables(data) if quick else all_tables(data)),
            claims_in_both_readings(claims, literal),
        ],
        figures=monthly_figures(data) if quick else all_figures(data),
        claims=claims,
        runs=(years,),
    )


Data = Mapping[str, Any]


_table, _figure = SPECIFICATION.table, SPECIFICATION.figure
_PAPER_READING = {
    "early_gain": "paper",
    "improvement_percent": study.IMPROVEMENT,
    "smallest_month_percent": study.NUMBERS["smallest_improvement"],
    "slack_factor_0_percent": 0.0,
    "slack_factor_9_percent": study.NUMBERS["improvement_slack_factor_9"],
    "unequal": study.YEAR.unequal,
    "high_priority": study.YEAR.high,
    "low_priority": study.YEAR.low,
}


def monthly_tables(data: Data) -> list[PageTable]:
    """Return the monthly table, and those of the conservative column and of EASY."""
    equal = data["equal_priorities"]
    year = {"month": "year", **equal, "literal": dict(equal["literal"])}
    for key in ("conservative", "slack", "paper_conservative", "paper_slack"):
        year[key] = equal[f"{key}_average"]
    year["literal"]["slack"] = equal["literal"]["slack_average"]
    easy = [{**row, **{name: _with_interval(row[name]) for name in BOTH}} for row in data["easy"]]
    return [
        _table("monthly", [*equal["months"], year]),
        _table("easy", easy),
        _table("conservative", data["conservative_column"]),
    ]


def claims_in_both_readings(chosen: Sequence[Claim], literal: Sequence[Claim]) -> PageTable:
    """Return the table of claims in the reading chosen and in the literal one."""
    rows = [
        {
            "text": f"{one.text} ({one.section})",
            "chosen": f"{claim_value(one)}: {one.verdict}",
            "literal": f"{claim_value(other)}: {other.verdict}",
            "paper": one.paper,
        }
        for one, other in zip(whole_claims(chosen), whole_claims(literal), strict=True)
    ]
    return _table("claims", rows)


def _with_interval(found: Mapping[str, Any]) -> dict[str, Any]:
    low, high = found["improvement_interval"]
    ends = "" if low is None else f" [{low:.1f}, {high:.1f}]"
    return {**found, "improvement": f"{found['improvement_percent']:.1f}{ends}"}


def all_tables(data: Data) -> list[PageTable]:
    """Return the tables of the whole reproduction."""
    return [*monthly_tables(data), *_priority_tables(data), *_parameter_tables(data)]


def _by_reading(row: Mapping[str, Any], told: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return a row for each reading and for the paper."""
    found = [
        {**row, "reading": "chosen"},
        {**row, **row["literal"], "reading": "literal"},
        {**told, "reading": "paper"},
    ]
    named = {key: row[key] for key in ("month", "heuristic") if key in row}
    return [{**each, **named} for each in found]


def _priority_tables(data: Data) -> list[PageTable]:
    heuristics = []
    for name, row in data["heuristics"].items():
        told = {**row["paper"], "improvement_percent": row["paper_improvement_percent"]}
        heuristics += _by_reading({"heuristic": name, **row}, told)
    unequal = data["unequal_priorities"]
    months = []
    for row in (*unequal["months"], {**unequal, "month": "year"}):
        months += _by_reading(row, {key: row[f"paper_{key}"] for key in WAITS})
    return [
        _table("heuristics", heuristics),
        _table("unequal", months),
        _table("gap", data["priority_gap"]),
        _table("weights", data["weights"]),
    ]


def _parameter_tables(data: Data) -> list[PageTable]:
    monthly = data["monthly_average_wait"]
    told = {}
    for name, each in (("chosen", monthly), ("literal", monthly["literal"])):
        told[name] = each["improvement_percent"]
        told[f"{name}_fixed"] = each["fixed_improvement_percent"]
    return [
        _table("slack_factors", data["slack_factors"], **told),
        _table("all_priorities", data["all_priorities"]),
        _table("readings", [*data["readings"], _PAPER_READING]),
    ]


def monthly_figures(data: Data) -> list[Figure]:
    """Return the picture of the monthly table."""
    return [_figure("months", data["equal_priorities"]["months"])]


def all_figures(data: Data) -> list[Figure]:
    """Return all pictures."""
    heuristics = [
        {"name": name.replace("_", "\n", 1).replace("_", " "), **row}
        for name, row in data["heuristics"].items()
    ]
    return [
        *monthly_figures(data),
        _figure("heuristics", heuristics),
        _figure("priority-gap", data["priority_gap"]),
        _figure("weights", data["weights"]),
        _figure("slack-factor", data["slack_factors"]),
    ]
