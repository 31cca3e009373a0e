"""A workload's best known schedule, and bounds that no schedule exceeds.

Bounds are by energy, which is checked here, and by the solver, which is believed. Jobs of a long
log are split by their submissions into windows, each with the whole machine to itself. The best of
each window together are worth no less than the best of all, since any schedule of all is one of
each window.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import pairwise
from typing import NamedTuple

import msgspec
import numpy as np

from qops_batsim.errors import InputError, did_you_mean, require
from qops_batsim.measures.metrics.outcomes import outcomes_of_simulation
from qops_batsim.optimum.pooled_kinds import pooled_kinds
from qops_batsim.optimum.problem import (
    NOT_CHOSEN,
    OBJECTIVES,
    Floats,
    Ints,
    Problem,
    Tasks,
    in_whole_units,
    problem_of,
    worth_of,
)
from qops_batsim.optimum.search import (
    filled,
    improved,
    is_feasible,
    largest,
    order_by_density,
    profile_of,
    worth_reached,
)
from qops_batsim.optimum.solver import (
    Budget,
    EnergyBound,
    SolverResult,
    energy_bound,
    require_solver,
    solve,
)
from qops_batsim.platform.equal_hosts import make_cluster
from qops_batsim.platform.platform_model import Platform
from qops_batsim.running.simulate import simulate
from qops_batsim.timing import PLAN_TOLERANCE
from qops_batsim.workload.delay_jobs import run_times_until_killed
from qops_batsim.workload.workload_model import Workload, check_seed

WINDOW = 500
"""Jobs in a window of a long log, about."""

FEW = 60
"""Jobs of which the solver may well prove at once what is best, so that no search is needed."""

SHARES = (0.7, 0.8, 0.9, 0.95)
"""Parts of all worth that the jobs worth the most have, of which the best is looked for alone."""


class EnergyWindow(NamedTuple):
    """The jobs of a window (places in the problem's arrays), and their proven energy bound."""

    places: Ints
    energy: EnergyBound


def energy_windows(problem: Problem, worth: Ints, budget: Budget) -> list[EnergyWindow]:
    """Split a problem's jobs into windows, and return each with its energy bound."""
    cuts = windows(problem.relaxed) if len(worth) else []
    bounds = []
    for number, places in enumerate(cuts):
        part = budget.part(1 / (len(cuts) - number))
        energy = energy_bound(problem.relaxed.of(places), worth[places], problem.machine, part)
        bounds.append(EnergyWindow(places, energy))
    return bounds


def solver_bound(
    problem: Problem,
    worth: Ints,
    starts: Ints,
    parts: Sequence[EnergyWindow],
    budget: Budget,
    *,
    seed: int = 1,
    workers: int = 1,
) -> tuple[int, Ints]:
    """Return an upper bound that the solver proves, and the best schedule known by then.

    The solver begins with ``starts``, a schedule. What it finds for one of several windows is of
    no use for the others, and left.
    """
    total = 0
    for number, (places, energy) in enumerate(parts):
        part = budget.part(1 / (len(parts) - number))
        tasks = problem.relaxed.of(places)
        own = worth[places]
        known = starts[places]
        reached = worth_reached(own, known)
        if part.is_spent or reached == energy.value:
            total += energy.value
            continue

        ask = partial(
            solve,
            machine=problem.machine,
            intervals=energy.intervals,
            thorough=True,
            seed=seed,
            workers=workers,
        )
        value = _of_the_largest(tasks, own, known, energy.value, part, ask)
        answer = ask(tasks, own, budget=part, start=known)
        total += min(answer.bound, value)

        # The relaxed jobs of the bound may not fit as they are: a schedule is of the strict ones.
        if len(parts) == 1 and answer.starts is not None:
            whole = np.full(len(starts), NOT_CHOSEN)
            whole[places] = answer.starts
            if answer.worth > reached and is_feasible(problem.strict, whole, problem.machine):
                starts = whole
    return total, starts


def _of_the_largest(
    tasks: Tasks,
    worth: Ints,
    starts: Ints,
    value: int,
    budget: Budget,
    ask: Callable[..., SolverResult],
) -> int:
    """Return a bound: the best of the jobs worth most plus the worth of all others; at most
    ``value``.

    These are admitted without any room. More and more jobs are taken, until the solver does not
    prove what is the best of them.
    """
    for places in largest(tasks, worth, SHARES) if len(worth) > FEW else ():
        if len(places) == len(worth) or budget.is_spent:
            break
        some = worth[places]
        answer = ask(tasks.of(places), some, budget=budget.part(0.5), start=starts[places])
        value = min(value, answer.bound + int(worth.sum() - some.sum()))
        if not answer.is_proven:
            break
    return value


def windows(tasks: Tasks) -> list[Ints]:
    """Split jobs by submission into windows; return the places of each window's jobs.

    Borders are where the fewest processor-seconds may lie on both sides.
    """
    order = np.argsort(tasks.release, kind="stable")
    dates = tasks.release[order]
    size = tasks.duration * tasks.processors
    count = max(1, round(len(order) / WINDOW)) if len(order) > 2 * WINDOW else 1
    reach = WINDOW // 5
    borders = [0]

    for number in range(1, count):
        middle = number * len(order) // count
        candidates = range(max(borders[-1] + 1, middle - reach), middle + reach)
        across = [
            int(size[(tasks.release < date) & (tasks.latest > date)].sum())
            for date in dates[candidates.start : candidates.stop]
        ]
        borders.append(candidates[int(np.argmin(across))])
    return [order[begin:end] for begin, end in pairwise([*borders, len(order)])]


FIRST = ("easy", "msb", "mrt", "qops")
"""Schedulers whose schedules the search begins with."""

ENERGY_SHARE = 0.25
"""Part of the time that intervals of the energy bound may take."""

SEARCH_SHARE = 0.75
"""Part of the time that is left then for schedules; the rest is for the solver's bound."""

ROUNDING = 1e-9
"""Part by which sums of floats may differ."""


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """How long to search for bounds and schedules, for all objectives together.

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
    """The total worth, the bound, and the best known schedule, for one objective.

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
        """By how much the bound exceeds the best known schedule (% of the total worth)."""
        return 100.0 * (self.bound - self.best_known) / self.total if self.total else 0.0


def best_possible(
    workload: Workload,
    objectives: Sequence[str] = OBJECTIVES,
    limits: Limits | None = None,
    on_progress: Callable[[str, float], None] | None = None,
    platform: Platform | None = None,
) -> list[Best]:
    """Return the upper bound and the best known schedule of a workload, for each objective.

    All jobs are known beforehand, with their real run times. On hosts that jobs share, the bound
    is the least of those by one kind (:mod:`~qops_batsim.optimum.pooled_kinds`), and the best
    known schedule is that of a scheduler.

    Parameters
    ----------
    workload
        Jobs of type ``delay``, on as many interchangeable hosts as the workload is for, or on the
        platform.
    objectives
        Names of what is to be maximal.
    limits
        How much may be searched.
    on_progress
        Called with the objective and the part of it that is done (0 to 1).
    platform
        A machine whose hosts have amounts.

    Returns
    -------
    list of Best
        In the order of the objectives.
    """
    limits = limits or Limits()
    limits.check()
    for each in objectives:
        if each not in OBJECTIVES:
            raise InputError(f"objective {each!r} is unknown{did_you_mean(each, OBJECTIVES)}")
    require_solver()

    search: Callable[[str, Budget], Best]
    if platform is None:
        problem = problem_of(workload)
        first = {name: schedule_of(problem, name) for name in FIRST}
        search = partial(_best, problem, first, limits)
    elif platform.machine is None:
        raise InputError(
            f"no host of {platform.source} has amounts that jobs share; a platform whose hosts "
            "have, or none, is expected: then the machine is the workload's equal hosts"
        )
    else:
        search = partial(_best_shared, SharedProblem(workload, platform), limits)

    results = []
    for objective in objectives:
        budget = Budget(limits.seconds / len(objectives), limits.by_clock)
        if on_progress is not None:
            budget.on_use = _progress_of(budget, objective, on_progress)
        results.append(search(objective, budget))
    return results


def _progress_of(
    budget: Budget, objective: str, on_progress: Callable[[str, float], None]
) -> Callable[[float], None]:
    """Return a function that reports which part of a budget is spent."""
    return lambda _: on_progress(objective, min(1.0, budget.spent / budget.amount))


def schedule_of(problem: Problem, scheduler: str) -> Ints:
    """Return the jobs' starts under a scheduler, without the jobs that end late."""
    workload = problem.workload
    simulation = simulate(scheduler, workload, make_cluster(workload.processors))
    outcomes = outcomes_of_simulation(simulation.ended_jobs, workload)
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
    problem: Problem, first: Mapping[str, Ints], limits: Limits, objective: str, budget: Budget
) -> Best:
    machine, tasks = problem.machine, problem.strict
    real = worth_of(problem.workload, objective)
    free = float(real[problem.free].sum())
    worth, unit = in_whole_units(real[problem.places])
    order = order_by_density(tasks, worth)

    # Begin with the best of the known schedules, and of none, each filled up greedily.
    known = {name: _value(problem, real, starts) for name, starts in first.items()}
    found_by = max(known, key=lambda name: known[name])
    nothing = np.full(len(worth), NOT_CHOSEN)
    starts = max(
        (filled(tasks, each, machine, order) for each in (nothing, *first.values())),
        key=lambda each: worth_reached(worth, each),
    )

    parts = energy_windows(problem, worth, budget.part(ENERGY_SHARE))
    checked = sum(each.energy.value for each in parts)
    enough = checked
    bound_by_solver = partial(
        solver_bound, problem, worth, parts=parts, seed=limits.seed, workers=limits.workers
    )
    if len(worth) <= FEW:
        enough, starts = bound_by_solver(starts, budget=budget.part(ENERGY_SHARE))
    part = budget.part(SEARCH_SHARE)
    starts = improved(problem, worth, starts, part, seed=limits.seed, enough=enough)
    value, starts = bound_by_solver(starts, budget=budget)

    proof = "solver" if value < checked else "energy"
    if value == int(worth.sum()):
        proof = "every job"

    # What is worth nothing here may still run next to what is.
    starts = filled(tasks, starts, machine, order)
    best = _value(problem, real, starts)
    if best <= known[found_by]:
        best = known[found_by]
        starts = first[found_by]
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


class SharedProblem:
    """Jobs on hosts that they share, without each of the other kinds; and known schedules.

    Attributes
    ----------
    starts
        When each job starts (seconds), under each of the known schedulers; NaN if it ends late.
    problems
        The problem of each pool of the machine, each with all jobs that can end in time.
    """

    def __init__(self, workload: Workload, platform: Platform) -> None:
        self.workload = workload
        self.platform = platform
        machine = platform.machine
        assert machine is not None

        self.starts: dict[str, Floats] = {}
        for name in FIRST:
            simulation = simulate(name, workload, platform)
            outcomes = outcomes_of_simulation(simulation.ended_jobs, workload, machine=machine)
            is_late = outcomes.finish > outcomes.deadline + PLAN_TOLERANCE
            self.starts[name] = np.where(is_late, math.nan, outcomes.start)
            if name == "easy":
                # What EASY rejects, no scheduler can run.
                fits = ~np.isnan(outcomes.start)
        pools = pooled_kinds(workload, machine, fits)
        self.problems = [problem_of(workload, pool, fits) for pool in pools]


def _best_shared(shared: SharedProblem, limits: Limits, objective: str, budget: Budget) -> Best:
    real = worth_of(shared.workload, objective, shared.platform)
    known = {name: math.fsum(real[~np.isnan(each)]) for name, each in shared.starts.items()}
    found_by = max(known, key=lambda name: known[name])
    best = known[found_by]

    # The energy of every kind, then the solver from the kind with the least bound on.
    energy_budget = budget.part(ENERGY_SHARE)
    kinds = []
    everything = 0.0
    for number, problem in enumerate(shared.problems):
        worth, unit = in_whole_units(real[problem.places])
        free = math.fsum(real[problem.free])
        everything = free + math.fsum(real[problem.places])
        part = energy_budget.part(1 / (len(shared.problems) - number))
        parts = energy_windows(problem, worth, part)
        energy = sum(each.energy.value for each in parts) * unit + free
        kinds.append((energy, number, worth, unit, free, parts))
    kinds.sort(key=lambda kind: kind[:2])
    checked = bound = min((kind[0] for kind in kinds), default=0.0)

    for place, (_, number, worth, unit, free, parts) in enumerate(kinds):
        if bound <= best:
            break
        problem = shared.problems[number]
        value, _ = solver_bound(
            problem,
            worth,
            np.full(len(worth), NOT_CHOSEN),
            parts,
            budget.part(1 / (len(kinds) - place)),
            seed=limits.seed,
            workers=limits.workers,
        )
        bound = min(bound, value * unit + free)

    proof = "solver" if bound < checked else "energy"
    if bound >= everything * (1 - ROUNDING):
        proof = "every job"
    ids = shared.workload.columns.ids
    starts = shared.starts[found_by]
    return Best(
        objective=objective,
        total=float(real.sum()),
        bound=_real_bound(bound, real, best),
        checked_bound=_real_bound(checked, real, best),
        best_known=best,
        proof=proof,
        found_by=found_by,
        schedulers=known,
        starts={ids[row]: float(starts[row]) for row in np.flatnonzero(~np.isnan(starts))},
    )


def _real_bound(bound: float, real: Floats, best: float) -> float:
    """Return the bound, at least the best worth found and at most the sum of all worths."""
    if bound < best * (1 - ROUNDING):
        raise AssertionError(
            f"a schedule is worth {best}, more than the bound {bound}, which no schedule can "
            "exceed: an error of qops-batsim; please report it"
        )
    return max(best, min(bound, math.fsum(real)))


def _value(problem: Problem, real: Floats, starts: Ints) -> float:
    """Return what a schedule is worth, including the jobs without deadlines."""
    chosen = problem.places[starts != NOT_CHOSEN]
    return math.fsum([*real[chosen].tolist(), *real[problem.free].tolist()])


def _dates(problem: Problem, starts: Ints) -> dict[str, float]:
    """Return all jobs' starts in seconds; jobs without deadlines start where they fit."""
    columns = problem.workload.columns
    ids = columns.ids
    dates = problem.dates(starts)
    started = {
        ids[place]: float(date)
        for place, date in zip(problem.places.tolist(), dates, strict=True)
        if not math.isnan(date)
    }

    # Jobs without deadlines, one by one, as early as they fit.
    run_times = run_times_until_killed(problem.workload)
    profile = profile_of(problem.strict, starts, problem.machine)
    for place in problem.free.tolist():
        submission = max(float(columns.submission_times[place]), 0.0) - problem.origin
        release = math.ceil(submission * problem.ticks - 1e-6)
        duration = max(1, math.ceil(run_times[place] * problem.ticks - 1e-6))
        processors = int(columns.processors[place])
        start = profile.earliest_fit(release, duration, processors)
        profile.reserve(start, start + duration, processors)
        started[ids[place]] = problem.origin + start / problem.ticks
    return started
