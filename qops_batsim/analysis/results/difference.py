"""Comparing two runs job by job, ours or real Batsim's.

Dates in the files are rounded to six decimals, so two dates count as equal up to
a tolerance plus one unit of the last decimal. What network latency does to dates
is explained in :mod:`~qops_batsim.analysis.results.paired_jobs`.
"""

from __future__ import annotations

import msgspec
import numpy as np

from qops_batsim.analysis.results.paired_jobs import PairedJobs
from qops_batsim.analysis.results.run import RunResult
from qops_batsim.analysis.results.tables import Booleans, mean
from qops_batsim.errors import InputError
from qops_batsim.timing import PLAN_TOLERANCE


class Value(msgspec.Struct, frozen=True):
    """One thing in which a job differs, with its values in runs A and B.

    ``field`` is one of :data:`~qops_batsim.analysis.results.paired_jobs.FIELDS`, or ``job``
    when only one run has the job. Values are seconds, processors or text; None for a job that
    is not in the run, or a walltime that was not requested.
    """

    field: str
    a: float | str | None
    b: float | str | None


class JobDifference(msgspec.Struct, frozen=True):
    """A job that differs in at least one value.

    ``date`` orders differences: the earlier start of the two, else the submission (seconds).
    ``latency`` tells whether network latency explains the differences.
    """

    job: str
    date: float
    values: list[Value]
    latency: bool


class DateDifference(msgspec.Struct, frozen=True):
    """How many jobs that ran in both runs differ in a date by more than the tolerance.

    ``largest`` and ``mean`` are of the absolute differences over all jobs that ran in both
    (seconds); None when there is none.
    """

    jobs: int
    largest: float | None
    mean: float | None


class RunDifference(msgspec.Struct, frozen=True, kw_only=True):
    """How two runs, A and B, differ; all numbers but ``only_a`` and ``only_b`` are of shared jobs.

    ``equal`` means that no job differs, apart from shifts that were accepted; ``jobs_latency`` are
    those of ``jobs_different`` whose differences are consistent with network latency. Dates closer
    than the ``tolerance`` (seconds), plus rounding, are equal. ``requests`` are processors and
    walltime; allocations are compared for jobs that ran in both. Mean waits are of the jobs that
    ran (seconds). ``first`` are the first differing jobs, those with accepted shifts left out.
    """

    equal: bool
    tolerance: float
    latency_accepted: bool
    hosts_compared: bool
    jobs_compared: int
    only_a: int
    only_b: int
    jobs_different: int
    jobs_latency: int
    submissions: int
    requests: int
    states: int
    allocations: int
    starts: DateDifference
    finishes: DateDifference
    mean_wait_a: float | None
    mean_wait_b: float | None
    first: list[JobDifference]

    @property
    def only_latency(self) -> bool:
        """Whether the runs differ, but only in what network latency explains."""
        missing = self.only_a + self.only_b
        return 0 < self.jobs_different == self.jobs_latency and not missing


def compare_runs(
    a: RunResult,
    b: RunResult,
    *,
    tolerance: float = PLAN_TOLERANCE,
    accept_latency: bool = False,
    ignore_hosts: bool = False,
    first: int = 10,
) -> RunDifference:
    """Compare two runs job by job; jobs are the same when their full identifiers are.

    O(n log n) in the number of jobs.

    Dates and walltimes closer than the ``tolerance`` (seconds) are equal; the rounding of the files
    comes on top. With ``accept_latency``, so are jobs whose differences are consistent with network
    latency. At most ``first`` jobs are described one by one.
    """
    if not tolerance >= 0:
        raise InputError(f"tolerance is {tolerance:g}; a number of seconds from 0 up is expected")
    pair = PairedJobs(a, b)
    differs = pair.differences(tolerance, hosts=not ignore_hosts)
    different: Booleans = np.logical_or.reduce(list(differs.values()))
    exact = differs["state"] | differs["processors"] | differs["walltime"] | differs["hosts"]
    latency = different & pair.shifted_by_latency(~exact)
    refused = (different & ~latency if accept_latency else different) | ~pair.both
    return RunDifference(
        equal=not refused.any(),
        tolerance=tolerance,
        latency_accepted=accept_latency,
        hosts_compared=not ignore_hosts,
        jobs_compared=int(pair.both.sum()),
        only_a=int(pair.only_a.sum()),
        only_b=int(pair.only_b.sum()),
        jobs_different=int(different.sum()),
        jobs_latency=int(latency.sum()),
        submissions=int(differs["submission"].sum()),
        requests=int((differs["processors"] | differs["walltime"]).sum()),
        states=int(differs["state"].sum()),
        allocations=int(differs["hosts"].sum()),
        starts=_date_difference(pair, "start", differs["start"]),
        finishes=_date_difference(pair, "finish", differs["finish"]),
        mean_wait_a=mean(a.column("waiting_time")[a.executed]),
        mean_wait_b=mean(b.column("waiting_time")[b.executed]),
        first=_first(pair, refused, differs, latency, first),
    )


def _date_difference(pair: PairedJobs, field: str, differs: Booleans) -> DateDifference:
    left, right = pair.numbers(field)
    absolute = np.abs(right - left)[pair.ran]
    largest = float(absolute.max()) if len(absolute) else None
    return DateDifference(int(differs.sum()), largest, mean(absolute))


def _first(
    pair: PairedJobs, refused: Booleans, differs: dict[str, Booleans], latency: Booleans, count: int
) -> list[JobDifference]:
    """Describe the first ``count`` refused jobs in the order of their dates, then identifiers."""
    rows = np.flatnonzero(refused)
    chosen = rows[np.argsort(pair.dates[rows], kind="stable")][:count]
    return [
        JobDifference(
            pair.job(row), float(pair.dates[row]), _values(pair, row, differs), bool(latency[row])
        )
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
