"""Columns in and out of the event loop: a workload's jobs and their outcomes."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from qops_batsim.core.machine import Machine
from qops_batsim.core.node_request import NodeLayout
from qops_batsim.core.scheduler import Scheduler
from qops_batsim.engine.engine_options import ExternalEvent
from qops_batsim.engine.loop import SchedulerLoop, Submissions
from qops_batsim.engine.sleeping_jobs import DelayJobs, Outcome
from qops_batsim.engine.world import World
from qops_batsim.jobs import Job
from qops_batsim.platform.host_intervals import HostIntervals
from qops_batsim.workload.workload_model import JobColumns


class SubmittedFields:
    """The workload fields of submitted jobs, by their full identifiers (``w0!1``)."""

    def __init__(self, jobs: Sequence[Job]) -> None:
        self._jobs = jobs
        self._places: dict[str, int] = {}

    def fields_of(self, job_id: str) -> dict[str, Any]:
        """Return a job's fields as in its workload, with its full id. O(1) after the first call."""
        if not self._places:
            self._places = {job.id: place for place, job in enumerate(self._jobs)}
        job = self._jobs[self._places[job_id.partition("!")[2]]]
        return {**job.fields, "id": job_id}


def in_array(kind: str, column: np.ndarray) -> array[Any]:
    """Return a column as the array that the loop takes: of kind ``"d"``, floats, or ``"q"``."""
    made = array(kind)
    made.frombytes(np.ascontiguousarray(column, kind).view(np.uint8).data)
    return made


floats = partial(in_array, "d")
wholes = partial(in_array, "q")


def submissions_of(name: str, columns: JobColumns, listed: Sequence[Job]) -> Submissions:
    """Return the submissions of a workload's jobs, which are ``listed`` in the workload's order.

    The columns are in the order of submission.
    """
    return Submissions(
        name,
        columns.ids,
        columns.requests,
        columns.profile_names,
        wholes(columns.profiles),
        floats(columns.submission_times),
        wholes(columns.processors),
        floats(columns.walltimes),
        SubmittedFields(listed),
        columns.hosts_asked,
    )


def loop_of(
    scheduler: Scheduler,
    jobs: DelayJobs,
    listed: Sequence[Job],
    hosts: int,
    events: Sequence[ExternalEvent] | None,
    world: World | None,
    machine: Machine | None,
) -> SchedulerLoop:
    """Return the event loop of a run whose jobs only sleep; ``listed`` are the workload's jobs.

    If jobs may be registered that do more, ``world`` executes them. With a ``machine``, jobs share
    its hosts by amounts.
    """
    submissions = submissions_of(jobs.name, jobs.columns, listed)
    dated = None if events is None else [(event.timestamp, event.notice()) for event in events]
    run_times = floats(jobs.run_times)
    states = wholes(jobs.states)
    layout = None if machine is None else NodeLayout(machine)
    return SchedulerLoop(scheduler, hosts, submissions, run_times, dated, world, states, layout)


def outcome_of(loop: SchedulerLoop, jobs: DelayJobs) -> Outcome:
    """Return the outcomes of all jobs of a finished run, and free them in the loop.

    ``jobs`` may lack those that the scheduler registered in the run.
    """
    manager = loop.manager
    ended = np.array(loop.ended[: loop.ended_count], np.int64)

    # The intervals of each ended job follow each other in the manager's columns.
    pieces = np.asarray(manager.pieces)[ended]
    first = np.asarray(manager.offsets)[ended]
    offsets = np.zeros(len(ended) + 1, np.int64)
    np.cumsum(pieces, out=offsets[1:])
    places = np.arange(offsets[-1]) + np.repeat(first - offsets[:-1], pieces)
    lows, highs = np.asarray(manager.lows)[places], np.asarray(manager.highs)[places]

    outcome = Outcome(
        jobs=jobs,
        ended=ended,
        starts=np.asarray(loop.starts)[: manager.known],
        finishes=np.asarray(loop.finishes)[: manager.known],
        states=np.asarray(loop.end_states)[: manager.known],
        hosts=HostIntervals(offsets, lows, highs),
        change_dates=np.asarray(manager.change_dates[: manager.changes]),
        computing=np.asarray(manager.computing[: manager.changes]),
        metadata=manager.metadata,
        idle=np.asarray(manager.idle[: manager.changes]) if manager.has_outages else None,
    )
    manager.forget_past()  # Its scheduler may be kept, and it with that.
    return outcome
