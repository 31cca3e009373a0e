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
        What takes the same time on every host.
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
        """What the jobs of one application have in common."""
        named = None if self.job.qos is None else self.job.qos.application
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

    def is_like(self, other: Application) -> bool:
        """Whether both ask for the same, so that one finds no place where the other did not."""
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
