"""Admission by exact feasibility: lines between QoPS and the clairvoyant.

Two of them split what QoPS lacks into three parts.

*Exact feasibility* admits each job as it arrives whenever some plan of what is known then keeps
every promise: QoPS where its search finds one, else the solver. What it admits more than QoPS is
lost by QoPS's **search**.

*First come with hindsight* also decides job by job in the order of arrival, and admits whenever
it can, but chooses all starts afterwards: a job is admitted if some schedule has it and all jobs
admitted before, whatever runs by then. What it admits more than exact feasibility is lost because
starts must be chosen, and **order** be settled, before later jobs are known.

The clairvoyant also knows which jobs to refuse for the sake of others. What it admits more than
first come with hindsight is lost for want of **foresight**.

*Admission that takes starts back* splits the same once more. It also decides about each job as it
arrives, and knows none that come later; but running jobs may be stopped, and run again from
scratch, as long as every promise is kept. What it admits more than the same admission that leaves
them alone is lost because starts are **irrevocable**; what the clairvoyant admits more, for want of
**forecasting**.

With exact estimates QoPS is clairvoyant of run times; where estimates are not, the first line has
real run times if the workload's estimates are made exact.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from qops_batsim import Job
from qops_batsim.optimum.problem import NOT_CHOSEN, Booleans, Ints, Problem, Tasks
from qops_batsim.optimum.search import Subproblem, annealed, filled
from qops_batsim.optimum.solver import Budget, solve, violated_intervals
from qops_batsim.schedulers.qops import Qops, QopsOptions
from qops_batsim.timing import DEADLINE_TOLERANCE, GRID

AT_ONCE, SEARCH, SOLVER = 0.02, 0.3, 0.2
"""Units of deterministic time: for what the solver sees at once, then for the search, then for the
solver again."""


class JointSchedule(NamedTuple):
    """A schedule of all jobs (ticks), or None; ``is_proven`` if that is certain."""

    starts: Ints | None
    is_proven: bool


def joint_schedule(tasks: Tasks, starts: Ints, machine: int, ticks: float) -> JointSchedule:
    """Look for a schedule of all jobs, given one of some.

    If an interval has too little room for them, there is none; most questions that have this answer
    end so, or with the solver's first look, and most others with the search.
    """
    if (tasks.release > tasks.last_start).any():
        return JointSchedule(None, True)
    ones = np.ones(len(starts), np.int64)
    if violated_intervals(tasks, ones.astype(np.float64), machine):
        return JointSchedule(None, True)
    first = filled(tasks, starts, machine, np.argsort(tasks.last_start, kind="stable").tolist())
    if (first != NOT_CHOSEN).all():
        return JointSchedule(first, True)
    answer = _solved(tasks, first, machine, AT_ONCE)
    if answer.is_proven:
        return answer
    group, rng = Subproblem(tasks, ones, machine, ticks), np.random.default_rng(1)
    first = annealed(group, first, Budget(SEARCH, False), rng, len(ones))
    if (first != NOT_CHOSEN).all():
        return JointSchedule(first, True)
    return _solved(tasks, first, machine, SOLVER)


def _solved(tasks: Tasks, first: Ints, machine: int, units: float) -> JointSchedule:
    """Return the schedule that the solver finds, beginning with one of some jobs."""
    worth, budget = np.ones(len(first), np.int64), Budget(units, False)
    found = solve(tasks, worth, machine, budget, start=first, all_chosen=True)
    return JointSchedule(found.starts, found.is_proven)


class SolverCounts:
    """Numbers of questions to the solver, by how they ended."""

    def __init__(self) -> None:
        self.found = self.refused = self.open = 0


class ExactFeasibility(Qops):
    """A scheduler that admits a job whenever any plan keeps all promises; else as QoPS.

    ``solver_counts`` counts the questions that QoPS's search did not find a plan for; those that
    stay open are refused.
    """

    summary = "exact feasibility: QoPS with the solver where its search fails"

    def __init__(self, options: QopsOptions | None = None) -> None:
        super().__init__(options)
        self.solver_counts = SolverCounts()

    def admit(self, job: Job) -> object:
        """Admit a job as QoPS does, or by the plan of the solver where that finds none."""
        refusal = super().admit(job)
        jobs = [*self.plan.waiting, job]
        if refusal is None or not all(each.duration < math.inf for each in jobs):
            return refusal
        free, machine = self.availability(), self.plan.machine_size
        tasks, unit = _tasks(free.steps(), self.now, jobs, machine)
        starts = np.where(np.arange(len(tasks.release)) < len(jobs), NOT_CHOSEN, tasks.release)
        found = joint_schedule(tasks, starts, machine, GRID / unit)
        if found.starts is None:
            self.solver_counts.refused += found.is_proven
            self.solver_counts.open += not found.is_proven
            return refusal
        self.solver_counts.found += 1
        # Each job starts as early as those before it allow, so every start but those of now is the
        # end of another job, at which the scheduler is told.
        planned: dict[Job, float] = {}
        for index in np.argsort(found.starts[: len(jobs)], kind="stable").tolist():
            each = jobs[index]
            planned[each] = free.earliest_fit(self.now, each.duration, each.processors)
            free.reserve(planned[each], each.duration, each.processors)
        self.adopt_starts(planned)
        return None


def _tasks(
    steps: list[tuple[float, int]], now: float, jobs: list[Job], machine: int
) -> tuple[Tasks, int]:
    """Return jobs and then what the running ones use, and how many microseconds a tick has.

    A job that starts as early as others allow starts a sum of durations from now. So their greatest
    common divisor, mostly a second, is a tick that rounds nothing but deadlines, without loss.
    """
    times, free = (np.array(column) for column in zip(*steps, strict=True))
    dates = np.maximum(np.rint((times - now) * GRID), 0).astype(np.int64)
    in_use = machine - free[:-1].astype(np.int64)
    fixed = (in_use > 0) & (np.diff(dates) > 0)
    begins, ends = dates[:-1][fixed], dates[1:][fixed]
    lengths = np.array([job.duration for job in jobs])
    durations = np.maximum(np.ceil(lengths * GRID - 1e-3), 1).astype(np.int64)
    last = int(dates.max(initial=0) + durations.sum())
    targets = np.array([job.target for job in jobs])
    left = np.minimum(targets + DEADLINE_TOLERANCE - now, 1e9)
    latest = np.minimum(np.floor(left * GRID).astype(np.int64), last)
    columns = (
        (np.zeros(len(jobs), np.int64), begins),
        (durations, ends - begins),
        (latest, ends),
        (np.array([job.processors for job in jobs]), in_use[fixed]),
    )
    release, duration, end, processors = map(np.concatenate, columns)
    unit = int(np.gcd.reduce(np.concatenate([[GRID], durations, begins, ends]).astype(np.int64)))
    return Tasks(release // unit, duration // unit, end // unit, processors), unit


class FirstCome(NamedTuple):
    """First come with hindsight: a schedule in ticks, and how many questions stayed open."""

    starts: Ints
    open: int


def first_come_with_hindsight(problem: Problem) -> FirstCome:
    """Admit jobs in the order of arrival, as long as some schedule has all that were admitted.

    A job whose question stays open is refused.
    """
    tasks, machine = problem.strict, problem.machine
    starts = np.full(len(tasks.release), NOT_CHOSEN)
    unknown = 0
    for place in np.argsort(tasks.release, kind="stable").tolist():
        near = _overlapping_jobs(tasks, starts, place)
        found = joint_schedule(tasks.of(near), starts[near], machine, problem.ticks)
        if found.starts is not None:
            starts[near] = found.starts
        unknown += not found.is_proven
    return FirstCome(starts, unknown)


def _overlapping_jobs(tasks: Tasks, starts: Ints, place: int) -> Ints:
    """Return a job and the chosen ones that may compute beside it, or beside any of these."""
    wanted = starts != NOT_CHOSEN
    wanted[place] = True
    begin, end = int(tasks.release[place]), int(tasks.latest[place])
    while True:
        near = np.flatnonzero(wanted & (tasks.release < end) & (tasks.latest > begin))
        wider = int(tasks.release[near].min()), int(tasks.latest[near].max())
        if wider == (begin, end):
            return near
        begin, end = wider


class OnlineAdmission(NamedTuple):
    """Admission job by job: starts in ticks, runs that were taken back, and open questions.

    ``lost`` has place, start and end (ticks) of each run that was stopped to be run again.
    """

    starts: Ints
    lost: list[tuple[int, int, int]]
    open: int


def online_admission(problem: Problem, *, takes_back: bool) -> OnlineAdmission:
    """Admit each job as it arrives if some plan keeps all promises, later ones being unknown.

    A plan that leaves running jobs alone comes first; only where there is none, and starts can be
    taken back, some of them are. What waits starts as early as those before it in the plan allow. A
    job whose question stays open is refused.
    """
    tasks, machine = problem.strict, problem.machine
    starts = np.full(len(tasks.release), NOT_CHOSEN)
    lost, unknown = [], 0
    for place in np.argsort(tasks.release, kind="stable").tolist():
        now = int(tasks.release[place])
        at_work = (starts != NOT_CHOSEN) & (starts + tasks.duration > now)
        at_work[place] = True
        near = np.flatnonzero(at_work)
        asked = Moment.of(tasks.of(near), starts[near], now)
        found = joint_schedule(asked.tasks, asked.starts, machine, problem.ticks)
        again = np.zeros(len(near), np.bool_)
        if found.starts is None and takes_back:
            found, again = asked.taking_back(machine)
        unknown += found.starts is None and not found.is_proven
        if found.starts is not None:
            lost += [(int(near[each]), int(starts[near[each]]), now) for each in again.nonzero()[0]]
            planned = asked.with_again(again)
            order = np.argsort(found.starts, kind="stable").tolist()
            early = filled(planned, np.full(len(near), NOT_CHOSEN), machine, order)
            moves = ~asked.runs | again
            starts[near[moves]] = early[moves]
    return OnlineAdmission(starts, lost, unknown)


class Moment(NamedTuple):
    """Jobs at a date: what is left of those that run is fixed, the others start from now on.

    ``whole`` are the jobs as they were asked for, ``runs`` tells which run, ``starts`` are the
    planned ones, now for those that run, all in ticks.
    """

    whole: Tasks
    tasks: Tasks
    starts: Ints
    runs: Booleans
    now: int

    @classmethod
    def of(cls, whole: Tasks, starts: Ints, now: int) -> Moment:
        """Return admitted jobs that have not ended, with their starts, and the new ones."""
        runs = (starts != NOT_CHOSEN) & (starts < now)
        end = np.where(runs, starts + whole.duration, whole.latest)
        duration = np.where(runs, end - now, whole.duration)
        tasks = Tasks(np.maximum(whole.release, now), duration, end, whole.processors)
        return cls(whole, tasks, np.where(runs, now, starts), runs, now)

    def with_again(self, again: Booleans) -> Tasks:
        """Return the jobs if some of the running ones run again from scratch."""
        duration = np.where(again, self.whole.duration, self.tasks.duration)
        latest = np.where(again, self.whole.latest, self.tasks.latest)
        return self.tasks._replace(duration=duration, latest=latest)

    def taking_back(self, machine: int) -> tuple[JointSchedule, Booleans]:
        """Look for a schedule in which running jobs may run again; tell which do.

        One of them is tried, those first that have done the least work, then all; then the solver
        is asked, which saves the most work.
        """
        nobody = np.zeros(len(self.runs), np.bool_)
        can = self.runs & (self.now + self.whole.duration <= self.whole.latest)
        victims = can.nonzero()[0]
        if not len(victims):
            return JointSchedule(None, True), nobody
        done = (self.whole.duration - self.tasks.duration) * self.whole.processors
        for some in [*np.split(victims[np.argsort(done[victims])], len(victims)), victims]:
            again = nobody.copy()
            again[some] = True
            tried, planned = (
                np.where(self.runs & ~again, self.now, NOT_CHOSEN),
                self.with_again(again),
            )
            order = np.argsort(planned.last_start, kind="stable").tolist()
            made = filled(planned, tried, machine, order)
            if (made != NOT_CHOSEN).all():
                return JointSchedule(made, True), again
        return self._solved(victims, done, machine)

    def _solved(self, victims: Ints, done: Ints, machine: int) -> tuple[JointSchedule, Booleans]:
        """Ask the solver, for which a job that may run again is two, of which it chooses one."""
        count = len(self.runs)
        again = self.with_again(np.isin(np.arange(count), victims)).of(victims)
        both = Tasks(*map(np.concatenate, zip(self.tasks, again, strict=True)))
        worth = np.concatenate([np.where(self.runs, done, 0), np.zeros(len(victims), np.int64)])
        pairs = list(zip(victims.tolist(), range(count, count + len(victims)), strict=True))
        found = solve(both, worth, machine, Budget(SOLVER, False), all_chosen=True, either=pairs)
        restarted = np.zeros(count, np.bool_)
        if found.starts is None:
            return JointSchedule(None, found.is_proven), restarted
        restarted[victims] = found.starts[victims] == NOT_CHOSEN
        starts = found.starts[:count].copy()
        starts[victims[restarted[victims]]] = found.starts[count:][restarted[victims]]
        return JointSchedule(starts, True), restarted
