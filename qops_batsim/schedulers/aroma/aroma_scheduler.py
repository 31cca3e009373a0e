"""AROMA: classes of service on heterogeneous hosts that share time (Pascal et al. 2004)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from msgspec import Meta

from qops_batsim.core.hostset import HostSet
from qops_batsim.core.job import Job
from qops_batsim.core.needs import EngineNeeds
from qops_batsim.core.options import PlannerOptions, seconds
from qops_batsim.core.refusal import Refusal, RefusalKind
from qops_batsim.core.scheduler import ResourceManager, Scheduler
from qops_batsim.jobs import COMPLETED_KILLED
from qops_batsim.schedulers.aroma.application import DEADLINE, HIGH_PRIORITY, Application
from qops_batsim.schedulers.aroma.fallbacks import Fallbacks, Stopped
from qops_batsim.schedulers.aroma.mapping import SOONEST_LATER, Mapper
from qops_batsim.schedulers.aroma.planner import PlanKeeper, Prediction
from qops_batsim.schedulers.aroma.recurrence import MappingPlan
from qops_batsim.schedulers.aroma.unequal_hosts import UnequalHosts
from qops_batsim.schedulers.aroma.work import (
    can_be_stopped,
    next_name,
    remainder,
    share_done,
    work_of,
)
from qops_batsim.timing import PLAN_TOLERANCE

if TYPE_CHECKING:
    from qops_batsim.platform.platform_model import Platform


class AromaOptions(PlannerOptions, frozen=True, kw_only=True):
    """Options of :class:`Aroma`."""

    default_class: Annotated[
        Literal["high_priority", "dedicated", "best_effort"],
        Meta(description="class of service of jobs without `qos.class` and without a deadline"),
    ] = "best_effort"
    start_tolerance: Annotated[
        float,
        seconds("how long after its submission a high priority job may start", ge=0),
    ] = 5.0
    memory_weight: Annotated[
        float,
        Meta(ge=0, description="M_f of criterion (1): weight of the share of memory in use"),
    ] = 1.0
    revisions: Annotated[
        int,
        Meta(ge=0, description="how often the choice of hosts is revised at one start date"),
    ] = 4
    moves: Annotated[
        int,
        Meta(
            ge=0,
            description="how many planned applications of weaker classes are tried to be moved "
            "for one that finds no place",
        ),
    ] = 8
    stops: Annotated[
        int,
        Meta(
            ge=0,
            description="how many running applications of weaker classes are tried to be stopped "
            "for it, where the engine allows dynamic jobs",
        ),
    ] = 8
    reference_speed: Annotated[
        float,
        Meta(
            ge=0,
            description="speed of the hosts that estimated run times are about (C(m) = 1); "
            "0: the speed that most hosts have",
            extra={"unit": "flop/s"},
        ),
    ] = 0.0
    platform: Annotated[
        str,
        Meta(
            description="platform to look up speeds and routes in, a file or the name of a shipped "
            "one; needed only where the engine is not ours to start (serve, pybatsim)"
        ),
    ] = ""


class Aroma(Scheduler):
    """AROMA: maps applications of four service classes onto hosts that they share (Pascal, Richard,
    Miegemolle, Monteil 2004).

    Applications of four classes (``qos.class``) run on the same hosts at the same
    time, in this order of importance: ``deadline`` (ends by ``qos.deadline``, or is
    rejected), ``high_priority`` (starts at once, or is rejected), ``dedicated`` (alone
    on its hosts), ``best_effort`` (as soon as possible). An application is mapped
    only if the predicted execution of everything that is mapped keeps every promise.

    Predicts with the work in the jobs' profiles and the speeds of the hosts, or with
    ``qos.estimated_runtime`` on hosts of the reference speed. Jobs that only sleep
    (profiles of type ``delay``) are alone on their hosts, since sharing would not slow
    them down; so are all jobs without compute sharing.

    The memory of hosts is a preference in the choice of hosts, and their amounts are reserved for
    nobody, so a machine whose jobs share hosts by amounts is refused.

    Examples
    --------
    >>> from qops_batsim import simulate
    >>> len(simulate(Aroma, "aroma_mixed", "aroma_grid").ended)
    65
    """

    summary = "AROMA: four classes of service on shared, unequal hosts (Pascal et al. 2004)"
    Options = AromaOptions
    counts_hosts = True
    HOOKS: ClassVar[dict[str, str]] = {**Scheduler.HOOKS, "map_application": "application"}

    def __init__(self, options: AromaOptions | None = None) -> None:
        super().__init__(options)
        self._platform: Platform | None = None

    def use_platform(self, platform: Platform) -> None:
        """Take the speeds of hosts and the routes between them from this platform."""
        self._platform = platform

    @property
    def needs(self) -> EngineNeeds:
        """What AROMA needs of the engine: shared hosts, and jobs registered for stopped
        applications.
        """
        stops = self.options.stops
        why = f"applications share hosts, and stopped ones go on as new jobs (stops is {stops})"
        return EngineNeeds(compute_sharing=True, dynamic_jobs=stops > 0, dispensable=True, why=why)

    @property
    def predictions(self) -> dict[str, Prediction]:
        """What was predicted of each job that has ended by itself, by job id."""
        return self._planner.predictions

    def begin(self, manager: ResourceManager) -> None:
        """Start with an empty plan."""
        super().begin(manager)
        manager.shares_hosts = True
        options = self.options
        system = manager.system
        self._machine = UnequalHosts(
            system.hosts, self._known_platform(), options.reference_speed or None
        )
        self._book = MappingPlan()
        mapper = Mapper(self._machine, self._book, options.memory_weight, options.revisions)
        stops = options.stops if system.dynamic_jobs else 0
        fallbacks = Fallbacks(mapper, options.moves, stops, self._name_of_rest)
        if self._machine.has_delays and options.grace > PLAN_TOLERANCE:
            manager.news.mark_late()
        self._planner = PlanKeeper(mapper, fallbacks, manager.news)
        self._closed = HostSet()
        # Whether anything but submissions and ends has happened since the last decision.
        self._happened = False
        self._arrived: list[Application] = []
        self._arrivals = 0
        # Applications with a job that does not fit the machine, by name.
        self._too_wide: set[str] = set()
        self._called = -math.inf
        # Stopped jobs until the engine says how far they had come.
        self._stopped: dict[str, Stopped] = {}
        self._progress: dict[str, float] = {}
        self._may_arrive = True
        self._registering = system.dynamic_jobs

    def _known_platform(self) -> Platform | None:
        if not self.options.platform:
            return self._platform
        from qops_batsim.platform.simgrid_read import read_platform
        from qops_batsim.shipped import find_input

        return read_platform(find_input(self.options.platform, "platforms"))

    # What happens

    def submitted(self, job: Job) -> None:
        """Record a new job, to be mapped or refused at the next decision."""
        refusal = self.manager.why_never(job)
        if refusal is None and job.qos is not None and job.qos.start is not None:
            refusal = Refusal(kind=RefusalKind.NO_FIXED_STARTS, date=job.qos.start)
        if refusal is None:
            self._arrived.append(self._application(job))
            return
        if job.qos is not None and job.qos.application is not None:
            self._too_wide.add(job.qos.application)
        self.manager.reject(job, refusal)

    def ended(self, job: Job) -> None:
        """Record that a job has ended; the next decision can use its hosts."""
        self._planner.left(job.id)
        stopped = self._stopped.get(job.id)
        if stopped is not None and job.state != COMPLETED_KILLED:
            # It had ended by itself before it was stopped.
            del self._stopped[job.id]
            self._planner.withdraw(stopped.rest)

    def called(self) -> None:
        """Called at a planned start: the next decision makes it."""
        self._happened = True

    def progressed(self, job: Job, progress: Mapping[str, Any]) -> None:
        """Record which share of its work a stopped job had done, as the engine reports."""
        share = progress.get("progress")
        if isinstance(share, (int, float)):
            self._progress[job.id] = float(share)

    def killed(self, job: Job) -> None:
        """Called when a job has been killed: if it was stopped for another one, register its
        remaining work as a new job.
        """
        self._happened = True
        stopped = self._stopped.pop(job.id, None)
        if stopped is not None:
            self._register(stopped)

    def all_submitted(self) -> None:
        """Called when no more jobs will come: registering ends once no stopped job is left."""
        self._happened = True
        self._may_arrive = False

    def notified(self, notification: object) -> None:
        """Called at any other notification of the engine: the next decision takes the current date
        as its date.
        """
        self._happened = True

    def hosts_changed(self, announced: int) -> None:
        """Map nothing on hosts that are away or about to be; running jobs continue.

        They take no job from the notice of their maintenance on.
        """
        self._happened = True
        before = self._closed
        self._closed = self.manager.capacity.closed(drains=True)
        hosts = self._machine.hosts
        planner = self._planner
        if before != self._closed:
            planner.set_available([hosts[each] for each in before - self._closed], True)
            planner.set_available([hosts[each] for each in self._closed - before], False)

    def _application(self, job: Job) -> Application:
        deadline = None if job.qos is None else job.qos.deadline
        service_class = None if job.qos is None else job.qos.service_class
        if service_class is None:
            service_class = self.options.default_class if deadline is None else DEADLINE
        self._arrivals += 1
        system = self.manager.system
        profiles = system.profiles.get(job.id.partition("!")[0], {})
        work = work_of(job, profiles, self._machine.reference_speed)
        latest = job.arrival + self.options.start_tolerance
        return Application(
            job,
            service_class,
            work,
            self._arrivals,
            # An engine lets sleeps share a host at no cost, which would be no time sharing.
            exclusive=not system.compute_sharing or work.is_sleep,
            deadline=job.deadline if service_class == DEADLINE else math.inf,
            latest_start=latest if service_class == HIGH_PRIORITY else math.inf,
        )

    # What is decided

    def decide(self) -> None:
        """Map or reject new jobs, and start due ones."""
        planner = self._planner
        manager = self.manager
        now = manager.now
        manager.capacity.check_dates(now + manager.news.tolerance)
        planner.update(now, self._date_of_events(now))
        for application in self._applications():
            self.map_application(application)
        for placement in planner.due():
            hosts = HostSet.of([host.index for host in placement.hosts()])
            manager.start(placement.application.job, hosts)

        planner.conclude()
        self._note_changes()
        self._ask_for_call(now)
        if self._registering and not self._may_arrive and not self._stopped:
            # Only an arrival makes room for itself.
            self._registering = False
            manager.finish_registering()

    def _date_of_events(self, now: float) -> float:
        """Return when the submissions and other events since the last decision happened, ends not
        counted (seconds).
        """
        news = self.manager.news
        told = [now - news.submitted(each.job, now) for each in self._arrived]
        if self._happened:
            told.append(now)
        self._happened = False
        return max(told, default=-math.inf)

    def _applications(self) -> list[Application]:
        """Return the applications submitted since the last decision, by class, then arrival.

        Jobs of one class that name the same application (``qos.application``) are one.
        """
        arrived = self._arrived
        self._arrived = []
        too_wide = self._too_wide
        self._too_wide = set()
        first: dict[tuple[str, str], Application] = {}
        found = []
        for part in arrived:
            qos = part.job.qos
            name = None if qos is None else qos.application
            if name is None:
                found.append(part)
            elif name in too_wide:
                refusal = Refusal(kind=RefusalKind.PART_TOO_WIDE, name=name)
                self.manager.reject(part.job, refusal)
            else:
                whole = first.setdefault((part.service_class, name), part)
                (found if whole is part else whole.others).append(part)

        return sorted(found, key=lambda each: (each.rank, each.arrival))

    def map_application(self, application: Application) -> bool:
        """Plan an application, or reject its jobs; return whether it was planned.

        Called once for each application that fits the machine. Override it to measure or to
        record.
        """
        parts = application.parts()
        manager = self.manager
        stops = self._planner.map(parts)
        for part in parts:
            record = manager.record(part.job)
            record.category = part.service_class
            if stops is None:
                manager.reject(part.job, _refusal(parts))
            elif part.deadline < math.inf:
                record.admitted_deadline = part.deadline
            elif part.latest_start < math.inf:
                record.latest_start = part.latest_start

        for each in stops or ():
            job = each.stopped.application.job
            name = each.rest.job.id
            self._stopped[job.id] = each
            reason = Refusal(kind=RefusalKind.STOPPED, blamed=application.job.id, name=name)
            manager.record(job).reasons = (reason,)
            manager.kill(job)

        return stops is not None

    # Stopping

    def _name_of_rest(self, application: Application) -> str | None:
        """Return the name of the job that would continue an application after a stop, None if it
        cannot be stopped.
        """
        job = application.job
        return next_name(job.id) if can_be_stopped(self.manager.profile_of(job)) else None

    def _register(self, stopped: Stopped) -> None:
        placement, rest = stopped
        job = placement.application.job
        whole = self.manager.profile_of(job)
        told = self._progress.pop(job.id, None)
        ran = self._book.date - placement.ordered
        # A sleep is worked off evenly, whatever was estimated.
        sleep = float(whole.get("delay", 0.0)) if whole.get("type") == "delay" else 0.0
        predicted = ran / sleep if sleep > 0 else 1.0 - min(placement.left, 1.0)
        share = 1.0 - share_done(told, predicted)
        rest.job, profile = remainder(rest.job.id, job, whole, share, ran)
        rest.known = True
        self.manager.record(rest.job).category = rest.service_class
        self.manager.register(rest.job, profile)

    def _note_changes(self) -> None:
        """Record renewed promises, and reject applications that need more hosts than will ever be
        present.
        """
        planner = self._planner
        manager = self.manager
        for renewal in planner.renewals:
            application = renewal.application
            record = manager.record(application.job)
            record.note_renewal(renewal.broken, renewal.loss)
            if application.service_class == DEADLINE:
                record.admitted_deadline = renewal.promise
            else:
                record.latest_start = renewal.promise

        planner.renewals.clear()
        for job, expected in planner.outlived:
            record = manager.record(job)
            if record.predicted_run_time is None:
                record.predicted_run_time = expected

        planner.outlived.clear()
        capacity = manager.capacity
        if capacity.is_final and capacity.away:
            for application in planner.withdraw_wider(capacity.present):
                manager.reject(application.job, capacity.never_fits(application.tasks))

    def _ask_for_call(self, now: float) -> None:
        """Request a call at the next planned start."""
        soon = self._book.date + PLAN_TOLERANCE
        # What is due already waits for news; where news is late, that may hold up nothing else.
        date = self._book.next_start(soon if self.manager.news.late else -math.inf)
        if soon < date < math.inf and date != self._called:
            self._called = date
            # It may be that the news of what comes before it was later than the start itself.
            self.manager.call_at(date if date > now + PLAN_TOLERANCE else now + SOONEST_LATER)


def _refusal(parts: Sequence[Application]) -> Refusal:
    tasks = sum(part.tasks for part in parts)
    deadline = min(part.deadline for part in parts)
    if deadline < math.inf:
        return Refusal(kind=RefusalKind.NO_START, date=deadline, processors=tasks)
    return Refusal(kind=RefusalKind.NO_HOSTS, processors=tasks)
