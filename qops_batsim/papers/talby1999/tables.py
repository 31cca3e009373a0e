"""Tables and figures of Talby and Feitelson (1999), ours beside the paper's numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from qops_batsim.papers.report import Cell, Figure, Panel, Series, Table
from qops_batsim.papers.talby1999.data import WAITS

Data = Mapping[str, Any]
Rows = Sequence[Mapping[str, Any]]


def _table(
    title: str,
    columns: Mapping[str, str],
    rows: Rows,
    last: Mapping[str, Any] | None = None,
    note: str = "",
) -> Table:
    """Return a table of the named values of each row."""
    shown = [*rows, *([] if last is None else [last])]
    cells: list[tuple[Cell, ...]] = [tuple(row.get(key) for key in columns) for row in shown]
    return Table(title=title, columns=tuple(columns.values()), rows=tuple(cells), note=note)


def monthly_tables(data: Data) -> list[Table]:
    """Return the monthly table and the one of the conservative column."""
    equal = data["equal_priorities"]
    year = {
        "month": "year",
        "jobs": equal["jobs"],
        "conservative": equal["conservative_average"],
        "paper_conservative": equal["paper_conservative_average"],
        "conservative_difference_percent": equal["conservative_difference_percent"],
        "slack": equal["slack_average"],
        "paper_slack": equal["paper_slack_average"],
        "slack_difference_percent": equal["slack_difference_percent"],
        "improvement_percent": equal["improvement_percent"],
        "paper_improvement_percent": equal["paper_improvement_percent"],
    }
    return [
        _table(
            "Average wait (s), equal priorities (section 5.2)",
            {
                "month": "month",
                "jobs": "jobs",
                "conservative": "conservative",
                "paper_conservative": "paper",
                "conservative_difference_percent": "difference %",
                "slack": "slack",
                "paper_slack": "paper",
                "slack_difference_percent": "difference %",
                "improvement_percent": "improvement %",
                "paper_improvement_percent": "paper",
            },
            equal["months"],
            year,
        ),
        _table(
            "Conservative backfilling: months and what the simulator notices",
            {
                "months_by": "months by",
                "notice": "early ends noticed",
                "jobs": "jobs",
                "average": "average wait (s)",
                "difference_percent": "difference %",
                "rms_difference_percent": "rms of months %",
                "correlation": "correlation",
                "first_month_total_wait": "first month's waits (s)",
                "paper_average_by_these_jobs": "paper's months by our jobs (s)",
            },
            data["conservative_column"],
            note="Paper: 28,284 jobs, average 2401.44 s, September's waits 440.6 s x 85 jobs = "
            "37,451 s. rms and correlation leave out September.",
        ),
    ]


def all_tables(data: Data) -> list[Table]:
    """Return the tables of the whole reproduction."""
    return [
        *monthly_tables(data),
        *_heuristic_tables(data),
        *_unequal_tables(data),
        *_parameter_tables(data),
    ]


def _heuristic_tables(data: Data) -> list[Table]:
    rows = [
        {"heuristic": name, **row, **{f"paper_{key}": told for key, told in row["paper"].items()}}
        for name, row in data["heuristics"].items()
    ]
    return [
        _table(
            "Order heuristics: yearly average waits (s) (sections 5.2 and 5.3)",
            {
                "heuristic": "heuristic",
                "improvement_percent": "improvement %",
                "paper_improvement_percent": "paper",
                "equal": "equal priorities",
                "paper_equal": "paper",
                "unequal": "unequal",
                "paper_unequal": "paper",
                "high_priority": "high priority",
                "paper_high_priority": "paper",
                "low_priority": "low priority",
                "paper_low_priority": "paper",
                "performance_loss_percent": "loss %",
            },
            rows,
        ),
        _table(
            "The same waits: relative difference to the paper (%)",
            {"heuristic": "heuristic"} | {key: key.replace("_", " ") for key in WAITS},
            [{"heuristic": row["heuristic"], **row["difference_percent"]} for row in rows],
        ),
    ]


def _unequal_tables(data: Data) -> list[Table]:
    unequal = data["unequal_priorities"]
    year = {"month": "year"} | {key: unequal[key] for key in WAITS}
    year |= {f"paper_{key}": unequal[f"paper_{key}"] for key in WAITS}
    columns = {"month": "month"}
    for key in WAITS:
        columns[key] = key.replace("_", " ")
        columns[f"paper_{key}"] = "paper"
    return [
        _table(
            "Average wait (s), every fifth job preferred (section 5.3)",
            columns,
            unequal["months"],
            year,
            "The paper's low priority number for November is below both of the numbers that it "
            "should lie between with the others.",
        ),
        _table(
            "The same waits: relative difference to the paper (%)",
            {"month": "month"} | {key: key.replace("_", " ") for key in WAITS},
            [{"month": row["month"], **row["difference_percent"]} for row in unequal["months"]],
            {"month": "year", **unequal["difference_percent"]},
        ),
        _table(
            "Average wait (s) by the gap between the priorities (section 5.3)",
            {
                "gap": "gap",
                "unequal": "all jobs",
                "paper_unequal": "paper",
                "high_priority": "high priority",
                "low_priority": "low priority",
            },
            data["priority_gap"],
        ),
        _table(
            "Average wait (s) by the weight of all but priority, every fifth job preferred",
            {
                "other_weights": "other weights",
                "unequal": "all jobs",
                "high_priority": "high priority",
                "low_priority": "low priority",
                "gap": "difference",
            },
            data["weights"],
        ),
    ]


def _parameter_tables(data: Data) -> list[Table]:
    monthly = data["monthly_average_wait"]
    return [
        _table(
            "Improvement by slack factor (section 5.2)",
            {
                "slack_factor": "slack factor",
                "average": "average wait (s)",
                "improvement_percent": "improvement %",
                "paper_improvement_percent": "paper",
            },
            data["slack_factors"],
            note=f"With each month's own average wait instead of 2401 s: "
            f"{monthly['improvement_percent']:.2f} % instead of "
            f"{monthly['fixed_improvement_percent']:.2f} % at slack factor 3.",
        ),
        _table(
            "All jobs with the same user and political priority",
            {
                "priority": "priority",
                "average": "average wait (s)",
                "improvement_percent": "improvement %",
            },
            data["all_priorities"],
        ),
        _table(
            "Readings of what happens at an early end",
            {
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
            },
            data["readings"],
            {
                "early_gain": "paper",
                "improvement_percent": 16.5,
                "smallest_month_percent": 9.5,
                "slack_factor_0_percent": 0.0,
                "slack_factor_9_percent": 19.25,
                "unequal": 2226.17,
                "high_priority": 1955.28,
                "low_priority": 2294.0,
            },
            "Plain clock: months by submission, ends noticed at once.",
        ),
    ]


def monthly_figures(data: Data) -> list[Figure]:
    """Return the picture of the monthly table."""
    rows = data["equal_priorities"]["months"]
    months = tuple(row["month"] for row in rows)
    panels = tuple(
        Panel(
            title=title,
            x_label="month",
            y_label="average wait (s)",
            kind="bars",
            series=(
                _bars("measured", months, rows, key),
                _bars("paper", months, rows, f"paper_{key}", from_paper=True),
            ),
        )
        for title, key in (("Conservative", "conservative"), ("Slack-based", "slack"))
    )
    return [Figure(name="months", title="Average wait by month, equal priorities", panels=panels)]


def all_figures(data: Data) -> list[Figure]:
    """Return all pictures."""
    return [*monthly_figures(data), _heuristic_figure(data), *_curves(data)]


def _heuristic_figure(data: Data) -> Figure:
    rows = data["heuristics"]
    names = tuple(name.replace("_", "\n", 1).replace("_", " ") for name in rows)
    values = list(rows.values())
    low, high = zip(*(row["improvement_interval"] for row in values), strict=True)
    known = None not in low and None not in high
    measured = Series(
        label="measured, 95 % over months",
        x=names,
        y=tuple(row["improvement_percent"] for row in values),
        low=tuple(low) if known else None,
        high=tuple(high) if known else None,
    )
    told = _bars("paper", names, values, "paper_improvement_percent", from_paper=True)
    panel = Panel(
        title="Equal priorities",
        x_label="heuristic",
        y_label="improvement over conservative (%)",
        kind="bars",
        series=(measured, told),
    )
    averages = Panel(
        title="Every fifth job preferred",
        x_label="heuristic",
        y_label="average wait (s)",
        kind="bars",
        series=(
            _bars("high priority", names, values, "high_priority"),
            _bars("low priority", names, values, "low_priority"),
        ),
    )
    return Figure(name="heuristics", title="Order heuristics", panels=(panel, averages))


def _curves(data: Data) -> list[Figure]:
    groups = (
        ("all jobs", "unequal"),
        ("high priority", "high_priority"),
        ("low priority", "low_priority"),
    )
    gaps, weights, factors = data["priority_gap"], data["weights"], data["slack_factors"]
    ends = [row for row in gaps if row["paper_unequal"] is not None]
    told = [row for row in factors if row["paper_improvement_percent"] is not None]
    return [
        Figure(
            name="priority-gap",
            title="Average wait by the gap between priorities",
            panels=(
                Panel(
                    title="",
                    x_label="gap of user plus political priority",
                    y_label="average wait (s)",
                    series=(
                        *(_line(label, gaps, "gap", key) for label, key in groups),
                        _line("paper, all jobs (ends)", ends, "gap", "paper_unequal", told=True),
                    ),
                ),
            ),
        ),
        Figure(
            name="weights",
            title="Average wait by the weight of utilization, time and fairness",
            panels=(
                Panel(
                    title="Weight of priority 1, every fifth job preferred",
                    x_label="the other weights",
                    y_label="average wait (s)",
                    series=tuple(
                        _line(label, weights, "other_weights", key) for label, key in groups
                    ),
                ),
            ),
        ),
        Figure(
            name="slack-factor",
            title="Improvement by slack factor",
            panels=(
                Panel(
                    title="",
                    x_label="slack factor",
                    y_label="improvement over conservative (%)",
                    series=(
                        _line("measured", factors, "slack_factor", "improvement_percent"),
                        _line(
                            "paper",
                            told,
                            "slack_factor",
                            "paper_improvement_percent",
                            told=True,
                        ),
                    ),
                ),
            ),
        ),
    ]


def _bars(
    label: str, names: tuple[str, ...], rows: Rows, key: str, *, from_paper: bool = False
) -> Series:
    return Series(label=label, x=names, y=tuple(row[key] for row in rows), from_paper=from_paper)


def _line(label: str, rows: Rows, x: str, y: str, *, told: bool = False) -> Series:
    return Series(
        label=label,
        x=tuple(row[x] for row in rows),
        y=tuple(row[y] for row in rows),
        from_paper=told,
    )
