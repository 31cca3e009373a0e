"""What AROMA knows of an application: its class of service and its work."""

from __future__ import annotations

import math

import msgspec

from qops_batsim.jobs import QOS_CLASSES, Job

DEADLINE, HIGH_PRIORITY, DEDICATED, BEST_EFFORT = QOS_CLASSES

RANKS = {name: rank for rank, name in enumerate(QOS_CLASSES)}
"""Classes in order of importance; the most important has rank 0."""


class Work(msgspec.Struct, frozen=True, kw_only=True):
    """What each task of an application has to do.

    Attributes
    ----------
    flop
        Computation, t_c in flop: it takes this over the host's speed.
    seconds
        What takes the same time on every host (s).
    sent
        Data that a task sends and receives, D_r (bytes).
    """

    flop: float = 0.0
    seconds: float = 0.0
    sent: float = 0.0

    @property
    def is_sleep(self) -> bool:
        """Whether nothing of it is computation, so that sharing a host would not slow it."""
        return self.flop == 0 and self.seconds > 0


class Application:
    """A job to map: as many tasks as it asks for processors, which start together.

    Attributes
    ----------
    job
        The job.
    service_class
        One of :data:`~qops_batsim.jobs.QOS_CLASSES`.
    rank
        Importance of the class; 0 is the most important.
    exclusive
        Whether nobody else may be on its hosts.
    deadline
        Latest end that has to be guaranteed (s); infinite for other classes.
    latest_start
        Latest start that has to be guaranteed (s); infinite for other classes.
    walltime
        How long it may run before it is killed (s); infinite without a walltime.
    work
        What each task has to do.
    memory
        Memory that a task uses (bytes).
    arrival
        Number in the order of submission.
    others
        The other jobs of the same application (``qos.application``), each of which
        starts by itself; they are accepted or refused together with this one.
    only_hosts
        Hosts on which it has to go on (a stopped application), or None.
    known
        Whether the engine knows the job, so that it can start.
    """

    __slots__ = (
        "arrival",
        "deadline",
        "exclusive",
        "job",
        "known",
        "latest_start",
        "memory",
        "only_hosts",
        "others",
        "rank",
        "service_class",
        "walltime",
        "work",
    )

    def __init__(
        self,
        job: Job,
        service_class: str,
        work: Work,
        arrival: int,
        *,
        exclusive: bool = False,
        deadline: float = math.inf,
        latest_start: float = math.inf,
    ) -> None:
        self.job = job
        self.service_class = service_class
        self.rank = RANKS[service_class]
        self.work = work
        self.arrival = arrival
        self.exclusive = exclusive or service_class == DEDICATED
        self.deadline = deadline
        self.latest_start = latest_start
        self.walltime = math.inf if job.walltime is None else job.walltime
        qos = job.qos
        self.memory = 0.0 if qos is None or qos.memory is None else qos.memory
        self.known = True
        self.others: list[Application] = []
        self.only_hosts: tuple[int, ...] | None = None

    @property
    def name(self) -> str:
        """What the jobs of one application have in common."""
        qos = self.job.qos
        named = None if qos is None else qos.application
        return f"job {self.job.id}" if named is None else f"application {named}"

    @property
    def may_be_refused(self) -> bool:
        """Whether it asks for a date that may be impossible."""
        return min(self.deadline, self.latest_start) < math.inf

    @property
    def parts(self) -> list[Application]:
        """All jobs of the application, in the order of submission."""
        return [self, *self.others]

    @property
    def tasks(self) -> int:
        """Number of tasks, one host each."""
        return self.job.processors
