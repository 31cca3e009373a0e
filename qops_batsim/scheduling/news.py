"""Late news of an engine, and how planners use it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec

from qops_batsim.jobs import Job
from qops_batsim.platform.network import longest_round_trip
from qops_batsim.platform.platform_model import Platform
from qops_batsim.timing import GRACE, GRID_TOLERANCE, PLAN_TOLERANCE, least_grace

Options = TypeVar("Options", bound=msgspec.Struct)

LATE = 2 * PLAN_TOLERANCE
"""Lateness (seconds) that rounding two dates to microseconds cannot make of news on time."""


class News:
    """Lateness of an engine's news; schedulers use the grace once any news has been late.

    On a platform with latencies Batsim's own messages take their time: a submission is
    told late, a start takes effect late, an end is told late. Without latencies nothing
    ever is, so plans do not depend on the grace there.

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
        By how much what is told may come later than planned without being late (seconds):
        the grace if news is late, else what rounding may make of dates.
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
        """Return a new object with the grace of a scheduler's options, else with the default."""
        return cls(getattr(options, "grace", GRACE), profiles)

    def submitted(self, job: Job, now: float) -> float:
        """Return the time (seconds) since a job was submitted whose submission is reported now.

        0 unless that is less than the grace: what is later is no news of a message's delay.
        """
        # What was submitted before the simulation is told at its beginning.
        lag = now - max(job.submission_time, 0.0)
        if not _threshold(now) < lag < self.grace:
            return 0.0
        self.mark_late()
        self.lag = max(self.lag, lag)
        return lag

    def ended(self, job: Job, start: float, now: float) -> None:
        """Learn from the news that a job has ended, given its start and the date of now (seconds).

        A job that runs longer than its estimate says nothing; nothing runs longer than its
        walltime, or than the delay that it is.
        """
        run_time = now - start
        if _threshold(now) < run_time - self._longest(job) < self.grace:
            self.mark_late()

    def reachable(self, date: float, now: float, decisions: int) -> float:
        """Return a date (seconds), or a later one if the engine would hear of it too late.

        To ask for a call at a date that is over is an error. It waits on its way behind the
        decisions before it, and behind news from hosts, which may take longer than that of jobs.
        """
        return max(date, now + 4 * (decisions + 8) * self.lag) if self.late else date

    @property
    def most_lag(self) -> float:
        """Greatest lateness of a start that still counts as planned (seconds).

        Half the grace: the other half is for the news of its end.
        """
        return self.grace / 2 if self.late else GRID_TOLERANCE

    def under_way(self, *, in_parts: bool) -> float:
        """Return the age of the oldest end whose news may still be under way (seconds).

        That of one date may be told ``in_parts`` though none is late.
        """
        if self.late:
            return self.grace
        return GRID_TOLERANCE if in_parts else 0.0

    def mark_late(self) -> None:
        """Use the grace from now on."""
        self.late = True
        self.tolerance = max(self.grace, GRID_TOLERANCE)

    def _longest(self, job: Job) -> float:
        """Return the longest possible run time of a job (seconds); infinite if unknown."""
        profile = self._profiles.get(job.id.partition("!")[0], {}).get(job.profile, {})
        known = [job.walltime] if job.walltime is not None else []
        if profile.get("type") == "delay" and isinstance(profile.get("delay"), (int, float)):
            known.append(float(profile["delay"]))
        return min(known, default=math.inf)


class Hearing:
    """Events since the last decision, from which late news is recognised.

    Usually everything is on time, and nothing can be told from that.

    Attributes
    ----------
    is_of_use
        Whether it is to be told anything: as long as no news was seen to be late.
    newest
        The job that was submitted last.
    ended
        Jobs that have left their hosts, and when they started (seconds).
    """

    def __init__(self, news: News) -> None:
        self._news, self.is_of_use = news, True
        self.newest: Job | None = None
        self.ended: list[tuple[Job, float]] = []

    def judge(self, now: float) -> None:
        """Judge from the events whether news is late, at the date of a decision (seconds)."""
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


def with_least_grace(options: Options, platform: Platform) -> Options:
    """Return a scheduler's options with the platform's least grace as default.

    A grace that is not the default is the user's, and stays.
    """
    if getattr(options, "grace", None) != GRACE:
        return options
    least = least_grace(longest_round_trip(platform))
    return options if least == GRACE else msgspec.structs.replace(options, grace=least)


def _threshold(now: float) -> float:
    """Return the least lateness that is more than rounding (seconds)."""
    return LATE + now * 2.0**-50
