"""Random runs in which hosts leave and return, with maintenance, cancellations, fixed starts."""

from __future__ import annotations

import math
import random
from typing import Any, NamedTuple

from qops_batsim import Job, QosRequest, simulate
from qops_batsim.core import HostSet, format_qos
from qops_batsim.engine import EngineOptions, ExternalEvent
from qops_batsim.engine.ended_jobs import HostChanges
from qops_batsim.jobs import REJECTED
from qops_batsim.platform import make_cluster
from qops_batsim.protocol import make_scheduler
from qops_batsim.workload import Workload, delay_profile

HOSTS = 8


def random_workload(rng: random.Random, *, deadlines: bool) -> Workload:
    """Return jobs that keep a machine busy, some with fixed starts."""
    jobs = []
    profiles = {}
    date = 0.0
    grain = rng.choice([1.0, 0.001])
    for number in range(rng.choice([20, 60])):
        date += rng.choice([0.0, rng.randint(1, 20) * grain])
        run_time = rng.randint(1, 30) * grain
        name, profile = delay_profile(run_time)
        profiles[name] = profile
        limit = run_time * rng.choice([0.5, 1.0, 1.5, 4.0])
        asked: dict[str, Any] = {}
        if rng.random() < 0.15:
            asked["start"] = date + rng.randint(0, 40) * grain
        if deadlines and rng.random() < 0.8:
            asked["deadline"] = date + limit * rng.choice([0.9, 1.0, 2.0, 5.0, 10.0])
        if rng.random() < 0.2:
            asked["estimated_runtime"] = run_time * rng.choice([0.7, 1.0])
        processors = rng.choice([1, 1, 2, 3, 4, HOSTS - 1, HOSTS, HOSTS + 1])
        qos = QosRequest(**asked) if asked else None
        jobs.append(Job(f"{number:02d}", date, processors, name, limit, qos))
    return Workload(jobs=jobs, profiles=profiles, processors=HOSTS)


def some_hosts(rng: random.Random, hosts: int) -> HostSet:
    return HostSet.of(rng.sample(range(hosts), rng.randint(1, max(1, hosts - 2))))


def random_events(
    rng: random.Random, workload: Workload, hosts: int = HOSTS
) -> tuple[ExternalEvent, ...]:
    """Return hosts that leave and return, or not; maintenance; jobs that are cancelled."""
    last, found = workload.jobs[-1].submission_time + 20, list[ExternalEvent]()
    dates = [job.submission_time for job in workload.jobs]

    def date() -> float:
        return rng.choice([rng.choice(dates), rng.uniform(0, last), round(rng.uniform(0, last))])

    taken: list[tuple[HostSet, float, float]] = []

    def is_apart(hosts: HostSet, since: float, until: float) -> bool:
        """Return whether no other outage has any of these hosts then; take them if so."""
        if any(hosts & each and since <= end and begin <= until for each, begin, end in taken):
            return False
        taken.append((hosts, since, until))
        return True

    for _ in range(rng.randint(0, 4)):
        gone, since = some_hosts(rng, hosts), date()
        returns = rng.random() < 0.8
        until = since + rng.choice([0.5, 1.0, rng.uniform(0, 30)]) if returns else math.inf
        if not is_apart(gone, since, until):
            continue
        found.append(ExternalEvent(since, "machine_unavailable", gone, {}))
        if returns:
            found.append(ExternalEvent(until, "machine_available", gone, {}))
    for _ in range(rng.randint(0, 2)):
        gone, notice = some_hosts(rng, hosts), date()
        since = notice + rng.choice([0.0, 5.0, rng.uniform(0, 20)])
        until = since + rng.uniform(1, 20)
        if not is_apart(gone, since, until):
            continue
        fields = {
            "type": "maintenance",
            "timestamp": notice,
            "resources": str(gone),
            "start": since,
            "end": until,
        }
        found.append(ExternalEvent(notice, "maintenance", gone, fields))
        found.append(ExternalEvent(since, "machine_unavailable", gone, {}))
        found.append(ExternalEvent(until, "machine_available", gone, {}))
    for job in rng.sample(workload.jobs, min(rng.randint(0, 5), len(workload.jobs))):
        when = job.submission_time + rng.choice([0.0, 0.0, 1.0, rng.uniform(0, 20)])
        fields = {"type": "job_cancelled", "timestamp": when, "job_id": f"w0!{job.id}"}
        found.append(ExternalEvent(when, "job_cancelled", HostSet(), fields))
    return tuple(sorted(found, key=lambda event: event.timestamp))


class Outcome(NamedTuple):
    """What became of each job, in the order of their ends; the lines of _qos.csv; busy hosts."""

    jobs: list[Any]
    qos: list[bytes]
    hosts: list[list[float]]


def run(
    scheduler: Any,
    settings: dict[str, Any] | None,
    workload: Workload,
    events: tuple[ExternalEvent, ...],
    *,
    by_messages: bool = False,
) -> Outcome:
    """Run a scheduler in the loop of events, or by messages."""
    module = make_scheduler(scheduler, settings)
    done = simulate(
        module,
        workload,
        make_cluster(HOSTS),
        events=events,
        # With profiles an engine speaks in messages.
        engine=EngineOptions(forward_profiles=by_messages),
        allow_smaller_machine=True,
    )
    jobs = [
        (each.job.id, each.state)
        if each.state == REJECTED
        else (each.job.id, each.state, each.start, each.finish, str(each.hosts))
        for each in done.ended
    ]
    changes: HostChanges = done.host_changes
    hosts = [each.tolist() for each in (changes.dates, changes.computing, changes.idle)]
    return Outcome(jobs, list(format_qos(module.qos_log)), hosts)
