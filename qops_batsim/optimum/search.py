"""Schedules in ticks, and better ones by taking jobs out and putting them back (ruin and recreate).

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

from qops_batsim.kernels import kernel
from qops_batsim.optimum.problem import NOT_CHOSEN, Floats, Ints, Problem, Tasks
from qops_batsim.optimum.solver import Budget
from qops_batsim.scheduling.arrays import STEPS_PER_RESERVATION, Profile, new_profile
from qops_batsim.scheduling.profile import copy_profile, earliest_fit, release, reserve


class ProcessorUse:
    """Processors in use over time, as steps. Every change and question is O(steps)."""

    def __init__(self, machine: int) -> None:
        self.machine = machine
        self.dates: Ints = np.array([np.iinfo(np.int64).min, np.iinfo(np.int64).max])
        self.used: Ints = np.zeros(1, np.int64)

    @classmethod
    def of(cls, tasks: Tasks, starts: Ints, machine: int) -> ProcessorUse:
        """Return the occupancy of a schedule."""
        room = cls(machine)
        chosen = np.flatnonzero(starts != NOT_CHOSEN)
        begins, ends = starts[chosen], starts[chosen] + tasks.duration[chosen]
        dates, where = np.unique(np.concatenate([begins, ends]), return_inverse=True)
        sizes = tasks.processors[chosen]
        change = np.zeros(len(dates), np.int64)
        np.add.at(change, where, np.concatenate([sizes, -sizes]))
        room.dates = np.concatenate([room.dates[:1], dates, room.dates[1:]])
        room.used = np.concatenate([[0], np.cumsum(change)])
        return room

    def earliest_fit(self, after: int, duration: int, processors: int, last: int) -> int:
        """Return the first tick from ``after`` up to ``last`` with room, or NOT_CHOSEN."""
        place = int(np.searchsorted(self.dates, after, "right")) - 1
        most, start = self.machine - processors, after
        while start <= last:
            end = int(np.searchsorted(self.dates, start + duration, "left"))
            full = np.flatnonzero(self.used[place:end] > most)
            if not len(full):
                return start
            place += int(full[-1]) + 1
            start = int(self.dates[place])
        return NOT_CHOSEN

    def take(self, start: int, duration: int, processors: int) -> None:
        """Use processors from a tick on."""
        for date in (start, start + duration):
            place = int(np.searchsorted(self.dates, date, "left"))
            if self.dates[place] != date:
                self.dates = np.insert(self.dates, place, date)
                self.used = np.insert(self.used, place, self.used[place - 1])
        first, last = np.searchsorted(self.dates, [start, start + duration])
        self.used[first:last] += processors


def is_feasible(tasks: Tasks, starts: Ints, machine: int) -> bool:
    """Return whether the chosen jobs run within their dates, on as many processors as there are."""
    chosen = starts != NOT_CHOSEN
    in_time = (starts >= tasks.release) & (starts <= tasks.last_start)
    return bool(
        in_time[chosen].all() and ProcessorUse.of(tasks, starts, machine).used.max() <= machine
    )


def filled(tasks: Tasks, starts: Ints, machine: int, order: Iterable[int]) -> Ints:
    """Return a schedule with more jobs, each at its earliest fit, in an order of places."""
    starts, room = starts.copy(), ProcessorUse.of(tasks, starts, machine)
    columns = tasks.release, tasks.duration, tasks.processors, tasks.last_start
    for place in order:
        if starts[place] == NOT_CHOSEN:
            release, duration, processors, last = (int(column[place]) for column in columns)
            start = room.earliest_fit(release, duration, processors, last)
            if start != NOT_CHOSEN:
                starts[place] = start
                room.take(start, duration, processors)
    return starts


def order_by_density(tasks: Tasks, worth: Ints) -> list[int]:
    """Return the places of all jobs, those first that are worth the most for their size."""
    size = np.maximum(tasks.duration, 1) * tasks.processors
    order: list[int] = np.lexsort((size, -worth / size)).tolist()
    return order


HOT, COLD = 0.3, 0.05
"""Temperatures at the begin and end of annealing, in mean worths of a job."""

ROUNDS = 3
"""Times that the search begins anew."""

LARGEST = (0.9, 0.97, 1.0)
"""Parts of all worth: each round first places the jobs that are worth the most, so many that they
have that part of it, as if there were no others."""

MOVES = 200
"""Moves between two looks at the budget."""

MOST_TAKEN, MOST_LEFT_OUT = 60, 30
"""Jobs of a move: that are taken out, and that were left out before."""

STRETCH = 60.0, 180_000.0
"""Shortest and longest stretch of time on either side of a move's job (seconds)."""

FIT_COST, STEP_COST = 2e-6, 4e-9
"""Deterministic time of looking for a job's earliest fit, and that for each job in the profile:
about what it takes in seconds."""


class Candidates(NamedTuple):
    """Jobs to choose from: dates in seconds from the problem's origin, worth in whole units."""

    release: Floats
    duration: Floats
    last_start: Floats
    processors: Ints
    worth: Ints


class Chance(NamedTuple):
    """Random numbers from 0 to 1, used one after the other."""

    draws: Floats
    next: Ints


class Move(NamedTuple):
    """Buffers of a move: its jobs, sort keys, earlier starts, and the profile before it."""

    places: Ints
    keys: Floats
    starts: Floats
    profile: Profile


def improved(
    problem: Problem, worth: Ints, starts: Ints, budget: Budget, *, seed: int, enough: int
) -> Ints:
    """Return a schedule worth no less; the search ends early if that is ``enough``."""
    rng = np.random.default_rng(seed)
    tasks, machine = problem.strict, problem.machine
    order, first = order_by_density(tasks, worth), starts
    for number in range(ROUNDS):
        if worth[starts != NOT_CHOSEN].sum() >= enough:
            break
        part = budget.part(1 / (ROUNDS - number))
        found = first
        groups = largest(tasks, worth)
        for level, places in enumerate(groups):
            some = np.full(len(worth), NOT_CHOSEN)
            step = part.part(1 / (len(groups) - level))
            jobs = Subproblem(tasks.of(places), worth[places], machine, problem.ticks)
            some[places] = annealed(jobs, found[places], step, rng, enough)
            found = filled(tasks, some, machine, order)
        starts = max(starts, found, key=lambda each: int(worth[each != NOT_CHOSEN].sum()))
    return starts


class Subproblem(NamedTuple):
    """Some jobs, what each is worth, the machine for them, and ticks in a second."""

    tasks: Tasks
    worth: Ints
    machine: int
    ticks: float


def largest(tasks: Tasks, worth: Ints, shares: Sequence[float] = LARGEST) -> list[Ints]:
    """Return places of the jobs that have some shares of all worth, those worth the most first.

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
    """Return a schedule of some jobs that is worth no less; the search ends with ``enough``."""
    tasks, worth, machine, ticks = group
    enough = min(enough, int(worth.sum()))
    release, duration, last_start = (
        column / ticks for column in (tasks.release, tasks.duration, tasks.last_start)
    )
    jobs = Candidates(release, duration, last_start, tasks.processors, worth)
    steps = STEPS_PER_RESERVATION * (len(worth) + 2)
    profile, before = (new_profile(machine, steps) for _ in range(2))
    current = np.where(starts == NOT_CHOSEN, NOT_CHOSEN, starts / ticks)
    for place in np.flatnonzero(starts != NOT_CHOSEN).tolist():
        reserve(profile, current[place], jobs.duration[place], tasks.processors[place])
    best = current.copy()
    chance = Chance(np.zeros(2**16), np.zeros(1, np.int64))
    most = MOST_TAKEN + MOST_LEFT_OUT
    trial = Move(np.zeros(most, np.int64), np.zeros(most), np.zeros(most), before)
    values = np.full(2, worth[starts != NOT_CHOSEN].sum())
    unit = FIT_COST + STEP_COST * len(worth)
    while not budget.is_spent and values[1] < enough:
        heat = float(worth.mean()) * HOT * (COLD / HOT) ** (budget.spent / budget.amount)
        rng.random(out=chance.draws)
        fits = make_moves(jobs, current, best, profile, trial, chance, heat, values, MOVES)
        budget.use(unit * fits)
    return np.where(best == NOT_CHOSEN, NOT_CHOSEN, np.rint(best * ticks)).astype(np.int64)


@kernel
def draw(chance: Chance) -> float:
    """Return the next random number."""
    place = chance.next[0]
    chance.next[0] = (place + 1) % len(chance.draws)
    return float(chance.draws[place])


@kernel
def make_moves(
    jobs: Candidates,
    starts: Floats,
    best: Floats,
    profile: Profile,
    trial: Move,
    chance: Chance,
    heat: float,
    values: Ints,
    moves: int,
) -> int:
    """Make some moves; return how many fits were looked for.

    ``starts`` and ``best``, the best schedule so far, are changed in place, and so are their
    ``values``. O(moves × (jobs + moved jobs × steps)).
    """
    fits = moves
    for _ in range(moves):
        copy_profile(profile, trial.profile)
        before = values[0]
        count, first, date = remove_jobs(jobs, starts, profile, trial, chance, values)
        order_jobs(jobs, trial, count, first, chance)
        fits += count
        for index in range(count):
            place = trial.places[index]
            after = jobs.release[place]
            if place == first:
                after = date
            elif draw(chance) < 0.05:
                after += math.floor(draw(chance) * (jobs.last_start[place] - after))
            duration, processors = jobs.duration[place], jobs.processors[place]
            start = earliest_fit(profile, after, duration, processors)
            if start <= jobs.last_start[place]:
                reserve(profile, start, duration, processors)
                starts[place] = start
                values[0] += jobs.worth[place]
        if values[0] < before + heat * math.log(draw(chance) + 1e-12):
            copy_profile(trial.profile, profile)
            values[0] = before
            for index in range(count):
                starts[trial.places[index]] = trial.starts[index]
        elif values[0] > values[1]:
            values[1] = values[0]
            for place in range(len(starts)):
                best[place] = starts[place]
    return fits


@kernel
def remove_jobs(
    jobs: Candidates,
    starts: Floats,
    profile: Profile,
    trial: Move,
    chance: Chance,
    values: Ints,
) -> tuple[int, int, float]:
    """Take out jobs around one that is drawn; return how many a move has, and that job.

    The job is -1 if it is not to be the first that is put back.
    """
    total = len(starts)
    centre = int(draw(chance) * total)
    laxity = jobs.last_start[centre] - jobs.release[centre]
    date = jobs.release[centre] + math.floor(draw(chance) * laxity)
    stretch = STRETCH[0] * math.exp(draw(chance) * math.log(STRETCH[1] / STRETCH[0]))
    begin = date - stretch * draw(chance)
    end = date + jobs.duration[centre] + stretch * draw(chance)
    share = 0.2 + 0.8 * draw(chance)
    offset = int(draw(chance) * total)
    count, left_out = 0, 0
    for index in range(total):
        place = (offset + index) % total
        start = starts[place]
        if start == NOT_CHOSEN:
            if left_out == MOST_LEFT_OUT or jobs.release[place] >= end:
                continue
            if jobs.last_start[place] + jobs.duration[place] <= begin:
                continue
            left_out += 1
        else:
            if count - left_out == MOST_TAKEN or start >= end:
                continue
            if start + jobs.duration[place] <= begin or draw(chance) >= share:
                continue
            release(profile, start, jobs.duration[place], jobs.processors[place])
            values[0] -= jobs.worth[place]
            starts[place] = NOT_CHOSEN
        trial.places[count], trial.starts[count] = place, start
        count += 1
    return count, centre if draw(chance) < 0.5 else -1, date


@kernel
def order_jobs(jobs: Candidates, trial: Move, count: int, first: int, chance: Chance) -> None:
    """Put the jobs of a move in the order in which they are put back."""
    rule, noise = int(draw(chance) * 5), 0.5 * draw(chance) * count
    for index in range(count):
        place = trial.places[index]
        size = jobs.duration[place] * jobs.processors[place]
        if rule == 0:
            trial.keys[index] = -jobs.worth[place] / size
        elif rule == 1:
            trial.keys[index] = -jobs.processors[place]
        elif rule == 2:
            trial.keys[index] = jobs.last_start[place]
        elif rule == 3:
            trial.keys[index] = -jobs.worth[place]
        else:
            trial.keys[index] = jobs.release[place]
    sort(trial, count)
    for index in range(count):
        ranked = trial.places[index] != first
        trial.keys[index] = index + draw(chance) * noise if ranked else -1.0
    sort(trial, count)


@kernel
def sort(trial: Move, count: int) -> None:
    """Sort the jobs of a move by their keys, by insertion: they are few."""
    for index in range(1, count):
        key, place, start = trial.keys[index], trial.places[index], trial.starts[index]
        at = index
        while at > 0 and trial.keys[at - 1] > key:
            trial.keys[at] = trial.keys[at - 1]
            trial.places[at] = trial.places[at - 1]
            trial.starts[at] = trial.starts[at - 1]
            at -= 1
        trial.keys[at], trial.places[at], trial.starts[at] = key, place, start
