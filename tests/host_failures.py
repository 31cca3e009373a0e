"""Random small runs in which hosts go away and return."""

from __future__ import annotations

import random

from qops_batsim.engine.options import AVAILABLE, UNAVAILABLE, ExternalEvent
from qops_batsim.jobs import Job, QosRequest
from qops_batsim.platform.hostset import HostSet
from qops_batsim.workload.model import Workload, delay_profile

Events = tuple[ExternalEvent, ...]


def random_case(seed: int) -> tuple[int, Workload, Events]:
    """Return a number of hosts, jobs with and without deadlines, and what happens to the hosts.

    Estimates are exact or too long, so that every promise can be held against the schedule.
    """
    rng = random.Random(seed)
    hosts = rng.randint(2, 8)
    jobs, profiles = [], {}
    for index in range(rng.randint(4, 14)):
        submission, estimate = rng.randint(0, 60), rng.randint(1, 40)
        name, profile = delay_profile(max(1, estimate - rng.choice([0, 0, rng.randint(0, 40)])))
        profiles[name] = profile
        deadline = submission + rng.randint(estimate, 6 * estimate) if rng.random() < 0.7 else None
        qos = QosRequest(estimated_runtime=float(estimate), deadline=deadline)
        jobs.append(Job(str(index), float(submission), rng.randint(1, hosts), name, qos=qos))
    jobs.sort(key=lambda job: job.submission_time)
    return hosts, Workload(jobs=jobs, profiles=profiles, processors=hosts), _events(rng, hosts)


def _events(rng: random.Random, hosts: int) -> Events:
    events: list[ExternalEvent] = []
    away: set[int] = set()
    date = 0
    for _ in range(rng.randint(1, 6)):
        date += rng.randint(0 if not events else 1, 30)
        returns = bool(away) and (rng.random() < 0.5 or len(away) == hosts)
        some = sorted(away if returns else set(range(hosts)) - away)
        chosen = rng.sample(some, rng.randint(1, len(some)))
        away ^= set(chosen)
        kind = AVAILABLE if returns else UNAVAILABLE
        events.append(ExternalEvent(float(date), kind, HostSet.of(chosen), {}))
    return tuple(events)
