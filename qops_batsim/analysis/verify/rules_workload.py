"""Rules that compare a run with the workload it ran."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from qops_batsim.analysis.results.rounding import DATE_TOLERANCE, lasting
from qops_batsim.analysis.results.tables import Floats
from qops_batsim.analysis.verify.rule import WORKLOAD, Subject, Violation, rule, violations
from qops_batsim.jobs import COMPLETED_FAILED, COMPLETED_SUCCESSFULLY


@rule(WORKLOAD)
def workload_jobs(subject: Subject) -> Iterator[Violation]:
    """Every job of the workload is in ``_jobs.csv``.

    Further jobs are accepted: a decision module may register some.
    """
    identities = subject.identities
    present = np.zeros(len(identities), np.bool_)
    present[identities.rows] = True
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
    """Submission time, processors and walltime are those of the workload."""
    for column, name in _ASKED.items():
        expected, found = _column(subject, subject.asked(name)), subject.result.column(column)
        if column == "requested_time":
            expected[np.isinf(expected)] = -1.0  # without a walltime
        yield from violations(
            subject,
            np.abs(found - expected) > _slack(found),
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
    """A job with a delay profile runs that long, unless it was killed: then not longer."""
    result = subject.result
    delay = _column(subject, subject.delays)
    run_time, finish = result.columns("execution_time", "finish_time")
    slack = _slack(finish)
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
    """Return values by number of the job as a column: NaN for earlier rows of the same job."""
    identities = subject.identities
    return np.where(identities.latest, values[identities.rows], np.nan)


def _slack(dates: Floats) -> Floats:
    return DATE_TOLERANCE + 4 * np.spacing(np.abs(dates))
