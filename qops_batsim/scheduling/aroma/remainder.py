"""The remaining work of a stopped job as a job of its own, which the engine can run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from qops_batsim.jobs import Job
from qops_batsim.protocol.decisions import RegisterJob, RegisterProfile

_AMOUNTS = {
    "delay": ("delay",),
    "parallel_homogeneous": ("cpu", "com"),
    "parallel_homogeneous_total": ("cpu", "com"),
    "parallel": ("cpu", "com"),
}

SMALLEST_REST = 1e-9
"""Share of the work that a remainder has at least: nothing at all could not run."""

SHORTEST_WALLTIME = 1e-6
"""Least walltime of a remainder (s): 0 is none."""


def can_be_stopped(profile: Mapping[str, Any]) -> bool:
    """Tell whether the rest of a profile can be expressed as a profile."""
    return profile.get("type") in _AMOUNTS


def next_name(job_id: str) -> str:
    """Return the name of a job's remainder.

    Examples
    --------
    >>> next_name("w0!12"), next_name("w0!12#1")
    ('w0!12#1', 'w0!12#2')
    """
    base, mark, number = job_id.rpartition("#")
    if mark and number.isdigit():
        return f"{base}#{int(number) + 1}"
    return f"{job_id}#1"


def remainder(
    name: str, job: Job, profile: Mapping[str, Any], share: float, ran: float
) -> tuple[RegisterProfile, RegisterJob]:
    """Return what registers the rest of a job.

    Parameters
    ----------
    name
        Full identifier of the rest.
    job
        The job that was stopped.
    profile
        What it executed.
    share
        Share of its work that is left, from 0 to 1.
    ran
        For how long it ran (s); its walltime, if any, is shortened by that.
    """
    share = min(max(share, SMALLEST_REST), 1.0)
    rest = dict(profile)
    for field in _AMOUNTS[profile["type"]]:
        amount = profile.get(field)
        if isinstance(amount, list):
            rest[field] = [each * share for each in amount]
        elif amount:
            rest[field] = amount * share
    workload, _, local_name = name.partition("!")
    profile_name = f"{job.profile.partition('#')[0]}#{local_name}"
    fields: dict[str, Any] = {
        "id": name,
        "subtime": job.submission_time,
        "res": job.processors,
        "profile": profile_name,
    }
    walltime = None
    if job.walltime is not None:
        fields["walltime"] = walltime = max(job.walltime - ran, SHORTEST_WALLTIME)
    if "qos" in job.fields:
        fields["qos"] = job.fields["qos"]
    registered = Job(
        name, job.submission_time, job.processors, profile_name, walltime, job.qos, fields
    )
    return RegisterProfile(workload, profile_name, rest), RegisterJob(name, registered)
