"""Final states of jobs, and the names of jobs that are run again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from qops_batsim.core.job import Job as Job
from qops_batsim.core.job import WrittenFields as WrittenFields
from qops_batsim.errors import InputError, shown
from qops_batsim.job_fields import QOS_CLASSES as QOS_CLASSES
from qops_batsim.job_fields import QosRequest as QosRequest
from qops_batsim.timing import on_grid

NOT_SUBMITTED = "NOT_SUBMITTED"
SUBMITTED = "SUBMITTED"
RUNNING = "RUNNING"
COMPLETED_SUCCESSFULLY = "COMPLETED_SUCCESSFULLY"
COMPLETED_FAILED = "COMPLETED_FAILED"
COMPLETED_WALLTIME_REACHED = "COMPLETED_WALLTIME_REACHED"
COMPLETED_KILLED = "COMPLETED_KILLED"
REJECTED = "REJECTED"
FINAL_STATES = (
    COMPLETED_SUCCESSFULLY,
    COMPLETED_FAILED,
    COMPLETED_WALLTIME_REACHED,
    COMPLETED_KILLED,
    REJECTED,
)
"""States in which a job is left, by Batsim's names."""

QOS_ACCEPTED = "accepted"
QOS_REJECTED = "rejected"
"""Decisions in ``_qos.csv``."""


def restarted_id(job_id: str, number: int) -> str:
    """Return the id of a job's run after ``number`` restarts; for 0, the submitted id."""
    return f"{job_id}#{number}" if number else job_id


def rest_of(job: Job, new_id: str, saved: float) -> Job:
    """Return the job that repeats a killed one, its run time shorter by ``saved`` seconds."""
    if saved == 0:
        return job.renamed(new_id)
    profile = rest_profile(job.profile, new_id.partition("!")[2])
    walltime = job.walltime
    qos = job.qos
    if walltime is not None:
        walltime = on_grid(walltime - saved)
    if qos is not None and qos.estimated_runtime is not None:
        rest = on_grid(qos.estimated_runtime - saved)
        qos = msgspec.structs.replace(qos, estimated_runtime=rest)

    asked = job.submission_time, job.processors, profile, walltime, qos
    kept = {name: told for name, told in job.fields.items() if name != "extra_data"}
    fields = {**kept, **Job(new_id, *asked, hosts_asked=job.hosts_asked).fields}
    return Job(new_id, *asked, fields, job.hosts_asked)


def rest_profile(profile: str, local_id: str) -> str:
    """Return the name of the profile of a restarted job: the part of ``profile`` not done yet."""
    # As AROMA's: so what is read back is seen to go on.
    return f"{profile.partition('#')[0]}#{local_id}"


def rest_of_delay(profile: Mapping[str, Any], saved: float) -> dict[str, Any]:
    """Return the profile of the rest of a sleeping job, of which ``saved`` seconds are done."""
    return {**profile, "delay": on_grid(float(profile["delay"]) - saved)}


def check_resumable(job: Job, profile: Mapping[str, Any]) -> None:
    """Raise an InputError if a job with checkpoints cannot be resumed part-way: it must sleep."""
    assert job.qos is not None
    kind = profile.get("type")
    if kind != "delay":
        told = "unknown" if kind is None else f"of type {shown(kind)}"
        raise InputError(
            f"job {job.id}: qos.checkpoint is {job.qos.checkpoint:g}, but its execution "
            f"profile {shown(job.profile)} is {told}; with the option kill_and_restart, a job "
            "with checkpoints needs a profile of type 'delay'"
        )
