"""Questions to deadline schedulers of one's own."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from qops_batsim.jobs import Job

if TYPE_CHECKING:
    from qops_batsim.scheduling.availability import AvailabilityProfile


class PlannedJob(NamedTuple):
    """An admitted job that waits.

    Attributes
    ----------
    job
        The job.
    start
        Its planned start (seconds).
    target
        By when it has to end (seconds; infinite without a deadline): its promise, or later
        if jobs that outlived their estimates have made it late.
    """

    job: Job
    start: float
    target: float


class AdmissionRequest(NamedTuple):
    """Question to a deadline scheduler about a new job.

    Attributes
    ----------
    now
        Date (seconds).
    job, target
        The new job, and by when it has to end (seconds; infinite without a deadline).
    waiting
        The admitted jobs that wait, by planned start.
    availability
        Which processors the running jobs leave free; a copy, to plan on.
    """

    now: float
    job: Job
    target: float
    waiting: list[PlannedJob]
    availability: AvailabilityProfile
