"""Rules about jobs that were killed and run again (``X``, then ``X#1``, ``X#2``, …)."""

from __future__ import annotations

from collections.abc import Container, Iterator

import numpy as np

from qops_batsim.analysis.results.restarts import goes_on, original_id, without_number
from qops_batsim.analysis.results.rounding import DATE_TOLERANCE, NULL_RUN_TIME, lasting, tolerance
from qops_batsim.analysis.verify.rule import Subject, Violation, rule
from qops_batsim.jobs import COMPLETED_KILLED, COMPLETED_SUCCESSFULLY, QOS_REJECTED, REJECTED
from qops_batsim.timing import PLAN_TOLERANCE, TOLD_DECIMALS

SAME = ("workload_name", "profile", "requested_number_of_resources", "requested_time")
"""What all runs of a job have in common."""

SAME_CONTINUED = ("workload_name", "requested_number_of_resources")
"""What they have in common where a run goes on with the work of the one before it."""


@rule()
def restart_identity(subject: Subject) -> Iterator[Violation]:
    """A job that is run again is the same job, and the run before it was killed earlier."""
    jobs = subject.result.jobs
    start, finish = subject.result.column("starting_time"), subject.result.column("finish_time")
    for origin, rows in _several_runs(subject).items():
        for number, row in enumerate(rows):
            name = str(jobs["id"].iloc[row])
            problem = ""
            if name != (f"{origin}#{number}" if number else origin):
                problem = f"is run {number + 1} of job {origin!r}, in order of start"
            elif number:
                before = rows[number - 1]
                same = SAME_CONTINUED if goes_on(str(jobs["profile"].iloc[row])) else SAME
                different = [
                    column for column in same if jobs[column].iloc[row] != jobs[column].iloc[before]
                ]
                slack = float(tolerance(start[[row]], finish[[before]])[0])
                if not lasting(finish[before] - start[before]):
                    slack += NULL_RUN_TIME
                if different:
                    problem = f"differs from job {origin!r} in {', '.join(different)}"
                elif jobs["final_state"].iloc[before] != COMPLETED_KILLED:
                    state = jobs["final_state"].iloc[before]
                    problem = f"is job {origin!r} run again, but the run before it is {state}"
                elif start[row] < finish[before] - slack:
                    problem = (
                        f"starts at {start[row]:.6f} s, but the run before it of job {origin!r} "
                        f"ends at {finish[before]:.6f} s"
                    )
            if problem:
                yield Violation(jobs=(name,), message=f"job {name!r} {problem}")


@rule()
def restart_complete(subject: Subject) -> Iterator[Violation]:
    """A job that was killed and run again, or promised a deadline, is run to its end.

    With a delay profile, for as long as that takes; runs that go on with the work of
    those before them take that long together, but for what the last decimal of the progress
    told of each that was killed stands for. A job may be given up, which ``_qos.csv`` then
    says: it was killed, and the hosts that it needs to be run again have gone for ever.
    """
    jobs = subject.result.jobs
    run_times = subject.result.column("execution_time")
    promised, given_up = _promised(subject), _rejected(subject)
    for origin, rows in _runs(subject).items():
        row = rows[-1]
        if len(rows) == 1 and origin not in promised:
            continue
        name, state = str(jobs["id"].iloc[row]), jobs["final_state"].iloc[row]
        together = rows if goes_on(str(jobs["profile"].iloc[row])) else [row]
        ran = float(run_times[together].sum())
        wanted, slack = subject.delays.get(origin), len(together) * DATE_TOLERANCE + PLAN_TOLERANCE
        slack += 4 * float(np.spacing(abs(ran)))
        # Those that were killed as they started are written longer than they were.
        slack += NULL_RUN_TIME * np.count_nonzero(~lasting(run_times[together]))
        slack += (len(together) - 1) * 10.0**-TOLD_DECIMALS * (wanted or 0.0)
        problem = ""
        if state == REJECTED and not given_up.isdisjoint((origin, name)):
            continue
        if state == COMPLETED_KILLED or (len(rows) > 1 and state == REJECTED):
            problem = f"is the last run of job {origin!r}, but is {state}"
        elif (
            len(rows) > 1
            and wanted is not None
            and state == COMPLETED_SUCCESSFULLY
            and abs(ran - wanted) > slack
        ):
            problem = f"runs {ran:.6f} s, but its profile {wanted:.6f} s"
        if problem:
            yield Violation(jobs=(name,), message=f"job {name!r} {problem}")


def last_runs(subject: Subject) -> dict[int, str]:
    """Return the row of each job's last run, with the identifier of the job; O(jobs)."""
    last = {row: name for name, rows in _runs(subject).items() for row in rows[-1:]}
    return dict(sorted(last.items()))


def _several_runs(subject: Subject) -> dict[str, list[int]]:
    return {name: rows for name, rows in _runs(subject).items() if len(rows) > 1}


def _runs(subject: Subject) -> dict[str, list[int]]:
    """Return the rows of each job's runs, in the order of their starts."""
    names = [str(name) for name in subject.result.jobs["id"]]
    known: Container[str] = subject.jobs
    if not subject.workloads:
        everything = set(names)
        known = {name for name in names if without_number(name) not in everything}
    start = subject.result.column("starting_time")
    runs: dict[str, list[int]] = {}
    # A second row of the same identifier is another rule's affair.
    for name, row in {name: row for row, name in enumerate(names)}.items():
        runs.setdefault(original_id(name, known) or name, []).append(row)
    for rows in runs.values():
        rows.sort(key=lambda row: (np.nan_to_num(start[row], nan=np.inf), row))
    return runs


def _rejected(subject: Subject) -> set[str]:
    qos = subject.result.qos
    return set() if qos is None else set(qos["id"][qos["decision"] == QOS_REJECTED])


def _promised(subject: Subject) -> set[str]:
    qos = subject.result.qos
    return set() if qos is None else set(qos["id"][qos["admitted_deadline"].notna()])
