"""The engine's records of jobs."""

from __future__ import annotations

import math
from typing import Any

import msgspec
import numpy as np

from qops_batsim.core.hostset import HostSet
from qops_batsim.engine.execution import Execution, Replay
from qops_batsim.engine.fluid import Computation
from qops_batsim.engine.waits import Wait
from qops_batsim.errors import InputError, shown
from qops_batsim.job_fields import is_whole_number
from qops_batsim.jobs import NOT_SUBMITTED, Job
from qops_batsim.timing import TOLD_DECIMALS

SHORTEST_RUN_TIME = 1e-5
"""Run time that is written for a job that ended as it started (seconds), as in Batsim."""

RANK_MAPPING = "smpi_ranks_to_hosts_mapping"
"""Field of a job that gives, for each rank of a trace, the index of its host."""

_NO_HOSTS = HostSet()


class JobRecord(msgspec.Struct, eq=False):
    """The state of a job during a simulation.

    Attributes
    ----------
    job
        The job under its full identifier (``"w0!15"``).
    execution
        What it does when nothing stops it.
    state, return_code
        Its state, by Batsim's names (:mod:`qops_batsim.jobs`), and what it returned at its end.
    start, finish
        Dates (seconds), NaN until they happen and for a rejected job.
    hosts
        The hosts it runs or ran on.
    placement
        The host of each executor, if the module gave a mapping; by default each of
        ``hosts`` has one.
    kill_asked
        Whether the module has asked for it to be killed: only the first time counts.
    storages
        Storage hosts by the labels of its profile, where the module mapped them.
    metadata
        Text given by the decision module.
    energy
        Joules consumed on its hosts while it ran (before its end: before it started), or None
        without energy.
    step, step_began
        Index of the step it is in, and when that began (seconds).
    walltime_left
        Seconds left when the step began; infinite without walltime.
    computation
        What runs in this step, if it is a computation.
    replay
        The traces that are replayed in this step, if it is a trace.
    waits
        Its waits for the end of this step, for its walltime, and for latencies.
    """

    job: Job
    execution: Execution
    state: str = NOT_SUBMITTED
    return_code: int = 0
    start: float = math.nan
    finish: float = math.nan
    hosts: HostSet = _NO_HOSTS
    placement: tuple[int, ...] | None = None
    kill_asked: bool = False
    storages: dict[str, int] | None = None
    metadata: str = ""
    energy: float | np.longdouble | None = None
    step: int = 0
    step_began: float = math.nan
    walltime_left: float = math.inf
    computation: Computation | None = None
    replay: Replay | None = None
    waits: tuple[Wait, ...] = ()

    @property
    def submission_time(self) -> float:
        """Date of submission (seconds)."""
        return self.job.submission_time

    @property
    def local_id(self) -> str:
        """Identifier within the workload (after ``!``)."""
        return self.job.id.partition("!")[2]

    @property
    def executors(self) -> tuple[int, ...]:
        """The host of each executor."""
        return tuple(self.hosts) if self.placement is None else self.placement

    def ranks(self, count: int) -> list[int]:
        """Return the host of each trace rank: as the job's mapping says, else in turn.

        InputError if it says so for another number of ranks.
        """
        executors = self.executors
        size = self.job.processors
        mapping = self.job.fields.get(RANK_MAPPING)
        if not mapping:
            return [executors[rank % size] for rank in range(count)]
        fits = isinstance(mapping, list) and len(mapping) == count
        if not fits or not all(is_whole_number(index) and 0 <= index < size for index in mapping):
            raise InputError(
                f"{RANK_MAPPING} is {shown(mapping)}; {count} whole numbers from 0 to {size - 1} "
                "are expected, one a rank"
            )
        return [executors[index] for index in mapping]

    def progress(self, now: float, decimals: int = TOLD_DECIMALS) -> dict[str, Any]:
        """Return the job's progress in the form of JOB_KILLED."""
        step = self.execution.steps[self.step]
        if step.delay is not None:
            done = (now - self.step_began) / step.delay
        elif self.computation is not None:
            self.computation.advance(now)
            done = 1.0 - self.computation.remaining
        else:
            done = 0.0 if step.replay is not None else 1.0  # Batsim does not tell of traces.
        done = round(done, decimals)
        told: dict[str, Any] = {"profile_name": step.profile, "progress": done}
        for profile, index in reversed(step.place):
            told = {"profile_name": profile, "current_task_index": index, "current_task": told}
        return told

    def __repr__(self) -> str:
        dates = [f"submitted={self.submission_time:g}"]
        if self.start == self.start:
            dates.append(f"start={self.start:g}")
        if self.finish == self.finish:
            dates.append(f"finish={self.finish:g}")
        hosts = f", hosts='{self.hosts}'" if self.hosts else ""
        return f"JobRecord({self.job.id!r}, {self.state}, {', '.join(dates)}{hosts})"
