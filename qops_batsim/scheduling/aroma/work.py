"""What an application has to do, from its execution profile and its user's estimate."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from qops_batsim.jobs import Job
from qops_batsim.scheduling.aroma.application import Work

Profiles = Mapping[str, Mapping[str, Any]]


def work_of(job: Job, profiles: Profiles, reference_speed: float) -> Work:
    """Return what each task of a job has to do.

    The user's estimate (``qos.estimated_runtime``) counts if there is one: run time
    alone on hosts of the reference speed. Else it is what the profile says, where
    that is an amount of work; the time of a ``delay`` is the job's estimate.

    Parameters
    ----------
    job
        The job.
    profiles
        The profiles of its workload, by name.
    reference_speed
        Speed of hosts with C(m) = 1 (flop/s).
    """
    profile = profiles.get(job.profile, {})
    told = work_in(profile, profiles, job.processors)
    estimated = None if job.qos is None else job.qos.estimated_runtime
    if told is None or profile.get("type") == "delay":
        # A sleep takes as long on every host, and nobody knows what else would not.
        return Work(seconds=job.estimate)
    if estimated is not None:
        return Work(flop=estimated * reference_speed, sent=told.sent)
    return told


def work_in(profile: Mapping[str, Any], profiles: Profiles, tasks: int) -> Work | None:
    """Return what a profile makes each of so many tasks do; None where it does not tell.

    Where tasks differ (``parallel``), it is the most that one of them does. The steps
    of a ``composed`` profile add up.
    """
    return _work_in(profile, profiles, tasks, ())


def _work_in(
    profile: Mapping[str, Any], profiles: Profiles, tasks: int, around: tuple[str, ...]
) -> Work | None:
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
            if step is None or name in around:
                return None
            one = _work_in(step, profiles, tasks, (*around, name))
            if one is None:
                return None
            total = Work(
                flop=total.flop + one.flop,
                seconds=total.seconds + one.seconds,
                sent=total.sent + one.sent,
            )
        repeat = int(profile.get("repeat", 1))
        return Work(
            flop=total.flop * repeat, seconds=total.seconds * repeat, sent=total.sent * repeat
        )
    return None


def _most_sent(matrix: list[float], tasks: int) -> float:
    """Return the most that one task sends and receives (bytes)."""
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
