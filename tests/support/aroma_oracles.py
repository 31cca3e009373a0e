"""Naive references for AROMA, and small workloads of work on small machines.

The recurrences are written from section 3.2 of Pascal et al. (2004) with dictionaries
and no regard for time; nothing is shared with the package.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
import numpy as np

from qops_batsim import Aroma, Job, QosRequest, Scheduler, simulate
from qops_batsim.engine import JobRecord, Simulation
from qops_batsim.jobs import QOS_CLASSES
from qops_batsim.platform import Host, Platform, Zone
from qops_batsim.protocol import SchedulerModule, make_scheduler
from qops_batsim.running import default_engine
from qops_batsim.workload import Workload

SPEED = 100e6
"""Speed of the reference host (flop/s)."""


def host_ends(tasks: Sequence[tuple[float, float]], processors: int) -> list[float]:
    """Return the ends of tasks (start, seconds alone) on one host: the paper's recurrence."""
    left = {index: seconds for index, (_, seconds) in enumerate(tasks)}
    starts = {index: start for index, (start, _) in enumerate(tasks)}
    ends: dict[int, float] = {}
    now = min(starts.values())
    while len(ends) < len(tasks):
        present = [index for index in starts if starts[index] <= now and index not in ends]
        share = min(1.0, processors / len(present)) if present else 1.0
        events = [starts[index] for index in starts if starts[index] > now]
        events += [now + left[index] / share for index in present]
        following = min(events)
        for index in present:
            if now + left[index] / share <= following:
                ends[index] = following
            left[index] -= share * (following - now)
        now = following
    return [ends[index] for index in range(len(tasks))]


def coupled_ends(
    jobs: Sequence[tuple[float, dict[int, float]]], processors: Sequence[int]
) -> list[float]:
    """Return the ends of jobs (start, seconds alone by host) that progress at one rate each."""
    left = dict.fromkeys(range(len(jobs)), 1.0)
    ends: dict[int, float] = {}
    now = min(start for start, _ in jobs)
    while len(ends) < len(jobs):
        present = [i for i, (start, _) in enumerate(jobs) if start <= now and i not in ends]
        load = {
            host: sum(host in jobs[index][1] for index in present)
            for host in range(len(processors))
        }
        rates = {
            index: min(
                min(1.0, processors[host] / load[host]) / seconds
                for host, seconds in jobs[index][1].items()
            )
            for index in present
        }
        events = [start for start, _ in jobs if start > now]
        events += [now + left[index] / rates[index] for index in present]
        following = min(events)
        for index in present:
            if now + left[index] / rates[index] <= following:
                ends[index] = following
            left[index] -= rates[index] * (following - now)
        now = following
    return [ends[index] for index in range(len(jobs))]


def machine(
    speeds: Iterable[float], cores: Iterable[int] | None = None, memory: Sequence[float] = ()
) -> Platform:
    """Return hosts of these speeds (in multiples of the reference) without network delays."""
    listed = list(speeds)
    counts = [1] * len(listed) if cores is None else list(cores)
    place = (0.0, 0.0, 0.0)
    hosts = tuple(
        Host(
            name=f"host{index:03d}",
            speeds=(speed * SPEED,),
            cores=count,
            properties={"memory": f"{memory[index]:g}"} if memory else {},
            zone="all",
            coordinates=place,
        )
        for index, (speed, count) in enumerate(zip(listed, counts, strict=True))
    )
    master = Host(name="master_host", speeds=(SPEED,), role="master", zone="all", coordinates=place)
    return Platform(
        compute_hosts=hosts, master=master, zones=(Zone(name="all", routing="Vivaldi"),)
    )


def work(*jobs: dict[str, Any], processors: int = 1) -> Workload:
    """Return a workload of jobs that compute.

    Each is given by ``at`` (s), ``tasks``, ``seconds`` (on the reference host), and the
    fields of its QoS request (``service_class``, ``deadline`` …); all have defaults.
    """
    listed, profiles = [], {}
    for index, described in enumerate(jobs):
        fields = dict(described)
        at, tasks = float(fields.pop("at", 0.0)), fields.pop("tasks", 1)
        flop, sent = fields.pop("seconds", 10.0) * SPEED, fields.pop("com", 0)
        name = f"work{flop:g}_{sent:g}"
        profiles[name] = {"type": "parallel_homogeneous", "cpu": flop, "com": sent}
        listed.append(Job(str(index), at, tasks, name, qos=QosRequest(**fields)))
    return Workload(jobs=listed, profiles=profiles, processors=processors)


def mixed_work(
    seed: int, *, hosts: int, jobs: int = 50, widest: int | None = None, gap: float = 10.0
) -> Workload:
    """Return random jobs of all classes; many arrive together or at whole seconds."""
    random = np.random.default_rng(seed)
    described = []
    at = 0.0
    for _ in range(jobs):
        if random.random() < 0.7:
            at += float(random.exponential(gap))
        if random.random() < 0.3:
            at = float(round(at))
        chosen = QOS_CLASSES[int(random.choice(4, p=[0.5, 0.13, 0.12, 0.25]))]
        seconds = float(random.integers(1, 100))
        fields: dict[str, Any] = {
            "at": at,
            "tasks": int(random.integers(1, (widest or hosts) + 1)),
            "seconds": seconds,
            "service_class": chosen,
        }
        if chosen == "deadline":
            fields["deadline"] = at + seconds * float(
                random.choice([0.9, 1.0, 1.5, 2.0, 5.0, 10.0])
            )
        described.append(fields)
    return work(*described, processors=hosts)


def random_machine(seed: int, hosts: int) -> Platform:
    """Return hosts of random speeds and numbers of cores."""
    random = np.random.default_rng(seed)
    return machine(
        [float(random.choice([0.5, 1.0, 2.0, 4.0])) for _ in range(hosts)],
        [int(random.choice([1, 1, 2, 4])) for _ in range(hosts)],
    )


def far_apart(platform: Platform, seed: int, milliseconds: float) -> Platform:
    """Return the platform with random latencies from each host to the middle, up to that."""
    random = np.random.default_rng(seed)

    def moved(host: Host) -> Host:
        height = float(random.uniform(0, milliseconds))
        return msgspec.structs.replace(host, coordinates=(0.0, 0.0, height))

    assert platform.master is not None
    return msgspec.structs.replace(
        platform,
        master=moved(platform.master),
        compute_hosts=tuple(moved(host) for host in platform.compute_hosts),
    )


def run(
    workload: Workload,
    platform: Platform,
    *,
    sharing: bool | None = None,
    **settings: Any,
) -> tuple[Simulation, SchedulerModule]:
    """Run AROMA on a workload; return the simulation and the module."""
    module = make_scheduler("aroma", settings)
    assert isinstance(module, SchedulerModule)
    assert isinstance(module.scheduler, Aroma)
    return simulate_with(module, workload, platform, sharing=sharing), module


def simulate_with(
    scheduler: Scheduler | SchedulerModule,
    workload: Workload,
    platform: Platform,
    *,
    sharing: bool | None = None,
) -> Simulation:
    """Run a scheduler on the embedded engine, as it is meant to run."""
    engine = default_engine(scheduler, compute_sharing=sharing)
    return simulate(scheduler, workload, platform, engine=engine)


def records(simulation: Simulation) -> dict[str, JobRecord]:
    """Return what became of each job, by its name in the workload."""
    return {record.local_id: record for record in simulation.ended}


def spans(simulation: Simulation) -> dict[str, tuple[float, float, str] | str]:
    """Return start, end (rounded to 1 µs) and hosts of each job, or its state if it never ran."""
    return {
        record.local_id: record.state
        if math.isnan(record.start)
        else (round(record.start, 6), round(record.finish, 6), str(record.hosts))
        for record in simulation.ended
    }


def promises_broken(simulation: Simulation, *, start_tolerance: float = 5.0) -> list[str]:
    """Return which promises of AROMA's classes a run breaks, found by looking at each pair."""
    slack = 2e-6
    ran = [record for record in simulation.ended if not math.isnan(record.start)]
    broken = []
    for record in simulation.ended:
        qos = record.job.qos
        assert qos is not None
        chosen = qos.service_class
        name = record.local_id
        if math.isnan(record.start):
            if chosen in ("dedicated", "best_effort"):
                broken.append(f"{name} ({chosen}) was refused")
            continue
        if chosen == "deadline" and record.finish > (qos.deadline or math.inf) + slack:
            broken.append(f"{name} ends {record.finish} after {qos.deadline}")
        latest = record.submission_time + start_tolerance + slack
        if chosen == "high_priority" and "#" not in name and record.start > latest:
            broken.append(f"{name} starts {record.start} after {latest}")
        if chosen == "dedicated":
            broken += [
                f"{name} shares a host with {other.local_id}"
                for other in ran
                if other is not record
                and other.hosts.mask & record.hosts.mask
                and other.start < record.finish - slack
                and record.start < other.finish - slack
            ]
    return broken
