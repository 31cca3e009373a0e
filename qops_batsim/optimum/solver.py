"""Bounds and schedules by OR-tools: linear programs of energy, and the solver CP-SAT.

*Energy.* A chosen job that is submitted at r, lasts p, ends by d and takes q processors computes
within [a, b] for at least min(p, b - a, r + p - a, b - d + p) (if positive): wherever it starts,
for no less than started as early or as late as possible. All chosen jobs together have m (b - a)
there. With 0 ≤ x ≤ 1 in place of choices this is a linear program, whose rows are found as they
are violated. Its multipliers y ≥ 0 prove a bound by themselves, however they were found (weak
duality): Σ y m (b - a) + Σ max(0, w - Σ y e) over the jobs, worth w, of energy e. That sum is
computed here in whole numbers, so nothing rests on the solver's floats.

*The constraint model* has optional intervals on one cumulative resource.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from qops_batsim.errors import InputError
from qops_batsim.optimum.problem import NOT_CHOSEN, Floats, Ints, Tasks


class Budget:
    """Time that may be spent: seconds, or units of the solver's deterministic time.

    With the clock, results depend on the machine and its load. Deterministic time, about a
    second a unit, counts the solver's memory accesses: equal inputs then give equal results.

    Parameters
    ----------
    amount
        How much there is.
    by_clock
        Whether the clock counts.
    on_use
        Called now and then with deterministic time that was used.
    """

    def __init__(
        self, amount: float, by_clock: bool, on_use: Callable[[float], None] | None = None
    ) -> None:
        self.amount = amount
        self.by_clock = by_clock
        self.on_use = on_use
        self._began = time.perf_counter()
        self._used = 0.0

    @property
    def spent(self) -> float:
        """Time spent so far, in the budget's unit."""
        return time.perf_counter() - self._began if self.by_clock else self._used

    @property
    def left(self) -> float:
        """Time left in the budget, at least 0."""
        return max(0.0, self.amount - self.spent)

    @property
    def is_spent(self) -> bool:
        """Whether no time is left in the budget."""
        return self.left <= 0

    def use(self, deterministic: float) -> None:
        """Subtract deterministic time that the solver took."""
        self._used += deterministic
        if self.on_use is not None:
            self.on_use(deterministic)

    def part(self, share: float) -> Budget:
        """Return a budget of a share of the time left; time spent from it counts for both."""
        return Budget(self.left * share, self.by_clock, self.use)


ROWS_A_ROUND = 200
MOST_ROUNDS = 40

_SCALE = 10**18
"""Multipliers are rounded to parts of this."""

TickInterval = tuple[int, int]
"""Begin and end (ticks)."""


class EnergyBound(NamedTuple):
    """An upper bound (worth in whole units), and the intervals of time that prove it."""

    value: int
    intervals: list[TickInterval]


def energies(tasks: Tasks, interval: TickInterval) -> Ints:
    """Return the least energy (processors × ticks) of each job in an interval, if admitted."""
    begin, end = interval
    times = np.minimum(
        np.minimum(tasks.duration, end - begin),
        np.minimum(tasks.release + tasks.duration - begin, end - tasks.last_start),
    )
    energy: Ints = np.maximum(times, 0) * tasks.processors
    return energy


def proven_bound(
    tasks: Tasks, worth: Ints, machine: int, rows: Sequence[tuple[TickInterval, int]]
) -> int:
    """Return the bound that intervals prove with their multipliers (parts of 10¹⁸), exactly.

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
    """Return the best bound from constraints on intervals, added in rounds where violated.

    O(rounds × jobs² log jobs) plus the linear programs.
    """
    program = _Program(tasks, worth, machine)
    best = int(worth.sum())
    for _ in range(MOST_ROUNDS):
        violated = violated_intervals(tasks, program.solve(), machine)
        if not program.add(violated[:ROWS_A_ROUND]) or budget.is_spent:
            break
    program.solve()
    best = min(best, proven_bound(tasks, worth, machine, program.multipliers()))
    return EnergyBound(best, list(program.rows))


class _Program:
    """The linear program that gives the bound; its constraints are added one by one."""

    def __init__(self, tasks: Tasks, worth: Ints, machine: int) -> None:
        from ortools.linear_solver import pywraplp

        self._tasks = tasks
        self._machine = machine
        self._solver: Any = pywraplp.Solver.CreateSolver("GLOP")
        self._unit = max(1, int(worth.max(initial=1)))
        self._shares = [self._solver.NumVar(0, 1, "") for _ in range(len(worth))]
        objective = self._solver.Objective()
        for share, each in zip(self._shares, worth.tolist(), strict=True):
            objective.SetCoefficient(share, each / self._unit)
        objective.SetMaximization()
        self.rows: dict[TickInterval, Any] = {}

    def solve(self) -> Floats:
        """Solve the program; return the share of each job that is admitted."""
        self._solver.Solve()
        return np.array([share.solution_value() for share in self._shares])

    def add(self, intervals: Sequence[TickInterval]) -> int:
        """Add the energy constraints of intervals; return how many were not there before."""
        new = [each for each in intervals if each not in self.rows]
        for each in new:
            room = self._machine * (each[1] - each[0])
            # Rows of one size, or the solver's tolerance means something else in each.
            row = self.rows[each] = self._solver.Constraint(-self._solver.infinity(), 1.0)
            energy = energies(self._tasks, each)
            for place in np.flatnonzero(energy).tolist():
                row.SetCoefficient(self._shares[place], float(energy[place]) / room)
        return len(new)

    def multipliers(self) -> list[tuple[TickInterval, int]]:
        """Return each interval's multiplier if it is positive (worth per unit of energy)."""
        found = []
        for interval, row in self.rows.items():
            room = self._machine * (interval[1] - interval[0])
            multiplier = round(row.dual_value() * self._unit / room * _SCALE)
            if multiplier > 0:
                found.append((interval, multiplier))
        return found


def violated_intervals(tasks: Tasks, shares: Floats, machine: int) -> list[TickInterval]:
    """Return time intervals in which jobs need more work than the machine can do, worst first.

    For each begin, the energy up to an end is a sum of ramps; it is compared where one ends.
    """
    earliest = tasks.release + tasks.duration
    last = tasks.last_start
    found: list[tuple[float, TickInterval]] = []
    for begin in np.unique(np.concatenate([tasks.release, last, earliest])).tolist():
        # Each job's energy rises from its latest start on, for as long as it must compute.
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
        if not len(bad):
            continue
        ratio = excess[bad] / room[bad]
        for place in {int(bad[ratio.argmax()]), int(bad[excess[bad].argmax()])}:
            value = float(excess[place] / room[place])
            found.append((value, (begin, int(dates[place]))))
    return [interval for _, interval in sorted(found, key=lambda each: (-each[0], each[1]))]


MODEL_COST = 0.05
"""Units of deterministic time that a model counts, which the solver does not count: about what it
takes to make and simplify one."""


class SolverResult(NamedTuple):
    """The starts that the solver found (or None), their worth, and the upper bound.

    ``is_proven`` tells that the search has ended: the starts are the best, or there are none.
    """

    starts: Ints | None
    worth: int
    bound: int
    is_proven: bool


def require_solver() -> None:
    """Raise :class:`~qops_batsim.errors.InputError` unless OR-tools is installed."""
    try:
        import ortools  # noqa: F401
    except ImportError:
        raise InputError(
            "bounds need the package ortools, which is not installed "
            "(pip install 'qops-batsim[bound]')"
        ) from None


def solve(
    tasks: Tasks,
    worth: Ints,
    machine: int,
    budget: Budget,
    *,
    start: Ints | None = None,
    intervals: Sequence[TickInterval] = (),
    all_chosen: bool = False,
    either: Sequence[tuple[int, int]] = (),
    thorough: bool = False,
    seed: int = 1,
    workers: int = 1,
) -> SolverResult:
    """Choose jobs of the highest total worth, and their starts.

    Parameters
    ----------
    worth
        What each job is worth, whole numbers.
    budget
        What is left to spend.
    start
        A schedule to begin with: starts in ticks, or :data:`NOT_CHOSEN`.
    intervals
        Intervals whose energy is told to the solver besides.
    all_chosen
        Whether every job has to be chosen.
    either
        Pairs of places of which one is to be chosen. If all others have to be, what is chosen of
        the pairs is worth the most.
    thorough
        Whether to work on the bound, too, rather than on good schedules alone.
    """
    from ortools.sat.python import cp_model

    model: Any = cp_model.CpModel()
    paired = {place for pair in either for place in pair}
    optional = [not all_chosen or place in paired for place in range(len(worth))]
    chosen, starts = _add_jobs(model, tasks, machine, optional)

    for first, second in either:
        model.add_exactly_one(chosen[first], chosen[second])
    for interval in intervals:
        energy = energies(tasks, interval).tolist()
        terms = [each * chosen[place] for place, each in enumerate(energy) if each]
        model.add(sum(terms) <= machine * (interval[1] - interval[0]))
    if any(optional):
        model.maximize(cp_model.LinearExpr.weighted_sum(chosen, worth.tolist()))

    if start is not None:
        for place, date in enumerate(start.tolist()):
            if optional[place]:
                model.add_hint(chosen[place], date != NOT_CHOSEN)
            if date != NOT_CHOSEN:
                model.add_hint(starts[place], date)

    solver = _solver(max(budget.left, 1e-3), budget.by_clock, thorough, seed, workers)
    status = solver.solve(model)
    budget.use(MODEL_COST + solver.response_proto.deterministic_time)
    return _result(solver, status, chosen, starts, worth, any(optional))


def _solver(limit: float, by_clock: bool, thorough: bool, seed: int, workers: int) -> Any:
    from ortools.sat.python import cp_model

    solver: Any = cp_model.CpSolver()
    parameters = solver.parameters
    # Short searches have both limits, so that they depend on the clock as little as may be.
    if not (by_clock and thorough):
        parameters.max_deterministic_time = limit
    if by_clock:
        parameters.max_time_in_seconds = limit
    parameters.num_workers = workers
    parameters.random_seed = seed
    parameters.linearization_level = 2 if thorough else 1
    parameters.interleave_search = thorough and workers == 1
    return solver


def _add_jobs(
    model: Any, tasks: Tasks, machine: int, optional: Sequence[bool]
) -> tuple[list[Any], list[Any]]:
    """Add jobs and machine to a solver's model; return its variables for choices and starts."""
    chosen: list[Any] = []
    starts: list[Any] = []
    intervals = []
    columns = (tasks.release, tasks.last_start, tasks.duration)
    # The order in which variables are made is part of what equal results come from.
    for release, last, duration in zip(*(column.tolist() for column in columns), strict=True):
        start = model.new_int_var(release, last, "")
        choice = model.new_bool_var("") if optional[len(chosen)] else 1
        intervals.append(model.new_optional_fixed_size_interval_var(start, duration, choice, ""))
        starts.append(start)
        chosen.append(choice)
    model.add_cumulative(intervals, tasks.processors.tolist(), machine)
    return chosen, starts


def _result(
    solver: Any, status: Any, chosen: list[Any], starts: list[Any], worth: Ints, is_choice: bool
) -> SolverResult:
    from ortools.sat.python import cp_model

    everything = int(worth.sum())
    if status in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        dates = np.array(
            [
                solver.value(date) if solver.value(choice) else NOT_CHOSEN
                for choice, date in zip(chosen, starts, strict=True)
            ],
            np.int64,
        )
        reached = int(worth[dates != NOT_CHOSEN].sum())
        # The bound is told as a float, and sums are whole numbers.
        bound = int(solver.best_objective_bound + 0.5) if is_choice else everything
        is_best = status == cp_model.OPTIMAL
        return SolverResult(dates, reached, reached if is_best else bound, is_best)
    if status == cp_model.INFEASIBLE:
        return SolverResult(None, 0, 0, True)
    if status == cp_model.UNKNOWN:
        # Where time was too short to begin, the solver tells a bound of 0.
        return SolverResult(None, 0, everything, False)
    raise InputError(
        f"the solver calls the model {solver.status_name(status)}; smaller dates and sizes "
        "of jobs are expected"
    )
