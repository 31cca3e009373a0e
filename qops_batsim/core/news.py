"""Late news of an engine, and how planners use it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from qops_batsim.jobs import Job
from qops_batsim.timing import GRACE, GRID_TOLERANCE, PLAN_TOLERANCE

LATE = 2 * PLAN_TOLERANCE
"""Lateness (seconds) that rounding two dates to microseconds cannot make of news on time."""


class News:
    """How late an engine's messages report events; once any came late, planners tolerate delays up
    to the grace.

    On a platform with latencies Batsim's own messages take time: submissions and ends are
    reported late, starts take effect late. Without latencies nothing is late, so plans do not
    depend on the grace there.

    Parameters
    ----------
    grace
        Lateness up to which news changes no plan (seconds).
    profiles
        Execution profiles by workload and name, as far as announced.

    Attributes
    ----------
    late, lag
        Whether any news was seen to be late, and by how much at most (seconds).
    tolerance
        By how much an event may be reported later than planned without changing the plan
        (seconds): the grace if news is late, else what rounding may make of dates.
    """

    def __init__(
        self,
        grace: float = GRACE,
        profiles: Mapping[str, Mapping[str, Mapping[str, Any]]] | None = None,
    ) -> None:
        self.grace = float(grace)
        self.late = False
        self.lag = 0.0
        self.tolerance = GRID_TOLERANCE
        self._profiles = profiles or {}

    @classmethod
    def of(
        cls,
        options: object,
        profiles: Mapping[str, Mapping[str, Mapping[str, Any]]] | None = None,
    ) -> News:
        """Return a new object with the option ``grace`` of a scheduler, or the default grace if it
        has none.
        """
        return cls(getattr(options, "grace", GRACE), profiles)

    def submitted(self, job: Job, now: float) -> float:
        """Return how late (seconds) a submission is reported at ``now``; 0 if on time or at least
        the grace.

        A delay of at least the grace is not one of messages: the job was submitted late then.
        """
        # What was submitted before the simulation is told at its beginning.
        lag = now - max(job.submission_time, 0.0)
        if not _threshold(now) < lag < self.grace:
            return 0.0
        self.mark_late()
        self.lag = max(self.lag, lag)
        return lag

    def ended(self, job: Job, start: float, now: float) -> None:
        """Mark news as late if a job's end is reported, at ``now``, after its longest possible run
        time (seconds).

        The estimate is no such limit; the walltime is, and so is the length of a delay profile.
        """
        run_time = now - start
        if _threshold(now) < run_time - self._longest(job) < self.grace:
            self.mark_late()

    def reachable(self, date: float, now: float, decisions: int) -> float:
        """Return the date (seconds) for a requested call: ``date``, or later if the request would
        arrive after it.

        Batsim aborts on a request for a date that is over. The request travels behind the other
        ``decisions`` of the message and behind messages of hosts, which may take longer.
        """
        return max(date, now + 4 * (decisions + 8) * self.lag) if self.late else date

    @property
    def most_lag(self) -> float:
        """Greatest delay (seconds) of a start that changes no plan: half the grace if news is late.

        The other half of the grace is for the report of the job's end.
        """
        return self.grace / 2 if self.late else GRID_TOLERANCE

    def under_way(self, *, in_parts: bool) -> float:
        """Return how long ago (seconds) an end may have happened that has not been reported yet.

        ``in_parts``: the events of one date may come in several messages even if news is on time.
        """
        if self.late:
            return self.grace
        return GRID_TOLERANCE if in_parts else 0.0

    def mark_late(self) -> None:
        """Set that the engine's news is late: delays up to the grace are tolerated from now on."""
        self.late = True
        self.tolerance = max(self.grace, GRID_TOLERANCE)

    def _longest(self, job: Job) -> float:
        profile = self._profiles.get(job.id.partition("!")[0], {}).get(job.profile, {})
        known = [job.walltime] if job.walltime is not None else []
        if profile.get("type") == "delay" and isinstance(profile.get("delay"), (int, float)):
            known.append(float(profile["delay"]))
        return min(known, default=math.inf)


class Hearing:
    """Collects submissions and ends since the last decision, to find out whether news is late.


    Attributes
    ----------
    is_of_use
        Whether events need to be collected: as long as no news was seen to be late.
    newest
        The job that was submitted last.
    ended
        Jobs that have left their hosts, and when they started (seconds).
    """

    def __init__(self, news: News) -> None:
        self._news = news
        self.is_of_use = True
        self.newest: Job | None = None
        self.ended: list[tuple[Job, float]] = []

    def judge(self, now: float) -> None:
        """Find out from the collected events whether the engine's news is late, at the date ``now``
        (seconds).
        """
        newest = self.newest
        if newest is not None:
            self.newest = None
            if now - newest.submission_time > LATE:
                self._news.submitted(newest, now)
        if self.ended:
            for job, start in self.ended:
                if now - start > job.estimate + LATE:
                    self._news.ended(job, start, now)
            self.ended.clear()
        self.is_of_use = not self._news.late


def _threshold(now: float) -> float:
    """Return the lateness (seconds) up to which news counts as on time, since dates are rounded."""
    return LATE + now * 2.0**-50
