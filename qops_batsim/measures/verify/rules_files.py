"""Rules that compare ``_schedule.csv`` and ``_machine_states.csv`` with ``_jobs.csv``."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from qops_batsim.core.hostset import HostSet
from qops_batsim.jobs import COMPLETED_FAILED, COMPLETED_SUCCESSFULLY
from qops_batsim.measures.results.result_tables import (
    AVERAGED,
    DATE_TOLERANCE,
    NULL_RUN_TIME,
    Floats,
    lasting,
    tolerance,
)
from qops_batsim.measures.results.series import busy_hosts, busy_hosts_between, computing_periods
from qops_batsim.measures.verify.rule import (
    MACHINE_STATES,
    NO_OUTAGES,
    SCHEDULE,
    WORKLOAD,
    Violation,
    rule,
    violations,
)
from qops_batsim.measures.verify.subject import Subject
from qops_batsim.timing import ROUND_TRIPS

NEWS_OF_OUTAGE = 0.05
"""Time that Batsim's own message may take until a host counts as away or back (seconds).

More where the run's description tells of longer round trips, since messages wait for each other.
"""


@rule(SCHEDULE)
def schedule_counts(subject: Subject) -> Iterator[Violation]:
    """The numbers of jobs in ``_schedule.csv`` agree with ``_jobs.csv``."""
    result = subject.result
    jobs = len(result.executed)
    ran = int(result.executed.sum())
    success = int(result.ended_as(COMPLETED_SUCCESSFULLY).sum())
    expected = {
        "nb_jobs": jobs,
        "nb_jobs_finished": ran,
        "nb_jobs_success": success,
        "nb_jobs_killed": ran - success,
        "nb_jobs_rejected": jobs - ran,
        "success_rate": success / jobs if jobs else math.nan,
    }
    return _compare(subject, expected)


@rule(SCHEDULE)
def schedule_times(subject: Subject) -> Iterator[Violation]:
    """Makespan, and means and maxima of times, in ``_schedule.csv`` agree with ``_jobs.csv``."""
    result = subject.result
    jobs = len(result.executed)
    ran = result.executed
    finish = result.column("finish_time")[ran]
    expected = {"makespan": float(finish.max(initial=0.0))}

    for name, column in AVERAGED.items():
        values = result.column(column)[ran]
        if not np.isfinite(values).all():
            continue  # a stretch over a run time of 0 s spoils mean and maximum alike
        # Batsim divides by all jobs, rejected ones included.
        expected[f"mean_{name}"] = float(values.sum()) / jobs if jobs else math.nan
        expected[f"max_{name}"] = float(values.max(initial=0.0))

    return _compare(subject, expected)


@rule(SCHEDULE)
def schedule_host_time(subject: Subject) -> Iterator[Violation]:
    """The time for which hosts compute, as ``_schedule.csv`` says, agrees with ``_jobs.csv``."""
    result = subject.result
    if result.outages:
        _, begins, ends = computing_periods(result)
        periods = len(begins)
        computing = math.fsum(ends - begins)
    else:
        periods = int(result.occupancy.opened.sum())
        computing = result.occupancy.busy

    start, finish = result.columns("starting_time", "finish_time")
    # Each period adds its own rounding, and run times that Batsim made up.
    null = int(result.allocation_sizes[subject.executed & ~lasting(finish - start)].sum())
    slack = DATE_TOLERANCE * periods + NULL_RUN_TIME * null

    # Late dates are coarse, and a run time that was made up is at least a step of them.
    ran = subject.executed
    slack += 2 * float(np.dot(np.spacing(finish[ran]), result.allocation_sizes[ran]))
    if result.info is not None and result.info.message_delays is not False:
        borders = 2 * sum(len(HostSet.parse(outage.hosts)) for outage in result.outages)
        slack += max(NEWS_OF_OUTAGE, ROUND_TRIPS * result.info.round_trip) * borders

    return _compare(subject, {"time_computing": computing}, slack)


def _compare(
    subject: Subject, expected: dict[str, float], slack: float = 0.0
) -> Iterator[Violation]:
    schedule = subject.result.schedule or {}
    for column, value in expected.items():
        found = schedule.get(column)
        if found is None or (math.isnan(found) and math.isnan(value)):
            continue
        # Batsim adds up in another order and precision than we do.
        if not abs(found - value) <= DATE_TOLERANCE + slack + 1e-10 * abs(value):
            yield Violation(
                message=f"_schedule.csv says {column} {found:.6f}, the jobs say {value:.6f}"
            )


@rule(MACHINE_STATES, NO_OUTAGES)
def machine_states(subject: Subject) -> Iterator[Violation]:
    """The numbers of computing hosts in ``_machine_states.csv`` agree with ``_jobs.csv``.

    Compared is the state after all that happened at each date of the file. The
    file has six significant digits only, so real dates lie anywhere up to the
    midpoint between two dates of the file.
    """
    result = subject.result
    states = subject.result.hosts_over_time
    assert states is not None
    rows = len(states.times)
    times = states.times
    ran = int(result.executed.sum())
    if rows < 2 * ran:
        said = f"{rows} rows, but {ran} jobs started and ended: at least {2 * ran} are expected"
        yield Violation(message=f"_machine_states.csv has {said}")

    gaps = np.diff(times)
    back = np.flatnonzero(gaps < 0)
    if len(back):
        row = int(back[0]) + 1
        said = f"goes back from {times[row - 1]:g} s to {times[row]:g} s"
        yield Violation(time=float(times[row]), message=f"_machine_states.csv {said}")
        return

    if not rows:
        return

    # Dates closer than the rounding of the jobs' dates cannot be told apart.
    is_last = np.append(gaps > 2 * DATE_TOLERANCE, True)
    del gaps
    found: Floats = states.computing[is_last]
    dates = times[is_last]
    until = np.append(dates[1:], np.inf)
    until[:-1] += dates[:-1]
    until[:-1] /= 2
    by_jobs = busy_hosts(result).at(until)
    wrong = found != by_jobs

    if wrong.any():
        # What changes about then may be on either side of the midpoint.
        least, most = busy_hosts_between(result, DATE_TOLERANCE, until[wrong])
        wrong[wrong] = (found[wrong] < least) | (found[wrong] > most)

    for i in np.flatnonzero(wrong).tolist():
        said = f"says {found[i]:g} hosts compute after {dates[i]:g} s, the jobs say {by_jobs[i]:g}"
        yield Violation(time=float(dates[i]), message=f"_machine_states.csv {said}")


@rule(WORKLOAD)
def workload_jobs(subject: Subject) -> Iterator[Violation]:
    """Every job of the workload is in ``_jobs.csv``.

    Further jobs are accepted: a decision module may register some.
    """
    job_numbers = subject.job_numbers
    present = np.zeros(len(job_numbers), np.bool_)
    present[job_numbers.rows] = True
    begin = 0
    for (name, workload), columns in zip(subject.workloads.items(), subject.columns, strict=True):
        ids = columns.ids
        for index in np.flatnonzero(~present[begin : begin + len(ids)]).tolist():
            full = f"{name}!{ids[index]}"
            yield Violation(
                jobs=(full,), message=f"job {full!r} of {workload.source} is not in the run"
            )
        begin += len(ids)


@rule(WORKLOAD)
def workload_fields(subject: Subject) -> Iterator[Violation]:
    """Each job in ``_jobs.csv`` has the workload's submission time, processors and walltime."""
    for column, name in _ASKED.items():
        expected = _column(subject, subject.asked(name))
        found = subject.result.column(column)
        if column == "requested_time":
            expected[np.isinf(expected)] = -1.0  # without a walltime
        yield from violations(
            subject,
            np.abs(found - expected) > tolerance(found),
            f"{column} is {{found:.6f}}, but {{expected:.6f}} in the workload",
            found=found,
            expected=expected,
        )


_ASKED = {
    "submission_time": "submission_times",
    "requested_number_of_resources": "processors",
    "requested_time": "walltimes",
}


@rule(WORKLOAD)
def workload_run_time(subject: Subject) -> Iterator[Violation]:
    """A job with a ``delay`` profile runs for as long as the profile says; a killed job runs no
    longer than that.
    """
    result = subject.result
    delay = _column(subject, subject.delays)
    run_time, finish = result.columns("execution_time", "finish_time")
    slack = tolerance(finish)
    complete = result.ended_as(COMPLETED_SUCCESSFULLY, COMPLETED_FAILED)
    wrong = (run_time > delay + slack) & lasting(run_time)
    wrong |= complete & (run_time < delay - slack)

    return violations(
        subject,
        wrong & subject.executed,
        "{state} after {run_time:.6f} s, but its profile runs {delay:.6f} s",
        at="finish_time",
        state=result.text("final_state"),
        run_time=run_time,
        delay=delay,
    )


def _column(subject: Subject, values: Floats) -> Floats:
    """Spread values given by job number over the rows of ``_jobs.csv``; NaN unless a row is the
    last one with its identifier.
    """
    job_numbers = subject.job_numbers
    return np.where(job_numbers.latest, values[job_numbers.rows], np.nan)
