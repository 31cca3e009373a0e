"""Tables 1 and 2 of Pascal et al. (2004), with the paper's numbers beside ours."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from qops_batsim.jobs import QOS_CLASSES
from qops_batsim.papers.pascal2004.cases import Case, Results, Study, alone, conservative, nqs
from qops_batsim.papers.pascal2004.runs import ALL, MEASURED, ORIGINAL, REBUILT, Outcome
from qops_batsim.papers.report import Cell, Table, relative_difference
from qops_batsim.workload.service_classes import TOGETHER

Number = float | None

TABLE_1: Mapping[int, Mapping[str, float]] = {
    10_000: {"nqs": 10_796.0, "aroma": 4_008.0},
    35_000: {"nqs": 8_979.0, "aroma": 4_202.0},
}
"""Mean waiting times (s) of the paper's Table 1; NQS are the log's own."""

PAPER_DAYS = {10_000: 112.0, 35_000: 249.0}
"""How long the paper's jobs took to be submitted (days)."""

_CASES: tuple[Mapping[str, Mapping[str, float]], ...] = (
    {
        "wait": {
            "deadline": 30.51,
            "high_priority": 0.0036,
            "dedicated": 4_845.0,
            "best_effort": 4.55,
            ALL: 710.5,
        },
        "mapping_ms": {
            "deadline": 20.22,
            "high_priority": 3.6,
            "dedicated": 269.3,
            "best_effort": 7.2,
            ALL: 50.3,
        },
        "rejected": {"deadline": 21, "high_priority": 0, "dedicated": 0, "best_effort": 0},
    },
    {"wait": {ALL: 64.68}, "mapping_ms": {ALL: 13.0}, "rejected": {ALL: 0}},
    {
        "wait": {
            "deadline": 30.7,
            "high_priority": 0.003,
            "dedicated": 5_182.0,
            "best_effort": 30.5,
            ALL: 396.0,
        },
        "mapping_ms": {
            "deadline": 21.1,
            "high_priority": 3.0,
            "dedicated": 334.4,
            "best_effort": 28.6,
            ALL: 49.1,
        },
        "rejected": {"deadline": 154, "high_priority": 0, "dedicated": 0, "best_effort": 0},
    },
    {"wait": {ALL: 70.3}, "mapping_ms": {ALL: 76.4}, "rejected": {ALL: 0}},
)

TABLE_2 = {
    (first, every): numbers
    for (first, every), numbers in zip(
        (
            (10_000, None),
            (10_000, "best_effort"),
            (35_000, None),
            (35_000, "best_effort"),
        ),
        _CASES,
        strict=True,
    )
}
"""The paper's Table 2 by number of jobs and class of all (None: four classes)."""

QUANTITIES = ("wait", "mapping_ms", "rejected")
"""What the paper tells by class: mean wait (s), mean mapping time (ms), rejects."""


def table1(results: Results, study: Study, recorded: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the rows of Table 1: mean waits (s) of the same jobs under each scheduler.

    Parameters
    ----------
    results
        The simulations.
    study
        Which simulations there are.
    recorded
        Mean recorded wait of the original log's usable jobs, and of all.
    """
    rows: list[dict[str, Any]] = []
    places: list[tuple[str, int | None]] = [(ORIGINAL, None)]
    places += [(REBUILT, first) for first in sorted((*study.sizes, *study.alone))]
    for log, first in places:
        runs = [results[nqs(log, first, seed)] for seed in study.seeds_of(log)]
        aroma = results[alone(log, first)]
        row: dict[str, Any] = {
            "log": log,
            "jobs": aroma.groups[ALL].jobs,
            "days": aroma.days,
            "paper_days": PAPER_DAYS.get(first or 0),
            "recorded": recorded["usable"] if log == ORIGINAL else None,
            "nqs": mean([run.groups[ALL].wait for run in runs]),
            "aroma": aroma.groups[ALL].wait,
            "aroma_cpu_time_field": None,
            "conservative": results[conservative(log, first)].groups[ALL].wait,
        }
        if log == ORIGINAL:
            measured = results[alone(log, first, MEASURED)]
            row["aroma_cpu_time_field"] = measured.groups[ALL].wait
        row["aroma_to_nqs"] = row["aroma"] / row["nqs"] if row["nqs"] else None
        paper = TABLE_1.get(first or 0)
        row["paper"] = paper and {**paper, "aroma_to_nqs": paper["aroma"] / paper["nqs"]}
        row["difference_percent"] = paper and {
            name: relative_difference(row[name], paper[name]) for name in ("nqs", "aroma")
        }
        rows.append(row)
    return rows


def table1_for_people(rows: Sequence[Mapping[str, Any]]) -> Table:
    """Return Table 1 as a table."""
    cells: list[tuple[Cell, ...]] = []
    for row in rows:
        paper, difference = row["paper"] or {}, row["difference_percent"] or {}
        cells.append(
            (
                row["log"].partition(".")[0],
                row["jobs"],
                row["days"],
                row["recorded"],
                row["nqs"],
                paper.get("nqs"),
                row["aroma"],
                row["aroma_cpu_time_field"],
                paper.get("aroma"),
                percent(difference.get("aroma")),
                row["conservative"],
            )
        )
    return Table(
        title="Table 1: mean wait (s), all jobs dedicated, tasks start together",
        columns=(
            "log",
            "jobs",
            "days",
            "as recorded",
            "our NQS",
            "paper: NQS (log)",
            "AROMA, run time",
            "AROMA, CPU time field",
            "paper: AROMA",
            "difference",
            "conservative, exact",
        ),
        rows=tuple(cells),
        note=(
            "Only the first 4,961 jobs have recorded waits, queues and CPU times; of them those "
            "that ran are simulated. The paper's NQS column is what its log recorded. "
            "Conservative backfilling with exact run times is there for orientation."
        ),
    )


def table2(results: Results, study: Study) -> list[dict[str, Any]]:
    """Return the cases of Table 2, each with every quantity by class; means over seeds."""
    cases = []
    for number, case in enumerate(study.cases(), 1):
        seeds = study.seeds_of(case.log) if case.every is None else study.seeds[:1]
        found = _case(case, [results[case.trial(seed)] for seed in seeds])
        name = f"case {number}" if case.log == REBUILT else "real queues"
        field = ", CPU time field" if case.cpu_time == MEASURED else ""
        together = ", tasks together" if case.tasks == TOGETHER else ""
        cases.append({"case": f"{name}{field}{together}", **found})
    return cases


def _case(case: Case, runs: Sequence[Outcome]) -> dict[str, Any]:
    names = [name for name in (*QOS_CLASSES, ALL) if name in runs[0].groups]
    paper = TABLE_2.get((case.first or 0, case.every), {})
    errors = [run.prediction_error for run in runs if run.prediction_error is not None]

    def over_seeds(quantity: str) -> dict[str, Number]:
        return {
            name: mean(
                [getattr(run.groups[name], quantity, None) for run in runs if name in run.groups]
            )
            for name in names
        }

    found: dict[str, Any] = {
        "log": case.log,
        "queues": "drawn" if case.log == REBUILT else "of the log",
        "classes": case.every or "by queue",
        "cpu_time": case.cpu_time,
        "tasks": case.tasks,
        "seeds": len(runs),
        "jobs": over_seeds("jobs"),
    }
    for quantity in (*QUANTITIES, "mapping_p99_ms", "stretch"):
        found[quantity] = over_seeds(quantity)
    found["paper"] = {quantity: dict(numbers) for quantity, numbers in paper.items()}
    found["difference_percent"] = {
        quantity: {
            name: relative_difference(found[quantity][name], number)
            for name, number in numbers.items()
            if number and found[quantity].get(name) is not None
        }
        for quantity, numbers in paper.items()
    }
    found["broken_promises"] = sum(run.broken for run in runs)
    found["stopped"] = mean([float(run.stopped) for run in runs])
    found["prediction_error_s"] = {
        "mean": mean([error.last_mean for error in errors]),
        "max": max((error.last_max for error in errors), default=None),
        "first_mean": mean([error.first_mean for error in errors]),
        "first_max": max((error.first_max for error in errors), default=None),
    }
    return found


def table2_for_people(cases: Sequence[Mapping[str, Any]]) -> Table:
    """Return Table 2 as a table: one row a case and class."""
    rows: list[tuple[Cell, ...]] = []
    for case in cases:
        for name in case["wait"]:
            paper = {quantity: case["paper"].get(quantity, {}).get(name) for quantity in QUANTITIES}
            jobs = case["jobs"][name]
            rows.append(
                (
                    _label(case),
                    name,
                    _whole(jobs),
                    case["wait"][name],
                    paper["wait"],
                    case["mapping_ms"][name],
                    case["mapping_p99_ms"][name],
                    paper["mapping_ms"],
                    _whole(case["rejected"][name]),
                    paper["rejected"],
                    case["stretch"][name],
                )
            )
    return Table(
        title="Table 2: influence of the quality of service",
        columns=(
            "case",
            "class",
            "jobs",
            "wait (s)",
            "paper",
            "mapping (ms)",
            "p99 (ms)",
            "paper",
            "rejects",
            "paper",
            "stretch",
        ),
        rows=tuple(rows),
        note=(
            "Cases 1 to 4 are the paper's; then the log's first jobs with their real queues, with "
            "run times, with the CPU time field, and with tasks that progress together. Stretch: "
            "(end - start) / CPU time, the price of sharing hosts. Mapping times are wall clock "
            "times of this machine."
        ),
    )


def guarantees_for_people(cases: Sequence[Mapping[str, Any]]) -> Table:
    """Return how exact predictions were and what became of guarantees, one row a case."""
    rows: list[tuple[Cell, ...]] = []
    for case in cases:
        error = case["prediction_error_s"]
        rows.append(
            (
                _label(case),
                _scientific(error["mean"]),
                _scientific(error["max"]),
                error["first_mean"],
                case["stopped"],
                case["broken_promises"],
            )
        )
    return Table(
        title="Predicted ends against simulated ones (s), and guarantees",
        columns=(
            "case",
            "last, mean",
            "last, max",
            "first, mean",
            "stops",
            "broken guarantees",
        ),
        rows=tuple(rows),
        note=(
            "Last: the prediction made when the last thing happened before the end. First: that "
            "made at the mapping, which later arrivals change. Stops count tasks."
        ),
    )


def _scientific(value: float | None) -> str | None:
    return None if value is None else f"{value:.1e}"


def _label(case: Mapping[str, Any]) -> str:
    return f"{case['case']}: {_whole(case['jobs'][ALL]):,} jobs, {case['classes']}"


def _whole(value: float) -> int | float:
    """Return a mean of counts without fraction where it has none."""
    return int(value) if float(value).is_integer() else value


def percent(value: float | None) -> str | None:
    """Return a difference in percent as text, with its sign."""
    return None if value is None else f"{value:+.1f} %"


def mean(values: Sequence[float | int | None]) -> Number:
    """Return the mean of what is known, or None."""
    known = [value for value in values if value is not None]
    return math.fsum(known) / len(known) if known else None
