"""Work of applications from their execution profiles; remaining work of stopped ones."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from qops_batsim.jobs import Job, rest_profile, restarted_id
from qops_batsim.limits import MAX_NESTING
from qops_batsim.timing import TOLD_DECIMALS, duration_on_grid


class Work(msgspec.Struct, frozen=True, kw_only=True):
    """The work of one task of an application: computation (flop), fixed time (s), data sent
    (bytes).

    Attributes
    ----------
    flop
        Computation, t_c in flop: it takes this over the host's speed.
    seconds
        What takes the same time on every host.
    sent
        Data that a task sends and receives, D_r (bytes).
    """

    flop: float = 0.0
    seconds: float = 0.0
    sent: float = 0.0

    @property
    def is_sleep(self) -> bool:
        """Return whether the work is only waiting (no computation), which sharing a host does not
        slow.
        """
        return self.flop == 0 and self.seconds > 0

    def times(self, factor: float) -> Work:
        """Return a multiple of this work."""
        return Work(flop=self.flop * factor, seconds=self.seconds * factor, sent=self.sent * factor)


Profile = Mapping[str, Any]

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


def work_of(job: Job, profiles: Mapping[str, Profile], reference_speed: float) -> Work:
    """Return the work of each task of a job, from the user's estimate, else from its profile.

    The user's estimate (``qos.estimated_runtime``) counts if there is one: run time
    alone on hosts of the reference speed (flop/s, C(m) = 1). Else it is what the
    profile says, where that is an amount of work; the time of a ``delay`` is the
    job's estimate. ``profiles`` are those of its workload, by name.
    """
    profile = profiles.get(job.profile, {})
    told = _work_in(profile, profiles, job.processors, (), {})
    estimated = None if job.qos is None else job.qos.estimated_runtime
    if told is None or profile.get("type") == "delay":
        # A sleep takes as long on every host; what does not tell its work may be one.
        return Work(seconds=job.estimate)
    if estimated is not None:
        return Work(flop=estimated * reference_speed, sent=told.sent)
    return told


def _work_in(
    profile: Profile,
    profiles: Mapping[str, Profile],
    tasks: int,
    around: tuple[str, ...],
    known: dict[str, Work | None],
) -> Work | None:
    """Return the work of each task of a profile, None if the profile does not tell it.

    Where tasks differ (``parallel``), it is the most that one of them does. The steps
    of a ``composed`` profile add up; ``around`` are those that contain this one, ``known`` is
    what others make tasks do.
    """
    kind = profile.get("type")
    if kind == "delay":
        return Work(seconds=float(profile.get("delay", 0.0)))
    if kind in ("parallel_homogeneous", "parallel_homogeneous_total"):
        share = tasks if kind.endswith("total") else 1
        others = 2 * (tasks - 1)
        return Work(
            flop=float(profile.get("cpu", 0.0)) / share,
            sent=float(profile.get("com", 0.0) or 0.0) / share * others,
        )

    if kind == "parallel":
        return Work(
            flop=float(max(profile.get("cpu") or [0.0])),
            sent=_most_sent(profile.get("com") or [], tasks),
        )

    if kind == "composed":
        total = Work()
        for name in profile.get("seq") or []:
            step = profiles.get(name)
            if step is None or name in around or len(around) >= MAX_NESTING:
                return None
            if name not in known:
                known[name] = _work_in(step, profiles, tasks, (*around, name), known)
            one = known[name]
            if one is None:
                return None
            total = Work(
                flop=total.flop + one.flop,
                seconds=total.seconds + one.seconds,
                sent=total.sent + one.sent,
            )
        return total.times(int(profile.get("repeat", 1)))

    return None


def _most_sent(matrix: list[float], tasks: int) -> float:
    """Return the most data that one task sends and receives, from bytes between tasks."""
    if len(matrix) != tasks * tasks:
        return 0.0
    return max(
        (
            sum(matrix[task * tasks : (task + 1) * tasks])
            + sum(matrix[task::tasks])
            - 2 * matrix[task * tasks + task]
            for task in range(tasks)
        ),
        default=0.0,
    )


def can_be_stopped(profile: Profile) -> bool:
    """Return whether a job with this profile can be stopped: its remaining work can be written as a
    profile.
    """
    return profile.get("type") in _AMOUNTS


def next_name(job_id: str) -> str:
    """Return the name of the job that continues a stopped one.

    Examples
    --------
    >>> next_name("w0!12"), next_name("w0!12#1")
    ('w0!12#1', 'w0!12#2')
    """
    base, mark, number = job_id.rpartition("#")
    if mark and number.isdigit():
        return restarted_id(base, int(number) + 1)
    return restarted_id(job_id, 1)


def share_done(told: float | None, predicted: float) -> float:
    """Return the share (0 to 1) of its work that a stopped job has done, as the engine told, else
    as predicted.

    Batsim tells it with six decimals, which are seconds of a job of days. So the
    prediction counts where it would be told so, else the least share that would.
    An engine that tells more decimals is believed.

    >>> share_done(0.411583, 0.4115832), share_done(0.411583, 0.4), share_done(None, 0.4)
    (0.4115832, 0.4115825, 0.4)
    """
    if told is None:
        return predicted
    if round(told, TOLD_DECIMALS) != told:
        return told
    rounding = 0.5 * 10.0**-TOLD_DECIMALS
    if abs(told - predicted) <= rounding:
        return predicted
    return max(round(told - rounding, TOLD_DECIMALS + 1), 0.0)


def remainder(
    name: str, job: Job, profile: Profile, share: float, ran: float
) -> tuple[Job, dict[str, Any]]:
    """Return the job that continues a stopped one under a new name, and its profile.

    ``share`` of its work is left, from 0 to 1, rounded up to the six decimals with which Batsim
    keeps it; the seconds that it ``ran`` shorten its walltime, if it has one.
    """
    share = min(max(share, SMALLEST_REST), 1.0)
    rest = dict(profile)
    for field in _AMOUNTS[profile["type"]]:
        amount = profile.get(field)
        if isinstance(amount, list):
            rest[field] = [each and duration_on_grid(each * share) for each in amount]
        elif amount:
            rest[field] = duration_on_grid(amount * share)

    walltime = job.walltime
    if walltime is not None:
        walltime = max(walltime - ran, SHORTEST_WALLTIME)
    profile_name = rest_profile(job.profile, name.partition("!")[2])
    left = Job(name, job.submission_time, job.processors, profile_name, walltime, job.qos)
    if "qos" in job.fields:
        left.fields["qos"] = job.fields["qos"]
    return left, rest
