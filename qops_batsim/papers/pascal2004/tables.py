"""Tables 1 and 2 of Pascal et al. (2004), with the paper's numbers beside ours."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from qops_batsim.experiments.intervals import mean_interval
from qops_batsim.papers.pascal2004.numbers import ALL, QUANTITIES
from qops_batsim.papers.pascal2004.values import Rows, mean
from qops_batsim.papers.report import Column, Columns, Table, number_text


def tables(first: Rows, second: Rows, third: Rows) -> list[Table]:
    """Return Table 1, Table 2 with one row a case and class, guarantees, and candidates."""
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
            [
                _of_class(case, name)
                for case in labelled
                # Where all have one class, it is what all are.
                for name in (case["wait"] if case["classes"] == "by queue" else [ALL])
            ],
            note="Cases 1 to 4 are the paper's; then the log's first jobs with their real queues, "
            "with run times, with the CPU time field, and with tasks that progress together. "
            "Stretch: (end - start) / CPU time, the price of sharing hosts. Mapping times are "
            "processor times of this machine.",
        ),
        Table(
            "Predicted ends against simulated ones (s), and guarantees",
            _GUARANTEES,
            labelled,
            note="Last: the prediction made when the last thing happened before the end. First: "
            "that made at the mapping, which later arrivals change. Stops count tasks.",
        ),
        *(
            [
                Table(
                    "Candidates for each fall-back, the last case of the paper with four classes",
                    _CANDIDATES,
                    third,
                    note="Waiting and running applications of weaker classes that are tried to be "
                    "moved or stopped for one that finds no place (options moves and stops).",
                )
            ]
            if third
            else []
        ),
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
    return f"{case['case']}: {_whole(case['jobs'][ALL]):,} jobs, {case['classes']}"


def _whole(value: float) -> int | float:
    """Return a mean of counts without fraction where it has none."""
    return int(value) if float(value).is_integer() else value


def _over_seeds(values: Sequence[float | None]) -> str:
    """Return the mean with its interval, if there is more than one seed."""
    known = [value for value in values if value is not None]
    return mean_interval(known).text() if known else "-"


def _count(values: Sequence[float]) -> str:
    return _over_seeds(values) if len(values) > 1 else number_text(_whole(values[0]))


def _mean(values: Sequence[float | None]) -> str:
    known = mean(values)
    return "-" if known is None else number_text(_whole(known))


_TABLE_1: Columns = {
    "log": Column("log", lambda name: name.partition(".")[0]),
    "jobs": "jobs",
    "days": "days",
    "recorded": "as recorded",
    "nqs_by_seed": Column("our NQS", _over_seeds),
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
    "jobs": Column("jobs", _mean),
    "wait": Column("wait (s)", _over_seeds),
    "paper.wait": "paper",
    "mapping_ms": Column("mapping (ms)", _mean),
    "mapping_p99_ms": Column("p99 (ms)", _mean),
    "paper.mapping_ms": "paper",
    "rejected": Column("rejects", _count),
    "paper.rejected": "paper",
    "stretch": Column("stretch", _mean),
}
_CANDIDATES: Columns = {
    "candidates": "candidates",
    "deadline_rejects": Column("deadline rejects", _count),
    "deadline_rejects_percent": Column("%", _over_seeds),
    "high_priority_rejects": Column("high priority rejects", _count),
    "wait": Column("wait (s), all", _over_seeds),
    "mapping_ms": Column("mapping (ms)", _mean),
    "mapping_p99_ms": Column("p99 (ms)", _mean),
    "broken_promises": "broken guarantees",
}
_GUARANTEES: Columns = {
    "label": "case",
    "prediction_error_s.mean": Column("last, mean", "{:.1e}"),
    "prediction_error_s.max": Column("last, max", "{:.1e}"),
    "prediction_error_s.first_mean": "first, mean",
    "stopped": "stops",
    "broken_promises": "broken guarantees",
}
