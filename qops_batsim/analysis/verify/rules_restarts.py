"""Rules about jobs that were killed and run again (``X``, then ``X#1``, ``X#2``, …)."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from qops_batsim.analysis.results.restarts import goes_on
from qops_batsim.analysis.results.rounding import DATE_TOLERANCE, NULL_RUN_TIME, lasting, tolerance
from qops_batsim.analysis.results.tables import DECISIONS, Booleans
from qops_batsim.analysis.verify.rule import Subject, Violation, rule
from qops_batsim.jobs import COMPLETED_KILLED, COMPLETED_SUCCESSFULLY, QOS_REJECTED, REJECTED
from qops_batsim.timing import PLAN_TOLERANCE, TOLD_DECIMALS


@rule()
def restart_identity(subject: Subject) -> Iterator[Violation]:
    """A job that is run again is the same job, and the run before it was killed earlier."""
    result, identities = subject.result, subject.identities
    start, finish = result.columns("starting_time", "finish_time")
    for rows in identities.runs(identities.several):
        origin = identities.name(int(identities.owners[rows[0]]))
        for number, row in enumerate(rows):
            name = result.id(row)
            problem = ""
            if name != (f"{origin}#{number}" if number else origin):
                problem = f"is run {number + 1} of job {origin!r}, in order of start"
            elif number:
                before = rows[number - 1]
                different = _differing(subject, before, row)
                slack = float(tolerance(start[[row]], finish[[before]])[0])
                if not lasting(finish[before] - start[before]):
                    slack += NULL_RUN_TIME
                if different:
                    problem = f"differs from job {origin!r} in {', '.join(different)}"
                elif (state := result.text("final_state")[before]) != COMPLETED_KILLED:
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
    result, identities = subject.result, subject.identities
    run_times = result.column("execution_time")
    promised, given_up = _marked(subject)
    killed = np.zeros(len(identities), np.bool_)
    killed[identities.owners] = result.ended_as(COMPLETED_KILLED)
    for rows in identities.runs(identities.several | (promised & killed)):
        row = rows[-1]
        job = int(identities.owners[row])
        if len(rows) == 1 and not promised[job]:
            continue
        name, origin = result.id(row), identities.name(job)
        state = result.text("final_state")[row]
        together = rows if goes_on(result.text("profile")[row]) else [row]
        ran = float(run_times[together].sum())
        wanted = float(subject.delays[job])
        slack = len(together) * DATE_TOLERANCE + PLAN_TOLERANCE
        slack += 4 * float(np.spacing(abs(ran)))
        # Those that were killed as they started are written longer than they were.
        slack += NULL_RUN_TIME * np.count_nonzero(~lasting(run_times[together]))
        slack += (len(together) - 1) * 10.0**-TOLD_DECIMALS * np.nan_to_num(wanted)
        problem = ""
        if state == REJECTED and (given_up[job] or given_up[identities.rows[row]]):
            continue
        if state == COMPLETED_KILLED or (len(rows) > 1 and state == REJECTED):
            problem = f"is the last run of job {origin!r}, but is {state}"
        elif (
            len(rows) > 1
            and state == COMPLETED_SUCCESSFULLY
            and abs(ran - wanted) > slack  # which nothing is without a delay profile
        ):
            problem = f"runs {ran:.6f} s, but its profile {wanted:.6f} s"
        if problem:
            yield Violation(jobs=(name,), message=f"job {name!r} {problem}")


def _differing(subject: Subject, before: int, row: int) -> list[str]:
    """Return in which columns two runs of a job differ that should not."""
    result = subject.result
    continued = goes_on(result.text("profile")[row])
    texts = ["workload_name", "profile"][: 1 if continued else 2]
    numbers = ["requested_number_of_resources", "requested_time"][: 1 if continued else 2]
    return [
        *(name for name in texts if result.text(name)[row] != result.text(name)[before]),
        *(name for name in numbers if result.column(name)[row] != result.column(name)[before]),
    ]


def _marked(subject: Subject) -> tuple[Booleans, Booleans]:
    """Return which jobs, by number, ``_qos.csv`` promises a deadline, and which it rejects."""
    promised, rejected = np.zeros((2, len(subject.identities)), np.bool_)
    qos = subject.result.decisions
    if qos is not None:
        numbers = subject.identities.qos
        promised[numbers[~np.isnan(qos.admitted_deadlines)]] = True
        rejected[numbers[qos.decisions == DECISIONS.index(QOS_REJECTED)]] = True
    return promised, rejected
