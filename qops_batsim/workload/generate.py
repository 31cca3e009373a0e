"""Making synthetic workloads: jobs of a model, users' estimates, deadlines on request."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from qops_batsim.errors import InputError
from qops_batsim.jobs import Job
from qops_batsim.limits import MAX_JOBS, MAX_PROCESSORS
from qops_batsim.workload.batsim_json import write_workload
from qops_batsim.workload.estimates import sample_estimates
from qops_batsim.workload.lublin import (
    Integers,
    random_stream,
    sample_sizes_and_run_times,
    sample_submissions,
)
from qops_batsim.workload.mixed_classes import mixed_workload
from qops_batsim.workload.model import Profile, Workload, delay_profile
from qops_batsim.workload.presets import find_preset

LOADS = (0.001, 1000.0)
"""Least and greatest offered load that can be asked for."""

# Streams of the seed (0 and 1 are sizes with run times, and arrivals).
_ESTIMATES, _DEADLINES = 2, 3


class DeadlineRule(msgspec.Struct, frozen=True, kw_only=True):
    """A simple rule that gives deadlines to generated jobs.

    A job with a deadline must end within stretch × run time of its submission, the
    stretch drawn uniformly for each job. This knows nothing of the machine's load:
    deadlines derived from a reference schedule are a matter of their own.

    Attributes
    ----------
    share
        Share of the jobs that get a deadline, from 0 to 1.
    stretch
        Least and greatest stretch, from 1 up.
    """

    share: float
    stretch: tuple[float, float] = (2.0, 10.0)


class WorkloadSummary(msgspec.Struct, frozen=True, kw_only=True):
    """A workload of delay jobs in a few numbers.

    Attributes
    ----------
    jobs
        Number of jobs.
    period
        Time from first to last submission (seconds).
    offered_load
        Sum of run time × processors over processors of the machine × period; None
        when the period is 0.
    serial_share
        Share of jobs on one processor.
    mean_run_time, mean_size
        Means (seconds, processors).
    deadlines
        Jobs with a deadline.
    killed
        Jobs whose run time reaches their walltime.
    """

    jobs: int
    period: float
    offered_load: float | None
    serial_share: float
    mean_run_time: float
    mean_size: float
    deadlines: int
    killed: int


def generate_workload(
    preset: str,
    *,
    jobs: int,
    seed: int,
    processors: int | None = None,
    load: float | None = None,
    exact_estimates: bool = False,
    deadlines: DeadlineRule | None = None,
) -> Workload:
    """Make a workload; the same arguments always make the same one.

    Jobs, estimates and deadlines come from separate streams of the seed: asking for
    exact estimates or deadlines leaves sizes, run times and submissions as they are.

    Parameters
    ----------
    preset
        Name of the parameters, one of :data:`~qops_batsim.workload.presets.PRESETS`.
    jobs
        Number of jobs.
    seed
        Any whole number from 0 up.
    processors
        Size of the machine; None: the preset's.
    load
        Offered load to bring about, by one factor on all gaps between submissions.
        None: the load of the log that the preset was fitted to, or as sampled when
        there is none or only one job is made.
    exact_estimates
        Estimates equal run times. As all jobs whose estimate is known for certain,
        these carry it in ``qos`` and have no walltime.
    deadlines
        Who gets a deadline; implies exact estimates.

    Raises
    ------
    InputError
        The preset is unknown or a number is out of range.
    """
    parameters = find_preset(preset)
    rule = deadlines if deadlines is not None and deadlines.share != 0 else None
    _check(jobs, processors, load, deadlines)
    if load is None and jobs > 1:
        load = parameters.offered_load
    model = parameters.model.for_machine(processors or parameters.model.processors)
    sizes, run_times = sample_sizes_and_run_times(model, jobs, seed)
    run_times, estimates = sample_estimates(
        parameters.estimates, run_times, random_stream(seed, _ESTIMATES)
    )
    period = None
    if load is not None:
        period = float(np.dot(sizes.astype(float), run_times)) / (model.processors * load)
    submissions = sample_submissions(model, jobs, seed, period=period)
    qos = None
    if rule is not None or exact_estimates:
        qos = _qos_requests(submissions, run_times, rule, seed)
    return _assemble(
        submissions,
        sizes,
        run_times,
        estimates,
        qos,
        processors=model.processors,
        provenance={
            "command": "workload generate",
            "preset": preset,
            "jobs": jobs,
            "seed": seed,
            "processors": model.processors,
            "offered_load": load,
            "exact_estimates": qos is not None,
            "deadlines": None if rule is None else msgspec.to_builtins(rule),
            "model": model.parameters(),
            "estimates": parameters.estimates.parameters(),
        },
    )


def summarise(workload: Workload) -> WorkloadSummary:
    """Return the summary of a workload whose profiles are all delays."""
    run_times = [float(workload.profiles[job.profile]["delay"]) for job in workload.jobs]
    sizes = [job.processors for job in workload.jobs]
    count = len(workload.jobs)
    dates = [job.submission_time for job in workload.jobs]
    period = max(dates) - min(dates)
    work = sum(run_time * size for run_time, size in zip(run_times, sizes, strict=True))
    return WorkloadSummary(
        jobs=count,
        period=period,
        offered_load=work / (workload.processors * period) if period > 0 else None,
        serial_share=sizes.count(1) / count,
        mean_run_time=sum(run_times) / count,
        mean_size=sum(sizes) / count,
        deadlines=sum(
            job.qos is not None and job.qos.deadline is not None for job in workload.jobs
        ),
        killed=sum(
            job.walltime is not None and run_time >= job.walltime
            for job, run_time in zip(workload.jobs, run_times, strict=True)
        ),
    )


def shipped_workloads() -> dict[str, Callable[[], Workload]]:
    """Return, by name, what makes each workload under ``workloads/`` again."""
    all_with_deadline, a_fifth = DeadlineRule(share=1.0), DeadlineRule(share=0.2)
    thousand = partial(generate_workload, jobs=1000, seed=1, load=0.85)
    return {
        "ctc_sp2_1000": partial(thousand, "ctc-sp2"),
        "sdsc_sp2_1000": partial(thousand, "sdsc-sp2"),
        "kth_sp2_1000": partial(thousand, "kth-sp2"),
        "sdsc_sp2_deadlines_500": partial(
            generate_workload, "sdsc-sp2", jobs=500, seed=1, load=0.9, deadlines=all_with_deadline
        ),
        "kth_sp2_mixed_500": partial(
            generate_workload, "kth-sp2", jobs=500, seed=1, load=0.9, deadlines=a_fifth
        ),
        "aroma_mixed": mixed_workload,
        "tiny_8": tiny_workload,
    }


def write_shipped_workloads(directory: str | Path) -> None:
    """Write all of :func:`shipped_workloads` as ``<name>.json`` into a directory."""
    for name, make in shipped_workloads().items():
        write_workload(make(), Path(directory) / f"{name}.json")


def tiny_workload() -> Workload:
    """Return eight hand-made jobs on four processors, for documentation.

    Two jobs start at once and leave one processor free; job 3 needs the whole
    machine and holds up the queue; job 4 is short enough to be backfilled; job 1
    ends before its walltime; job 8 runs into its walltime; four jobs have deadlines.
    """
    rows = (
        # submission, processors, run time, walltime, deadline
        (0, 2, 60, 90, None),
        (0, 1, 120, 150, 200),
        (10, 4, 60, 80, 400),
        (15, 1, 40, 60, None),
        (20, 2, 100, 200, 600),
        (30, 1, 30, 40, 90),
        (200, 3, 50, 60, None),
        (210, 1, 500, 120, None),
    )
    submissions, sizes, run_times, walltimes = (
        np.array([row[column] for row in rows], dtype=np.int64) for column in range(4)
    )
    workload = _assemble(
        submissions,
        sizes,
        run_times,
        walltimes,
        None,
        processors=4,
        provenance={"description": "eight hand-made jobs on four processors, for documentation"},
    )
    for index, (*_, deadline) in enumerate(rows):
        if deadline is not None:
            fields = workload.jobs[index].fields
            fields["qos"] = {"deadline": deadline, "has_user_deadline": True}
            workload.jobs[index] = Job.from_fields(fields, where="tiny_8")
    return workload


def _check(
    jobs: int, processors: int | None, load: float | None, deadlines: DeadlineRule | None
) -> None:
    if not 1 <= jobs <= MAX_JOBS:
        raise InputError(f"jobs is {jobs}; a whole number from 1 to {MAX_JOBS} is accepted")
    if processors is not None and not 1 <= processors <= MAX_PROCESSORS:
        raise InputError(
            f"processors is {processors}; a whole number from 1 to {MAX_PROCESSORS} is accepted"
        )
    if load is not None and not LOADS[0] <= load <= LOADS[1]:
        raise InputError(
            f"load is {load:g}; a number from {LOADS[0]:g} to {LOADS[1]:g} is accepted "
            "(0.85 keeps 85 % of the machine busy)"
        )
    if deadlines is None:
        return
    if not 0 <= deadlines.share <= 1:
        raise InputError(f"deadline share is {deadlines.share:g}; a number from 0 to 1 is accepted")
    low, high = deadlines.stretch
    if not 1 <= low <= high < math.inf:
        raise InputError(
            f"stretch is {low:g} to {high:g}; two numbers from 1 up, the smaller one first, "
            "are accepted"
        )


def _qos_requests(
    submissions: Integers, run_times: Integers, rule: DeadlineRule | None, seed: int
) -> list[dict[str, Any]]:
    """Return each job's ``qos`` object: the exact estimate, and the deadline of those chosen."""
    requests: list[dict[str, Any]] = [
        {"estimated_runtime": run_time} for run_time in run_times.tolist()
    ]
    if rule is not None:
        uniform = random_stream(seed, _DEADLINES).random((len(run_times), 2))
        low, high = rule.stretch
        stretch = low + uniform[:, 1] * (high - low)
        dates = submissions + np.ceil(stretch * run_times).astype(np.int64)
        for index in np.flatnonzero(uniform[:, 0] < rule.share).tolist():
            requests[index] = {
                "deadline": int(dates[index]),
                **requests[index],
                "has_user_deadline": True,
            }
    return requests


def _assemble(
    submissions: Integers,
    sizes: Integers,
    run_times: Integers,
    walltimes: Integers,
    qos: list[dict[str, Any]] | None,
    *,
    processors: int,
    provenance: dict[str, Any],
) -> Workload:
    """Return the workload of these columns; walltimes are left out where there is ``qos``."""
    jobs: list[Job] = []
    profiles: dict[str, Profile] = {}
    columns = zip(
        submissions.tolist(), sizes.tolist(), run_times.tolist(), walltimes.tolist(), strict=True
    )
    for index, (submission, size, run_time, walltime) in enumerate(columns):
        name, profile = delay_profile(run_time)
        profiles[name] = profile
        fields: dict[str, Any] = {
            "id": str(index + 1),
            "subtime": submission,
            "res": size,
            "profile": name,
        }
        if qos is None:
            fields["walltime"] = walltime
        else:
            fields["qos"] = qos[index]
        jobs.append(Job.from_fields(fields, where="generated workload"))
    return Workload(
        jobs=jobs,
        profiles=profiles,
        processors=processors,
        provenance=provenance,
        source="a generated workload",
    )
