"""What the rules of the schedule verifier are made of."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import msgspec
import numpy as np

from qops_batsim.analysis.results.run import RunResult
from qops_batsim.analysis.results.tables import Booleans, Floats
from qops_batsim.timing import PLAN_TOLERANCE
from qops_batsim.workload.model import Workload

ROUNDING = 0.5e-6
"""Largest error of a number written with six decimals."""

DATE_TOLERANCE = PLAN_TOLERANCE + 2 * ROUNDING
"""Dates and durations of a run's files closer than this (seconds) are equal."""

NULL_RUN_TIME = 1e-5
"""Run time (seconds) that Batsim writes for a job that ran for none at all.

Its hosts are free again at the real end, up to this much before the written one.
"""


class Violation(msgspec.Struct, frozen=True, kw_only=True):
    """One place where a run breaks a rule.

    Attributes
    ----------
    rule
        Name of the rule.
    message
        What is wrong, with the values found.
    jobs
        Full identifiers of the jobs concerned.
    host, time
        Where and when (seconds), if that makes sense.
    """

    rule: str
    message: str
    jobs: tuple[str, ...] = ()
    host: int | None = None
    time: float | None = None


@dataclass(frozen=True)
class Subject:
    """A run with what is known about it, for the rules."""

    result: RunResult
    workloads: dict[str, Workload]
    compute_sharing: bool
    any_allocation_size: bool


@dataclass(frozen=True)
class Rule:
    """A rule: its name, how it is checked and when it applies.

    What it says is the docstring of ``check``; ``needs`` tells in words what a
    run must have for the rule to apply.
    """

    name: str
    check: Callable[[Subject], Iterator[Violation]]
    applies: Callable[[Subject], bool] = lambda subject: True
    needs: str = ""


def lasting(run_time: Floats) -> Booleans:
    """Tell which run times are real, rather than written for none; see :data:`NULL_RUN_TIME`."""
    real: Booleans = run_time > NULL_RUN_TIME + DATE_TOLERANCE
    return real


def tolerance(*dates: Floats) -> Floats:
    """Return how far apart equal dates may be (seconds), for each element.

    :data:`DATE_TOLERANCE`, plus a few units in the last place for dates so late
    that floats are coarse.
    """
    largest = np.maximum.reduce([np.abs(values) for values in dates])
    slack: Floats = DATE_TOLERANCE + 4 * np.spacing(largest)
    return slack


def differ(found: Floats, expected: Floats, *dates: Floats) -> Booleans:
    """Tell where two columns of dates or durations differ by more than rounding.

    ``dates`` are further columns that ``expected`` was computed from.
    """
    unequal: Booleans = np.abs(found - expected) > tolerance(found, expected, *dates)
    return unequal


def violations(
    subject: Subject,
    rule: str,
    wrong: Booleans,
    message: Callable[[int], str],
    *,
    dates: str | None = None,
) -> Iterator[Violation]:
    """Yield one violation for each job row where ``wrong`` holds.

    Parameters
    ----------
    message
        Gives the text for a row number.
    dates
        Column with the date of the violation.
    """
    jobs = subject.result.jobs
    for row in np.flatnonzero(wrong).tolist():
        name = jobs["id"].iloc[row]
        time = None if dates is None else float(jobs[dates].iloc[row])
        yield Violation(rule=rule, jobs=(name,), time=time, message=f"job {name!r}: {message(row)}")
