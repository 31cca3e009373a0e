"""Tables of Talby and Feitelson (1999), ours beside the paper's numbers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from qops_batsim.papers.report import Table
from qops_batsim.papers.talby1999 import numbers as paper
from qops_batsim.papers.talby1999.values import WAITS

Data = Mapping[str, Any]


def _beside_paper(key: str, heading: str, prefix: str = "paper_") -> dict[str, str]:
    """Return the column of a value and that of the paper's."""
    return {key: heading, f"{prefix}{key}": "paper"}


_IMPROVEMENT = _beside_paper("improvement_percent", "improvement %")
_MONTHLY = {
    "month": "month",
    "jobs": "jobs",
    **_beside_paper("conservative", "conservative"),
    "conservative_difference_percent": "difference %",
    **_beside_paper("slack", "slack"),
    "slack_difference_percent": "difference %",
    **_IMPROVEMENT,
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
_HEURISTICS = {
    "heuristic": "heuristic",
    **_IMPROVEMENT,
    **_beside_paper("equal", "equal priorities", "paper."),
    **_beside_paper("unequal", "unequal", "paper."),
    **_beside_paper("high_priority", "high priority", "paper."),
    **_beside_paper("low_priority", "low priority", "paper."),
    "performance_loss_percent": "loss %",
}
_DIFFERENCES = {f"difference_percent.{key}": key.replace("_", " ") for key in WAITS}
_GROUPS = {"high_priority": "high priority", "low_priority": "low priority"}
_UNEQUAL = {
    each: heading
    for key in WAITS
    for each, heading in _beside_paper(key, key.replace("_", " ")).items()
}
_GAP = {"gap": "gap", **_beside_paper("unequal", "all jobs"), **_GROUPS}
_WEIGHTS = {"other_weights": "other weights", "unequal": "all jobs", **_GROUPS, "gap": "difference"}
_SLACK_FACTORS = {"slack_factor": "slack factor", "average": "average wait (s)", **_IMPROVEMENT}
_ALL_PRIORITIES = {
    "priority": "priority",
    "average": "average wait (s)",
    "improvement_percent": "improvement %",
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
    """Return the monthly table and the one of the conservative column."""
    equal = data["equal_priorities"]
    averages = ("conservative", "slack", "paper_conservative", "paper_slack")
    year = {"month": "year", **equal, **{key: equal[f"{key}_average"] for key in averages}}
    return [
        Table(
            "Average wait (s), equal priorities (section 5.2)", _MONTHLY, [*equal["months"], year]
        ),
        Table(
            "Conservative backfilling: months and what the simulator notices",
            _CONSERVATIVE,
            data["conservative_column"],
            note="Paper: 28,284 jobs, average 2401.44 s, September's waits 440.6 s x 85 jobs = "
            "37,451 s. rms and correlation leave out September.",
        ),
    ]


def all_tables(data: Data) -> list[Table]:
    """Return the tables of the whole reproduction."""
    return [*monthly_tables(data), *_priority_tables(data), *_parameter_tables(data)]


def _priority_tables(data: Data) -> list[Table]:
    heuristics = [{"heuristic": name, **row} for name, row in data["heuristics"].items()]
    unequal = data["unequal_priorities"]
    months = [*unequal["months"], {**unequal, "month": "year"}]
    differences = "The same waits: relative difference to the paper (%)"
    return [
        Table(
            "Order heuristics: yearly average waits (s) (sections 5.2 and 5.3)",
            _HEURISTICS,
            heuristics,
        ),
        Table(differences, {"heuristic": "heuristic", **_DIFFERENCES}, heuristics),
        Table(
            "Average wait (s), every fifth job preferred (section 5.3)",
            {"month": "month", **_UNEQUAL},
            months,
            note="The paper's low priority number for November is below both of the numbers that "
            "it should lie between with the others.",
        ),
        Table(differences, {"month": "month", **_DIFFERENCES}, months),
        Table(
            "Average wait (s) by the gap between the priorities (section 5.3)",
            _GAP,
            data["priority_gap"],
        ),
        Table(
            "Average wait (s) by the weight of all but priority, every fifth job preferred",
            _WEIGHTS,
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
            note=f"With each month's own average wait instead of 2401 s: "
            f"{monthly['improvement_percent']:.2f} % instead of "
            f"{monthly['fixed_improvement_percent']:.2f} % at slack factor 3.",
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
