"""The constraint model: optional intervals on one cumulative resource (OR-tools, CP-SAT)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from qops_batsim.errors import InputError
from qops_batsim.optimum.budget import Budget
from qops_batsim.optimum.energy import Interval, energies
from qops_batsim.optimum.problem import NOT_CHOSEN, Ints, Tasks

MODEL_COST = 0.05
"""Units of deterministic time that a model counts, which the solver does not count: about what it
takes to make and simplify one."""


class Found(NamedTuple):
    """What a solver found: starts (or None), what they are worth, and that nothing is worth more.

    ``is_proven`` tells that the search has ended: the starts are the best, or there are none.
    """

    starts: Ints | None
    worth: int
    bound: int
    is_proven: bool


def require_solver() -> None:
    """Raise :class:`~qops_batsim.errors.InputError` where OR-tools is not installed."""
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
    seconds: float | None = None,
    start: Ints | None = None,
    intervals: Sequence[Interval] = (),
    all_chosen: bool = False,
    thorough: bool = False,
    seed: int = 1,
    workers: int = 1,
) -> Found:
    """Choose jobs worth the most, and their starts.

    Parameters
    ----------
    worth
        What each job is worth, whole numbers.
    budget, seconds
        What is left to spend, and at most how much of it.
    start
        A schedule to begin with: starts in ticks, or :data:`NOT_CHOSEN`.
    intervals
        Intervals whose energy is told to the solver besides.
    all_chosen
        Whether every job has to be chosen.
    thorough
        Whether to work on the bound, too, rather than on good schedules alone.
    """
    from ortools.sat.python import cp_model

    model: Any = cp_model.CpModel()
    chosen, starts = _tell(model, tasks, machine, all_chosen)
    for interval in intervals:
        energy = energies(tasks, interval).tolist()
        terms = [each * chosen[place] for place, each in enumerate(energy) if each]
        model.add(sum(terms) <= machine * (interval[1] - interval[0]))
    if not all_chosen:
        model.maximize(cp_model.LinearExpr.weighted_sum(chosen, worth.tolist()))
    if start is not None:
        for place, date in enumerate(start.tolist()):
            if not all_chosen:
                model.add_hint(chosen[place], date != NOT_CHOSEN)
            if date != NOT_CHOSEN:
                model.add_hint(starts[place], date)
    limit = budget.left if seconds is None else min(seconds, budget.left)
    solver = _solver(max(limit, 1e-3), budget.by_clock, thorough, seed, workers)
    status = solver.solve(model)
    budget.use(MODEL_COST + solver.response_proto.deterministic_time)
    return _found(solver, status, chosen, starts, worth, all_chosen)


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


def _tell(model: Any, tasks: Tasks, machine: int, all_chosen: bool) -> tuple[list[Any], list[Any]]:
    """Add jobs and machine to a model; return its variables of choice and of start."""
    chosen, starts, intervals = [], [], []
    last = tasks.last_start.tolist()
    for place, (release, duration) in enumerate(
        zip(tasks.release.tolist(), tasks.duration.tolist(), strict=True)
    ):
        start = model.new_int_var(release, last[place], "")
        choice = 1 if all_chosen else model.new_bool_var("")
        make = model.new_optional_fixed_size_interval_var
        intervals.append(make(start, duration, choice, ""))
        starts.append(start)
        chosen.append(choice)
    model.add_cumulative(intervals, tasks.processors.tolist(), machine)
    return chosen, starts


def _found(
    solver: Any, status: Any, chosen: list[Any], starts: list[Any], worth: Ints, all_chosen: bool
) -> Found:
    from ortools.sat.python import cp_model

    everything = int(worth.sum())
    if status in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        dates = np.array(
            [
                solver.value(date) if all_chosen or solver.value(choice) else NOT_CHOSEN
                for choice, date in zip(chosen, starts, strict=True)
            ],
            np.int64,
        )
        reached = int(worth[dates != NOT_CHOSEN].sum())
        # The bound is told as a float, and sums are whole numbers.
        bound = everything if all_chosen else int(solver.best_objective_bound + 0.5)
        is_best = status == cp_model.OPTIMAL
        return Found(dates, reached, reached if is_best else bound, is_best)
    if status == cp_model.INFEASIBLE:
        return Found(None, 0, 0, True)
    if status == cp_model.UNKNOWN:
        # Where time was too short to begin, the solver tells a bound of 0.
        return Found(None, 0, everything, False)
    raise InputError(
        f"the solver calls the model {solver.status_name(status)}; dates and sizes are too large"
    )
