"""Workloads of delay jobs with deadlines and exact estimates, from rows of numbers."""

from __future__ import annotations

from qops_batsim import Job, QosRequest
from qops_batsim.workload import Workload, delay_profile

Row = tuple[float, int, float, float | None]
"""Submission (s), processors, run time (s), deadline (s)."""


def workload_of(rows: list[Row], processors: int) -> Workload:
    jobs, profiles = [], {}
    for number, (submission, needed, run_time, deadline) in enumerate(rows):
        name, profiles[name] = delay_profile(run_time)
        qos = QosRequest(deadline=deadline, estimated_runtime=run_time)
        jobs.append(Job(str(number), submission, needed, name, qos=qos))
    return Workload(jobs=jobs, profiles=profiles, processors=processors)
