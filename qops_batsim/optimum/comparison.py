"""The best possible for a comparison of schedulers: what must stay unadmitted at each load."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from statistics import fmean

from qops_batsim.experiments.deadline_runs import DeadlineRuns, Scenario
from qops_batsim.experiments.grid import TRACE, Grid
from qops_batsim.optimum.best import Best, Limits, best_possible
from qops_batsim.workload.model import Workload

_METRICS = {"jobs": "unadmitted_jobs", "work": "unadmitted_work"}

Lines = dict[str, dict[str, dict[float, float]]]
"""Values by name of the line, metric and load."""


def best_lines(
    trace: Workload,
    grid: Grid,
    units: float,
    on_progress: Callable[[int, int], None] | None = None,
) -> Lines:
    """Return the least that is known to stay unadmitted, and the bound of it, in %.

    They are means over the seeds; each workload is searched for so many units of deterministic
    time. What is the most jobs and what is the most work are schedules of their own.
    """
    runs = DeadlineRuns({TRACE: trace})
    cells = [
        (load, grid.case(load, seed, grid.contestants[0]).scenario.canonical())
        for load, seed in product(grid.loads, grid.seeds)
    ]
    known: dict[Scenario, list[Best]] = {}
    limits = Limits(seconds=units, by_clock=False)
    for done, (_, scenario) in enumerate(cells):
        if scenario not in known:
            known[scenario] = best_possible(runs.workload(scenario), list(_METRICS), limits)
        if on_progress is not None:
            on_progress(done + 1, len(cells))
    lines: Lines = {"best known": {}, "bound": {}}
    for (number, metric), load in product(enumerate(_METRICS.values()), grid.loads):
        found = [known[scenario][number] for at, scenario in cells if at == load]
        for line, values in (
            ("best known", [each.best_known / each.total for each in found]),
            ("bound", [each.bound / each.total for each in found]),
        ):
            lines[line].setdefault(metric, {})[load] = 100.0 * (1.0 - fmean(values))
    return lines
