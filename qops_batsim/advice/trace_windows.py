"""What of a trace is simulated: jobs that can be promised something, in windows."""

from __future__ import annotations

import math

import msgspec

from qops_batsim.errors import InputError
from qops_batsim.workload.deadlines import without_deadlines
from qops_batsim.workload.delay_jobs import changed_job, derived, exact_estimates
from qops_batsim.workload.model import Workload, plain_number


class Window(msgspec.Struct, frozen=True, kw_only=True):
    """A stretch of a trace, in jobs by submission; its number seeds what is drawn."""

    number: int
    skip: int
    jobs: int


def choose_windows(jobs: int, windows: int | None = None, size: int | None = None) -> list[Window]:
    """Return windows spread evenly over so many jobs.

    By default a trace of fewer than 6,000 jobs is one window, others are three to five, of 5,000
    jobs at most: three are needed for an interval.
    """
    if windows is None:
        windows = min(5, jobs // 2000) if size is None else min(5, jobs // size)
        windows = windows if windows >= 3 else 1
    windows = max(1, min(windows, jobs))
    room = jobs // windows
    size = min(room, size or (5000 if windows > 1 or jobs > 10_000 else jobs))
    return [
        Window(number=number + 1, skip=number * room + (room - size) // 2, jobs=size)
        for number in range(windows)
    ]


class Prepared(msgspec.Struct, frozen=True, kw_only=True):
    """A trace of which every job can be promised something.

    Of its jobs ``unfit`` were left out, which ask for more processors than the machine has, or for
    none; ``lacking`` had no estimate, and ``deadlines`` of their own were not looked at. The
    ``longest`` estimate of all (seconds) is what jobs without one get; where no job has one it is
    None, and estimates are exact.
    """

    workload: Workload
    unfit: int
    deadlines: int
    lacking: int
    longest: float | None


def prepare(workload: Workload) -> Prepared:
    """Return a trace with an estimate for each job, without any deadline."""
    deadlines = sum(job.qos is not None and job.qos.deadline is not None for job in workload.jobs)
    if deadlines:
        workload = without_deadlines(workload)
    fit = [job for job in workload.jobs if 1 <= job.processors <= workload.processors]
    unfit = len(workload.jobs) - len(fit)
    if not fit:
        raise InputError(
            f"{workload.source}: no job fits the {workload.processors} processors; at least one is "
            "expected"
        )
    if unfit:
        workload = derived(workload, fit, None, {"step": "jobs that fit", "left_out": unfit})
    lacking = sum(job.estimate == math.inf for job in workload.jobs)
    longest = max((j.estimate for j in workload.jobs if j.estimate < math.inf), default=None)
    if longest is None:
        workload = exact_estimates(workload)
    elif lacking:
        workload = _with_longest(workload, longest, lacking)
    return Prepared(
        workload=workload, unfit=unfit, deadlines=deadlines, lacking=lacking, longest=longest
    )


def _with_longest(workload: Workload, longest: float, lacking: int) -> Workload:
    jobs = [
        changed_job(job, {}, {"estimated_runtime": plain_number(longest)}, workload=workload)
        if job.estimate == math.inf
        else job
        for job in workload.jobs
    ]
    step = {"step": "estimates", "jobs": lacking, "estimated_runtime": longest}
    return derived(workload, jobs, None, step)
