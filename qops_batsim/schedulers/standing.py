"""The standing (snapshot) of a scheduler with a plan: what it needs to resume a run.

A fresh scheduler that goes on from it decides as the old one would, to the last bit. It tells jobs,
reservations and hosts, none of how they are kept; dates that are infinite, or none, are texts.
"""

from __future__ import annotations

import math
from typing import Any, Protocol

import msgspec

from qops_batsim.core.capacity import MaintenanceWindow
from qops_batsim.core.host_bits import HostBits
from qops_batsim.core.hostset import HostSet
from qops_batsim.core.job import RUNNING, WAITING, Job
from qops_batsim.core.plan import Claim, Plan
from qops_batsim.core.qos_log import QosRecord
from qops_batsim.core.scheduler import ResourceManager
from qops_batsim.errors import InputError

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
    """

    fields: dict[str, Any]
    dates: dict[str, Date]
    numbers: dict[str, int]
    is_kept: bool
    is_running: bool
    hosts: str = ""
    reserved: int | str


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

    ``is_late`` and ``lag`` (seconds) are what is known of late news, ``records`` what is noted of
    jobs, by id; ``originals`` tells under which id those were submitted that run again.
    """

    version: int
    jobs: list[JobStanding]
    waiting: list[int]
    running: list[int]
    settled: list[int]
    claims: list[ClaimStanding]
    dates: dict[str, Date]
    numbers: dict[str, int]
    profile_start: float
    called_for: Date
    away: str
    windows: list[WindowStanding]
    is_final: bool
    knows_capacity: bool
    is_whole: bool
    is_late: bool
    lag: float
    records: dict[str, QosRecord]
    originals: dict[str, str]


PLAN_DATES = ("given_from", "given_until", "grace", "most_lag", "now", "soonest", "tolerance")
PLAN_NUMBERS = (
    *("arrivals", "is_final", "is_freed", "is_late", "is_resized", "lost", "present"),
    *("suspensions", "turns"),
)


def stored(date: float) -> Date:
    """Return a date as snapshots store it: infinity as a text."""
    return date if math.isfinite(date) else str(date)


def amount_of(amount: Any) -> int | str:
    """Return what a claim (fixed reservation) reserves, as snapshots store it: a number of
    processors, or host ids as text.
    """
    return str(HostSet(amount.mask())) if isinstance(amount, HostBits) else int(amount)


def read_amount(amount: int | str, machine_size: int) -> int | HostBits:
    """Return what a claim (fixed reservation) reserves from its form in a snapshot: processors, or
    a set of hosts.
    """
    if isinstance(amount, str):
        return HostBits.of(HostSet.parse(amount).mask, machine_size)
    return amount


class Planner(Protocol):
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


def standing_of(scheduler: Planner) -> Standing | None:
    """Return a scheduler's snapshot between two decisions. O(jobs in the plan).

    None if it is in the middle of something: a new job, a kill, a cancellation; or if it learns
    from jobs that have left, or decisions are logged, as a log begins with the first job.
    """
    plan = scheduler.plan
    manager = scheduler.manager
    busy = (plan.new, plan.gone, plan.undone, plan.cancelled, scheduler.asked_for, plan.renewals)
    if any(busy) or scheduler.learns or plan.log is not None:
        return None

    claimed = [claim.job for claim in plan.claims if claim.job is not None]
    jobs = sorted([*plan.waiting, *claimed, *plan.running], key=lambda job: job.number)
    if any(job.is_held or job.is_dying for job in jobs):
        return None

    places = {id(job): place for place, job in enumerate(jobs)}
    originals = {job.id: manager.original_id(job) for job in jobs}
    # What is noted of a job that runs again stands under its original id too.
    noted = sorted({*originals, *originals.values()})
    capacity = manager.capacity
    return Standing(
        version=VERSION,
        jobs=[job_standing(scheduler, job) for job in jobs],
        waiting=[places[id(job)] for job in plan.waiting],
        running=[places[id(job)] for job in plan.running],
        settled=[places[id(job)] for job in plan.settled if id(job) in places],
        claims=[
            ClaimStanding(
                start=stored(claim.start),
                end=stored(claim.end),
                job=None if claim.job is None else places[id(claim.job)],
                reserved=amount_of(claim.amount),
            )
            for claim in plan.claims
        ],
        dates={name: stored(getattr(plan, name)) for name in PLAN_DATES},
        numbers={name: int(getattr(plan, name)) for name in PLAN_NUMBERS},
        profile_start=plan.profile.start,
        called_for=stored(scheduler.called_for),
        away=str(capacity.away),
        windows=[
            WindowStanding(hosts=str(hosts), since=since, until=until, has_begun=has_begun)
            for hosts, since, until, has_begun in capacity.windows
        ],
        is_final=capacity.is_final,
        knows_capacity=capacity.is_known,
        is_whole=scheduler.is_whole,
        is_late=manager.news.late,
        lag=manager.news.lag,
        records={name: manager.qos_log.record(name) for name in noted},
        originals={name: other for name, other in originals.items() if name != other},
    )


def job_standing(scheduler: Planner, job: Job) -> JobStanding:
    """Return the snapshot of a waiting or running job."""
    is_running = job.phase == RUNNING
    by_host = scheduler.plan.by_host
    return JobStanding(
        fields=job.fields,
        dates={name: stored(getattr(job, name)) for name in DATES},
        numbers={name: getattr(job, name) for name in NUMBERS},
        is_kept=job.is_kept,
        is_running=is_running,
        hosts=str(HostSet(scheduler.manager.hosts_of(job))) if is_running else "",
        reserved=amount_of(job.bits if by_host else job.reserved),
    )


def restore(scheduler: Planner, standing: Standing) -> list[Job]:
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
    if standing.knows_capacity:
        capacity = manager.capacity
        capacity.is_known = True
        capacity.away = HostSet.parse(standing.away)
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
        jobs.append(job)

        if job.id in standing.originals:
            manager.know_original(job, standing.originals[job.id])
        if stored_job.is_running:
            manager.restore_running(job, HostSet.parse(stored_job.hosts).mask)

    manager.count_free()
    manager.qos_log.learn(standing.records)
    manager.news.lag = standing.lag
    if standing.is_late:
        manager.news.mark_late()

    restore_plan(plan, standing, jobs)
    scheduler.called_for = float(standing.called_for)
    scheduler.is_whole = standing.is_whole
    scheduler.is_final = standing.is_final

    # The profile is not stored: it follows from the jobs and claims, and from when it begins.
    if plan.by_host:
        plan.tell_hosts(manager.free_mask())
    there = HostSet.first(size) - HostSet.parse(standing.away)
    plan.everything = HostBits.of(there.mask, size) if plan.by_host else len(there)
    plan.reserve_plan(standing.profile_start)
    return jobs


def restore_plan(plan: Plan, standing: Standing, jobs: list[Job]) -> None:
    """Fill an empty plan with the jobs, reservations and dates of a snapshot."""
    plan.waiting = [jobs[place] for place in standing.waiting]
    plan.running = [jobs[place] for place in standing.running]
    plan.settled = [jobs[place] for place in standing.settled]
    for place, job in enumerate(plan.running):
        job.place = place

    plan.claims = [
        Claim(
            float(claim.start),
            float(claim.end),
            None if claim.job is None else jobs[claim.job],
            read_amount(claim.reserved, plan.machine_size),
        )
        for claim in standing.claims
    ]
    for name, date in standing.dates.items():
        setattr(plan, name, float(date))
    for name, number in standing.numbers.items():
        setattr(plan, name, number)
