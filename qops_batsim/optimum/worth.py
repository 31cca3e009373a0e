"""What jobs are worth: one each, their work, or the QoS charge that a deadline earns."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from qops_batsim.analysis.metrics.charges import reference_of_workload
from qops_batsim.analysis.metrics.outcomes import has_user_deadline
from qops_batsim.economics.charges import category_slowdowns, islam2004, served_job
from qops_batsim.optimum.problem import Floats, Ints
from qops_batsim.running.reference import easy_response_times
from qops_batsim.workload.delay_jobs import derived, jobs_until_killed
from qops_batsim.workload.model import Workload

OBJECTIVES = ("jobs", "work", "charge")
"""Number of jobs; processor-seconds; QoS charges of Islam et al. (2004) for users' deadlines."""

_WHOLE = 2**40
"""Sums of worth in whole units stay below it."""


def worth_of(workload: Workload, objective: str) -> Floats:
    """Return what each job of a workload is worth if it is admitted; O(jobs) beside an EASY run.

    The slowdowns of QoS charges come from EASY on the jobs that fit the machine.
    """
    columns = workload.columns
    if objective == "jobs":
        return np.ones(len(columns.ids))
    pairs = list(jobs_until_killed(workload))
    if objective == "work":
        return np.array([job.processors * run_time for job, run_time in pairs])
    return _charges(workload)


def _charges(workload: Workload) -> Floats:
    fits = [1 <= job.processors <= workload.processors for job in workload.jobs]
    kept = [job for job, fit in zip(workload.jobs, fits, strict=True) if fit]
    if not kept:
        return np.zeros(len(fits))
    fitting = derived(workload, kept, None, {"step": "fitting jobs"})
    references = reference_of_workload(fitting, easy_response_times(fitting))
    table = category_slowdowns(references.values())
    charges = []
    for (job, run_time), fit in zip(jobs_until_killed(workload), fits, strict=True):
        paid = 0.0
        deadline = None if job.qos is None else job.qos.deadline
        arrival = max(job.submission_time, 0.0)
        if fit and has_user_deadline(job) and deadline is not None and deadline > arrival:
            category = table.categories.label(run_time, job.processors)
            served = served_job(
                table,
                category=category,
                processors=job.processors,
                run_time=run_time,
                arrival=arrival,
                deadline=deadline,
            )
            paid = islam2004(served).qos
        charges.append(paid)
    return np.array(charges)


def in_whole_units(worth: Floats | Sequence[float]) -> tuple[Ints, float]:
    """Return worth in whole units, none rounded down, and how much a unit is.

    Whole numbers stay as they are, unless their sum is too large for a solver.
    """
    values = np.asarray(worth, np.float64)
    total = math.fsum(values)
    if (values == np.rint(values)).all() and total < _WHOLE:
        return values.astype(np.int64), 1.0
    unit = total / (_WHOLE / 2)
    return np.ceil(values / unit).astype(np.int64), unit
