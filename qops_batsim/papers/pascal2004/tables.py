"""Tables 1 and 2 of Pascal et al. (2004), with the paper's numbers beside ours."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from qops_batsim.papers.pascal2004.numbers import ALL, QUANTITIES
from qops_batsim.papers.pascal2004.values import Rows
from qops_batsim.papers.report import Column, Columns, Table, number_text


def tables(first: Rows, second: Rows) -> list[Table]:
    """Return Table 1, Table 2 with one row a case and class, and what became of guarantees."""
    labelled = [{**case, "label": _label(case)} for case in second]
    return [
        Table(
            "Table 1: mean wait (s), all jobs dedicated, tasks start together",
            _TABLE_1,
            first,
            note="Only the first 4,961 jobs have recorded waits, queues and CPU times; of them "
            "those that ran are simulated. The paper's NQS column is what its log recorded. "
            "Conservative backfilling with exact run times is there for orientation.",
        ),
        Table(
            "Table 2: influence of the quality of service",
            _TABLE_2,
            [_of_class(case, name) for case in labelled for name in case["wait"]],
            note="Cases 1 to 4 are the paper's; then the log's first jobs with their real queues, "
            "with run times, with the CPU time field, and with tasks that progress together. "
            "Stretch: (end - start) / CPU time, the price of sharing hosts. Mapping times are "
            "wall clock times of this machine.",
        ),
        Table(
            "Predicted ends against simulated ones (s), and guarantees",
            _GUARANTEES,
            labelled,
            note="Last: the prediction made when the last thing happened before the end. First: "
            "that made at the mapping, which later arrivals change. Stops count tasks.",
        ),
    ]


def _of_class(case: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return the values of a case for one class."""
    quantities = ("jobs", *QUANTITIES, "mapping_p99_ms", "stretch")
    return {
        "label": case["label"],
        "class": name,
        **{quantity: case[quantity][name] for quantity in quantities},
        "paper": {quantity: case["paper"].get(quantity, {}).get(name) for quantity in QUANTITIES},
    }


def _label(case: Mapping[str, Any]) -> str:
    return f"{case['case']}: {_whole(case['jobs'][ALL]):,} jobs, {case['classes']}"


def _whole(value: float) -> int | float:
    """Return a mean of counts without fraction where it has none."""
    return int(value) if float(value).is_integer() else value


def _count(value: float) -> str:
    return number_text(_whole(value))


_TABLE_1: Columns = {
    "log": Column("log", lambda name: name.partition(".")[0]),
    "jobs": "jobs",
    "days": "days",
    "recorded": "as recorded",
    "nqs": "our NQS",
    "paper.nqs": "paper: NQS (log)",
    "aroma": "AROMA, run time",
    "aroma_cpu_time_field": "AROMA, CPU time field",
    "paper.aroma": "paper: AROMA",
    "difference_percent.aroma": Column("difference", "{:+.1f} %"),
    "conservative": "conservative, exact",
}
_TABLE_2: Columns = {
    "label": "case",
    "class": "class",
    "jobs": Column("jobs", _count),
    "wait": "wait (s)",
    "paper.wait": "paper",
    "mapping_ms": "mapping (ms)",
    "mapping_p99_ms": "p99 (ms)",
    "paper.mapping_ms": "paper",
    "rejected": Column("rejects", _count),
    "paper.rejected": "paper",
    "stretch": "stretch",
}
_GUARANTEES: Columns = {
    "label": "case",
    "prediction_error_s.mean": Column("last, mean", "{:.1e}"),
    "prediction_error_s.max": Column("last, max", "{:.1e}"),
    "prediction_error_s.first_mean": "first, mean",
    "stopped": "stops",
    "broken_promises": "broken guarantees",
}
