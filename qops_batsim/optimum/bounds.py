"""Bounds of a problem: by energy, which is checked here, and by the solver, which is believed.

Jobs of a long log are split by their submissions into windows, each with the whole machine to
itself. The best of each window together are worth no less than the best of all, since any schedule
of all is one of each window.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from qops_batsim.optimum.budget import Budget
from qops_batsim.optimum.energy import EnergyBound, energy_bound
from qops_batsim.optimum.problem import NOT_CHOSEN, Ints, Problem, Tasks
from qops_batsim.optimum.schedules import is_feasible
from qops_batsim.optimum.search import largest
from qops_batsim.optimum.solver import Found, solve

WINDOW = 500
"""Jobs in a window of a long log, about."""


FEW = 60
"""Jobs of which the solver may well prove at once what is best, so that no search is needed."""

SHARES = (0.7, 0.8, 0.9, 0.95)
"""Parts of all worth that the jobs worth the most have, of which the best is looked for alone."""


class Window(NamedTuple):
    """Places of some jobs, and the bound of their energy, which was checked."""

    places: Ints
    energy: EnergyBound


def energy_windows(problem: Problem, worth: Ints, budget: Budget) -> list[Window]:
    """Return the windows of a problem with their bounds by energy."""
    cuts = windows(problem.relaxed) if len(worth) else []
    found = []
    for number, places in enumerate(cuts):
        part = budget.part(1 / (len(cuts) - number))
        tasks = problem.relaxed.of(places)
        found.append(Window(places, energy_bound(tasks, worth[places], problem.machine, part)))
    return found


def solver_bound(
    problem: Problem,
    worth: Ints,
    starts: Ints,
    parts: Sequence[Window],
    budget: Budget,
    *,
    seed: int = 1,
    workers: int = 1,
) -> tuple[int, Ints]:
    """Return a bound that rests on the solver's word, and the best schedule known then.

    The solver begins with ``starts``, a schedule. What it finds for one of several windows is of
    no use for the others, and left.
    """
    total = 0
    for number, (places, energy) in enumerate(parts):
        part = budget.part(1 / (len(parts) - number))
        mine = starts[places]
        reached = int(worth[places][mine != NOT_CHOSEN].sum())
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
        window = problem.relaxed.of(places), worth[places], mine
        value = _of_the_largest(*window, energy.value, part, ask)
        found = ask(*window[:2], budget=part, start=mine)
        total += min(found.bound, value)
        if len(parts) == 1 and found.starts is not None:
            whole = np.full(len(starts), NOT_CHOSEN)
            whole[places] = found.starts
            if found.worth > reached and is_feasible(problem.strict, whole, problem.machine):
                starts = whole
    return total, starts


def _of_the_largest(
    tasks: Tasks, worth: Ints, starts: Ints, value: int, budget: Budget, ask: Callable[..., Found]
) -> int:
    """Return a bound, if less than ``value``: the best of the jobs worth most, and all the others.

    These are admitted without any room. More and more jobs are taken, until the solver does not
    prove what is the best of them.
    """
    for places in largest(tasks, worth, SHARES) if len(worth) > FEW else ():
        if len(places) == len(worth) or budget.is_spent:
            break
        some = worth[places]
        found = ask(tasks.of(places), some, budget=budget.part(0.5), start=starts[places])
        value = min(value, found.bound + int(worth.sum() - some.sum()))
        if not found.is_proven:
            break
    return value


def windows(tasks: Tasks) -> list[Ints]:
    """Return places of the jobs of each window, by submission.

    Borders are where the fewest processor-seconds may lie on both sides.
    """
    order = np.argsort(tasks.release, kind="stable")
    count = max(1, round(len(order) / WINDOW)) if len(order) > 2 * WINDOW else 1
    borders = [0]
    size = tasks.duration * tasks.processors
    for number in range(1, count):
        middle, reach = number * len(order) // count, WINDOW // 5
        candidates = range(max(borders[-1] + 1, middle - reach), middle + reach)
        dates = tasks.release[order]
        across = [
            int(size[(tasks.release < dates[each]) & (tasks.latest > dates[each])].sum())
            for each in candidates
        ]
        borders.append(candidates[int(np.argmin(across))])
    return [order[begin:end] for begin, end in pairwise([*borders, len(order)])]
