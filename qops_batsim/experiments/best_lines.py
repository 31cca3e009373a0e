"""The best possible on the workloads of an experiment: what must stay unadmitted."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import product
from statistics import fmean

import msgspec

from qops_batsim.experiments.compare import TRACE, Grid
from qops_batsim.experiments.deadline_runs import DeadlineRuns, Scenario
from qops_batsim.experiments.pool import run_cases
from qops_batsim.optimum.best import Limits, best_possible
from qops_batsim.workload.model import Workload

BEST_KNOWN, BOUND = LINES = ("best known", "bound")
"""Names of the lines: the least that is known to stay unadmitted, and the bound of it."""

Lines = dict[str, dict[str, dict[float, float]]]
"""Values by name of the line, metric and load."""


class BoundCase(msgspec.Struct, frozen=True, kw_only=True):
    """A workload, and the deterministic time that it is searched for."""

    scenario: Scenario
    units: float


class Unadmitted(msgspec.Struct, frozen=True, kw_only=True):
    """Jobs and work in %; the most jobs and the most work are schedules of their own."""

    unadmitted_jobs: float
    unadmitted_work: float


class BoundSearch:
    """Search of workloads for both lines, by their names."""

    def __init__(self, runs: DeadlineRuns) -> None:
        self._runs = runs

    def __call__(self, case: BoundCase) -> dict[str, Unadmitted]:
        """Search one workload."""
        limits = Limits(seconds=case.units, by_clock=False)
        jobs, work = best_possible(self._runs.workload(case.scenario), ["jobs", "work"], limits)
        return {
            BEST_KNOWN: Unadmitted(
                unadmitted_jobs=100 * (1 - jobs.best_known / jobs.total),
                unadmitted_work=100 * (1 - work.best_known / work.total),
            ),
            BOUND: Unadmitted(
                unadmitted_jobs=100 * (1 - jobs.bound / jobs.total),
                unadmitted_work=100 * (1 - work.bound / work.total),
            ),
        }


def bound_case(scenario: Scenario, units: float) -> BoundCase:
    """Return the search of a workload, the same for all scenarios that are the same."""
    return BoundCase(scenario=scenario.canonical(), units=units)


def mean_unadmitted(
    found: Mapping[BoundCase, Mapping[str, Unadmitted]], cases: Sequence[BoundCase], line: str
) -> dict[str, float]:
    """Return the means of a line over workloads, by metric."""
    return {
        metric: fmean(getattr(found[case][line], metric) for case in cases)
        for metric in Unadmitted.__struct_fields__
    }


def best_lines(
    trace: Workload,
    grid: Grid,
    units: float,
    on_progress: Callable[[int, int], None] | None = None,
) -> Lines:
    """Return both lines of a comparison, means over its seeds, after so long a search for each."""
    cases = {
        load: [
            bound_case(grid.case(load, seed, grid.contestants[0]).scenario, units)
            for seed in grid.seeds
        ]
        for load in grid.loads
    }
    work = BoundSearch(DeadlineRuns({TRACE: trace}))
    wanted = [each for of_load in cases.values() for each in of_load]
    found = run_cases(work, wanted, on_progress=on_progress)
    lines: Lines = {line: {} for line in LINES}
    for line, (load, of_load) in product(LINES, cases.items()):
        for metric, value in mean_unadmitted(found, of_load, line).items():
            lines[line].setdefault(metric, {})[load] = value
    return lines
