"""Bounds from energy: what must lie within an interval, whatever the schedule.

A chosen job that is submitted at r, lasts p, ends by d and takes q processors computes within
[a, b] for at least min(p, b - a, r + p - a, b - d + p) (if positive): wherever it starts, for no
less than started as early or as late as possible. All chosen jobs together have m (b - a)
there. With 0 ≤ x ≤ 1 in place of choices this is a linear program, whose rows are found as they
are violated. Its multipliers y ≥ 0 prove a bound by themselves, however they were found (weak
duality): Σ y m (b - a) + Σ max(0, w - Σ y e) over the jobs, worth w, of energy e. That sum is
computed here in whole numbers, so nothing rests on the solver's floats.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from qops_batsim.optimum.budget import Budget
from qops_batsim.optimum.problem import Floats, Ints, Tasks

ROWS_A_ROUND = 200
MOST_ROUNDS = 40

_SCALE = 10**18
"""Multipliers are rounded to parts of this."""

Interval = tuple[int, int]
"""Begin and end (ticks)."""


class EnergyBound(NamedTuple):
    """A bound (worth, in whole units), and the intervals that it comes from."""

    value: int
    intervals: list[Interval]


def energies(tasks: Tasks, interval: Interval) -> Ints:
    """Return the least energy (processors × ticks) of each job within an interval, if chosen."""
    begin, end = interval
    times = np.minimum(
        np.minimum(tasks.duration, end - begin),
        np.minimum(tasks.release + tasks.duration - begin, end - tasks.last_start),
    )
    energy: Ints = np.maximum(times, 0) * tasks.processors
    return energy


def proven(tasks: Tasks, worth: Ints, machine: int, rows: Sequence[tuple[Interval, int]]) -> int:
    """Return the bound that multipliers (parts of 10¹⁸) of intervals prove, in whole numbers.

    Every set of multipliers from 0 up proves one. O(rows × jobs).
    """
    left = [int(each) * _SCALE for each in worth]
    total = 0
    for interval, multiplier in rows:
        total += multiplier * machine * (interval[1] - interval[0])
        for place, energy in enumerate(energies(tasks, interval).tolist()):
            if energy:
                left[place] -= multiplier * energy
    return (total + sum(each for each in left if each > 0)) // _SCALE


def energy_bound(tasks: Tasks, worth: Ints, machine: int, budget: Budget) -> EnergyBound:
    """Return the best bound of intervals that some rounds of violated ones find.

    O(rounds × jobs² log jobs) beside the linear programs.
    """
    program = _Program(tasks, worth, machine)
    best = int(worth.sum())
    for _ in range(MOST_ROUNDS):
        violated = violated_by(tasks, program.solve(), machine)
        if not program.add(violated[:ROWS_A_ROUND]) or budget.is_spent:
            break
    program.solve()
    best = min(best, proven(tasks, worth, machine, program.multipliers()))
    return EnergyBound(best, list(program.rows))


class _Program:
    """The linear program, its rows added one by one."""

    def __init__(self, tasks: Tasks, worth: Ints, machine: int) -> None:
        from ortools.linear_solver import pywraplp

        self._tasks, self._worth, self._machine = tasks, worth, machine
        self._solver: Any = pywraplp.Solver.CreateSolver("GLOP")
        self._unit = max(1, int(worth.max(initial=1)))
        self._shares = [self._solver.NumVar(0, 1, "") for _ in range(len(worth))]
        objective = self._solver.Objective()
        for share, each in zip(self._shares, worth.tolist(), strict=True):
            objective.SetCoefficient(share, each / self._unit)
        objective.SetMaximization()
        self.rows: dict[Interval, Any] = {}

    def solve(self) -> Floats:
        """Return the shares of the jobs that are chosen."""
        self._solver.Solve()
        return np.array([share.solution_value() for share in self._shares])

    def add(self, intervals: Sequence[Interval]) -> int:
        """Add rows; return how many are new."""
        new = [each for each in intervals if each not in self.rows]
        for each in new:
            room = self._machine * (each[1] - each[0])
            # Rows of one size, or the solver's tolerance means something else in each.
            row = self.rows[each] = self._solver.Constraint(-self._solver.infinity(), 1.0)
            energy = energies(self._tasks, each)
            for place in np.flatnonzero(energy).tolist():
                row.SetCoefficient(self._shares[place], float(energy[place]) / room)
        return len(new)

    def multipliers(self) -> list[tuple[Interval, int]]:
        """Return those above 0, in worth for each unit of energy."""
        found = []
        for interval, row in self.rows.items():
            room = self._machine * (interval[1] - interval[0])
            multiplier = round(row.dual_value() * self._unit / room * _SCALE)
            if multiplier > 0:
                found.append((interval, multiplier))
        return found


def violated_by(tasks: Tasks, shares: Floats, machine: int) -> list[Interval]:
    """Return intervals in which the chosen shares need more than there is, the worst first.

    For each begin, the energy up to an end is a sum of ramps; it is compared where one ends.
    """
    earliest, last = tasks.release + tasks.duration, tasks.last_start
    found: list[tuple[float, Interval]] = []
    for begin in np.unique(np.concatenate([tasks.release, last, earliest])).tolist():
        length = np.minimum(tasks.duration, earliest - begin)
        counts = (length > 0) & (shares > 1e-9)
        rises = np.maximum(begin, last[counts])
        slopes = shares[counts] * tasks.processors[counts]
        dates = np.concatenate([rises, rises + length[counts]])
        order = np.argsort(dates, kind="stable")
        dates = dates[order]
        slope = np.cumsum(np.concatenate([slopes, -slopes])[order])
        energy = np.concatenate([[0.0], np.cumsum(slope[:-1] * np.diff(dates))])[: len(dates)]
        room = machine * (dates - begin)
        excess = energy - room
        bad = np.flatnonzero(excess > 1e-6 * np.maximum(room, 1))
        if len(bad):
            ratio = excess[bad] / room[bad]
            for place in {int(bad[ratio.argmax()]), int(bad[excess[bad].argmax()])}:
                value = float(excess[place] / room[place])
                found.append((value, (begin, int(dates[place]))))
    return [interval for _, interval in sorted(found, key=lambda each: (-each[0], each[1]))]
