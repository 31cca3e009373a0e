"""Jobs that a scheduler registers in the loop of events, and the progress of killed ones."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from qops_batsim.core.hostset import HostSet
from qops_batsim.engine.execution import (
    Step,
)
from qops_batsim.engine.records import JobRecord
from qops_batsim.engine.registration import notified, register_job, register_profile
from qops_batsim.engine.world import World
from qops_batsim.jobs import (
    COMPLETED_FAILED,
    COMPLETED_SUCCESSFULLY,
    COMPLETED_WALLTIME_REACHED,
    Job,
)
from qops_batsim.protocol.decisions import RegisterJob, RegisterProfile
from qops_batsim.protocol.events import Notify


class Registry:
    """The jobs and profiles that a scheduler registers in a run.

    They are checked and kept as if they had come in a message, so that a run has the same jobs
    whoever drives its scheduler.

    Parameters
    ----------
    world
        Where profiles, and records of registered jobs, are kept.

    Attributes
    ----------
    records
        The registered jobs in order.
    """

    def __init__(self, world: World) -> None:
        self._world = world
        self._progress: dict[str, dict[str, Any]] = {}
        self._is_finished = False
        world.loop_ends = []
        self.records: list[JobRecord] = []

    @property
    def is_open(self) -> bool:
        """Whether the engine still waits for the end of the registration."""
        return self._world.registering

    def register(
        self, job: Job, profile: Mapping[str, Any] | None, now: float
    ) -> tuple[float, str]:
        """Register a job, with a profile unless that exists; SimulationError if it is invalid.

        Return how long it runs (seconds), and its state then; NaN if it does more than sleep, so
        that :meth:`begin` has to execute it.
        """
        world = self._world
        world.now = now
        if profile is not None:
            workload = job.id.partition("!")[0]
            register_profile(world, RegisterProfile(workload, job.profile, dict(profile)))
        record = register_job(world, RegisterJob(job.id, job))
        self.records.append(record)

        step = record.execution.steps[0]
        if len(record.execution.steps) > 1 or step.delay is None:
            return math.nan, ""
        return _end_of(step, step.delay, record.job.walltime)

    def begin(self, job: Job, hosts: int, now: float) -> None:
        """Begin to execute a job that does more than sleep, on hosts (bits)."""
        world = self._world
        world.now = now
        # Tasks may be on fewer hosts than there are executors, and parts have theirs in turn.
        executors = () if job.request is None else tuple(job.request.mapping())
        world.begin(world.records[job.id], HostSet(hosts), executors or None)

    def ended(self) -> list[JobRecord]:
        """Return the executions that have ended since this was asked last."""
        ends = self._world.loop_ends or []
        self._world.loop_ends = []
        return ends

    def kill(self, job: Job, now: float) -> None:
        """Break off a job that does more than sleep."""
        world = self._world
        world.now = now
        self._progress[job.id] = world.kill(world.records[job.id])
        self.ended()  # That it has ended is told as a kill.

    def finish(self, now: float) -> None:
        """Note that the scheduler registers no more jobs."""
        if not self._is_finished:
            self._is_finished = True
            self._world.now = now
            notified(self._world, Notify.of("registration_finished"))

    def progress(self, job: Job, start: float, now: float) -> dict[str, Any]:
        """Return how far a killed job is that began at ``start`` (seconds), as JOB_KILLED tells."""
        world = self._world
        if job.id in self._progress:
            return self._progress.pop(job.id)
        record = world.records.get(job.id)
        if record is None:
            workload = job.id.partition("!")[0]
            where = world.workloads[workload].source
            execution = world.execution(workload, job.profile, job.processors, where=where)
            record = JobRecord(job, execution)
        record.step_began = start
        return record.progress(now, world.options.rules.decimals)


def _end_of(step: Step, delay: float, walltime: float | None) -> tuple[float, str]:
    """Return how long a job runs that only sleeps (seconds), and its state then."""
    if walltime is not None and delay >= walltime:
        return walltime, COMPLETED_WALLTIME_REACHED
    return delay, COMPLETED_FAILED if step.return_code else COMPLETED_SUCCESSFULLY
