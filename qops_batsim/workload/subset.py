"""A stretch of a workload: so many jobs in the order of their submission."""

from __future__ import annotations

from qops_batsim.errors import InputError
from qops_batsim.workload.delay_jobs import derived
from qops_batsim.workload.model import Workload, check_counts

PAPER_JOBS = 5000
"""Jobs of the subsets in Islam et al. (2003), section 4.1."""


def subset(workload: Workload, *, first: int | None = PAPER_JOBS, skip: int = 0) -> Workload:
    """Return some consecutive jobs of a workload, sorted by submission.

    They are the ``first`` jobs, or as many as there are (None: all), after ``skip`` others.
    Jobs with equal submissions keep the order of the file. Dates stay as they are.

    Examples
    --------
    >>> from qops_batsim.workload.generate import tiny_workload
    >>> [job.id for job in subset(tiny_workload(), first=2, skip=3).jobs]
    ['4', '5']
    """
    check_counts(skip, first)
    ordered = sorted(workload.jobs, key=lambda job: job.submission_time)
    jobs = ordered[skip : None if first is None else skip + first]
    if not jobs:
        raise InputError(
            f"{workload.source}: skip is {skip}, but the workload holds {len(ordered)} jobs; "
            "a smaller number, and at least one job, is expected"
        )
    step = {"step": "subset", "skip": skip, "first": first, "jobs": len(jobs)}
    return derived(workload, jobs, None, step)
