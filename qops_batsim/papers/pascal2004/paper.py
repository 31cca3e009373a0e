"""Pascal, Richard, Miegemolle and Monteil (2004), section 4: AROMA on the SDSC SP2 log.

Table 1 compares AROMA, all applications in the class dedicated, with NQS; Table 2
gives applications the classes of their queues. Quick is both with the first 10,000
jobs, and the log's first 4,961 jobs with the queues that their users chose.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from qops_batsim.experiments.report_table import ReportTable, number_text
from qops_batsim.experiments.statistics import mean_interval
from qops_batsim.papers.claims import jointly_judged
from qops_batsim.papers.logs import find_log
from qops_batsim.papers.pascal2004.claims import claims
from qops_batsim.papers.pascal2004.runs import (
    TableRows,
    candidates,
    mean,
    recorded_wait,
    run_trials,
    table1,
    table2,
)
from qops_batsim.papers.pascal2004.study import (
    ALL,
    FULL,
    ORIGINAL,
    QUANTITIES,
    QUICK,
    REBUILT,
    SPECIFICATION,
    Study,
)
from qops_batsim.papers.report import (
    Figure,
    Panel,
    PaperReport,
    PaperRequest,
    Series,
    line_of_means,
)


def run(request: PaperRequest) -> PaperReport:
    """Run the experiments."""
    return run_with(request.seeded(QUICK if request.quick else FULL), request)


def run_with(study: Study, request: PaperRequest) -> PaperReport:
    """Run the experiments with other numbers of jobs or seeds."""
    logs = {name: find_log(request, name) for name in (REBUILT, ORIGINAL)}
    results = run_trials(study.trials(), logs, request)
    recorded: dict[str, float] = {}
    for name, usable in (("usable", True), ("all", False)):
        wait, jobs = recorded_wait(logs[ORIGINAL], usable_only=usable)
        recorded |= {name: wait, f"{name}_jobs": jobs}
    first = table1(results, study, recorded)
    second = table2(results, study)
    third = candidates(results, study)
    return PaperReport(
        paper="pascal2004",
        quick=request.quick,
        choices=SPECIFICATION.choices | {"seeds": ", ".join(map(str, study.seeds))},
        data={
            "table1": {"rows": first, "recorded_waits": recorded},
            "table2": {"cases": second},
            "candidates": third,
        },
        tables=tables(first, second, third),
        figures=figures(first, second, third),
        claims=jointly_judged(claims(first, second, third)),
        runs=(results,),
    )


def tables(first: TableRows, second: TableRows, third: TableRows) -> list[ReportTable]:
    """Return Table 1, Table 2 with one row a case and class, guarantees, and candidates."""
    labelled = [{**case, "label": _label(case)} for case in second]
    of_classes = [
        _of_class(case, name)
        for case in labelled
        # Where all have one class, it is what all are.
        for name in (case["wait"] if case["classes"] == "by queue" else [ALL])
    ]
    table = partial(SPECIFICATION.table, forms=_FORMS)
    return [
        table("table_1", first),
        table("table_2", of_classes),
        table("guarantees", labelled),
        *([table("candidates", third)] if third else []),
    ]


def _of_class(case: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return the values of a case for one class."""
    return {
        "label": case["label"],
        "class": name,
        **{quantity: by_name[name] for quantity, by_name in case["by_seed"].items()},
        "paper": {quantity: case["paper"].get(quantity, {}).get(name) for quantity in QUANTITIES},
    }


def _label(case: Mapping[str, Any]) -> str:
    return f"{case['case']}: {_without_fraction(case['jobs'][ALL]):,} jobs, {case['classes']}"


def _without_fraction(value: float) -> int | float:
    """Return a mean of counts without fraction where it has none."""
    return int(value) if float(value).is_integer() else value


def _interval_text(values: Sequence[float | None]) -> str:
    """Return the mean with its interval, if there is more than one seed."""
    known = [value for value in values if value is not None]
    return mean_interval(known).text() if known else "-"


def _count_text(values: Sequence[float]) -> str:
    return _interval_text(values) if len(values) > 1 else number_text(_without_fraction(values[0]))


def _mean_text(values: Sequence[float | None]) -> str:
    known = mean(values)
    return "-" if known is None else number_text(_without_fraction(known))


_FORMS: dict[str, Callable[[Any], str]] = {
    "log": lambda name: name.partition(".")[0],
    "by_seed": _interval_text,
    "count": _count_text,
    "mean_of": _mean_text,
}


_SCHEDULERS = {
    "as recorded": "recorded",
    "our NQS": "nqs",
    "AROMA": "aroma",
    "conservative": "conservative",
}


def figures(first: TableRows, second: TableRows, third: TableRows) -> list[Figure]:
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


def _candidates(rows: TableRows) -> Figure:
    panels = []
    for key, label in (
        ("deadline_rejects_percent", "Rejected of class deadline (%)"),
        ("mapping_ms", "Mean time of a mapping (ms)"),
    ):
        points = [(row["candidates"], mean_interval(row[key])) for row in rows]
        series = line_of_means("AROMA", points)
        panels.append(Panel(title="", x_label="Candidates", y_label=label, series=(series,)))
    title = "Candidates for each fall-back, first case of the paper"
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
    here = line_of_means(
        "AROMA", [(name, mean_interval(each)) for name, each in waits if None not in each]
    )
    if not case["paper"]:
        return (here,)
    return here, _bars("paper", case["paper"]["wait"], from_paper=True)


def _bars(label: str, waits: Mapping[str, float | None], *, from_paper: bool = False) -> Series:
    known = {name: value for name, value in waits.items() if value is not None}
    return Series(label=label, x=tuple(known), y=tuple(known.values()), from_paper=from_paper)
