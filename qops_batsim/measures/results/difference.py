"""Differences between two runs, job by job; each run is ours or real Batsim's.

Dates in the files are rounded to six decimals, so two dates count as equal up to
a tolerance plus one unit of the last decimal.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import msgspec
import numpy as np
import pandas as pd

from qops_batsim.core.hostset import HostSet
from qops_batsim.errors import InputError
from qops_batsim.jobs import REJECTED
from qops_batsim.measures.results.result_tables import Booleans, Floats, differ, mean
from qops_batsim.measures.results.run_result import RunResult
from qops_batsim.timing import PLAN_TOLERANCE


class Value(msgspec.Struct, frozen=True):
    """One value of a job that differs between two compared runs, A and B.

    ``field`` is one of :data:`~qops_batsim.measures.results.difference.FIELDS`, or ``job``
    when only one run has the job. Values are seconds, processors or text; None for a job that
    is not in the run, or a walltime that was not requested.
    """

    field: str
    a: float | str | None
    b: float | str | None


class JobDifference(msgspec.Struct, frozen=True):
    """A job that differs between two compared runs, with the values that differ.

    ``date`` orders differences: the earlier start of the two, else the submission (seconds).
    """

    job: str
    date: float
    values: list[Value]


class DateDifference(msgspec.Struct, frozen=True):
    """How much one date (start or finish) differs between two runs: number of jobs that differ by
    more than the tolerance, largest and mean difference.

    ``largest`` and ``mean`` are of the absolute differences over all jobs that ran in both
    (seconds); None when there is none.
    """

    jobs: int
    largest: float | None
    mean: float | None


class RunDifference(msgspec.Struct, frozen=True, kw_only=True):
    """Result of comparing runs A and B: how many jobs that both have differ, and in what;
    ``only_a`` and ``only_b`` count the jobs of only one run.

    Dates closer than the ``tolerance`` (seconds), plus rounding, are equal. ``requests`` are
    processors and walltime; allocations are compared for jobs that ran in both. Mean waits are of
    the jobs that ran (seconds). ``first`` are the first differing jobs.
    """

    equal: bool
    tolerance: float
    hosts_compared: bool
    jobs_compared: int
    only_a: int
    only_b: int
    jobs_different: int
    submissions: int
    requests: int
    states: int
    allocations: int
    starts: DateDifference
    finishes: DateDifference
    mean_wait_a: float | None
    mean_wait_b: float | None
    first: list[JobDifference]


def compare_runs(
    a: RunResult,
    b: RunResult,
    *,
    tolerance: float = PLAN_TOLERANCE,
    ignore_hosts: bool = False,
    first: int = 10,
) -> RunDifference:
    """Compare two runs job by job; jobs are matched by full identifier (``"w0!15"``).

    O(n log n) in the number of jobs.

    Dates and walltimes closer than the ``tolerance`` (seconds) are equal; the rounding of the files
    comes on top. With ``ignore_hosts``, the allocated hosts are not compared. At most ``first``
    jobs are described one by one.
    """
    if not tolerance >= 0:
        raise InputError(f"tolerance is {tolerance:g}; a number of seconds from 0 up is expected")

    pair = PairedJobs(a, b)
    differs = pair.differences(tolerance, hosts=not ignore_hosts)
    different: Booleans = np.logical_or.reduce(list(differs.values()))
    unequal = different | ~pair.both

    return RunDifference(
        equal=not unequal.any(),
        tolerance=tolerance,
        hosts_compared=not ignore_hosts,
        jobs_compared=int(pair.both.sum()),
        only_a=int(pair.only_a.sum()),
        only_b=int(pair.only_b.sum()),
        jobs_different=int(different.sum()),
        submissions=int(differs["submission"].sum()),
        requests=int((differs["processors"] | differs["walltime"]).sum()),
        states=int(differs["state"].sum()),
        allocations=int(differs["hosts"].sum()),
        starts=_date_difference(pair, "start", differs["start"]),
        finishes=_date_difference(pair, "finish", differs["finish"]),
        mean_wait_a=mean(a.column("waiting_time")[a.executed]),
        mean_wait_b=mean(b.column("waiting_time")[b.executed]),
        first=_first(pair, unequal, differs, first),
    )


def _date_difference(pair: PairedJobs, field: str, differs: Booleans) -> DateDifference:
    left, right = pair.numbers(field)
    absolute = np.abs(right - left)[pair.ran]
    largest = float(absolute.max()) if len(absolute) else None
    return DateDifference(int(differs.sum()), largest, mean(absolute))


def _first(
    pair: PairedJobs, unequal: Booleans, differs: dict[str, Booleans], count: int
) -> list[JobDifference]:
    """Describe the earliest ``count`` of the jobs that the mask ``unequal`` selects, in order of
    date, then identifier.
    """
    rows = np.flatnonzero(unequal)
    chosen = rows[np.argsort(pair.dates[rows], kind="stable")][:count]
    return [
        JobDifference(pair.job(row), float(pair.dates[row]), _values(pair, row, differs))
        for row in chosen.tolist()
    ]


def _values(pair: PairedJobs, row: int, differs: dict[str, Booleans]) -> list[Value]:
    if pair.only_a[row]:
        return [Value("job", pair.value("state", 0, row), None)]
    if pair.only_b[row]:
        return [Value("job", None, pair.value("state", 1, row))]
    return [
        Value(field, pair.value(field, 0, row), pair.value(field, 1, row))
        for field, rows in differs.items()
        if rows[row]
    ]


FIELDS = {
    "state": "final_state",
    "submission": "submission_time",
    "processors": "requested_number_of_resources",
    "walltime": "requested_time",
    "start": "starting_time",
    "finish": "finish_time",
    "hosts": "allocated_resources",
}
"""Measures that are compared, with their columns in ``_jobs.csv``."""


class PairedJobs:
    """The jobs of two runs A and B side by side: one row for each job that either run has, sorted
    by identifier.

    ``both``, ``only_a`` and ``only_b`` tell which of the runs has each job, ``ran`` whether it
    ran in both; ``dates`` are the earlier start of the two, else the submission (seconds).
    """

    def __init__(self, a: RunResult, b: RunResult) -> None:
        self._runs = (a, b)
        left = _selected(a)
        right = _selected(b)
        names = ("_a", "_b")
        self._jobs = left.merge(right, how="outer", on="id", suffixes=names, indicator="origin")
        origin = self._jobs["origin"]
        self.both: Booleans = (origin == "both").to_numpy()
        self.only_a: Booleans = (origin == "left_only").to_numpy()
        self.only_b: Booleans = (origin == "right_only").to_numpy()
        rejected = (self._jobs[["state_a", "state_b"]] == REJECTED).any(axis=1).to_numpy()
        self.ran: Booleans = self.both & ~rejected
        start = np.fmin(*self.numbers("start"))
        submission = np.fmin(*self.numbers("submission"))
        self.dates: Floats = np.where(np.isnan(start), submission, start)

    def job(self, row: int) -> str:
        return str(self._jobs["id"].iat[row])

    def value(self, field: str, run: int, row: int) -> float | str | None:
        """Return a field of the job in a row, in run A (``run`` 0) or B (1); None for a walltime
        that was not requested.
        """
        value: Any = self._jobs[f"{field}_{'ab'[run]}"].iat[row]
        if isinstance(value, str):
            return value
        number = float(value)
        return None if field == "walltime" and number == -1 else number

    def numbers(self, field: str) -> tuple[Floats, Floats]:
        """Return a field's numbers in run A and in run B; NaN where that run lacks the job or the
        value.
        """
        left: Floats = self._jobs[f"{field}_a"].to_numpy(dtype=np.float64)
        right: Floats = self._jobs[f"{field}_b"].to_numpy(dtype=np.float64)
        return left, right

    def differences(self, tolerance: float, *, hosts: bool) -> dict[str, Booleans]:
        """Return, for each of :data:`FIELDS`, which jobs in both runs differ in that field.

        Dates and walltimes may be ``tolerance`` apart (seconds), and the rounding of the
        files; jobs are compared as to dates and, if ``hosts``, hosts where they ran in both.
        """
        return {
            "state": self.text_differs("state"),
            "submission": self.number_differs("submission", tolerance),
            "processors": self.number_differs("processors", 0.0),
            "walltime": self.number_differs("walltime", tolerance),
            "start": self.number_differs("start", tolerance) & self.ran,
            "finish": self.number_differs("finish", tolerance) & self.ran,
            "hosts": self.hosts_differ() if hosts else np.zeros_like(self.both),
        }

    def text_differs(self, field: str) -> Booleans:
        """Return which jobs in both runs have different texts in a field."""
        unequal: Booleans = (self._jobs[f"{field}_a"] != self._jobs[f"{field}_b"]).to_numpy()
        return unequal & self.both

    def number_differs(self, field: str, tolerance: float) -> Booleans:
        """Return which jobs in both runs have numbers in a field that differ by more than the
        tolerance and the files' rounding.
        """
        return differ(*self.numbers(field), planning=tolerance) & self.both

    def hosts_differ(self) -> Booleans:
        """Return which jobs that ran in both runs have different sets of hosts."""
        unequal = self.text_differs("hosts") & self.ran
        if unequal.any():
            # Raises an error that names the row if a text is not a set of hosts.
            _ = [each.allocations for each in self._runs]
        sets = cache(HostSet.parse)
        for row in np.flatnonzero(unequal).tolist():
            one, other = (sets(str(self.value("hosts", run, row))) for run in (0, 1))
            unequal[row] = one != other
        return unequal


def _selected(run: RunResult) -> pd.DataFrame:
    again = run.jobs["id"].duplicated().to_numpy()
    if again.any():
        job = run.jobs["id"].iloc[int(np.argmax(again))]
        raise InputError(
            f"{run.source}: job {job!r} has more than one row; one row a job is expected"
        )
    names = {column: field for field, column in FIELDS.items()}
    return run.jobs[["id", *FIELDS.values()]].rename(columns=names)
