"""The standing (snapshot) of a scheduler with a plan: what it needs to resume a run.

A fresh scheduler that goes on from it decides as the old one would, to the last bit. It tells jobs,
reservations and hosts, none of how they are kept; dates that are infinite, or none, are texts.

This is the one way in which a plan is restored: ``live`` takes the snapshot of its scheduler, and
``quote``, ``explain`` and ``queue quote`` make one of the jobs of a decision log or of a queue.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import partial
from operator import attrgetter
from types import MappingProxyType
from typing import Any, Protocol

import msgspec

from qops_batsim.core.capacity import Capacity, MaintenanceWindow
from qops_batsim.core.fixed_reservations import FixedReservation
from qops_batsim.core.host_bits import HostBits
from qops_batsim.core.hostset import HostSet
from qops_batsim.core.job import RUNNING, WAITING, Job
from qops_batsim.core.node_request import Places
from qops_batsim.core.plan import Plan
from qops_batsim.core.qos_log import QosRecord
from qops_batsim.core.scheduler import ResourceManager
from qops_batsim.errors import InputError
from qops_batsim.timing import DEADLINE_TOLERANCE, end_of

VERSION = 2
"""Version of the format. That of 0.1.0, which had none, is not read."""

Date = float | str
"""Seconds, or ``inf``, ``-inf``, ``nan``."""

DATES = (
    *("aim", "duration", "end", "given_from", "given_until", "lag", "latest_start", "limit"),
    *("lost_date", "promise", "requested", "start", "suspended", "target"),
)
"""Attributes of a job that are dates or durations."""

NUMBERS = ("corrections", "index", "kills", "lost", "number", "turn")
"""Attributes of a job that are whole numbers."""


class JobStanding(msgspec.Struct, kw_only=True):
    """Snapshot of a waiting or running job.

    ``hosts`` are those on which it runs, ``reserved`` those it takes from the plan, or how many.
    ``places`` are those that it has of shared hosts: host, part of the request, how many times.
    """

    fields: dict[str, Any]
    dates: dict[str, Date]
    numbers: dict[str, int]
    is_kept: bool
    is_running: bool
    hosts: str = ""
    reserved: int | str
    places: list[tuple[int, int, int]] | msgspec.UnsetType = msgspec.UNSET


class KnownJob(JobStanding, kw_only=True):
    """Snapshot of a job for one who resumes in the same process, who gets the job itself."""

    job: Any


class ClaimStanding(msgspec.Struct, kw_only=True):
    """Snapshot of a fixed reservation ("claim") of a job with a promised start, or of maintenance
    (``job`` is None).
    """

    start: Date
    end: Date
    job: int | None
    reserved: int | str


class WindowStanding(msgspec.Struct, kw_only=True):
    """Snapshot of a maintenance window that is not over."""

    hosts: str
    since: float
    until: float
    has_begun: bool


class Standing(msgspec.Struct, kw_only=True):
    """Snapshot of a scheduler; jobs are referred to by their index in ``jobs``.

    A fresh scheduler resumes from it, whoever took it: another one between two decisions
    (:func:`standing_of`), or who knows the jobs of a plan from elsewhere
    (:func:`standing_of_jobs`). ``is_late`` and ``lag`` (seconds) are what is known of late news,
    ``records`` what is noted of jobs, by id; ``originals`` tells under which id those were
    submitted that run again.
    """

    version: int
    jobs: list[JobStanding]
    waiting: list[int]
    running: list[int]
    claims: list[ClaimStanding]
    dates: dict[str, Date]
    numbers: dict[str, int]
    profile_start: float
    settled: list[int] = []
    called_for: Date = -1.0
    away: str = ""
    windows: list[WindowStanding] = []
    is_final: bool = False
    knows_capacity: bool = False
    is_whole: bool = True
    is_late: bool = False
    lag: float = 0.0
    records: dict[str, QosRecord] = {}
    originals: dict[str, str] = {}


PLAN_DATES = ("given_from", "given_until", "now")
PLAN_NUMBERS = ("arrivals", "is_freed", "is_resized", "suspensions", "turns")
HOST_NUMBERS = ("lost",)
"""Attributes of a plan, and of its hosts, that follow from nothing else in the snapshot."""


def stored(date: float) -> Date:
    """Return a date as snapshots store it: infinity as a text."""
    return date if math.isfinite(date) else str(date)


def amount_of(amount: Any) -> int | str:
    """Return what a claim (fixed reservation) reserves, as snapshots store it: a number of
    processors, or host ids as text; 0 where that is what its job is to have of shared hosts.
    """
    if isinstance(amount, Places):
        return 0
    return str(HostSet(amount.mask())) if isinstance(amount, HostBits) else int(amount)


def read_amount(amount: int | str, machine_size: int) -> int | HostBits:
    """Return what a claim (fixed reservation) reserves from its form in a snapshot: processors, or
    a set of hosts.
    """
    if isinstance(amount, str):
        return HostBits.of(HostSet.parse(amount).mask, machine_size)
    return amount


class RestorableScheduler(Protocol):
    """The attributes of a :class:`~qops_batsim.schedulers.planning.PlanScheduler` that a snapshot
    stores and restores.
    """

    plan: Plan
    manager: ResourceManager
    asked_for: list[Job]
    called_for: float
    is_whole: bool
    is_final: bool
    learns: bool

    def hear_late(self) -> None: ...


def standing_of(scheduler: RestorableScheduler) -> Standing | None:
    """Return a scheduler's snapshot between two decisions. O(jobs in the plan).

    None if it is in the middle of something: a new job, a kill, a cancellation; or if it learns
    from jobs that have left, or decisions are logged, as a log begins with the first job.
    """
    plan = scheduler.plan
    manager = scheduler.manager
    busy = (plan.new, plan.gone, plan.undone, plan.cancelled, scheduler.asked_for, plan.renewals)
    if any(busy) or scheduler.learns or plan.log is not None:
        return None

    listed = [*plan.waiting, *plan.fixed.jobs(), *plan.running]
    jobs = sorted(listed, key=lambda job: job.number)
    if any(job.is_held or job.is_dying for job in jobs):
        return None

    originals = {job.id: manager.original_id(job) for job in jobs}
    # What is noted of a job that runs again stands under its original id too.
    noted = sorted({*originals, *originals.values()})
    places = {id(job): place for place, job in enumerate(jobs)}
    return _standing(
        jobs,
        plan,
        {job.id: HostSet(manager.hosts_of(job)) for job in plan.running},
        manager.capacity,
        {} if plan.use is None else {job.id: places_of(job) for job in jobs},
        settled=[places[id(job)] for job in plan.settled if id(job) in places],
        profile_start=plan.profile.start,
        called_for=stored(scheduler.called_for),
        is_whole=scheduler.is_whole,
        is_late=manager.news.late,
        lag=manager.news.lag,
        records={name: manager.qos_log.record(name) for name in noted},
        originals={name: other for name, other in originals.items() if name != other},
    )


def places_of(job: Job) -> list[tuple[int, int, int]]:
    """Return the places that a job has or is planned on, of hosts that jobs share."""
    request = job.request
    places: Places = request.used if request.is_used else request.held
    return places.told()


def standing_of_jobs(
    jobs: list[Job],
    now: float,
    *,
    hosts: Mapping[str, HostSet] = MappingProxyType({}),
    capacity: Capacity | None = None,
    shared: Mapping[str, list[tuple[int, int, int]]] = MappingProxyType({}),
    is_late: bool = False,
    are_known: bool = False,
) -> Standing:
    """Return the snapshot of a plan of which only the jobs are known, as of ``now`` (seconds).

    ``jobs`` come in order of arrival with phases and targets set, waiting ones with their planned
    starts, running ones with their starts, expected ends and lags; those that wait with a fixed
    start have been promised it. ``hosts`` of running jobs, by id, are told where they matter;
    ``shared`` are the places of running and waiting jobs on hosts that they share. Only one resumes
    from it if the jobs ``are_known``, which are those of the scheduler then.
    """
    plan = Plan(1)  # Of as many processors as it may be: nothing is reserved in it.
    for job in jobs:
        job.number = plan.arrivals
        plan.arrivals += 1
        # What was promised an earlier end than is aimed at is late, and may become less so.
        if not is_late and job.promise + DEADLINE_TOLERANCE < job.target < math.inf:
            job.aim = job.promise
        if job.phase == RUNNING:
            plan.add_running(job, job.end, job.lag)
        elif job.fixed_start < math.inf:
            job.is_kept = True
            end = end_of(job.start, job.duration)
            plan.fixed.listed.append(FixedReservation(job.start, end, job, job.reserved))
        else:
            plan.waiting.append(job)
    plan.waiting.sort(key=attrgetter("start"))

    # Any gap may have come free since the jobs were placed.
    plan.given_from = -math.inf
    plan.given_until = math.inf
    rest = {"profile_start": now, "is_late": is_late}
    return _standing(jobs, plan, hosts, capacity, shared, are_known=are_known, **rest)


def _standing(
    jobs: list[Job],
    plan: Plan,
    hosts: Mapping[str, HostSet],
    capacity: Capacity | None,
    shared: Mapping[str, list[tuple[int, int, int]]] = MappingProxyType({}),
    *,
    are_known: bool = False,
    **rest: Any,
) -> Standing:
    """Return the snapshot of a plan with these jobs on these hosts, and the ``rest``."""
    places = {id(job): place for place, job in enumerate(jobs)}
    if capacity is not None:
        rest["knows_capacity"] = True
        rest["away"] = str(capacity.away)
        rest["is_final"] = capacity.is_final
        rest["windows"] = [
            WindowStanding(**{**window._asdict(), "hosts": str(window.hosts)})
            for window in capacity.windows
        ]

    return Standing(
        version=VERSION,
        jobs=[
            (partial(KnownJob, job=job) if are_known else JobStanding)(
                fields={} if are_known else job.fields,
                dates={name: stored(getattr(job, name)) for name in DATES},
                numbers={name: getattr(job, name) for name in NUMBERS},
                is_kept=job.is_kept,
                is_running=job.phase == RUNNING,
                hosts=str(hosts.get(job.id, "")),
                reserved=amount_of(job.bits if plan.by_host else job.reserved),
                places=shared.get(job.id, msgspec.UNSET),
            )
            for job in jobs
        ],
        waiting=[places[id(job)] for job in plan.waiting],
        running=[places[id(job)] for job in plan.running],
        claims=[
            ClaimStanding(
                start=stored(claim.start),
                end=stored(claim.end),
                job=None if claim.job is None else places[id(claim.job)],
                reserved=amount_of(claim.amount),
            )
            for claim in plan.fixed.listed
        ],
        dates={name: stored(getattr(plan, name)) for name in PLAN_DATES},
        numbers={
            **{name: int(getattr(plan, name)) for name in PLAN_NUMBERS},
            **{name: int(getattr(plan.hosts, name)) for name in HOST_NUMBERS},
        },
        **rest,
    )


def restore(scheduler: RestorableScheduler, standing: Standing) -> list[Job]:
    """Restore a snapshot in a scheduler that just began; return its jobs by arrival.

    InputError if it is of another version.
    """
    if standing.version != VERSION:
        raise InputError(
            f"the snapshot has format version {standing.version}; {VERSION} is accepted: finish "
            "the run with the version of qops-batsim that wrote the snapshot, or begin it again"
        )

    plan = scheduler.plan
    manager = scheduler.manager
    size = plan.machine_size
    away = HostSet.parse(standing.away)
    if standing.knows_capacity:
        capacity = manager.capacity
        capacity.is_known = True
        capacity.away = away
        capacity.is_final = standing.is_final
        capacity.is_planned = manager.plans
        capacity.windows = [
            MaintenanceWindow(
                HostSet.parse(window.hosts), window.since, window.until, window.has_begun
            )
            for window in standing.windows
        ]

    jobs: list[Job] = []
    for place, stored_job in enumerate(standing.jobs):
        if isinstance(stored_job, KnownJob):
            job = stored_job.job
        else:
            job = Job.from_fields(stored_job.fields, where=f"job {place} of the snapshot")
        for name, date in stored_job.dates.items():
            setattr(job, name, float(date))
        for name, number in stored_job.numbers.items():
            setattr(job, name, number)
        job.is_kept = stored_job.is_kept
        job.phase = RUNNING if stored_job.is_running else WAITING
        amount = read_amount(stored_job.reserved, size)
        if isinstance(amount, int):
            job.reserved = amount
        else:
            job.bits = amount
        if plan.use is not None:
            request = manager.asking(job)
            request.held.fill(request.parts, stored_job.places or ())
        jobs.append(job)

        if plan.log is not None:
            plan.log.arrived(job)
        if job.id in standing.originals:
            manager.know_original(job, standing.originals[job.id])
        if stored_job.is_running:
            manager.restore_running(job, HostSet.parse(stored_job.hosts).mask)

    manager.count_free()
    manager.qos_log.learn(standing.records)
    manager.news.lag = standing.lag
    if standing.is_late:
        manager.news.mark_late()
        scheduler.hear_late()

    restore_plan(plan, standing, jobs)
    scheduler.called_for = float(standing.called_for)
    scheduler.is_whole = standing.is_whole
    scheduler.is_final = standing.is_final
    plan.hosts.is_final = standing.is_final

    # The profile is not stored: it follows from the jobs and claims, and from when it begins.
    if plan.by_host:
        plan.hosts.free_hosts.set_mask(manager.free_mask())
    there = HostSet.first(size) - away
    plan.hosts.present = len(there)
    plan.hosts.everything = plan.hosts.amount_of(there.mask)
    if plan.use is not None:
        for job in plan.running:
            plan.hosts.occupy(job, there.mask)
    plan.reserve_plan(standing.profile_start)
    return jobs


def restore_plan(plan: Plan, standing: Standing, jobs: list[Job]) -> None:
    """Fill an empty plan with the jobs, reservations and dates of a snapshot."""
    plan.waiting = [jobs[place] for place in standing.waiting]
    plan.running = [jobs[place] for place in standing.running]
    plan.settled = [jobs[place] for place in standing.settled]
    for place, job in enumerate(plan.running):
        job.place = place
        plan.expect_end(job, job.end)

    plan.fixed.listed = [
        FixedReservation(
            float(claim.start),
            float(claim.end),
            None if claim.job is None else jobs[claim.job],
            read_amount(claim.reserved, plan.machine_size)
            if plan.use is None or claim.job is None
            else jobs[claim.job].request.held.copied(),
        )
        for claim in standing.claims
    ]
    # Earlier snapshots have more of them, which follow from the rest.
    for name in PLAN_DATES:
        setattr(plan, name, float(standing.dates[name]))
    for name in PLAN_NUMBERS:
        setattr(plan, name, standing.numbers[name])
    for name in HOST_NUMBERS:
        setattr(plan.hosts, name, standing.numbers[name])
