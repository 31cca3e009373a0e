"""Figures of Talby and Feitelson (1999), ours beside the paper's numbers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from qops_batsim.papers.report import Figure, Panel, Series, series_of

Data = Mapping[str, Any]

_WAIT = "average wait (s)"
_LITERAL = "literal reading"
_IMPROVEMENT = "improvement over conservative (%)"
_GROUPS = {"all jobs": "unequal", "high priority": "high_priority", "low priority": "low_priority"}


def monthly_figures(data: Data) -> list[Figure]:
    """Return the picture of the monthly table."""
    rows = data["equal_priorities"]["months"]
    panels = []
    for title, key, label in (
        ("Conservative", "conservative", "measured"),
        ("Slack-based", "slack", "chosen reading"),
    ):
        measured = series_of(label, rows, "month", key)
        told = series_of("paper", rows, "month", f"paper_{key}", from_paper=True)
        literal = [{"month": row["month"], "y": row["literal"][key]} for row in rows]
        others = [series_of(_LITERAL, literal, "month", "y")] if key == "slack" else []
        panels.append(_bars(title, "month", _WAIT, measured, *others, told))
    title = "Average wait by month, equal priorities"
    return [Figure(name="months", title=title, panels=tuple(panels))]


def all_figures(data: Data) -> list[Figure]:
    """Return all pictures."""
    return [*monthly_figures(data), _heuristic_figure(data), *_curves(data)]


def _heuristic_figure(data: Data) -> Figure:
    rows = [
        {"name": name.replace("_", "\n", 1).replace("_", " "), **row}
        for name, row in data["heuristics"].items()
    ]
    low, high = zip(*(row["improvement_interval"] for row in rows), strict=True)
    known = None not in low and None not in high
    measured = Series(
        label="chosen reading, 95 % over months",
        x=tuple(row["name"] for row in rows),
        y=tuple(row["improvement_percent"] for row in rows),
        low=low if known else None,
        high=high if known else None,
    )
    told = series_of("paper", rows, "name", "paper_improvement_percent", from_paper=True)
    _, *groups = _groups(rows, "name")
    found = [{"name": row["name"], **row["literal"]} for row in rows]
    literal = series_of(_LITERAL, found, "name", "improvement_percent")
    equal = _bars("Equal priorities", "heuristic", _IMPROVEMENT, measured, literal, told)
    unequal = _bars("Every fifth job preferred", "heuristic", _WAIT, *groups)
    return Figure(name="heuristics", title="Order heuristics", panels=(equal, unequal))


def _bars(title: str, x_label: str, y_label: str, *series: Series) -> Panel:
    return Panel(title=title, x_label=x_label, y_label=y_label, kind="bars", series=series)


def _curves(data: Data) -> list[Figure]:
    gaps, factors = data["priority_gap"], data["slack_factors"]
    told = "paper_improvement_percent"
    literal = [row["literal"] for row in factors]
    return [
        _curve(
            "priority-gap",
            "Average wait by the gap between priorities",
            ("", "gap of user plus political priority", _WAIT),
            *_groups(gaps, "gap"),
            series_of("paper, all jobs (ends)", gaps, "gap", "paper_unequal", from_paper=True),
        ),
        _curve(
            "weights",
            "Average wait by the weight of utilization, time and fairness",
            ("Weight of priority 1, every fifth job preferred", "the other weights", _WAIT),
            *_groups(data["weights"], "other_weights"),
        ),
        _curve(
            "slack-factor",
            "Improvement by slack factor",
            ("", "slack factor", _IMPROVEMENT),
            series_of("chosen reading", factors, "slack_factor", "improvement_percent"),
            series_of(_LITERAL, literal, "slack_factor", "improvement_percent"),
            series_of("paper", factors, "slack_factor", told, from_paper=True),
        ),
    ]


def _groups(rows: Any, x: str) -> list[Series]:
    return [series_of(label, rows, x, key) for label, key in _GROUPS.items()]


def _curve(name: str, title: str, labels: tuple[str, str, str], *series: Series) -> Figure:
    """Return a figure of one panel, with the labels of its top and of both axes."""
    panel = Panel(title=labels[0], x_label=labels[1], y_label=labels[2], series=series)
    return Figure(name=name, title=title, panels=(panel,))
