"""Bounds for the workloads of an experiment: the least that any schedule leaves unadmitted."""

from __future__ import annotations

import msgspec

from qops_batsim.experiments.deadline_runs import DeadlineRuns, Scenario
from qops_batsim.optimum.best import Limits, best_possible

BEST_KNOWN, BOUND = LINES = ("best known", "bound")
"""Names of the lines: the least that is known to stay unadmitted, and the bound of it."""


class BoundCase(msgspec.Struct, frozen=True, kw_only=True):
    """A workload to search for its best schedules, and the deterministic time of the search."""

    scenario: Scenario
    units: float


class Unadmitted(msgspec.Struct, frozen=True, kw_only=True):
    """The least unadmitted jobs and the least unadmitted work (%), perhaps of two schedules."""

    unadmitted_jobs: float
    unadmitted_work: float


class BoundSearch:
    """Searches a workload for its best known schedules and for bounds on what can be admitted."""

    def __init__(self, runs: DeadlineRuns) -> None:
        self._runs = runs

    def __call__(self, case: BoundCase) -> dict[str, Unadmitted]:
        """Search a case's workload; return what the best known schedule and the bound leave out."""
        limits = Limits(seconds=case.units, by_clock=False)
        workload = self._runs.workload(case.scenario)
        platform = self._runs.shared_platform
        jobs, work = best_possible(workload, ["jobs", "work"], limits, platform=platform)
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
    """Return the search for a scenario's workload; equal workloads give equal searches."""
    return BoundCase(scenario=scenario.canonical(), units=units)
