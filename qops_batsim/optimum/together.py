"""Whether jobs can all be admitted together: by energy, by search, by the solver."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from qops_batsim.optimum.budget import Budget
from qops_batsim.optimum.energy import violated_by
from qops_batsim.optimum.problem import NOT_CHOSEN, Ints, Tasks
from qops_batsim.optimum.schedules import filled
from qops_batsim.optimum.search import Group, annealed
from qops_batsim.optimum.solver import solve

AT_ONCE, SEARCH, SOLVER = 0.02, 0.3, 0.2
"""Units of deterministic time: for what the solver sees at once, then for the search, then for the
solver again."""


class Together(NamedTuple):
    """A schedule of all jobs (ticks), or None; and whether that is proven."""

    starts: Ints | None
    is_proven: bool


def all_together(tasks: Tasks, starts: Ints, machine: int, ticks: float, limit: float) -> Together:
    """Look for a schedule of all jobs, given one of some.

    If an interval has too little room for them, there is none; most questions that have this answer
    end so, or with the solver's first look, and most others with the search. ``limit`` is a factor
    of how long search and solver may take.
    """
    if (tasks.release > tasks.last_start).any():
        return Together(None, True)
    ones = np.ones(len(starts), np.int64)
    if violated_by(tasks, ones.astype(np.float64), machine):
        return Together(None, True)
    first = filled(tasks, starts, machine, np.argsort(tasks.last_start, kind="stable").tolist())
    if (first != NOT_CHOSEN).all():
        return Together(first, True)
    answer = _asked(tasks, first, machine, AT_ONCE)
    if answer.is_proven:
        return answer
    group, rng = Group(tasks, ones, machine, ticks), np.random.default_rng(1)
    first = annealed(group, first, Budget(limit * SEARCH, False), rng, len(ones))
    if (first != NOT_CHOSEN).all():
        return Together(first, True)
    return _asked(tasks, first, machine, limit * SOLVER)


def _asked(tasks: Tasks, first: Ints, machine: int, units: float) -> Together:
    """Return what the solver finds, beginning with a schedule of some."""
    worth, budget = np.ones(len(first), np.int64), Budget(units, False)
    found = solve(tasks, worth, machine, budget, start=first, all_chosen=True)
    return Together(found.starts, found.is_proven)
