"""Schedules in ticks, improved by ruin and recreate: removing jobs and putting them back.

A move draws a job, a date at which it could start and a stretch of time around that, and takes
out a share of the jobs that compute there. They and jobs that were left out are put back one by
one, each at its earliest fit, in an order that mixes a rule with chance. A schedule that is worth
less is kept with the probability of simulated annealing. The jobs that are worth the most are
placed first: work and charges are mostly those of a few. Schrimpf et al., Record Breaking
Optimization Results Using the Ruin and Recreate Principle, 2000.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from qops_batsim.core.profile import Profile
from qops_batsim.optimum.moves import Moves
from qops_batsim.optimum.problem import NOT_CHOSEN, Ints, Problem, Tasks
from qops_batsim.optimum.solver import Budget


def profile_of(tasks: Tasks, starts: Ints, machine: int) -> Profile:
    """Return the processors that a schedule leaves free, over ticks.

    Ticks are whole numbers, which profiles keep exactly. O(jobs × steps).
    """
    profile = Profile(machine)
    chosen = starts != NOT_CHOSEN
    begins = starts[chosen]
    ends = begins + tasks.duration[chosen]
    for begin, end, processors in zip(begins, ends, tasks.processors[chosen], strict=True):
        profile.reserve(begin, end, processors)
    return profile


def is_feasible(tasks: Tasks, starts: Ints, machine: int) -> bool:
    """Return whether jobs start between release and latest start, on the processors there are."""
    chosen = starts != NOT_CHOSEN
    in_time = (starts >= tasks.release) & (starts <= tasks.last_start)
    if not in_time[chosen].all():
        return False
    return profile_of(tasks, starts, machine).lowest_free(0, math.inf) >= 0


def filled(tasks: Tasks, starts: Ints, machine: int, order: Iterable[int]) -> Ints:
    """Add jobs to a schedule in a given order, each at its earliest fit."""
    starts = starts.copy()
    profile = profile_of(tasks, starts, machine)
    last_start = tasks.last_start
    for place in order:
        if starts[place] != NOT_CHOSEN:
            continue
        duration, processors = tasks.duration[place], tasks.processors[place]
        start = profile.earliest_fit(tasks.release[place], duration, processors)
        if start <= last_start[place]:
            profile.reserve(start, start + duration, processors)
            starts[place] = start
    return starts


def worth_reached(worth: Ints, starts: Ints) -> int:
    """Return what the chosen jobs of a schedule are worth."""
    return int(worth[starts != NOT_CHOSEN].sum())


def order_by_density(tasks: Tasks, worth: Ints) -> list[int]:
    """Return the places of all jobs by descending worth per size."""
    size = np.maximum(tasks.duration, 1) * tasks.processors
    order: list[int] = np.lexsort((size, -worth / size)).tolist()
    return order


HOT, COLD = 0.3, 0.05
"""Temperatures at the begin and end of annealing, in mean worths of a job."""

ROUNDS = 3
"""Number of restarts of the search."""

LARGEST = (0.9, 0.97, 1.0)
"""Shares of all worth: each round first places the jobs worth the most that have this share, as if
there were no others."""

MOVES = 200
"""Moves between two looks at the budget."""

FIT_COST, STEP_COST = 2e-6, 4e-9
"""Deterministic time of looking for a job's earliest fit, and that for each job in the profile:
about what it takes in seconds."""


def improved(
    problem: Problem, worth: Ints, starts: Ints, budget: Budget, *, seed: int, enough: int
) -> Ints:
    """Search for a schedule of more worth, until the budget is spent or ``enough`` is reached."""
    rng = np.random.default_rng(seed)
    tasks, machine = problem.strict, problem.machine
    order = order_by_density(tasks, worth)
    groups = largest(tasks, worth)
    first = starts

    for number in range(ROUNDS):
        if worth_reached(worth, starts) >= enough:
            break
        round_budget = budget.part(1 / (ROUNDS - number))
        schedule = first
        for level, places in enumerate(groups):
            group_budget = round_budget.part(1 / (len(groups) - level))
            group = Subproblem(tasks.of(places), worth[places], machine, problem.ticks)
            of_group = np.full(len(worth), NOT_CHOSEN)
            of_group[places] = annealed(group, schedule[places], group_budget, rng, enough)
            # The other jobs take what the group leaves free.
            schedule = filled(tasks, of_group, machine, order)
        starts = max(starts, schedule, key=lambda each: worth_reached(worth, each))
    return starts


class Subproblem(NamedTuple):
    """Some jobs and their worth, with the machine's processors and the ticks per second."""

    tasks: Tasks
    worth: Ints
    machine: int
    ticks: float


def largest(tasks: Tasks, worth: Ints, shares: Sequence[float] = LARGEST) -> list[Ints]:
    """Return, for each share, the places of the jobs worth most that have this share of all worth.

    >>> tasks = Tasks(*(np.ones(4, np.int64),) * 2, np.full(4, 9), np.ones(4, np.int64))
    >>> [each.tolist() for each in largest(tasks, np.array([1, 97, 2, 0]))]
    [[1], [0, 1, 2]]
    """
    # Rounding may leave a job no start at all.
    places = np.flatnonzero((tasks.release <= tasks.last_start) & (worth > 0))
    falling = np.sort(worth[places])[::-1]
    sums = np.cumsum(falling)
    groups: list[Ints] = []
    for share in shares if len(places) else ():
        least = falling[min(np.searchsorted(sums, share * sums[-1]), len(falling) - 1)]
        group = places[worth[places] >= least]
        if not groups or len(group) > len(groups[-1]):
            groups.append(group)
    return groups


def annealed(
    group: Subproblem, starts: Ints, budget: Budget, rng: np.random.Generator, enough: int
) -> Ints:
    """Improve a schedule of some jobs by simulated annealing; stop at the worth ``enough``."""
    tasks, worth, machine, ticks = group
    enough = min(enough, int(worth.sum()))

    # Moves are in seconds, on the grid of profiles.
    release, duration, last_start = (
        column / ticks for column in (tasks.release, tasks.duration, tasks.last_start)
    )
    begin = np.where(starts == NOT_CHOSEN, NOT_CHOSEN, starts / ticks)
    draws = np.zeros(2**16)
    search = Moves(machine, release, duration, last_start, tasks.processors, worth, begin, draws)

    unit = FIT_COST + STEP_COST * len(worth)
    while not budget.is_spent and search.best_value < enough:
        heat = float(worth.mean()) * HOT * (COLD / HOT) ** (budget.spent / budget.amount)
        rng.random(out=draws)
        budget.use(unit * search.make(MOVES, heat))

    best = np.asarray(search.best)
    return np.where(best == NOT_CHOSEN, NOT_CHOSEN, np.rint(best * ticks)).astype(np.int64)
