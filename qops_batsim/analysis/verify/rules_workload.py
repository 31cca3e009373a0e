"""Rules that compare a run with the workload it ran."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from qops_batsim.analysis.verify.rule import DATE_TOLERANCE, Rule, Subject, Violation, violations
from qops_batsim.jobs import COMPLETED_FAILED, COMPLETED_SUCCESSFULLY, Job
from qops_batsim.workload.model import Profile


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
                    rule="workload-jobs",
                    jobs=(full,),
                    message=f"job {full!r} of {workload.source} is not in the run",
                )


def workload_fields(subject: Subject) -> Iterator[Violation]:
    """Submission time, processors and walltime are those of the workload."""
    result = subject.result
    rows, jobs, _ = _matched(subject)
    compared = {
        "submission_time": [job.submission_time for job in jobs],
        "requested_number_of_resources": [float(job.processors) for job in jobs],
        "requested_time": [-1.0 if job.walltime is None else job.walltime for job in jobs],
    }
    for column, values in compared.items():
        expected = np.full(len(result.jobs), np.nan)
        expected[rows] = values
        found = result.column(column)
        wrong = np.abs(found - expected) > DATE_TOLERANCE + 4 * np.spacing(np.abs(found))
        yield from violations(
            subject,
            "workload-fields",
            wrong,
            lambda row, column=column, found=found, expected=expected: (  # type: ignore[misc]
                f"{column} is {found[row]:.6f}, but {expected[row]:.6f} in the workload"
            ),
        )


def workload_run_time(subject: Subject) -> Iterator[Violation]:
    """A job with a delay profile runs that long, unless it was killed: then not longer."""
    result = subject.result
    rows, _, profiles = _matched(subject)
    delay = np.full(len(result.jobs), np.nan)
    delay[rows] = [p["delay"] if p["type"] == "delay" else np.nan for p in profiles]
    run_time = result.column("execution_time")
    slack = DATE_TOLERANCE + 4 * np.spacing(np.abs(result.column("finish_time")))
    complete = result.jobs["final_state"].isin((COMPLETED_SUCCESSFULLY, COMPLETED_FAILED))
    wrong = (run_time > delay + slack) | (complete.to_numpy() & (run_time < delay - slack))
    return violations(
        subject,
        "workload-run-time",
        wrong & result.executed,
        lambda row: (
            f"{result.jobs['final_state'].iloc[row]} after {run_time[row]:.6f} s, "
            f"but its profile runs {delay[row]:.6f} s"
        ),
        dates="finish_time",
    )


def _matched(subject: Subject) -> tuple[list[int], list[Job], list[Profile]]:
    """Return rows of the run with the job and the profile that the workload has for each."""
    row_of = {name: row for row, name in enumerate(subject.result.jobs["id"])}
    rows: list[int] = []
    jobs: list[Job] = []
    profiles: list[Profile] = []
    for name, workload in subject.workloads.items():
        for job in workload.jobs:
            row = row_of.get(f"{name}!{job.id}")
            if row is not None:
                rows.append(row)
                jobs.append(job)
                profiles.append(workload.profiles[job.profile])
    return rows, jobs, profiles


def _has_workload(subject: Subject) -> bool:
    return bool(subject.workloads)


RULES = (
    Rule(
        "workload-jobs",
        workload_jobs,
        _has_workload,
        "the workload",
    ),
    Rule(
        "workload-fields",
        workload_fields,
        _has_workload,
        "the workload",
    ),
    Rule(
        "workload-run-time",
        workload_run_time,
        _has_workload,
        "the workload",
    ),
)
