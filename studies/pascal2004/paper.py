"""Pascal, Richard, Miegemolle and Monteil (2004), section 4: AROMA on the SDSC SP2 log.

Table 1 compares AROMA, all applications in the class dedicated, with NQS; Table 2
gives applications the classes of their queues. Quick is both with the first 10,000
jobs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from qops_batsim.experiments import (
    AMOUNT,
    SHARE,
    Figure,
    Limits,
    PageTable,
    StudyReport,
    jointly_judged,
    limits_of,
    mean_interval,
    number_text,
)
from studies.pascal2004.claims import claims
from studies.pascal2004.runs import (
    TableRows,
    candidates,
    mean,
    recorded_wait,
    run_trials,
    table1,
    table2,
    waits_by_stretch,
)
from studies.pascal2004.study import (
    ALL,
    FULL,
    ORIGINAL,
    QUANTITIES,
    QUICK,
    REBUILT,
    SPECIFICATION,
    Study,
)
from studies.request import StudyRequest


def run(request: StudyRequest) -> StudyReport:
    """Run the experiments."""
    return run_with(request.seeded(QUICK if request.quick else FULL), request)


def run_with(study: Study, request: StudyRequest) -> StudyReport:
    """Run the experiments with other numbers of jobs or seeds."""
    logs = {name: request.find_log(name) for name in (REBUILT, ORIGINAL)}
    results = run_trials(study.trials(), logs, request)
    recorded: dict[str, float] = {}
    for name, usable in (("usable", True), ("all", False)):
        wait, jobs = recorded_wait(logs[ORIGINAL], usable_only=usable)
        recorded |= {name: wait, f"{name}_jobs": jobs}
    first = table1(results, study, recorded)
    second = table2(results, study)
    third = candidates(results, study)
    stretches = waits_by_stretch(results, study)
    return StudyReport(
        study="pascal2004",
        quick=request.quick,
        choices=SPECIFICATION.choices | {"seeds": ", ".join(map(str, study.seeds))},
        data={
            "table1": {"rows": first, "recorded_waits": recorded},
            "table2": {"cases": second},
            "candidates": third,
            "stretches": stretches,
        },
        tables=tables(first, second, third),
        figures=figures(first, second, third),
        claims=jointly_judged(claims(first, second, third, stretches)),
        runs=(results,),
    )


def tables(first: TableRows, second: TableRows, third: TableRows) -> list[PageTable]:
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


def _interval_text(values: Sequence[float | None], limits: Limits = AMOUNT) -> str:
    """Return the mean with its interval, if there is more than one seed."""
    known = [value for value in values if value is not None]
    return mean_interval(known, limits).text() if known else "-"


def _count_text(values: Sequence[float]) -> str:
    return _interval_text(values) if len(values) > 1 else number_text(_without_fraction(values[0]))


def _mean_text(values: Sequence[float | None]) -> str:
    known = mean(values)
    return "-" if known is None else number_text(_without_fraction(known))


_FORMS: dict[str, Callable[[Any], str]] = {
    "log": lambda name: name.partition(".")[0],
    "by_seed": _interval_text,
    "share": lambda values: _interval_text(values, SHARE),
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
    # The paper's NQS are the waits that its log recorded.
    alone = [
        [
            {"scheduler": name, "wait": row[key], "paper": (row["paper"] or {}).get(key)}
            for name, key in _SCHEDULERS.items()
        ]
        for row in first
    ]
    figure = SPECIFICATION.figure
    found = [
        figure("table1", *alone, parts=[f"{row['jobs']:,} jobs" for row in first]),
        figure(
            "table2",
            *map(_by_class, mixed),
            parts=[f"{case['case']}: {case['jobs'][ALL]:,.0f} jobs" for case in mixed],
        ),
    ]
    means = [
        {
            **row,
            **{
                key: mean_interval(row[key], limits_of(key))
                for key in ("deadline_rejects_percent", "mapping_ms")
            },
        }
        for row in third
    ]
    return [*found, figure("candidates", means)] if third else found


def _by_class(case: Mapping[str, Any]) -> list[dict[str, Any]]:
    told = case["paper"].get("wait", {})
    return [
        {
            "class": name,
            "wait": None if None in each else mean_interval(each, AMOUNT),
            "paper": told.get(name),
        }
        for name, each in case["by_seed"]["wait"].items()
    ]
