"""AROMA: classes of service on heterogeneous hosts that share time (Pascal et al. 2004)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal

from msgspec import Meta

from qops_batsim.errors import SimulationError
from qops_batsim.jobs import COMPLETED_KILLED, Job
from qops_batsim.platform.hostset import HostSet
from qops_batsim.protocol.decisions import CallMeLater, Decision, ExecuteJob, KillJob, RejectJob
from qops_batsim.protocol.events import JOB_CANCELLED, NO_MORE_STATIC_JOBS, JobCompleted, Notify
from qops_batsim.scheduling.capacity import Capacity
from qops_batsim.scheduling.engine_needs import EngineNeeds
from qops_batsim.scheduling.module import DecisionModule, PlannerOptions, System, seconds
from qops_batsim.scheduling.news import News, with_least_grace
from qops_batsim.scheduling.refusal import Refusal, RefusalKind
from qops_batsim.timing import PLAN_TOLERANCE

if TYPE_CHECKING:
    from qops_batsim.platform.model import Platform
    from qops_batsim.scheduling.aroma.application import Application
    from qops_batsim.scheduling.aroma.machine import UnequalHosts
    from qops_batsim.scheduling.aroma.mapping import Mapper, Stopped
    from qops_batsim.scheduling.aroma.planner import Planner, Prediction


class AromaOptions(PlannerOptions, frozen=True, kw_only=True):
    """Options of :class:`~qops_batsim.scheduling.aroma.scheduler.Aroma`."""

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


class Aroma(DecisionModule):
    """Task mapping with quality of service (Pascal, Richard, Miegemolle, Monteil 2004).

    Applications of four classes (``qos.class``) run on the same hosts at the same
    time, in this order of importance: ``deadline`` (ends by ``qos.deadline``, or is
    rejected), ``high_priority`` (starts at once, or is rejected), ``dedicated`` (alone
    on its hosts), ``best_effort`` (as soon as possible). An application is mapped
    only if the predicted execution of everything that is mapped keeps every promise.

    Predicts with the work in the jobs' profiles and the speeds of the hosts, or with
    ``qos.estimated_runtime`` on hosts of the reference speed. Jobs that only sleep
    (profiles of type ``delay``) are alone on their hosts, since sharing would not slow
    them down; so are all jobs without compute sharing.
    """

    summary = "AROMA: four classes of service on shared, unequal hosts (Pascal et al. 2004)"
    Options = AromaOptions

    options: AromaOptions

    def __init__(self, options: AromaOptions | None = None) -> None:
        super().__init__(options)
        self._given_options = self.options
        self._platform: Platform | None = None

    def use_platform(self, platform: Platform) -> None:
        """Look up speeds and routes in this platform; use its least grace, unless one was given."""
        self._platform = platform
        self.options = with_least_grace(self._given_options, platform)

    @property
    def needs(self) -> EngineNeeds:
        """Shared hosts, and to register what is left of stopped applications."""
        stops = self.options.stops
        why = f"applications share hosts, and stopped ones go on as new jobs (stops is {stops})"
        return EngineNeeds(compute_sharing=True, dynamic_jobs=stops > 0, dispensable=True, why=why)

    @property
    def predictions(self) -> dict[str, Prediction]:
        """Predicted ends of each job that has ended by itself, by job."""
        return self._planner.predictions

    def begin(self, system: System) -> None:
        """Start with an empty book."""
        from qops_batsim.scheduling.aroma.book import Book
        from qops_batsim.scheduling.aroma.machine import UnequalHosts
        from qops_batsim.scheduling.aroma.mapping import Fallbacks, Mapper
        from qops_batsim.scheduling.aroma.planner import Planner

        options = self.options
        self._machine: UnequalHosts = UnequalHosts(
            system.hosts, self._known_platform(), options.reference_speed or None
        )
        book = Book(self._machine.hosts)
        self._mapper: Mapper = Mapper(self._machine, book, options.memory_weight, options.revisions)
        stops = options.stops if system.dynamic_jobs else 0
        fallbacks = Fallbacks(self._mapper, options.moves, stops, self._name_of_rest)
        self._news = News(options.grace, system.profiles)
        if self._machine.has_delays and options.grace > PLAN_TOLERANCE:
            self._news.mark_late()
        self._planner: Planner = Planner(self._mapper, fallbacks, self._news)
        self._system = system
        self._capacity = Capacity(len(system.hosts))
        # Whether anything but submissions and ends has happened since the last decision.
        self._happened = False
        self._arrived: list[Application] = []
        self._arrivals = 0
        # Applications with a job that does not fit the machine, by name.
        self._too_wide: set[str] = set()
        self._decisions: list[Decision] = []
        self._called = -math.inf
        # Stopped jobs until the engine says how far they had come; then what goes on.
        self._stopped: dict[str, Stopped] = {}
        self._progress: dict[str, float] = {}
        self._rests: set[str] = set()
        self._registered_profiles: dict[tuple[str, str], Mapping[str, Any]] = {}
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
        """Note the job; it is mapped or refused at the next decision."""
        if job.id in self._rests:
            return  # Registered by this module, and planned already.
        refusal = self._capacity.never_fits(job.processors)
        if refusal is None and job.qos is not None and job.qos.start is not None:
            refusal = Refusal(kind=RefusalKind.NO_FIXED_STARTS, date=job.qos.start)
        if refusal is None:
            self._arrived.append(self._application(job))
            return
        if job.qos is not None and job.qos.application is not None:
            self._too_wide.add(job.qos.application)
        self._reject(job.id, refusal)

    def completed(self, event: JobCompleted) -> None:
        """Note the end; what it leaves is given away at the next decision."""
        self._planner.left(event.job_id)
        stopped = self._stopped.get(event.job_id)
        if stopped is not None and event.job_state != COMPLETED_KILLED:
            # It had ended by itself before it was stopped.
            del self._stopped[event.job_id]
            self._planner.withdraw(stopped.rest)

    def call(self) -> None:
        """Note that a planned start has come."""
        self._happened = True

    def progressed(self, progress: Mapping[str, Mapping[str, Any]]) -> None:
        """Note how far stopped jobs had come."""
        for job_id, told in progress.items():
            share = told.get("progress")
            if isinstance(share, (int, float)):
                self._progress[job_id] = float(share)

    def killed(self, job_ids: list[str]) -> None:
        """Register what is left of stopped jobs, so that it can go on later."""
        self._happened = True
        for job_id in job_ids:
            stopped = self._stopped.pop(job_id, None)
            if stopped is not None:
                self._register(stopped)

    def notified(self, notification: Notify) -> None:
        """Take hosts out of use while they are unavailable; what runs there goes on."""
        self._happened = True
        if notification.type == JOB_CANCELLED:
            raise SimulationError(
                f"job {notification.fields.get('job_id')} was cancelled, and AROMA does not know "
                "how to take a job out of an application"
            )
        if notification.type == NO_MORE_STATIC_JOBS:
            self._may_arrive = False
        # Hosts take no job from the notice of their maintenance on.
        capacity, before = self._capacity, self._capacity.closed(drains=True)
        if capacity.note(notification) is not None:
            closed = capacity.closed(drains=True)
            self._planner.set_available(before - closed, True)
            self._planner.set_available(closed - before, False)

    def _application(self, job: Job) -> Application:
        from qops_batsim.scheduling.aroma.application import (
            DEADLINE,
            HIGH_PRIORITY,
            Application,
            work_of,
        )

        profiles = self._system.profiles.get(job.id.partition("!")[0], {})
        deadline = None if job.qos is None else job.qos.deadline
        service_class = None if job.qos is None else job.qos.service_class
        if service_class is None:
            service_class = self.options.default_class if deadline is None else DEADLINE
        self._arrivals += 1
        work = work_of(job, profiles, self._machine.reference_speed)
        promised = service_class == DEADLINE and deadline is not None
        latest = max(job.submission_time, 0.0) + self.options.start_tolerance
        return Application(
            job,
            service_class,
            work,
            self._arrivals,
            # An engine lets sleeps share a host at no cost, which would be no time sharing.
            exclusive=not self._system.compute_sharing or work.is_sleep,
            deadline=deadline if promised and deadline is not None else math.inf,
            latest_start=latest if service_class == HIGH_PRIORITY else math.inf,
        )

    # What is decided

    def decide(self, now: float) -> list[Decision]:
        """Return the rejections, what is stopped, and the applications that start now."""
        planner = self._planner
        self._capacity.check_dates(now + self._news.tolerance)
        planner.update(now, self._date_of_events(now))
        for application in self._applications():
            self.map_application(application)
        for application, hosts in planner.due():
            self._decisions.append(ExecuteJob(application.job.id, HostSet.of(hosts.tolist())))
        planner.conclude()
        self._note_changes()
        self._ask_for_call(now)
        if self._registering and not self._may_arrive and not self._stopped:
            # Only an arrival makes room for itself.
            self._registering = False
            self._decisions.append(Notify.of("registration_finished"))
        decisions, self._decisions = self._decisions, []
        return decisions

    def _date_of_events(self, now: float) -> float:
        """Return when what this message tells happened, but for ends (s)."""
        told = [now - self._news.submitted(each.job, now) for each in self._arrived]
        if self._happened:
            told.append(now)
        self._happened = False
        return max(told, default=-math.inf)

    def _applications(self) -> list[Application]:
        """Return what has arrived, the most important class first, then in order of arrival.

        Jobs of one class that name the same application (``qos.application``) are one.
        """
        arrived, self._arrived = self._arrived, []
        too_wide, self._too_wide = self._too_wide, set()
        first: dict[tuple[str, str], Application] = {}
        found = []
        for part in arrived:
            qos = part.job.qos
            name = None if qos is None else qos.application
            if name in too_wide:
                self._reject(part.job.id, Refusal(kind=RefusalKind.PART_TOO_WIDE, name=name or ""))
                continue
            if name is not None:
                whole = first.setdefault((part.service_class, name), part)
                if whole is not part:
                    whole.others.append(part)
                    continue
            found.append(part)
        return sorted(found, key=lambda each: (each.rank, each.arrival))

    def map_application(self, application: Application) -> bool:
        """Map an application, or reject it; tell which.

        Called once for each application that fits the machine. Override it to measure
        or to record.
        """
        parts = application.parts
        stops = self._planner.map(parts)
        for part in parts:
            record = self.qos_log.record(part.job.id)
            record.category = part.service_class
            if stops is None:
                self._reject(part.job.id, _refusal(parts))
            elif part.deadline < math.inf:
                record.admitted_deadline = part.deadline
            elif part.latest_start < math.inf:
                record.latest_start = part.latest_start
        for each in stops or ():
            job = each.stopped.application.job
            self._stopped[job.id] = each
            self._rests.add(each.rest.job.id)
            stopped = Refusal(
                kind=RefusalKind.STOPPED, blamed=application.job.id, name=each.rest.job.id
            )
            self.qos_log.record(job.id).reasons = (stopped,)
        if stops:
            self._decisions.append(KillJob([each.stopped.application.job.id for each in stops]))
        return stops is not None

    # Stopping

    def _profile_of(self, job: Job) -> Mapping[str, Any]:
        workload = job.id.partition("!")[0]
        known = self._registered_profiles.get((workload, job.profile))
        return known or self._system.profiles.get(workload, {}).get(job.profile, {})

    def _name_of_rest(self, application: Application) -> str | None:
        """Return the name of the job by which an application would go on if it was stopped."""
        from qops_batsim.scheduling.aroma.application import can_be_stopped, next_name

        job = application.job
        return next_name(job.id) if can_be_stopped(self._profile_of(job)) else None

    def _register(self, stopped: Stopped) -> None:
        from qops_batsim.scheduling.aroma.application import remainder, share_done

        job, rest = stopped.stopped.application.job, stopped.rest
        whole, told = self._profile_of(job), self._progress.pop(job.id, None)
        ran = self._mapper.book.date - stopped.stopped.ordered
        # A sleep is worked off evenly, whatever was estimated.
        sleep = float(whole.get("delay", 0.0)) if whole.get("type") == "delay" else 0.0
        predicted = ran / sleep if sleep > 0 else 1.0 - stopped.stopped.left
        share = 1.0 - share_done(told, predicted)
        profile, registered = remainder(rest.job.id, job, whole, share, ran)
        self._registered_profiles[profile.workload_name, profile.profile_name] = profile.profile
        rest.job = registered.job
        rest.known = True
        self.qos_log.record(rest.job.id).category = rest.service_class
        self._decisions += [profile, registered]

    def _note_changes(self) -> None:
        """Note new promises, and reject what is wider than the machine will ever be again."""
        for renewal in self._planner.renewals:
            record = self.qos_log.record(renewal.application.job.id)
            record.note_renewal(renewal.broken, renewal.loss)
            if renewal.application.service_class == "deadline":
                record.admitted_deadline = renewal.promise
            else:
                record.latest_start = renewal.promise
        self._planner.renewals.clear()
        for job_id, expected in self._planner.outlived:
            record = self.qos_log.record(job_id)
            if record.predicted_run_time is None:
                record.predicted_run_time = expected
        self._planner.outlived.clear()
        if self._capacity.is_final and self._capacity.away:
            for application in self._planner.withdraw_wider(self._capacity.present):
                refusal = self._capacity.never_fits(application.tasks)
                assert refusal is not None
                self._reject(application.job.id, refusal)

    def _reject(self, job_id: str, refusal: Refusal) -> None:
        self.qos_log.record(job_id).reasons = (refusal,)
        self._decisions.append(RejectJob(job_id))

    def _ask_for_call(self, now: float) -> None:
        """Ask to be called at the next planned start."""
        from qops_batsim.scheduling.aroma.mapping import SOONEST_LATER

        book = self._planner.book
        soon = book.date + PLAN_TOLERANCE
        # What is due already waits for news; where news is late, that may hold up nothing else.
        date = book.next_start(soon if self._news.late else -math.inf)
        if soon < date < math.inf and date != self._called:
            self._called = date
            # It may be that the news of what comes before it was later than the start itself.
            asked = date if date > now + PLAN_TOLERANCE else now + SOONEST_LATER
            asked = self._news.reachable(asked, now, len(self._decisions))
            self._decisions.append(CallMeLater(asked))


def _refusal(parts: Sequence[Application]) -> Refusal:
    tasks = sum(part.tasks for part in parts)
    deadline = min(part.deadline for part in parts)
    if deadline < math.inf:
        return Refusal(kind=RefusalKind.NO_START, date=deadline, processors=tasks)
    return Refusal(kind=RefusalKind.NO_HOSTS, processors=tasks)
