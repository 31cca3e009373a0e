"""Applications, hosts, and placements: where and when an application is mapped."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from qops_batsim.core.job import Job
from qops_batsim.jobs import QOS_CLASSES
from qops_batsim.schedulers.aroma.work import Work
from qops_batsim.timing import PLAN_TOLERANCE

if TYPE_CHECKING:
    from qops_batsim.core.refusal import Refusal

DEADLINE, HIGH_PRIORITY, DEDICATED, BEST_EFFORT = QOS_CLASSES

INFINITY = math.inf


class SharedHost:
    """A host, with the placements on it and scratch values of the mapping.

    Attributes
    ----------
    speed
        Of one processor (flop/s).
    processors
        U(m).
    memory
        M_t(m) (bytes), infinite where it is unknown.
    group
        Hosts of a group are alike to the network.
    available
        Whether it may be used.
    tasks
        All tasks that are mapped on it, in the order of mapping.
    guests, lone_guests
        How many applications were told to start here and not told to have left; how many of
        these keep others off.
    load, users, alone
        X_m at the date of a prediction, the tasks that run then, and the placement that has to be
        alone here, if one runs.
    reached
        Number of the last search for connected placements that came here.
    crowd, used, next_exclusive, release
        Of a survey of a date: X_m, M_u(m) (bytes), the start of the next application that has to
        be alone (the date where one is), the end of the last one, at least the date (seconds).
    need, is_eligible
        t_c(m) of the application that is being mapped (seconds), and whether it may be here.
    gap, is_risky, is_allowed, is_chosen, release_after, weight, key
        Of a choice of hosts: see :mod:`~qops_batsim.schedulers.aroma.mapping`.
    """

    def __init__(
        self,
        index: int,
        speed: float = 1.0,
        processors: int = 1,
        memory: float = math.inf,
        group: int = 0,
    ) -> None:
        self.index = index
        self.group = group
        self.speed = speed
        self.processors = processors
        self.memory = memory
        self.available = True
        self.tasks: list[Task] = []
        self.guests = 0
        self.lone_guests = 0
        self.load = 0
        self.reached = 0
        self.users: list[Task] = []
        self.alone: Placement | None = None
        self.crowd = 0
        self.used = 0.0
        self.next_exclusive = 0.0
        self.release = 0.0
        self.need = 0.0
        self.gap = 0.0
        self.release_after = 0.0
        self.weight = 0.0
        self.key = 0.0
        self.is_eligible = False
        self.is_risky = False
        self.is_allowed = False
        self.is_chosen = False


class Task:
    """A task of an application on a host, where it takes ``need`` seconds if nothing else runs
    there.
    """

    def __init__(self, placement: Placement, host: SharedHost, need: float) -> None:
        self.placement = placement
        self.host = host
        self.need = need


class Application:
    """A job to map: one task per requested processor, all starting together.

    Attributes
    ----------
    service_class
        One of :data:`~qops_batsim.jobs.QOS_CLASSES`.
    arrival
        Number in the order of submission.
    exclusive
        Whether no other application may be on its hosts.
    deadline, latest_start
        Latest end and latest start that have to be guaranteed (seconds); infinite without.
    only_hosts
        Hosts on which it has to go on (a stopped application), or None.
    known
        Whether the engine knows the job, so that it can start.
    rank
        Importance of the class; 0 is the most important.
    walltime
        How long it may run before it is killed (seconds); infinite without a walltime.
    memory
        Memory that a task uses (bytes).
    others
        The other jobs of the same application (``qos.application``), each of which starts by
        itself; they are accepted or refused together with this one.
    first_end
        End that was predicted when it was mapped first (seconds), NaN before.
    broken, loss
        A promise (seconds) that hosts' leaving broke, as ``loss`` says, until a start is known
        to renew it with; None if there is none.
    """

    def __init__(
        self,
        job: Job,
        service_class: str,
        work: Work,
        arrival: int,
        exclusive: bool = False,
        deadline: float = math.inf,
        latest_start: float = math.inf,
    ) -> None:
        self.job = job
        self.service_class = service_class
        self.work = work
        self.arrival = arrival
        self.rank = QOS_CLASSES.index(service_class)
        self.exclusive = exclusive or service_class == DEDICATED
        self.deadline = deadline
        self.latest_start = latest_start
        self.only_hosts: list[SharedHost] | None = None
        self.known = True
        self.tasks = job.processors
        self.walltime = job.limit
        self.memory = 0.0
        if job.qos is not None and job.qos.memory is not None:
            self.memory = job.qos.memory
        self.others: list[Application] = []
        self.first_end = math.nan
        self.broken = 0.0
        self.loss: Refusal | None = None

    @property
    def name(self) -> str:
        """Name shared by the jobs of one application."""
        named = None if self.job.qos is None else self.job.qos.application
        return f"job {self.job.id}" if named is None else f"application {named}"

    @property
    def may_be_refused(self) -> bool:
        """Return whether the application demands a start or end that may be impossible."""
        return self.deadline < INFINITY or self.latest_start < INFINITY

    def parts(self) -> list[Application]:
        """Return the application's jobs in order of submission."""
        return [self, *self.others]

    def request(self) -> tuple[Any, ...]:
        """Return what the application asks for; of equal requests, all fit or none does."""
        return (
            *(self.service_class, self.exclusive, self.work, self.tasks, self.memory),
            *(self.deadline, self.latest_start, self.walltime, self.only_hosts),
        )

    def rest(self, name: str, left: float, ran: float, hosts: list[SharedHost]) -> Application:
        """Return the application that continues after a stop, on the same hosts (section 3.1).

        Parameters
        ----------
        name
            Identifier of the job by which it goes on, which the engine does not know yet.
        left
            Share of its work that is left.
        ran
            For how long it ran (seconds).
        """
        rest = Application(
            self.job.renamed(name),
            self.service_class,
            self.work.times(left),
            self.arrival,
            self.exclusive,
        )
        rest.only_hosts = hosts
        rest.known = False
        rest.walltime = max(self.walltime - ran, 0.0)
        return rest


class Placement:
    """A mapped application, planned or running on its hosts.

    Attributes
    ----------
    start, end
        t_b, planned or real once it runs, and t_f as last predicted (seconds).
    left, rate
        Share of the work that is left at the date of the book, from 1 to 0, and the share that
        is done in a second then.
    latest_end
        Latest end that has to be kept (seconds), infinite without.
    ordered
        When the engine was told to start it (seconds), else infinite.
    running
        Whether it has started.
    tasks
        Its tasks, by host.
    number
        Its number in the order of mapping.
    to_do, pace, since, next_end, begins, touched, runs, predicted, place
        Of a prediction: the share of the work that is left at the date ``since`` and that is done
        in a second from then on, when it ends if nothing changes, when it starts, the number of
        the event that last settled its pace, whether it runs, when it ends, and its place among
        those that are followed.
    reached
        Number of the last search for connected placements that found it.
    """

    def __init__(self, application: Application) -> None:
        self.application = application
        self.exclusive = application.exclusive
        self.memory = application.memory
        self.start = INFINITY
        self.end = INFINITY
        self.latest_end = INFINITY
        self.ordered = INFINITY
        self.left = 1.0
        self.rate = 0.0
        self.running = False
        self.tasks: list[Task] = []
        self.number = 0
        self.touched = 0
        self.place = 0
        self.reached = 0
        self.to_do = 1.0
        self.pace = 0.0
        self.since = 0.0
        self.begins = 0.0
        self.next_end = INFINITY
        self.predicted = INFINITY
        self.runs = False

    def hosts(self) -> list[SharedHost]:
        """Return the hosts of the application, in the order of its tasks. O(tasks)."""
        return [task.host for task in self.tasks]

    def longest(self) -> float:
        """Return how long the longest task takes if it shares its host with none (seconds).
        O(tasks).
        """
        longest = 0.0
        for task in self.tasks:
            longest = max(longest, task.need)
        return longest

    def demanded_end(self) -> float:
        """Return the latest end that the application demands (seconds); infinite without any.

        That is the deadline, and the walltime if it is enough for the longest task alone: sharing
        is not to get an application killed. O(tasks).
        """
        application = self.application
        if self.exclusive or self.longest() > application.walltime + PLAN_TOLERANCE:
            return application.deadline
        return min(application.deadline, self.start + application.walltime)

    def is_available(self) -> bool:
        """Return whether all hosts of the application are available. O(tasks)."""
        for task in self.tasks:  # noqa: SIM110 - all() would make a generator
            if not task.host.available:
                return False
        return True

    def shares_host_with(self, other: Placement) -> bool:
        """Return whether two placements have a host in common. O(tasks²)."""
        for task in self.tasks:
            for each in other.tasks:
                if each.host is task.host:
                    return True
        return False
