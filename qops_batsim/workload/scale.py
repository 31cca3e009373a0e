"""Workloads with another load (Islam et al. 2003, section 4.2), and parts of workloads.

A load is relative: 1.2 offers a fifth more work. *Duplication* submits some jobs again, and with
one seed the workloads nest: that of load 1.6 holds all jobs of that of load 1.4, with the same
submissions. *Expansion* multiplies run times.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count, islice
from operator import attrgetter
from typing import Any

import numpy as np

from qops_batsim.errors import InputError, require_one_of, shown
from qops_batsim.jobs import Job
from qops_batsim.limits import MAX_LOAD, MIN_EXPANSION
from qops_batsim.workload.delay_jobs import ProfileTable, changed_job, derived, run_times
from qops_batsim.workload.lublin import random_stream
from qops_batsim.workload.workload_model import Workload, plain_number, stretch_of

METHODS = ("duplication", "expansion")

# A stream of the seed that the generator of workloads does not use.
_DUPLICATES = 16

_submission = attrgetter("submission_time")

_DECIMALS = 6
"""Decimals of expanded run times (seconds): Batsim sends dates with as many."""


def scale_load(
    workload: Workload,
    load: float,
    *,
    method: str = "duplication",
    seed: int = 1,
    same_time: bool = False,
) -> Workload:
    """Return the workload with its work multiplied by ``load``: by duplicating jobs, or by longer
    run times. Jobs are sorted by submission.

    Relative loads go from 1 for duplication, from 0.01 for expansion, up to 100.

    By ``"duplication"`` a random sample of (load - 1) × jobs, rounded to the nearest whole
    number, is submitted again. No job gets a second duplicate before every job has one. The
    n-th duplicate of job ``15`` is ``15d<n>``, and its ``qos.origin`` is ``15``; a deadline moves
    with the submission. That is random (by ``seed``), uniform between first and last submission,
    and a whole second if all are; or the original's with ``same_time`` (Islam et al. 2004).

    By ``"expansion"`` run times, walltimes and estimates are multiplied by the load and rounded
    to microseconds.

    Examples
    --------
    >>> from qops_batsim.workload.batsim_json import read_workload
    >>> [job.id for job in scale_load(read_workload("tiny_8"), 1.25).jobs]
    ['1', '2', '3', '4', '5', '2d1', '6', '7d1', '7', '8']
    """
    require_one_of("method", method, METHODS)
    least = 1.0 if method == "duplication" else MIN_EXPANSION
    if not least <= load <= MAX_LOAD:
        raise InputError(
            f"load is {load:g}; with method {method}, a number from {least:g} to {MAX_LOAD:g} is "
            "accepted (1.2 offers 20 % more work)"
        )

    if method == "expansion" and same_time:
        raise InputError(
            "same time is given with method expansion; it is for method duplication, whose "
            "duplicates it submits with their originals"
        )

    step: dict[str, Any] = {"step": "scale", "load": plain_number(load), "method": method}
    if method == "expansion":
        return _expanded(workload, load, step)
    step |= {"seed": seed, "same_time": same_time}
    return _with_duplicates(workload, load, seed, same_time, step)


def origin_of_duplicate(job: Job) -> str | None:
    """Return the id of the job that :func:`scale_load` duplicated, or None."""
    if job.qos is None or job.qos.origin is None:
        return None
    origin, _, number = job.id.rpartition("d")
    return origin if origin == job.qos.origin and number.isdecimal() else None


def originals(workload: Workload) -> Workload:
    """Return the workload without duplicates, as it was before :func:`scale_load` made them."""
    jobs = [job for job in workload.jobs if origin_of_duplicate(job) is None]
    return derived(workload, jobs, None, {"step": "without duplicates"})


def _with_duplicates(
    workload: Workload, load: float, seed: int, same_time: bool, step: dict[str, Any]
) -> Workload:
    run_times(workload)  # refuses what has none
    jobs = sorted(workload.jobs, key=_submission)
    ids = {job.id for job in jobs}
    for job in jobs:
        origin = origin_of_duplicate(job)
        if origin is not None:
            raise InputError(
                f"{workload.source}: job {shown(job.id)} is a duplicate of {shown(origin)}; "
                "scale the original workload, without duplicates, instead"
            )

    wanted = round((load - 1) * len(jobs))
    duplicates = []
    for job, number, submission in islice(_sample(jobs, seed), wanted):
        new_id = f"{job.id}d{number}"
        if new_id in ids:
            raise InputError(
                f"{workload.source}: job id {shown(new_id)} is needed for a duplicate of "
                f"{shown(job.id)}, but a job has it; rename that job"
            )
        if same_time:
            submission = job.submission_time
        fields = {"id": new_id, "subtime": plain_number(submission)}
        qos: dict[str, Any] = {"origin": job.id}
        if job.qos is not None and job.qos.deadline is not None:
            qos["deadline"] = plain_number(job.qos.deadline + submission - job.submission_time)
        duplicates.append(changed_job(job, fields, qos, workload=workload))
    # Sorting is stable: at one date, originals come before duplicates at every load.
    ordered = sorted([*jobs, *duplicates], key=_submission)
    return derived(workload, ordered, None, {**step, "duplicates": wanted})


def _sample(jobs: list[Job], seed: int) -> Iterator[tuple[Job, int, float]]:
    """Yield jobs to duplicate, without end, as (job, how often it was drawn, submission of the
    duplicate).

    What comes first does not depend on how much is taken, so loads nest.
    """
    random = random_stream(seed, _DUPLICATES)
    submissions = np.array([job.submission_time for job in jobs])
    begin = float(submissions[0])
    period = float(submissions[-1]) - begin
    whole = bool((submissions == np.floor(submissions)).all())
    for number in count(1):
        order = np.argsort(random.random(len(jobs)), kind="stable").tolist()
        positions = random.random(len(jobs))
        moments = np.floor(positions * (period + 1)) if whole else positions * period
        for index, moment in zip(order, (begin + moments).tolist(), strict=True):
            yield jobs[index], number, moment


def _expanded(workload: Workload, load: float, step: dict[str, Any]) -> Workload:
    def times(seconds: float | None) -> float | int | None:
        if seconds is None:
            return None
        # Nothing may last no time at all.
        return plain_number(max(round(seconds * load, _DECIMALS), 10**-_DECIMALS))

    profiles = ProfileTable(workload.profiles)
    jobs = []
    for job, seconds in zip(workload.jobs, run_times(workload), strict=True):
        if job.qos is not None and job.qos.deadline is not None:
            raise InputError(
                f"{workload.source}: job {shown(job.id)} has a deadline, which does not fit "
                "the longer job; jobs without deadlines are expected (first scale the "
                "load, then set deadlines)"
            )

        fields: dict[str, Any] = {"profile": profiles.name(job.profile, times(seconds) or 0.0)}
        if job.walltime is not None:
            fields["walltime"] = times(job.walltime)
        estimate = None if job.qos is None else job.qos.estimated_runtime
        qos = {} if estimate is None else {"estimated_runtime": times(estimate)}
        jobs.append(changed_job(job, fields, qos, workload=workload))
    jobs.sort(key=_submission)
    return derived(workload, jobs, profiles.new, step)


PAPER_JOBS = 5000
"""Jobs of the subsets in Islam et al. (2003), section 4.1."""


def subset(workload: Workload, *, first: int | None = None, skip: int = 0) -> Workload:
    """Return a workload of ``first`` jobs of this one in order of submission, after ``skip``
    others.

    Jobs with equal submissions keep the order of the file. Dates stay as they are.

    Parameters
    ----------
    workload
        Any workload.
    first
        How many jobs to take; None: all.
    skip
        How many jobs to leave out before these.

    Raises
    ------
    InputError
        If there are fewer jobs.

    Examples
    --------
    >>> from qops_batsim.workload.batsim_json import read_workload
    >>> [job.id for job in subset(read_workload("tiny_8"), first=2, skip=3).jobs]
    ['4', '5']
    """
    place = stretch_of(workload.source, len(workload.jobs), skip, first)
    jobs = sorted(workload.jobs, key=_submission)[place]
    step = {"step": "subset", "skip": skip, "first": first, "jobs": len(jobs)}
    return derived(workload, jobs, None, step)
