"""The search for schedules, by itself."""

from __future__ import annotations

import numpy as np
import pytest

from qops_batsim.experiments.deadline_workload import deadline_workload
from qops_batsim.running.inputs import load_workload

pytest.importorskip("ortools", reason="the extra bound (OR-tools) is not installed")

from qops_batsim.optimum.best import schedule_of
from qops_batsim.optimum.problem import NOT_CHOSEN, Problem, in_whole_units, problem_of, worth_of
from qops_batsim.optimum.search import improved, is_feasible
from qops_batsim.optimum.solver import Budget, solve

ENOUGH = 2**60


def problem(jobs: int) -> Problem:
    trace = load_workload("sdsc_sp2_1000")
    return problem_of(deadline_workload(trace, load=1.6, first=jobs, keep_estimates=False))


@pytest.mark.parametrize("objective", ["work", pytest.param("jobs", marks=pytest.mark.sweep)])
def test_the_search_alone_finds_what_the_solver_proves(objective: str) -> None:
    some = problem(30)
    worth = in_whole_units(worth_of(some.workload, objective)[some.places])[0]
    proven = solve(some.strict, worth, some.machine, Budget(20, False))
    assert proven.is_proven
    nothing = np.full(len(worth), NOT_CHOSEN)
    found = improved(some, worth, nothing, Budget(0.5, False), seed=1, enough=ENOUGH)
    assert is_feasible(some.strict, found, some.machine)
    assert worth[found != NOT_CHOSEN].sum() == proven.worth


@pytest.mark.sweep
def test_the_search_never_loses_and_ends_with_enough() -> None:
    some = problem(150)
    worth = np.ones(len(some.places), np.int64)
    first = schedule_of(some, "qops")
    known = int((first != NOT_CHOSEN).sum())
    found = improved(some, worth, first, Budget(0.3, False), seed=2, enough=ENOUGH)
    assert is_feasible(some.strict, found, some.machine)
    assert (found != NOT_CHOSEN).sum() > known
    budget = Budget(1e9, False)
    improved(some, worth, found, budget, seed=2, enough=known)
    assert budget.spent < 1e9
