"""Which dates and durations in a run's files are equal: their numbers have six decimals."""

from __future__ import annotations

import numpy as np

from qops_batsim.analysis.results.tables import Booleans, Floats
from qops_batsim.timing import PLAN_TOLERANCE

ROUNDING = 0.5e-6
"""Largest error of a number written with six decimals."""

DATE_TOLERANCE = PLAN_TOLERANCE + 2 * ROUNDING
"""Dates and durations of a run's files closer than this (seconds) are equal."""

NULL_RUN_TIME = 1e-5
"""Run time (seconds) that Batsim writes for a job that ran for none at all.

Its hosts are free again at the real end, up to this much before the written one.
"""


def lasting(run_time: Floats) -> Booleans:
    """Tell which run times are real, rather than written for none; see :data:`NULL_RUN_TIME`."""
    return run_time > NULL_RUN_TIME + DATE_TOLERANCE


def real_ends(start: Floats, finish: Floats) -> Floats:
    """Return when jobs have ended at the earliest (seconds); see :data:`NULL_RUN_TIME`."""
    return np.where(lasting(finish - start - np.spacing(np.abs(finish))), finish, start)


def tolerance(*dates: Floats, planning: float = PLAN_TOLERANCE) -> Floats:
    """Return how far apart equal dates may be (seconds), for each element.

    The tolerance of planning and two roundings, plus a few units in the last place for
    dates so late that floats are coarse.
    """
    largest = np.maximum.reduce([np.abs(values) for values in dates])
    slack: Floats = planning + 2 * ROUNDING + 4 * np.spacing(largest)
    return slack


def differ(
    found: Floats, expected: Floats, *dates: Floats, planning: float = PLAN_TOLERANCE
) -> Booleans:
    """Tell where two columns of dates or durations differ by more than the :func:`tolerance`.

    ``dates`` are further columns that ``expected`` was computed from.
    """
    slack = tolerance(found, expected, *dates, planning=planning)
    return np.abs(found - expected) > slack
