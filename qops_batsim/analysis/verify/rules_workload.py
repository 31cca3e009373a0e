"""Rules that compare a run with the workload it ran."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import numpy as np

from qops_batsim.analysis.results.rounding import DATE_TOLERANCE
from qops_batsim.analysis.results.tables import Floats
from qops_batsim.analysis.verify.rule import WORKLOAD, Subject, Violation, rule, violations
from qops_batsim.jobs import COMPLETED_FAILED, COMPLETED_SUCCESSFULLY, Job


@rule(WORKLOAD)
def workload_jobs(subject: Subject) -> Iterator[Violation]:
    """Every job of the workload is in ``_jobs.csv``.

    Further jobs are accepted: a decision module may register some.
    """
    known = set(subject.result.jobs["id"])
    for name, workload in subject.workloads.items():
        for job in workload.jobs:
            full = f"{name}!{job.id}"
            if full not in known:
                yield Violation(
                    jobs=(full,), message=f"job {full!r} of {workload.source} is not in the run"
                )


@rule(WORKLOAD)
def workload_fields(subject: Subject) -> Iterator[Violation]:
    """Submission time, processors and walltime are those of the workload."""
    for column, asked in _ASKED.items():
        values = {name: asked(job) for name, job in subject.jobs.items()}
        expected, found = _column(subject, values), subject.result.column(column)
        yield from violations(
            subject,
            np.abs(found - expected) > _slack(found),
            f"{column} is {{found:.6f}}, but {{expected:.6f}} in the workload",
            found=found,
            expected=expected,
        )


_ASKED: dict[str, Callable[[Job], float]] = {
    "submission_time": lambda job: job.submission_time,
    "requested_number_of_resources": lambda job: job.processors,
    "requested_time": lambda job: -1.0 if job.walltime is None else job.walltime,
}


@rule(WORKLOAD)
def workload_run_time(subject: Subject) -> Iterator[Violation]:
    """A job with a delay profile runs that long, unless it was killed: then not longer."""
    result = subject.result
    delay = _column(subject, subject.delays)
    run_time, finish = result.columns("execution_time", "finish_time")
    slack = _slack(finish)
    complete = result.ended_as(COMPLETED_SUCCESSFULLY, COMPLETED_FAILED)
    wrong = (run_time > delay + slack) | (complete & (run_time < delay - slack))
    return violations(
        subject,
        wrong & subject.executed,
        "{state} after {run_time:.6f} s, but its profile runs {delay:.6f} s",
        at="finish_time",
        state=result.jobs["final_state"].to_numpy(),
        run_time=run_time,
        delay=delay,
    )


def _column(subject: Subject, values: Mapping[str, float]) -> Floats:
    """Return values by full identifier as a column: NaN for jobs without, and further rows."""
    jobs = subject.result.jobs["id"]
    column = np.array([values.get(name, np.nan) for name in jobs], dtype=np.float64)
    column[jobs.duplicated(keep="last").to_numpy()] = np.nan
    return column


def _slack(dates: Floats) -> Floats:
    return DATE_TOLERANCE + 4 * np.spacing(np.abs(dates))
