"""The best known schedule of a workload, and a bound that no schedule exceeds."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import msgspec
import numpy as np

from qops_batsim.analysis.metrics.outcomes import outcomes_of_simulation
from qops_batsim.errors import InputError, did_you_mean, require
from qops_batsim.optimum.bounds import FEW, energy_windows, solver_bound
from qops_batsim.optimum.budget import Budget
from qops_batsim.optimum.problem import NOT_CHOSEN, Floats, Ints, Problem, problem_of
from qops_batsim.optimum.schedules import Room, by_density, filled, is_feasible
from qops_batsim.optimum.search import improved
from qops_batsim.optimum.solver import require_solver
from qops_batsim.optimum.worth import OBJECTIVES, in_whole_units, worth_of
from qops_batsim.platform.generate import make_cluster
from qops_batsim.running.simulate import simulate
from qops_batsim.timing import PLAN_TOLERANCE
from qops_batsim.workload.delay_jobs import run_times_until_killed
from qops_batsim.workload.model import Workload, check_seed

FIRST = ("easy", "msb", "mrt", "qops")
"""Schedulers whose schedules the search begins with."""

ENERGY_SHARE = 0.25
"""Part of the time that intervals of the energy bound may take."""

SEARCH_SHARE = 0.75
"""Part of the time that is left then for schedules; the rest is for the solver's bound."""

ROUNDING = 1e-9
"""Part by which sums of floats may differ."""


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """How long to search, for all objectives together.

    ``seconds`` by the clock, or of the solver's deterministic time, with which equal inputs give
    equal results. With more than one ``workers`` (of the solver, for the bound) they need not.
    """

    seconds: float = 300.0
    by_clock: bool = True
    seed: int = 1
    workers: int = 1

    def check(self) -> None:
        """Raise :class:`~qops_batsim.errors.InputError` if a value is out of range."""
        accepted = "a number of seconds above 0 is expected"
        require(0 < self.seconds < math.inf, "time", self.seconds, accepted)
        check_seed(self.seed)
        require(self.workers >= 1, "workers", self.workers, "a number from 1 up is expected")


class Best(msgspec.Struct, frozen=True, kw_only=True):
    """One objective: what all jobs are worth, the bound, and the best known schedule.

    Attributes
    ----------
    total, bound, checked_bound, best_known
        Number of jobs, processor-seconds, or QoS charge. The checked bound is proven by sums of
        this package alone; the bound may rest on the solver's word.
    proof
        What the bound comes from: ``"every job"`` (all that can end in time), ``"energy"``
        (checked) or ``"solver"``.
    found_by
        What made the best known schedule: ``"search"``, or the name of a scheduler.
    schedulers
        What the schedules of known schedulers are worth.
    starts
        The best known schedule: start (seconds) by job id; the others are refused.
    """

    objective: str
    total: float
    bound: float
    checked_bound: float
    best_known: float
    proof: str
    found_by: str
    schedulers: dict[str, float]
    starts: dict[str, float]

    @property
    def gap(self) -> float:
        """Difference of bound and best known schedule, in % of the total."""
        return 100.0 * (self.bound - self.best_known) / self.total if self.total else 0.0


def best_possible(
    workload: Workload,
    objectives: Sequence[str] = OBJECTIVES,
    limits: Limits | None = None,
    on_progress: Callable[[str, float], None] | None = None,
) -> list[Best]:
    """Return bound and best known schedule of a workload for each objective.

    The jobs are of type ``delay``, on as many interchangeable hosts as the workload is for, and
    known beforehand with their real run times. ``on_progress`` hears objective and part done.
    """
    limits = limits or Limits()
    limits.check()
    for each in objectives:
        if each not in OBJECTIVES:
            raise InputError(f"objective {each!r} is unknown{did_you_mean(each, OBJECTIVES)}")
    require_solver()
    problem = problem_of(workload)
    first = {name: schedule_of(problem, name) for name in FIRST}
    found = []
    for objective in objectives:
        budget = Budget(limits.seconds / len(objectives), limits.by_clock)
        if on_progress is not None:
            _listen(budget, objective, on_progress)
        found.append(_best(problem, objective, first, limits, budget))
    return found


def _listen(budget: Budget, objective: str, on_progress: Callable[[str, float], None]) -> None:
    budget.hears = lambda _: on_progress(objective, min(1.0, budget.spent / budget.amount))


def schedule_of(problem: Problem, scheduler: str) -> Ints:
    """Return what a scheduler does with a problem, without the jobs that end late."""
    workload = problem.workload
    simulation = simulate(workload, make_cluster(workload.processors), scheduler)
    outcomes = outcomes_of_simulation(simulation.ended, workload)
    in_time = outcomes.finish <= outcomes.deadline + PLAN_TOLERANCE
    dates = np.where(in_time, outcomes.start, math.nan)[problem.places]
    starts = problem.ticks_of(dates)
    if is_feasible(problem.strict, starts, problem.machine):
        return starts
    # Rounding has moved starts: the same jobs in the same order, as far as they fit.
    order = np.argsort(np.where(np.isnan(dates), math.inf, dates), kind="stable")
    nothing = np.full(len(starts), NOT_CHOSEN)
    return filled(problem.strict, nothing, problem.machine, order[: int((~np.isnan(dates)).sum())])


def _best(
    problem: Problem, objective: str, first: Mapping[str, Ints], limits: Limits, budget: Budget
) -> Best:
    real = worth_of(problem.workload, objective)
    worth, unit = in_whole_units(real[problem.places])
    free = float(real[problem.free].sum())
    known = {name: _value(problem, real, starts) for name, starts in first.items()}
    found_by = max(known, key=lambda name: known[name])
    machine, tasks = problem.machine, problem.strict
    order = by_density(tasks, worth)
    nothing = np.full(len(worth), NOT_CHOSEN)
    begun = [nothing, *first.values()]
    starts = max(
        (filled(tasks, each, machine, order) for each in begun),
        key=lambda each: int(worth[each != NOT_CHOSEN].sum()),
    )
    parts = energy_windows(problem, worth, budget.part(ENERGY_SHARE))
    checked = sum(each.energy.value for each in parts)
    enough, solver = checked, {"seed": limits.seed, "workers": limits.workers}
    if len(worth) <= FEW:
        part = budget.part(ENERGY_SHARE)
        enough, starts = solver_bound(problem, worth, starts, parts, part, **solver)
    part = budget.part(SEARCH_SHARE)
    starts = improved(problem, worth, starts, part, seed=limits.seed, enough=enough)
    value, starts = solver_bound(problem, worth, starts, parts, budget, **solver)
    proof = "solver" if value < checked else "energy"
    if value == int(worth.sum()):
        proof = "every job"
    # What is worth nothing here may still run, beside what is.
    starts = filled(tasks, starts, machine, order)
    best = _value(problem, real, starts)
    if best <= known[found_by]:
        best, starts = known[found_by], first[found_by]
    else:
        found_by = "search"
    return Best(
        objective=objective,
        total=float(real.sum()),
        bound=_real_bound(value * unit + free, real, best),
        checked_bound=_real_bound(checked * unit + free, real, best),
        best_known=best,
        proof=proof,
        found_by=found_by,
        schedulers=known,
        starts=_dates(problem, starts),
    )


def _real_bound(bound: float, real: Floats, best: float) -> float:
    """Return a bound as one on sums of floats, which are off by their last bits."""
    if bound < best * (1 - ROUNDING):
        raise AssertionError(f"a schedule is worth {best}, and the bound is {bound}")
    return max(best, min(bound, math.fsum(real)))


def _value(problem: Problem, real: Floats, starts: Ints) -> float:
    """Return what a schedule is worth, with the jobs without deadlines."""
    chosen = problem.places[starts != NOT_CHOSEN]
    return math.fsum([*real[chosen].tolist(), *real[problem.free].tolist()])


def _dates(problem: Problem, starts: Ints) -> dict[str, float]:
    """Return a schedule in seconds, with the jobs without deadlines where they fit."""
    ids = problem.workload.columns.ids
    dates = problem.dates(starts)
    made = {
        ids[place]: float(date)
        for place, date in zip(problem.places.tolist(), dates, strict=True)
        if not math.isnan(date)
    }
    return made | _without_deadline(problem, starts)


def _without_deadline(problem: Problem, starts: Ints) -> dict[str, float]:
    """Return starts of the jobs without deadlines, one by one at their earliest fits."""
    if not len(problem.free):
        return {}
    columns = problem.workload.columns
    run_times = run_times_until_killed(problem.workload)
    room = Room.of(problem.strict, starts, problem.machine)
    made = {}
    for place in problem.free.tolist():
        submission = max(float(columns.submission_times[place]), 0.0) - problem.origin
        release = math.ceil(submission * problem.ticks - 1e-6)
        duration = max(1, math.ceil(run_times[place] * problem.ticks - 1e-6))
        processors = int(columns.processors[place])
        start = room.earliest_fit(release, duration, processors, np.iinfo(np.int64).max // 2)
        room.take(start, duration, processors)
        made[columns.ids[place]] = problem.origin + start / problem.ticks
    return made
