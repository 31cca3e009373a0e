"""Clairvoyant admission in whole numbers: jobs in ticks of time, processors, worth.

Choose jobs and starts so that each chosen job runs without a break between its submission and its
deadline, never more processors compute than there are, and the chosen jobs are worth the most.

Ticks are seconds where all submissions and run times are whole, else the coarsest decimal part of
a second in which they are, down to microseconds. Two versions of every job hold the real one
between them. *Relaxed*: submission and run time rounded down. Of any schedule in real time the
chosen jobs also fit so, at the same starts; and starting each as early as the others allow, in the
order of the starts, makes every start a sum of whole numbers, so that the deadline may be
rounded down as well. So what no relaxed schedule reaches, no schedule does. *Strict*: submission
and run time rounded up, deadline down. What fits so fits in real time. Where nothing is rounded,
both are the same.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from qops_batsim.economics.charges import category_slowdowns, islam2004, served_job
from qops_batsim.measures.metrics.outcomes import has_user_deadline
from qops_batsim.measures.results.host_amounts import sizes_of
from qops_batsim.platform.platform_model import Platform
from qops_batsim.running.reference import easy_references
from qops_batsim.timing import DEADLINE_TOLERANCE, PLAN_TOLERANCE
from qops_batsim.workload.delay_jobs import jobs_until_killed, run_times_until_killed
from qops_batsim.workload.workload_model import Workload

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Booleans = npt.NDArray[np.bool_]

TICKS = (1, 10, 100, 1000, 1_000_000)
"""Ticks in a second that are tried."""

_NEARLY = 1e-6
"""Part of a tick by which a whole number may be off."""

_MOST = 2**52
"""Ticks times processors stay below it, so that sums of energy are exact in floats."""

NOT_CHOSEN = -1
"""In place of a start."""


class Tasks(NamedTuple):
    """Jobs in ticks (units of time) since the first submission: arrays of shape (jobs,).

    A job starts at ``release`` or later, lasts ``duration`` and ends by ``latest``.
    """

    release: Ints
    duration: Ints
    latest: Ints
    processors: Ints

    def of(self, places: Ints | Booleans) -> Tasks:
        """Return only the jobs with these indices, or those for which a mask is True."""
        return Tasks(*(column[places] for column in self))

    @property
    def last_start(self) -> Ints:
        """Latest start of each job (ticks)."""
        return self.latest - self.duration


class Pool(NamedTuple):
    """Something of which there is a whole number, and how much of it each job takes; jobs that do
    not fit the machine may take anything.
    """

    demand: Ints
    capacity: int


@dataclass(frozen=True)
class Problem:
    """Which jobs to admit, and when to start them, if the future is known: in whole numbers.

    Attributes
    ----------
    workload
        Where they come from; ``places`` are their places in it.
    machine
        Number of processors, or capacity of another pool of which jobs take what stands in
        place of their processors.
    ticks, origin
        Ticks in a second, and the date of tick 0 (seconds).
    relaxed, strict
        The jobs in ticks, for bounds and for schedules.
    free
        Places of the jobs without any deadline: they can wait until all others have ended, so
        that every one is admitted whatever else is. Likewise those that take nothing.
    """

    workload: Workload
    machine: int
    places: Ints
    ticks: int
    origin: float
    relaxed: Tasks
    strict: Tasks
    free: Ints

    def dates(self, starts: Ints) -> Floats:
        """Convert starts to seconds, NaN for jobs that are not chosen."""
        dates: Floats = np.where(starts == NOT_CHOSEN, np.nan, self.origin + starts / self.ticks)
        return dates

    def ticks_of(self, dates: Floats) -> Ints:
        """Convert starts to the nearest ticks; NaN means not chosen."""
        ticks = np.rint((np.nan_to_num(dates) - self.origin) * self.ticks).astype(np.int64)
        return np.where(np.isnan(dates), NOT_CHOSEN, ticks)


def problem_of(
    workload: Workload, pool: Pool | None = None, fits: Booleans | None = None
) -> Problem:
    """Return the admission problem of a workload of ``delay`` jobs; O(jobs).

    Left out are jobs that do not fit the machine, which every scheduler rejects, and those whose
    deadline is too early on an empty machine. Without a ``pool``, jobs take processors, and
    those fit that ask for one at least and for no more than there are.
    """
    columns = workload.columns
    if pool is None:
        pool = Pool(columns.processors.astype(np.int64), workload.processors)
    demand, machine = pool
    if fits is None:
        fits = (demand >= 1) & (demand <= machine)
    submission = np.maximum(columns.submission_times, 0.0)
    run_time = np.array(run_times_until_killed(workload))
    deadline = columns.asked("deadline")
    places = np.flatnonzero(fits & np.isfinite(deadline))

    origin = math.floor(submission.min())
    ticks = _ticks(submission - origin, run_time, deadline - origin, machine)
    processors = demand[places]
    released = (submission - origin)[places] * ticks
    lasts = run_time[places] * ticks
    # A plan may miss a deadline by the last microsecond, and verification lets it.
    lenient = (deadline[places] - origin + 2 * DEADLINE_TOLERANCE) * ticks
    verified = (deadline[places] - origin + PLAN_TOLERANCE / 2) * ticks

    relaxed = Tasks(_floor(released), _floor(lasts), _floor(lenient), processors)
    # What takes no time needs its processors at the moment of its start.
    duration = np.maximum(-_floor(-lasts), 1)
    strict = Tasks(-_floor(-released), duration, _floor(verified), processors)
    possible = relaxed.release <= relaxed.last_start
    competes = possible & (processors > 0)
    free = fits & np.isinf(deadline)
    free[places[possible & ~competes]] = True
    return Problem(
        workload=workload,
        machine=machine,
        places=places[competes],
        ticks=ticks,
        origin=float(origin),
        relaxed=relaxed.of(competes),
        strict=strict.of(competes),
        free=np.flatnonzero(free),
    )


def _floor(values: Floats) -> Ints:
    return np.floor(values + _NEARLY).astype(np.int64)


def _ticks(submission: Floats, run_time: Floats, deadline: Floats, machine: int) -> int:
    """Return how many ticks a second has: as few as avoid rounding, up to a limit.

    With longer ticks everything holds as well, but bound and schedule are further apart.
    """
    known = np.concatenate([submission, run_time])
    horizon = max(1.0, float(deadline[np.isfinite(deadline)].max(initial=1.0)))
    usable = [each for each in TICKS if each * horizon * machine < _MOST] or [1]
    for each in usable:
        if (np.abs(known * each - np.rint(known * each)) < _NEARLY).all():
            return each
    return usable[-1]


OBJECTIVES = ("jobs", "work", "charge")
"""Number of jobs; processor-seconds, of dominant shares where jobs share hosts; QoS charges of
Islam et al. (2004) for users' deadlines."""

_WHOLE = 2**40
"""Sums of worth in whole units stay below it."""


def worth_of(workload: Workload, objective: str, platform: Platform | None = None) -> Floats:
    """Return what each job is worth to an objective if admitted; O(jobs) plus an EASY run.

    The slowdowns of QoS charges come from EASY on the jobs that fit the machine: the ``platform``,
    whose hosts jobs share, or as many equal hosts as the workload has processors.
    """
    if objective == "jobs":
        return np.ones(len(workload.columns.ids))
    sizes = sizes_of(workload, None if platform is None else platform.machine)
    if objective == "work":
        return sizes * run_times_until_killed(workload)
    return _charges(workload, sizes, platform)


def _charges(workload: Workload, sizes: Floats, platform: Platform | None) -> Floats:
    references = easy_references(workload, of_all=False, platform=platform)
    table = category_slowdowns(references.values())
    charges = []
    for (job, run_time), size in zip(jobs_until_killed(workload), sizes.tolist(), strict=True):
        deadline = None if job.qos is None else job.qos.deadline
        arrival = max(job.submission_time, 0.0)
        paid = 0.0
        fits = job.id in references
        if fits and has_user_deadline(job) and deadline is not None and deadline > arrival:
            served = served_job(
                table,
                category=table.categories.label(run_time, size),
                processors=size,
                run_time=run_time,
                arrival=arrival,
                deadline=deadline,
            )
            paid = islam2004(served).qos
        charges.append(paid)
    return np.array(charges)


def in_whole_units(worth: Floats | Sequence[float]) -> tuple[Ints, float]:
    """Return each job's worth in whole units, rounded up, and the size of a unit.

    Whole numbers stay as they are, unless their sum is too large for a solver.
    """
    values = np.asarray(worth, np.float64)
    total = math.fsum(values)
    if (values == np.rint(values)).all() and total < _WHOLE:
        return values.astype(np.int64), 1.0
    unit = total / (_WHOLE / 2)
    return np.ceil(values / unit).astype(np.int64), unit
