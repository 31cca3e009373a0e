"""Single simulations of Pascal et al. (2004): what is run, and what is measured of it."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from qops_batsim.analysis.results.restarts import original_id
from qops_batsim.engine.records import JobRecord
from qops_batsim.jobs import QOS_CLASSES, REJECTED, Job
from qops_batsim.platform.generate import make_cluster
from qops_batsim.running.simulate import simulate
from qops_batsim.scheduling.aroma.scheduler import Aroma, AromaOptions
from qops_batsim.scheduling.module import DecisionModule
from qops_batsim.scheduling.registry import read_options, scheduler_class
from qops_batsim.timing import PLAN_TOLERANCE
from qops_batsim.workload.delay_jobs import exact_estimates
from qops_batsim.workload.from_swf import Repairs, convert_swf
from qops_batsim.workload.model import Workload
from qops_batsim.workload.service_classes import (
    TOGETHER,
    ClassChoices,
    LogFacts,
    application_of,
    assign_classes,
    name_queues,
)
from qops_batsim.workload.swf import SwfLog, read_swf

if TYPE_CHECKING:
    from qops_batsim.scheduling.aroma.application import Application

REBUILT = "SDSC-SP2-1998-rebuilt.swf.gz"
"""All jobs of the log that ran, without queues, waits and CPU times."""

ORIGINAL = "SDSC-SP2-1998-first5000.swf.gz"
"""The log's first 4,961 jobs with all that it knows."""

HOSTS = 128
SPEED = 100e6
"""Of every host (flop/s); it cancels out, since work is given in CPU time."""

RUN_TIME, MEASURED = "run time", "CPU time field"
"""What counts as the CPU time that a task requests."""

SETTINGS = {"conservative": {"reserve": "processors"}}
"""Options of schedulers that are not their defaults."""

ALL = "all"
"""Name of the group of all jobs, beside those of the classes."""


class Trial(msgspec.Struct, frozen=True, kw_only=True):
    """One simulation.

    Attributes
    ----------
    log
        :data:`REBUILT` or :data:`ORIGINAL`.
    first
        Number of usable jobs to take from its beginning; None: all.
    scheduler
        Registered name; its options are :data:`SETTINGS`.
    every
        Class of all jobs; None: by queue.
    cpu_time
        :data:`RUN_TIME` or :data:`MEASURED`.
    tasks
        Whether the tasks of a job progress together or apart
        (:attr:`~qops_batsim.workload.service_classes.ClassChoices.tasks`).
    seed
        Of the queues that jobs without one draw.
    """

    log: str
    first: int | None
    scheduler: str
    every: str | None = None
    cpu_time: str = RUN_TIME
    tasks: str = TOGETHER
    seed: int = 1

    @property
    def name(self) -> str:
        """What the trial is called in files: all that tells it from others."""
        parts = [
            self.log.partition(".")[0],
            "all" if self.first is None else str(self.first),
            self.scheduler,
            self.every or "by queue",
            self.cpu_time,
            self.tasks,
            f"seed {self.seed}",
        ]
        return " ".join(parts).replace(" ", "_")


class Group(msgspec.Struct, frozen=True, kw_only=True):
    """What is measured of the applications of one class, or of all.

    Attributes
    ----------
    jobs
        Applications submitted: jobs of the log.
    rejected
        Of them rejected.
    wait
        Mean time from submission to the start of the last task, of those that
        started (s); None if none did.
    stretch
        Mean of (end - start) / CPU time of those that started: by how much sharing
        hosts slows them; None if none did.
    mapping_ms, mapping_p99_ms
        Mean and 99th percentile of the wall clock time that it took to map one (ms);
        None if it was not measured.
    """

    jobs: int
    rejected: int
    wait: float | None
    stretch: float | None
    mapping_ms: float | None
    mapping_p99_ms: float | None


class PredictionError(msgspec.Struct, frozen=True, kw_only=True):
    """How far the predicted ends of jobs are from those that the engine simulates.

    Attributes
    ----------
    last_mean, last_max
        Mean and greatest difference to the last prediction, made when the last thing
        happened before the end (s).
    first_mean, first_max
        The same for the first prediction, made when the job was mapped; later jobs on
        the same hosts change ends, so this is no error of the model (s).
    """

    last_mean: float
    last_max: float
    first_mean: float
    first_max: float


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """What is measured of a trial.

    Attributes
    ----------
    groups
        By class, and :data:`ALL`.
    days
        From the first submission to the last (days).
    broken
        Accepted applications that ended after their deadline or started after their latest start.
    stopped
        Stops of jobs that went on later; a task that is a job of its own counts by itself.
    prediction_error
        If the scheduler predicts ends.
    """

    groups: dict[str, Group]
    days: float
    broken: int
    stopped: int
    prediction_error: PredictionError | None


class TimedAroma(Aroma):
    """AROMA with a watch.

    Attributes
    ----------
    seconds
        Wall clock time of each mapping, by full job id (s).
    """

    def __init__(self, options: AromaOptions | None = None) -> None:
        super().__init__(options)
        self.seconds: dict[str, float] = {}

    def map_application(self, application: Application) -> bool:
        """Map an application and note how long that takes."""
        begin = time.perf_counter()
        mapped = super().map_application(application)
        self.seconds[application.job.id] = time.perf_counter() - begin
        return mapped


@cache
def read_log(path: Path) -> SwfLog:
    """Return a log; the second time without reading it again."""
    return read_swf(path)


def delay_workload(path: Path, first: int | None) -> Workload:
    """Return the first usable jobs of a log, each with its walltime, never longer than that."""
    return convert_swf(
        read_log(path), processors=HOSTS, repairs=Repairs(overrun="clip"), first=first
    ).workload


def trial_workload(trial: Trial, path: Path) -> Workload:
    """Return the workload of a trial.

    NQS gets jobs that last, with their requested times and queues; a scheduler of
    classes gets jobs that compute; any other gets jobs that last, with exact estimates.
    """
    choices = ClassChoices(every=trial.every, seed=trial.seed, speed=SPEED, tasks=trial.tasks)
    facts = LogFacts.of(read_log(path))
    jobs = delay_workload(path, trial.first)
    if trial.scheduler == "nqs":
        return name_queues(jobs, choices, facts)
    if trial.scheduler != "aroma":
        return exact_estimates(jobs)
    cpu_times = facts.cpu_times if trial.cpu_time == MEASURED else None
    return assign_classes(jobs, choices, facts, cpu_times=cpu_times)


def run_trial(trial: Trial, path: Path) -> Outcome:
    """Simulate and measure.

    Raises
    ------
    InputError, SimulationError
        As :func:`~qops_batsim.running.simulate.simulate`.
    """
    workload = trial_workload(trial, path)
    kind = TimedAroma if trial.scheduler == "aroma" else scheduler_class(trial.scheduler)
    kind.prepare()
    settings = SETTINGS.get(trial.scheduler, {})
    module = kind(read_options(trial.scheduler, kind, settings))
    simulation = simulate(workload, make_cluster(HOSTS, speed=SPEED), module)
    return outcome_of(workload, simulation.ended, module)


class _Application:
    """What became of the jobs of one application."""

    def __init__(self, service: str | None, records: list[JobRecord]) -> None:
        self.service = service
        self.records = records
        self.rejected = any(record.state == REJECTED for record in records)
        self.submission_time = records[0].submission_time
        # It is there as a whole once its last task has started.
        self.start = max(record.start for record in records)
        self.requested = max(record.job.estimate for record in records)
        self.end = math.nan


def outcome_of(workload: Workload, ended: Iterable[JobRecord], module: DecisionModule) -> Outcome:
    """Return what is measured of a simulation that is over."""
    ended = list(ended)
    records = {record.local_id: record for record in ended}
    ends = _ends(ended, {job.id for job in workload.jobs})
    parts: dict[str, list[Job]] = {}
    for job in workload.jobs:
        parts.setdefault(application_of(job), []).append(job)
    members: dict[str, list[_Application]] = {name: [] for name in (*QOS_CLASSES, ALL)}
    broken = 0
    for jobs in parts.values():
        qos = jobs[0].qos
        service = None if qos is None else qos.service_class
        application = _Application(service, [records[job.id] for job in jobs])
        application.end = max(ends[job.id] for job in jobs)
        broken += _is_broken(application, module)
        members[ALL].append(application)
        if service is not None:
            members[service].append(application)
    seconds = module.seconds if isinstance(module, TimedAroma) else {}
    dates = [job.submission_time for job in workload.jobs]
    return Outcome(
        groups={name: _group(part, seconds) for name, part in members.items() if part},
        days=(max(dates) - min(dates)) / 86_400,
        broken=broken,
        stopped=len(records) - len(workload.jobs),
        prediction_error=_prediction_error(module) if isinstance(module, Aroma) else None,
    )


def _ends(ended: Iterable[JobRecord], ids: set[str]) -> dict[str, float]:
    """Return the end of each job (s): of the runs of a stopped job, that of the last."""
    ends: dict[str, float] = {}
    for record in ended:
        origin = original_id(record.local_id, ids)
        if origin is not None:
            ends[origin] = max(record.finish, ends.get(origin, -math.inf))
    return ends


def _group(applications: Sequence[_Application], seconds: Mapping[str, float]) -> Group:
    started = [each for each in applications if not each.rejected]
    measured = [
        seconds[record.job.id]
        for each in applications
        for record in each.records
        if record.job.id in seconds
    ]
    lasted = [
        (each.end - each.start) / each.requested
        for each in started
        if math.isfinite(each.requested)
    ]
    return Group(
        jobs=len(applications),
        rejected=len(applications) - len(started),
        wait=_mean([each.start - each.submission_time for each in started]),
        stretch=_mean(lasted),
        mapping_ms=_mean([1e3 * each for each in measured]),
        mapping_p99_ms=1e3 * float(np.percentile(measured, 99)) if measured else None,
    )


def _mean(values: Sequence[float]) -> float | None:
    return math.fsum(values) / len(values) if values else None


def _is_broken(application: _Application, module: DecisionModule) -> bool:
    """Tell whether a promise to an application that was not rejected was broken."""
    if application.rejected:
        return False
    for record in application.records:
        promised = module.qos_log.record(record.job.id)
        deadline, latest = promised.admitted_deadline, promised.latest_start
        if deadline is not None and application.end > deadline + PLAN_TOLERANCE:
            return True
        if latest is not None and record.start > latest + PLAN_TOLERANCE:
            return True
    return False


def _prediction_error(module: Aroma) -> PredictionError | None:
    known = [each for each in module.predictions.values() if math.isfinite(each.end)]
    if not known:
        return None
    last = [abs(each.last - each.end) for each in known]
    first = [abs(each.first - each.end) for each in known]
    return PredictionError(
        last_mean=math.fsum(last) / len(last),
        last_max=max(last),
        first_mean=math.fsum(first) / len(first),
        first_max=max(first),
    )


def recorded_wait(path: Path, *, usable_only: bool) -> tuple[float, int]:
    """Return the mean recorded wait (s) of a log's jobs and their number.

    Parameters
    ----------
    path
        The log.
    usable_only
        Count only jobs that ran and are simulated; else all with a wait, cancelled
        ones included.
    """
    waits = LogFacts.of(read_log(path)).waits
    if usable_only:
        ids = [job.id for job in delay_workload(path, None).jobs]
        counted = [waits[each] for each in ids if each in waits]
    else:
        counted = list(waits.values())
    return (math.fsum(counted) / len(counted) if counted else math.nan), len(counted)
