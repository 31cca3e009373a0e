"""Tables of Talby and Feitelson (1999), ours beside the paper's numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from qops_batsim.papers.claims import Claim
from qops_batsim.papers.report import Table, claim_value
from qops_batsim.papers.talby1999 import numbers as paper
from qops_batsim.papers.talby1999.cases import BOTH
from qops_batsim.papers.talby1999.values import WAITS

Data = Mapping[str, Any]


_IMPROVEMENT = {
    "improvement_percent": "improvement %",
    "literal.improvement_percent": "literal",
    "paper_improvement_percent": "paper",
}
_MONTHLY = {
    "month": "month",
    "jobs": "jobs",
    "conservative": "conservative",
    "paper_conservative": "paper",
    "slack": "slack",
    "literal.slack": "literal",
    "paper_slack": "paper",
    **_IMPROVEMENT,
}
_EASY = {
    "simulator": "simulator",
    "easy": "EASY (s)",
    "conservative": "conservative (s)",
    "chosen.average": "slack (s)",
    "literal.average": "literal (s)",
    "conservative_improvement_percent": "conservative over EASY %",
    "chosen.improvement": "slack over EASY %",
    "literal.improvement": "literal over EASY %",
    "paper_improvement_percent": "paper",
}
_CONSERVATIVE = {
    "months_by": "months by",
    "notice": "early ends noticed",
    "jobs": "jobs",
    "average": "average wait (s)",
    "difference_percent": "difference %",
    "rms_difference_percent": "rms of months %",
    "correlation": "correlation",
    "first_month_total_wait": "first month's waits (s)",
    "paper_average_by_these_jobs": "paper's months by our jobs (s)",
}
_WAITS = {
    "reading": "reading",
    "equal": "equal (s)",
    "unequal": "unequal (s)",
    "high_priority": "high (s)",
    "low_priority": "low (s)",
}
_HEURISTICS = {
    "heuristic": "heuristic",
    **_WAITS,
    "improvement_percent": "improvement %",
    "performance_loss_percent": "loss %",
}
_UNEQUAL = {"month": "month", **_WAITS}


def _groups(x: str, heading: str, *others: str) -> dict[str, str]:
    """Return the columns of average waits by a parameter, in both readings."""
    found = {x: heading}
    for key, name in (("unequal", "all"), ("high_priority", "high"), ("low_priority", "low")):
        found |= {key: name, f"literal.{key}": "literal"}
        found |= {f"paper_{key}": "paper" for other in others if other == key}
    return found


_SLACK_FACTORS = {
    "slack_factor": "slack factor",
    "average": "average wait (s)",
    "literal.average": "literal",
    **_IMPROVEMENT,
}
_ALL_PRIORITIES = {
    "priority": "priority",
    "average": "average wait (s)",
    "literal.average": "literal",
    "improvement_percent": "improvement %",
    "literal.improvement_percent": "literal",
}
_READINGS = {
    "early_gain": "a gained start is",
    "removal": "moved by",
    "improvement_percent": "improvement %",
    "smallest_month_percent": "worst month %",
    "slack_factor_0_percent": "SF 0 %",
    "slack_factor_9_percent": "SF 9 %",
    "unequal": "unequal (s)",
    "high_priority": "high (s)",
    "low_priority": "low (s)",
    "plain_improvement_percent": "plain clock %",
}
_PAPER_READING = {
    "early_gain": "paper",
    "improvement_percent": paper.IMPROVEMENT,
    "smallest_month_percent": paper.SMALLEST_IMPROVEMENT,
    "slack_factor_0_percent": 0.0,
    "slack_factor_9_percent": paper.IMPROVEMENT_SLACK_FACTOR_9,
    "unequal": paper.YEAR.unequal,
    "high_priority": paper.YEAR.high,
    "low_priority": paper.YEAR.low,
}


def monthly_tables(data: Data) -> list[Table]:
    """Return the monthly table, and those of the conservative column and of EASY."""
    equal = data["equal_priorities"]
    year = {"month": "year", **equal, "literal": dict(equal["literal"])}
    for key in ("conservative", "slack", "paper_conservative", "paper_slack"):
        year[key] = equal[f"{key}_average"]
    year["literal"]["slack"] = equal["literal"]["slack_average"]
    easy = [{**row, **{name: _with_interval(row[name]) for name in BOTH}} for row in data["easy"]]
    return [
        Table(
            "Average wait (s), equal priorities (section 5.2)",
            _MONTHLY,
            [*equal["months"], year],
            note="Literal: section 4.2 word for word, where an early end lengthens slacks.",
        ),
        Table(
            "Against EASY: yearly averages and improvement (abstract)",
            _EASY,
            easy,
            note="The paper's simulator notices early ends at arrivals and slots; a usual one at "
            "once, with months by submission.",
        ),
        Table(
            "Conservative backfilling: months and what the simulator notices",
            _CONSERVATIVE,
            data["conservative_column"],
            note="Paper: 28,284 jobs, average 2401.44 s, September's waits 440.6 s x 85 jobs = "
            "37,451 s. rms and correlation leave out September.",
        ),
    ]


def claims_in_both_readings(chosen: Sequence[Claim], literal: Sequence[Claim]) -> Table:
    """Return what each claim comes to in the reading chosen and in the literal one."""
    rows = [
        {
            "text": f"{one.text} ({one.section})",
            "chosen": f"{claim_value(one)}: {one.verdict}",
            "literal": f"{claim_value(other)}: {other.verdict}",
            "paper": one.paper,
        }
        for one, other in zip(chosen, literal, strict=True)
    ]
    return Table(
        "Claims in both readings",
        _CLAIMS,
        rows,
        note="The claims of each reading are judged together, by 95 % intervals (Student) over the "
        "twelve months, corrected for their number.",
    )


_CLAIMS = {
    "text": "claim (section)",
    "chosen": "chosen reading",
    "literal": "literal",
    "paper": "paper",
}


def _with_interval(found: Mapping[str, Any]) -> dict[str, Any]:
    low, high = found["improvement_interval"]
    ends = "" if low is None else f" [{low:.1f}, {high:.1f}]"
    return {**found, "improvement": f"{found['improvement_percent']:.1f}{ends}"}


def all_tables(data: Data) -> list[Table]:
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


def _priority_tables(data: Data) -> list[Table]:
    heuristics = []
    for name, row in data["heuristics"].items():
        told = {**row["paper"], "improvement_percent": row["paper_improvement_percent"]}
        heuristics += _by_reading({"heuristic": name, **row}, told)
    unequal = data["unequal_priorities"]
    months = []
    for row in (*unequal["months"], {**unequal, "month": "year"}):
        months += _by_reading(row, {key: row[f"paper_{key}"] for key in WAITS})
    return [
        Table(
            "Order heuristics: yearly average waits (s) (sections 5.2 and 5.3)",
            _HEURISTICS,
            heuristics,
        ),
        Table(
            "Average wait (s), every fifth job preferred (section 5.3)",
            _UNEQUAL,
            months,
            note="The paper's low priority number for November is below both of the numbers that "
            "it should lie between with the others.",
        ),
        Table(
            "Average wait (s) by the gap between the priorities (section 5.3)",
            _groups("gap", "gap", "unequal"),
            data["priority_gap"],
        ),
        Table(
            "Average wait (s) by the weight of all but priority, every fifth job preferred",
            _groups("other_weights", "other weights"),
            data["weights"],
        ),
    ]


def _parameter_tables(data: Data) -> list[Table]:
    monthly = data["monthly_average_wait"]
    return [
        Table(
            "Improvement by slack factor (section 5.2)",
            _SLACK_FACTORS,
            data["slack_factors"],
            note="With each month's own average wait instead of 2401 s, at slack factor 3: "
            + "; ".join(
                f"{each['improvement_percent']:.2f} % instead of "
                f"{each['fixed_improvement_percent']:.2f} % ({name})"
                for name, each in (("chosen", monthly), ("literal", monthly["literal"]))
            )
            + ".",
        ),
        Table(
            "All jobs with the same user and political priority",
            _ALL_PRIORITIES,
            data["all_priorities"],
        ),
        Table(
            "Readings of what happens at an early end",
            _READINGS,
            [*data["readings"], _PAPER_READING],
            note="Plain clock: months by submission, ends noticed at once.",
        ),
    ]
