"""Clairvoyant admission in whole numbers: which jobs, in ticks of time, on how many processors.

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
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from qops_batsim.timing import DEADLINE_TOLERANCE, PLAN_TOLERANCE
from qops_batsim.workload.delay_jobs import run_times_until_killed
from qops_batsim.workload.model import Workload

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
    """Jobs in ticks since the first submission: arrays of shape (jobs,).

    A job starts at ``release`` or later, lasts ``duration`` and ends by ``latest``.
    """

    release: Ints
    duration: Ints
    latest: Ints
    processors: Ints

    def of(self, places: Ints | Booleans) -> Tasks:
        """Return some of the jobs, by places or by whether each is wanted."""
        return Tasks(*(column[places] for column in self))

    @property
    def last_start(self) -> Ints:
        """Latest starts."""
        return self.latest - self.duration


@dataclass(frozen=True)
class Problem:
    """The jobs of a workload that clairvoyant admission chooses from.

    Attributes
    ----------
    workload
        Where they come from; ``places`` are their places in it.
    machine
        Number of processors.
    ticks, origin
        Ticks in a second, and the date of tick 0 (seconds).
    relaxed, strict
        The jobs in ticks, for bounds and for schedules.
    free
        Places of the jobs without any deadline: they can wait until all others have ended, so
        that every one is admitted whatever else is.
    """

    workload: Workload
    machine: int
    places: Ints
    ticks: int
    origin: float
    relaxed: Tasks
    strict: Tasks
    free: Ints

    @property
    def is_exact(self) -> bool:
        """Whether nothing was rounded."""
        return all(map(np.array_equal, self.relaxed, self.strict))

    def dates(self, starts: Ints) -> Floats:
        """Return starts in seconds, NaN for jobs that are not chosen."""
        dates: Floats = np.where(starts == NOT_CHOSEN, np.nan, self.origin + starts / self.ticks)
        return dates

    def ticks_of(self, dates: Floats) -> Ints:
        """Return starts in ticks, the nearest; NaN means not chosen."""
        ticks = np.rint((np.nan_to_num(dates) - self.origin) * self.ticks).astype(np.int64)
        return np.where(np.isnan(dates), NOT_CHOSEN, ticks)


def problem_of(workload: Workload) -> Problem:
    """Return the problem of a workload of jobs of type ``delay``; O(jobs).

    Left out are jobs without processors or with more than there are, which every scheduler
    rejects, and those whose deadline is too early on an empty machine.
    """
    columns = workload.columns
    machine = workload.processors
    submission = np.maximum(columns.submission_times, 0.0)
    run_time = np.array(run_times_until_killed(workload))
    requests = columns.requests or [None] * len(run_time)
    deadline = np.array(
        [math.inf if each is None or each.deadline is None else each.deadline for each in requests]
    )
    fits = (columns.processors >= 1) & (columns.processors <= machine)
    origin = math.floor(submission.min())
    ticks = _ticks(submission - origin, run_time, deadline - origin, machine)
    places = np.flatnonzero(fits & np.isfinite(deadline))
    times = [column[places] * ticks for column in (submission - origin, run_time)]
    # A plan may miss a deadline by the last microsecond, and verification lets it.
    lenient = (deadline[places] - origin + 2 * DEADLINE_TOLERANCE) * ticks
    verified = (deadline[places] - origin + PLAN_TOLERANCE / 2) * ticks
    processors = columns.processors[places].astype(np.int64)
    earliest, shortest, latest = (_floor(each) for each in (*times, lenient))
    relaxed = Tasks(earliest, shortest, latest, processors)
    release, duration = (-_floor(-each) for each in times)
    # What takes no time needs its processors at the moment of its start.
    strict = Tasks(release, np.maximum(duration, 1), _floor(verified), processors)
    possible = relaxed.release <= relaxed.last_start
    return Problem(
        workload=workload,
        machine=machine,
        places=places[possible],
        ticks=ticks,
        origin=float(origin),
        relaxed=relaxed.of(possible),
        strict=strict.of(possible),
        free=np.flatnonzero(fits & np.isinf(deadline)),
    )


def _floor(values: Floats) -> Ints:
    return np.floor(values + _NEARLY).astype(np.int64)


def _ticks(submission: Floats, run_time: Floats, deadline: Floats, machine: int) -> int:
    """Return how many ticks a second has: the fewest that round nothing, if they are not too many.

    With longer ticks everything holds as well, but bound and schedule are further apart.
    """
    known = np.concatenate([submission, run_time])
    horizon = max(1.0, float(deadline[np.isfinite(deadline)].max(initial=1.0)))
    usable = [each for each in TICKS if each * horizon * machine < _MOST] or [1]
    for each in usable:
        if (np.abs(known * each - np.rint(known * each)) < _NEARLY).all():
            return each
    return usable[-1]
