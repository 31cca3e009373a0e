"""Which conclusions of the studies hold over a grid of mixes of needs (README.md).

    python studies/needs [--quick] [--workers 2] [--write studies/needs/tables.md]

Finished runs are kept, and the study goes on where it was. Logs are read from QOPS_SHARED
(default ../shared).
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import NamedTuple

if __name__ == "__main__":  # the checkout, which has the studies
    sys.path.append(str(Path(__file__).resolve().parents[2]))

from qops_batsim.experiments import CellOutcome, find_trace
from qops_batsim.traces import read_trace
from studies.shared import (
    MIXES,
    Groups,
    Settings,
    arguments,
    grid_runs,
    over_mixes,
    print_or_put,
    run_main,
    settings_of,
)

EXACT, USERS = "exact", "users"
KNOWN = {USERS: "limits", EXACT: "run times"}
"""What plans and deadlines are made from."""

WHAT = {
    "unadmitted_jobs": "refused jobs",
    "unadmitted_work": "refused work",
    "met_deadlines": "deadlines met",
}


class At(NamedTuple):
    """A run but for its window: how needs are mixed, and what plans and deadlines know."""

    by: str
    contestant: str
    estimates: str
    made_from: str


Found = dict[At, dict[tuple[str, int], CellOutcome]]
"""Runs by log and window."""


def all_runs(settings: Settings, out: Path, workers: int) -> Found:
    """Make the runs that a directory does not hold yet; return all."""
    found: Found = {}
    grid, told = settings["grid"], settings["predicted"]
    predicted = grid | told["changes"]
    for log in settings["logs"]:
        last = max(window["skip"] + window["first"] for window in log["windows"])
        file = find_trace(log["file"], Path())
        jobs = read_trace(file, processors=log["processors"], first=last).workload
        grids = {"grid": grid}
        if log["name"] not in told["without"]:
            grids["predicted"] = predicted
        for (name, each), by in product(grids.items(), MIXES):
            directory = out / log["name"] / name / by
            own = each | {"logs": [log]}
            runs = grid_runs(own, directory, workers, by, workloads={log["name"]: jobs})
            for run in runs.outcomes:
                cell, point = run.cell, run.cell.point
                at = At(by, cell.contestant, point.estimates, point.deadlines_by)
                found.setdefault(at, {})[point.log, cell.window.skip] = run
    return found


def differences(found: Found, one: At, other: At, metric: str) -> Groups:
    """Return by log what each window of one has of a metric more than that of the other."""
    groups: dict[str, list[float]] = {}
    mine, others = found.get(one, {}), found.get(other, {})
    for (log, skip), each in mine.items():
        if (log, skip) in others:
            a, b = each.value(metric), others[log, skip].value(metric)
            assert a is not None
            assert b is not None
            groups.setdefault(log, []).append(a - b)
    return list(groups.values())


def rows_of(found: Found, told: Settings) -> Iterator[tuple[tuple[str, ...], dict[str, Groups]]]:
    """Yield the rows of a conclusion by metric and by what plans and deadlines know."""
    who, less = told["each"]
    ways = [told["estimates"]] if "estimates" in told else [(each, each) for each in KNOWN]
    for metric, (estimates, others), made in product(told["metrics"], ways, KNOWN):
        values = {
            by: differences(found, At(by, who, estimates, made), At(by, less, others, made), metric)
            for by in MIXES
        }
        if any(values.values()):
            plans = KNOWN[estimates] if estimates == others else ""
            yield (told["text"], WHAT[metric], plans, KNOWN[made]), values


def tables(settings: Settings, found: Found) -> str:
    """Return a table for each study."""
    heads = ["points", "of", "plans by", "deadlines from"]
    parts = []
    for study in dict.fromkeys(told["study"] for told in settings["conclusions"]):
        rows = dict(
            row
            for told in settings["conclusions"]
            if told["study"] == study
            for row in rows_of(found, told)
        )
        if rows:
            parts += [f"### {study}", "", *over_mixes(heads, rows), ""]
    return "\n".join(parts)


def main() -> None:
    asked = arguments(__file__, __doc__).parse_args()
    settings = settings_of(__file__, quick=asked.quick)
    found = all_runs(settings, asked.out / ("quick" if asked.quick else "all"), asked.workers)
    print_or_put(tables(settings, found), asked.write)


if __name__ == "__main__":
    run_main(main)
