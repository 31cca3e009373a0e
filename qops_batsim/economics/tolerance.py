"""Users' tolerance: which later deadlines they accept when theirs cannot be met.

Islam et al. (2004), section 6: a user takes an offered deadline if it is not more than a
factor, the tolerance factor TF, later than the requested one, both counted from the
arrival of the job: offered − arrival ≤ TF × (requested − arrival).
"""

from __future__ import annotations

import math
import random
from typing import Protocol

from qops_batsim.core.job import Job
from qops_batsim.errors import InputError


class Tolerance(Protocol):
    """Decides whether a user accepts a later deadline: any function of a job and an offered
    deadline.
    """

    def __call__(self, job: Job, offered: float) -> bool:
        """Return whether the job's user accepts the offered deadline (a date in seconds)."""


class FactorTolerance:
    """Users who accept a later deadline if it grants at most ``factor`` times the response time
    that they asked for ("Fixed TF" in section 6.1 of Islam et al. 2004).

    ``factor``, from 0 up, is that of users in general; the factor that a job brings along,
    ``qos.tolerance_factor``, goes before.
    """

    def __init__(self, factor: float) -> None:
        if not factor >= 0:
            raise InputError(f"tolerance factor is {factor}; a number from 0 up is accepted")
        self.factor = factor

    def factor_of(self, job: Job) -> float:
        """Return the tolerance factor of a job's user: longest accepted response time / response
        time asked for.
        """
        own = None if job.qos is None else job.qos.tolerance_factor
        return self.general_factor(job.id) if own is None else own

    def general_factor(self, job_id: str) -> float:
        """Return the tolerance factor of the user of a job that brings none along."""
        return self.factor

    def __call__(self, job: Job, offered: float) -> bool:
        """Return whether the job's user accepts the offered deadline (a date in seconds)."""
        if job.deadline == math.inf:
            return True
        return offered - job.arrival <= self.factor_of(job) * (job.deadline - job.arrival)


class RandomTolerance(FactorTolerance):
    """Users whose tolerance factors are drawn at random ("Random TF" in section 6.1 of Islam et al.
    2004).

    It is uniform between 0 and 2 × ``factor``, the mean, and follows from the seed and the
    job's identifier alone: equal in every run, whatever the order of the jobs, and growing
    with ``factor``, so that scenarios can be compared job by job.
    """

    def __init__(self, factor: float, seed: int = 0) -> None:
        super().__init__(factor)
        self.seed = seed

    def general_factor(self, job_id: str) -> float:
        return 2.0 * self.factor * random.Random(f"{self.seed}:{job_id}").random()
