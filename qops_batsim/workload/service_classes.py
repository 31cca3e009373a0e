"""Classes of service: assigned to a log's jobs, or in made-up workloads of all four.

P. Pascal, S. Richard, B. Miegemolle and T. Monteil, "Tasks Mapping with Quality of
Service for Coarse Grain Parallel Applications", section 4: the queue that a user of
the SDSC SP2 chose stands for a class, and the required CPU time is all work there is.

The made-up workloads are small, for unequal hosts that are shared. Their applications are those of
Pascal et al. (2004), section 3: coarse grain, with a known CPU time, some memory, a little
communication. All numbers are made up.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Mapping
from hashlib import blake2b
from itertools import accumulate
from typing import Any

import msgspec
import numpy as np

from qops_batsim.errors import InputError, did_you_mean, require, require_one_of, shown
from qops_batsim.jobs import QOS_CLASSES, Job
from qops_batsim.limits import MAX_APPLICATIONS
from qops_batsim.version import __version__
from qops_batsim.workload.delay_jobs import changed_job, derived, jobs_until_killed
from qops_batsim.workload.lublin import random_stream
from qops_batsim.workload.swf import SwfLog
from qops_batsim.workload.workload_model import (
    Profile,
    Workload,
    check_processors,
    check_seed,
    plain_number,
)

CLASS_OF_QUEUE = {
    "express": "high_priority",
    "high": "dedicated",
    "normal": "deadline",
    "low": "best_effort",
    "standby": "best_effort",
}
"""Class of each queue of the SDSC SP2 (section 4.2; the paper does not mention standby)."""

SDSC_MIX = {"express": 662, "high": 602, "normal": 2765, "low": 867, "standby": 65}
"""Jobs in each queue among the first 4,961 of the SDSC SP2 log, cancelled ones included."""

TOGETHER = "together"
APART = "apart"
"""Choices for the tasks of a job (:attr:`ClassChoices.tasks`)."""

LEAST_CPU_TIME = 1.0
"""CPU time of a task that used less, or none that was measured as more than 0 (seconds)."""


class ClassChoices(msgspec.Struct, frozen=True, kw_only=True):
    """Options for turning delay jobs into compute jobs with classes of service (deadline ...)."""

    every: str | None = None
    """Put all jobs into this class, whatever their queues; None: by queue."""
    seed: int = 1
    """Of the draws. A job draws the same in every workload."""
    deadline_factor: float = 5.0
    """Deadline of jobs of class deadline: submission + this x CPU time."""
    speed: float = 1e9
    """Flop/s of the host on which the CPU times were measured."""
    tasks: str = TOGETHER
    """Jobs in the place of one of n processors: ``"together"``, one job of n processors, whose
    parts progress at one rate; ``"apart"``, n jobs of one processor, the tasks of one application
    (``qos.application``), which may share a host.
    """

    def check(self) -> None:
        """Raise :class:`~qops_batsim.errors.InputError` if a value is out of range."""
        if self.every is not None:
            require_one_of("class", self.every, QOS_CLASSES)
        require_one_of("tasks", self.tasks, (TOGETHER, APART))
        check_seed(self.seed)
        factor = self.deadline_factor
        speed = self.speed
        require(1 <= factor < math.inf, "deadline factor", factor, "a number from 1 up is accepted")
        require(0 < speed < math.inf, "speed", speed, "a number of flop/s above 0 is accepted")


class LogFacts(msgspec.Struct, frozen=True, kw_only=True):
    """Facts about jobs that a log has, but not the workload made from that log.

    The name of each queue number, from the header's ``Queue`` lines; and by job number the CPU
    time a processor and the recorded wait (seconds), where they are known.
    """

    queue_names: Mapping[str, str] = {}
    cpu_times: Mapping[str, float] = {}
    waits: Mapping[str, float] = {}

    @classmethod
    def of(cls, log: SwfLog) -> LogFacts:
        """Return the facts in a log; facts that the log lacks are empty."""
        numbers = [str(number) for number in log.records["job_number"].tolist()]

        def known(field: str) -> dict[str, float]:
            values = log.records[field].tolist()
            return {n: value for n, value in zip(numbers, values, strict=True) if value >= 0}

        lines = (re.match(r"([0-9]+)\s+(\S+)", text) for text in log.header.values("Queue"))
        names = {line[1]: line[2] for line in lines if line}
        return cls(queue_names=names, cpu_times=known("average_cpu_time"), waits=known("wait_time"))


def name_queues(
    workload: Workload, choices: ClassChoices | None = None, facts: LogFacts | None = None
) -> Workload:
    """Return the workload with each job's queue name in its ``qos``.

    A job keeps its name. Otherwise the number in its field ``queue`` decides, by the log's header
    (``facts``), else a draw with the shares of the SDSC SP2 and the seed of ``choices``.
    """
    choices = choices or ClassChoices()
    choices.check()
    names = (facts or LogFacts()).queue_names
    jobs = []
    drawn = 0
    for job in workload.jobs:
        queue = _known_queue(job, names)
        if queue is None:
            queue = _drawn_queue(job, choices.seed)
            drawn += 1
        jobs.append(changed_job(job, {}, {"queue": queue}, workload=workload))
    step: dict[str, Any] = {"step": "queues", "drawn": drawn}
    if drawn:
        step |= {"mix": SDSC_MIX, "seed": choices.seed}
    return derived(workload, jobs, None, step)


def assign_classes(
    workload: Workload,
    choices: ClassChoices | None = None,
    facts: LogFacts | None = None,
    *,
    cpu_times: Mapping[str, float] | None = None,
) -> Workload:
    """Turn delay jobs into compute jobs with classes of service.

    Each task has to compute what the reference host does in its CPU time (profile
    ``parallel_homogeneous``), and communicates with none, since logs do not record that.

    Parameters
    ----------
    workload
        Jobs of type ``delay``.
    choices
        Classes by queue, deadlines, and the speed of the reference host.
    facts
        The log's header: names of queues.
    cpu_times
        CPU time a processor (seconds) by job id. Jobs that are missing have their run time, cut to
        their walltime.

    Returns
    -------
    Workload
        With ``queue``, ``class``, ``estimated_runtime`` (the CPU time), and for the class of that
        name ``deadline`` in ``qos``. It has no walltimes: tasks that share hosts last longer than
        they compute.
    """
    choices = choices or ClassChoices()
    named = name_queues(workload, choices, facts)
    measured = cpu_times or {}
    jobs: list[Job] = []
    profiles: dict[str, Profile] = {}
    replaced = 0
    for job, run_time in jobs_until_killed(named):
        replaced += job.id in measured
        seconds = max(LEAST_CPU_TIME, measured[job.id]) if job.id in measured else run_time

        name, profiles[name] = compute_profile(seconds, choices.speed)
        assert job.qos is not None
        service = choices.every or _class_of(job.qos.queue or "", workload.source)
        qos: dict[str, Any] = {"class": service, "estimated_runtime": plain_number(seconds)}
        if service == "deadline":
            date = job.submission_time + choices.deadline_factor * seconds
            qos |= {"deadline": plain_number(date), "has_user_deadline": True}

        fields = {"profile": name, "walltime": None}
        changed = changed_job(job, fields, qos, workload=workload)
        jobs += [changed] if choices.tasks == TOGETHER else _tasks(changed, workload)

    step = {
        "step": "classes",
        "every": choices.every,
        "deadline_factor": plain_number(choices.deadline_factor),
        "speed": plain_number(choices.speed),
        "tasks": choices.tasks,
        "cpu_times": {"run time": len(named.jobs) - replaced, "measured": replaced},
    }
    return derived(named, jobs, profiles, step)


def compute_profile(
    seconds: float, speed: float, communication: float = 0.0
) -> tuple[str, Profile]:
    """Return the name and content of a profile whose tasks compute ``seconds`` each on a host of
    ``speed`` flop/s.

    ``communication`` is bytes between each ordered pair of tasks.
    """
    work = plain_number(seconds * speed)
    sent = plain_number(communication)
    name = f"compute{plain_number(seconds)}" + (f"_send{sent}" if communication else "")
    return name, {"type": "parallel_homogeneous", "cpu": work, "com": sent}


def count_classes(workload: Workload) -> dict[str, int]:
    """Return the number of jobs in each class, tasks of one application counted once."""
    seen = {
        application_of(job): (job.qos and job.qos.service_class) or "none" for job in workload.jobs
    }
    counts = Counter(seen.values())
    return {name: counts[name] for name in (*QOS_CLASSES, "none") if counts[name]}


def application_of(job: Job) -> str:
    """Return the name of the application of which a job is a task; the job's own id if it is of
    none.
    """
    return job.id if job.qos is None or job.qos.application is None else job.qos.application


def _known_queue(job: Job, names: Mapping[str, str]) -> str | None:
    if job.qos is not None and job.qos.queue is not None:
        return job.qos.queue
    number = job.fields.get("queue")
    return None if number is None else names.get(str(number), str(number))


def _drawn_queue(job: Job, seed: int) -> str:
    digest = blake2b(f"{seed} {job.id}".encode(), digest_size=8, person=b"queue").digest()
    bounds = [*accumulate(SDSC_MIX.values())]
    drawn = int.from_bytes(digest, "big") / 2**64 * bounds[-1]
    # A float may round up to the sum itself, which is below no bound.
    return [*SDSC_MIX][min(bisect_right(bounds, drawn), len(bounds) - 1)]


def _class_of(queue: str, where: str) -> str:
    service = CLASS_OF_QUEUE.get(queue)
    if service is None:
        hint = "; the log (--log) tells the names of queue numbers"
        if not queue.isdigit():
            hint = did_you_mean(queue, CLASS_OF_QUEUE)
        raise InputError(f"{where}: queue {shown(queue)} has no class of service{hint}")
    return service


def _tasks(job: Job, workload: Workload) -> list[Job]:
    """Split a job into jobs of one processor, its tasks: 15 becomes 15t1, 15t2, …"""
    qos = {"application": job.id}
    names = (f"{job.id}t{number}" for number in range(1, job.processors + 1))
    return [changed_job(job, {"id": name, "res": 1}, qos, workload=workload) for name in names]


# A stream of the seed that nothing else uses.
_MIXED = 23

_SIZES = (1, 2, 4, 8, 16, 32)
_MOST_APART = 4
_MEBIBYTE = 1 << 20


_MADE: dict[str, Any] = {
    "mix": {"deadline": 4.0, "high_priority": 2.0, "dedicated": 1.0, "best_effort": 3.0},
    "gap": 40.0,
    "cpu_time": (300.0, 5_400.0),
    "speed": 500e6,
    "memory": (16.0 * _MEBIBYTE, 384.0 * _MEBIBYTE),
    "communication": (1e5, 1e7),
    "apart": 0.4,
    "deadline_factor": 5.0,
    "sites": ("site_a", "site_b", "site_c"),
}
"""Numbers behind made-up applications, which stand in their workload.

Relative frequency of each class of service; mean time between submissions (s, exponential); least
and greatest CPU time of a task (s) on a host of ``speed`` flop/s, that of most hosts of
``aroma_grid``, memory of a task and what each ordered pair of tasks exchanges in half of the
applications (bytes), all three uniform in their logarithm; share of the best effort applications
whose tasks are jobs of their own (``qos.application``); deadlines over CPU time; sites of users
(``qos.origin``).
"""


def mixed_workload(
    applications: int = 48,
    seed: int = 1,
    *,
    processors: int = 68,
) -> Workload:
    """Generate a workload of compute jobs, of all four classes of service.

    Each is one compute job of 1 to 32 tasks; those whose tasks are jobs of their own
    have up to 4, with the ids ``7t1``, ``7t2``, … and the common name ``7``. No application has
    more tasks than the machine has hosts (``processors``), by default those of ``aroma_grid``.
    """
    accepted = f"a whole number from 1 to {MAX_APPLICATIONS} is accepted"
    require(1 <= applications <= MAX_APPLICATIONS, "applications", applications, accepted)
    check_processors(processors)
    jobs: list[Job] = []
    profiles: dict[str, Profile] = {}
    provenance = {
        "command": "workload mixed",
        "applications": applications,
        "seed": seed,
        "processors": processors,
        "choices": _MADE,
        "version": __version__,
    }
    source = f"the mixed workload of seed {seed}"
    workload = Workload(jobs, profiles, processors, provenance, source)

    random = random_stream(seed, _MIXED)
    sizes = [size for size in _SIZES if size <= processors]
    names, weights = zip(*_MADE["mix"].items(), strict=True)
    shares = np.array(weights) / sum(weights)
    submitted = 0
    for number in range(1, applications + 1):
        submitted += round(random.exponential(_MADE["gap"]))
        service = names[int(random.choice(len(names), p=shares))]
        tasks = int(random.choice(sizes))
        seconds = _drawn(random, _MADE["cpu_time"], 1)
        memory = _drawn(random, _MADE["memory"], _MEBIBYTE)
        exchanged = _drawn(random, _MADE["communication"], 1) if random.random() < 0.5 else 0
        is_apart = random.random() < _MADE["apart"] and service == "best_effort"
        site = _MADE["sites"][int(random.integers(len(_MADE["sites"])))]

        if is_apart:
            tasks = min(tasks, _MOST_APART)
        if is_apart or tasks == 1:
            exchanged = 0  # Between jobs, and within one task, nothing is.
        name, profiles[name] = compute_profile(seconds, _MADE["speed"], exchanged)
        qos: dict[str, Any] = {"class": service, "estimated_runtime": seconds}
        if service == "deadline":
            date = submitted + _MADE["deadline_factor"] * seconds
            qos |= {"deadline": plain_number(date), "has_user_deadline": True}
        qos |= {"memory": memory, "origin": site}
        fields = {"subtime": submitted, "res": tasks, "profile": name, "qos": qos}
        job = Job.from_fields({"id": str(number), **fields}, where=source)
        jobs += _tasks(job, workload) if is_apart and tasks > 1 else [job]
    return workload


def _drawn(random: np.random.Generator, bounds: tuple[float, float], unit: int) -> int:
    """Draw a multiple of ``unit`` between two bounds, log-uniformly."""
    low, high = (math.log(bound) for bound in bounds)
    return max(1, round(math.exp(random.uniform(low, high)) / unit)) * unit
