"""Tables 1 and 2 of Pascal et al. (2004) as pictures."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from qops_batsim.experiments.intervals import mean_interval
from qops_batsim.papers.pascal2004.numbers import ALL
from qops_batsim.papers.pascal2004.values import Rows
from qops_batsim.papers.report import Figure, Panel, Series
from qops_batsim.papers.samples import line

_SCHEDULERS = {
    "as recorded": "recorded",
    "our NQS": "nqs",
    "AROMA": "aroma",
    "conservative": "conservative",
}


def figures(first: Rows, second: Rows, third: Rows) -> list[Figure]:
    """Return a picture of each table, and of the candidates if they vary."""
    mixed = [case for case in second if case["classes"] == "by queue"]
    alone = [_panel(f"{row['jobs']:,} jobs", "Scheduler", _of_schedulers(row)) for row in first]
    classes = [
        _panel(f"{case['case']}: {case['jobs'][ALL]:,.0f} jobs", "Class", _of_classes(case))
        for case in mixed
    ]
    title = "Mean wait, all applications alone on their hosts"
    found = [
        Figure(name="table1", title=title, panels=tuple(alone)),
        Figure(name="table2", title="Four classes of service", panels=tuple(classes)),
    ]
    return [*found, _candidates(third)] if third else found


def _candidates(rows: Rows) -> Figure:
    panels = []
    for key, label in (
        ("deadline_rejects_percent", "Rejected of class deadline (%)"),
        ("mapping_ms", "Mean time of a mapping (ms)"),
    ):
        points = [(row["candidates"], mean_interval(row[key])) for row in rows]
        series = line("AROMA", points)
        panels.append(Panel(title="", x_label="Candidates", y_label=label, series=(series,)))
    title = "35,000 jobs: candidates for each fall-back"
    return Figure(name="candidates", title=title, panels=tuple(panels))


def _panel(title: str, x_label: str, series: tuple[Series, ...]) -> Panel:
    return Panel(title=title, x_label=x_label, y_label="Mean wait (s)", kind="bars", series=series)


def _of_schedulers(row: Mapping[str, Any]) -> tuple[Series, ...]:
    here = _bars("here", {name: row[field] for name, field in _SCHEDULERS.items()})
    if not row["paper"]:
        return (here,)
    # The paper's NQS are the waits that its log recorded.
    paper = {"our NQS": row["paper"]["nqs"], "AROMA": row["paper"]["aroma"]}
    return here, _bars("paper (NQS: its log)", paper, from_paper=True)


def _of_classes(case: Mapping[str, Any]) -> tuple[Series, ...]:
    waits = case["by_seed"]["wait"].items()
    here = line("AROMA", [(name, mean_interval(each)) for name, each in waits if None not in each])
    if not case["paper"]:
        return (here,)
    return here, _bars("paper", case["paper"]["wait"], from_paper=True)


def _bars(label: str, waits: Mapping[str, float | None], *, from_paper: bool = False) -> Series:
    known = {name: value for name, value in waits.items() if value is not None}
    return Series(label=label, x=tuple(known), y=tuple(known.values()), from_paper=from_paper)
