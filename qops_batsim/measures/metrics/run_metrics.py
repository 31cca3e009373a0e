"""Metrics of a run, each defined in ``docs/metrics.md``.

Unless said otherwise they are about executed jobs: those that ran, whether they
succeeded, failed or were killed, but not rejected ones. A job that was killed and run
again is one job: its last run tells how it ended.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import msgspec
import numpy as np

from qops_batsim.arguments import NUMBER, WHOLE, takes
from qops_batsim.errors import InputError
from qops_batsim.jobs import (
    COMPLETED_FAILED,
    COMPLETED_KILLED,
    COMPLETED_SUCCESSFULLY,
    COMPLETED_WALLTIME_REACHED,
    FINAL_STATES,
    REJECTED,
)
from qops_batsim.measures.metrics.outcomes import (
    DeadlineMetrics,
    PromiseCounts,
    deadlines_of_run,
)
from qops_batsim.measures.results.result_tables import Floats, is_continuation, original_id
from qops_batsim.measures.results.run_result import (
    RUN,
    Run,
    RunResult,
    load_run,
    workloads_with_deadlines,
)
from qops_batsim.measures.results.series import StepSeries, busy_hosts, queue_length, window
from qops_batsim.workload.workload_model import Workload

BOUNDED_SLOWDOWN_THRESHOLD = 10.0
"""Default run time under which a job's slowdown is bounded (seconds)."""


class SampleSummary(msgspec.Struct, frozen=True, kw_only=True):
    """Mean, median, 95th percentile and maximum of a sample, all None if the sample is empty."""

    mean: float | None
    median: float | None
    p95: float | None
    max: float | None


class Metrics(msgspec.Struct, frozen=True, kw_only=True):
    """The metrics of one run, each defined in ``docs/metrics.md``.

    Jobs are counted in all and by final state; ``jobs_killed`` are those that the scheduler killed
    for good, ``runs_killed`` its killed runs of jobs that were run again or went on later. Over
    executed jobs: waiting and turnaround time (seconds); the slowdown, turnaround time / run time
    where that is not 0; the bounded slowdown, max(1, turnaround time / max(run time, threshold)),
    with the threshold in seconds.

    The makespan is the date of the last completion (seconds from date 0), as Batsim defines it. The
    values after it are of the window from first submission to last completion (seconds): the shares
    of the hosts' time, from 0 to 1, that they ran a job and that they idled while jobs waited, and
    the numbers of waiting jobs (mean weighted by time).

    ``deadlines`` tells what became of those that users asked for, ``promises`` how many promises
    (of deadlines or latest starts, to any job) were given and broken; None where none is known of.
    Jobs that left the queue because their users cancelled them count as ``jobs_cancelled``, which
    is left out where there are none, and are neither rejected nor asked for a deadline.
    """

    hosts: int
    jobs_submitted: int
    jobs_successful: int
    jobs_walltime_killed: int
    jobs_killed: int
    jobs_failed: int
    jobs_rejected: int
    runs_killed: int
    waiting_time: SampleSummary
    turnaround_time: SampleSummary
    slowdown: SampleSummary
    bounded_slowdown: SampleSummary
    bounded_slowdown_threshold: float
    makespan: float | None
    window_begin: float | None
    window_end: float | None
    utilization: float | None
    loss_of_capacity: float | None
    queue_length_mean: float | None
    queue_length_max: int | None
    deadlines: DeadlineMetrics | None = None
    promises: PromiseCounts | None = None
    jobs_cancelled: int | msgspec.UnsetType = msgspec.UNSET


@takes(run=RUN, hosts=WHOLE.optional, bounded_slowdown_threshold=NUMBER)
def metrics(
    run: Run,
    *,
    hosts: int | None = None,
    bounded_slowdown_threshold: float = BOUNDED_SLOWDOWN_THRESHOLD,
) -> dict[str, Any]:
    """Return the metrics of a run by name, as ``qops-batsim metrics --json`` prints them.

    Parameters
    ----------
    run
        Prefix, directory or ``_jobs.csv`` of a run, or the run itself.
    hosts
        Number of hosts of the machine, if the files do not have it.
    bounded_slowdown_threshold
        Shorter run times count as this in the bounded slowdown (seconds).

    Returns
    -------
    dict
        Times in seconds, shares from 0 to 1; None where no job counts.

    Raises
    ------
    InputError
        If the run cannot be read.

    Examples
    --------
    >>> from qops_batsim import run
    >>> metrics(run("easy", "tiny_8", out="out/tiny"))["waiting_time"]["mean"]
    46.875
    """
    result = load_run(run, hosts=hosts)
    workloads, _ = workloads_with_deadlines(result)
    found = compute_metrics(
        result, workloads, bounded_slowdown_threshold=bounded_slowdown_threshold
    )
    values: dict[str, Any] = msgspec.to_builtins(found)
    return values


def compute_metrics(
    result: RunResult,
    workloads: Mapping[str, Workload] | None = None,
    *,
    bounded_slowdown_threshold: float = BOUNDED_SLOWDOWN_THRESHOLD,
) -> Metrics:
    """Compute the metrics of a run; O(n log n) in its jobs and their hosts.

    ``workloads`` are those that were run, by name (``"w0"``); without them, no deadlines are
    counted. Run times below the threshold (seconds) count as this in the bounded slowdown.
    """
    if not 0 < bounded_slowdown_threshold < float("inf"):
        raise InputError(
            f"bounded slowdown threshold is {bounded_slowdown_threshold}; "
            "a number of seconds above 0 is expected"
        )
    last = result.last_runs
    ran = result.executed & last
    counts = np.bincount(result.table.states[last], minlength=len(FINAL_STATES))
    ended = dict(zip(FINAL_STATES, counts.tolist(), strict=True))
    waiting, turnaround, run_time, stretch = (each[ran] for each in _times(result))
    begin, end = window(result)
    some = end > begin
    deadlines, promises = deadlines_of_run(result, workloads or {})
    busy, queue = busy_hosts(result), queue_length(result)
    return Metrics(
        hosts=result.hosts,
        jobs_submitted=int(last.sum()),
        jobs_successful=ended[COMPLETED_SUCCESSFULLY],
        jobs_walltime_killed=ended[COMPLETED_WALLTIME_REACHED],
        jobs_killed=ended[COMPLETED_KILLED],
        jobs_failed=ended[COMPLETED_FAILED],
        jobs_rejected=ended[REJECTED] - len(result.cancelled),
        runs_killed=len(result.earlier_runs),
        waiting_time=summarize(waiting),
        turnaround_time=summarize(turnaround),
        # The stretch was divided before rounding, so it is exact for short jobs too.
        slowdown=summarize(stretch[np.isfinite(stretch)]),
        bounded_slowdown=summarize(
            bounded_slowdown(turnaround, run_time, bounded_slowdown_threshold)
        ),
        bounded_slowdown_threshold=bounded_slowdown_threshold,
        makespan=float(result.column("finish_time")[ran].max()) if ran.any() else None,
        window_begin=begin if some else None,
        window_end=end if some else None,
        utilization=utilization(busy, result.hosts, begin, end) if some else None,
        loss_of_capacity=loss_of_capacity(busy, queue, result.hosts, begin, end) if some else None,
        queue_length_mean=queue.integral(begin, end) / (end - begin) if some else None,
        queue_length_max=round(queue.maximum(begin, end)) if some else None,
        deadlines=deadlines,
        promises=promises,
        jobs_cancelled=len(result.cancelled) or msgspec.UNSET,
    )


def _times(result: RunResult) -> tuple[Floats, Floats, Floats, Floats]:
    """Return waiting, turnaround and run time (seconds) and slowdown of each row of ``_jobs.csv``;
    the runs of a job that was stopped and continued count together.

    A job that goes on where it was stopped waited only for its first run, and ran as
    long as all its runs together; one that was killed, for its last one, and ran as long as that
    and what was saved of those before it.
    """
    names = ("waiting_time", "turnaround_time", "execution_time", "stretch")
    waiting, turnaround, run_time, stretch = (result.column(name).copy() for name in names)
    profiles, earlier = result.text("profile"), result.earlier_runs
    processors = result.column("requested_number_of_resources")
    rests = [row for row in earlier.keys() - earlier.values() if is_continuation(profiles[row])]
    qos = result.decisions if rests else None
    wasted = (
        {}
        if qos is None
        else dict(zip(qos.ids, qos.numbers("wasted_processor_seconds").tolist(), strict=True))
    )
    for row in rests:
        lost, runs = wasted.get(original_id(result.ids[row], wasted) or "", math.nan), [row]
        was_killed = not math.isnan(lost)
        while runs[-1] in earlier and (was_killed or is_continuation(profiles[runs[-1]])):
            runs.append(earlier[runs[-1]])
        ran = run_time[runs].sum()
        if was_killed:
            ran -= lost / processors[row]
        else:
            waiting[row] = waiting[runs[-1]]
        run_time[row] = ran
        stretch[row] = turnaround[row] / ran if ran > 0 else np.nan
    return waiting, turnaround, run_time, stretch


def summarize(values: Floats) -> SampleSummary:
    """Return mean, median, 95th percentile (linear interpolation) and maximum of the values."""
    if not len(values):
        return SampleSummary(mean=None, median=None, p95=None, max=None)
    median, p95 = np.percentile(values, (50, 95))
    return SampleSummary(
        mean=float(values.mean()), median=float(median), p95=float(p95), max=float(values.max())
    )


def bounded_slowdown(turnaround: Floats, run_time: Floats, threshold: float) -> Floats:
    """Return max(1, turnaround / max(run time, threshold)) of each job (all in seconds).

    Feitelson and Rudolph, "Metrics and benchmarking for parallel job scheduling", JSSPP 1998.
    """
    return np.maximum(1.0, turnaround / np.maximum(run_time, threshold))


def utilization(busy: StepSeries, hosts: int, begin: float, end: float) -> float:
    """Return the share of the hosts' time between two dates in which they were busy."""
    return busy.integral(begin, end) / (hosts * (end - begin))


def loss_of_capacity(
    busy: StepSeries, queue: StepSeries, hosts: int, begin: float, end: float
) -> float:
    """Return the share of the hosts' time between two dates in which they idled while jobs waited.

    With dates t_i of all starts, ends and submissions, e_i idle hosts and δ_i = 1 if a job waits
    between t_i and t_{i+1} (else 0): Σ e_i δ_i (t_{i+1} − t_i) / (hosts × (end − begin)).

    Zhang, Franke, Moreira and Sivasubramaniam, "An integrated approach to parallel scheduling using
    gang-scheduling, backfilling, and migration", IEEE Transactions on Parallel and Distributed
    Systems 14(3), 2003, for space sharing.
    """
    inside = np.concatenate([busy.dates, queue.dates])
    inside = inside[(inside > begin) & (inside < end)]
    dates = np.unique(np.concatenate([[begin, end], inside]))
    idle = hosts - busy.at(dates[:-1])
    waiting = queue.at(dates[:-1]) > 0
    return float((idle * waiting * np.diff(dates)).sum() / (hosts * (end - begin)))
