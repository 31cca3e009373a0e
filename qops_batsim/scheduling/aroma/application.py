"""Applications: class of service, work by execution profile, and what is left of a stopped one."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import msgspec

from qops_batsim.jobs import QOS_CLASSES, Job
from qops_batsim.limits import MAX_NESTING
from qops_batsim.protocol.decisions import RegisterJob, RegisterProfile
from qops_batsim.timing import TOLD_DECIMALS, duration_on_grid

DEADLINE, HIGH_PRIORITY, DEDICATED, BEST_EFFORT = QOS_CLASSES

RANKS = {name: rank for rank, name in enumerate(QOS_CLASSES)}
"""Classes in order of importance; the most important has rank 0."""


class Work(msgspec.Struct, frozen=True, kw_only=True):
    """Work of each task of an application.

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
        """Tell whether nothing of it is computation, so that sharing a host would not slow it."""
        return self.flop == 0 and self.seconds > 0

    def times(self, factor: float) -> Work:
        """Return so many times this work."""
        return Work(flop=self.flop * factor, seconds=self.seconds * factor, sent=self.sent * factor)


class Application(msgspec.Struct, eq=False):
    """A job to map: as many tasks as it asks for processors, which start together.

    Attributes
    ----------
    service_class
        One of :data:`~qops_batsim.jobs.QOS_CLASSES`.
    arrival
        Number in the order of submission.
    exclusive
        Whether no other application may be on its hosts.
    deadline, latest_start
        Latest end and latest start that have to be guaranteed (s); infinite without.
    only_hosts
        Hosts on which it has to go on (a stopped application), or None.
    known
        Whether the engine knows the job, so that it can start.
    rank
        Importance of the class; 0 is the most important.
    walltime
        How long it may run before it is killed (s); infinite without a walltime.
    memory
        Memory that a task uses (bytes).
    others
        The other jobs of the same application (``qos.application``), each of which
        starts by itself; they are accepted or refused together with this one.
    """

    job: Job
    service_class: str
    work: Work
    arrival: int
    exclusive: bool = False
    deadline: float = math.inf
    latest_start: float = math.inf
    only_hosts: tuple[int, ...] | None = None
    known: bool = True
    rank: int = 0
    walltime: float = math.inf
    memory: float = 0.0
    others: list[Application] = []

    def __post_init__(self) -> None:
        self.rank = RANKS[self.service_class]
        self.exclusive = self.exclusive or self.service_class == DEDICATED
        if self.job.walltime is not None:
            self.walltime = self.job.walltime
        if self.job.qos is not None and self.job.qos.memory is not None:
            self.memory = self.job.qos.memory

    @property
    def name(self) -> str:
        """Name that the jobs of one application have in common."""
        named = None if self.job.qos is None else self.job.qos.application
        return f"job {self.job.id}" if named is None else f"application {named}"

    @property
    def may_be_refused(self) -> bool:
        """Tell whether it asks for a date that may be impossible."""
        return min(self.deadline, self.latest_start) < math.inf

    @property
    def parts(self) -> list[Application]:
        """All jobs of the application, in the order of submission."""
        return [self, *self.others]

    @property
    def tasks(self) -> int:
        """Number of tasks, one host each."""
        return self.job.processors

    def is_like(self, other: Application) -> bool:
        """Tell whether both ask for the same, so that one fits nowhere where the other did not."""
        return all(
            getattr(self, field) == getattr(other, field)
            for field in (
                "service_class", "exclusive", "work", "tasks", "memory", "deadline",
                "latest_start", "walltime", "only_hosts",
            )
        )  # fmt: skip

    def rest(self, name: str, left: float, ran: float, hosts: tuple[int, ...]) -> Application:
        """Return what goes on of it after a stop, on the same hosts (section 3.1, "Mapping").

        Parameters
        ----------
        name
            Identifier of the job by which it goes on, which the engine does not know yet.
        left
            Share of its work that is left.
        ran
            For how long it ran (s).
        """
        rest = Application(
            self.job.renamed(name),
            self.service_class,
            self.work.times(left),
            self.arrival,
            exclusive=self.exclusive,
            only_hosts=hosts,
            known=False,
        )
        rest.walltime = max(self.walltime - ran, 0.0)
        return rest


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
    """Return what each task of a job has to do.

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
    """Return what a profile makes each of so many tasks do; None where it does not tell.

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


def can_be_stopped(profile: Profile) -> bool:
    """Tell whether the rest of a profile can be expressed as a profile."""
    return profile.get("type") in _AMOUNTS


def next_name(job_id: str) -> str:
    """Return the name of a job's remainder.

    Examples
    --------
    >>> next_name("w0!12"), next_name("w0!12#1")
    ('w0!12#1', 'w0!12#2')
    """
    base, mark, number = job_id.rpartition("#")
    if mark and number.isdigit():
        return f"{base}#{int(number) + 1}"
    return f"{job_id}#1"


def share_done(told: float | None, predicted: float) -> float:
    """Return which share of its work a stopped job has done, from 0 to 1.

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
) -> tuple[RegisterProfile, RegisterJob]:
    """Return what registers the rest of a stopped job under a name.

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
    workload, _, local_name = name.partition("!")
    profile_name = f"{job.profile.partition('#')[0]}#{local_name}"
    fields: dict[str, Any] = {
        "id": name,
        "subtime": job.submission_time,
        "res": job.processors,
        "profile": profile_name,
    }
    walltime = None
    if job.walltime is not None:
        fields["walltime"] = walltime = max(job.walltime - ran, SHORTEST_WALLTIME)
    if "qos" in job.fields:
        fields["qos"] = job.fields["qos"]
    registered = Job(
        name, job.submission_time, job.processors, profile_name, walltime, job.qos, fields
    )
    return RegisterProfile(workload, profile_name, rest), RegisterJob(name, registered)
