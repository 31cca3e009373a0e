"""Lines between QoPS and the clairvoyant, which split what QoPS lacks into three parts.

*Exact feasibility* admits each job as it arrives whenever some plan of what is known then keeps
every promise: QoPS where its search finds one, else the solver. What it admits more than QoPS is
lost by QoPS's **search**.

*First come with hindsight* also decides job by job in the order of arrival, and admits whenever
it can, but chooses all starts afterwards: a job is admitted if some schedule has it and all jobs
admitted before, whatever runs by then. What it admits more than exact feasibility is lost because
starts must be chosen, and **order** be settled, before later jobs are known.

The clairvoyant also knows which jobs to refuse for the sake of others. What it admits more than
first come with hindsight is lost for want of **foresight**.

With exact estimates QoPS is clairvoyant of run times; where estimates are not, the first line has
real run times if the workload's estimates are made exact.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from qops_batsim.optimum.budget import Budget
from qops_batsim.optimum.problem import NOT_CHOSEN, Floats, Ints, Problem, Tasks
from qops_batsim.optimum.schedules import Room
from qops_batsim.optimum.solver import Step, solve
from qops_batsim.scheduling.admission.options import QopsOptions
from qops_batsim.scheduling.admission.policy import Admission
from qops_batsim.scheduling.admission.qops_search import QopsSearch
from qops_batsim.scheduling.admission.search import FOUND, Question, Search, Verdict
from qops_batsim.scheduling.plan import Plan
from qops_batsim.scheduling.profile import copy_profile, reserve
from qops_batsim.scheduling.space_sharing import SpaceSharingScheduler
from qops_batsim.timing import DEADLINE_TOLERANCE, GRID

QUESTION = 0.5
"""Most units of deterministic time for a question that earlier searches leave open."""

MOST_MOVED = 150
"""Most jobs that hindsight moves for one that arrives."""


class Answers:
    """How many questions the solver was asked, and how they ended."""

    def __init__(self) -> None:
        self.found = self.refused = self.open = 0


class ExactFeasibility(SpaceSharingScheduler):
    """Admit a job whenever any plan keeps all promises; else as QoPS.

    ``answers`` counts the questions that QoPS's search did not find a plan for; those that
    stay open are refused.
    """

    summary = "exact feasibility: QoPS with the solver where its search fails"
    needs_deadlines = True

    Options = QopsOptions
    options: QopsOptions

    def __init__(self, options: QopsOptions | None = None) -> None:
        super().__init__(options)
        self.answers = Answers()

    def new_plan(self, machine_size: int) -> Plan:
        """Return an empty plan that searches exactly."""
        qops = QopsSearch(self.options)
        return Plan(machine_size, Admission(ExactSearch(qops, machine_size, self.answers)))


class ExactSearch:
    """Asks a search, and the solver where that finds no plan."""

    def __init__(self, search: Search, machine_size: int, answers: Answers) -> None:
        self._search, self._machine, self._answers = search, machine_size, answers

    def __call__(self, q: Question) -> Verdict:
        """Return whether there is a plan."""
        verdict = self._search(q)
        if verdict.found:
            return verdict
        slots = [*q.waiting.slots[: q.waiting.size[0]].tolist(), q.new]
        estimates = q.jobs.estimates[slots]
        if not np.isfinite(estimates).all():
            return verdict
        used = _used(q, self._machine)
        free_from = max((step.end for step in used), default=0)
        last = max(free_from, 0) + _ticks(estimates).sum()
        latest = np.minimum(q.jobs.targets[slots] + DEADLINE_TOLERANCE - q.now, 1e9)
        tasks = Tasks(
            np.zeros(len(slots), np.int64),
            _ticks(estimates),
            np.minimum(np.floor(latest * GRID).astype(np.int64), int(last)),
            q.jobs.processors[slots],
        )
        if (tasks.last_start < 0).any():
            return verdict
        nothing = np.ones(len(slots), np.int64)
        budget = Budget(QUESTION, False)
        found = solve(tasks, nothing, self._machine, budget, used=used, all_chosen=True)
        if found.starts is None:
            self._answers.refused += found.is_proven
            self._answers.open += not found.is_proven
            return verdict
        self._answers.found += 1
        _write(q, slots, q.now + found.starts / GRID)
        return FOUND


def _ticks(seconds: Floats) -> Ints:
    return np.maximum(np.ceil(seconds * GRID - 1e-3), 1).astype(np.int64)


def _used(q: Question, machine: int) -> list[Step]:
    """Return what the running jobs use from now on, in microseconds from now."""
    times, free, size = q.running
    dates = np.maximum(np.rint((times[: size[0]] - q.now) * GRID), 0).astype(np.int64).tolist()
    in_use = (machine - free[: size[0]]).tolist()
    steps = zip(dates, dates[1:], in_use, strict=False)
    return [Step(*each) for each in steps if each[2] and each[1] > each[0]]


def _write(q: Question, slots: list[int], starts: Floats) -> None:
    """Put a plan where the policy takes it from."""
    copy_profile(q.running, q.draft.profile)
    for place, (slot, date) in enumerate(zip(slots, starts.tolist(), strict=True)):
        start = round(date * GRID) / GRID
        reserve(q.draft.profile, start, q.jobs.estimates[slot], q.jobs.processors[slot])
        q.draft.order[place], q.draft.starts[place] = slot, start


class FirstCome(NamedTuple):
    """First come with hindsight: a schedule in ticks, and how many questions stayed open."""

    starts: Ints
    open: int


def first_come_with_hindsight(problem: Problem, budget: Budget) -> FirstCome:
    """Admit jobs in the order of arrival, as long as some schedule has all that were admitted.

    A question is open, and its job refused, if the solver does not end in time, or where
    only :data:`MOST_MOVED` of the jobs that are in the way may move.
    """
    tasks, machine = problem.strict, problem.machine
    starts = np.full(len(tasks.release), NOT_CHOSEN)
    room = Room(machine)
    unknown = 0
    for place in np.argsort(tasks.release, kind="stable").tolist():
        job = tasks.of(np.array([place]))
        release, duration, _, processors = (int(column[0]) for column in job)
        start = room.earliest_fit(release, duration, processors, int(job.last_start[0]))
        if start != NOT_CHOSEN:
            starts[place] = start
            room.take(start, duration, processors)
            continue
        if release > int(job.last_start[0]):
            continue
        moved, whole = _in_the_way(tasks, starts, place)
        rest = starts.copy()
        rest[moved] = NOT_CHOSEN
        places = np.append(moved, place)
        some = tasks.of(places)
        begin, end = int(some.release.min()), int(some.latest.max())
        found = solve(
            some,
            np.ones(len(places), np.int64),
            machine,
            budget,
            seconds=QUESTION,
            used=Room.of(tasks, rest, machine).steps(begin, end),
            start=starts[places],
            all_chosen=True,
        )
        if found.starts is not None:
            starts = rest
            starts[places] = found.starts
            room = Room.of(tasks, starts, machine)
        else:
            unknown += not (found.is_proven and whole)
    return FirstCome(starts, unknown)


def _in_the_way(tasks: Tasks, starts: Ints, place: int) -> tuple[Ints, bool]:
    """Return chosen jobs that may compute when a job may, and those whose moves may help them.

    And whether these are all: no other chosen job can then compute beside any of them.
    """
    chosen = starts != NOT_CHOSEN
    begin, end = int(tasks.release[place]), int(tasks.latest[place])
    while True:
        near = np.flatnonzero(chosen & (tasks.release < end) & (tasks.latest > begin))
        if len(near) > MOST_MOVED:
            middle = (int(tasks.release[place]) + int(tasks.latest[place])) / 2
            distance = np.abs(starts[near] + tasks.duration[near] / 2 - middle)
            return near[np.argsort(distance, kind="stable")[:MOST_MOVED]], False
        wider = (
            min(begin, int(tasks.release[near].min(initial=begin))),
            max(end, int(tasks.latest[near].max(initial=end))),
        )
        if wider == (begin, end):
            return near, True
        begin, end = wider
