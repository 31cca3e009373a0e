"""Predicted run times, from the last two jobs of the same user."""

from __future__ import annotations

import math

from qops_batsim.core.job import Job
from qops_batsim.timing import SHORTEST, up_to_grid

_NONE = math.nan, math.nan
"""Run times of a user of whom none is known."""


class UserPast:
    """The run times of each user's last two jobs, from which those of the user's new jobs are
    predicted.

    D. Tsafrir, Y. Etsion, D. G. Feitelson, "Backfilling using system-generated predictions rather
    than user runtime estimates", IEEE Transactions on Parallel and Distributed Systems 18 (2007).
    """

    def __init__(self) -> None:
        # Of each user: the run times of the last job and of the one before, NaN if there is none.
        self.last: dict[str | None, tuple[float, float]] = {}

    def learn(self, job: Job, run_time: float) -> None:
        """Record the run time of a job (seconds), if it names its user."""
        user = job.user
        if user is not None:
            self.last[user] = run_time, self.last.get(user, _NONE)[0]

    def expected(self, job: Job) -> float:
        """Return the predicted run time of a new job (seconds).

        As long as the last two jobs of its user did in the mean, but no longer than it asks for; as
        long as that if fewer than two have ended, or it names no user.
        """
        last, one_before = self.last.get(job.user, _NONE)
        if math.isnan(one_before):
            return job.requested
        return min(job.requested, max(up_to_grid((last + one_before) / 2.0), SHORTEST))
