"""Tables 1 and 2 of Pascal et al. (2004) as plain values, with the paper's beside ours."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from qops_batsim.jobs import QOS_CLASSES
from qops_batsim.papers.pascal2004 import numbers as paper
from qops_batsim.papers.pascal2004.cases import (
    MEASURED,
    ORIGINAL,
    REBUILT,
    Study,
    Trial,
    alone,
    conservative,
    nqs,
)
from qops_batsim.papers.pascal2004.numbers import ALL
from qops_batsim.papers.pascal2004.runs import Outcome
from qops_batsim.papers.report import relative_difference
from qops_batsim.workload.service_classes import TOGETHER

Results = Mapping[Trial, Outcome]
Rows = Sequence[Mapping[str, Any]]


def table1(results: Results, study: Study, recorded: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the rows of Table 1: mean waits (s) of the same jobs under each scheduler.

    ``recorded["usable"]`` is the mean recorded wait of the original log's usable jobs.
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
            "paper_days": paper.DAYS.get(first or 0),
            "recorded": recorded["usable"] if log == ORIGINAL else None,
            "nqs": mean([run.groups[ALL].wait for run in runs]),
            "nqs_by_seed": [run.groups[ALL].wait for run in runs],
            "aroma": aroma.groups[ALL].wait,
            "aroma_cpu_time_field": None,
            "conservative": results[conservative(log, first)].groups[ALL].wait,
        }
        if log == ORIGINAL:
            measured = results[alone(log, first, MEASURED)]
            row["aroma_cpu_time_field"] = measured.groups[ALL].wait
        row["aroma_to_nqs"] = row["aroma"] / row["nqs"] if row["nqs"] else None
        told = paper.TABLE_1.get(first or 0)
        row["paper"] = told and {**told, "aroma_to_nqs": told["aroma"] / told["nqs"]}
        row["difference_percent"] = told and {
            name: relative_difference(row[name], told[name]) for name in ("nqs", "aroma")
        }
        rows.append(row)
    return rows


def table2(results: Results, study: Study) -> list[dict[str, Any]]:
    """Return the cases of Table 2: every quantity by class, the means over seeds and by seed."""
    cases = []
    for number, case in enumerate(study.cases(), 1):
        found = _case(case, [results[trial] for trial in study.trials_of(case)])
        name = f"case {number}" if case.log == REBUILT else "real queues"
        field = ", CPU time field" if case.cpu_time == MEASURED else ""
        together = ", tasks together" if case.tasks == TOGETHER else ""
        cases.append({"case": f"{name}{field}{together}", **found})
    return cases


def candidates(results: Results, study: Study) -> list[dict[str, Any]]:
    """Return what a number of candidates for fall-backs brings in the paper's last case."""
    rows = []
    for number, trials in study.trials_by_candidates().items():
        found = _case(trials[0], [results[trial] for trial in trials])
        by_seed = found["by_seed"]
        rows.append(
            {
                "candidates": number,
                "deadline_rejects": by_seed["rejected"]["deadline"],
                "deadline_rejects_percent": rejected_percent(found),
                "high_priority_rejects": by_seed["rejected"]["high_priority"],
                "wait": by_seed["wait"][ALL],
                "mapping_ms": by_seed["mapping_ms"][ALL],
                "mapping_p99_ms": by_seed["mapping_p99_ms"][ALL],
                "broken_promises": found["broken_promises"],
            }
        )
    return rows


def rejected_percent(case: Mapping[str, Any]) -> list[float]:
    """Return the share of the deadline applications that are rejected, by seed."""
    rejected, jobs = (case["by_seed"][name]["deadline"] for name in ("rejected", "jobs"))
    return [100.0 * part / whole for part, whole in zip(rejected, jobs, strict=True)]


def _case(case: Trial, runs: Sequence[Outcome]) -> dict[str, Any]:
    names = [name for name in (*QOS_CLASSES, ALL) if name in runs[0].groups]
    told = paper.TABLE_2.get((case.first or 0, case.every), {})
    errors = [run.prediction_error for run in runs if run.prediction_error is not None]
    found: dict[str, Any] = {
        "log": case.log,
        "queues": "drawn" if case.log == REBUILT else "of the log",
        "classes": case.every or "by queue",
        "cpu_time": case.cpu_time,
        "tasks": case.tasks,
        "seeds": len(runs),
    }
    found["by_seed"] = {
        quantity: {name: [getattr(run.groups[name], quantity) for run in runs] for name in names}
        for quantity in ("jobs", *paper.QUANTITIES, "mapping_p99_ms", "stretch")
    }
    for quantity, by_name in found["by_seed"].items():
        found[quantity] = {name: mean(values) for name, values in by_name.items()}
    found["paper"] = {quantity: dict(numbers) for quantity, numbers in told.items()}
    found["difference_percent"] = {
        quantity: {
            name: relative_difference(found[quantity][name], number)
            for name, number in numbers.items()
            if number and found[quantity].get(name) is not None
        }
        for quantity, numbers in told.items()
    }
    found["broken_promises"] = sum(run.broken for run in runs)
    found["stopped"] = mean([float(run.stopped) for run in runs])
    found["prediction_error_s"] = error_s = {}
    for which in ("", "first_"):
        error_s[f"{which}mean"] = mean([error[f"{which}mean"] for error in errors])
        error_s[f"{which}max"] = max((error[f"{which}max"] for error in errors), default=None)
    return found


def mean(values: Sequence[float | int | None]) -> float | None:
    """Return the mean of what is known, or None."""
    known = [value for value in values if value is not None]
    return math.fsum(known) / len(known) if known else None
