"""Workloads of delay jobs that run exactly as long as is estimated, job by job."""

from __future__ import annotations

from qops_batsim import Job, QosRequest
from qops_batsim.workload import Workload, delay_profile


def job(
    name: str,
    arrival: float,
    processors: int,
    run_time: float,
    deadline: float | None = None,
    checkpoint: float | None = None,
    *,
    factor: float | None = None,
) -> Job:
    """Return a job; ``factor`` says how much later an offer may be."""
    qos = QosRequest(
        deadline=deadline,
        estimated_runtime=run_time,
        checkpoint=checkpoint,
        tolerance_factor=factor,
    )
    return Job(name, arrival, processors, delay_profile(run_time)[0], qos=qos)


def workload_of(machine: int, jobs: list[Job]) -> Workload:
    profiles = dict(delay_profile(job.estimate) for job in jobs)
    return Workload(jobs=jobs, profiles=profiles, processors=machine)
